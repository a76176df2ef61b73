# SPDX-License-Identifier: Apache-2.0
"""Runs into verdicts: what is known well enough, and what changed between two."""
