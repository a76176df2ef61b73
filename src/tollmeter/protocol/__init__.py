# SPDX-License-Identifier: Apache-2.0
"""The record protocol: bytes to records and back. Pure; strict about order and checksum, tolerant of unknown keys."""

from tollmeter.protocol.framing import (
    LONGEST_LINE,
    PROTOCOL,
    Damaged,
    RecordLine,
    check_order,
    find_line,
    find_lines,
    joined,
    joined_lines,
    lines_of,
    read_line,
    read_next,
    records_of_visit,
    seal,
    sealed,
)
from tollmeter.protocol.line_marks import MARK, NotTimed, Stamp, retimed
from tollmeter.protocol.reading import Head, Outcomes, clean, clean_json, clean_suite, description, head, outcome
from tollmeter.protocol.visits import Trouble, closed, refused, reported, words

__all__ = [
    "LONGEST_LINE",
    "MARK",
    "PROTOCOL",
    "Damaged",
    "Head",
    "NotTimed",
    "Outcomes",
    "RecordLine",
    "Stamp",
    "Trouble",
    "check_order",
    "clean",
    "clean_json",
    "clean_suite",
    "closed",
    "description",
    "find_line",
    "find_lines",
    "head",
    "joined",
    "joined_lines",
    "lines_of",
    "outcome",
    "read_line",
    "read_next",
    "records_of_visit",
    "refused",
    "reported",
    "retimed",
    "seal",
    "sealed",
    "words",
]  # fmt: skip
