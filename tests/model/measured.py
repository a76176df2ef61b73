# SPDX-License-Identifier: Apache-2.0
"""What a run of the probes on a modelled machine would have brought: rows with noise, and the descriptions that go with
them. Parameters, units and meanings are those of the probes' own files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import median

import msgspec
import numpy as np

from model.default_suite import Wanted, swept
from model.machine import KIB, MIB, PAGE_BYTES, Machine
from model.recorded import recorded
from model.streams import chains, conflict, evict, line_pair, page_loads, reload, resident, stride_walk, sweep
from model.walks import held_pages, load_latency
from tollmeter.model import Cache, Metric, Probe, Row, State, Value
from tollmeter.model import Machine as Description

LEAST_SIZE, MOST_SIZE = KIB, 256 * MIB
PAGES = ("small", "huge", "local")
DISTANCES = (16, 24, 32, 48, 56, 64, 72, 96, 120, 128, 136, 192, 256, 384, 512)
STRIDES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
CHAINS = (*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
LINES = (*range(1, 19), 20, 22, 24, 26, 28, 30, 32, 33, 34, 36, 40, 44, 48, 64)
APARTS = tuple(4096 << octave for octave in range(9))
COUNTS = tuple(base + base * step // 2 for base in (8 << octave for octave in range(11)) for step in range(2))
MOST_HUGE_PAGES = 1024
BURSTS = 1 / 30
CAPACITY_VISITS = 3

METRICS = {
    "latency-of-size": ("memory.latency", "load", "ns", "body"),
    "capacity": ("memory.capacity", "held", "B", "gauge"),
    "latency-of-stride": ("memory.stride", "load", "ns", "body"),
    "load-of-chains": ("memory.parallelism", "load", "ns", "body"),
    "line-pair-of-distance": ("memory.line", "second_access", "ns", "difference"),
    "conflict-of-lines": ("memory.associativity", "load", "ns", "body"),
    "translation-of-pages": ("memory.tlb", "translation", "ns", "difference"),
    "write-policy": ("memory.write_policy", "test", "ns", "body"),
    "write-policy-baseline": ("memory.write_policy", "baseline", "ns", "control"),
    "latency-of-traffic": ("memory.loaded_latency", "load", "ns", "body"),
    "traffic-beside": ("memory.loaded_latency", "traffic", "B/s", "companions"),
    "read-bandwidth-of-size": ("memory.read_bandwidth", "read", "B/s", "body"),
    "bandwidth-of-instances": ("memory.scaling", "read", "B/s", "together"),
    "latency-of-node": ("memory.numa_latency", "load", "ns", "body"),
    "latency-of-instances": ("memory.latency_scaling", "load", "ns", "body"),
}  # fmt: skip


def described() -> dict[str, Probe]:
    """A description of each probe that the model stands in for."""
    metrics: dict[str, list[Metric]] = {}
    for means, (probe, name, unit, source) in METRICS.items():
        better = "less" if unit == "ns" else "more"
        made = Metric(name=name, unit=unit, better=better, summary=name, source=source, means=means)  # type: ignore[arg-type]
        metrics.setdefault(probe, []).append(made)
    return {name: Probe(probe=name, question="?", revision=1, metrics=tuple(own)) for name, own in metrics.items()}


class Noise:
    """Every median is off by a factor of its own; the interval says by how much it may be."""

    def __init__(self, machine: Machine) -> None:
        self.share = machine.noise
        self.random = np.random.default_rng([machine.seed, 0x0_15E])

    def row(self, means: str, value: float, parameters: Mapping[str, Value]) -> Row:
        """value: ns or bytes a second, without noise. A difference is off by what its parts are off by."""
        probe, name, unit, _ = METRICS[means]
        median = value * float(np.exp(self.random.normal(0, self.share)))
        wide = float(np.exp(1.96 * self.share))
        return Row(
            probe=probe, revision=1, abi="x86_64", target="local", clock="hardware", parameters=dict(parameters),
            metric=name, unit=unit, better="less" if unit == "ns" else "more", status="ok",
            median=median, low=median / wide, high=median * wide, minimum=median / wide,
            quartiles=(median / wide, median * wide), visits=5, samples=35,
        )  # fmt: skip

    def difference(self, means: str, body: float, control: float, parameters: Mapping[str, Value]) -> Row:
        """What is left of two times that are each off by a factor of their own. Where that is not told from nothing,
        there is no number, as with real samples."""
        factors = np.exp(self.random.normal(0, self.share, 2))
        median = body * float(factors[0]) - control * float(factors[1])
        spread = 1.96 * self.share * float(np.hypot(body, control))
        made = self.row(means, 1.0, parameters)
        if median <= 0:
            return msgspec.structs.replace(
                made, status="unstable", reason="not told from nothing", median=None, low=None, high=None, minimum=None
            )
        return msgspec.structs.replace(
            made, median=median, low=median - spread, high=median + spread, minimum=median - spread
        )


def sizes(machine: Machine, per_octave: int = 4) -> list[int]:
    """1 KiB to four times the last cache, so many in each doubling."""
    most = min(machine.caches[-1].size_bytes * 4, MOST_SIZE)
    octaves = range(LEAST_SIZE.bit_length() - 1, most.bit_length())
    every = [(per_octave + step << octave) // per_octave for octave in octaves for step in range(per_octave)]
    return [size for size in every if size <= most]


def latency_rows(machine: Machine, noise: Noise, kinds: Iterable[str] = PAGES) -> list[Row]:
    """What the default suite brings of memory.latency on this machine: its points, and what it adds near knees."""

    def answered(wanted: Wanted) -> Row:
        latency = machine.ns(recorded(load_latency)(machine, wanted.size, wanted.pages))
        return noise.row("latency-of-size", latency, {"size": wanted.size, "pages": wanted.pages})

    refused = {"huge"} if not machine.huge_pages else set()
    return swept(description(machine), answered, refused | (set(PAGES) - set(kinds)))


def capacity_rows(machine: Machine) -> list[Row]:
    """What the default suite brings of memory.capacity."""
    return capacity_rows_of(partial(recorded(held_pages), machine))


def capacity_rows_of(held: Callable[..., int]) -> list[Row]:
    """held: pages that a visit finds, of the first or the second cache."""
    found = {level: [held(visit, second=level == "second") for visit in range(CAPACITY_VISITS)]
             for level in ("first", "second")}  # fmt: skip
    return [_capacity_row(level, pages) for level, values in found.items() if (pages := [one for one in values if one])]


def _capacity_row(level: str, pages: list[int]) -> Row:
    held = [float(PAGE_BYTES * count) for count in pages]
    probe, name, unit, _ = METRICS["capacity"]
    return Row(
        probe=probe, revision=1, abi="x86_64", target="local", clock="hardware", parameters={"level": level},
        metric=name, unit=unit, better="neither", status="ok", median=median(held), low=min(held), high=max(held),
        minimum=min(held), quartiles=(min(held), max(held)), visits=len(held), samples=len(held), layouts=len(held),
    )  # fmt: skip


def crowded(rows: Iterable[Row], machine: Machine) -> list[Row]:
    """The same rows from a machine that is not left alone.

    Its neighbours leave a third to all of the last cache. From there to twice as far a size is served in some visits
    and not in others, and a row's own median is the commoner state's; beyond that it is not served at all. And bursts:
    one row in thirty is up to three times too slow, with an interval that reaches down to where it should be."""
    random = np.random.default_rng([machine.seed, 0xC0FFEE])
    left = machine.caches[-1].size_bytes * random.uniform(1 / 3, 1)
    last, beyond = (machine.ns(machine.latency_of(len(machine.caches) - 1 + behind)) for behind in range(2))
    made = []
    for row in rows:
        size, share, burst = int(row.parameters["size"]), random.uniform(0.2, 0.8), random.uniform(1.2, 3)
        served = (row.median or 0) < np.sqrt(last * beyond)
        if left < size < 2 * left:
            made.append(_by_turns(row, last, beyond, float(share)))
        elif random.random() < BURSTS:
            made.append(_slower(row, float(burst), up=True))
        else:
            made.append(_slower(row, beyond / last if size > left and served else 1.0))
    return made


def _by_turns(row: Row, first: float, second: float, share: float) -> Row:
    wide = (row.high or 1) / (row.median or 1)
    states = tuple(
        State(state=name, share=part, median=at, low=at / wide, high=at * wide)
        for name, part, at in (("first", share, first), ("second", 1 - share, second))
    )
    common = max(states, key=lambda state: state.share)
    return msgspec.structs.replace(row, median=common.median, low=common.low, high=common.high, states=states)


def _slower(row: Row, times: float, *, up: bool = False) -> Row:
    """up: only the median and what lies above it."""
    low, median, high = row.low or 0, row.median or 0, row.high or 0
    lowest = low if up else low * times
    return msgspec.structs.replace(
        row, low=lowest, median=median * times, high=high * times, quartiles=(lowest, high * times)
    )


def reading_rows(machine: Machine, noise: Noise) -> list[Row]:
    """The default sweep of memory.read_bandwidth by one kernel, a line by each load."""
    rates = {size: machine.line_bytes / machine.ns(recorded(sweep)(machine, size)) * 1e9 for size in sizes(machine, 2)}
    return [
        noise.row("read-bandwidth-of-size", rate, {"size": size, "kernel": "portable"}) for size, rate in rates.items()
    ]


def line_rows(machine: Machine, noise: Noise) -> list[Row]:
    return [
        noise.difference(
            "line-pair-of-distance", *_in_ns(machine, recorded(line_pair)(machine, distance)), {"distance": distance}
        )
        for distance in DISTANCES
    ]


def stride_rows(machine: Machine, noise: Noise) -> list[Row]:
    size = 4 * machine.caches[-1].size_bytes
    return [
        noise.row("latency-of-stride", machine.ns(recorded(stride_walk)(machine, size, stride, kind)),
                  {"size": size, "stride": stride, "order": kind})
        for stride in STRIDES
        for kind in ("forward", "backward", "random")
    ]  # fmt: skip


def chain_rows(machine: Machine, noise: Noise, size: int) -> list[Row]:
    return [
        noise.row("load-of-chains", machine.ns(recorded(chains)(machine, count, size)), {"chains": count, "size": size})
        for count in CHAINS
    ]


def conflict_rows(machine: Machine, noise: Noise) -> list[Row]:
    return [
        noise.row("conflict-of-lines", machine.ns(recorded(conflict)(machine, lines, apart, huge=pages == "huge")),
                  {"lines": lines, "stride": apart, "pages": pages})
        for pages in ("small", "huge")[: 1 + machine.huge_pages]
        for apart in APARTS
        for lines in LINES
    ]  # fmt: skip


def translation_rows(machine: Machine, noise: Noise, pages: str = "small") -> list[Row]:
    counts = COUNTS if pages == "small" else [count for count in COUNTS if count <= MOST_HUGE_PAGES]
    loads = recorded(page_loads)
    return [
        noise.difference("translation-of-pages", *_in_ns(machine, loads(machine, count, huge=pages == "huge")),
                         {"count": count, "pages": pages})
        for count in counts
    ]  # fmt: skip


def policy_rows(machine: Machine, noise: Noise) -> list[Row]:
    """Each test at the sizes of its sweep that say something of the first cache."""
    most = 8 * machine.caches[0].size_bytes
    made = []
    for name, test in (("resident", resident), ("evict", evict), ("reload", reload)):
        for size in (8 * KIB << octave for octave in range((most // (8 * KIB)).bit_length())):
            pair = _in_ns(machine, recorded(test)(machine, size))
            parameters = {"test": name, "size": size}
            made.append(noise.row("write-policy", pair[0], parameters))
            made.append(noise.row("write-policy-baseline", pair[1], parameters))
    return made


def _in_ns(machine: Machine, pair: tuple[float, float]) -> tuple[float, float]:
    return machine.ns(pair[0]), machine.ns(pair[1])


def description(machine: Machine, *, told: bool = True, hypervisor: str | None = None) -> Description:
    """What the system would say of the machine; nothing of its caches where it does not tell."""
    caches = tuple(
        Cache(level=place + 1, kind="unified" if place else "data", size_bytes=cache.size_bytes,
              line_bytes=machine.line_bytes, ways=cache.ways, shared_cpus="0")
        for place, cache in enumerate(machine.caches)
    )  # fmt: skip
    return Description(
        host="model", cpu="a modelled machine", kernel="none", hypervisor=hypervisor, cpus=2, memory_bytes=16 << 30,
        page_bytes=machine.page_bytes,
        caches=caches if told else (), core_clock_hz=machine.clock_hz, allowed_cpus=(0, 1), architecture="x86_64",
        facts={"transparent_hugepage": machine.transparent_hugepage},
    )  # fmt: skip
