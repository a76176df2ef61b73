# SPDX-License-Identifier: Apache-2.0
"""125 kinds of contradiction, each planted into recorded journals with all checksums right: which are caught?

    bench/contradictions.py RUN...             the forty that rules were developed against
    bench/contradictions.py --held-out RUN...  the other 85

A kind is caught where the journal is refused, the run names a contradiction that it had not, or nothing of what was
changed has numbers. The halves are drawn by a seed."""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.library.derive import make
from tollmeter.model import Failure, Results
from tollmeter.protocol import seal
from tollmeter.store.journal import NAME, read, streams
from tollmeter.store.request import Request, read_request, write_request

SEED, DEVELOPED = 20261128, 40
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


def cache(planting: Planting, level: int, **fields: Any) -> object:
    update([one for machine in planting.head("machine") for one in machine["caches"]
            if one["level"] == level and one["kind"] != "instruction"], **fields)  # fmt: skip
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


def slow_half_of_visits(planting: Planting) -> None:
    group = max(planting.points(), key=len)
    ordered = sorted(group, key=each_ns)
    renumber(planting, ordered[len(ordered) // 2 :])
    planting.touch(ordered[: len(ordered) // 2])


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


def spread_out(planting: Planting) -> None:
    """Ten times the time between all samples, with the same batches."""
    begin = first("visit", planting.good()[0])["at_ns"]
    for record in (record for one in planting.touch(planting.visits) for record in one if record.get("at_ns")):
        record["at_ns"] = begin + (record["at_ns"] - begin) * 10
    multiply(planting.notes, 10, "seconds")


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


def unbuilt(planting: Planting) -> None:
    gone = built(planting)
    for one in (one for one in planting.streams if one[0]["k"] == "machine"):
        one[:] = [record for record in one if not any(record is build for build in gone)]


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


def witnessed_by_another(planting: Planting) -> None:
    one, other = strangers(planting)
    planting.touch([other])
    for record, twin in zip(of("witness", other), of("witness", one), strict=False):
        record |= {key: value for key, value in twin.items() if key not in ("i", "n", "c")}


LOADS, MOVES = (
    ("latency-of-size",),
    ("read-bandwidth-of-size", "write-bandwidth-of-size", "copy-bandwidth-of-size", "update-bandwidth-of-size"),
)
ALL_RATES = ("control_hz", "control_before_hz")
ALL_WIDTHS = ("width_hz", "width_before_hz", "width_between_hz")
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


def in_topology(planting: Planting, **fields: Any) -> None:
    planting.touch(planting.visits)
    update([one["topology"] for one in planting.head("machine") if one.get("topology")], **fields)


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


def seconds_go_back(planting: Planting) -> None:
    planting.touch(planting.visits)
    planting.notes[1]["seconds"], planting.notes[0]["seconds"] = (
        planting.notes[0]["seconds"],
        planting.notes[1]["seconds"],
    )


def lanes_too_long(planting: Planting) -> None:
    for record in of("sample", planting.one(lambda one: any(record.get("lanes") for record in of("sample", one)))):
        record["lanes"] = [[turns, 40 * ns] for turns, ns in record["lanes"]]


def other_priority(planting: Planting) -> None:
    one = planting.one()
    one[0]["priority"] = "normal" if one[0].get("priority") == "real-time" else "real-time"


KINDS: dict[str, Plant] = {
    # ---- the machine
    "machine: 64 CPUs beside two that are listed": online,
    "machine: a CPU is allowed twice": machine(allowed_cpus=[0, 1, 1]),
    "machine: less memory than a visit filled": machine(memory_bytes=1 << 18),
    "machine: a line of 7 bytes": in_cache(1, line_bytes=7),
    "machine: a second level with lines of 96 bytes": in_cache(2, line_bytes=96),
    "machine: a first level larger than the second": in_cache(1, size_bytes=1 << 26),
    "machine: more ways than lines": in_cache(1, ways=4096),
    "machine: a page of 5000 bytes": machine(page_bytes=5000),
    "machine: 5.9 GHz beside a control loop at 3": machine(core_clock_hz=9.9e9),
    "machine: a tenth of the rate of its control loops": machine(core_clock_hz=3e8),
    "machine: two copies that differ": lambda planting: second_copy(planting, "machine", memory_bytes=1 << 40),
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
    "clock: steps of 1 us beside times of single ns": lambda planting: update(
        planting.head("clock") + each(planting, "clock"), resolution_ns=1e3
    ),
    "clock: a reading of 50 ms": lambda planting: first("clock", planting.one()).update(cost_ns=5e7),
    "clock: one visit by a virtual one": lambda planting: first("clock", planting.one()).update(kind="virtual"),
    "clock: one visit by another source": lambda planting: first("clock", planting.one()).update(
        source="cycle_counter"
    ),
    "clock: a reading of 40 times the run's in one visit": lambda planting: multiply(
        [first("clock", planting.one())], 40, "cost_ns"
    ),
    "clock: a reading of less than nothing": lambda planting: first("clock", planting.one()).update(cost_ns=-5.0),
    # ---- descriptions, builds
    "description: no build of a measured probe": unbuilt,
    "description: an ABI that was not built": lambda planting: planting.one()[0].update(abi="ia32"),
    "description: one executable of two probes": same_executable,
    "description: two builds of one probe and ABI": lambda planting: again(planting, "build", sha256="0" * 64),
    "description: a probe described twice": lambda planting: again(planting, "probe", revision=77, metrics=[]),
    "description: a visit of another revision": lambda planting: planting.one()[0].update(revision=77),
    "description: a cost in bytes a second": lambda planting: metric(
        planting, "entry", "price-of-fault", *LOADS, unit="B/s"
    ),
    "description: more time is better": lambda planting: metric(
        planting, "entry", "price-of-fault", *LOADS, better="more"
    ),
    "description: control times of a probe without control": lambda planting: without(
        planting, "control", lambda one: first("sample", one).get("control")
    ),
    "description: companions of a probe without roles": lambda planting: without(
        planting, "roles", lambda one: first("sample", one).get("lanes")
    ),
    "description: a choice that the probe has not": lambda planting: parameters(
        planting, "choice", lambda given, name: given.update({name: "sideways"})
    ),
    "description: a negative size": lambda planting: parameters(
        planting, "size", lambda given, name: given.update({name: -4096})
    ),
    "description: a parameter is missing": lambda planting: parameters(
        planting, "choice", lambda given, name: given.pop(name)
    ),
    "description: an executable of 7 bytes": lambda planting: update(built(planting), size_bytes=7),
    "description: an executable built for another CPU": lambda planting: update(
        built(planting), flags="-O2 -march=armv8-a"
    ),
    # ---- what was asked
    "request: other CPUs than were visited": requested(cpus=(7,)),
    "request: another ABI than was visited": requested(abis=("riscv64",)),
    "request: another seed": requested(seed=1),
    "request: a layout of another seed": visit(seed=12345),
    "request: probes that were not measured": requested(words=("kernel.no_such_probe",)),
    "request: another priority": lambda planting: (
        ask(planting, priority="normal" if planting.request.priority == "real-time" else "real-time")
        and planting.touch(planting.visits)
    ),
    "request: a budget of a hundredth of the run": lambda planting: (
        ask(planting, budget_seconds=planting.notes[-1]["seconds"] / 100) and planting.touch(planting.visits)
    ),
    "request: another machine": requested(targets=("board",)),
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
    "visit: a thousand times the bytes": lambda planting: (
        [
            one[0]["work"].update(bytes=1000 * one[0]["work"]["bytes"], bus_bytes=1000 * one[0]["work"]["bus_bytes"])
            for one in planting.point(*MOVES)
        ]
    ),
    "visit: another priority than the others": other_priority,
    "visit: a round that comes after a million": visit(round=10**6),
    "visit: two workers on one CPU": visit(cpus=[1, 1]),
    "visit: a hundred operations for one": lambda planting: (
        [
            one[0]["work"].update(operations=100 * one[0]["work"]["operations"])
            for one in planting.point(*LOADS, "entry", "price-of-fault")
        ]
    ),
    "visit: more samples than were asked for": visit(samples=1),
    # ---- times
    "time: a visit a day ahead": lambda planting: shift(planting.one(), DAY_NS),
    "time: a visit that goes back": lambda planting: shift(planting.one(), -(10**9)),
    "time: the last visit a day ahead": lambda planting: shift(planting.touch(planting.good()[-1:])[0], DAY_NS),
    "time: two visits overlap": overlapping,
    "time: samples that go backwards": lambda planting: backwards(planting.one()),
    "time: bodies longer than the gaps": lambda planting: scale([planting.one()], 4),
    "time: a run in a fiftieth of its visits' time": note(lambda one: one.update(seconds=one["seconds"] / 50)),
    "time: a run in fifty times its visits' time": note(lambda one: one.update(seconds=one["seconds"] * 50)),
    "time: notes of the run that go back": seconds_go_back,
    "time: a visit after its first sample": begun_late,
    "time: throttled for longer than the run": note(lambda one: one["surroundings"].update(throttled_s=1e6)),
    "time: waited for longer than the run": lambda planting: planting.one().insert(
        -1, {"k": "aside", "waited_ns": 10**14}
    ),
    "time: ten times as much between all samples": spread_out,
    # ---- samples
    "sample: all of a visit are equal": lambda planting: update(
        [*of("sample", planting.one())], body=[300_007, 600_011]
    ),
    "sample: those of another visit": lambda planting: copy_samples(planting, twins),
    "sample: those of another point": lambda planting: copy_samples(planting, strangers),
    "sample: those of another visit, a few ns later": lambda planting: copy_samples(
        planting, twins, lambda ns: ns + planting.rng.randrange(1, 9)
    ),
    "sample: n and 2n exchanged": lambda planting: (
        [record.update(body=record["body"][::-1]) for record in of("sample", planting.one())]
    ),
    "sample: 2n in the time of n": lambda planting: (
        [
            record.update(body=[record["body"][0], record["body"][0] + 3])
            for one in planting.point()
            for record in of("sample", one)
        ]
    ),
    "sample: 2n in ten times n": lambda planting: (
        [
            record.update(body=[record["body"][1] // 10, record["body"][1]])
            for one in planting.point()
            for record in of("sample", one)
        ]
    ),
    "sample: 2n in exactly twice n": lambda planting: (
        [record.update(body=[record["body"][0], 2 * record["body"][0]]) for record in of("sample", planting.one())]
    ),
    "sample: a hundred times the iterations": lambda planting: multiply(
        [*of("sample", planting.one())], 100, "iterations"
    ),
    "sample: twice the iterations in one visit": lambda planting: multiply(
        [*of("sample", planting.point()[-1])], 2, "iterations"
    ),
    "sample: a control in a hundredth of its time": lambda planting: scale(
        [planting.one(lambda one: first("sample", one).get("control"))], 0.01, "control"
    ),
    "sample: the slow half of a point's visits is gone": slow_half_of_visits,
    "sample: the slow half of a point's samples is gone": slow_half_of_samples,
    "sample: a companion in forty times the batch": lanes_too_long,
    "sample: the times of two points exchanged": exchange,
    # ---- evidence
    "evidence: more ticks than went by": lambda planting: witnesses(
        planting, lambda record: record.update(steal_ticks=10**6)
    ),
    "evidence: a longer delay than went by": lambda planting: witnesses(
        planting, lambda record: record.update(delay_ns=10**11)
    ),
    "evidence: a million page faults in a sample": lambda planting: witnesses(
        planting, lambda record: record.update(minor_faults=10**6)
    ),
    "evidence: a million context switches in a sample": lambda planting: witnesses(
        planting, lambda record: record.update(voluntary=10**6)
    ),
    "evidence: a worker on another CPU": lambda planting: witnesses(
        planting, lambda record: record.update(cpu_before=63, cpu_after=63)
    ),
    "evidence: loops twice as fast in one visit": lambda planting: witnesses(
        planting, lambda record: multiply([record], 2, *ALL_RATES)
    ),
    "evidence: one reading of the loop throughout": lambda planting: update(
        each(planting, "witness"), control_hz=3 * 10**9, control_before_hz=3 * 10**9
    ),
    "evidence: independent additions that are slower": lambda planting: multiply(
        each(planting, "witness"), 0.05, *ALL_WIDTHS
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
    "evidence: another visit's": witnessed_by_another,
    "evidence: the loop around a visit twice as fast": lambda planting: multiply(
        [*of("control", planting.one())], 2, "adds"
    ),
    # ---- what was counted
    "count: an entry without a system call": lambda planting: (
        [
            counted_one.update(calls=[0, 0], long_calls=[1, 0])
            for counted_one in (next(record for one in planting.point("entry") for record in of("count", one)),)
        ]
    ),
    "count: fewer instructions in 2n than in n": lambda planting: counted(
        planting, "instructions", lambda record: record.update(instructions=record["instructions"][::-1])
    ),
    "count: a buffer beyond memory": lambda planting: counted(
        planting, "k", lambda record: record.update(buffer_bytes=1 << 60)
    ),
    "count: a walk through a hundredth of its size": lambda planting: counted(
        planting,
        "chase_bytes",
        lambda record: record.update(
            chase_bytes=record["chase_bytes"] // 100, buffer_bytes=record["buffer_bytes"] // 100
        ),
    ),
    "count: another line than the machine's": lambda planting: counted(
        planting, "line_bytes", lambda record: record.update(line_bytes=128)
    ),
    "count: a ladder of ten times the samples": lambda planting: counted(
        planting,
        "ladder",
        lambda record: record.update(ladder=[[one[0], *(10 * ns for ns in one[1:])] for one in record["ladder"]]),
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
    "row: a load of the first level in a tenth": rows(0.1, *LOADS, place=0),
    "row: a load of the first level in half": rows(0.5, *LOADS, place=0),
    "row: a load of memory in a fiftieth": rows(0.02, *LOADS, place=-1),
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


def drawn() -> tuple[list[str], list[str]]:
    """The kinds that rules may be developed against, and those that they may not."""
    names = sorted(KINDS)
    random.Random(SEED).shuffle(names)
    return names[:DEVELOPED], names[DEVELOPED:]


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
    keys = {(one.point.probe, tuple(sorted(one.point.values().items()))) for one in left}
    numbers = [
        row
        for row in after.index.rows
        if row.status == "ok" and row.metric != "control" and (row.probe, tuple(sorted(row.parameters.items()))) in keys
    ]
    was = [
        row
        for row in before.index.rows
        if row.status == "ok" and (row.probe, tuple(sorted(row.parameters.items()))) in keys
    ]
    refused = [
        row.reason or ""
        for row in after.index.rows
        if row.status != "ok" and (row.probe, tuple(sorted(row.parameters.items()))) in keys
    ]
    return f"row: {refused[0]}" if was and not numbers and refused else ""


def main(words: list[str]) -> None:
    held_out = "--held-out" in words
    only = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
    names = only or drawn()[held_out]
    passes = defaultdict[str, list[str]](list)
    for folder in (Path(word) for word in words if not word.startswith("--")):
        before = results(Planting(folder, ""))
        print(f"# {folder.name}: {before.index.run.verdict}, {before.index.run.contradictions}", flush=True)
        for name in names:
            by = caught(Planting(folder, name), KINDS[name], before)
            passes[name].append({"": "PASS", "-": "-"}.get(by, "ok"))
            print(f"{folder.name:16} {passes[name][-1]:4} {name}: {by[:100]}", flush=True)
    for name in sorted(names):
        print(f"{' '.join(f'{one:4}' for one in passes[name])}  {name}")
    odd = sum("PASS" in some for some in passes.values())
    never = sum("ok" not in some for some in passes.values())
    print(f"{len(names)} kinds: {odd} pass in some journal, {never} are caught in none")


if __name__ == "__main__":
    main(sys.argv[1:])
