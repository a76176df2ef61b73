# SPDX-License-Identifier: Apache-2.0
"""A run as lmbench 3 prints its summary, cut to its columns, to compare with its results of twenty years. A missing
number is blank; an empty section is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from tollmeter.model import Index
from tollmeter.report.columns import clean
from tollmeter.report.lmbench_table import (
    DESCRIBED,
    SECTIONS,
    Number,
    SummaryColumn,
    SummaryLine,
    SummarySection,
    copies,
    difference,
    mhz,
    of_largest,
)

_TITLE = """
                 L M B E N C H  3 . 0   S U M M A R Y
                 ------------------------------------
                 (columns of lmbench, a run of Tollmeter)

"""
_NOTHING = "No row of this run is what a column of lmbench means.\n"
_MILLION, _THOUSAND, _WITH_FRACTION, _LEAST = 1e6, 1e3, 10.0, 1e-3
_SHORTEST_HEAD = 6
"""Of a number with an exponent, all but its mantissa."""


def summary(index: Index, others: Sequence[SummaryLine] = ()) -> str:
    """A run, and below it in each table the result files of lmbench."""
    lines = (_line_of(index), *others)
    sections = (_section(lines, section, place) for place, section in enumerate(SECTIONS))
    return _TITLE + ("".join(sections) or _NOTHING)


def _line_of(index: Index) -> SummaryLine:
    machine = index.machine
    numbers = tuple(tuple(column.number(index) for column in section.columns) for section in SECTIONS)
    return SummaryLine(machine.host, " ".join(machine.kernel.split()[:2]), machine.cpu, numbers)


def _section(lines: Sequence[SummaryLine], section: SummarySection, place: int) -> str:
    """A machine without a number of its own has no line, and a table without a machine is left out."""
    shown = [line for line in lines if _has_any(section, line.numbers[place])]
    return section.head + "".join(_line(section, line, place) for line in shown) if shown else ""


def _has_any(section: SummarySection, numbers: Sequence[float | None]) -> bool:
    return any(number for column, number in zip(section.columns, numbers, strict=True) if not column.always)


def _line(section: SummarySection, line: SummaryLine, place: int) -> str:
    cells = (_cell(column, number) for column, number in zip(section.columns, line.numbers[place], strict=True))
    described = f" {_cut(line.description, 23)}" if section is DESCRIBED else ""
    return f"{clean(line.host)[:9]:<9} {_cut(line.system, 13)}{described}{''.join(cells)}\n"


def _cut(text: str, width: int) -> str:
    return f"{clean(text)[:width]:>{width}}"


def _cell(column: SummaryColumn, number: float | None) -> str:
    text = "" if not number or number <= 0 else f"{number:.0f}" if column.whole else cut_number(number, column.width)
    return " " * column.blanks + f"{text:>{column.width}}"[: column.width]


def cut_number(number: float, width: int) -> str:
    """As lmbench's getsummary: K from ten thousand, M from ten million, cut to the column's width."""
    if number >= 10 * _MILLION:
        return f"{f'{number / _MILLION:.1f}'[: width - 1]:>{width - 1}}M"
    if number >= 10 * _THOUSAND:
        return f"{f'{number / _THOUSAND:.1f}'[: width - 1]:>{width - 1}}K"
    if number >= _WITH_FRACTION:
        return f"{f'{number:.1f}'[:width]:>{width}}"
    if number < _LEAST:
        return f"{number:{width}.{max(0, width - _SHORTEST_HEAD)}e}"
    return f"{number:{width}.{width - 2}f}"


# ---- for a bundle ----------------------------------------------------------------------------------------------------


def summary_text() -> str:
    """What needs more than single rows, such as the line of a cache, is left blank there."""
    return "".join(line for section in SECTIONS for line in _portable_section(section))


def _portable_section(section: SummarySection) -> Iterator[str]:
    yield from (f"head\t{line}\n" for line in section.head.splitlines())
    for column in section.columns:
        yield _portable_column(column)
    yield "row\n"


def _portable_column(column: SummaryColumn) -> str:
    shape = f"{column.width}\t{column.blanks}\t{int(column.whole)}\t{int(column.always)}"
    return f"column\t{shape}\t{'|'.join(_cells(column.number))}\n"


def _cells(number: Number) -> Iterator[str]:
    """KIND UNIT PROBE METRIC PARAMETER...; several stand for their mean, and after `sum` for their sum, in which a
    negative unit subtracts."""
    if number in (mhz, copies):
        yield "mhz" if number is mhz else "one"
    if not isinstance(number, partial):
        return
    given = number.keywords
    if number.func is difference:
        yield "sum"
        yield from _terms(number, 1)
    elif "first" in given:
        yield from _cells(given["first"])
        yield from _cells(given["second"])
    elif "name" in given:
        yield f"level {given['name']}"
    elif "probe" in given:
        yield _row(number, 1)


def _terms(number: Number, sign: int) -> Iterator[str]:
    assert isinstance(number, partial)
    if number.func is difference:
        yield from _terms(number.keywords["number"], sign)
        yield from _terms(number.keywords["other"], -sign)
    else:
        yield _row(number, sign)


def _row(number: partial[float | None], sign: int) -> str:
    given = number.keywords
    words = " ".join(f"{name}={value}" for name, value in given["parameters"].items())
    kind = "largest" if number.func is of_largest else "row"
    return f"{kind} {sign * given['unit']:g} {given['probe']} {given['metric']} {words}".strip()
