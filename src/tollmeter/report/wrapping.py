# SPDX-License-Identifier: Apache-2.0
"""Sentences as lines: a number stays with its unit."""

from __future__ import annotations

import re
import textwrap

UNBROKEN = "\N{NO-BREAK SPACE}"
NUMBER = re.compile(r"(?<![\w/.-])([+-]?\d[\d.,]*) (?=[\w%])")
"""With the blank before its unit. No part of a path: that may be longer than a line."""


def bound(text: str) -> str:
    """With blanks that no line ends at between numbers and units. For reading, and not for copying: a shell takes such
    a blank for a letter."""
    return NUMBER.sub(rf"\1{UNBROKEN}", text)


def wrap(text: str, width: int, *, first: int = 0, hanging: int = 0) -> list[str]:
    """first, hanging: blanks before the first line and before the others. A word longer than a line is left whole."""
    broken = textwrap.wrap(bound(text), width, initial_indent=" " * first, subsequent_indent=" " * hanging,
                           break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return [line.replace(UNBROKEN, " ") for line in broken]
