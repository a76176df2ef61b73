# SPDX-License-Identifier: Apache-2.0
"""Nodes of one hardware model whose times and rates differ from those of their peers.

The logarithm of a row's cost on a node is the mean of its peers, plus a deviation of the whole node, of the node in a
part of the machine, in a probe of that part, and in the row. A deviation is a median over the rows of its scope, and
each is removed before the next is judged: a node that is 5 % slow in every row is named once, and a slow node with one
bad memory channel twice. The part is memory where the data are four times the last cache or more, and else the kind of
the probe: a bad memory channel moves only some rows of each probe, which a median over all rows hides. Rows without a
unit of time are not judged. Most nodes agree on them exactly, and half of the rows of a probe are of this kind.

A deviation is judged by the spread of the same deviation over the nodes: the standard deviation of the middle four
fifths, which contains the variance between runs, visits and layouts. A node whose own intervals are wider than its
peers' is allowed as much more. One node in ten may have the same defect without widening the spread. The tails are
Student's t; the degrees of freedom are those of the middle nodes, but those of the between-run variance for a row:
single rows have heavier tails than medians over rows. What remains of a probe or row is only as certain as the median
that was removed: where most nodes agree on a row exactly, an error of that median looks like a deviation of the row. So
each is named only if it is also as far from its peers before the removal. The size of an effect is its deviation less
the effects that are named on the same node: removing other effects would shrink a small one.

The budget for false names is one for each node, and is shared within a level by its tests (Bonferroni). A whole node
has one test, in which a larger share finds noticeably more; a row has thousands, whose limit hardly depends on their
share. Nine tenths of it are for slower nodes, which are the purpose of the search. The budget is a fifth of the 1 node
in 1,000 that may be named falsely, since the tails of real machines are heavier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, copysign, exp, inf, log1p
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.judgement.gate import RUNS_FREEDOM
from tollmeter.maths.distributions import NORMAL, student_reach
from tollmeter.model import Cache, Machine, Row
from tollmeter.numbers.readings import RATES

FALSE_NAMES = {"node": 1.8e-4, "part": 1e-5, "probe": 1e-5, "row": 1e-5}
SLOWER = 0.9
"""Share of the false-name budget for deviations towards slower or more."""
LEAST_EFFECT = 0.01
LEAST_NODES = 4
MEMORY = "memory"
_ILL = 0.1
"""Share of the nodes at each end that a spread leaves out."""
_SEVERAL = 3
"""Fewest lines whose median one deviating line hardly moves."""
_OF_MEMORY = 4
"""Least ratio of a data size to the last cache's size at which the data count as in memory."""
_AT_ONCE = 256
"""Lines of a matrix that are sorted at a time: the C library reuses the memory of 10 MB."""
_SAME = 1e-6
"""Relative difference of sums of weights below which they are equal."""
_SIMILAR = 0.5
"""Share of a node's largest effect below which other effects do not distinguish it from nodes with the same defect."""

Floats = NDArray[np.float32]
Level = Literal["node", "part", "probe", "row"]


def is_rate(row: Row) -> bool:
    return row.unit in RATES or row.better == "more"


def is_in_time(row: Row) -> bool:
    """Returns whether a row is a time, in ns or cycles, or a rate."""
    return row.unit in ("ns", "cycle", *RATES)


@dataclass(frozen=True)
class HardwareModel:
    """Nodes of equal CPU model, kernel and caches. values: logarithm of each row (line) on each node (column), NaN
    where there is none; halves: half-width of its 95 % interval, NaN of a single layout."""

    name: str
    nodes: Sequence[str]
    rows: Sequence[Row]
    values: Floats
    halves: Floats
    caches: tuple[Cache, ...] = ()

    @cached_property
    def machine(self) -> Machine:
        """Returns a machine of which only the caches are known, as limits of rows need it."""
        return Machine("", "", "", None, 0, 0, self.caches)

    @cached_property
    def last_cache(self) -> int:
        """Returns the bytes of the last cache, 0 if unknown."""
        return max(self.machine.data_sizes().values(), default=0)

    def part(self, row: Row) -> str:
        """Returns the part of the machine that a row belongs to: memory, or the family of its probe."""
        size = row.parameters.get("size")
        if isinstance(size, int) and size >= _OF_MEMORY * self.last_cache > 0:
            return MEMORY
        return f"{row.probe.partition('.')[0]}.*"


