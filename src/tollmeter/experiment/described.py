# SPDX-License-Identifier: Apache-2.0
"""Rules that compare the description of a run (machine, request, executables, probes) with itself and with the visits.
Each rule is a sentence that is true of every honest run (docs/measuring.md lists them)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from math import inf
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.limits import INEXPLICABLE, LEAST_SAMPLES, SAME_WITHIN
from tollmeter.experiment.machine_record import X86, unlikely
from tollmeter.experiment.taken import MANY_VISITS
from tollmeter.experiment.visit_table import VisitTable, is_of_this_machine
from tollmeter.model import (
    USUAL_PAGE_BYTES,
    Build,
    ClockReading,
    Machine,
    Outcome,
    Point,
    Probe,
    Samples,
    Select,
    Surroundings,
    Value,
    layout_seed,
)
from tollmeter.model.description_rules import (
    repeated_names,
    untimed_metrics,
    wrong_directions,
    wrong_ranges,
    wrong_values,
)
from tollmeter.model.topology import RELATION

OTHER_MACHINE = "ssh:"
MOST_TRAFFIC = USUAL_PAGE_BYTES
"""Highest ratio of the bytes on the bus to the bytes that an operation accesses: one access of a byte moves at most its
page."""
PARTS = (("resident", "resident_peak"), ("proportional", "resident"), ("resident_peak", "memory"),
         ("huge_pages", "all"), ("asked", "taken"))  # fmt: skip
"""Pairs (part, whole) of gauges, as the runtime and the allocator probes (probes/datamodel/heap_metrics.h) report
them."""
MADE_FOR = "-march=", "-mabi=", "-m32", "-m64", "-mx32"
"""Compiler flags that determine which CPUs, and which of their modes, execute a file."""
COMMANDS = "workload."
"""Prefix of the names of a suite's workloads. Each workload's own build file states its compiler flags."""
WORK_IS_MEANT = "a shorter time and a higher rate are better, and a visit does work of the kind that its rate counts"
HAS_CONTROL = "a visit has a control if its probe has one, and only then"
SHA256_DIGITS, HEXADECIMAL = 2 * sha256().digest_size, frozenset("0123456789abcdef")
SEEDED = "the seed of a layout is derived from the run's seed"
MOST_UNDER_WAY = 2
"""Highest number of unfinished visits: one is timed, and one is set up meanwhile."""
MOST_LAYOUTS = MANY_VISITS
"""Largest number of layouts of a point whose seeds are derived again."""
FAMILIES = {
    ("x86_64", "ia32", "x32", "i386"): X86, ("aarch64",): ("aarch64",), ("arm", "thumb"): ("arm", "aarch64"),
    ("riscv",): ("riscv",), ("ppc",): ("ppc",), ("s390",): ("s390",), ("mips",): ("mips",), ("sparc",): ("sparc",),
    ("loongarch",): ("loongarch",),
}  # fmt: skip
"""ABI names that begin with a key run directly on CPUs whose machine name (`uname -m`) begins with its value."""
VECTORS = {("avx", "sse", "fma", "x87"): X86, ("neon", "sve"): ("arm", "aarch64"), ("vsx", "altivec"): ("ppc",),
           ("rvv",): ("riscv",)}  # fmt: skip
"""Vector kernels whose names begin with a key run on CPUs whose machine name begins with its value."""


class Asked(NamedTuple):
    """The request of a run; a field that was not requested is empty. started: recorded start of the run. words: words
    of the command. reused: whether the run contains visits of an earlier run. interleaved: whether the visits of
    compared points alternate. probes: names and globs, one of which each visit matches. selects: the selected values.
    budget_s: the budget, 0 if every budget visits all points. planned_s: the sufficient budget. counters: None if
    unknown. private_bytes, widths, deviations: results of earlier runs that the run was given."""

    seed: int = 0
    cpus: Sequence[int] = ()
    abis: Sequence[str] = ()
    targets: Sequence[str] = ()
    priority: str = ""
    reused: bool = False
    interleaved: bool = False
    probes: Sequence[str] = ()
    selects: Sequence[Select] = ()
    suite: str = ""
    words: Sequence[str] = ()
    started: str = ""
    budget_s: float = 0.0
    planned_s: float = 0.0
    counters: bool | None = None
    private_bytes: int = 0
    widths: Sequence[float] = ()
    deviations: Sequence[float] = ()


class Recorded(NamedTuple):
    """The content of a journal. seconds: duration of the run, 0 if it does not cover all visits. differs: whether a
    copy of the first stream differs from it. lost: number of damaged streams. begins: indices of the outcomes at which
    the run was resumed, possibly after a reboot that restarted the clock. notes: run time in seconds, number of visits
    so far, and activity of the machine at that time. table: columns of the outcomes. status: why the run ended."""

    machine: Machine
    clock: ClockReading | None
    probes: Mapping[str, Probe]
    builds: Sequence[Build]
    outcomes: Sequence[Outcome]
    seconds: float
    differs: bool = False
    asked: Asked = Asked()
    lost: int = 0
    begins: Sequence[int] = ()
    notes: Sequence[tuple[float, int, Surroundings | None]] = ()
    table: VisitTable = VisitTable(())
    status: str = ""


Places = Iterator[tuple[int, str]]


# ---- the machine and the whole run -----------------------------------------------------------------------------------


def _copies(recorded: Recorded) -> Iterator[str]:
    """Yields a rule if the two copies of the machine's record differ."""
    if recorded.differs:
        yield "the two copies of the machine's record are equal, and describe a probe once"


