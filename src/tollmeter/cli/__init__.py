# SPDX-License-Identifier: Apache-2.0
"""The verbs, one file each: parse, call, print. Nothing else in the house prints or exits."""
