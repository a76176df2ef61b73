# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: the journal is the only source, and every other file is derived from it."""
