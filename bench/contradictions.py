# SPDX-License-Identifier: Apache-2.0
"""233 kinds of contradiction, each planted into recorded journals with all checksums right: which are caught?

    bench/contradictions.py RUN...                     the forty that rules were developed against
    bench/contradictions.py --held-out RUN...          the 85 that were drawn with them
    bench/contradictions.py --fresh RUN...             the 48 of a later list that rules were developed against
    bench/contradictions.py --fresh --held-out RUN...  the 60 that were drawn with these

A kind is caught where the journal is refused, the run names a contradiction that it had not, or a row of what was
changed has lost its number. The halves are drawn by a seed."""

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


def drop(kind: str, place: int = 1) -> Plant:
    def plant(planting: Planting) -> None:
        one = planting.one()
        gone = [*of(kind, one)][place]
        one[:] = [record for record in one if record is not gone]

    return plant


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


def packed(planting: Planting) -> None:
    """Half of the time between all samples, with the same batches."""
    begin = planting.visits[0][0]["at_ns"]
    for record in (record for one in planting.touch(planting.visits) for record in one if record.get("at_ns")):
        record["at_ns"] = begin + (record["at_ns"] - begin) // 2
    multiply(planting.notes, 0.5, "seconds")


def point_evidence(change: Callable[[dict[str, Any]], object], *means: str) -> Plant:
    return lambda planting: [change(record) for one in planting.point(*means) for record in of("witness", one)]


