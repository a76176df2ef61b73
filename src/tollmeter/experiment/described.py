# SPDX-License-Identifier: Apache-2.0
"""What describes a run, against itself and against the visits: the machine, the request, executables and probes. Each
rule is a sentence that holds of every honest run (docs/measuring.md lists them)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from math import inf
from typing import NamedTuple

from tollmeter.model import Build, ClockReading, Machine, Outcome, Point, Probe, Samples, Value, layout_seed
from tollmeter.model.topology import RELATION, numbers

HERE = "local"
LINUX_CLOCK = "monotonic_raw"
LINES = range(8, 1025)
LEAST_PAGE, MOST_PAGE = 1 << 10, 1 << 24
ANY_WAY = 0xFFFF
"""Ways, in Linux's words, of a cache that is fully associative."""
SEEDED = "a layout is of the run's seed"
LOCAL_DISTANCE = 10
"""Of memory nodes, in Linux's words."""
MOST_UNDER_WAY = 2
"""Visits: one that is timed, and one that is set up beside it."""
LEAST_BETWEEN = 4
"""Visits between two notes."""
MOST_LAYOUTS, LEAST_SEEDED = 4096, 8
"""Of a point, whose seeds are made anew; and visits of which one has such a seed, or none of the run has."""
SLACK_S = 0.2
X86 = ("x86_64", "i386", "i486", "i586", "i686")
FAMILIES = {
    ("x86_64", "ia32", "x32", "i386"): X86, ("aarch64",): ("aarch64",), ("arm", "thumb"): ("arm", "aarch64"),
    ("riscv",): ("riscv",), ("ppc",): ("ppc",), ("s390",): ("s390",), ("mips",): ("mips",), ("sparc",): ("sparc",),
    ("loongarch",): ("loongarch",),
}  # fmt: skip
"""Beginnings of ABIs' names, and of what `uname -m` says where the CPU itself executes them."""
VECTORS = {("avx", "sse", "fma", "x87"): X86, ("neon", "sve"): ("arm", "aarch64"), ("vsx", "altivec"): ("ppc",),
           ("rvv",): ("riscv",)}  # fmt: skip
"""Beginnings of a kernel's name, likewise."""


class Asked(NamedTuple):
    """What a run was asked for; empty for what it was not. reused: it has visits of an earlier run; interleaved: points
    take turns with others. probes: names and globs of all that a visit may be of."""

    seed: int = 0
    cpus: Sequence[int] = ()
    abis: Sequence[str] = ()
    targets: Sequence[str] = ()
    priority: str = ""
    reused: bool = False
    interleaved: bool = False
    probes: Sequence[str] = ()


class Recorded(NamedTuple):
    """What a journal says. seconds: 0 where they are not of all visits; differs: whether a copy of the first stream
    differs from it; lost: streams that are damaged; begins: places of the outcomes with which measuring was resumed,
    perhaps after the machine was started anew, and its clock with it. notes: seconds of the run after so many visits,
    and of those how long it was throttled; without those that repeat what an earlier session noted. needs: cycles that
    an iteration of a point takes at least."""

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
    notes: Sequence[tuple[float, int, float]] = ()
    needs: Mapping[Point, float] = {}


Places = Iterator[tuple[int, str]]


def is_here(visit: Outcome) -> bool:
    return visit.point.target == HERE


def is_timed(visit: Outcome) -> bool:
    """By Linux's clock on this machine."""
    return is_here(visit) and visit.clock.kind == "hardware" and visit.clock.source == LINUX_CLOCK


# ---- the machine and the whole run -----------------------------------------------------------------------------------


def _copies(recorded: Recorded) -> Iterator[str]:
    if recorded.differs:
        yield "the two copies of the machine's record are equal"


