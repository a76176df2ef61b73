# SPDX-License-Identifier: Apache-2.0
"""The exit codes of all verbs. docs/exit-codes.md states the meaning of each."""

DONE, FAILED, USAGE, TRIPPED, INCONCLUSIVE = 0, 1, 2, 3, 4
INFRASTRUCTURE, NOTHING_RAN, INCOMPLETE, INTERRUPTED = 5, 6, 7, 130
