# SPDX-License-Identifier: Apache-2.0
"""Compares two points with interleaved visits: which is slower, and by how much."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.limits import LEAST_VALUES
from tollmeter.experiment.pairs import (
    LAYOUT_SERVES,
    LEAST_BLOCKS,
    Ratio,
    blocks_of,
    blocks_of_runs,
    blocks_wanted,
    ratio_of_blocks,
)
from tollmeter.experiment.precision import middle_of
from tollmeter.model import (
    RATIO_PRECISION,
    Clock,
    Metric,
    Opposed,
    OpposedVerdict,
    Outcome,
    Point,
    Probe,
    Row,
    RunInfo,
    Uncompared,
    assignments,
)
from tollmeter.numbers.known import Known
from tollmeter.numbers.meanings import is_timed
from tollmeter.numbers.readings import RATES, Overheads, Reading, costs, overheads
from tollmeter.numbers.row_of import as_instructions
from tollmeter.numbers.stats import benjamini_hochberg

MOST_P, MOST_P_WHEN_PRECISE = 0.002, 0.0007
"""Highest p-values at which two points are called different, so that at most 0.5 % of equal pairs are. The first is for
a pair whose measuring was ended by the budget, the second for a pair that reached its precision: blocks that scatter
little by chance end a run early, and their scatter then understates the error (decision 14)."""
LEAST_DIFFERENCE = 0.001
"""Smallest difference that is resolved, as a share. A batch is timed to a clock step, about 1e-4 of its time, and its
overhead is estimated for each point. A run of 143 layouts called two executables of one source different, by 0.001
%."""
_LEAST_WHOLE = 1 / 3
"""Least share of all pairs on an uncontended core with which only these pairs are used."""

Against = tuple[Point, Point]
"""A point and its reference point."""
Pair = tuple[int, float, float]
"""Seed of the layout, and costs of the first and of the second point."""


class _Side(NamedTuple):
    """One of two interleaved points. readings: its visits by round. paid: the times that each of its batches pays
    once."""

    probe: Probe
    readings: Mapping[int, Reading]
    paid: Overheads

    def stated(self, metric: Metric) -> Metric:
        """Returns the metric as the rows of this point state it: if instructions were counted, a rate becomes
        instructions of one of its units."""
        return as_instructions(metric) if "instructions" in self.clocks() else metric

    def clocks(self) -> set[Clock]:
        """Returns the kinds of clocks that timed the visits."""
        return {read.outcome.clock.kind for read in self.readings.values()}


def opposed(
    outcomes: Sequence[Outcome], pairs: Collection[Against], probes: Mapping[str, Probe], known: Known,
    precision: float = RATIO_PRECISION,
) -> tuple[Opposed, ...]:  # fmt: skip
    """Returns one record for each timed metric of each pair that has enough visits, in the order of the pairs.
    precision: the requested half-width, as a share."""
    sides = _sides(outcomes, pairs, probes, known)
    ratios = [
        (point, other, (same, sides[point].stated(metric)), compared)
        for point, other in pairs
        if point in sides and other in sides and sides[point].clocks() == sides[other].clocks()
        for metric, same in in_common(sides[point].probe, sides[other].probe)
        if (compared := _ratio(sides[other], sides[point], (same, metric))) is not None
    ]
    p_values = [compared.p_value for *_, compared in ratios]
    adjusted = benjamini_hochberg(p_values)
    return tuple(
        _record(*each, _verdict(each[3], each[2][1], share, precision))
        for each, share in zip(ratios, adjusted, strict=True)
    )


def in_common(probe: Probe, other: Probe) -> list[tuple[Metric, Metric]]:
    """Returns the timed metrics that two probes share by name; else the first timed metric of each, if both have the
    same unit, so that for example a transfer can be compared with a load."""
    timed, others = ([metric for metric in each.metrics if is_timed(metric)] for each in (probe, other))
    named_alike = {metric.name: metric for metric in others}
    shared = [(metric, named_alike[metric.name]) for metric in timed if metric.name in named_alike]
    first_pair = [(timed[0], others[0])] if timed and others and timed[0].unit == others[0].unit else []
    return shared or first_pair


def visits_wanted_of_two(
    outcomes: Sequence[Outcome], pair: tuple[Point, Point], probes: Mapping[str, Probe], known: Known, precision: float
) -> float:
    """Returns the total number of visits that each of two points needs for a ratio of this half-width, by the first
    timed metric that both have; infinite if one of them has no usable visit."""
    sides = _sides(outcomes, [pair], probes, known)
    if len(sides) < len(pair):
        return inf
    first, other = (sides[point] for point in pair)
    metric, other_metric = next(iter(in_common(first.probe, other.probe)), (None, None))
    compared = _ratio(other, first, (other_metric, metric)) if metric and other_metric else None
    visits = len(first.readings)
    return visits * blocks_wanted(compared, precision) / compared.blocks if compared else visits + LEAST_BLOCKS


def _sides(
    outcomes: Sequence[Outcome], pairs: Collection[Against], probes: Mapping[str, Probe], known: Known
) -> dict[Point, _Side]:
    """Returns the readings of the points of all pairs, without points that gave a wrong answer once: these have no
    number."""
    wrong = {outcome.point for outcome in outcomes if outcome.status == "wrong_answer"}
    points = {point for pair in pairs for point in pair} - wrong
    by_point: dict[Point, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.status == "ok" and outcome.point in points:
            by_point.setdefault(outcome.point, []).append(outcome)
    sides = {}
    for point, group in by_point.items():
        by_round = {read.outcome.round: read for read in known.readings(group, probes[point.probe])}
        sides[point] = _Side(probes[point.probe], by_round, overheads([*by_round.values()]))
    return sides


def _ratio(first: _Side, second: _Side, metrics: tuple[Metric, Metric]) -> Ratio | None:
    """Returns the second point over the first, each by its metric; None if too little was timed. Uses only the pairs on
    an uncontended core if they are at least a third of all."""
    if first.paid.bent(metrics[0]) or second.paid.bent(metrics[1]):
        return None
    all_pairs = list(_pairs(first, second, metrics, uncontended=False))
    if metrics[1].source == "gauge":
        return ratio_of_blocks(blocks_of_runs(all_pairs))
    uncontended = list(_pairs(first, second, metrics, uncontended=True))
    is_enough = len(uncontended) >= _LEAST_WHOLE * len(all_pairs)
    return (ratio_of_blocks(blocks_of(uncontended)) if is_enough else None) or ratio_of_blocks(blocks_of(all_pairs))


def _pairs(first: _Side, second: _Side, metrics: tuple[Metric, Metric], *, uncontended: bool) -> Iterator[Pair]:
    """Yields the layout seed and both costs for each round that visited both points. uncontended: use only samples on
    an uncontended core."""
    for round_ in sorted(first.readings.keys() & second.readings.keys()):
        read, other = first.readings[round_], second.readings[round_]
        first_cost = _cost(read, metrics[0], first.paid, uncontended)
        second_cost = _cost(other, metrics[1], second.paid, uncontended)
        if min(first_cost, second_cost) > 0:
            yield read.outcome.seed, first_cost, second_cost


def _cost(read: Reading, metric: Metric, paid: Overheads, uncontended: bool) -> float:
    """Returns the median cost of one visit; 0 if too few of its samples are in the requested state. uncontended: as in
    `_pairs`."""
    if metric.source == "gauge":
        return read.outcome.gauges.get(metric.name, 0.0)
    own_costs = costs(read, metric, paid)
    if own_costs is None or not len(own_costs):
        return 0.0
    values = own_costs[read.states == "uncontended"] if uncontended else own_costs
    return middle_of(values) if np.size(values) >= LEAST_VALUES else 0.0


def _record(
    point: Point, other: Point, metrics: tuple[Metric, Metric], compared: Ratio, verdict: OpposedVerdict
) -> Opposed:
    """Returns the record of an interleaved pair. For a rate, the ratio of costs is inverted. metrics: the other point's
    metric, then the point's, as they were timed or counted."""
    other_metric, metric = metrics
    ends = (compared.estimate.value, compared.estimate.low, compared.estimate.high)
    value, low, high = (1 / ends[0], 1 / ends[2], 1 / ends[1]) if metric.unit in RATES else ends
    return Opposed(
        metric=metric.name, unit=metric.unit, point=pair_name(point), against=pair_name(other), ratio=value, low=low,
        high=high, blocks=compared.blocks, verdict=verdict,
        metric_against=other_metric.name if other_metric.name != metric.name else "",
    )  # fmt: skip