def _cpus(recorded: Recorded) -> Iterator[str]:
    machine, topology = recorded.machine, recorded.machine.topology
    if len(set(machine.allowed_cpus)) != len(machine.allowed_cpus) or machine.cpus < 1:
        yield "a CPU is allowed once, and one is online"
    if topology is None or not topology.online:
        return
    if len(numbers(topology.online)) != machine.cpus:
        yield f"{machine.cpus} CPUs are online, and they are CPUs {topology.online}"
    parts = {name: list(getattr(topology, name)) for name in ("packages", "dies", "clusters", "cores", "last_caches")}
    parts |= {name: [part.cpus for part in getattr(topology, name)] for name in ("kinds", "nodes")}
    for name, sets in parts.items():
        members = [cpu for part in sets for cpu in numbers(part)]
        if len(set(members)) != len(members):
            yield f"a CPU is in one of the {name.replace('_', ' ')}"
    if {*numbers(topology.online)} & {*numbers(topology.offline)}:
        yield "a CPU is online or offline"


def _nodes(recorded: Recorded) -> Iterator[str]:
    """Linux refuses a table of distances in which a node is not 10 from itself."""
    topology = recorded.machine.topology
    if topology is None:
        return
    nodes = [node.node for node in topology.nodes]
    nearest = [min(node.distances) for node in topology.nodes if node.distances]
    if len({*nodes}) < len(nodes) or any(distance != LOCAL_DISTANCE for distance in nearest):
        yield f"a memory node is listed once, and is {LOCAL_DISTANCE} from itself, which is nearest"
    if nodes and not {*numbers(topology.allowed_nodes)} <= {*nodes}:
        yield f"a process may use some of the memory nodes {nodes[0]} to {nodes[-1]}"
    pages = [topology.huge_page_bytes or recorded.machine.page_bytes, *(one.bytes for one in topology.hugetlb)]
    if any(not _is_power(size) or size < recorded.machine.page_bytes for size in pages):
        yield "a huge page has a power of two of bytes, and holds pages"
    last = max((cache.level for cache in recorded.machine.caches), default=0)
    shared = [cache.shared_cpus for cache in recorded.machine.caches if cache.level == last and cache.shared_cpus]
    groups = [{*numbers(part)} for part in topology.last_caches]
    if groups and any({*numbers(cpus)} not in groups for cpus in shared):
        yield "CPUs that share the last cache are those that share it in the list of caches"


def _threads(recorded: Recorded) -> Iterator[str]:
    machine = recorded.machine
    threads = [cpu for core in machine.cores for cpu in core]
    if len(set(threads)) != len(threads) or not set(threads) <= set(machine.allowed_cpus):
        yield "the threads of a core are allowed CPUs, each of one core"
    kinds = Counter((cache.level, cache.kind) for cache in machine.caches)
    shared = [(cache.level, set(numbers(cache.shared_cpus))) for cache in machine.caches if cache.shared_cpus]
    if any(count > 1 for count in kinds.values()) or any(
        inner < outer and not cpus <= others for inner, cpus in shared for outer, others in shared
    ):
        yield "a level has one cache of a kind, and what shares it shares all further levels"


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _memory(recorded: Recorded) -> Iterator[str]:
    """The geometry of caches and pages: hardware selects a set, a line and a page by bits of an address."""
    machine = recorded.machine
    lines = [cache.line_bytes for cache in machine.caches if cache.line_bytes]
    if any(not _is_power(line) or line not in LINES for line in lines):
        yield "a cache line has a power of two of bytes"
    elif any(
        cache.size_bytes < (cache.line_bytes or 1) * ((cache.ways != ANY_WAY and cache.ways) or 1)
        or cache.size_bytes % (cache.line_bytes or 1)
        for cache in machine.caches
        if cache.size_bytes
    ):
        yield "a cache holds whole lines, one in each of its ways at least"
    for kind in ("data", "instruction"):
        sizes = [cache.size_bytes for cache in sorted(machine.caches, key=lambda cache: cache.level)
                 if cache.kind in (kind, "unified") and cache.size_bytes]  # fmt: skip
        if sizes[1:] and sizes[0] > sizes[1]:
            yield "the first level of cache is smaller than the second"
    if not _is_power(machine.page_bytes) or not LEAST_PAGE <= machine.page_bytes <= MOST_PAGE:
        yield "a page has a power of two of bytes"


