# SPDX-License-Identifier: Apache-2.0
"""Finds CPUs that are slower than others of their kind, and CPUs whose core another workload uses.

The CPUs of each memory node or cache are compared as a set first, then single CPUs. The compared number is the
logarithm of the cost minus the median of the visit, so that drift of the machine cancels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log, pi, sqrt
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.limits import FEW, LEAST_VISITS, NEGLIGIBLE
from tollmeter.judgement.compare import FALSE_DISCOVERIES
from tollmeter.maths.distributions import EFFICIENCY_OF_MAD, NORMAL_QUARTILE, student_tails
from tollmeter.model import PRECISION, Outcome, Topology
from tollmeter.model.topology import core_of, listed, numbers, speed_ranks
from tollmeter.numbers.each_cpu import EachCpu, each_cpu

LEAST_SLOWER = log(1 + PRECISION)
"""Logarithm of the smallest slowdown that nearly every visit of a slow CPU must show. With noise of 0.7 %, the three
visits of a core that is 5 % slower show it in 19 of 20 runs, and an equal CPU that was disturbed in two of three visits
is not named."""
_FALSE_OF_CPUS, _FALSE_OF_MACHINES = 1e-3, FALSE_DISCOVERIES
"""Highest share of CPUs that are named wrongly, and of machines of many CPUs on which any CPU is named wrongly."""
_USUAL_SD = NEGLIGIBLE
"""Usual standard deviation of CPUs of one kind, in logarithms. A few CPUs do not show their own. It counts as
_USUAL_FREEDOM CPUs."""
_USUAL_FREEDOM = 30.0
CLOCK, WIDTH = "clock", "width"
LOOPS = (CLOCK, "second_cache", "memory", "copy")
"""Loops in the order of explanation: slowness in one loop explains slowness in those after it."""
BESIDES = ("nothing", "all")
Costs = Mapping[tuple[str, str], EachCpu]
"""Costs by the name of the loop and the concurrent activity."""


class UnlikeCpus(NamedTuple):
    """A CPU or set of CPUs that differs from the others. where: `CPU 17`, or `memory node 1`. loop, beside: the timed
    loop, and the concurrent activity. cost: ns of one step on this CPU, or cycles for a contended core. low, high:
    range of most other CPUs, in the same unit. times: ratio of `cost` to the median of the others."""

    where: str
    cpus: tuple[int, ...]
    loop: str
    beside: str
    cost: float
    low: float
    high: float
    times: float


def costs_of_loops(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], EachCpu]:
    """Returns the costs of each CPU, by loop and concurrent activity. outcomes: visits of one probe, ABI and target."""
    of_points: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        values = outcome.point.values()
        of_points.setdefault((str(values.get("loop")), str(values.get("beside"))), []).append(outcome)
    return {point: each_cpu(visits) for point, visits in of_points.items()}


def unlike_cpus(costs: Costs, topology: Topology | None) -> tuple[list[UnlikeCpus], list[UnlikeCpus]]:
    """Returns the slow CPUs, each by the first loop that shows it, and the contended CPUs. A contended CPU is not
    called slow, since its speed without the other workload is unknown."""
    compared = 2 * len(LOOPS) + len(BESIDES)
    contended = [found for beside in BESIDES for found in _contended(costs, beside, topology, compared)]
    busy = {cpu for found in contended for cpu in found.cpus}
    slow: dict[str, UnlikeCpus] = {}
    for loop, beside in ((loop, beside) for beside in BESIDES for loop in LOOPS):
        each = costs.get((loop, beside))
        for found in _slow(each, topology, (loop, beside), compared) if each else ():
            named = {cpu for other in slow.values() for cpu in other.cpus}
            if not busy & set(found.cpus) and not named & set(found.cpus):
                slow[found.where] = found
    return list(slow.values()), list({found.where: found for found in reversed(contended)}.values())


def _contended(costs: Costs, beside: str, topology: Topology | None, compared: int) -> Iterator[UnlikeCpus]:
    """Yields contended CPUs: those with fewer independent additions both per second and per cycle. A throttled core
    makes as many per cycle as other cores, and a core whose clock reading is disturbed makes as many per second."""
    width_costs, clock_costs = costs.get((WIDTH, beside)), costs.get((CLOCK, beside))
    if width_costs is None or clock_costs is None or width_costs.cpus != clock_costs.cpus or not len(clock_costs.logs):
        return
    cycles = EachCpu(width_costs.cpus, width_costs.logs - usual_costs(clock_costs.logs))
    slow_per_second = {
        one.where for one in _slow(width_costs, topology, (WIDTH, beside), compared) if len(one.cpus) == 1
    }
    yield from (one for one in _slow(cycles, topology, (WIDTH, beside), compared) if one.where in slow_per_second)


def _slow(each: EachCpu, topology: Topology | None, point: tuple[str, str], compared: int) -> Iterator[UnlikeCpus]:
    """Yields slow sets of CPUs, then slow CPUs outside these sets. point: the loop and the concurrent activity.
    compared: number of comparisons."""
    if len(each.logs) < LEAST_VISITS:
        return
    for cpus in _alike(each.cpus, topology, together=point[1] == "all"):
        remaining = each.of(cpus)
        for sets in _sets(cpus, topology):
            members = [each.of(own) for own in sets.values()]
            logs = np.column_stack([np.median(own.logs, axis=1) for own in members])
            for place in _slower(logs, compared):
                own = members[place].cpus
                yield _named([*sets][place], own, logs, place, point)
                remaining = remaining.of([cpu for cpu in remaining.cpus if cpu not in own])
        for place in _slower(remaining.logs, compared):
            cpu = remaining.cpus[place]
            yield _named(f"CPU {cpu}", (cpu,), remaining.logs, place, point)


def _alike(cpus: Sequence[int], topology: Topology | None, *, together: bool) -> list[list[int]]:
    """Returns groups of CPUs that may be compared: of one kind and, if all CPUs are busy together, with equally many
    busy threads on their core."""
    ranks, cores = (speed_ranks(topology), core_of(topology)) if topology else ({}, {})
    threads = [cores.get(cpu, -1 - cpu) for cpu in cpus]
    groups: dict[tuple[int, int], list[int]] = {}
    for cpu, core in zip(cpus, threads, strict=True):
        groups.setdefault((ranks.get(cpu, 0), threads.count(core) if together else 0), []).append(cpu)
    return [group for group in groups.values() if len(group) > 1]


def _sets(cpus: Sequence[int], topology: Topology | None) -> Iterator[dict[str, list[int]]]:
    """Yields sets of CPUs by name: the memory nodes, then the last-level caches if these differ from the nodes. A set
    of one CPU is omitted."""
    if topology is None:
        return
    nodes = {f"memory node {node.node}": numbers(node.cpus) for node in topology.nodes if node.cpus}
    caches = {f"last-level cache of CPUs {listed(numbers(cache))}": numbers(cache) for cache in topology.last_caches}
    yielded: list[list[list[int]]] = []
    for all_sets in (nodes, caches):
        members_here = {name: [cpu for cpu in cpus if cpu in members] for name, members in all_sets.items()}
        members_here = {name: members for name, members in members_here.items() if len(members) > 1}
        if len(members_here) > 1 and [*members_here.values()] not in yielded:
            yielded.append([*members_here.values()])
            yield members_here


def _slower(logs: Array, compared: int) -> list[int]:
    """Returns the columns that are slower than the others. logs: one line for each visit. compared: number of
    comparisons, over which the p-value is corrected."""
    count = logs.shape[1]
    if count < 2:
        return []
    centred = _centred(logs)
    medians = np.median(centred, axis=0)
    error = _error_of_median(centred, medians)
    named = []
    for place in np.flatnonzero(medians > LEAST_SLOWER / 2).tolist():
        others = np.delete(medians, place)
        excess_of_visits = centred[:, place] - np.median(np.delete(centred, place, axis=1), axis=1)
        if np.quantile(excess_of_visits, FEW, method="lower") <= LEAST_SLOWER:
            continue
        sd, freedom = _spread(others, error)
        t = (medians[place] - float(np.median(others))) / (sd * sqrt(1 + pi / 2 / (count - 1)))
        if student_tails(freedom, t) / 2 < min(_FALSE_OF_CPUS, _FALSE_OF_MACHINES / count) / compared:
            named.append(place)
    return named


def _centred(logs: Array) -> Array:
    """Returns the logarithms minus the median of each visit, so that drift of the machine cancels."""
    return np.asarray(logs - np.median(logs, axis=1)[:, None])


def usual_costs(logs: Array) -> Array:
    """Returns the logarithm of the median cost of each column, without the deviations of single visits."""
    return np.asarray(np.median(_centred(logs), axis=0) + np.median(np.median(logs, axis=1)))


def _error_of_median(centred: Array, usual: Array) -> float:
    """Returns the standard error of the median of a column. The scatter of visits is estimated over all columns
    together. usual: median of each column."""
    visits, count = centred.shape
    apart = np.abs(centred - usual)
    if not apart.any():
        return 0.0
    # Two medians were removed, one for each visit and one for each CPU: each shrinks the variance of the residuals to
    # (n - 1) / n. The standard error of a median of n values is sd * sqrt(pi / 2 / n).
    apart *= sqrt(visits / (visits - 1) * count / (count - 1))
    sd = float(np.median(apart[apart > 0])) / NORMAL_QUARTILE
    return sd * sqrt(pi / 2 / visits)


def _spread(others: Array, error: float) -> tuple[float, float]:
    """Returns the standard deviation of CPUs and its degrees of freedom: the median deviation of the other CPUs, shrunk
    towards the usual value (Smyth 2004). error: standard error of a median."""
    prior = _USUAL_SD**2 + error**2
    measured = float(np.median(np.abs(others - np.median(others)))) / NORMAL_QUARTILE
    freedom = EFFICIENCY_OF_MAD * (len(others) - 1)
    pooled = (freedom * measured**2 + _USUAL_FREEDOM * prior) / (freedom + _USUAL_FREEDOM)
    return sqrt(pooled), freedom + _USUAL_FREEDOM


def _named(where: str, cpus: Sequence[int], logs: Array, place: int, point: tuple[str, str]) -> UnlikeCpus:
    """Returns the record of the CPUs of one column. place: index of the column. point: the loop and the concurrent
    activity."""
    log_costs = usual_costs(logs)
    others = np.delete(log_costs, place)
    low, middle, high = (float(np.quantile(others, share)) for share in (FEW, 0.5, 1 - FEW))
    log_cost = float(log_costs[place])
    ends = (float(np.exp(value)) for value in (log_cost, low, high, log_cost - middle))
    cost, least, most, times = ends
    return UnlikeCpus(where, tuple(cpus), *point, cost, least, most, times)