class _Level(NamedTuple):
    """One level of the analysis. costs: the deviations that are judged, one line for each scope: `uncorrected` minus
    the deviations of the levels before."""

    name: Level
    costs: Floats
    uncorrected: Floats
    scopes: Sequence[tuple[str, Sequence[int]]]


class Spread(NamedTuple):
    """The distribution of each line of a matrix over its columns: count, median, mean and standard deviation without a
    tenth at each end, and the tenth and ninetieth percentile.

    Nodes are compared with the mean and not with the median: a node that is itself the median of some rows would seem
    closer to its peers, and the spread of the middle nodes would be too small."""

    nodes: NDArray[np.int64]
    middle: Floats
    centre: Floats
    sd: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Effect:
    """The distance of a node from its peers. cost: logarithm of the ratio, above 0 is slower or more; half: half-width
    of the node's 95 % interval; sd: standard deviation of the peers; rows: rows that show the effect; others: rows
    of its scope that do not."""

    level: Level
    name: str
    cost: float
    half: float
    sd: float
    peers: int
    rows: tuple[int, ...]
    others: tuple[int, ...]


@dataclass(frozen=True)
class NamedNode:
    """Nodes with a common defect. effects: effects on the first node, largest first. costs: cost of the largest effect
    on each node."""

    nodes: tuple[str, ...]
    effects: tuple[Effect, ...]
    costs: tuple[float, ...]


@dataclass(frozen=True)
class JudgedModel:
    """The judged nodes of a hardware model. spread: scatter of each row over the nodes. costs: distance of each row on
    each node from the peers' mean, as a logarithm of cost. broken: nodes with a row beyond an absolute limit, and the
    row in words."""

    model: HardwareModel
    spread: Spread
    costs: Floats
    named: tuple[NamedNode, ...]
    broken: tuple[tuple[str, str], ...] = ()


def judged_model(model: HardwareModel) -> JudgedModel:
    """Returns the judged nodes of a model. It modifies the model's values, which become costs relative to the peers'
    mean."""
    signs = np.array([-1 if is_rate(row) else 1 for row in model.rows], np.float32)
    spread, costs = spreads(model.values), model.values
    costs -= spread.centre[:, None]
    costs *= signs[:, None]
    effects = [] if len(model.nodes) < LEAST_NODES else [*_effects(model, costs, spread)]
    return JudgedModel(model, spread, costs, _alike(model, effects))


