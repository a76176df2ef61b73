# SPDX-License-Identifier: Apache-2.0
"""Estimates the between-run variance of one machine: the variance of a row between runs, beyond that of the visits of
each run.

Costs are compared in ns and in cycles of each run's core clock, and the view with less scatter is used: the clock of a
machine varies by some per cent from hour to hour, which would otherwise count as between-run variance.

Rows are grouped by probe and metric. Rows whose data exceed the private caches form a separate group, since other
guests leave a different share of the last cache and of memory in each run (decision 10)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import log, sqrt
from statistics import median
from typing import NamedTuple

from msgspec.structs import force_setattr

from tollmeter.experiment.limits import CLEARLY, LEAST_VISITS, MOSTLY
from tollmeter.model import Record
from tollmeter.model.former_names import present_row_names

USUAL_RUNS_SD = 0.01
"""Between-run standard deviation of a probe without an entry in USUAL, and of rows whose data exceed the private
caches."""
USUAL: dict[str, float] = {
    **dict.fromkeys(("kernel.call_object", "kernel.function_call"), 0.0031),
    "kernel.enter_syscall": 0.0076,
    "kernel.process_create": 0.0072,
    "kernel.signal_self": 0.0038,
    "memory.latency": 0.0030,
}
"""Between-run standard deviations of logarithms for a machine without history, computed by `bench/tomorrow.py usual`
from twelve runs of 4 s of one quiet Zen 5 guest. Page faults and clock readings by system call have no entry: their
deviation is 1.1 % in a quiet Zen 4 guest and 0.3 % in the Zen 5 guest."""

USUAL_PLACED = dict.fromkeys(("memory.ping_pong", "memory.transfer"), 0.7)
"""Between-run standard deviation of a cache line's transfer between two CPUs of a guest without history. The host runs
virtual CPUs on one chiplet or on two, and moves them within seconds: in a Zen 3 guest a modified line takes 40 or 150
ns, and a round trip by compare and swap 62 or 275 ns. Two equally frequent costs deviate from their middle by half of
their distance, ln(150 / 40) / 2."""

USUAL_IS_WORTH, _GROUP_IS_WORTH = 4.0, 1.0
"""Number of runs or visits that a usual deviation counts as, and number that the deviation of a group counts as."""
_LEAST_SD = 0.0015
"""Smallest between-run standard deviation: a few runs that agree do not prove a smaller one."""
SHARED = " shared"
_OF_STATE = {"all": " over-all", "contended": " contended"}
"""Suffixes of the groups of rows in these core states, in which a busy sibling slows the core by a different amount in
each run."""
USUAL_OF_STATE = {" over-all": 0.12, " contended": 0.03}
"""Between-run standard deviations for a machine without history, from three busy default runs of a Zen 3 guest. The
value for all samples applies if the sibling is busy for half of the time or more, and in proportion if it is busy for
less."""
USUAL_SHARED = 0.3
"""Between-run standard deviation of rows whose data are in a cache that other guests also use: two runs of a quiet
guest differ by 43 % (decision 10)."""
_SIZE = re.compile(r" size=(\d+)")
NORMAL_DISTANCE = 0.9539
"""Median distance of two normal deviates, in standard deviations (Shamos 1976)."""


class Cost(NamedTuple):
    """One row of one run. median: positive, in ns, or in the unit of the metric if it is not a time. error: standard
    error of the logarithm by the run's own visits. clock_hz: core clock during the run; 0 for a row that is not a time.
    is_count: whether the row is neither a time nor a rate."""

    median: float
    error: float
    clock_hz: float = 0.0
    is_count: bool = False


class EarlierRun(Record, frozen=True):
    """The stored results of one run. run: start time and folder name; runs elsewhere may have the same. machine: as
    `machine_key` returns it. place: host and kernel, since costs on two hosts or kernels may really differ. rows: costs
    by row name; empty if the verdict of the run excludes them. widths: width of the uncontended core by target and ABI,
    in additions per cycle."""

    run: str
    machine: tuple[str, str, str]
    place: str
    rows: dict[str, Cost]
    widths: dict[str, dict[str, float]] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "rows", present_row_names(self.rows))


class _RowScatter(NamedTuple):
    """The between-run variance of one row, of logarithms. freedom: number of runs, less one for each further host or
    kernel. is_count: whether the row is neither a time nor a rate."""

    variance: float
    freedom: float
    is_count: bool


def size_in_name(name: str) -> int:
    """Returns the bytes of the size in the name of a row; 0 if there is none."""
    size = _SIZE.search(name)
    return int(size[1]) if size else 0


def name_words(name: str) -> list[str]:
    """Returns the probe, revision, ABI, target, metric and state from the name of a row, as `row_name` returns it;
    empty words for those that the name from an older run lacks."""
    return [*name.split(" "), *[""] * 5][:6]


def group_of(name: str, private_bytes: int) -> str:
    """Returns the group of rows with common between-run variance. name: as `row_name` returns it. private_bytes: bytes
    that certainly fit into private caches, or 0."""
    probe, _, _, _, metric, state = name_words(name)
    is_shared = 0 < private_bytes < size_in_name(name)
    return " ".join(filter(None, (probe, metric))) + _OF_STATE.get(state, "") + (SHARED if is_shared else "")


def learned_sd(learned: Mapping[str, float], group: str, contended: float = 1.0) -> float:
    """Returns the standard deviation of a group, or of its probe if only shipped values or older runs have one.
    learned: deviations by group or probe. contended: contended share of the time of this run."""
    state = next((state for state in USUAL_OF_STATE if state in group), "")
    probe = group.partition(" ")[0] + (SHARED if group.endswith(SHARED) else "")
    of_state = USUAL_OF_STATE.get(state, 0.0) * min(1.0, contended / MOSTLY)
    return learned.get(group, max(of_state, learned.get(probe, USUAL_RUNS_SD)))


def runs_sd(runs: Sequence[EarlierRun], usual: Mapping[str, float], private_bytes: int = 0) -> dict[str, float]:
    """Returns the between-run standard deviation of logarithms by group.

    It is the median over the rows of the group, shrunk towards the usual value, which counts as four runs. Rows of
    fewer than three runs and counts are not used. usual: shipped deviations by probe."""
    by_group: dict[str, list[_RowScatter]] = defaultdict(list)
    for name, scatter in _by_row(runs).items():
        if not scatter.is_count:
            by_group[group_of(name, private_bytes)].append(scatter)
    learned = {}
    for group, rows in by_group.items():
        variance, freedom = median(row.variance for row in rows), median(row.freedom for row in rows)
        learned[group] = _shrunk(variance, freedom, learned_sd(usual, group), USUAL_IS_WORTH)
    return learned


def rows_sd(runs: Sequence[EarlierRun], of_groups: Mapping[str, float], private_bytes: int = 0) -> dict[str, float]:
    """Returns the between-run standard deviation by row, for rows that clearly vary more than their group. Each is
    shrunk towards the deviation of its group, which counts as one run. of_groups: deviations by group.

    A count has no group: most counts are equal in each run, and the others depend on page placement."""
    by_row: dict[str, float] = {}
    for name, scatter in _by_row(runs).items():
        group_sd = 0.0 if scatter.is_count else learned_sd(of_groups, group_of(name, private_bytes))
        row_sd = (
            sqrt(scatter.variance)
            if scatter.is_count
            else _shrunk(scatter.variance, scatter.freedom, group_sd, _GROUP_IS_WORTH)
        )
        if row_sd > (1 + CLEARLY) * group_sd:
            by_row[name] = row_sd
    return by_row


def _by_row(runs: Iterable[EarlierRun]) -> dict[str, _RowScatter]:
    """Returns the scatter of each row that occurs in three runs of one host and kernel."""
    by_row: dict[str, list[tuple[str, Cost]]] = defaultdict(list)
    for run in runs:
        for name, cost in run.rows.items():
            if cost.median > 0:
                by_row[name].append((run.place, cost))
    scattered = (
        (name, _of_row(values, has_places=name.partition(" ")[0] in USUAL_PLACED))
        for name, values in by_row.items()
        if len(values) >= LEAST_VISITS
    )
    return {name: scatter for name, scatter in scattered if scatter is not None}


def _of_row(costs: Sequence[tuple[str, Cost]], *, has_places: bool = False) -> _RowScatter | None:
    """Returns the scatter of a row from all pairs of its runs on one host and kernel, in ns or in cycles, whichever
    scatters less, minus the variance by the visits of the runs. None with too few runs. has_places: whether the cost
    depends on the CPUs that a host chose. Counts and such costs use the mean square, since the median of pairs hides
    the rarer of two values."""
    pairs = [(first, second) for (place, first), (other, second) in combinations(costs, 2) if place == other]
    freedom = len(costs) - len({place for place, _ in costs})
    if freedom < LEAST_VISITS - 1:
        return None
    in_ns = [log(second.median / first.median) for first, second in pairs]
    if any(cost.is_count for _, cost in costs):
        return _RowScatter(_mean_square(in_ns), freedom + 1, is_count=True)
    in_cycles = [
        ratio + (log(second.clock_hz / first.clock_hz) if first.clock_hz > 0 and second.clock_hz > 0 else 0.0)
        for ratio, (first, second) in zip(in_ns, pairs, strict=True)
    ]
    variance_of = _mean_square if has_places else _median_square
    errors = sum(cost.error**2 for _, cost in costs) / len(costs)
    variance = min(map(variance_of, (in_ns, in_cycles)))
    return _RowScatter(max(0.0, variance - errors), freedom + 1, is_count=False)


def _mean_square(distances: Sequence[float]) -> float:
    """Returns the variance of values from the mean square of their pairwise distances."""
    return sum(distance**2 for distance in distances) / len(distances) / 2


def _median_square(distances: Sequence[float]) -> float:
    """Returns the variance of values from the median of their pairwise distances."""
    return (median(map(abs, distances)) / NORMAL_DISTANCE) ** 2


def _shrunk(variance: float, freedom: float, usual_sd: float, worth: float) -> float:
    """Returns a standard deviation: the variance shrunk towards the usual one, which counts as `worth` degrees of
    freedom."""
    return max(_LEAST_SD, sqrt((freedom * variance + worth * usual_sd**2) / (freedom + worth)))