def pair_name(point: Point | Row) -> str:
    """Returns the name of a point in the records of pairs (`opposed`, `uncompared`)."""
    parameters = point.parameters.items() if isinstance(point, Row) else point.parameters
    return " ".join([point.probe, *assignments(parameters), point.abi])


def differs(compared: Ratio, adjusted: float, precision: float) -> bool:
    """Returns whether two points differ. adjusted: p-value adjusted for the number of ratios in the run. precision:
    half-width at which measuring ends."""
    is_precise = blocks_wanted(compared, precision) <= compared.blocks
    most = MOST_P_WHEN_PRECISE if is_precise else MOST_P
    return adjusted <= most and abs(compared.estimate.value - 1) >= LEAST_DIFFERENCE


def _verdict(compared: Ratio, metric: Metric, adjusted: float, precision: float) -> OpposedVerdict:
    """Returns the verdict on the first point of a pair."""
    if not differs(compared, adjusted, precision):
        return "cannot tell"
    if metric.better == "neither":
        return "differs"
    return "slower" if compared.estimate.value > 1 else "faster"


def is_same(pair: Opposed, share: float) -> bool:
    """Returns whether a pair that was not found different is the same within a share: its whole interval lies within
    it."""
    return pair.verdict == "cannot tell" and 1 / (1 + share) <= pair.low and pair.high <= 1 + share


