# SPDX-License-Identifier: Apache-2.0
"""A study's own answer beyond its figures: its two profiles beside ours, its ways out by what each gains here and takes
to do, and from how many of something on the one costs more than the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tollmeter.model import Beside, Book, BreakEven, Option, Profile, Row, RowOf, Suite
from tollmeter.numbers.meanings import HERE, main_abi
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import DASH, percent, plain, time, two_digits
from tollmeter.report.profiles import Block, known_like, side_by_side
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.studies.asked_rows import matching

Place = tuple[str, str]
"""ABI and target."""
ALIKE = 0.03
KNOWN_WITHIN = 1.1
"""From the low to the high end of an interval."""


@dataclass(frozen=True)
class Pair:
    """Two profiles of one place; published: what the study has beside them, as a table; gain: how many times as good
    the right one is by its row, which knows more of it than a profile."""

    left: Profile
    right: Profile
    titles: tuple[str, str]
    published: Table | None
    gain: float | None


@dataclass(frozen=True)
class Ways:
    """What each way out gains in one place, the best first. best: which it is, by how much, and what it takes; said:
    the same, and what is as good."""

    place: str
    table: Table
    best: str
    said: str


@dataclass(frozen=True)
class Even:
    """each_ns is paid for every one, once_ns once for all; said: from how many on the first is dearer."""

    place: str
    thing: str
    each_ns: float
    once_ns: float
    said: str


def answer(book: Book, suite: Suite) -> list[Block]:
    """All of it, place by place, in the order in which it is read."""
    told = [
        replace(side, tables=(*side.tables, *([pair.published] if pair.published else [])))
        for pair in pairs(book, suite)
        for side in [side_by_side(pair.left, pair.right, pair.titles, pair.gain)]
    ]
    reasons = tuple(f"No profile for {reason}" for reason in unprofiled(book))
    told += [Block(said=reasons)] if reasons else []
    told += [Block((f"What to do next, {ways.place}",), (ways.table,), (ways.said,)) for ways in ways_out(book, suite)]
    return told + [
        Block((f"{even.thing[:1].upper()}{even.thing[1:]} a packet, {even.place}",), (), (even.said,))
        for even in break_evens(book, suite)
    ]


# ---- two profiles ---------------------------------------------------------------------------------------------------


def pairs(book: Book, suite: Suite) -> list[Pair]:
    """One for each place that has both."""
    asked = suite.beside
    if asked is None:
        return []
    lefts, rights = (
        {(one.abi, one.target): one for one in book.index.profiles if not one.reason and _is(one, wanted)}
        for wanted in (asked.left, asked.right)
    )
    return [Pair(lefts[place], rights[place], asked.titles, _published(suite, lefts[place], rights[place]),
                 _gain_by_rows(book, asked, place))
            for place in lefts if place in rights]  # fmt: skip


def _gain_by_rows(book: Book, asked: Beside, place: Place) -> float | None:
    """Where both are known well; a row that is not says less than the profile."""
    left, right = _row(book, asked.left, place), _row(book, asked.right, place)
    return _gain(left, right) if left and right and _is_known(left) and _is_known(right) else None


def unprofiled(book: Book) -> list[str]:
    """Why a point has no profile, each reason once."""
    return list(dict.fromkeys(f"{one.abi}, {one.target}: {one.reason}" for one in book.index.profiles if one.reason))


def _is(profile: Profile, wanted: RowOf) -> bool:
    return profile.probe == wanted.probe and all(
        profile.parameters.get(name) == value for name, value in wanted.parameters.items()
    )


def _published(suite: Suite, left: Profile, right: Profile) -> Table | None:
    if suite.beside is None or not suite.beside.shares:
        return None
    rows = [
        Line((share.function, *_ratios(*parts), *_here(share.here, left, right)))
        for share, *parts in suite.beside.busy()
    ]
    columns = [Column("% of the busy time"), *(Column(f"{title}, published", True) for title in suite.beside.titles),
               *(Column(f"{title}, here", True) for title in suite.beside.titles)]  # fmt: skip
    return table("% of the busy time", columns, rows)


def _ratios(left: float, right: float) -> tuple[str, str]:
    return f"{left:.1f}" if left else DASH, f"{right:.1f}" if right else DASH


def _here(forms: Sequence[str], left: Profile, right: Profile) -> tuple[str, str]:
    return (known_like(left, forms), known_like(right, forms)) if forms else (DASH, DASH)


# ---- ways out -------------------------------------------------------------------------------------------------------


def ways_out(book: Book, suite: Suite) -> list[Ways]:
    """One for each place where the first option and another have a number, this machine's own ABI first."""
    if not suite.option:
        return []
    own = (main_abi(book.index.rows, book.index.machine.architecture), HERE)
    places = dict.fromkeys((row.abi, row.target) for row in matching(book, suite.option[0].row) if row.median)
    found = (_ways(book, suite.option, place) for place in sorted(places, key=lambda place: place != own))
    return [one for one in found if one is not None]


