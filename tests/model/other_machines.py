# SPDX-License-Identifier: Apache-2.0
"""A second generator of machines and of their rows, made from what was published of CPUs and of measuring them, and not
from what the inferences assume. It shares no cache, no noise and no translation with `random_machines`.

* Caches are those of data sheets; replacement by what was found of them: tree-PLRU and LRU in first caches, random in
  ARM's and SiFive's, SRRIP and not-recently-used in last ones (Abel and Reineke 2020; Vila et al. 2020).
* Last caches in slices chosen by a hash (Maurice et al. 2015), inclusive, exclusive or neither; some have neighbours.
* Frames come in runs of a buddy allocator's orders. Translation buffers keep the share of a random walk's pages that
  fits; half of what they miss is hidden.
* Samples are those of a busy host: noise of each batch, a clock that drifts through the run, bursts of whole batches,
  visits beside a busy hyperthread (Kalibera and Jones 2013; Akinshin 2019). Rows are made of visits as a run's are."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache, partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from model.default_suite import Wanted, swept
from model.library import Numbers, library, packed, pointer
from model.machine import KIB, MIB
from model.measured import METRICS, capacity_rows_of
from model.recorded import recorded
from model.walks import CANDIDATES, order
from tollmeter.experiment.precision import Scatter, estimate
from tollmeter.model import Cache as ToldCache
from tollmeter.model import Machine as Description
from tollmeter.model import Row

POLICIES = ("lru", "random", "tree", "nru", "srrip")
RELATIONS = ("beside", "exclusive", "inclusive")
LINE, PAGE, HUGE = 64, 4 * KIB, 2 * MIB
FRAMES = 1 << 22
LAPS, SAMPLED = 5, 1 << 12
BATCHES, VISITS = 12, (3, 6)
SCATTER = Scatter(visits_sd=0.03)

FIRST = (
    ((32, 8), ("tree", "lru")), ((48, 12), ("tree", "lru")), ((32, 4), ("random", "tree")),
    ((64, 4), ("tree", "lru")), ((32, 2), ("lru",)), ((16, 4), ("random", "lru")), ((24, 6), ("tree", "nru")),
    ((64, 8), ("tree", "lru")),
)  # fmt: skip
SECOND = (
    ((256, 4), ("tree", "srrip")), ((256, 8), ("tree", "lru")), ((512, 8), ("tree", "random")),
    ((512, 16), ("random", "lru")), ((1024, 8), ("tree", "nru")), ((1024, 16), ("tree", "random", "srrip")),
    ((1280, 20), ("tree", "srrip")), ((2048, 16), ("tree", "random", "srrip")), ((3072, 12), ("nru",)),
)  # fmt: skip
THIRD = (
    (1024, 16, 4), (1024, 16, 8), (1408, 11, 6), (1408, 11, 12), (1536, 12, 8), (2048, 16, 4), (2048, 16, 8),
    (4096, 16, 4),
)  # fmt: skip
"""KiB and ways of a slice, and how many there are."""


class _Shape(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("sets", "ways", "slices", "policy", "relation", "reserved")),
        ("latency", ctypes.c_double),
        ("foreign_per_cycle", ctypes.c_double),
    ]


@dataclass(frozen=True)
class SetCache:
    slice_bytes: int
    ways: int
    policy: str
    latency: float
    slices: int = 1
    relation: str = "beside"

    @property
    def size_bytes(self) -> int:
        return self.slice_bytes * self.slices


@dataclass(frozen=True)
class OtherMachine:
    """foreign: lines that neighbours put into the last cache in each cycle. walk: cycles that a missing translation
    takes. order: of the longest run of frames."""

    seed: int
    caches: tuple[SetCache, ...]
    memory: float
    clock_hz: float
    translations: tuple[int, int]
    walk: float
    huge_pages: bool
    order: int
    pairs: bool
    foreign: float
    noise: float
    drift: float
    bursts: float

    def served(self) -> tuple[float, ...]:
        """Bytes up to which each cache alone serves a walk; nothing is to be known of one that neighbours use."""
        sizes: list[float] = []
        for cache in self.caches:
            sizes.append(cache.size_bytes + (sizes[-1] if cache.relation == "exclusive" else 0))
        return tuple(sizes)


def other_machine(seed: int) -> OtherMachine:
    random = np.random.default_rng([0x2_11D, seed])

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    (size, ways), policies = FIRST[random.integers(len(FIRST))]
    caches = [SetCache(size * KIB, ways, str(random.choice(policies)), float(random.integers(3, 6)))]
    (size, ways), policies = SECOND[random.integers(len(SECOND))]
    caches.append(SetCache(size * KIB, ways, str(random.choice(policies)), float(random.integers(10, 19))))
    fitting = [one for one in THIRD if one[0] * one[2] * KIB >= 4 * caches[1].size_bytes]
    if random.random() < 0.75 and fitting:
        size, ways, slices = fitting[random.integers(len(fitting))]
        relation = str(random.choice(RELATIONS))
        caches.append(SetCache(size * KIB, ways, str(random.choice(POLICIES)), between(38, 80), slices, relation))
    shared = len(caches) == 3 and random.random() < 0.4
    return OtherMachine(
        seed=seed, caches=tuple(caches), memory=between(180, 500), clock_hz=between(1e9, 5e9),
        translations=(int(random.choice((32, 48, 64, 96))), int(random.choice((512, 1024, 1536, 2048)))),
        walk=between(20, 60), huge_pages=bool(random.random() < 0.8), order=int(random.choice((0, 0, 2, 4))),
        pairs=bool(random.random() < 0.25),
        foreign=between(0.002, 0.05) if shared else 0.0, noise=between(0.003, 0.02), drift=between(0.001, 0.02),
        bursts=float(random.choice((0.0, 1 / 30, 1 / 10))),
    )  # fmt: skip


def other_rows(machine: OtherMachine) -> list[Row]:
    """All that the default suite brings of memory.latency, with the sizes that it adds near knees."""
    moment = _Moment(machine)
    return swept(told_of(machine), moment.row, refused=() if machine.huge_pages else ("huge",))


def other_capacity_rows(machine: OtherMachine) -> list[Row]:
    """What it brings of memory.capacity."""
    return capacity_rows_of(partial(recorded(held_pages), machine))


def told_of(machine: OtherMachine) -> Description:
    """What the system says; used to plan, and by the inferences for names of levels."""
    caches = tuple(
        ToldCache(level=place + 1, kind="unified" if place else "data", size_bytes=cache.size_bytes, line_bytes=LINE,
                  ways=cache.ways, shared_cpus="0")
        for place, cache in enumerate(machine.caches)
    )  # fmt: skip
    return Description(
        host="model", cpu="another modelled machine", kernel="none", hypervisor=None, cpus=2, memory_bytes=16 << 30,
        page_bytes=PAGE, caches=caches, core_clock_hz=machine.clock_hz, allowed_cpus=(0, 1), architecture="x86_64",
    )  # fmt: skip


class _Moment:
    """The run's random state: its clock drifts from one visit to the next."""

    def __init__(self, machine: OtherMachine) -> None:
        self.machine = machine
        self.random = np.random.default_rng([machine.seed, 0xD1F7])
        self.drift = 0.0

    def row(self, wanted: Wanted) -> Row:
        visits = int(self.random.integers(*VISITS, endpoint=True))
        return _row(wanted, np.array([self._visit(wanted, visit) for visit in range(visits)]))

    def _visit(self, wanted: Wanted, visit: int) -> NDArray[np.float64]:
        one, random = self.machine, self.random
        self.drift = 0.95 * self.drift + float(random.normal(0, one.drift * 0.3))
        batches = recorded(load_ns)(one, wanted.size, wanted.pages, visit) * np.exp(
            self.drift + random.normal(0, one.noise, BATCHES)
        )
        if random.random() < 0.03:
            batches *= random.uniform(1.05, 1.6)
        return np.asarray(np.where(random.random(BATCHES) < one.bursts, batches * random.uniform(1.1, 4), batches))


