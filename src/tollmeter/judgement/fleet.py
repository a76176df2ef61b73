# SPDX-License-Identifier: Apache-2.0
"""Nodes of one hardware model whose rows lie apart from those of their peers.

The logarithm of a row's cost on a node is the median of its peers, plus a deviation of the whole node, of the node in
the row's probe, and of the node in the row. A probe's is a median over its rows and a node's one over its probes, and
each is removed before the next is judged: a node that is 5 % slow in every row is named once, and a slow node with one
bad memory channel twice.

A deviation is judged by the spread of the same deviation over the nodes: a robust standard deviation, which contains
what runs and visits add to it. A node whose own interval is wider than its peers' is allowed as much more. One node in
ten may be ill in the same way without widening the spread. The tails are Student's t with as many degrees of freedom
as quartiles of that many nodes have (0.37 of those of a standard deviation). What remains of a row is only as certain
as the median that was removed: where most nodes agree on a row exactly, an error of that median looks like a deviation
of the row. So a probe or row is named only if it is as far from its peers before the removal, too.

The budget for false names is one for each node, and is shared within a level by its tests (Bonferroni). A whole node
has one test, in which a larger share finds noticeably more; a row has thousands, whose limit hardly depends on their
share. Nine tenths are for slower nodes, which are what is searched. The budget is a fifth of the 1 node in 1,000 that
may be named falsely, since the tails of real machines are heavier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import copysign, exp, log1p
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.precision import NORMAL
from tollmeter.judgement.gate import tail_reach
from tollmeter.numbers.readings import RATES

FALSE_NAMES = {"node": 1.8e-4, "probe": 1e-5, "row": 1e-5}
SLOWER = 0.9
"""The part of the budget that is for deviations towards slower or more."""
LEAST_EFFECT = 0.01
LEAST_NODES = 4
_EFFICIENCY = 0.37
_WIDTHS = ((0.25, 1.349), (0.1, 2.563))
"""Lower of two symmetric quantiles, and standard deviations of a normal distribution between the two."""
_AT_ONCE = 256
"""Lines of a matrix that are sorted together: the C library keeps the memory of 10 MB for the next."""
_SIMILAR = 0.5
"""Effects of less than this share of a node's largest do not distinguish it from nodes that are ill in the same way."""

Floats = NDArray[np.float32]
Level = Literal["node", "probe", "row"]


@dataclass(frozen=True)
class FleetRow:
    """A row that several nodes have, in one state of the core."""

    probe: str
    metric: str
    parameters: Mapping[str, Any]
    abi: str
    target: str
    unit: str
    better: str
    state: str = ""

    @property
    def is_rate(self) -> bool:
        return self.unit in RATES or self.better == "more"


@dataclass(frozen=True)
class HardwareModel:
    """Nodes of equal CPU model, kernel and caches. values: logarithm of each row (line) on each node (column), NaN
    where there is none; halves: half-width of its 95 % interval."""

    name: str
    nodes: Sequence[str]
    rows: Sequence[FleetRow]
    values: Floats
    halves: Floats


class _Level(NamedTuple):
    """costs: the deviations that are judged, a line for each scope: what remains of `uncorrected` without those of the
    levels before. uncorrected_sds: the peers' spread of each line of `uncorrected`."""

    name: Level
    costs: Floats
    uncorrected: Floats
    uncorrected_sds: Floats
    scopes: Sequence[tuple[str, Sequence[int]]]


class Spread(NamedTuple):
    """Of each line of a matrix over its columns: how many have a number, their median, their robust standard deviation,
    and the tenth and ninetieth percentile."""

    nodes: NDArray[np.int64]
    middle: Floats
    sd: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Effect:
    """How far a node is from its peers. cost: logarithm of the ratio, above 0 is slower or more; half: of the node's
    own 95 % interval; sd: of the peers; rows: which show it; others: which do not, of all in its scope."""

    level: Level
    name: str
    cost: float
    half: float
    sd: float
    peers: int
    rows: tuple[int, ...]
    others: tuple[int, ...]


@dataclass(frozen=True)
class Named:
    """Nodes that are ill in the same way; the effects of the first, the largest first. costs: of the largest effect on
    each node."""

    nodes: tuple[str, ...]
    effects: tuple[Effect, ...]
    costs: tuple[float, ...]


@dataclass(frozen=True)
class Judged:
    """spread: of each row over the nodes. costs: of each row on each node its distance from the peers' median, as a
    logarithm of cost."""

    model: HardwareModel
    spread: Spread
    costs: Floats
    named: tuple[Named, ...]


def judged(model: HardwareModel) -> Judged:
    """Takes the model's values over: they are costs apart from the peers' median when it returns."""
    signs = np.array([-1 if row.is_rate else 1 for row in model.rows], np.float32)
    spread, costs = spreads(model.values), model.values
    costs -= spread.middle[:, None]
    costs *= signs[:, None]
    effects = [] if len(model.nodes) < LEAST_NODES else [*_effects(model, costs, spread)]
    return Judged(model, spread, costs, _alike(model, effects))


