# SPDX-License-Identifier: Apache-2.0
"""Judgement of runs: the verdict of a run, and the changes between two runs."""