def _row(wanted: Wanted, batches: NDArray[np.float64]) -> Row:
    found = estimate(
        list(np.median(batches, axis=1)), range(len(batches)), SCATTER, (float(batches.min()), float(batches.max()))
    )
    lower, upper = np.quantile(batches, (0.25, 0.75))
    probe, name, unit, _ = METRICS["latency-of-size"]
    return Row(
        probe=probe, revision=1, abi="x86_64", target="local", clock="hardware", metric=name, unit=unit, better="less",
        parameters={"size": wanted.size, "pages": wanted.pages}, status="ok", median=found.value, low=found.low,
        high=found.high, minimum=float(batches.min()), quartiles=(float(lower), float(upper)), visits=len(batches),
        samples=batches.size,
    )  # fmt: skip


@lru_cache(maxsize=1 << 14)
def load_ns(machine: OtherMachine, size: int, pages: str, visit: int) -> float:
    """One load of a walk over so many bytes, in a visit with frames of its own."""
    lines = size // LINE
    walk = order(1, lines, LINE, "local" if pages == "local" else "random", PAGE).astype(np.uint64)
    sampling = _sampling(machine, lines)
    phase = visit % sampling
    seen = walk[walk // 2 % sampling == phase]
    page_lines = PAGE // LINE
    frames = _frames(machine, -(-lines // page_lines), pages, visit)
    physical = (frames[seen // page_lines] * np.uint64(page_lines) + seen % page_lines).astype(np.uint32)
    cycles = _walked(machine, physical, sampling, phase, visit)
    return (cycles + _translated(machine, size, pages)) / machine.clock_hz * 1e9


def _sampling(machine: OtherMachine, lines: int) -> int:
    fewest = min([PAGE // LINE, *(cache.slice_bytes // LINE // cache.ways for cache in machine.caches)]) // 2
    sampling = 1
    while sampling * 2 <= fewest and fewest % (sampling * 2) == 0 and lines // (sampling * 2) >= SAMPLED:
        sampling *= 2
    return sampling


def _frames(machine: OtherMachine, pages: int, kind: str, visit: int) -> NDArray[np.uint64]:
    """Runs of 2^order frames, for each run an order of its own up to the machine's; of huge pages whole ones."""
    random = np.random.default_rng([machine.seed, pages, visit, kind == "huge"])
    if kind == "huge":
        lengths = np.full(-(-pages * PAGE // HUGE), HUGE // PAGE)
    else:
        lengths = 1 << random.integers(0, machine.order + 1, pages)
    starts = random.integers(FRAMES // lengths) * lengths
    firsts = np.cumsum(lengths) - lengths
    within = np.arange(lengths.sum()) - np.repeat(firsts, lengths)
    return np.asarray(np.repeat(starts, lengths) + within, np.uint64)[:pages]


class _MachineShape(ctypes.Structure):
    _fields_ = [
        ("level", ctypes.POINTER(_Shape)),
        ("memory", ctypes.c_double),
        *((name, ctypes.c_uint64) for name in ("phase", "seed")),
        *((name, ctypes.c_uint32) for name in ("levels", "pairs", "sampling", "reserved")),
    ]


def _shape(machine: OtherMachine, sampling: int, phase: int, visit: int) -> _MachineShape:
    shapes = (_Shape * len(machine.caches))()
    for place, cache in enumerate(machine.caches):
        last = place == len(machine.caches) - 1
        shapes[place] = _Shape(
            sets=cache.slice_bytes // LINE // cache.ways, ways=cache.ways, slices=cache.slices,
            policy=POLICIES.index(cache.policy), relation=RELATIONS.index(cache.relation), latency=cache.latency,
            foreign_per_cycle=machine.foreign if last else 0.0,
        )  # fmt: skip
    return _MachineShape(
        level=shapes, memory=machine.memory, phase=phase, seed=1 + visit + (machine.seed << 8),
        levels=len(machine.caches), pairs=machine.pairs, sampling=sampling,
    )  # fmt: skip


def _walked(machine: OtherMachine, physical: Numbers, sampling: int, phase: int, visit: int) -> float:
    walked = library().set_caches_walk
    walked.restype = ctypes.c_double
    shape, count = _shape(machine, sampling, phase, visit), ctypes.c_uint64(len(physical))
    cycles = walked(ctypes.byref(shape), pointer(physical), count, ctypes.c_uint32(LAPS))
    assert cycles > 0, "no memory for the model"
    return float(cycles)


def held_pages(machine: OtherMachine, visit: int, *, second: bool) -> int:
    """How many pages a visit of memory.capacity finds to fit together."""
    sampling = _sampling(machine, CANDIDATES * PAGE // LINE)
    phase, page_lines = visit % sampling, PAGE // LINE
    frames = _frames(machine, CANDIDATES, "huge" if machine.huge_pages else "small", visit)
    lines = np.arange(page_lines)
    own = lines[lines // 2 % sampling == phase]
    physical = (frames[:, None] * np.uint64(page_lines) + own.astype(np.uint64)).astype(np.uint32).ravel()
    asked = packed(physical, len(own), second=second, noise=machine.noise / 5, seed=visit + (machine.seed << 8))
    shape = _shape(machine, sampling, phase, visit)
    return int(library().set_caches_packed(ctypes.byref(shape), asked))


def _translated(machine: OtherMachine, size: int, kind: str) -> float:
    """The first buffer's misses cost 7 cycles; the second's a walk. In page-local order a page serves 16 loads."""
    pages, loads = size / (HUGE if kind == "huge" else PAGE), 16 if kind == "local" else 1
    first, second = (max(0.0, 1 - kept / pages) for kept in machine.translations)
    return (3.5 * first + machine.walk / 2 * second) / loads


def as_unknown(described: Description) -> Description:
    """What a system says that tells nothing of its caches."""
    return msgspec.structs.replace(described, caches=())
