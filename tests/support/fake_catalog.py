# SPDX-License-Identifier: Apache-2.0
"""A made-up catalog and machine, for tests of planning and conducting."""

from __future__ import annotations

import msgspec

from tollmeter.catalog import Catalog, Executable
from tollmeter.model import Build, Cache, Machine, MemoryNode, Metric, Parameter, Probe, Role, Topology

KIB, MIB = 1 << 10, 1 << 20

MACHINE = Machine(
    host="h", cpu="c", kernel="k", hypervisor=None, cpus=4, memory_bytes=1 << 34, allowed_cpus=(0, 1, 2, 3),
    caches=(
        Cache(level=1, kind="data", size_bytes=48 * KIB),
        Cache(level=1, kind="instruction", size_bytes=32 * KIB),
        Cache(level=2, kind="unified", size_bytes=2 * MIB),
    ),
)  # fmt: skip

SIZE = Parameter(
    name="size", kind="size", summary="bytes", start=1024, stop=4, stop_scale="last-cache", per_octave=4, refine=True,
    typical="16384",
)  # fmt: skip
PAGES = Parameter(name="pages", kind="choice", summary="pages", choices=("small", "huge"), typical="small")
CHAINS = Parameter(name="chains", kind="count", summary="chains", values=(1, 2, 3, 8))


def metric(means: str | None = None) -> Metric:
    return Metric(name="cost", unit="ns", better="less", summary="cost", means=means)


LATENCY = Probe(
    probe="memory.latency", question="How long?", revision=1, metrics=(metric("latency-of-size"),),
    parameters=(SIZE, PAGES),
)  # fmt: skip
PARALLEL = Probe(
    probe="memory.parallel", question="How many?", revision=2, metrics=(metric(),), parameters=(CHAINS, PAGES)
)
ENTER = Probe(
    probe="kernel.enter", question="What does it cost?", revision=1,
    metrics=(msgspec.structs.replace(metric("entry"), toll="system call"),),
)  # fmt: skip
FAULT = Probe(
    probe="page.fault", question="What does a page cost?", revision=1,
    metrics=(msgspec.structs.replace(metric("price-of-fault"), toll="page fault, {kind}"),),
    parameters=(Parameter(name="kind", kind="choice", summary="kinds", choices=("huge_page", "anonymous_write")),),
)  # fmt: skip
PING = Probe(
    probe="memory.ping", question="How far?", revision=1, metrics=(metric("core-to-core"),),
    roles=(Role(name="partner", worker="thread", pace="lockstep"),),
)  # fmt: skip
PROBES = (LATENCY, PARALLEL, ENTER, FAULT, PING)


def catalog(*, abis: tuple[str, ...] = ("x86_64", "ia32"), gaps: dict[str, str] | None = None) -> Catalog:
    made = {
        (probe.probe, abi): Executable(
            path=f"/build/{abi}/{probe.probe}", probe=probe,
            build=Build(probe=probe.probe, abi=abi, compiler="cc", flags="-O2", sha256="0" * 64, size_bytes=9),
        )
        for probe in PROBES
        for abi in abis
    }  # fmt: skip
    return Catalog(executables=made, abis=abis, gaps=gaps or {})


def two_packages() -> Machine:
    """Returns a machine of eight CPUs: two packages with two cores of two threads each, 0-3 and 4-7; each package is a
    memory node."""
    topology = Topology(
        online="0-7", packages=("0-3", "4-7"), last_caches=("0-3", "4-7"), cores=("0-1", "2-3", "4-5", "6-7"),
        nodes=tuple(MemoryNode(node=n, cpus=c, memory_bytes=1 << 34, distances=d)
                    for n, c, d in ((0, "0-3", (10, 21)), (1, "4-7", (21, 10)))),
        allowed_nodes="0-1",
    )  # fmt: skip
    return msgspec.structs.replace(MACHINE, cpus=8, allowed_cpus=tuple(range(8)), topology=topology)