def _numbered(recorded: Recorded) -> Iterator[str]:
    """Each visit that is requested is recorded, with whatever came of it, but for those under way when a run ends."""
    seen = {visit.visit for visit in recorded.outcomes}
    under_way = recorded.lost + MOST_UNDER_WAY * (1 + len(recorded.begins))
    if seen and not recorded.asked.reused and max(seen) + 1 - len(seen) > under_way:
        yield f"visits have the numbers 0 to {len(seen) - 1}, and the last has {max(seen)}"


def _noted(recorded: Recorded) -> Iterator[str]:
    """The run's own time goes on as that of its visits, but for those under way: what lies between two notes lies
    between their visits. One visit at each end may lie anywhere."""
    times = [visit.at_ns / 1e9 if is_timed(visit) else 0.0 for visit in recorded.outcomes]
    is_one = not recorded.begins and not recorded.asked.reused
    for (before_s, first, _), (after_s, end, _) in pairwise([(0.0, 0, 0.0), *recorded.notes]):
        inside = sorted(filter(None, times[first and first + MOST_UNDER_WAY : end]))
        if after_s < before_s and end > first:
            yield "the time of the run does not go back"
        elif is_one and len(inside) >= LEAST_BETWEEN:
            earlier = list(filter(None, times[: max(0, first - MOST_UNDER_WAY)]))
            later = next(filter(None, times[end + MOST_UNDER_WAY :]), inf)
            most = later - earlier[-1] if earlier else inf
            if not inside[-2] - inside[1] - SLACK_S <= after_s - before_s <= most + SLACK_S:
                yield f"the {after_s - before_s:.1f} s between two notes are those of the visits between them"
    cpus = max(recorded.machine.cpus, len(recorded.machine.allowed_cpus))
    if any(throttled_s > cpus * seconds + SLACK_S for seconds, _, throttled_s in recorded.notes):
        yield "a run is throttled for no longer than it takes"


OF_RUN_DESCRIBED: Sequence[Callable[[Recorded], Iterable[str]]] = (
    _copies, _cpus, _nodes, _threads, _memory, _numbered, _noted,
)  # fmt: skip

# ---- visits ----------------------------------------------------------------------------------------------------------


def _described(recorded: Recorded) -> Places:
    """A visit is of an executable, and of parameters, that the run describes. What a visit chose for itself, as the
    fastest kernel, is part of what its work is of."""

    def of(visit: Outcome) -> object:
        return visit.point, *sorted(visit.chosen.items())

    built = {(build.probe, build.abi) for build in recorded.builds}
    work = defaultdict[object, Counter[object]](Counter)
    for visit in recorded.outcomes:
        if visit.status == "ok" and visit.samples:
            work[of(visit)][visit.work] += 1
    for place, visit in enumerate(recorded.outcomes):
        point, probe = visit.point, recorded.probes.get(visit.point.probe)
        if probe is None or visit.status != "ok":
            continue
        known = {parameter.name: parameter.choices for parameter in probe.parameters}
        if built and is_here(visit) and (point.probe, point.abi) not in built:
            yield place, "a visit is of an executable that the run describes"
        elif visit.revision not in (0, probe.revision):
            yield place, "a visit is of its probe's revision"
        elif known and not _has(known, {name: value for name, value in point.parameters if name != RELATION}):
            yield place, "a visit's parameters are those of its probe"
        elif visit.samples and len(seen := work[of(visit)]) > 1 and visit.work != seen.most_common(1)[0][0]:
            yield place, "the work of an iteration is the same in all visits of a point"


def _has(known: Mapping[str, tuple[str, ...]], given: Mapping[str, Value]) -> bool:
    return known.keys() == given.keys() and all(
        str(value) in known[name] if known[name] else not isinstance(value, int) or value >= 0
        for name, value in given.items()
    )


def _built(recorded: Recorded) -> Places:
    """One executable of a probe for an ABI, and all of an ABI for the same CPUs."""
    builds = {(build.probe, build.abi, build.sha256, build.flags) for build in recorded.builds}
    several = Counter((probe, abi) for probe, abi, _, _ in builds)
    targets = defaultdict[str, Counter[object]](Counter)
    for _, abi, _, flags in sorted(builds):
        targets[abi][_made_for(flags)] += 1
    others = {(probe, abi) for probe, abi, _, flags in builds if _made_for(flags) != targets[abi].most_common(1)[0][0]}
    odd = others | {key for key, count in several.items() if count > 1}
    for place, visit in enumerate(recorded.outcomes):
        if (visit.point.probe, visit.point.abi) in odd:
            yield place, "a probe has one executable for an ABI, and all of an ABI are built for the same CPUs"