def _machine(recorded: Recorded) -> Iterator[str]:
    """Yields the rules that the description of the machine breaks."""
    yield from unlikely(recorded.machine)


def _numbered(recorded: Recorded) -> Iterator[str]:
    """Yields a rule if a visit number below the last is without a record. Visits in progress when a session ended are
    exempt."""
    visit_count, last = len(recorded.outcomes), max((visit.visit for visit in recorded.outcomes), default=0)
    under_way = recorded.lost + MOST_UNDER_WAY * (1 + len(recorded.begins))
    if visit_count and not recorded.asked.reused and last + 1 - visit_count > under_way:
        yield f"visits have the numbers 0 to {visit_count - 1}, and the last has {last}"


OF_RUN_DESCRIBED: Sequence[Callable[[Recorded], Iterable[str]]] = (
    _copies, _machine, _numbered,
)  # fmt: skip

# ---- visits ----------------------------------------------------------------------------------------------------------


def _described(recorded: Recorded) -> Places:
    """Yields visits with an executable, revision, parameters or work that contradict the run's description. Work is
    compared between visits of one point that chose the same values, such as the fastest kernel."""

    def chosen_point(visit: Outcome) -> object:
        return visit.point, *sorted(visit.chosen.items())

    built = {(build.probe, build.abi) for build in recorded.builds}
    work = defaultdict[object, Counter[object]](Counter)
    for visit, count in zip(recorded.table.firsts, recorded.table.counts.tolist(), strict=True):
        if visit.status == "ok" and visit.samples:
            work[chosen_point(visit)][visit.work] += count

    def why(visit: Outcome) -> str:
        point, probe = visit.point, recorded.probes.get(visit.point.probe)
        if probe is None or visit.status != "ok":
            return ""
        known = {parameter.name: parameter.choices for parameter in probe.parameters}
        if built and is_of_this_machine(visit) and (point.probe, point.abi) not in built:
            return "the run describes the executable of each visit"
        if visit.revision not in (0, probe.revision):
            return "a visit has its probe's revision"
        if known and not _has_parameters(known, {name: value for name, value in point.parameters if name != RELATION}):
            return "a visit's parameters are those of its probe"
        is_other = (
            visit.samples
            and len(work_of_visits := work[chosen_point(visit)]) > 1
            and visit.work != work_of_visits.most_common(1)[0][0]
        )
        return "the work of an iteration is the same in all visits of a point" if is_other else ""

    return recorded.table.broken(why)


