# SPDX-License-Identifier: Apache-2.0
"""Kinds of contradiction, each planted into recorded journals with all checksums right: which are caught?

    bench/contradictions.py RUN...
    bench/contradictions.py --only=KIND RUN...

A kind is caught where the journal is refused, the run names a contradiction that it had not, or a row of what was
changed has lost its number. Most kinds were held out when they were written: rules were added once it was known how
many passed (docs/measuring.md)."""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.library.derive import make
from tollmeter.model import Failure, Outcome, Results, Row
from tollmeter.protocol import seal
from tollmeter.store.journal import NAME, read, streams
from tollmeter.store.request import Request, read_request, write_request

DAY_NS = 86_400 * 10**9
Stream = list[dict[str, Any]]


class Planting:
    """A journal that may be changed. touched: visits of which the change is."""

    def __init__(self, folder: Path, name: str) -> None:
        self.streams: list[Stream] = [[json.loads(line.text) for line in stream.lines] for stream in streams(folder)]
        self.request: Request = read_request(folder)
        self.rng = random.Random(f"{folder.name} {name}")
        self.touched = set[int]()

    def head(self, kind: str) -> list[dict[str, Any]]:
        """Records of the first stream, in all of its copies."""
        return [record for one in self.streams if one[0]["k"] == "machine" for record in of(kind, one)]

    @property
    def visits(self) -> list[Stream]:
        return [one for one in self.streams if one[0]["k"] == "visit"]

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [one[0] for one in self.streams if one[0]["k"] == "run"]

    def good(self) -> list[Stream]:
        return [
            one for one in self.visits if len([*of("sample", one)]) >= 4 and not [*of("fail", one), *of("skip", one)]
        ]

    def one(self, has: Callable[[Stream], object] = lambda _: True) -> Stream:
        """A visit. Raises IndexError where there is none."""
        several = [one for one in self.good()[1:-1] if has(one)]
        return self.touch([self.rng.choice(several)])[0]

    def touch(self, several: list[Stream]) -> list[Stream]:
        self.touched |= {one[0]["visit"] for one in several}
        return several

    def points(self, *means: str) -> list[list[Stream]]:
        """Visits by their point, the cheapest first; of metrics with one of the meanings only."""
        named = {
            probe["probe"]
            for probe in self.head("probe")
            for metric in probe["metrics"]
            if not means or (metric["means"] in means and metric["source"] == "body")
        }
        groups = defaultdict[str, list[Stream]](list)
        for one in self.good():
            if one[0]["probe"] in named:
                groups[f"{one[0]['probe']} {one[0]['parameters']} {one[0]['abi']}"].append(one)
        return sorted((group for group in groups.values() if len(group) > 1), key=cost)

    def point(self, *means: str, place: int | None = None) -> list[Stream]:
        several = self.points(*means)
        return self.touch(self.rng.choice(several) if place is None else several[place])

    def save(self, folder: Path) -> None:
        bare = (
            [
                {key: value for key, value in record.items() if key not in ("n", "c")}
                for record in one
                if record["k"] != "end"
            ]
            for one in self.streams
        )
        (folder / NAME).write_bytes(b"".join(seal(one) for one in bare))
        write_request(folder, self.request)


def of(kind: str, stream: Stream) -> Iterator[dict[str, Any]]:
    return (record for record in stream if record["k"] == kind)


def first(kind: str, stream: Stream) -> dict[str, Any]:
    return next(of(kind, stream))


def each_ns(stream: Stream) -> float:
    return min(float(one["body"][1] - one["body"][0]) / int(one["iterations"]) for one in of("sample", stream))


