# SPDX-License-Identifier: Apache-2.0
"""What a run of the probes on a modelled machine would have brought: rows with noise, and the descriptions that go with
them. Parameters, units and meanings are those of the probes' own files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from model.machine import KIB, MIB, Machine
from model.walks import load_latency
from tollmeter.model import Cache, Metric, Probe, Row, Value
from tollmeter.model import Machine as Description

LEAST_SIZE, MOST_SIZE = KIB, 256 * MIB
PAGES = ("small", "huge", "local")

METRICS = {
    "latency-of-size": ("memory.latency", "load", "ns", "body"),
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


def sizes(machine: Machine, per_octave: int = 4) -> list[int]:
    """The default sweep of memory.latency: 1 KiB to four times the last cache, four in each doubling."""
    most = min(machine.caches[-1].size_bytes * 4, MOST_SIZE)
    octaves = range(LEAST_SIZE.bit_length() - 1, most.bit_length())
    every = [(per_octave + step << octave) // per_octave for octave in octaves for step in range(per_octave)]
    return [size for size in every if size <= most]


def latency_rows(machine: Machine, noise: Noise, kinds: Iterable[str] = PAGES) -> list[Row]:
    wanted = [pages for pages in kinds if pages != "huge" or machine.huge_pages]
    return [
        noise.row("latency-of-size", machine.ns(load_latency(machine, size, pages)), {"size": size, "pages": pages})
        for pages in wanted
        for size in sizes(machine)
    ]


def description(machine: Machine, *, told: bool = True) -> Description:
    """What the system would say of the machine; nothing of its caches where it does not tell."""
    caches = tuple(
        Cache(level=place + 1, kind="unified" if place else "data", size_bytes=cache.size_bytes,
              line_bytes=machine.line_bytes, ways=cache.ways, shared_cpus="0")
        for place, cache in enumerate(machine.caches)
    )  # fmt: skip
    return Description(
        host="model", cpu="a modelled machine", kernel="none", hypervisor=None, cpus=2, memory_bytes=16 << 30,
        caches=caches if told else (), core_clock_hz=machine.clock_hz, allowed_cpus=(0, 1), architecture="x86_64",
        facts=machine.facts,
    )  # fmt: skip