def _has_parameters(known: Mapping[str, tuple[str, ...]], given: Mapping[str, Value]) -> bool:
    """Returns whether the given parameters are the probe's: each a choice or, without choices, not a negative number.
    known: choices by name."""
    return known.keys() == given.keys() and all(
        str(value) in known[name] if known[name] else not isinstance(value, int) or value >= 0
        for name, value in given.items()
    )


def _built(recorded: Recorded) -> Places:
    """Yields visits of a probe that has several executables for one ABI, or one for other CPUs than most executables of
    the ABI, or none that can be a file. Executables may come from several compilers: a package contains some, and the
    machine's compiler builds the others."""
    executables = Counter((build.probe, build.abi) for build in {*recorded.builds})
    flags_of_group = defaultdict[object, Counter[object]](Counter)
    for build in recorded.builds:
        flags_of_group[_group(build)][_made_for(build)] += 1
    others = {(build.probe, build.abi) for build in recorded.builds
              if _made_for(build) != flags_of_group[_group(build)].most_common(1)[0][0]}  # fmt: skip
    ambiguous = others | {key for key, count in executables.items() if count > 1}
    files = {(build.probe, build.abi) for build in recorded.builds if _is_no_file(build)}

    def why(visit: Outcome) -> str:
        key = visit.point.probe, visit.point.abi
        if key in ambiguous:
            return "a probe has one executable for an ABI, and all of an ABI are for the same CPUs"
        return f"an executable fills a page, and has a SHA-256 of {SHA256_DIGITS} digits" if key in files else ""

    return recorded.table.broken(why)


def _is_no_file(build: Build) -> bool:
    """Returns whether a build's size or hash is not that of an executable: the runtime alone fills several pages. A
    build record may lack both."""
    digits = build.sha256 and not (len(build.sha256) == SHA256_DIGITS and {*build.sha256} <= HEXADECIMAL)
    return bool(digits or 0 < build.size_bytes < USUAL_PAGE_BYTES or build.size_bytes < 0)


def _group(build: Build) -> object:
    """Returns the key of the builds that are for the same CPUs: those of one ABI, with workloads apart."""
    return build.abi, build.probe.startswith(COMMANDS)


def _loaded(recorded: Recorded) -> Places:
    """Yields visits whose process has another size of code or data, in bytes, than most processes of its executable."""
    of_builds = defaultdict[object, dict[int, object]](dict)
    for place, visit in enumerate(recorded.outcomes):
        if is_of_this_machine(visit) and "code" in visit.gauges:
            parts = visit.gauges["code"], visit.gauges.get("data")
            of_builds[visit.point.probe, visit.point.abi][place] = parts
    for sizes_of_visits in of_builds.values():
        (usual_sizes, count), *others = Counter(sizes_of_visits.values()).most_common()
        is_even = bool(others) and others[0][1] == count
        yield from ((place, "all processes of an executable have equal sizes of code and data")
                    for place, parts in sizes_of_visits.items() if is_even or parts != usual_sizes)  # fmt: skip


def _made_for(build: Build) -> object:
    """Returns the compiler flags that select the CPUs which execute a build."""
    return tuple(word for word in build.flags.split() if word.startswith(MADE_FOR))


def _meant(recorded: Recorded) -> Places:
    """Yields visits whose metrics, work or companions contradict the probe's description."""
    broken = {name: next((why for faults, why in OF_PROBES if any(faults(probe))), "")
              for name, probe in recorded.probes.items()}  # fmt: skip

    def why(visit: Outcome) -> str:
        probe = recorded.probes.get(visit.point.probe)
        if probe is None or visit.status != "ok" or not (visit.samples or visit.gauges):
            return ""
        return broken[probe.probe] or next((why for is_broken, why in OF_VISITS_MEANT if is_broken(probe, visit)), "")

    return recorded.table.broken(why)