# ---- pairs without a ratio ------------------------------------------------------------------------------------------


def uncompared(
    outcomes: Sequence[Outcome],
    pairs: Collection[Against],
    probes: Mapping[str, Probe],
    compared_pairs: Sequence[Opposed],
) -> tuple[Uncompared, ...]:
    """Returns the pairs that have a ratio in no metric, each with the reason. compared_pairs: the existing ratios."""
    compared = {(done.point, done.against) for done in compared_pairs}
    lacking = []
    for pair in pairs:
        if (pair_name(pair[0]), pair_name(pair[1])) in compared:
            continue
        seeds = [
            {outcome.round: outcome.seed for outcome in outcomes if outcome.point == point and outcome.status == "ok"}
            for point in pair
        ]
        layouts = len({seeds[0][round_] for round_ in seeds[0].keys() & seeds[1].keys()})
        reason = _never(outcomes, pair, probes)
        is_short = not reason and layouts < LEAST_BLOCKS
        if is_short:
            reason = f"{layouts} of the {LEAST_BLOCKS} layouts that a ratio needs"
        lacking.append(Uncompared(
            point=pair_name(pair[0]), against=pair_name(pair[1]), layouts=layouts, is_short=is_short,
            reason=reason or f"fewer than {LEAST_BLOCKS} layouts gave a time above 0 for both",
        ))  # fmt: skip
    return tuple(lacking)


def _never(outcomes: Sequence[Outcome], pair: tuple[Point, Point], probes: Mapping[str, Probe]) -> str:
    """Returns why a longer run would give no ratio either; empty if it may."""
    good = {outcome.point for outcome in outcomes if outcome.status == "ok"}
    for outcome in outcomes:
        is_lost = outcome.status == "wrong_answer" or (outcome.status != "interrupted" and outcome.point not in good)
        if outcome.point in pair and is_lost:
            return f"{pair_name(outcome.point)} has no number ({outcome.reason or outcome.status})"
    clocks = {outcome.clock.kind for outcome in outcomes if outcome.point in pair and outcome.status == "ok"}
    if len(clocks) > 1:
        return f"the clocks of the two are not comparable ({' and '.join(sorted(clocks))})"
    is_comparable = in_common(*(probes[point.probe] for point in pair))
    return "" if is_comparable else "the two have no timed metric in common"


def seconds_wanted(outcomes: Sequence[Outcome], lacking: Sequence[Uncompared], points: int, run: RunInfo) -> float:
    """Returns the seconds of measuring until each pair has the layouts that a ratio needs, by the time of this run in
    timed batches and its other time for each layout. Infinite if the run has no visit, or no pair lacks layouts.
    points: number of points to measure."""
    visits = [outcome for outcome in outcomes if outcome.status == "ok"]
    if not visits or not any(pair.is_short for pair in lacking):
        return inf
    layouts = len({(outcome.point, outcome.seed) for outcome in visits})
    timed_s = run.seconds * run.timed_share
    of_layout_s = (run.seconds - timed_s) / layouts + LAYOUT_SERVES * timed_s / len(visits)
    return points * LEAST_BLOCKS * of_layout_s