def cost(group: Sequence[Stream]) -> float:
    return sorted(map(each_ns, group))[len(group) // 2]


def scale(several: Sequence[Stream], factor: float, name: str = "body") -> None:
    for record in (record for one in several for record in of("sample", one)):
        if record.get(name):
            record[name] = [round(ns * factor) for ns in record[name]]


def shift(one: Stream, ns: int) -> None:
    for record in one:
        if record.get("at_ns"):
            record["at_ns"] += ns


def each(planting: Planting, kind: str) -> list[dict[str, Any]]:
    return [record for one in planting.touch(planting.good()) for record in of(kind, one)]


def update(records: Sequence[dict[str, Any]], **fields: Any) -> object:
    if not records:
        raise IndexError
    for record in records:
        record.update(fields)
    return records


def multiply(records: Sequence[dict[str, Any]], factor: float, *names: str) -> object:
    for record in records:
        record.update({name: type(record[name])(record[name] * factor) for name in names if record.get(name)})
    return records


def cache(planting: Planting, number: int, **fields: Any) -> object:
    update([one for machine in planting.head("machine") for one in machine["caches"]
            if one["level"] == number and one["kind"] != "instruction"], **fields)  # fmt: skip
    return planting


def parameters(planting: Planting, kind: str, change: Callable[[dict[str, Any], str], object]) -> None:
    """Changes the first parameter of a kind in one visit."""
    of_probe = {probe["probe"]: [one["name"] for one in probe["parameters"] if one["kind"] == kind]
                for probe in planting.head("probe")}  # fmt: skip
    one = planting.one(lambda one: of_probe[one[0]["probe"]])
    change(one[0]["parameters"], of_probe[one[0]["probe"]][0])


def ask(planting: Planting, **fields: Any) -> object:
    planting.request = msgspec.structs.replace(planting.request, **fields)
    return planting


def renumber(planting: Planting, gone: Sequence[Stream]) -> object:
    """Without some visits, with all counts adjusted."""
    lost = {id(one) for one in gone}
    planting.streams = [one for one in planting.streams if id(one) not in lost]
    seen = 0
    for one in planting.streams:
        if one[0]["k"] == "visit":
            one[0]["visit"], seen = seen, seen + 1
        elif one[0]["k"] == "run":
            one[0]["visits"] = seen
    return planting


def slow_half_of_samples(planting: Planting) -> None:
    for one in planting.point():
        kept = sorted(of("sample", one), key=lambda record: record["body"][1])
        numbers = {record["i"] for record in kept[: len(kept) // 2]}
        one[:] = [record for record in one if record.get("i") is None or record["i"] in numbers]
        places = {number: place for place, number in enumerate(sorted(numbers))}
        for record in one:
            if "i" in record:
                record["i"] = places[record["i"]]
        one[0]["samples"] = len(places)


def copy_samples(
    planting: Planting, pick: Callable[[Planting], tuple[Stream, Stream]], change: Callable[[int], int] = lambda ns: ns
) -> None:
    source, other = pick(planting)
    planting.touch([source, other])
    for record, twin in zip(of("sample", other), of("sample", source), strict=False):
        record["body"], record["iterations"] = [change(ns) for ns in twin["body"]], twin["iterations"]


def twins(planting: Planting) -> tuple[Stream, Stream]:
    group = planting.rng.choice(planting.points())
    return group[0], group[1]


def strangers(planting: Planting) -> tuple[Stream, Stream]:
    one, other = planting.rng.sample(planting.points(), 2)
    return one[0], other[0]


def exchange(planting: Planting) -> None:
    """All that two points took."""
    one, other = planting.rng.sample(planting.points(), 2)
    for first_one, second in zip(planting.touch(one), planting.touch(other), strict=False):
        for record, twin in zip(of("sample", first_one), of("sample", second), strict=False):
            record["body"], twin["body"] = twin["body"], record["body"]


def compressed(several: Sequence[Stream], factor: float) -> None:
    """Bodies, and the gaps between samples with them."""
    scale(several, factor)
    for one in several:
        begin = first("sample", one)["at_ns"]
        for record in of("sample", one):
            record["at_ns"] = begin + round((record["at_ns"] - begin) * factor)


def backwards(one: Stream) -> None:
    times = [record["at_ns"] for record in of("sample", one)]
    for record, at_ns in zip(of("sample", one), reversed(times), strict=True):
        record["at_ns"] = at_ns


def overlapping(planting: Planting) -> None:
    several = planting.good()
    place = planting.rng.randrange(1, len(several) - 1)
    before, one = several[place - 1], planting.touch([several[place]])[0]
    middle = [*of("sample", before)][len([*of("sample", before)]) // 2]["at_ns"]
    shift(one, middle - one[0]["at_ns"])


def second_copy(planting: Planting, kind: str, **fields: Any) -> None:
    if len([one for one in planting.streams if one[0]["k"] == "machine"]) < 2:
        planting.streams.insert(1, copy.deepcopy(planting.streams[0]))
    first(kind, planting.streams[1]).update(fields)
    planting.touch(planting.visits)


def again(planting: Planting, kind: str, **fields: Any) -> None:
    """A second record of the same, which differs."""
    for one in (one for one in planting.streams if one[0]["k"] == "machine"):
        record = first(kind, one)
        one.insert(one.index(record) + 1, copy.deepcopy(record) | fields)
    planting.touch([one for one in planting.good() if one[0]["probe"] == record["probe"]])


def built(planting: Planting) -> list[dict[str, Any]]:
    """Build records of one probe that was measured."""
    measured = sorted({one[0]["probe"] for one in planting.good()})
    name = planting.rng.choice(measured)
    planting.touch([one for one in planting.good() if one[0]["probe"] == name])
    return [build for build in planting.head("build") if build["probe"] == name]


def same_executable(planting: Planting) -> None:
    update(built(planting), sha256=planting.head("build")[0]["sha256"])
    update(planting.head("build")[:1], sha256=built(planting)[0]["sha256"])


def described(planting: Planting, **fields: Any) -> None:
    builds = built(planting)
    update([probe for probe in planting.head("probe") if probe["probe"] == builds[0]["probe"]], **fields)


def metric(planting: Planting, *means: str, **fields: Any) -> None:
    group = planting.point(*means)
    name = group[0][0]["probe"]
    metrics = [one for probe in planting.head("probe") if probe["probe"] == name for one in probe["metrics"]]
    update([one for one in metrics if one["means"] in means], **fields)
    planting.touch([one for one in planting.good() if one[0]["probe"] == group[0][0]["probe"]])


def without(planting: Planting, what: str, has: Callable[[Stream], object]) -> None:
    """The probe of a visit with something says that it has none."""
    name = planting.one(has)[0]["probe"]
    planting.touch([one for one in planting.good() if one[0]["probe"] == name])
    update(
        [probe for probe in planting.head("probe") if probe["probe"] == name],
        **{what: [] if what == "roles" else False},
    )


def counted(planting: Planting, has: str, change: Callable[[dict[str, Any]], object]) -> None:
    one = planting.one(lambda one: any(record.get(has) for record in of("count", one)))
    planting.touch(
        [
            other
            for other in planting.good()
            if other[0]["parameters"] == one[0]["parameters"] and other[0]["probe"] == one[0]["probe"]
        ]
    )
    change(first("count", one))


def witnesses(planting: Planting, change: Callable[[dict[str, Any]], object]) -> None:
    for record in of("witness", planting.one()):
        change(record)


LOADS, MOVES = (
    ("latency-of-size",),
    ("read-bandwidth-of-size", "write-bandwidth-of-size", "copy-bandwidth-of-size", "update-bandwidth-of-size"),
)
ALL_RATES = ("control_hz", "control_before_hz")
IPC = ("switch", "call-of-object", "transfer-of-state", "core-to-core")
Plant = Callable[[Planting], object]


def machine(**fields: Any) -> Plant:
    return lambda planting: (planting.touch(planting.visits), update(planting.head("machine"), **fields))


def in_cache(level: int, **fields: Any) -> Plant:
    return lambda planting: (planting.touch(planting.visits), cache(planting, level, **fields))


def visit(**fields: Any) -> Plant:
    return lambda planting: planting.one()[0].update(fields)


def rows(factor: float, *means: str, place: int | None = None) -> Plant:
    return lambda planting: scale(planting.point(*means, place=place), factor)


def in_topology(planting: Planting, **fields: Any) -> object:
    planting.touch(planting.visits)
    return update([one["topology"] for one in planting.head("machine") if one.get("topology")], **fields)


def requested(**fields: Any) -> Plant:
    return lambda planting: (planting.touch(planting.visits), ask(planting, **fields))


def note(change: Callable[[dict[str, Any]], object]) -> Plant:
    def plant(planting: Planting) -> None:
        planting.touch(planting.visits)
        for one in planting.notes:
            change(one)

    return plant


def online(planting: Planting) -> None:
    in_topology(planting)
    update(planting.head("machine"), cpus=64)


def begun_late(planting: Planting) -> object:
    one = planting.one()
    one[0]["at_ns"] = first("sample", one)["at_ns"] + 10**6
    return one


def other_priority(planting: Planting) -> None:
    one = planting.one()
    one[0]["priority"] = "normal" if one[0].get("priority") == "real-time" else "real-time"


KINDS: dict[str, Plant] = {
    # ---- the machine
    "machine: 64 CPUs beside two that are listed": online,
    "machine: a CPU is allowed twice": machine(allowed_cpus=[0, 1, 1]),
    "machine: a line of 7 bytes": in_cache(1, line_bytes=7),
    "machine: a second level with lines of 96 bytes": in_cache(2, line_bytes=96),
    "machine: a first level larger than the second": in_cache(1, size_bytes=1 << 26),
    "machine: more ways than lines": in_cache(1, ways=4096),
    "machine: a page of 5000 bytes": machine(page_bytes=5000),
    "machine: 5.9 GHz beside a control loop at 3": machine(core_clock_hz=9.9e9),
    "machine: two copies whose probes differ": lambda planting: second_copy(planting, "probe", revision=77),
    "machine: an architecture that its ABIs are not of": machine(architecture="aarch64"),
    "machine: a CPU in two cores": lambda planting: in_topology(planting, cores=["0-1", "1"]),
    "machine: two data caches of one level": lambda planting: (
        planting.touch(planting.visits),
        [one["caches"].append({**one["caches"][0], "size_bytes": 65536}) for one in planting.head("machine")],
    ),
    "machine: a cache that CPUs share which do not exist": in_cache(1, shared_cpus="0,97"),
    "machine: a cache of half a line more": lambda planting: (
        planting.touch(planting.visits),
        [
            one.update(size_bytes=one["size_bytes"] + 32)
            for record in planting.head("machine")
            for one in record["caches"]
        ],
    ),
    "machine: threads of a core that are no CPUs": machine(cores=[[0, 97]]),
    # ---- its clock
    "clock: a resolution of 0 before the run": lambda planting: (
        planting.touch(planting.visits),
        update(planting.head("clock"), resolution_ns=0),
    ),
    "clock: a resolution of 0 in every visit": lambda planting: update(each(planting, "clock"), resolution_ns=0),
    "clock: a reading of 3 cycles in one visit": lambda planting: first("clock", planting.one()).update(cost_ns=0.8),
    "clock: a reading of 3 cycles throughout": lambda planting: update(
        planting.head("clock") + each(planting, "clock"), cost_ns=0.8, resolution_ns=1
    ),
    "clock: steps of 50 ms beside times of single ns": lambda planting: update(
        planting.head("clock") + each(planting, "clock"), resolution_ns=5e7
    ),
    "clock: a reading of 50 ms": lambda planting: first("clock", planting.one()).update(cost_ns=5e7),
    "clock: one visit by a virtual one": lambda planting: first("clock", planting.one()).update(kind="virtual"),
    "clock: a reading of 40 times the run's in one visit": lambda planting: multiply(
        [first("clock", planting.one())], 40, "cost_ns"
    ),
    "clock: a reading of less than nothing": lambda planting: first("clock", planting.one()).update(cost_ns=-5.0),
    # ---- descriptions, builds
    "description: an ABI that was not built": lambda planting: planting.one()[0].update(abi="ia32"),
    "description: one executable of two probes": same_executable,
    "description: two builds of one probe and ABI": lambda planting: again(planting, "build", sha256="0" * 64),
    "description: a probe described twice": lambda planting: again(planting, "probe", revision=77, metrics=[]),
    "description: a visit of another revision": lambda planting: planting.one()[0].update(revision=77),
    "description: a cost in bytes a second": lambda planting: metric(
        planting, "entry", "price-of-fault", *LOADS, unit="B/s"
    ),
    "description: companions of a probe without roles": lambda planting: without(
        planting, "roles", lambda one: first("sample", one).get("lanes")
    ),
    "description: a choice that the probe has not": lambda planting: parameters(
        planting, "choice", lambda given, name: given.update({name: "sideways"})
    ),
    "description: a parameter is missing": lambda planting: parameters(
        planting, "choice", lambda given, name: given.pop(name)
    ),
    "description: an executable of 7 bytes": lambda planting: update(built(planting), size_bytes=7),
    # ---- what was asked
    "request: another ABI than was visited": requested(abis=("riscv64",)),
    "request: another seed": requested(seed=1),
    "request: a layout of another seed": visit(seed=12345),
    "request: probes that were not measured": requested(words=("kernel.no_such_probe",)),
    "request: another priority": lambda planting: (
        ask(planting, priority="normal" if planting.request.priority == "real-time" else "real-time")
        and planting.touch(planting.visits)
    ),
    # ---- visits
    "visit: a CPU that does not exist": visit(cpus=[31]),
    "visit: an ABI of another CPU": visit(abi="aarch64"),
    "visit: a number is left out": lambda planting: (
        renumber(planting, [])
        and [
            one[0].update(visit=one[0]["visit"] + 9)
            for one in planting.touch(planting.visits[len(planting.visits) // 2 :])
        ]
    ),
    "visit: another point's layout": lambda planting: planting.one()[0].update(
        seed=next(one for one in planting.good() if one[0]["probe"] != planting.good()[-1][0]["probe"])[0]["seed"]
    ),
    "visit: other work than its point's": lambda planting: planting.point()[0][0].update(work={"operations": 77}),
    "visit: a footprint beyond memory": lambda planting: (
        [one[0]["work"].update(footprint_bytes=1 << 60) for one in planting.point()]
    ),
    "visit: another priority than the others": other_priority,
    "visit: a round that comes after a million": visit(round=10**6),
    "visit: a hundred operations for one": lambda planting: (
        [
            one[0]["work"].update(operations=100 * one[0]["work"]["operations"])
            for one in planting.point(*LOADS, "entry", "price-of-fault")
        ]
    ),
    # ---- times
    "time: a visit a day ahead": lambda planting: shift(planting.one(), DAY_NS),
    "time: the last visit a day ahead": lambda planting: shift(planting.touch(planting.good()[-1:])[0], DAY_NS),
    "time: two visits overlap": overlapping,
    "time: bodies longer than the gaps": lambda planting: scale([planting.one()], 4),
    "time: a run in fifty times its visits' time": note(lambda one: one.update(seconds=one["seconds"] * 50)),
    "time: a visit after its first sample": begun_late,
    "time: throttled for longer than the run": note(lambda one: one["surroundings"].update(throttled_s=1e6)),
    "time: waited for longer than the run": lambda planting: planting.one().insert(
        -1, {"k": "aside", "waited_ns": 10**14}
    ),
    # ---- samples
    "sample: all of a visit are equal": lambda planting: update(
        [*of("sample", planting.one())], body=[300_007, 600_011]
    ),
    "sample: those of another visit": lambda planting: copy_samples(planting, twins),
    "sample: those of another visit, a few ns later": lambda planting: copy_samples(
        planting, twins, lambda ns: ns + planting.rng.randrange(1, 9)
    ),
    "sample: n and 2n exchanged": lambda planting: (
        [record.update(body=record["body"][::-1]) for record in of("sample", planting.one())]
    ),
    "sample: twice the iterations in one visit": lambda planting: multiply(
        [*of("sample", planting.point()[-1])], 2, "iterations"
    ),
    "sample: a control in a hundredth of its time": lambda planting: scale(
        [planting.one(lambda one: first("sample", one).get("control"))], 0.01, "control"
    ),
    "sample: the slow half of a point's samples is gone": slow_half_of_samples,
    "sample: the times of two points exchanged": exchange,
    # ---- evidence
    "evidence: more ticks than went by": lambda planting: witnesses(
        planting, lambda record: record.update(steal_ticks=10**6)
    ),
    "evidence: a million page faults in a sample": lambda planting: witnesses(
        planting, lambda record: record.update(minor_faults=10**6)
    ),
    "evidence: a worker on another CPU": lambda planting: witnesses(
        planting, lambda record: record.update(cpu_before=63, cpu_after=63)
    ),
    "evidence: loops twice as fast in one visit": lambda planting: witnesses(
        planting, lambda record: multiply([record], 2, *ALL_RATES)
    ),
    "evidence: readings that do not join": lambda planting: (
        [
            multiply([record], 1.01, "control_before_hz", "width_before_hz")
            for record in [*of("witness", planting.one())][1:]
        ]
    ),
    "evidence: 9.9 GHz beside a loop at 3": lambda planting: witnesses(
        planting, lambda record: record.update(frequency_khz=9_900_000)
    ),
    "evidence: the loop around a visit twice as fast": lambda planting: multiply(
        [*of("control", planting.one())], 2, "adds"
    ),
    # ---- what was counted
    "count: a buffer beyond memory": lambda planting: counted(
        planting, "k", lambda record: record.update(buffer_bytes=1 << 60)
    ),
    "count: another line than the machine's": lambda planting: counted(
        planting, "line_bytes", lambda record: record.update(line_bytes=128)
    ),
    "count: a ladder of half the samples": lambda planting: counted(
        planting,
        "ladder",
        lambda record: record.update(ladder=[[one[0], *(ns // 2 for ns in one[1:])] for one in record["ladder"]]),
    ),
    "count: a share of steps above 1": lambda planting: counted(
        planting, "chase_bytes", lambda record: record.update(chase_in_order=2.0)
    ),
    "count: a million instructions an iteration": lambda planting: counted(
        planting, "instructions", lambda record: record.update(instructions=[4_000_000, 8_000_000])
    ),
    # ---- rows that are scaled alone
    "row: a system call in a hundredth": rows(0.01, "entry"),
    "row: a system call in half": rows(0.5, "entry"),
    "row: a load of the middle in four times": lambda planting: scale(
        planting.point(*LOADS, place=len(planting.points(*LOADS)) // 2), 4
    ),
    "row: a stream in a fiftieth": rows(0.02, *MOVES),
    "row: a page fault in a hundredth": rows(0.01, "price-of-fault"),
    "row: a round trip in a hundredth": rows(0.01, *IPC),
    "row: any in half": rows(0.5),
    "row: any in twice": rows(2.0),
    "row: any in half, and the gaps with it": lambda planting: compressed(planting.point(), 0.5),
}


# ---- kinds written on 30 November, before the rules of that day were read


def fact(**facts: str) -> Plant:
    return lambda planting: (
        planting.touch(planting.visits),
        [one["facts"].update(facts) for one in planting.head("machine")],
    )


def noted(place: int, **fields: Any) -> Plant:
    """One note of the run only."""
    return lambda planting: (planting.touch(planting.visits), planting.notes[place].update(fields))


def around(place: int | None = None, **fields: Any) -> Plant:
    """What notes say about the run's surroundings: one of them, or all."""

    def plant(planting: Planting) -> None:
        planting.touch(planting.visits)
        update(
            [one["surroundings"] for one in (planting.notes if place is None else [planting.notes[place]])], **fields
        )

    return plant


def samples(change: Callable[[dict[str, Any]], object], has: str = "body", every: int = 1) -> Plant:
    """All samples of one visit that has such, or each of so many."""

    def plant(planting: Planting) -> None:
        one = planting.one(lambda one: first("sample", one).get(has))
        for record in [*of("sample", one)][::every]:
            change(record)

    return plant


def beside(change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda planting: witnesses(planting, change)


def work(**fields: Any) -> Plant:
    return lambda planting: [one[0]["work"].update(fields) for one in planting.point()]


def flag(name: str) -> Plant:
    """A probe that was measured declares the opposite."""

    def plant(planting: Planting) -> None:
        declared = [probe["probe"] for probe in planting.head("probe") if probe.get(name)]
        probe = planting.one(lambda one: one[0]["probe"] in declared)[0]["probe"]
        planting.touch([one for one in planting.good() if one[0]["probe"] == probe])
        update([one for one in planting.head("probe") if one["probe"] == probe], **{name: False})

    return plant


def declares(**fields: Any) -> Plant:
    return lambda planting: described(planting, **fields)


def double(kind: str, place: int = 1) -> Plant:
    def plant(planting: Planting) -> None:
        one = planting.one()
        record = [*of(kind, one)][place]
        one.insert(one.index(record) + 1, copy.deepcopy(record))

    return plant


def as_another(planting: Planting, *fields: str) -> None:
    """A visit says that it is of another point."""
    one, other = strangers(planting)
    if all(one[0][field] == other[0][field] for field in fields):
        raise IndexError
    planting.touch([one, other])
    one[0].update({field: copy.deepcopy(other[0][field]) for field in fields})


def another_size(planting: Planting) -> None:
    """The smallest buffer of a walk says that it is the largest one."""
    several = planting.points(*LOADS)
    source, target = several[0][0], several[-1][0]
    planting.touch([source, target])
    source[0]["parameters"] = copy.deepcopy(target[0]["parameters"])


def another_abi(planting: Planting) -> None:
    one = planting.one()
    abi = next(build["abi"] for build in planting.head("build")
               if build["probe"] == one[0]["probe"] and build["abi"] != one[0]["abi"])  # fmt: skip
    one[0]["abi"] = abi


def gauge(change: Callable[[float], float], *names: str) -> Plant:
    def plant(planting: Planting) -> None:
        one = planting.one(lambda one: any(not names or record["metric"] in names for record in of("gauge", one)))
        for record in of("gauge", one):
            if not names or record["metric"] in names:
                record["value"] = change(record["value"])

    return plant


def hour_of_pause(planting: Planting) -> None:
    for one in planting.touch(planting.good()[len(planting.good()) // 2 :]):
        shift(one, 3_600 * 10**9)


def half_time(planting: Planting) -> None:
    """All bodies and all moments in half, but not what notes say."""
    begin = planting.visits[0][0]["at_ns"]
    scale(planting.touch(planting.visits), 0.5)
    scale(planting.visits, 0.5, "control")
    for record in (record for one in planting.visits for record in one if record.get("at_ns")):
        record["at_ns"] = begin + (record["at_ns"] - begin) // 2


def point_evidence(change: Callable[[dict[str, Any]], object], *means: str) -> Plant:
    return lambda planting: [change(record) for one in planting.point(*means) for record in of("witness", one)]


def counting(has: str, change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda planting: counted(planting, has, change)


def times(factor: float, *names: str) -> Callable[[dict[str, Any]], object]:
    """Multiplies each number of lists."""
    return lambda record: record.update({name: [int(one * factor) for one in record[name]] for name in names})


def workers(change: Callable[[list[int]], list[int]]) -> Plant:
    def plant(planting: Planting) -> None:
        one = planting.one(lambda one: len({*(one[0].get("workers") or [])}) > 1)
        one[0]["workers"] = change(one[0]["workers"])

    return plant


def three_calls(planting: Planting) -> None:
    name = planting.point("entry")[0][0]["probe"]
    planting.touch([one for one in planting.good() if one[0]["probe"] == name])
    update([probe for probe in planting.head("probe") if probe["probe"] == name], calls=3)


FRESH: dict[str, Plant] = {
    # ---- the machine, and what is said of it
    "machine: no rate beside control loops": machine(core_clock_hz=None),
    "machine: a page of 16 KiB on x86": machine(page_bytes=16384),
    "machine: memory of half a KiB more": lambda planting: (
        planting.touch(planting.visits),
        multiply(planting.head("machine"), 1.0000001, "memory_bytes"),
    ),
    "machine: a second level that more CPUs share than the third": lambda planting: (
        planting.touch(planting.visits),
        cache(planting, 2, shared_cpus="0-1"),
        cache(planting, 3, shared_cpus="0"),
    ),
    "machine: a core in two packages": lambda planting: in_topology(planting, packages=["0-1", "0"]),
    "machine: an offline CPU that is online": lambda planting: in_topology(planting, offline="1"),
    "fact: a counter of Arm beside x86": fact(clocksource="arch_sys_counter"),
    "fact: a timer of 279 ns beside steps of 20": fact(clocksource="acpi_pm"),
    "fact: four memory nodes beside one that is listed": fact(numa_nodes="0-3"),
    "fact: a load that is below nothing": fact(load_average="-3.00 1.03 0.44 1/81 10769"),
    # ---- notes of the run
    "note: fewer visits than the note before": lambda planting: (
        planting.touch(planting.visits),
        planting.notes[-1].update(visits=planting.notes[0]["visits"] - 1),
    ),
    "note: other programs had 40 CPUs": around(others=40.0),
    "note: a time below nothing": noted(0, seconds=-1.0),
    "note: filters of system calls that vanish": lambda planting: (
        around(0, seccomp_filters=3)(planting),
        around(-1, seccomp_filters=0)(planting),
    ),
    "note: a quota of a hundredth": around(quota=0.01),
    "note: a billion interrupts a second": around(interrupts={"LOC": 1e9}),
    "note: interrupts below nothing": around(interrupts={"LOC": -4.0}),
    "note: a third more time in one": lambda planting: (
        planting.touch(planting.visits),
        multiply(planting.notes[len(planting.notes) // 2 : len(planting.notes) // 2 + 1], 1.33, "seconds"),
    ),
    # ---- descriptions
    "description: three system calls an operation": three_calls,
    "description: a worker that waits does not": flag("switches"),
    "description: a clock that is not stopped": flag("pauses"),
    "description: no metric": declares(metrics=[]),
    "description: a metric twice": lambda planting: [
        probe["metrics"].append(copy.deepcopy(probe["metrics"][0]))
        for name in [built(planting)[0]["probe"]]
        for probe in planting.head("probe")
        if probe["probe"] == name
    ],
    "description: revision -1": declares(revision=-1),
    "description: another protocol": declares(protocol=9),
    # ---- visits
    "visit: a worker too many": workers(lambda several: [*several, 0]),
    "visit: batches of a second were requested": visit(sample_ns=10**9),
    "visit: no operations": work(operations=0),
    "visit: fewer bytes than none": work(bytes=-64, bus_bytes=-64),
    "visit: a round that goes back": lambda planting: planting.touch(planting.good()[-3:-2])[0][0].update(round=0),
    "visit: a parameter that its probe has not": lambda planting: planting.one()[0]["parameters"].update(colour=3),
    "visit: of another ABI that was built": another_abi,
    "visit: of another probe": lambda planting: as_another(planting, "probe", "revision"),
    "visit: of the largest size, and is of the smallest": another_size,
    "visit: not pinned": visit(pinned=False),
    "visit: without layout": visit(seed=0),
    # ---- times
    "time: an hour within the run": hour_of_pause,
    "time: all in half of its time": half_time,
    "time: companions that made no turn": samples(
        lambda record: record.update(lanes=[[0, ns] for _, ns in record["lanes"]]), "lanes"
    ),
    "time: the loop before a visit in ten times": lambda planting: multiply(
        [first("control", planting.one(lambda one: [*of("control", one)]))], 10, "ns"
    ),
    "time: the loop before a visit of no turns": lambda planting: first(
        "control", planting.one(lambda one: [*of("control", one)])
    ).update(adds=0),
    # ---- samples
    "sample: a number is left out": samples(lambda record: record.update(i=record["i"] + (record["i"] > 1))),
    "sample: a number twice": double("sample"),
    "sample: one batch instead of two": samples(lambda record: record.update(body=record["body"][:1])),
    "sample: whole microseconds": samples(
        lambda record: record.update(body=[ns // 1000 * 1000 for ns in record["body"]])
    ),
    "sample: a visit in a third more": lambda planting: scale([planting.one()], 1.33),
    "sample: a thousand switches that its evidence has not": samples(
        lambda record: record.update(counts=[[one[0], 1000] for one in record["counts"]]), "counts"
    ),
    "sample: events that are not counted": samples(
        lambda record: record.update(counts=[[*one, 7] for one in record["counts"]]), "counts"
    ),
    # ---- evidence
    "evidence: 500 preemptions without a wait": beside(lambda record: record.update(involuntary=500, delay_ns=0)),
    "evidence: a pinned worker that moved": beside(
        lambda record: record.update(cpu_after=1 - (record["cpu_before"] or 0))
    ),
    "evidence: a rate below nothing": beside(lambda record: record.update(frequency_khz=-1)),
    "evidence: no additions": beside(lambda record: record.update(width_hz=0, width_before_hz=0)),
    "evidence: price of a fault without faults": point_evidence(
        lambda record: record.update(minor_faults=0), "price-of-fault"
    ),
    "evidence: of a sample twice": double("witness"),
    # ---- what was counted
    "count: as many instructions in 2n as in n": counting(
        "instructions", lambda record: record.update(instructions=[record["instructions"][1]] * 2)
    ),
    "count: lengths that rise": counting("ladder", lambda record: record.update(ladder=record["ladder"][::-1])),
    "count: a thousand pages in a kilobyte": counting(
        "chase_bytes", lambda record: record.update(chase_pages=record["chase_pages"] * 1000)
    ),
    "count: a buffer of a page": counting("chase_bytes", lambda record: record.update(buffer_bytes=4096)),
    # ---- rows that are scaled alone
    "row: a load of memory in a fifth": rows(0.2, *LOADS, place=-1),
    "row: a stream in a tenth": rows(0.1, *MOVES),
}


def topologies(planting: Planting) -> list[dict[str, Any]]:
    in_topology(planting)
    return [one["topology"] for one in planting.head("machine") if one.get("topology")]


def in_nodes(**fields: Any) -> Plant:
    return lambda planting: [node.update(fields) for one in topologies(planting) for node in one["nodes"]]


def in_parameter(has: Callable[[dict[str, Any]], object], change: Callable[[dict[str, Any]], object]) -> Plant:
    """The first such parameter of a probe that was measured."""

    def plant(planting: Planting) -> None:
        named = {probe["probe"] for probe in planting.head("probe") if any(map(has, probe["parameters"]))}
        name = planting.one(lambda one: one[0]["probe"] in named)[0]["probe"]
        planting.touch([one for one in planting.good() if one[0]["probe"] == name])
        for probe in planting.head("probe"):
            if probe["probe"] == name:
                change(next(filter(has, probe["parameters"])))

    return plant


def built_otherwise(planting: Planting) -> None:
    """An executable of ia32 is of 64 bits."""
    name = planting.one(lambda one: one[0]["abi"] == "ia32")[0]["probe"]
    planting.touch([one for one in planting.good() if (one[0]["probe"], one[0]["abi"]) == (name, "ia32")])
    for build in planting.head("build"):
        if (build["probe"], build["abi"]) == (name, "ia32"):
            build["flags"] = build["flags"].replace("-m32", "-m64")


def on_one_cpu(planting: Planting) -> None:
    one = planting.one(lambda one: one[0].get("priority") == "real-time" and len(one[0].get("workers") or []) > 1)
    one[0]["workers"] = one[0]["workers"][:1] * len(one[0]["workers"])


def other_choice(planting: Planting) -> None:
    one = planting.one(lambda one: one[0].get("chosen"))
    one[0]["chosen"] = {name: "sse2" if value != "sse2" else "portable" for name, value in one[0]["chosen"].items()}


def in_samples(has: Callable[[dict[str, Any]], object], change: Callable[[dict[str, Any]], object]) -> Plant:
    """Each such sample of a visit that has one."""

    def plant(planting: Planting) -> None:
        for record in filter(has, of("sample", planting.one(lambda one: any(map(has, of("sample", one)))))):
            change(record)

    return plant


def in_second(has: Callable[[dict[str, Any]], object], change: Callable[[dict[str, Any]], object]) -> Plant:
    """The second sample of a visit with such samples."""
    return lambda planting: change([*of("sample", planting.one(lambda one: any(map(has, of("sample", one)))))][1])


def faults_without(planting: Planting) -> None:
    one = planting.one(lambda one: any(record.get("counts") for record in of("sample", one)))
    place = first("counters", one)["events"].index("page-faults")
    for record in of("sample", one):
        record["counts"][place] = [500, 1000]


def switches_without(planting: Planting) -> None:
    """A visit whose batches made switches has none beside its samples."""

    def has(one: Stream) -> bool:
        events: list[str] = next(of("counters", one), {"events": []})["events"]
        return "context-switches" in events and any(
            record.get("counts") and record["counts"][events.index("context-switches")][1] > 10
            for record in of("sample", one)
        )

    update([*of("witness", planting.one(has))], voluntary=0, involuntary=0)


def exchanged_witnesses(planting: Planting) -> None:
    several = [*of("witness", planting.one())]
    several[1]["i"], several[2]["i"] = several[2]["i"], several[1]["i"]


def counts(has: Callable[[dict[str, Any]], object], **fields: Any) -> Plant:
    """What one visit counted."""
    return lambda planting: first("count", planting.one(lambda one: any(map(has, of("count", one))))).update(fields)


def entered_beyond(planting: Planting) -> None:
    entered = 4 * planting.head("machine")[0]["memory_bytes"]
    counting("entered", lambda record: record.update(entered=[record["entered"][0], entered, entered]))(planting)


def above_the_peak(planting: Planting) -> None:
    one = planting.one(lambda one: any(record["metric"] == "resident_peak" for record in of("gauge", one)))
    values = {record["metric"]: record for record in of("gauge", one)}
    values["resident"]["value"] = 2 * values["resident_peak"]["value"]


def stood_still(planting: Planting) -> None:
    planting.touch(planting.visits)
    place = len(planting.notes) // 2
    planting.notes[place]["seconds"] = planting.notes[place - 1]["seconds"]


def uncounted(planting: Planting) -> None:
    planting.one(lambda one: [*of("counters", one)])
    requested(counters=False)(planting)


def begun_at_once(planting: Planting) -> None:
    one = planting.one(lambda one: [*of("control", one)])
    one[0]["at_ns"] = first("sample", one)["at_ns"] - 10


def begun_while_counting(planting: Planting) -> None:
    """A visit begins when the samples of the one before end, whose work is counted then."""
    several = planting.good()
    counted_ns = [next(of("aside", one), {}).get("counted_ns", 0) for one in several]
    place = planting.rng.choice([at for at in range(1, len(several) - 1) if counted_ns[at] > 5 * 10**6])
    last, later = [*of("sample", several[place])][-1], planting.touch([several[place + 1]])[0]
    end = last["at_ns"] + sum(last["body"]) * 9 // 8 + sum(last.get("control") or [0]) + 200_000
    shift(later, end - later[0]["at_ns"])


def below_zero(planting: Planting) -> None:
    begin = planting.visits[0][0]["at_ns"] + 10**9
    for one in planting.touch(planting.visits):
        shift(one, -begin)


def exchanged_numbers(planting: Planting) -> None:
    several = planting.good()
    place = planting.rng.randrange(1, len(several) - 2)
    one, other = planting.touch(several[place : place + 2])
    one[0]["visit"], other[0]["visit"] = other[0]["visit"], one[0]["visit"]


def other_ladder(planting: Planting) -> None:
    one, other = planting.touch(
        planting.rng.sample(
            [one for one in planting.good() if any(record.get("ladder") for record in of("count", one))], 2
        )
    )
    first("count", other)["ladder"] = copy.deepcopy(first("count", one)["ladder"])


def half_again(planting: Planting) -> None:
    several = [*of("sample", planting.one(lambda one: len([*of("sample", one)]) >= 12))]
    for record, twin in zip(several[len(several) // 2 :], several, strict=False):
        record["body"], record["iterations"] = list(twin["body"]), twin["iterations"]


def mirrored(planting: Planting) -> None:
    one, other = planting.touch([*twins(planting)])
    for record, twin in zip(of("sample", other), [*of("sample", one)][::-1], strict=False):
        record["body"], record["iterations"] = list(twin["body"]), twin["iterations"]


def same_lanes(planting: Planting) -> None:
    several = [*of("sample", planting.one(lambda one: first("sample", one).get("lanes")))]
    update(several, lanes=several[0]["lanes"])


def other_controls(planting: Planting) -> None:
    groups = [group for group in planting.points() if first("sample", group[0]).get("control")]
    one, other, *_ = planting.touch(planting.rng.choice(groups))
    for record, twin in zip(of("sample", other), of("sample", one), strict=False):
        record["control"], record["control_iterations"] = list(twin["control"]), twin["control_iterations"]


def has(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda record: record.get(name)


LATER: dict[str, Plant] = {
    "machine: more huge pages than memory": lambda planting: in_topology(
        planting, hugetlb=[{"bytes": 1 << 30, "pages": 10**6}]
    ),
    "machine: a huge page of half a page": lambda planting: in_topology(planting, huge_page_bytes=2048),
    "machine: a distance too many": in_nodes(distances=[10, 20]),
    "machine: seven ways": in_cache(1, ways=7),
    "machine: a CPU of two kinds": lambda planting: in_topology(
        planting, kinds=[{"cpus": cpus, "name": cpus, "capacity": 512, "max_khz": 0} for cpus in ("0-1", "1")]
    ),
    "machine: threads of a core that the topology has apart": lambda planting: (
        in_topology(planting),
        machine(cores=[[0, 1]])(planting),
    ),
    "machine: an allowed node that is not there": lambda planting: in_topology(planting, allowed_nodes="3"),
    "machine: last caches that the list of caches has otherwise": lambda planting: in_topology(
        planting, last_caches=["0", "1"]
    ),
    "description: ia32 of 64 bits": built_otherwise,
    "description: a choice twice": in_parameter(
        has("choices"), lambda one: one.update(choices=[one["choices"][0], *one["choices"]])
    ),
    "description: a typical value that is none": in_parameter(has("choices"), lambda one: one.update(typical="mauve")),
    "description: a choice between others": in_parameter(has("choices"), lambda one: one.update(refine=True)),
    "description: a range that ends before it begins": in_parameter(
        lambda one: one["stop"] > one["start"] > 0 and one["stop_scale"] == "absolute",
        lambda one: one.update(start=one["stop"], stop=one["start"]),
    ),
    "visit: real-time workers on one CPU": on_one_cpu,
    "visit: the best of a point is another once": other_choice,
    "sample: a control longer than the gap": in_samples(has("control"), times(20, "control")),
    "sample: one with a companion more": in_second(
        has("lanes"), lambda record: record.update(lanes=[*record["lanes"], record["lanes"][0]])
    ),
    "sample: seven iterations more": in_second(
        lambda record: record["iterations"] > 100, lambda record: record.update(iterations=record["iterations"] + 7)
    ),
    "sample: counts of an event that has no name": in_samples(
        has("counts"), lambda record: record.update(counts=[*record["counts"], [1, 2]])
    ),
    "sample: counts of a control that is none": in_samples(
        lambda record: record.get("counts") and not record.get("control"),
        lambda record: record.update(control_counts=record["counts"]),
    ),
    "sample: faults in batches alone": faults_without,
    "sample: a control of the body's iterations": in_samples(
        lambda record: record.get("control") and record["control_iterations"] != record["iterations"],
        lambda record: record.update(control_iterations=0),
    ),
    "evidence: two loops before": lambda planting: update(
        [*of("control", planting.one(lambda one: [*of("control", one)]))], when="before"
    ),
    "evidence: switches in batches alone": switches_without,
    "evidence: of other samples": exchanged_witnesses,
    "evidence: a clock that costs a tenth of a batch": lambda planting: first("clock", planting.one()).update(
        cost_ns=30_000.0
    ),
    "count: shorter than its batches": lambda planting: first(
        "aside", planting.one(lambda one: [*of("aside", one)] and any(map(has("ladder"), of("count", one))))
    ).update(counted_ns=1000),
    "count: 300 pages of 256 steps": counts(has("chase_pages"), chase_pages=300),
    "count: a stride of two chases": counting(
        "chase_stride", lambda record: record.update(chase_stride=2 * record["chase_bytes"])
    ),
    "count: steps in order to hundreds of pages": counts(
        lambda record: record.get("chase_pages", 0) > 100 and record["chase_stride"] <= 256, chase_in_order=1
    ),
    "count: more calls than instructions": counts(
        lambda record: (record.get("calls") or [0])[0] > 1, instructions=[1, 2]
    ),
    "count: pages beyond memory": entered_beyond,
    "count: a huge page of 12,345 bytes": counts(has("buffer_bytes"), hugetlb_bytes=12_345),
    "count: descriptors without a call": counts(lambda record: record.get("calls") == [0, 0], left_open=3),
    "count: calls that were too many": counts(lambda record: (record.get("calls") or [0])[0] > 0, most_calls=1),
    "gauge: more is resident than at the peak": above_the_peak,
    "gauge: a hundred times the CPU's time": gauge(lambda value: 100 * value, "cpu_time"),
    "gauge: four times the faults": gauge(lambda value: 4 * value, "faults_each"),
    "work: a rate of flops without": lambda planting: [
        one[0]["work"].update(flops=0)
        for name in [planting.one(lambda one: one[0]["work"]["flops"])[0]["probe"]]
        for one in planting.touch([one for one in planting.good() if one[0]["probe"] == name])
    ],
    "note: visits in no time": stood_still,
    "note: a value that cannot be read": around(unreadable=["/proc/stat"]),
    "request: a day that was used up": requested(budget_seconds=86_400.0),
    "request: no counters": uncounted,
    "request: private caches of a tebibyte": requested(private_bytes=1 << 40),
    "order: numbers exchanged": exchanged_numbers,
    "order: a visit 10 ns before its samples": begun_at_once,
    "order: a visit while the one before counts": begun_while_counting,
    "order: a clock that begins below 0": below_zero,
    "copy: a control with the times of its body": in_samples(
        has("control"), lambda record: record.update(control=list(record["body"]))
    ),
    "copy: the ladder of another visit": other_ladder,
    "copy: the second half of a visit is its first": half_again,
    "copy: a visit backwards": mirrored,
    "copy: a companion that always takes as long": same_lanes,
    "copy: the controls of another visit": other_controls,
}
"""Of a third list, what the others do not have."""

HONEST = {
    "count: descriptors without a call": "a long batch may make a call that no short one makes",
    "gauge: four times the faults": "threads that a body starts have faults of their own",
    "visit: the best of a point is another once": "a probe looks for the fastest anew in each layout",
    "count: a buffer of a page": "a probe may walk memory that it took itself",
    "count: a ladder of half the samples": "batches beside a count find other caches, and another load of the core",
    "count: as many instructions in 2n as in n": "a body may hand all iterations to the kernel in one call",
    "fact: a counter of Arm beside x86": "an emulator of programs shows the files of the kernel below",
    "request: another seed": "a bundle draws its own",
    "sample: twice the iterations in one visit": "a visit may be calibrated anew, and cost half of the others",
    "time: the loop before a visit in ten times": "a neighbour may take the CPU in the 20 us of the loop",
}
"""Kinds that contradict nothing, as came out later, and why: they are planted, and not counted."""


def results(planting: Planting) -> Results:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        planting.save(folder)
        return make(read(folder), planting.request, folder)


def caught(planting: Planting, plant: Plant, before: Results) -> str:
    """By what; empty where nothing did, '-' where the journal has nothing to change."""
    try:
        plant(planting)
        if not planting.touched:
            raise IndexError
    except (LookupError, StopIteration, ValueError, TypeError):
        return "-"
    try:
        after = results(planting)
    except Failure as error:
        return f"refused: {error.sentence}"
    if new := set(after.index.run.contradictions) - set(before.index.run.contradictions):
        return min(new)
    if after.index.run.damage and not before.index.run.damage:
        return after.index.run.damage
    left = [one for one in after.outcomes if one.visit in planting.touched and one.status == "ok" and one.samples]
    if not left:
        return next(
            (one.reason or "" for one in after.outcomes if one.visit in planting.touched and one.reason), "withheld"
        )
    return _refused(before, after, [one for one in after.outcomes if one.visit in planting.touched])


def _refused(before: Results, after: Results, changed: Sequence[Outcome]) -> str:
    """Why a row of what was changed has no number any more; empty where each has one that had."""
    keys = {(one.point.probe, one.point.abi, _values(one.point.values())) for one in changed}
    had, has = ({_row(row) for row in one.index.rows if row.status == "ok"} for one in (before, after))
    lost = {key for key in had - has if key[:3] in keys and key[3] != "control"}
    return next((f"row: {row.reason or 'gone'}" for row in after.index.rows if _row(row) in lost), "")


def _row(row: Row) -> tuple[Any, ...]:
    return row.probe, row.abi, _values(row.parameters), row.metric


def _values(parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(parameters.items()))


def main(words: list[str]) -> None:
    only = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
    kinds = KINDS | FRESH | LATER
    names = only or sorted(kinds)
    passes = defaultdict[str, list[str]](list)
    for folder in (Path(word) for word in words if not word.startswith("--")):
        before = results(Planting(folder, ""))
        print(f"# {folder.name}: {before.index.run.verdict}, {before.index.run.contradictions}", flush=True)
        for name in names:
            by = caught(Planting(folder, name), kinds[name], before)
            passes[name].append({"": "PASS", "-": "-"}.get(by, "ok"))
            print(f"{folder.name:16} {passes[name][-1]:4} {name}: {by[:100]}", flush=True)
    for name in sorted(names):
        print(f"{' '.join(f'{one:4}' for one in passes[name])}  {name}")
    counted = [some for name, some in passes.items() if name not in HONEST and {*some} != {"-"}]
    odd = sum("PASS" in some for some in counted)
    never = sum("ok" not in some for some in counted)
    print(f"{len(counted)} kinds: {odd} pass in some journal, {never} are caught in none")


if __name__ == "__main__":
    main(sys.argv[1:])
