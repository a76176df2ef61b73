# SPDX-License-Identifier: Apache-2.0
"""Compares choices of a study: its two profiles on each target, its alternatives in the order of their gain, and the
break-even of two costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tollmeter.model import BreakEven, Option, Profile, Results, Row, RowOf, Suite
from tollmeter.numbers.meanings import HERE, main_abi
from tollmeter.numbers.stats import Estimate
from tollmeter.studies.matching_rows import VIRTUAL, RatioOfRows, matching, ratio_of_rows

Place = tuple[str, str]
"""ABI and target."""


@dataclass(frozen=True)
class AbiPair:
    """Two profiles of one target. gain: ratio of their rows; None if it has no interval."""

    left: Profile
    right: Profile
    titles: tuple[str, str]
    gain: float | None


Ranking = Sequence[tuple[Option, Row, RatioOfRows]]
"""The alternatives with a number on one target, each with its gain over the first one, the best first."""


@dataclass(frozen=True)
class Even:
    """A break-even. asked: the compared costs. each: row of the cost of each item. once_ns: cost paid once. within_ns:
    half-width of its interval."""

    place: Place
    asked: BreakEven
    each: Row
    once_ns: float
    within_ns: float

    @property
    def each_ns(self) -> float:
        """Returns the ns of each item."""
        return self.each.median or 0.0

    @property
    def number(self) -> float:
        """Returns the number of items that together cost as much as the cost paid once."""
        return self.once_ns / (self.each.median or self.once_ns)


# ---- two profiles ---------------------------------------------------------------------------------------------------


def pairs(results: Results, suite: Suite) -> list[AbiPair]:
    """Returns the two profiles of a study on each target that has both."""
    wanted_pair = suite.beside
    if wanted_pair is None:
        return []
    lefts, rights = (
        {
            (profile.abi, profile.target): profile
            for profile in results.index.profiles
            if not profile.reason and profile.probe == wanted.probe
            and wanted.parameters.items() <= profile.parameters.items()
        }
        for wanted in (wanted_pair.left, wanted_pair.right)
    )  # fmt: skip
    answers = []
    for place in (place for place in lefts if place in rights):
        left, right = _row(results, wanted_pair.left, place), _row(results, wanted_pair.right, place)
        times = gain(results, left, right) if left and right else None
        answers.append(
            AbiPair(
                lefts[place], rights[place], wanted_pair.titles, times.ratio.value if times and times.is_known else None
            )
        )
    return answers


def part_like(profile: Profile, forms: Sequence[str]) -> Estimate:
    """Returns the share in percent of all functions that match one of some globs, with its interval if known."""
    like = [share for share in profile.shares if any(fnmatchcase(share.function, form) for form in forms)]
    part = 100 * sum(share.hits for share in like) / (profile.hits or 1)
    within = math.hypot(*(share.within or 0.0 for share in like))
    return Estimate(part, part - within, part + within)


# ---- options --------------------------------------------------------------------------------------------------------


def ranked_options(results: Results, suite: Suite) -> dict[Place, Ranking]:
    """Returns the ranking on each ABI and target on which the first option and another one have a number; the machine's
    own ABI is first."""
    if not suite.option:
        return {}
    main = (main_abi(results.index.rows, results.index.machine.architecture), HERE)
    places = dict.fromkeys((row.abi, row.target) for row in matching(results, suite.option[0].row) if row.median)
    rankings = {
        place: _ranked(results, suite.option, place) for place in sorted(places, key=lambda place: place != main)
    }
    return {place: ranking for place, ranking in rankings.items() if ranking}


def _ranked(results: Results, options: Sequence[Option], place: Place) -> Ranking:
    """Returns the ranking of the options; empty if fewer than two have a number."""
    rows = [(option, row) for option in options if (row := _row(results, option.row, place)) is not None]
    if len(rows) < 2:
        return ()
    base = rows[0][1]
    gains = [(option, row, gain(results, base, row)) for option, row in rows]
    return sorted(gains, key=lambda each: -each[2].ratio.value)


def gain(results: Results, base: Row, row: Row) -> RatioOfRows:
    """Returns how many times as good a row is as the base row, for times and for rates."""
    return ratio_of_rows(results, base, row) if row.better == "more" else ratio_of_rows(results, row, base)


def _row(results: Results, wanted: RowOf, place: Place) -> Row | None:
    """Returns the row with a number that matches on this ABI and target; None without one."""
    rows = (row for row in matching(results, wanted) if row.status == "ok" and (row.median or 0.0) > 0)
    return next((row for row in rows if (row.abi, row.target) == place), None)


# ---- break-even -----------------------------------------------------------------------------------------------------


_CLOCKS = ("hardware", VIRTUAL)
"""Clocks of break-evens. The count of an emulator of single programs lacks the kernel's share, which is most of a
trap."""


def break_evens(results: Results, suite: Suite) -> Iterator[Even]:
    """Yields break-evens of rows of one target and clock; those by hardware before those by an emulator."""
    compared = suite.break_even
    if compared is None:
        return
    rows = [row for wanted in (compared.each, *compared.also) for row in matching(results, wanted)]
    for each in sorted(rows, key=lambda row: row.clock == VIRTUAL):
        place = each.abi, each.target
        once, without = (_row(results, wanted, place) for wanted in (compared.once, compared.without))
        if not (each.status == "ok" and each.median and once and without and once.median and without.median):
            continue
        if each.clock in _CLOCKS and {once.clock, without.clock} == {each.clock}:
            within = math.hypot(_half_ns(once), _half_ns(without))
            yield Even(place, compared, each, once.median - without.median, within)


def _half_ns(row: Row) -> float:
    """Returns half of the interval of a row in ns; 0 without one."""
    return (row.high - row.low) / 2 if row.high is not None and row.low is not None else 0.0
