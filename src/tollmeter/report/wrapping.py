# SPDX-License-Identifier: Apache-2.0
"""Sentences as lines: a number stays with its unit, and a command is never broken.

A command inside a sentence is between backticks, and is written `toll ...` where it is Tollmeter's own: it is replaced
by the command that the user types here when the sentence is printed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from tollmeter.root import typed

UNBROKEN = "\N{NO-BREAK SPACE}"
NUMBER = re.compile(r"(?<![\w/.-])([+-]?\d[\d.,]*) (?=[\w%])")
"""With the blank before its unit. No part of a path: that may be longer than a line."""
CODE = re.compile(r"`([^`]+)`")
WHOLE = re.compile(r"`[^`]+`|(?<!\w)'[^']*'(?!\w)")
"""A command, or a quoted word of one. An apostrophe follows a letter, and opens nothing."""


def bound(text: str) -> str:
    """With no-break spaces between numbers and units. Not for copying: a shell takes one for a letter."""
    return NUMBER.sub(rf"\1{UNBROKEN}", text)


def wrap(text: str, width: int, *, first: int = 0, hanging: int = 0) -> list[str]:
    """first, hanging: indents of the first and of other lines. A longer word or command stays whole."""
    held = WHOLE.sub(lambda match: match[0].replace(" ", UNBROKEN), bound(spoken(text)))
    broken = textwrap.wrap(held, width, initial_indent=" " * first, subsequent_indent=" " * hanging,
                           break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return [line.replace(UNBROKEN, " ") for line in broken]


def parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is a command."""
    return ((piece, place % 2 == 1) for place, piece in enumerate(CODE.split(spoken(text))) if piece)


def spoken(text: str) -> str:
    """With Tollmeter's own commands as they are typed here."""
    return re.sub(r"`(?:\./)?toll ", lambda _: f"`{typed()} ", text)