OF_PROBES: Sequence[tuple[Callable[[Probe], Iterator[str]], str]] = (
    (wrong_directions, WORK_IS_MEANT),
    (repeated_names,
     "metrics, parameters and choices of a probe have names of their own, and metrics a source and unit"),
    (untimed_metrics, "each metric of a probe is of code that the probe times"),
    (wrong_values, "a parameter has choices if it is a choice, and its typical value is one of them"),
    (wrong_ranges, "a range is of numbers, and begins before it ends"),
)  # fmt: skip
"""Rules of a probe's description that hold for every version of Tollmeter. A probe that breaks one is left out of the
build."""


def _does_no_such_work(probe: Probe, visit: Outcome) -> bool:
    """Returns whether a visit did no work of a kind that its probe's rates count."""
    units = {metric.unit for metric in probe.metrics if metric.source in ("body", "difference")}
    work = visit.work
    needs = ("B/s", work.bytes), ("flop/s", work.flops), ("ns", work.operations)
    return bool(visit.samples) and bool(units & {unit for unit, each in needs if not each})


def _moves_other_bytes(_: Probe, visit: Outcome) -> bool:
    """Returns whether declared work is negative, or its bytes on the bus are fewer than its bytes or many times as
    many. A write may load its line first, and each strided access moves a line."""
    work = visit.work
    return min(work.bytes, work.flops, work.bus_bytes, work.operations, work.footprint_bytes) < 0 or bool(
        work.bus_bytes and not work.bytes <= work.bus_bytes <= MOST_TRAFFIC * work.bytes
    )


def _has_other_lanes(probe: Probe, visit: Outcome) -> bool:
    """Returns whether companions that run all the time have no times, other companions have times, or their number is
    not that of the other workers."""
    paces = {role.pace for role in probe.roles}
    if not paces or not visit.samples or not (paces == {"lockstep"} or (paces == {"background"} and visit.workers)):
        return False
    lanes = visit.samples[0].lanes if Samples.of(visit.samples).columns.has_lanes else None
    is_other = bool(lanes) == (paces == {"lockstep"})
    return is_other or bool(lanes and visit.workers and len(lanes) != len(visit.workers) - 1)


def _shares_a_cpu(_: Probe, visit: Outcome) -> bool:
    """Returns whether workers that share a CPU have a real-time priority, at which one of them would keep the CPU."""
    return visit.priority == "real-time" and len({*visit.workers}) < len(visit.workers)


def _counts_no_control(probe: Probe, visit: Outcome) -> bool:
    """Returns whether work or events of a control were counted although the probe has none."""
    counts, events = visit.counted, visit.events
    has_counts = counts and (counts.control_calls or counts.control_instructions)
    return not probe.control and bool(has_counts or (events and events.control))


def _works_elsewhere(_: Probe, visit: Outcome) -> bool:
    """Returns whether a worker is on a CPU that is not the visit's, or the timed worker began on another CPU than the
    first worker's."""
    return not {*visit.workers} <= {*visit.cpus} or bool(
        visit.workers and visit.samples and visit.samples[0].witness.cpu_before not in (-1, visit.workers[0])
    )


def _is_not_alone(probe: Probe, visit: Outcome) -> bool:
    """Returns whether a visit has companions although its probe has none."""
    has_lanes = bool(visit.samples) and Samples.of(visit.samples).columns.has_lanes and visit.samples[0].lanes
    return not probe.roles and bool(has_lanes or (visit.workers and not probe.spreads))


def _reports_what_is_timed(probe: Probe, visit: Outcome) -> bool:
    """Returns whether a gauge has the name of a timed metric. A probe of many CPUs also reports gauges that its
    description does not name."""
    return bool({metric.name for metric in probe.metrics if metric.source != "gauge"} & {*visit.gauges})


