# SPDX-License-Identifier: Apache-2.0
"""Pairs of points that were visited in turns and have no ratio: why, and how much longer a run would give them one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from tollmeter.experiment.pairs import LAYOUT_SERVES, LEAST_BLOCKS
from tollmeter.judgement.opposed import named
from tollmeter.model import Opposed, Outcome, Point, Probe, RunInfo, Uncompared


def uncompared(
    outcomes: Sequence[Outcome], pairs: Mapping[Point, Point], probes: Mapping[str, Probe], told: Sequence[Opposed]
) -> tuple[Uncompared, ...]:
    """The pairs that have no ratio in any metric. told: the ratios that there are."""
    compared = {(one.point, one.against) for one in told}
    return tuple(
        _uncompared(outcomes, pair, probes)
        for pair in pairs.items()
        if (named(pair[0]), named(pair[1])) not in compared
    )


def _uncompared(outcomes: Sequence[Outcome], pair: tuple[Point, Point], probes: Mapping[str, Probe]) -> Uncompared:
    seeds = [{told.round: told.seed for told in outcomes if told.point == one and told.status == "ok"} for one in pair]
    layouts = len({seeds[0][round_] for round_ in seeds[0].keys() & seeds[1].keys()})
    never = _never(outcomes, pair, probes)
    few = f"{layouts} of the {LEAST_BLOCKS} layouts that a ratio needs"
    none = f"fewer than {LEAST_BLOCKS} layouts gave a time above 0 for both"
    is_short = not never and layouts < LEAST_BLOCKS
    return Uncompared(
        point=named(pair[0]), against=named(pair[1]), layouts=layouts, is_short=is_short,
        reason=never or (few if is_short else none),
    )  # fmt: skip


def _never(outcomes: Sequence[Outcome], pair: tuple[Point, Point], probes: Mapping[str, Probe]) -> str:
    """Why no longer run would give a ratio; empty where one may."""
    good = {told.point for told in outcomes if told.status == "ok"}
    for told in outcomes:
        is_lost = told.status == "wrong_answer" or (told.status != "interrupted" and told.point not in good)
        if told.point in pair and is_lost:
            return f"{named(told.point)} has no number ({told.reason or told.status})"
    clocks = {told.clock.kind for told in outcomes if told.point in pair and told.status == "ok"}
    if len(clocks) > 1:
        return f"the clocks of the two are not comparable ({' and '.join(sorted(clocks))})"
    first, second = ({one.name for one in probes[point.probe].metrics if one.source != "gauge"} for point in pair)
    return "" if first & second else "the two have no timed metric in common"


def seconds_wanted(outcomes: Sequence[Outcome], lacking: Sequence[Uncompared], points: int, run: RunInfo) -> float:
    """Of measuring, until each pair has the layouts of a ratio, by what the timed batches of this run took and, for
    each of its layouts, all else; infinite where the run has no visit, or no pair lacks layouts."""
    visits = [told for told in outcomes if told.status == "ok"]
    if not visits or not any(one.is_short for one in lacking):
        return inf
    layouts = len({(told.point, told.seed) for told in visits})
    timed_s = run.seconds * run.timed_share
    of_layout_s = (run.seconds - timed_s) / layouts + LAYOUT_SERVES * timed_s / len(visits)
    return points * LEAST_BLOCKS * of_layout_s