def _ways(book: Book, options: Sequence[Option], place: Place) -> Ways | None:
    rows = [(option, row) for option in options if (row := _row(book, option.row, place)) is not None]
    if len(rows) < 2:
        return None
    base = rows[0][1]
    ranked = sorted(rows, key=lambda told: -_gain(base, told[1]))
    lines = [Line((option.what, of_row(row), f"{plain(_gain(base, row))} ×", option.costs)) for option, row in ranked]
    columns = [Column("What to do"), Column("here", True), Column("gain", True), Column("what it takes")]
    best = _best(base, *ranked[0])
    said = f"{best}{_beside(base, ranked)}"
    return Ways(f"{place[0]}, {place[1]}", table("What to do", columns, lines), best, said)


def _best(base: Row, option: Option, row: Row) -> str:
    """By how much it is better than what there was, and what it takes."""
    gain = _gain(base, row)
    if gain < 1 + ALIKE:
        return "None of these gains 3 % here: leave it as it is."
    poor = "" if _is_known(base) and _is_known(row) else "about "
    what = "the throughput" if row.clock == "hardware" else "as good by the count of instructions"
    return f"Best here: {option.what}, {poor}{plain(gain)} × {what}. It takes {option.costs}."


def _beside(base: Row, ranked: Sequence[tuple[Option, Row]]) -> str:
    """What does nearly as much as the best: within 3 % two are alike. And whether more visits would tell better."""
    (_, row), *others = ranked
    gain = _gain(base, row)
    if gain < 1 + ALIKE:
        return ""
    alike = [option.what for option, other in others if gain / _gain(base, other) < 1 + ALIKE]
    also = f" As good within 3 %: {'; '.join(alike)}." if alike else ""
    settled = _is_known(base) and _is_known(row)
    return also if settled else f"{also} Its rows have not converged; a longer run tells how much."


def _is_known(row: Row) -> bool:
    return bool(row.low and row.high and row.high / row.low < KNOWN_WITHIN)


def _gain(base: Row, row: Row) -> float:
    """How many times as good as the first, whichever way is better."""
    if not base.median or not row.median:
        return 0.0
    return row.median / base.median if row.better == "more" else base.median / row.median


def _row(book: Book, wanted: RowOf, place: Place) -> Row | None:
    rows = (row for row in matching(book, wanted) if row.status == "ok" and row.median)
    return next((row for row in rows if (row.abi, row.target) == place), None)


# ---- break-even -----------------------------------------------------------------------------------------------------


def break_evens(book: Book, suite: Suite) -> list[Even]:
    asked = suite.break_even
    if asked is None:
        return []
    places = list(dict.fromkeys((row.abi, row.target) for row in matching(book, asked.each) if row.clock == "hardware"))
    return list(_evens(book, asked, places))


def _evens(book: Book, asked: BreakEven, places: Sequence[Place]) -> Iterator[Even]:
    for place in places:
        each, once, without = (_row(book, wanted, place) for wanted in (asked.each, asked.once, asked.without))
        if not (each and once and without and each.median and once.median and without.median):
            continue
        paid = once.median - without.median
        within = math.hypot(_half_ns(once), _half_ns(without))
        said = _even(asked, each, paid, within)
        yield Even(f"{place[0]}, {place[1]}", asked.thing, each.median, paid, said)


def _half_ns(row: Row) -> float:
    """Half of its interval; nothing where it has none."""
    return (row.high - row.low) / 2 if row.high is not None and row.low is not None else 0.0


def _even(asked: BreakEven, each: Row, once_ns: float, within_ns: float) -> str:
    """once_ns is a difference: it is known no better than both of what it is made of."""
    head = f"One costs {of_row(each)}, and {asked.remedy}"
    if once_ns <= within_ns:
        return f"{head} less than {two_digits(max(once_ns, 0.0) + within_ns, 'ns')}: {_from(asked, 1)}."
    paid = f"{head} {time(once_ns, once_ns - within_ns, once_ns + within_ns)}"
    number = once_ns / (each.median or once_ns)
    if number < 1:
        return f"{paid}, {percent(number)} of that: {_from(asked, 1)}."
    return f"{paid}: {_from(asked, int(number) + 1)}, and up to {int(number)} it is not."


def _from(asked: BreakEven, number: int) -> str:
    return f"the latter is better from {'the first' if number == 1 else number} of the {asked.thing} on"