def _stops_its_ladder(probe: Probe, visit: Outcome) -> bool:
    """Returns whether a visit has times of its counted batches although its probe stops the clock in a part of its
    body."""
    return bool(probe.pauses and visit.counted and visit.counted.ladder)


OF_VISITS_MEANT: Sequence[tuple[Callable[[Probe, Outcome], bool], str]] = (
    (_does_no_such_work, WORK_IS_MEANT),
    (_is_not_alone, "a visit has companions only if its probe has"),
    (_has_other_lanes, "companions that run all the time, and no others, are timed themselves"),
    (_counts_no_control, HAS_CONTROL),
    (_shares_a_cpu, "a worker of real-time priority has a CPU of its own"),
    (_works_elsewhere, "the timed worker is on the first of the workers' CPUs, and all of them are the visit's"),
    (_moves_other_bytes, f"work is not negative, and the bus traffic is 1 to {MOST_TRAFFIC:g} times the bytes"),
    (_reports_what_is_timed, "a value that a probe reports itself is not timed too"),
    (_stops_its_ladder, "a probe that stops the clock has no times of the batches whose work is counted"),
)  # fmt: skip


def _asked_for(recorded: Recorded) -> Places:
    """Yields visits whose probe, CPUs, ABI, target or priority was not requested."""
    asked = recorded.asked
    places = {target.split(":")[0] for target in asked.targets}
    unselected = {
        name for name in recorded.probes if asked.probes and not any(fnmatchcase(name, one) for one in asked.probes)
    }

    def why(visit: Outcome) -> str:
        if visit.status != "ok":
            return ""
        is_requested = (
            (not asked.cpus or not is_of_this_machine(visit) or set(visit.cpus) <= set(asked.cpus))
            and (not asked.abis or visit.point.abi in asked.abis)
            and (not places or visit.point.target.split(":")[0] in places)
            and (places or not visit.point.target.startswith(OTHER_MACHINE))
            and (asked.priority != "normal" or visit.priority == "normal")
        )
        if visit.point.probe in unselected:
            return "a visit is of a probe that its suite selects"
        if not is_requested:
            return "the CPUs, ABI, target and priority of a visit are those that were requested"
        has_wrong_cpus = len(set(visit.cpus)) != len(visit.cpus) or (visit.pinned and not visit.cpus)
        return "a visit lists each of its CPUs once, and at least one if it is pinned" if has_wrong_cpus else ""

    return recorded.table.broken(why)


def _seeded(recorded: Recorded) -> Places:
    """Yields visits whose layout seed is not derived from the run's seed although other layouts of the point, or of the
    point's other sizes, are. A point without any derived seed is exempt, since a bundle draws its own seeds, and a
    parameter may have been renamed. The seed may be that of any allowed CPU, since a visit may run on another CPU than
    planned."""
    asked = recorded.asked
    others = [(cpu,) for cpu in recorded.machine.allowed_cpus]
    of_point = defaultdict[object, list[int]](list)
    owners = [*map(_owner, recorded.table.of_points)]
    for place, (visit, number) in enumerate(zip(recorded.outcomes, recorded.table.points.tolist(), strict=True)):
        if visit.seed and not asked.reused:
            of_point["interleaved" if asked.interleaved else owners[number]].append(place)
    derived, foreign = set[object](), defaultdict[object, list[int]](list)
    for owner, places in of_point.items():
        count = min(MOST_LAYOUTS, len(places) + MOST_UNDER_WAY)
        layouts_on = cache(lambda cpus, owner=owner, count=count: _Layouts(asked.seed, count, owner, cpus))
        layouts_of_point = defaultdict[Point, list[tuple[int, int]]](list)
        underived = []
        for number, place in enumerate(places, 1):
            visit = recorded.outcomes[place]
            candidates = (layouts_on(cpus).number(visit.seed) for cpus in (visit.cpus, *others))
            layout = next((one for one in candidates if one is not None), None)
            underived += [place] * (layout is None)
            layouts_of_point[visit.point].append((layout or 0, place))
            if len(underived) == number == LEAST_SAMPLES:
                break
        curve = _curve(recorded.outcomes[places[0]].point)
        if len(underived) in (len(places), LEAST_SAMPLES) and len(underived) == number:
            foreign[curve] += places
        else:
            derived.add(curve)
            yield from ((place, SEEDED) for place in underived)
        if not underived and not recorded.lost and not asked.interleaved:
            yield from _left_out(layouts_of_point.values())
    yield from ((place, SEEDED) for curve in foreign.keys() & derived for place in foreign[curve])
    if derived and not asked.interleaved:
        yield from _exchanged(recorded, [place for curve in foreign.keys() - derived for place in foreign[curve]])


