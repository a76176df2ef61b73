# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: the journal is the truth, everything else is derived from it."""