def spreads(matrix: Floats) -> Spread:
    """Of each line."""
    parts = []
    for begin in range(0, len(matrix), _AT_ONCE):
        ordered = np.sort(np.ascontiguousarray(matrix[begin : begin + _AT_ONCE]), axis=1)  # with NaN at the ends
        nodes = (~np.isnan(ordered)).sum(axis=1)
        at = {share: _quantile(ordered, nodes, share) for share in (0.1, 0.25, 0.5, 0.75, 0.9)}
        widths = [(at[1 - quantile] - at[quantile]) / width for quantile, width in _WIDTHS]
        parts.append(Spread(nodes, at[0.5], np.maximum(*widths), at[0.1], at[0.9]))
    return Spread(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _quantile(ordered: Floats, nodes: NDArray[np.int64], share: float) -> Floats:
    place = share * np.maximum(nodes - 1, 0)
    below, above = (ordered[np.arange(len(ordered)), end.astype(int)] for end in (np.floor(place), np.ceil(place)))
    return np.asarray((below + above) / 2)


def _medians(matrix: Floats) -> Floats:
    """Of each column."""
    return spreads(matrix.T).middle


def _effects(model: HardwareModel, costs: Floats, spread: Spread) -> Iterator[tuple[int, Effect]]:
    """With the node of each."""
    typical = spreads(model.halves).middle
    for level in _levels(model, costs, spread):
        of_level = spreads(level.costs)
        for line, node, reach in _candidates(level, of_level):
            name, rows = level.scopes[line]
            cost = float(level.costs[line, node] - of_level.middle[line])
            half, more = _own(model, rows, node, typical)
            sd, uncorrected_sd = (float(sds[line]) for sds in (of_level.sd, level.uncorrected_sds))
            is_apart = abs(cost) > max(half, reach * (sd**2 + more) ** 0.5)
            if (
                is_apart
                and level.uncorrected[line, node] * copysign(1, cost) > reach * (uncorrected_sd**2 + more) ** 0.5
            ):
                # The rows that show the effect, at least half of it in its direction; and the others.
                own = costs[rows, node] - level.uncorrected[line, node] + cost
                is_shown = own * copysign(1, cost) > _SIMILAR * abs(cost)
                show, others = (tuple(np.array(rows)[some].tolist()) for some in (is_shown, ~is_shown))
                yield node, Effect(level.name, name, cost, half, sd, int(of_level.nodes[line]) - 1, show, others)


def _levels(model: HardwareModel, costs: Floats, spread: Spread) -> Iterator[_Level]:
    probes: dict[str, list[int]] = {}
    for place, row in enumerate(model.rows):
        probes.setdefault(row.probe, []).append(place)
    parts = np.stack([_medians(costs[rows]) for rows in probes.values()])
    node = _medians(parts)[None]
    yield _Level("node", node, node, spreads(node).sd, [("", [*range(len(model.rows))])])
    yield _Level("probe", parts - node, parts, spreads(parts).sd, [*probes.items()])
    rest = costs.copy()
    for rows, part in zip(probes.values(), parts, strict=True):
        rest[rows] -= part
    yield _Level("row", rest, costs, spread.sd, [(row.probe, [place]) for place, row in enumerate(model.rows)])


def _candidates(level: _Level, spread: Spread) -> Iterator[tuple[int, int, float]]:
    """Line and node of what is far from the peers, and from how many standard deviations on it is."""
    freedoms = np.round(_EFFICIENCY * np.maximum(spread.nodes - 1, LEAST_NODES - 1), 1)
    share = FALSE_NAMES[level.name] / len(level.costs)
    for sign, part in ((1, SLOWER), (-1, 1 - SLOWER)):
        reaches = np.array([tail_reach(float(freedom), share * part) for freedom in freedoms])
        reaches[spread.nodes < LEAST_NODES] = np.inf
        least = np.maximum(np.nan_to_num(reaches * spread.sd, nan=np.inf), log1p(LEAST_EFFECT))
        for at in range(0, len(level.costs), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            for line, node in np.argwhere(sign * (level.costs[some] - spread.middle[some, None]) > least[some, None]):
                yield int(line) + at, int(node), float(reaches[line + at])


def _own(model: HardwareModel, rows: Sequence[int], node: int, typical: Floats) -> tuple[float, float]:
    """Half-width of a node's own interval over some rows; and by how much its variance exceeds that of its peers. One
    run's rows err together, so that many are not surer than one."""
    halves = model.halves[rows, node]
    more = np.maximum(halves**2 - typical[rows] ** 2, 0)
    return float(np.nanmedian(halves)), float(np.nanmedian(more)) / NORMAL**2


def _alike(model: HardwareModel, effects_found: Sequence[tuple[int, Effect]]) -> tuple[Named, ...]:
    """Nodes with the same large effects together, the most ill first."""
    of_nodes: dict[int, list[Effect]] = {}
    for node, effect in effects_found:
        of_nodes.setdefault(node, []).append(effect)
    groups: dict[tuple[Any, ...], list[tuple[int, list[Effect]]]] = {}
    for node, effects in of_nodes.items():
        effects.sort(key=lambda effect: -abs(effect.cost))
        large = [effect for effect in effects if abs(effect.cost) > _SIMILAR * abs(effects[0].cost)]
        rows = large[0].rows if large[0].level == "row" else ()
        groups.setdefault(
            tuple(sorted({(effect.level, effect.name, effect.cost > 0) for effect in large})) + rows, []
        ).append((node, effects))
    named = [
        Named(tuple(model.nodes[node] for node, _ in some), tuple(some[0][1]), tuple(each[0].cost for _, each in some))
        for some in groups.values()
    ]
    return tuple(sorted(named, key=lambda group: -max(map(abs, group.costs))))


def share_of(cost: float, *, is_rate: bool) -> float:
    """How far a value is from its peers', as a share: a rate falls by as much as a time rises."""
    return exp(-cost if is_rate else cost) - 1