def _owner(point: Point) -> object:
    """Returns the key that determines a layout: probe and parameters, without the ABI, since all ABIs share layouts."""
    return point.probe, point.parameters


def _curve(point: Point) -> object:
    """Returns the key of points that differ only in numeric parameters. A parameter has the name that it had when the
    run was planned."""
    return point.probe, *(pair for pair in point.parameters if not isinstance(pair[1], int))


def _exchanged(recorded: Recorded, places: Sequence[int]) -> Places:
    """Yields visits whose seed is that of another point. places: indices of the visits to examine."""
    owners = {_owner(point) for point in recorded.table.of_points}
    of_cpus = defaultdict[tuple[int, ...], list[int]](list)
    for place in places:
        of_cpus[recorded.outcomes[place].cpus].append(place)
    for cpus, visits_on_cpus in of_cpus.items():
        seeds = {
            layout_seed(recorded.asked.seed, layout, owner, cpus) for owner in owners for layout in range(LEAST_SAMPLES)
        }
        yield from ((place, SEEDED) for place in visits_on_cpus if recorded.outcomes[place].seed in seeds)


def _left_out(of_points: Iterable[Sequence[tuple[int, int]]]) -> Places:
    """Yields the visits of points that skip a layout: layouts are visited in the order of their numbers. of_points: for
    each point the layout number and index of its visits."""
    for layouts_of_visits in of_points:
        layouts = {layout for layout, _ in layouts_of_visits}
        if len(layouts) <= max(layouts):
            yield from ((place, "no layout of a point is left out") for _, place in layouts_of_visits)


class _Layouts:
    """Finds the number of a layout by its seed, for a point on some CPUs. Seeds are derived when needed: a run uses few
    of the possible layouts, and deriving one seed takes 8 us."""

    def __init__(self, seed: int, count: int, owner: object, cpus: tuple[int, ...]) -> None:
        """Prepares the layouts numbered 0 to count - 1. seed: the run's. owner: the key that determines a layout."""
        self._numbers = dict[int, int]()
        self._others = ((layout_seed(seed, layout, owner, cpus), layout) for layout in range(count))

    def number(self, seed: int) -> int | None:
        """Returns the number of the layout with this seed; None if none of the first `count` layouts has it."""
        while seed not in self._numbers and (other := next(self._others, None)):
            self._numbers[other[0]] = other[1]
        return self._numbers.get(seed)


def _laid_out(recorded: Recorded) -> Places:
    """Yields visits whose seed is used by several points, unless the point has most of the visits with this seed. A
    seed is derived from its point, except for interleaved points."""
    table, numbers = recorded.table, dict[object, int]()
    owners = np.array([numbers.setdefault(_owner(point), len(numbers)) for point in table.of_points], int)[table.points]
    seeds = table.column(lambda visit: hash(visit.seed), np.int64)
    order = np.lexsort((owners, seeds))
    repeated_seeds = seeds[order][1:][(np.diff(seeds[order]) == 0) & (np.diff(owners[order]) != 0)]
    suspects = np.flatnonzero(np.isin(seeds, repeated_seeds) & (seeds > 0)).tolist()
    if recorded.asked.interleaved or not suspects:
        return
    of_seeds = defaultdict[int, Counter[int]](Counter)
    for place in suspects:
        of_seeds[seeds[place]][owners[place]] += 1
    for place in suspects:
        visits_of_point = of_seeds[seeds[place]]
        if visits_of_point[owners[place]] < visits_of_point.most_common(1)[0][1] * 2:
            yield place, "no two points have layouts of one seed"


