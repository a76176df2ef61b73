# SPDX-License-Identifier: Apache-2.0
"""Pairs of an interleaved comparison without a ratio: the reason, and the budget that would suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from tollmeter.experiment.pairs import LAYOUT_SERVES, LEAST_BLOCKS
from tollmeter.judgement.opposed import named
from tollmeter.model import Opposed, Outcome, Point, Probe, RunInfo, Uncompared
from tollmeter.numbers.meanings import is_timed


def uncompared(
    outcomes: Sequence[Outcome],
    pairs: Mapping[Point, Point],
    probes: Mapping[str, Probe],
    compared_pairs: Sequence[Opposed],
) -> tuple[Uncompared, ...]:
    """The pairs without a ratio in any metric. compared_pairs: the ratios that there are."""
    compared = {(done.point, done.against) for done in compared_pairs}
    return tuple(
        _uncompared(outcomes, pair, probes)
        for pair in pairs.items()
        if (named(pair[0]), named(pair[1])) not in compared
    )


def _uncompared(outcomes: Sequence[Outcome], pair: tuple[Point, Point], probes: Mapping[str, Probe]) -> Uncompared:
    seeds = [
        {outcome.round: outcome.seed for outcome in outcomes if outcome.point == point and outcome.status == "ok"}
        for point in pair
    ]
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
    good = {outcome.point for outcome in outcomes if outcome.status == "ok"}
    for outcome in outcomes:
        is_lost = outcome.status == "wrong_answer" or (outcome.status != "interrupted" and outcome.point not in good)
        if outcome.point in pair and is_lost:
            return f"{named(outcome.point)} has no number ({outcome.reason or outcome.status})"
    clocks = {outcome.clock.kind for outcome in outcomes if outcome.point in pair and outcome.status == "ok"}
    if len(clocks) > 1:
        return f"the clocks of the two are not comparable ({' and '.join(sorted(clocks))})"
    first, second = ({metric.name for metric in probes[point.probe].metrics if is_timed(metric)} for point in pair)
    return "" if first & second else "the two have no timed metric in common"


def seconds_wanted(outcomes: Sequence[Outcome], lacking: Sequence[Uncompared], points: int, run: RunInfo) -> float:
    """Of measuring, until each pair has the layouts of a ratio, by what the timed batches of this run took and, for
    each of its layouts, all else; infinite where the run has no visit, or no pair lacks layouts."""
    visits = [outcome for outcome in outcomes if outcome.status == "ok"]
    if not visits or not any(pair.is_short for pair in lacking):
        return inf
    layouts = len({(outcome.point, outcome.seed) for outcome in visits})
    timed_s = run.seconds * run.timed_share
    of_layout_s = (run.seconds - timed_s) / layouts + LAYOUT_SERVES * timed_s / len(visits)
    return points * LEAST_BLOCKS * of_layout_s
