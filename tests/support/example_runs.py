# SPDX-License-Identifier: Apache-2.0
"""Results for the tests of the report: a sound machine, hostile names, failed rows, an empty run, an emulated one.

The figures are a plausible two-CPU guest's, made by formula and a seeded generator; nothing here was measured. A run
takes 0.1 s to make, so each is made once: its records are frozen, and a test changes none of its dictionaries."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec

from support.builders import CALM
from tollmeter.inference.inferred import inferred
from tollmeter.model import (
    Better,
    Build,
    Cache,
    Clock,
    Columns,
    Evidence,
    Finding,
    Index,
    Level,
    Machine,
    Metric,
    Outcome,
    Parameter,
    Point,
    Probe,
    Results,
    Role,
    Row,
    RunInfo,
    Sample,
    Samples,
    Suite,
    Unit,
    Value,
    Witness,
)
from tollmeter.numbers.meanings import native
from tollmeter.numbers.tolls import tolls

KIB, MIB = 1 << 10, 1 << 20
HOSTILE = "</script><img src=x onerror=alert(1)>"
CLOCK_HZ = 4.1e9
L1, L2, L3 = 48 * KIB, MIB, 32 * MIB
SIZES = tuple(
    (KIB << octave) * (4 + quarter) // 4 for octave in range(17) for quarter in range(4) if (KIB << octave) <= 128 * MIB
)[:69]


def _probe(name: str, question: str, *parts: Metric | Parameter, revision: int = 1, **more: Any) -> Probe:
    metrics = tuple(part for part in parts if isinstance(part, Metric))
    parameters = tuple(part for part in parts if isinstance(part, Parameter))
    return Probe(probe=name, question=question, revision=revision, metrics=metrics, parameters=parameters, **more)


def _metric(name: str, unit: Unit, summary: str, means: str | None, toll: str | None = None, **more: Any) -> Metric:
    better: Better = "more" if unit.endswith("/s") else "less"
    return Metric(name=name, unit=unit, better=better, summary=summary, means=means, toll=toll, **more)


def _choice(name: str, summary: str, *choices: str, typical: str | None = None) -> Parameter:
    return Parameter(name=name, kind="choice", summary=summary, choices=choices, typical=typical)


def _count(name: str, summary: str, *values: int, **more: Any) -> Parameter:
    return Parameter(name=name, kind="count", summary=summary, values=values, **more)


def _size(name: str, summary: str, *values: int, **more: Any) -> Parameter:
    return Parameter(name=name, kind="size", summary=summary, values=values, **more)


PROBES: tuple[Probe, ...] = (
    _probe("memory.clock", "How fast does the core itself run?",
           _metric("adds", "op/s", "dependent additions", "core-clock")),
    _probe("memory.latency", "How long does one dependent load take, by the size of what it wanders through?",
           _metric("load", "ns", "one dependent load", "latency-of-size"),
           _size("size", "bytes wandered through", start=KIB, stop=128 * MIB, refine=True),
           _choice("pages", "kind of page", "small", "huge", "local")),
    *(
        _probe(f"memory.{name}", f"How many bytes can one core {name} in a second?",
               _metric("rate", "B/s", f"bytes of {name}", f"{name}-bandwidth-of-size"),
               _size("size", "bytes of the buffer", start=4 * KIB, stop=128 * MIB),
               _choice("kernel", "how the loop is written", "portable", "avx2", "avx512"))
        for name in ("read", "write", "copy", "update")
    ),
    _probe("memory.parallelism", "How many loads can be under way at once?",
           _metric("load", "ns", "time of one load", "load-of-chains"),
           _count("chains", "independent chains", 1, 2, 4, 8, 16, 32, 64),
           _size("size", "bytes of the buffer", 16 * KIB, 512 * KIB, 128 * MIB)),
    _probe("memory.line", "How many bytes travel together?",
           _metric("second", "ns", "second touch", "line-pair-of-distance"),
           _size("distance", "bytes apart", 8, 16, 32, 64, 128, 256)),
    _probe("memory.ping_pong", "How long does a line take from one CPU to another and back?",
           _metric("round_trip", "ns", "there and back", "core-to-core", "line to another CPU and back, by {method}"),
           _choice("method", "how it is handed over", "swap", "flag"),
           roles=(Role(name="other", worker="process", pace="lockstep"),)),
    _probe("kernel.loop", "How fast is the plain loop that all else is compared with?",
           _metric("loop", "ns", "one turn", "control-loop")),
    _probe("kernel.enter_syscall", "What does the shortest system call cost?",
           _metric("round_trip", "ns", "in and out", "entry", "system call"), control=True),
    _probe("kernel.fault_segv", "What does a protection fault cost that the program handles itself?",
           _metric("round_trip", "ns", "there and back", "trap", "SIGSEGV by {trap}"),
           _choice("trap", "what trips it", "null", "protected", typical="null")),
    _probe("kernel.page_fault", "What does the first touch of a page cost?",
           _metric("fault", "ns", "one fault", "price-of-fault", "page fault, {kind}"),
           _choice("kind", "kind of fault", "anonymous write", "zero read"), faults=True),
    _probe("kernel.switch", "What does it cost to switch between processes?",
           _metric("switch", "ns", "one switch", "switch", "switch between {processes} processes"),
           _count("processes", "in the ring", 2, 8, 32, typical="2"),
           _size("footprint", "touched by each", 0, 16 * KIB, 64 * KIB, typical="0"), switches=True),
    _probe("kernel.call_object", "What does it cost to ask an object somewhere else one question?",
           _metric("round_trip", "ns", "question and answer", "call-of-object",
                   "ask an object over {channel}, {placement}"),
           _choice("channel", "how it travels", "pipe", "shared memory"),
           _choice("placement", "where the ends run", "one CPU", "two CPUs"), switches=True),
    *(
        _probe(f"float.{name}", f"How many floating-point operations a second does {title} reach?",
               _metric("rate", "flop/s", "operations", "flops-of-n"),
               _count("n", "elements", start=16, stop=1 << 20),
               _choice("precision", "type", "float", "double"), revision=2)
        for name, title in (("dot", "a dot product"), ("distance", "a Euclidean distance"), ("fft", "an FFT"))
    ),
    _probe("datamodel.virtual_call", "What does a call through a table of pointers cost?",
           _metric("call", "ns", "one call", "virtual-call", "call a virtual method")),
    _probe("datamodel.event_store", "What do wider pointers cost a store of small objects?",
           _metric("event", "ns", "one event", "object-store"),
           _metric("resident", "B", "memory per event", None, source="gauge"),
           _count("events", "events held", 256, 1024, 4096, 16384)),
    _probe("alignment.access", "What does an address that is not aligned cost?",
           _metric("access", "ns", "one access", "access-of-offset"),
           _count("width", "bytes", 4, 8, 16),
           _count("offset", "bytes off", *range(16)),
           _choice("place", "what it splits", "in line", "split line", "split page"),
           _choice("operation", "what is done", "load", "store")),
    _probe("alignment.copy", "What do misaligned ends do to a copy?",
           _metric("copy", "B/s", "bytes copied", "copy-of-offset"),
           _choice("routine", "how", "bytes", "words", "libc"),
           _count("source", "offset", *range(8)),
           _count("target", "offset", *range(8)),
           _size("bytes", "length", 64, 1500)),
)  # fmt: skip


def _machine(**changes: object) -> Machine:
    base = Machine(
        host="node-17",
        cpu="AMD EPYC (Zen 5)",
        kernel="Linux 6.18",
        hypervisor="KVM",
        cpus=2,
        memory_bytes=24 << 30,
        caches=(
            Cache(level=1, kind="data", size_bytes=L1, line_bytes=64, ways=12, shared_cpus="0"),
            Cache(level=1, kind="instruction", size_bytes=32 * KIB, line_bytes=64, ways=8, shared_cpus="0"),
            Cache(level=2, kind="unified", size_bytes=L2, line_bytes=64, ways=16, shared_cpus="0"),
            Cache(level=3, kind="unified", size_bytes=L3, line_bytes=64, ways=16, shared_cpus="0-1"),
        ),
        core_clock_hz=CLOCK_HZ,
        allowed_cpus=(0, 1),
        architecture="x86_64",
        facts={"clocksource": "kvm-clock", "transparent_hugepage": "madvise"},
    )
    return msgspec.structs.replace(base, **changes)


def _run(**changes: object) -> RunInfo:
    base = RunInfo(
        id="2026-11-20-default",
        suite="default",
        started="2026-11-20T15:25:00+00:00",
        seconds=98.2,
        seed=4711,
        status="ok",
        tollmeter="0.1.0",
        folder="runs/2026-11-20-default",
    )
    return msgspec.structs.replace(base, **changes)


class _Maker:
    """Makes rows by formula: a median, an interval of a given share about it, and some noise, all from one seed."""

    def __init__(self, abi: str = "x86_64", target: str = "local", clock: Clock = "hardware") -> None:
        self.random = random.Random(f"{abi}/{target}/{clock}")
        self.abi, self.target, self.clock = abi, target, clock

    def row(self, probe: str, median: float, share: float = 0.01, metric: str = "", **parameters: Value) -> Row:
        described = next(p for p in PROBES if p.probe == probe)
        chosen = next(m for m in described.metrics if not metric or m.name == metric)
        value = median * (1 + share * self.random.uniform(-0.5, 0.5))
        return Row(
            probe=probe,
            revision=described.revision,
            abi=self.abi,
            target=self.target,
            clock=self.clock,
            parameters=dict(parameters),
            metric=chosen.name,
            unit=chosen.unit,
            better=chosen.better,
            status="ok",
            median=value,
            low=value * (1 - share * self.random.uniform(0.5, 1)),
            high=value * (1 + share * self.random.uniform(0.5, 1)),
            minimum=value * (1 - share),
            quartiles=(value * (1 - share / 2), value, value * (1 + share / 2)),
            visits=5,
            layouts=3,
            samples=35,
            discarded=1 if self.random.random() < 0.05 else 0,
        )


def _blend(size: float, steps: Iterable[tuple[float, float]], last: float) -> float:
    """Returns the latency of a random walk through a buffer: each level serves its share of the lines."""
    total, held = 0.0, 0.0
    for capacity, latency in steps:
        share = max(0.0, min(1.0, capacity / size) - held)
        total, held = total + share * latency, held + share
    return total + (1 - held) * last


def _memory(make: _Maker, sizes: tuple[int, ...]) -> list[Row]:
    rows = [make.row("memory.clock", CLOCK_HZ, 0.002)]
    for pages, l2, l3, last in (("small", 3.7, 14.0, 148.0), ("huge", 3.56, 12.5, 112.0), ("local", 3.56, 12.6, 121.0)):
        steps = ((L1, 0.976), (L2, l2), (6.1 * MIB, l3))
        for size in sizes:
            share = 0.005 if size < L2 else 0.05
            rows.append(make.row("memory.latency", _blend(size, steps, last), share, size=size, pages=pages))
    for name, scale in (("read", 1.0), ("write", 0.55), ("copy", 0.48), ("update", 0.6)):
        for kernel, factor in (("portable", 0.4), ("avx2", 0.8), ("avx512", 1.0)):
            for size in sizes[8::4]:
                reach = factor if size < L2 else max(factor, 0.9)
                speed = (
                    scale * reach / _blend(size, ((L1, 1 / 484e9), (L2, 1 / 205e9), (6.1 * MIB, 1 / 118e9)), 1 / 38e9)
                )
                rows.append(make.row(f"memory.{name}", speed, 0.03, size=size, kernel=kernel))
    for size, latency, least in ((16 * KIB, 0.98, 0.33), (512 * KIB, 3.56, 0.095), (128 * MIB, 112.0, 6.6)):
        rows += [
            make.row("memory.parallelism", max(latency / chains, least), 0.02, chains=chains, size=size)
            for chains in (1, 2, 4, 8, 16, 32, 64)
        ]
    rows += [
        make.row("memory.line", 0.4 if distance < 64 else 9.0, 0.04, distance=distance)
        for distance in (8, 16, 32, 64, 128, 256)
    ]
    rows += [
        make.row("memory.ping_pong", cost, 0.05, method=method) for method, cost in (("swap", 54.0), ("flag", 61.0))
    ]
    return rows


def _kernel(make: _Maker) -> list[Row]:
    rows = [make.row("kernel.loop", 0.488, 0.003), make.row("kernel.enter_syscall", 127.0, 0.008)]
    rows += [
        make.row("kernel.fault_segv", cost, 0.01, trap=trap) for trap, cost in (("null", 2200.0), ("protected", 2350.0))
    ]
    for kind, cost in (("anonymous write", 640.0), ("zero read", 410.0)):
        rows.append(make.row("kernel.page_fault", cost, 0.02, kind=kind))
    for processes in (2, 8, 32):
        for footprint in (0, 16 * KIB, 64 * KIB):
            cost = 1700 + 9 * processes + footprint * processes / 3000
            rows.append(make.row("kernel.switch", cost, 0.03, processes=processes, footprint=footprint))
    for channel, placement, cost in (
        ("pipe", "one CPU", 4300.0),
        ("pipe", "two CPUs", 82000.0),
        ("shared memory", "one CPU", 3100.0),
        ("shared memory", "two CPUs", 190.0),
    ):
        rows.append(make.row("kernel.call_object", cost, 0.05, channel=channel, placement=placement))
    return rows


def _arithmetic(make: _Maker, speed: float) -> list[Row]:
    rows = []
    for name, peak in (("dot", 8.0e9), ("distance", 6.5e9), ("fft", 3.2e9)):
        for precision, factor in (("float", 1.0), ("double", 0.55)):
            for exponent in range(4, 21, 2):
                fill = 1 << exponent
                cost = 1 / (peak * factor * speed) * (1 + 24 / fill + (0.5 if fill > 1 << 16 else 0.0))
                rows.append(make.row(f"float.{name}", 1 / cost, 0.02, n=fill, precision=precision))
    return rows


def _data(make: _Maker, width: float) -> list[Row]:
    rows = [make.row("datamodel.virtual_call", 1.3 * width, 0.02)]
    for events in (256, 1024, 4096, 16384):
        rows.append(make.row("datamodel.event_store", 900 * width * (1 + events / 40000), 0.02, events=events))
        rows.append(make.row("datamodel.event_store", 5200 * width, 0.0, "resident", events=events))
    return rows


def _alignment(make: _Maker) -> list[Row]:
    rows = []
    for operation, scale in (("load", 1.0), ("store", 1.8)):
        for width in (4, 8, 16):
            for offset in range(width):
                for place, extra in (("in line", 0.0), ("split line", 0.25), ("split page", 2.6)):
                    cost = scale * (0.13 + (extra if offset else 0.0))
                    rows.append(
                        make.row(
                            "alignment.access", cost, 0.02, width=width, offset=offset, place=place, operation=operation
                        )
                    )
    speeds: tuple[tuple[str, Callable[[int, int], float]], ...] = (
        ("bytes", lambda _source, _target: 3.9e9),
        ("words", lambda source, target: 31e9 if source == target else 3.9e9),
        ("libc", lambda source, target: 60e9 * (1.0 if source == target == 0 else 0.75)),
    )
    for routine, speed in speeds:
        for length, factor in ((64, 0.4), (1500, 1.0)):
            for source in range(8):
                for target in range(8):
                    place = {"routine": routine, "source": source, "target": target, "bytes": length}
                    rows.append(make.row("alignment.copy", speed(source, target) * factor, 0.03, **place))
    return rows


def _levels() -> tuple[Level, ...]:
    def level(name: str, sizes: tuple[float, float, float] | None, told: int | None, *rest: float | None) -> Level:
        size, low, high = sizes or (None, None, None)
        latency, share, read, parallelism = rest
        assert latency is not None and share is not None
        return Level(
            level=name,
            size_bytes=size,
            size_low=low,
            size_high=high,
            os_size_bytes=told,
            latency_ns=latency,
            latency_cycles=latency * CLOCK_HZ / 1e9,
            read_bytes_per_second=read,
            read_low=read * 0.99 if read else None,
            read_high=read * 1.01 if read else None,
            parallelism=parallelism,
            latency_low=latency * (1 - share),
            latency_high=latency * (1 + share),
        )

    return (
        level("L1d", (48 * KIB, 47 * KIB, 49 * KIB), L1, 0.976, 0.005, 484e9, None),
        level("L2", (0.98 * MIB, 0.9 * MIB, 1.06 * MIB), L2, 3.56, 0.006, 205e9, 38.0),
        level("L3", (6.1 * MIB, 5.2 * MIB, 7.0 * MIB), L3, 13.0, 0.04, 118e9, 21.0),
        level("memory", None, None, 112.0, 0.06, 38e9, 17.0),
    )


def _findings() -> tuple[Finding, ...]:
    return (
        Finding(
            name="memory.cache_disagrees",
            severity="warning",
            claim="L3 serves 6.1 of the 32 MiB that the system reports: neighbours use the rest",
            evidence=(
                Evidence(what="measured size of L3", value=6.1 * MIB, unit="B"),
                Evidence(what="size that the system reports", value=float(L3), unit="B"),
            ),
            remedy="plan for 6 MiB, or ask for a machine of its own",
        ),
        Finding(
            name="kernel.wake_is_dear",
            severity="warning",
            claim="waking a process on the other CPU costs 19 times the same call on one CPU",
            evidence=(
                Evidence(what="kernel.call_object pipe, one CPU", value=4300.0, unit="ns"),
                Evidence(what="kernel.call_object pipe, two CPUs", value=82000.0, unit="ns"),
            ),
            remedy="pin pairs that talk to each other to one CPU: taskset, cpuset",
        ),
        Finding(
            name="memory.huge_pages_gain",
            severity="note",
            claim="2 MiB pages would cut memory latency by 24 %",
            evidence=(
                Evidence(what="memory.latency at 128 MiB, small pages", value=148.0, unit="ns"),
                Evidence(what="memory.latency at 128 MiB, huge pages", value=112.0, unit="ns"),
            ),
            remedy="echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    )


def _outcomes(rows: Iterable[Row], visits: int, samples: int) -> tuple[Outcome, ...]:
    """Returns visits in a shuffled order, whose control loop varies slightly as in a guest."""
    chance = random.Random(4711)
    points = list({(r.probe, r.abi, r.target, tuple(r.parameters.items())) for r in rows})
    points.sort(key=repr)
    outcomes, columns = [], Columns()
    for number in range(visits):
        if number % len(points) == 0:
            chance.shuffle(points)
        probe, abi, target, parameters = points[number % len(points)]
        speed = CLOCK_HZ * (1 + chance.gauss(0, 0.002))
        taken = []
        for _ in range(samples):
            body = chance.randrange(1_000_000, 1_050_000)
            calm = CALM | {"involuntary": int(chance.random() < 0.002)}
            witness = Witness(**calm, cpu_before=0, cpu_after=0, control_hz=speed)
            taken.append(Sample(iterations=8192, body=(body, 2 * body), witness=witness))
        columns = columns if columns.is_open() else Columns()
        outcomes.append(
            Outcome(
                visit=number,
                round=number // len(points),
                point=Point(probe=probe, abi=abi, target=target, parameters=parameters),
                status="ok",
                controls=(speed, speed * (1 + chance.gauss(0, 0.001))),
                samples=columns.add(taken, [one.witness for one in taken]),
                cpus=(0, 1) if probe == "memory.ping_pong" else (0,),
            )
        )
    return tuple(outcomes)


def _builds(abis: Iterable[str]) -> tuple[Build, ...]:
    return tuple(
        Build(
            probe=probe.probe,
            abi=abi,
            compiler="gcc 12.2.0",
            flags="-O2 -static" + (" -m32" if abi == "ia32" else ""),
            sha256=f"{random.Random(probe.probe + abi).getrandbits(256):064x}",
            size_bytes=761_000,
        )
        for abi in abis
        for probe in PROBES
    )


@cache
def healthy(abis: tuple[str, ...] = ("x86_64", "ia32"), visits: int = 400, samples: int = 7) -> Results:
    """Returns a run of an undisturbed two-CPU guest, with every family measured for every ABI."""
    rows: list[Row] = []
    for number, abi in enumerate(abis):
        make = _Maker(abi)
        rows += _memory(make, SIZES if number == 0 else SIZES[::4])
        rows += _kernel(make) + _arithmetic(make, 1.0 if number == 0 else 0.45)
        rows += _data(make, 1.0 if number == 0 else 0.7) + _alignment(make)
    index = Index(format=1, run=_run(), machine=_machine(), rows=tuple(rows), hierarchy=_levels(), findings=_findings())
    results = Results(
        index=index,
        probes={p.probe: p for p in PROBES},
        builds=_builds(abis),
        outcomes=_outcomes(rows, visits, samples),
        request={"suite": "default", "seed": 4711, "budget_seconds": 120, "cpus": [0, 1]},
    )
    return derived(results)


@cache
def small() -> Results:
    """Returns about 300 rows: the size of a default run."""
    results = healthy(("x86_64",))
    return with_rows(results, [row for row in results.index.rows if _is_coarse(row)])


def _is_coarse(row: Row) -> bool:
    if row.probe == "alignment.copy":
        return (
            row.parameters["bytes"] == 1500
            and int(row.parameters["source"]) % 4 == 0 == int(row.parameters["target"]) % 2
        )
    if row.probe == "alignment.access":
        return int(row.parameters["offset"]) % 7 == 0
    if row.probe == "memory.latency":
        return SIZES.index(int(row.parameters["size"])) % 3 == 0
    return "kernel" not in row.parameters or SIZES.index(int(row.parameters["size"])) % 16 == 0


def with_index(results: Results, **changes: Any) -> Results:
    """Returns the results with other values of the index; nothing is derived again."""
    return msgspec.structs.replace(results, index=msgspec.structs.replace(results.index, **changes))


def with_run(results: Results, **changes: Any) -> Results:
    return with_index(results, run=msgspec.structs.replace(results.index.run, **changes))


def with_entry(results: Results, **changes: Any) -> Results:
    """Returns the results with other values in the rows of a system call."""
    entry = "kernel.enter_syscall"
    rows = (msgspec.structs.replace(row, **changes) if row.probe == entry else row for row in results.index.rows)
    return with_rows(results, rows)


def with_rows(results: Results, rows: Iterable[Row]) -> Results:
    return derived(with_index(results, rows=tuple(rows)))


def derived(results: Results) -> Results:
    """Returns the results with everything that is derived from rows and levels."""
    index = results.index
    own = native(index.rows, index.machine.architecture)
    index = msgspec.structs.replace(
        index,
        inferred=inferred(index.rows, results.probes, index.hierarchy, index.machine),
        tolls=tolls(own, results.probes, index.machine.core_clock_hz),
    )
    return msgspec.structs.replace(results, index=index)


ROW_KEYS = Row.__struct_fields__.index("status")
"""Number of leading fields that identify a row."""


@cache
def failed() -> Results:
    """Returns a run in which some rows lack a number, each for another reason."""
    results = healthy(("x86_64",))
    reasons = {
        "memory.ping_pong": ("unsupported", "needs two CPUs, and this process may use one"),
        "kernel.fault_segv": ("failed", "ended by signal 11 outside its handler"),
        "float.fft": ("wrong_answer", "error 3.1e-2 is beyond the bound 1.2e-6"),
        "alignment.access": ("timeout", "no answer within 20,000 ms"),
        "datamodel.virtual_call": ("interrupted", "stopped by the person"),
    }
    rows = []
    for row in results.index.rows:
        status, reason = reasons.get(row.probe, ("ok", None))
        if status == "ok":
            rows.append(row)
            continue
        known: dict[str, Any] = {name: getattr(row, name) for name in Row.__struct_fields__[:ROW_KEYS]}
        rows.append(Row(**known, status=status, reason=reason))  # type: ignore[arg-type]
    return with_rows(results, rows)


@cache
def hostile() -> Results:
    """Returns a run in which every string from outside contains markup and control characters."""
    results = healthy(("x86_64",))
    machine = _machine(
        host=HOSTILE, cpu=HOSTILE, kernel=f"Linux {HOSTILE}", hypervisor=HOSTILE, facts={HOSTILE: HOSTILE}
    )
    probes = {
        name: msgspec.structs.replace(
            probe,
            question=HOSTILE + probe.question,
            metrics=tuple(
                msgspec.structs.replace(m, summary=HOSTILE, toll=f"{HOSTILE}{m.toll}" if m.toll else None)
                for m in probe.metrics
            ),
        )
        for name, probe in results.probes.items()
    }
    rows = [_poisoned(row) for row in results.index.rows]
    finding = Finding(
        name="memory.hostile",
        severity="error",
        claim=HOSTILE,
        evidence=(Evidence(what=HOSTILE, value=HOSTILE, unit=HOSTILE),),
        remedy="[red]" + HOSTILE + "[/nonsense]",
    )
    index = msgspec.structs.replace(
        results.index, machine=machine, rows=tuple(rows), findings=(finding,), run=_run(folder=HOSTILE, suite=HOSTILE)
    )
    builds = tuple(msgspec.structs.replace(b, flags=HOSTILE, compiler=HOSTILE) for b in results.builds)
    hostile = {"suite": HOSTILE, HOSTILE: [HOSTILE]}
    return derived(msgspec.structs.replace(results, index=index, probes=probes, builds=builds, request=hostile))


def _poisoned(row: Row) -> Row:
    if row.parameters.get("pages") == "local" or row.parameters.get("kernel") == "avx2":
        name = "pages" if "pages" in row.parameters else "kernel"
        return msgspec.structs.replace(row, parameters={**row.parameters, name: HOSTILE})
    if row.probe == "kernel.page_fault":
        return msgspec.structs.replace(row, parameters={"kind": HOSTILE + str(row.parameters["kind"])})
    if row.probe == "float.distance":
        return msgspec.structs.replace(
            row, status="failed", reason=HOSTILE, median=None, low=None, high=None, minimum=None, quartiles=()
        )
    return row


@cache
def empty() -> Results:
    """Returns a run that was stopped before its first visit ended."""
    index = Index(
        format=1,
        run=_run(status="interrupted", seconds=0.4),
        machine=_machine(core_clock_hz=None, hypervisor=None, caches=()),
        rows=(),
    )
    return Results(index=index, probes={}, request={"suite": "default"})


@cache
def emulated() -> Results:
    """Returns a run of the same probes on the machine itself and under an emulator that counts instructions."""
    results = healthy(("x86_64",))
    make = _Maker("arm-soft", "qemu_user", "instructions")
    return with_rows(
        results, [*results.index.rows, *_arithmetic(make, 0.02), *_kernel(make), *_memory(make, SIZES[::8])]
    )


@cache
def many_cpus(cpus: int = 16) -> Results:
    """Returns a run on a machine with two halves: a cache line moves between CPUs of different halves in 160 ns, and
    within one half in 48 ns."""
    results = healthy(("x86_64",))
    outcomes = list(results.outcomes)
    for method in ("swap", "flag"):
        for first, second in itertools.combinations(range(cpus), 2):
            near = (first < cpus // 2) == (second < cpus // 2)
            outcomes.append(_pair_visit(len(outcomes), method, (first, second), 48.0 if near else 160.0))
    machine = _machine(cpus=cpus, allowed_cpus=tuple(range(cpus)))
    index = msgspec.structs.replace(results.index, machine=machine)
    return msgspec.structs.replace(results, index=index, outcomes=tuple(outcomes))


def _pair_visit(number: int, method: str, cpus: tuple[int, int], cost_ns: float) -> Outcome:
    body = (round(cost_ns * 10_000), round(cost_ns * 20_000))
    return Outcome(
        visit=number,
        round=0,
        point=Point(probe="memory.ping_pong", abi="x86_64", target="local", parameters=(("method", method),)),
        status="ok",
        controls=(CLOCK_HZ, CLOCK_HZ),
        samples=Samples.of((Sample(iterations=10_000, body=body),) * 5),
        cpus=cpus,
    )


def slowed(results: Results, factor: float, **more: Any) -> Results:
    """The results whose every time is so many times as long, and every rate so many times less. more: other values of
    all rows with a number."""
    return with_index(results, rows=tuple(_slower(row, factor, more) for row in results.index.rows))


def _slower(row: Row, factor: float, more: dict[str, Any]) -> Row:
    if row.median is None:
        return row
    factor = factor if row.better == "less" else 1 / factor
    numbers = {name: getattr(row, name) * factor for name in ("median", "low", "high", "minimum")}
    return msgspec.structs.replace(row, **numbers, **more)


def of_probes(rows: Iterable[Row], *probes: Probe, suite: Suite | None = None) -> Results:
    """The results of these rows alone on an x86-64, with what follows from them."""
    bare = with_index(empty(), rows=tuple(rows), machine=_machine(core_clock_hz=None, hypervisor=None, caches=()))
    return derived(msgspec.structs.replace(bare, probes={one.probe: one for one in probes}, suite=suite))


SLOWER = 1.25
"""What each time of `another_machine` is of the small run's."""


def another_machine(**changes: object) -> Results:
    """A machine with another CPU and kernel, measured over ssh, on which everything takes SLOWER times as long."""
    results = slowed(small(), SLOWER, target="ssh:box")
    outcomes = [msgspec.structs.replace(told, point=msgspec.structs.replace(told.point, target="ssh:box"))
                for told in results.outcomes]  # fmt: skip
    machine = _machine(cpu="Another 9000", kernel="Linux 6.1", core_clock_hz=CLOCK_HZ / SLOWER)
    results = with_index(results, machine=machine, run=_run(id="2026-11-21-default", folder="runs/2026-11-21-default"))
    return derived(msgspec.structs.replace(results, outcomes=tuple(outcomes), **changes))


def large() -> Results:
    """Returns a run with 100,000 samples."""
    return healthy(visits=4000, samples=25)
