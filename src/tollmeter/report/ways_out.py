# SPDX-License-Identifier: Apache-2.0
"""A study's own answer in words and tables: its two profiles beside ours, its options by gain and cost, and its
break-even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tollmeter.model import Book, Option, Row, Suite
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import DASH, percent, plain, time, two_digits
from tollmeter.report.profiles import Block, known_like, side_by_side
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.studies.choices import Even, Pair, Ranked, break_evens, gain, is_narrow, pairs, ranked

ALIKE = 0.03


@dataclass(frozen=True)
class Ways:
    """Ways out of one place, best first. best: its name, gain and cost; sentence: also which others are as good."""

    place: str
    table: Table
    best: str
    sentence: str


def answer(book: Book, suite: Suite) -> list[Block]:
    """All of it, place by place, in the order in which it is read."""
    blocks = [
        replace(side, tables=(*side.tables, *published(suite, pair)))
        for pair in pairs(book, suite)
        for side in [side_by_side(pair.left, pair.right, pair.titles, pair.gain)]
    ]
    reasons = tuple(f"No profile for {reason}" for reason in unprofiled(book))
    blocks += [Block(sentences=reasons)] if reasons else []
    blocks += [
        Block((f"What to do next, {ways.place}",), (ways.table,), (ways.sentence,)) for ways in ways_out(book, suite)
    ]
    return blocks + [
        Block((f"{even.asked.thing[:1].upper()}{even.asked.thing[1:]} a packet, {', '.join(even.place)}",), (),
              (in_words(even),))
        for even in break_evens(book, suite)
    ]  # fmt: skip


def unprofiled(book: Book) -> list[str]:
    """Why a point has no profile, each reason once."""
    return list(
        dict.fromkeys(
            f"{profile.abi}, {profile.target}: {profile.reason}" for profile in book.index.profiles if profile.reason
        )
    )


def published(suite: Suite, pair: Pair) -> list[Table]:
    """The study's shares beside ours; none where it has none."""
    if suite.beside is None or not suite.beside.shares:
        return []
    rows = [Line((share.function, *_ratios(*parts), *_here(share.here, pair))) for share, *parts in suite.beside.busy()]
    columns = [Column("% of the busy time"), *(Column(f"{title}, published", True) for title in pair.titles),
               *(Column(f"{title}, here", True) for title in pair.titles)]  # fmt: skip
    return [table("% of the busy time", columns, rows)]


def _ratios(left: float, right: float) -> tuple[str, str]:
    return f"{left:.1f}" if left else DASH, f"{right:.1f}" if right else DASH


def _here(forms: Sequence[str], pair: Pair) -> tuple[str, str]:
    return (known_like(pair.left, forms), known_like(pair.right, forms)) if forms else (DASH, DASH)


# ---- ways out -------------------------------------------------------------------------------------------------------


def ways_out(book: Book, suite: Suite) -> list[Ways]:
    return [_ways(ranking) for ranking in ranked(book, suite)]


def _ways(ranking: Ranked) -> Ways:
    base, rows = ranking.base, ranking.options
    lines = [Line((option.what, of_row(row), f"{plain(gain(base, row))} ×", option.costs)) for option, row in rows]
    columns = [Column("What to do"), Column("here", True), Column("gain", True), Column("what it takes")]
    best = _best(base, *rows[0])
    return Ways(", ".join(ranking.place), table("What to do", columns, lines), best, f"{best}{_beside(base, rows)}")


def _best(base: Row, option: Option, row: Row) -> str:
    """By how much it is better than what there was, and what it takes."""
    best = gain(base, row)
    if best < 1 + ALIKE:
        return "None of these gains 3 % here: leave it as it is."
    poor = "" if is_narrow(base) and is_narrow(row) else "about "
    what = "the throughput" if row.clock == "hardware" else "as good by the count of instructions"
    return f"Best here: {option.what}, {poor}{plain(best)} × {what}. It takes {option.costs}."


def _beside(base: Row, rows: Sequence[tuple[Option, Row]]) -> str:
    """What does nearly as much as the best: within 3 % two are alike. And whether more visits would tell better."""
    (_, row), *others = rows
    best = gain(base, row)
    if best < 1 + ALIKE:
        return ""
    alike = [option.what for option, other in others if best / gain(base, other) < 1 + ALIKE]
    also = f" As good within 3 %: {'; '.join(alike)}." if alike else ""
    settled = is_narrow(base) and is_narrow(row)
    return also if settled else f"{also} Its rows have not converged; a longer run tells how much."


# ---- break-even -----------------------------------------------------------------------------------------------------


def in_words(even: Even) -> str:
    """What is paid once is a difference: it is known no better than both of what it is made of."""
    asked, once_ns, within_ns = even.asked, even.once_ns, even.within_ns
    head = f"One costs {of_row(even.each)}, and {asked.remedy}"
    if once_ns <= within_ns:
        return f"{head} less than {two_digits(max(once_ns, 0.0) + within_ns, 'ns')}: {_from(asked.thing, 1)}."
    paid = f"{head} {time(once_ns, once_ns - within_ns, once_ns + within_ns)}"
    number = even.number
    if number < 1:
        return f"{paid}, {percent(number)} of that: {_from(asked.thing, 1)}."
    return f"{paid}: {_from(asked.thing, int(number) + 1)}, and up to {int(number)} it is not."


def _from(thing: str, number: int) -> str:
    return f"the latter is better from {'the first' if number == 1 else number} of the {thing} on"