def spreads(matrix: Floats) -> Spread:
    """Returns the spread of each line over its columns."""
    parts = []
    for begin in range(0, len(matrix), _AT_ONCE):
        ordered = np.sort(np.ascontiguousarray(matrix[begin : begin + _AT_ONCE]), axis=1)  # with NaN at the ends
        nodes = (~np.isnan(ordered)).sum(axis=1)
        at = {share: _quantile(ordered, nodes, share) for share in (0.1, 0.25, 0.5, 0.75, 0.9)}
        parts.append(Spread(nodes, at[0.5], *_centre_and_sd(ordered, nodes, at[0.5]), at[0.1], at[0.9]))
    return Spread(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centre_and_sd(ordered: Floats, nodes: NDArray[np.int64], middle: Floats) -> tuple[Floats, Floats]:
    """Returns the mean and the standard deviation of each line without a tenth at each end. The sd is that of a normal
    distribution with its tails, 0 if nothing remains."""
    places = np.arange(ordered.shape[1])
    ends = np.ceil(_ILL * nodes).astype(int)
    inner = (places >= ends[:, None]) & (places < (nodes - ends)[:, None])
    apart = np.where(inner, ordered - middle[:, None], 0).astype(np.float64)
    counts = np.maximum(inner.sum(axis=1), 1)
    means = apart.sum(axis=1) / counts
    variances = np.maximum((apart**2).sum(axis=1) / counts - means**2, 0)
    shares = [_share_of_sd(int(end), int(several)) for end, several in zip(ends, nodes, strict=True)]
    return (middle + means).astype(np.float32), (np.sqrt(variances) / shares).astype(np.float32)


@lru_cache(maxsize=4096)
def _share_of_sd(ends: int, nodes: int) -> float:
    """Returns the standard deviation of a normal distribution without its two ends, divided by the standard deviation
    of the whole. ends: number of nodes left out at each end."""
    if nodes <= 2 * ends:
        return 1.0
    normal, share = NormalDist(), ends / nodes
    z = normal.inv_cdf(share)
    return float((1 + 2 * z * normal.pdf(z) / (1 - 2 * share)) ** 0.5)


def _freedom(nodes: int) -> float:
    """Returns the degrees of freedom of a spread."""
    return max(1.0, nodes - 2 * ceil(_ILL * nodes) - 1)


def _quantile(ordered: Floats, nodes: NDArray[np.int64], share: float) -> Floats:
    place = share * np.maximum(nodes - 1, 0)
    below, above = (ordered[np.arange(len(ordered)), end.astype(int)] for end in (np.floor(place), np.ceil(place)))
    return np.asarray((below + above) / 2)


def _medians(lines: Floats) -> Floats:
    """Returns the median of each column, with each line weighted by how little the nodes differ in it. Without weights,
    the median of a few precise rows and some that differ by half would be one of the imprecise rows on some nodes."""
    weights = 1 / np.maximum(np.nan_to_num(spreads(lines).sd), LEAST_EFFECT)
    order = np.argsort(lines, axis=0)  # NaN last
    ordered = np.take_along_axis(lines, order, axis=0)
    sums = np.cumsum(np.where(np.isnan(ordered), 0, weights[order]), axis=0)
    half = sums[-1] / 2
    ends = ((sums >= (1 - _SAME) * half).argmax(axis=0), (sums > (1 + _SAME) * half).argmax(axis=0))
    below, above = (np.take_along_axis(ordered, end[None], axis=0)[0] for end in ends)
    return np.asarray((below + above) / 2)


def _effects(model: HardwareModel, costs: Floats, spread: Spread) -> Iterator[tuple[int, Effect]]:
    """Yields each effect after the index of its node."""
    typical = spreads(model.halves).middle
    named: dict[int, list[Effect]] = {}
    for level in _levels(model, costs, spread):
        corrected_spread = spreads(level.costs)
        uncorrected_spread = corrected_spread if level.name == "node" else spreads(level.uncorrected)
        for line, node, reach in _candidates(level, corrected_spread):
            name, rows = level.scopes[line]
            corrected = float(level.costs[line, node] - corrected_spread.centre[line])
            uncorrected = float(level.uncorrected[line, node] - uncorrected_spread.centre[line])
            extra_variance, sign = _extra_variance(model, rows, node, typical), copysign(1, corrected)
            sds = [
                float((spread_of.sd[line] ** 2 + extra_variance) ** 0.5)
                for spread_of in (corrected_spread, uncorrected_spread)
            ]
            if abs(corrected) <= reach * sds[0] or sign * uncorrected <= reach * sds[1]:
                continue
            removed = sum(effect.cost for effect in named.get(node, ()) if {*rows} <= {*effect.rows, *effect.others})
            cost, nodes = uncorrected - removed, int(corrected_spread.nodes[line])
            if sign * cost <= log1p(LEAST_EFFECT):
                continue
            # The rows that show the effect, at least half of it in its direction; and the others.
            is_shown = (costs[rows, node] - removed) * sign > _SIMILAR * abs(cost)
            show, others = (tuple(np.array(rows)[mask].tolist()) for mask in (is_shown, ~is_shown))
            half = student_reach(min(_freedom(nodes), RUNS_FREEDOM)) * sds[0 if removed else 1]
            sd = float((corrected_spread if removed else uncorrected_spread).sd[line])
            effect = Effect(level.name, name, cost, half, sd, nodes - 1, show or tuple(rows), others)
            named.setdefault(node, []).append(effect)
            yield node, effect


def _levels(model: HardwareModel, costs: Floats, spread: Spread) -> Iterator[_Level]:
    """Yields the levels of the analysis, from the whole node to single rows. costs: distance of each row from the
    peers' mean; spread: spread of each row."""
    timed = [place for place, row in enumerate(model.rows) if is_in_time(row) and spread.nodes[place] >= LEAST_NODES]
    probes: dict[tuple[str, str], list[int]] = {}
    for place in timed:
        row = model.rows[place]
        probes.setdefault((model.part(row), row.probe), []).append(place)
    if not probes:
        return
    lines_of_parts: dict[str, list[int]] = {}
    for at, (part, _) in enumerate(probes):
        lines_of_parts.setdefault(part, []).append(at)
    probe_costs = np.stack([_medians(costs[rows]) for rows in probes.values()])
    node = _common(probe_costs)[None]
    parts = np.stack([_common(probe_costs[lines], node[0]) for lines in lines_of_parts.values()])
    yield _Level("node", node, node, [("", timed)])
    in_part = [[row for at in lines for row in [*probes.values()][at]] for lines in lines_of_parts.values()]
    yield _Level("part", parts - node, parts, [*zip(lines_of_parts, in_part, strict=True)])
    cost_of_part = np.stack([parts[[*lines_of_parts].index(part)] for part, _ in probes])
    scopes = [(probe, rows) for (_, probe), rows in probes.items()]
    yield _Level("probe", probe_costs - cost_of_part, probe_costs, scopes)
    probe_of_row = np.zeros(len(costs), int)
    for at, rows in enumerate(probes.values()):
        probe_of_row[rows] = at
    row_costs = np.where(np.isnan(model.halves[timed]), np.nan, costs[timed])
    rest = row_costs - probe_costs[probe_of_row[timed]]
    yield _Level("row", rest, row_costs, [(model.rows[place].probe, [place]) for place in timed])


def _common(deviations: Floats, otherwise: float | Floats = 0) -> Floats:
    """Returns the common deviation of several lines, by column; otherwise: the value for fewer than three lines, whose
    middle would attribute half of one line's deviation to the others."""
    return _medians(deviations) if len(deviations) >= _SEVERAL else np.full_like(deviations[0], otherwise)


def _candidates(level: _Level, spread: Spread) -> Iterator[tuple[int, int, float]]:
    """Yields line and node of each deviation far from the peers, and the limit in standard deviations."""
    share = FALSE_NAMES[level.name] / len(level.costs)
    for sign, part in ((1, SLOWER), (-1, 1 - SLOWER)):
        freedoms = (min(_freedom(int(nodes)), RUNS_FREEDOM if level.name == "row" else inf) for nodes in spread.nodes)
        reaches = np.array([student_reach(freedom, 2 * share * part) for freedom in freedoms])
        reaches[spread.nodes < LEAST_NODES] = np.inf
        with np.errstate(invalid="ignore"):
            least = np.maximum(np.nan_to_num(reaches * spread.sd, nan=np.inf), log1p(LEAST_EFFECT))
        for at in range(0, len(level.costs), _AT_ONCE):
            block = slice(at, at + _AT_ONCE)
            for line, node in np.argwhere(
                sign * (level.costs[block] - spread.centre[block, None]) > least[block, None]
            ):
                yield int(line) + at, int(node), float(reaches[line + at])


def _extra_variance(model: HardwareModel, rows: Sequence[int], node: int, typical: Floats) -> float:
    """Returns by how much the variance of a node's own rows exceeds that of its peers'. Rows of one run have common
    errors, so that many rows are not more certain than one."""
    own, usual = model.halves[rows, node], typical[rows]
    known = ~np.isnan(own) & ~np.isnan(usual)
    if not known.any():
        return 0.0
    return max(0.0, float(np.median(own[known]) ** 2 - np.median(usual[known]) ** 2)) / NORMAL**2


def _alike(model: HardwareModel, effects_found: Sequence[tuple[int, Effect]]) -> tuple[NamedNode, ...]:
    """Returns nodes grouped by equal large effects, the most affected first."""
    effects_of_nodes: dict[int, list[Effect]] = {}
    for node, effect in effects_found:
        effects_of_nodes.setdefault(node, []).append(effect)
    groups: dict[tuple[Any, ...], list[tuple[int, list[Effect]]]] = {}
    for node, effects in effects_of_nodes.items():
        effects.sort(key=lambda effect: -abs(effect.cost))
        large = [effect for effect in effects if abs(effect.cost) > _SIMILAR * abs(effects[0].cost)]
        rows = large[0].rows if large[0].level == "row" else ()
        groups.setdefault(
            tuple(sorted({(effect.level, effect.name, effect.cost > 0) for effect in large})) + rows, []
        ).append((node, effects))
    named = [
        NamedNode(
            tuple(model.nodes[node] for node, _ in members),
            tuple(members[0][1]),
            tuple(each[0].cost for _, each in members),
        )
        for members in groups.values()
    ]
    return tuple(sorted(named, key=lambda group: -max(map(abs, group.costs))))


def deviation_share(cost: float, *, is_rate: bool) -> float:
    """Returns the deviation of a value from its peers' as a share: a rate falls by as much as a time rises."""
    return exp(-cost if is_rate else cost) - 1