def _executed(recorded: Recorded) -> Places:
    """Yields visits whose ABI or vector kernel this CPU cannot execute directly."""
    machine = recorded.machine.architecture

    def why(visit: Outcome, word: str, families: Mapping[tuple[str, ...], str | tuple[str, ...]]) -> str:
        runs_on = next((cpus for names, cpus in families.items() if word.startswith(names)), None)
        is_impossible = (
            machine
            and is_of_this_machine(visit)
            and visit.status == "ok"
            and runs_on
            and not machine.startswith(runs_on)
        )
        return f"a CPU of {machine} executes {word}" if is_impossible else ""

    yield from recorded.table.broken(lambda visit: why(visit, visit.point.abi, FAMILIES))
    yield from recorded.table.broken(lambda visit: why(visit, str(visit.point.values().get("kernel", "")), VECTORS))
    yield from recorded.table.broken(lambda visit: why(visit, visit.chosen.get("kernel", ""), VECTORS))


def _sized(recorded: Recorded) -> Places:
    """Yields visits with a buffer larger than memory, or with a line or page size that is not the machine's."""
    kinds = (cache for kind in recorded.machine.kinds for cache in kind.caches)
    lines = {cache.line_bytes for cache in (*recorded.machine.caches, *kinds) if cache.line_bytes}

    def why(visit: Outcome) -> str:
        counts = visit.counted
        if not is_of_this_machine(visit) or visit.status != "ok":
            return ""
        buffer_bytes = max(counts.buffer_bytes, counts.chase_bytes) if counts else 0
        if max(buffer_bytes, visit.work.footprint_bytes) > recorded.machine.memory_bytes > 0:
            return "a buffer is no larger than memory"
        if counts and counts.line_bytes and lines and counts.line_bytes not in lines:
            return "a visit's cache line is the machine's"
        if counts and counts.hugetlb_bytes % (recorded.machine.page_bytes or 1):
            return "a buffer in huge pages has whole pages"
        has_other_page = counts and counts.chase_bytes and counts.page_bytes != recorded.machine.page_bytes
        return "a visit's page is the machine's" if has_other_page else ""

    return recorded.table.broken(why)


def _accounted(recorded: Recorded) -> Places:
    """Yields visits with a gauge of memory or faults that is negative, much larger than memory, or larger than the
    whole of which it is a part."""
    memory = recorded.machine.memory_bytes or inf
    for place, visit in enumerate(recorded.outcomes):
        if not is_of_this_machine(visit) or not visit.gauges or visit.status != "ok":
            continue
        values = {**visit.gauges, "memory": memory, "all": 1.0}
        probe = recorded.probes.get(visit.point.probe)
        units = {metric.name: metric.unit for metric in (probe.metrics if probe else ())}
        sizes = [value for name, value in visit.gauges.items() if units.get(name) in ("B", "fault")]
        if min(sizes, default=0) < 0 or max(sizes, default=0) > INEXPLICABLE * memory:
            yield place, f"a process has no negative size, and maps at most {INEXPLICABLE:g} times the machine's memory"
        elif any(
            not 0 <= values[part] <= (1 + SAME_WITHIN) * values[whole]
            for part, whole in PARTS
            if part in values and whole in values
        ):
            yield place, "no part of a process's memory is larger than the whole"


OF_VISITS_DESCRIBED: Sequence[Callable[[Recorded], Places]] = (
    _described, _built, _meant, _asked_for, _seeded, _laid_out, _executed, _sized, _loaded, _accounted,
)  # fmt: skip
