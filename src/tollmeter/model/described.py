# SPDX-License-Identifier: Apache-2.0
"""Descriptions: of a probe, its build, a machine and an ABI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from tollmeter.model.base import USUAL_PAGE_BYTES, Better, Record, Size, Source, Unit, Value
from tollmeter.model.topology import Topology

BEST_KNOWN: Mapping[str, tuple[Mapping[str, Value], ...]] = {
    "clock-read": ({},),
    "entry": ({},),
    "price-of-fault": ({"kind": "anonymous_write"},),
    "trap": ({"trap": "protected_store"},),
    "switch": ({},),
    "transfer-of-state": ({"state": "modified", "access": "load"},),
    "call-of-object": ({"channel": "pipe", "placement": "one_cpu"}, {"channel": "pipe", "placement": "two_cpus"}),
}
"""Meanings of the tolls on the first screen, with the parameters of each line. They are the same in every run, so that
two runs can be compared, and a short run measures these first."""

BANDWIDTHS = ("read-bandwidth-of-size", "write-bandwidth-of-size", "copy-bandwidth-of-size", "update-bandwidth-of-size")
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("latency-of-size", "gain-of-huge-pages", *BANDWIDTHS), ("size",)),
    **dict.fromkeys(("write-policy", "write-policy-baseline"), ("size",)), "latency-of-node": ("node",),
    "latency-of-stride": ("size", "stride"), "load-of-chains": ("chains", "size"),
    "line-pair-of-distance": ("distance",), "conflict-of-lines": ("lines", "stride"),
    "translation-of-pages": ("count",), "latency-of-traffic": ("delay",), "traffic-beside": ("delay",),
    "bandwidth-of-instances": ("instances",), "latency-of-instances": ("instances",), "flops-of-n": ("n",),
    "operation-of-n": ("n",), "jump-of-chain": ("jumps", "spacing"),
    **dict.fromkeys(("throughput-of-workers", "operation-of-workers"), ("workers",)),
    "release-of-threads": ("size", "threads"), "code-of-size": ("size",),
    "translation-of-code": ("pages",), "cost-of-fillers": ("fillers",),
}  # fmt: skip
"""Parameters that a row must have as numbers, by its meaning."""


def is_best_known(means: str | None, parameters: Mapping[str, Value]) -> bool:
    """Returns whether the first screen has a line for this meaning at these parameters."""
    return any(line.items() <= parameters.items() for line in BEST_KNOWN.get(means or "", ()))


class Metric(Record, frozen=True):
    """One quantity that a probe measures. summary: the quantity in words. source: the timed part from which it is
    computed. means: the meaning by which an analysis selects it (docs/add-a-probe.md), None for none. toll: its line in
    the toll table, with `{parameter}` for a value, None for no line."""

    name: str
    unit: Unit
    better: Better
    summary: str
    source: Source = "body"
    means: str | None = None
    toll: str | None = None


class Parameter(Record, frozen=True):
    """One parameter of a probe, with its default sweep: `choices`, or `values`, or start to stop with `per_octave`
    steps inside every doubling. stop_scale: unit of `stop`; for `cpu-nodes` and `memory-nodes` the values are the
    memory nodes that have CPUs, or memory. typical: the value that the toll table shows, None for all. refine: whether
    values are added where the curve bends."""

    name: str
    kind: Literal["size", "count", "choice"]
    summary: str
    start: int = 0
    stop: int = 0
    stop_scale: Literal["absolute", "last-cache", "cpus", "cpu-nodes", "memory-nodes"] = "absolute"
    per_octave: int = 1
    values: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    typical: str | None = None
    refine: bool = False


class Role(Record, frozen=True):
    """A companion of the timed worker. name: its name in the probe. worker: whether it is a process or a thread. pace:
    whether it runs its body once for each batch, continuously, or once while all other workers wait."""

    name: str
    worker: Literal["process", "thread"]
    pace: Literal["lockstep", "background", "in turn"]


class Probe(Record, frozen=True):
    """The description of a probe. question: what it measures. revision: incremented when the meaning of its numbers
    changes. control: whether it has a control (the body without the boundary), whose time is subtracted. switches,
    faults: whether context switches or page faults are part of the measured operation. enters: whether the number of
    system calls of an operation depends on the point. calls, control_calls: system calls of one operation, and of one
    iteration of the control; 0 if not declared. library: a library that it needs in addition to libc. spreads: whether
    it runs on all CPUs of its visit. serves: whether it can be the other end on another machine. pauses: whether part
    of its body is not timed; None in records of older versions."""

    probe: str
    question: str
    revision: int
    metrics: tuple[Metric, ...]
    parameters: tuple[Parameter, ...] = ()
    roles: tuple[Role, ...] = ()
    control: bool = False
    switches: bool = False
    faults: bool = False
    enters: bool = False
    calls: int = 0
    control_calls: int = 0
    library: str | None = None
    spreads: bool = False
    serves: bool = False
    pauses: bool | None = None


class Build(Record, frozen=True):
    """The build of one executable. The host adds its SHA-256 and size after reading the file back."""

    probe: str
    abi: str
    compiler: str
    flags: str
    sha256: str = ""
    size_bytes: int = 0


class Cache(Record, frozen=True):
    """A cache as the system reports it for one CPU; None is unknown. level: 1 is nearest to the core. shared_cpus: list
    of the CPUs that share it. source: where the size was read; None without a size, and in records of older
    versions."""

    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: Size | None = None
    line_bytes: int | None = None
    ways: int | None = None
    shared_cpus: str = ""
    source: Literal["sysfs", "CPUID", "device tree", "/proc/cpuinfo"] | None = None

    def __post_init__(self) -> None:
        # In records of older versions 0 means unknown.
        for name in ("size_bytes", "line_bytes", "ways"):
            if getattr(self, name) == 0:
                msgspec.structs.force_setattr(self, name, None)


class Kind(Record, frozen=True):
    """CPUs of one machine with equal caches, if not all CPUs have the same."""

    cpus: tuple[int, ...]
    caches: tuple[Cache, ...] = ()


class Machine(Record, frozen=True):
    """A machine. host: its name. cpu: brand name. hypervisor: None on hardware, or if unknown. cpus: number of online
    CPUs. allowed_cpus: CPUs that the process may use. core_clock_hz: measured core clock. facts: further values that
    the target reports, by name. caches: caches of the measured CPU. kinds: sets of CPUs with different caches, empty if
    all are alike. cores: for each core with several threads, its allowed CPUs. topology: topology of all CPUs and
    nodes; None if unreported."""

    host: str
    cpu: str
    kernel: str
    hypervisor: str | None
    cpus: int
    memory_bytes: Size
    caches: tuple[Cache, ...] = ()
    core_clock_hz: float | None = None
    allowed_cpus: tuple[int, ...] = ()
    page_bytes: Size = USUAL_PAGE_BYTES
    architecture: str = ""
    facts: dict[str, str] = {}
    kinds: tuple[Kind, ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()
    topology: Topology | None = None

    def data_sizes(self) -> dict[int, int]:
        """Returns the bytes of the data or unified cache at each reported level, nearest first."""
        sizes: dict[int, int] = {}
        for cache in sorted(self.caches, key=lambda cache: cache.level):
            if cache.kind != "instruction" and cache.size_bytes:
                sizes.setdefault(cache.level, cache.size_bytes)
        return sizes


def machine_key(machine: Machine) -> tuple[str, str, str]:
    """Returns the key of equal machines: CPU, family, model, stepping and hypervisor. The host name is no part of it,
    since a guest may keep its name on another host; and the brand name alone is not enough, since different CPUs may
    share one."""
    return key_of(machine.cpu, machine.facts, machine.hypervisor)


def key_of(cpu: str, facts: Mapping[str, str], hypervisor: str | None) -> tuple[str, str, str]:
    """Returns the key of equal machines from their CPU, facts and hypervisor."""
    numbers = (facts.get(name, "") for name in ("cpu_family", "cpu_model_number", "cpu_stepping"))
    return cpu, " ".join(numbers), hypervisor or ""


class Abi(Record, frozen=True, forbid_unknown_fields=True):
    """An ABI. compiler: alternatives, each a name or a list of words. compiler_cxx: the same for C++. packages: Debian
    packages with the compiler and the C library. runs_on: CPUs that run it natively, as in `uname -m`. runs: ways to
    run it, best first (docs/add-an-abi.md). requires: CPU features, or names for sets of them, that its code needs.
    elf: ELF properties that each executable must have. asked_only: whether it is built only if a user names it. floats:
    unit that computes floating point, if the ABI states it."""

    name: str
    summary: str
    compiler: tuple[str | tuple[str, ...], ...]
    flags: tuple[str, ...] = ()
    compiler_cxx: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    elf: dict[str, Value] = {}
    runs: tuple[str, ...] = ("native",)
    asked_only: bool = False
    floats: Literal["", "hard", "soft", "fpa"] = ""