def counting(has: str, change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda planting: counted(planting, has, change)


def times(factor: float, *names: str) -> Callable[[dict[str, Any]], object]:
    """Multiplies each number of lists."""
    return lambda record: record.update({name: [int(one * factor) for one in record[name]] for name in names})


def without_control(planting: Planting) -> None:
    one = planting.one(lambda one: first("sample", one).get("control"))
    for record in [*of("sample", one)][::2]:
        record.pop("control", None)


def slower_control(planting: Planting) -> None:
    """A control that takes longer than its body in all of a point."""
    named = {probe["probe"] for probe in planting.head("probe") if probe.get("control")}
    groups = [group for group in planting.points() if group[0][0]["probe"] in named]
    for record in (record for one in planting.touch(planting.rng.choice(groups)) for record in of("sample", one)):
        ratio = record["control_iterations"] / record["iterations"]
        record["control"] = [round(ns * ratio * 1.5) for ns in record["body"]]


def workers(change: Callable[[list[int]], list[int]]) -> Plant:
    def plant(planting: Planting) -> None:
        one = planting.one(lambda one: len({*(one[0].get("workers") or [])}) > 1)
        one[0]["workers"] = change(one[0]["workers"])

    return plant


def two_at_once(planting: Planting) -> None:
    several = [*of("sample", planting.one())]
    several[2]["at_ns"] = several[1]["at_ns"]


def exchanged_rounds(planting: Planting) -> None:
    several = planting.touch(planting.good())
    early, late = several[1], several[-2]
    early[0]["round"], late[0]["round"] = late[0]["round"], early[0]["round"]


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
    "machine: no third level but a fourth": lambda planting: (
        planting.touch(planting.visits),
        cache(planting, 3, level=4),
    ),
    "machine: a huge page of 3 MiB": lambda planting: in_topology(planting, huge_page_bytes=3 << 20),
    "machine: a node that is nearer to itself than 10": lambda planting: (
        in_topology(planting),
        [node.update(distances=[9]) for one in planting.head("machine") for node in one["topology"]["nodes"]],
    ),
    "machine: a core in two packages": lambda planting: in_topology(planting, packages=["0-1", "0"]),
    "machine: an offline CPU that is online": lambda planting: in_topology(planting, offline="1"),
    "fact: a counter of Arm beside x86": fact(clocksource="arch_sys_counter"),
    "fact: a timer of 279 ns beside steps of 20": fact(clocksource="acpi_pm"),
    "fact: four memory nodes beside one that is listed": fact(numa_nodes="0-3"),
    "fact: more processes run than there are": fact(load_average="1.29 1.03 0.44 900/81 10769"),
    "fact: a load that is below nothing": fact(load_average="-3.00 1.03 0.44 1/81 10769"),
    # ---- notes of the run
    "note: more visits than stand before it": noted(1, visits=10**6),
    "note: fewer visits than the note before": lambda planting: (
        planting.touch(planting.visits),
        planting.notes[-1].update(visits=planting.notes[0]["visits"] - 1),
    ),
    "note: other programs had 40 CPUs": around(others=40.0),
    "note: pressure of 3": around(pressure=3.0),
    "note: a time below nothing": noted(0, seconds=-1.0),
    "note: niceness 25": around(nice=25),
    "note: filters of system calls that vanish": lambda planting: (
        around(0, seccomp_filters=3)(planting),
        around(-1, seccomp_filters=0)(planting),
    ),
    "note: less memory than buffers fill": around(memory_limit=1 << 20),
    "note: a quota of a hundredth": around(quota=0.01),
    "note: throttled without a quota": around(-1, throttled_s=1.5),
    "note: a billion interrupts a second": around(interrupts={"LOC": 1e9}),
    "note: interrupts below nothing": around(interrupts={"LOC": -4.0}),
    "note: a third more time in one": lambda planting: (
        planting.touch(planting.visits),
        multiply(planting.notes[len(planting.notes) // 2 : len(planting.notes) // 2 + 1], 1.33, "seconds"),
    ),
    # ---- descriptions
    "description: three system calls an operation": three_calls,
    "description: a worker that waits does not": flag("switches"),
    "description: page faults that are not declared": flag("faults"),
    "description: a clock that is not stopped": flag("pauses"),
    "description: a checksum of three letters": lambda planting: update(built(planting), sha256="xyz"),
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
    "visit: workers exchanged": workers(lambda several: several[::-1]),
    "visit: a worker too many": workers(lambda several: [*several, 0]),
    "visit: batches of a second were requested": visit(sample_ns=10**9),
    "visit: no operations": work(operations=0),
    "visit: fewer bytes than none": work(bytes=-64, bus_bytes=-64),
    "visit: a chosen kernel of Arm": lambda planting: planting.one(lambda one: one[0].get("chosen"))[0].update(
        chosen={"kernel": "neon"}
    ),
    "visit: a round that goes back": lambda planting: planting.touch(planting.good()[-3:-2])[0][0].update(round=0),
    "visit: rounds exchanged": exchanged_rounds,
    "visit: of another machine": visit(target="board"),
    "visit: at a priority that is none": visit(priority="lowest"),
    "visit: a parameter that its probe has not": lambda planting: planting.one()[0]["parameters"].update(colour=3),
    "visit: of another ABI that was built": another_abi,
    "visit: of another probe": lambda planting: as_another(planting, "probe", "revision"),
    "visit: of another point": lambda planting: as_another(planting, "probe", "revision", "parameters", "work"),
    "visit: of the largest size, and is of the smallest": another_size,
    "visit: not pinned": visit(pinned=False),
    "visit: without layout": visit(seed=0),
    # ---- times
    "time: a visit at no time": visit(at_ns=0),
    "time: two samples at once": two_at_once,
    "time: an hour within the run": hour_of_pause,
    "time: half of the time between all samples": packed,
    "time: all in half of its time": half_time,
    "time: counting that took none": lambda planting: first(
        "aside", planting.one(lambda one: any(record["counted_ns"] for record in of("aside", one)))
    ).update(counted_ns=0),
    "time: counting of a thousand seconds": lambda planting: first(
        "aside", planting.one(lambda one: [*of("aside", one)])
    ).update(counted_ns=10**12),
    "time: companions that made no turn": samples(
        lambda record: record.update(lanes=[[0, ns] for _, ns in record["lanes"]]), "lanes"
    ),
    "time: companions that one sample lacks": samples(lambda record: record.pop("lanes"), "lanes", 3),
    "time: the loop before a visit in ten times": lambda planting: multiply(
        [first("control", planting.one(lambda one: [*of("control", one)]))], 10, "ns"
    ),
    "time: the loop before a visit of no turns": lambda planting: first(
        "control", planting.one(lambda one: [*of("control", one)])
    ).update(adds=0),
    # ---- samples
    "sample: a number is left out": samples(lambda record: record.update(i=record["i"] + (record["i"] > 1))),
    "sample: a number twice": double("sample"),
    "sample: no iterations": samples(lambda record: record.update(iterations=0)),
    "sample: times below nothing": samples(times(-1, "body")),
    "sample: one batch instead of two": samples(lambda record: record.update(body=record["body"][:1])),
    "sample: a third batch": samples(lambda record: record.update(body=[*record["body"], 3 * record["body"][0]])),
    "sample: a control slower than its body": slower_control,
    "sample: a control in each second one": without_control,
    "sample: ten times the control's turns": samples(
        lambda record: record.update(control_iterations=record["control_iterations"] * 10), "control"
    ),
    "sample: whole microseconds": samples(
        lambda record: record.update(body=[ns // 1000 * 1000 for ns in record["body"]])
    ),
    "sample: a visit in half of its time": lambda planting: scale([planting.one()], 0.5),
    "sample: a visit in a third more": lambda planting: scale([planting.one()], 1.33),
    "sample: a thousand switches that its evidence has not": samples(
        lambda record: record.update(counts=[[one[0], 1000] for one in record["counts"]]), "counts"
    ),
    "sample: faults below nothing": samples(
        lambda record: record.update(counts=[[-3, *one[1:]] for one in record["counts"]]), "counts"
    ),
    "sample: events that are not counted": samples(
        lambda record: record.update(counts=[[*one, 7] for one in record["counts"]]), "counts"
    ),
    # ---- evidence
    "evidence: fewer interruptions than none": beside(lambda record: record.update(involuntary=-5)),
    "evidence: a delay below nothing": beside(lambda record: record.update(delay_ns=-(10**6))),
    "evidence: a switch without waiting": point_evidence(
        lambda record: record.update(voluntary=0, involuntary=0), "switch", "call-of-object"
    ),
    "evidence: 500 preemptions without a wait": beside(lambda record: record.update(involuntary=500, delay_ns=0)),
    "evidence: a pinned worker that moved": beside(
        lambda record: record.update(cpu_after=1 - (record["cpu_before"] or 0))
    ),
    "evidence: 300 MHz beside loops of 3 GHz": lambda planting: update(
        each(planting, "witness"), frequency_khz=300_000
    ),
    "evidence: a rate below nothing": beside(lambda record: record.update(frequency_khz=-1)),
    "evidence: three times the additions in one visit": beside(lambda record: multiply([record], 3, *ALL_WIDTHS)),
    "evidence: no additions": beside(lambda record: record.update(width_hz=0, width_before_hz=0)),
    "evidence: 100,000 reads from a disk in a sample": beside(lambda record: record.update(major_faults=10**5)),
    "evidence: price of a fault without faults": point_evidence(
        lambda record: record.update(minor_faults=0), "price-of-fault"
    ),
    "evidence: a sample without": drop("witness"),
    "evidence: of a sample twice": double("witness"),
    # ---- what was counted
    "count: as many instructions in 2n as in n": counting(
        "instructions", lambda record: record.update(instructions=[record["instructions"][1]] * 2)
    ),
    "count: calls that rise thrice": counting(
        "calls", lambda record: record.update(calls=[4, 12], long_calls=[40, 120])
    ),
    "count: a control of more instructions than its body": counting(
        "control_instructions",
        lambda record: record.update(control_instructions=[10 * one for one in record["instructions"]]),
    ),
    "count: lengths that rise": counting("ladder", lambda record: record.update(ladder=record["ladder"][::-1])),
    "count: a batch in no time": counting(
        "ladder", lambda record: record.update(ladder=[[one[0], *(0 for _ in one[1:])] for one in record["ladder"]])
    ),
    "count: a walk by 3 bytes": counting("chase_bytes", lambda record: record.update(chase_stride=3)),
    "count: a thousand pages in a kilobyte": counting(
        "chase_bytes", lambda record: record.update(chase_pages=record["chase_pages"] * 1000)
    ),
    "count: pages of 16 KiB": counting("page_bytes", lambda record: record.update(page_bytes=16384)),
    "count: a buffer of a page": counting("chase_bytes", lambda record: record.update(buffer_bytes=4096)),
    "count: steps that are in order less than never": counting(
        "chase_bytes", lambda record: record.update(chase_in_order=-0.5)
    ),
    "gauge: seven times all of its memory in huge pages": gauge(lambda _: 7.0, "huge_pages"),
    "gauge: a thousand times the code": gauge(lambda value: value * 1000, "code"),
    # ---- rows that are scaled alone
    "row: a load of the first level in four times": rows(4, *LOADS, place=0),
    "row: a load of memory in a fifth": rows(0.2, *LOADS, place=-1),
    "row: a system call in forty times": rows(40, "entry"),
    "row: a stream in a tenth": rows(0.1, *MOVES),
}


HONEST = {
    "count: a buffer of a page": "a probe may walk memory that it took itself",
    "count: a ladder of half the samples": "batches beside a count find other caches, and another load of the core",
    "count: as many instructions in 2n as in n": "a body may hand all iterations to the kernel in one call",
    "count: calls that rise thrice": "a library takes memory now and then: 8 calls in 128 iterations",
    "description: page faults that are not declared": "a user's probe may not declare them",
    "evidence: a switch without waiting": "gVisor counts no switches",
    "fact: a counter of Arm beside x86": "an emulator of programs shows the files of the kernel below",
    "request: another seed": "a bundle draws its own",
    "sample: twice the iterations in one visit": "a visit may be calibrated anew, and cost half of the others",
    "time: the loop before a visit in ten times": "a neighbour may take the CPU in the 20 us of the loop",
}
"""Kinds that contradict nothing, as came out later, and why: they are planted, and not counted."""


def drawn(kinds: dict[str, Plant], developed: int) -> tuple[list[str], list[str]]:
    """The kinds that rules may be developed against, and those that they may not."""
    names = sorted(kinds)
    random.Random(SEED).shuffle(names)
    return names[:developed], names[developed:]


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
    held_out = "--held-out" in words
    only = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
    kinds, developed = (FRESH, len(FRESH) - 60) if "--fresh" in words else (KINDS, DEVELOPED)
    names = only or drawn(kinds, developed)[held_out]
    passes = defaultdict[str, list[str]](list)
    for folder in (Path(word) for word in words if not word.startswith("--")):
        before = results(Planting(folder, ""))
        print(f"# {folder.name}: {before.index.run.verdict}, {before.index.run.contradictions}", flush=True)
        for name in names:
            by = caught(Planting(folder, name), (KINDS | FRESH)[name], before)
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
