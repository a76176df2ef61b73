# SPDX-License-Identifier: Apache-2.0
"""A study's programs: what each needs of memory and of CPU time under one ABI, relative to the machine's own ABI.

Two ABIs are compared where both were measured by one clock in one place. Memory is real wherever a kernel of its own
gives it, under an emulated CPU too; time only where the clock is the hardware's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from tollmeter.judgement.compare import ratio_of
from tollmeter.judgement.verdict import is_known
from tollmeter.model import Book, Program, Relative, Row, RowOf
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning
from tollmeter.studies.asked_rows import NOT_TOGETHER, matching, own_reason

Measure = Literal["memory", "time"]
MEANS = {"memory": "resident-peak", "time": "cpu-time"}
_PER_CENT = re.compile(r"([+−-]?\d+(?:\.\d+)?) %")


def relatives(book: Book) -> tuple[Relative, ...]:
    """Programs in the suite's order, memory first; none for a suite of no programs."""
    suite = book.suite
    main = main_abi(book.index.rows, book.index.machine.architecture)
    if suite is None or main is None:
        return ()
    measures: tuple[Measure, ...] = ("memory", "time")
    return tuple(
        _relative(book, program, measure, (abi, main))
        for measure in measures
        for program in suite.program
        for abi in _others(book, program, main)
    )


def published_ratio(relative: Relative) -> float | None:
    """Its published change in per cent as a ratio; None where the study gives none."""
    match = _PER_CENT.search(relative.published)
    return 1 + float(match[1].replace("−", "-")) / 100 if match else None


def _others(book: Book, program: Program, main: str) -> Iterator[str]:
    """The ABI that the suite is about first."""
    about = book.suite.worth if book.suite else ""
    seen = dict.fromkeys(row.abi for row in book.index.rows if row.probe == program.probe and row.abi != main)
    yield from sorted(seen, key=lambda abi: (abi != about, abi))


def _relative(book: Book, program: Program, measure: Measure, abis: tuple[str, str]) -> Relative:
    """abis: of the numerator and of the denominator."""
    abi, main = abis
    pairs = list(_pairs(book, program, measure, abis))
    bare = Relative(what=program.what, primitive=program.primitive, measure=measure, abi=abi, over=main, target=None,
                    value=None, low=None, high=None, published=_published(book, program, measure, abi))  # fmt: skip
    if not pairs:
        return msgspec.structs.replace(bare, reason=_why(book, program, measure, abis))
    row, twin = pairs[0]
    ratio = ratio_of(twin, row)
    thin = not (is_known(row) and is_known(twin))
    return msgspec.structs.replace(
        bare, target=row.target, value=ratio.value, low=ratio.low, high=ratio.high, thin=thin
    )


def _published(book: Book, program: Program, measure: Measure, abi: str) -> str:
    """Whether the study describes one ABI alone."""
    about = (book.suite.worth if book.suite else "") or abi
    return (program.memory if measure == "memory" else program.time) if abi == about else ""


def _pairs(book: Book, program: Program, measure: Measure, abis: tuple[str, str]) -> Iterator[tuple[Row, Row]]:
    """This machine itself first, then by name."""
    ones, others = (_rows(book, program, measure, abi) for abi in abis)
    for one in sorted(ones, key=lambda row: (row.target != HERE, row.target)):
        for other in others:
            if (one.target, one.clock, one.parameters) == (other.target, other.clock, other.parameters):
                yield one, other


def _rows(book: Book, program: Program, measure: Measure, abi: str) -> Sequence[Row]:
    rows = with_meaning(book.index.rows, book.probes, MEANS[measure])
    return [
        row
        for row in rows
        if (row.probe, row.abi) == (program.probe, abi)
        and all(row.parameters.get(name) == value for name, value in program.parameters.items())
        and (row.median or 0) > 0
        and (row.clock == "hardware" or (measure == "memory" and row.clock == "virtual"))
    ]


def _why(book: Book, program: Program, measure: Measure, abis: tuple[str, str]) -> str:
    for abi in abis:
        if _rows(book, program, measure, abi):
            continue
        wanted = RowOf(probe=program.probe, abi=abi, parameters=program.parameters)
        is_timed = any(row.clock == "hardware" for row in matching(book, wanted))
        if measure == "time" and not is_timed and book.suite and abi == book.suite.worth and book.suite.mend:
            return book.suite.mend
        return own_reason(book, wanted) or f"This run has no row of {program.probe} for {abi}."
    return NOT_TOGETHER