def _made_for(flags: str) -> tuple[str, ...]:
    return tuple(word for word in flags.split() if word.startswith("-march="))


def _meant(recorded: Recorded) -> Places:
    """A time is better where it is less and a rate where it is more; and what is a rate of bytes moves some."""
    odd = {
        name
        for name, probe in recorded.probes.items()
        for metric in probe.metrics
        if metric.source != "gauge"
        and metric.better == ("more" if metric.unit == "ns" else "less" if _is_rate(metric.unit) else "")
    }
    twice = {name: _names_twice(probe) for name, probe in recorded.probes.items()}
    for place, visit in enumerate(recorded.outcomes):
        probe = recorded.probes.get(visit.point.probe)
        if probe is None or visit.status != "ok" or not visit.samples:
            continue
        units = {metric.unit for metric in probe.metrics if metric.source in ("body", "difference")}
        work = visit.work
        needs = ("B/s", work.bytes), ("flop/s", work.flops), ("ns", work.operations)
        idle = {unit for unit, each in needs if not each}
        if probe.probe in odd or units & idle:
            yield place, "a time is better where it is less, and a rate where it is more, of a visit with such work"
        elif twice[probe.probe]:
            yield place, "a probe has one metric, parameter and choice of a name"
        elif not probe.roles and Samples.of(visit.samples).columns.has_lanes and visit.samples[0].lanes:
            yield place, "a visit has companions where its probe has"


def _names_twice(probe: Probe) -> bool:
    names = [[metric.name for metric in probe.metrics], [parameter.name for parameter in probe.parameters],
             *(list(parameter.choices) for parameter in probe.parameters)]  # fmt: skip
    return any(len({*several}) < len(several) for several in names)


def _is_rate(unit: str) -> bool:
    return unit.endswith("/s")


def _asked_for(recorded: Recorded) -> Places:
    asked = recorded.asked
    places = {target.split(":")[0] for target in asked.targets}
    others = {
        name for name in recorded.probes if asked.probes and not any(fnmatchcase(name, one) for one in asked.probes)
    }
    for place, visit in enumerate(recorded.outcomes):
        if visit.status != "ok":
            continue
        is_of = (
            (not asked.cpus or not is_here(visit) or set(visit.cpus) <= set(asked.cpus))
            and (not asked.abis or visit.point.abi in asked.abis)
            and (not places or visit.point.target.split(":")[0] in places)
            and (asked.priority != "normal" or visit.priority == "normal")
        )
        if visit.point.probe in others:
            yield place, "a visit is of a probe that its suite selects"
        elif not is_of:
            yield place, "a visit is on CPUs, of an ABI, in a place and at a priority that were asked for"
        elif len(set(visit.cpus)) != len(visit.cpus) or (visit.pinned and not visit.cpus):
            yield place, "a visit is on each of its CPUs once, and one that is pinned on a CPU"


