# SPDX-License-Identifier: Apache-2.0
"""The columns of lmbench's summary as the text that probes/runtime/bundle/summary.c reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tollmeter.report.lmbench_table import SECTIONS, Number, SummaryColumn, SummarySection, copies, mhz, of_largest


def summary_text() -> str:
    """What needs more than single rows, such as the line of a cache, is left blank there."""
    return "".join(line for section in SECTIONS for line in _section(section))


def _section(section: SummarySection) -> Iterator[str]:
    yield from (f"head\t{line}\n" for line in section.head.splitlines())
    for column in section.columns:
        yield _column(column)
    yield "row\n"


def _column(column: SummaryColumn) -> str:
    shape = f"{column.width}\t{column.blanks}\t{int(column.whole)}\t{int(column.always)}"
    return f"column\t{shape}\t{'|'.join(_cells(column.number))}\n"


def _cells(number: Number) -> Iterator[str]:
    """KIND UNIT PROBE METRIC PARAMETER...; several stand for their mean."""
    if number in (mhz, copies):
        yield "mhz" if number is mhz else "one"
    if not isinstance(number, partial):
        return
    given = number.keywords
    if "first" in given:
        yield from _cells(given["first"])
        yield from _cells(given["second"])
    elif "name" in given:
        yield f"level {given['name']}"
    elif "probe" in given:
        words = " ".join(f"{name}={value}" for name, value in given["parameters"].items())
        kind = "largest" if number.func is of_largest else "row"
        yield f"{kind} {given['unit']:g} {given['probe']} {given['metric']} {words}".strip()
