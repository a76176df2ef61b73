# SPDX-License-Identifier: Apache-2.0
"""Rows into what the machine is: its levels, lines, ways, translations, policies, and where a rate falls."""