def _seeded(recorded: Recorded) -> Places:
    """Where most layouts of a point are of the run's seed, all are, and those of its other sizes: a bundle draws its
    own, and a parameter may have had another name. A visit may be on another CPU than was meant."""
    asked = recorded.asked
    others = [(cpu,) for cpu in recorded.machine.allowed_cpus]
    of_point = defaultdict[object, list[int]](list)
    for place, visit in enumerate(recorded.outcomes):
        if visit.seed and not asked.reused:
            of_point["interleaved" if asked.interleaved else (visit.point.probe, visit.point.parameters)].append(place)
    own, foreign = set[object](), defaultdict[object, list[int]](list)
    for whose, places in of_point.items():
        count = min(MOST_LAYOUTS, len(places) + MOST_UNDER_WAY)
        made = cache(lambda cpus, whose=whose, count=count: _seeds(asked.seed, count, whose, cpus))
        used = defaultdict[Point, list[tuple[int, int]]](list)
        odd = []
        for number, place in enumerate(places, 1):
            visit = recorded.outcomes[place]
            layout = next((made(cpus)[visit.seed] for cpus in (visit.cpus, *others) if visit.seed in made(cpus)), None)
            odd += [place] * (layout is None)
            used[visit.point].append((layout or 0, place))
            if len(odd) == number == LEAST_SEEDED:
                break
        curve = _curve(recorded.outcomes[places[0]].point)
        if len(odd) in (len(places), LEAST_SEEDED) and len(odd) == number:
            foreign[curve] += places
        elif 2 * len(odd) < len(places):
            own.add(curve)
            yield from ((place, SEEDED) for place in odd)
        if not odd and not recorded.lost and not asked.interleaved:
            yield from _left_out(used.values())
    yield from ((place, SEEDED) for curve in foreign.keys() & own for place in foreign[curve])


def _curve(point: Point) -> object:
    """Of the points that have other numbers in place of its own, whose names were the same when they were planned."""
    return point.probe, *(pair for pair in point.parameters if not isinstance(pair[1], int))


def _left_out(of_points: Iterable[Sequence[tuple[int, int]]]) -> Places:
    """Each layout of a point is visited before the next is made."""
    for several in of_points:
        layouts = {layout for layout, _ in several}
        if len(layouts) <= max(layouts):
            yield from ((place, "no layout of a point is left out") for _, place in several)


def _seeds(seed: int, count: int, whose: object, cpus: tuple[int, ...]) -> Mapping[int, int]:
    """Layouts by their seeds."""
    return {layout_seed(seed, layout, whose, cpus): layout for layout in range(count)}


def _laid_out(recorded: Recorded) -> Places:
    """A seed is made of the point, so that no two points have one layout; but for points that are interleaved."""
    of_seeds = defaultdict[int, Counter[object]](Counter)
    for visit in recorded.outcomes:
        if visit.seed:
            of_seeds[visit.seed][visit.point.probe, visit.point.parameters] += 1
    shared = {seed: owners for seed, owners in of_seeds.items() if len(owners) > 1}
    if recorded.asked.interleaved or not shared:
        return
    for place, visit in enumerate(recorded.outcomes):
        owners = shared.get(visit.seed)
        if owners and owners[visit.point.probe, visit.point.parameters] < owners.most_common(1)[0][1] * 2:
            yield place, "no two points have one layout"


def _executed(recorded: Recorded) -> Places:
    """What the CPU itself executes is what such a CPU can."""
    machine = recorded.machine.architecture
    if not machine:
        return
    for place, visit in enumerate(recorded.outcomes):
        if not is_here(visit) or visit.status != "ok":
            continue
        kernel = str(visit.point.values().get("kernel", ""))
        for word, families in ((visit.point.abi, FAMILIES), (kernel, VECTORS)):
            can = next((cpus for names, cpus in families.items() if word.startswith(names)), None)
            if can and not machine.startswith(can):
                yield place, f"a CPU of {machine} executes {word}"


def _sized(recorded: Recorded) -> Places:
    """Buffers and lines are those of the machine."""
    lines = {cache.line_bytes for cache in recorded.machine.caches if cache.line_bytes}
    for place, visit in enumerate(recorded.outcomes):
        counts = visit.counted
        if not is_here(visit) or visit.status != "ok":
            continue
        held = max(counts.buffer_bytes, counts.chase_bytes) if counts else 0
        if max(held, visit.work.footprint_bytes) > recorded.machine.memory_bytes:
            yield place, "a buffer is no larger than memory"
        elif counts and counts.line_bytes and lines and counts.line_bytes not in lines:
            yield place, "a visit's cache line is the machine's"
        elif counts and counts.chase_bytes and counts.page_bytes != recorded.machine.page_bytes:
            yield place, "a visit's page is the machine's"


OF_VISITS_DESCRIBED: Sequence[Callable[[Recorded], Places]] = (
    _described, _built, _meant, _asked_for, _seeded, _laid_out, _executed, _sized,
)  # fmt: skip
