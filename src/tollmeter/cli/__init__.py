# SPDX-License-Identifier: Apache-2.0
"""The verbs, one file each: parse, call, print. No other package prints or exits."""
