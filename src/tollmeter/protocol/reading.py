# SPDX-License-Identifier: Apache-2.0
"""Records into the frozen values that every layer shares. Pure: bytes in, values out.

Text from a measured machine may hold anything. Control characters, and the marks that turn the direction of writing,
are replaced here, once, so that no host name or reason can move a cursor or disguise itself anywhere later.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from tollmeter.model import (
    Build,
    ClockReading,
    Columns,
    Counted,
    Failure,
    Machine,
    Marks,
    Outcome,
    Point,
    Priority,
    Probe,
    Record,
    Room,
    Samples,
    Status,
    Value,
    Work,
)
from tollmeter.protocol.framing import PROTOCOL, Damaged, Line, check_order, find_lines, lines_of

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Some = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Pair = tuple[Count, Count]
Cpu = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
T = TypeVar("T")

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


_LACKS = re.compile("missing required field `([^`]{1,100})`")
_AT = re.compile(r" - at `\$\.?([^`]+)`")
_MOST_SAID = 40
_OF_A_PROBE = 512
"""Samples of a block where each probe has its own, which wait as objects: 15 MB for 40 probes."""
_STEP = re.compile(r"[^.\[\]]+")


class Head(NamedTuple):
    """What a host's first stream holds, or an executable's description, or its word about the machine."""

    machine: Machine | None
    clock: ClockReading | None
    probes: tuple[Probe, ...]
    builds: tuple[Build, ...]


class _Visit(Record, frozen=True, tag_field="k", tag="visit"):
    visit: Count
    round: Count
    probe: str
    abi: str
    target: str
    parameters: dict[str, Value] = msgspec.field(default_factory=dict)
    cpus: tuple[Count, ...] = ()
    workers: tuple[Count, ...] = ()
    work: Work = Work()
    seed: Count = 0
    at_ns: Count = 0
    pinned: bool | None = None
    priority: Priority = "normal"


class _Control(Record, frozen=True, tag_field="k", tag="control"):
    adds: Some
    ns: Some


class _Sample(Record, frozen=True, gc=False, tag_field="k", tag="sample"):
    i: Count
    iterations: Some
    body: Pair
    control: Pair | None = None
    lanes: tuple[Pair, ...] = ()
    control_iterations: Count = 0
    at_ns: Count = 0


class _Witness(Record, frozen=True, gc=False, tag_field="k", tag="witness"):
    i: Count
    involuntary: Count | None = 0
    voluntary: Count | None = 0
    minor_faults: Count | None = 0
    major_faults: Count | None = 0
    cpu_before: Cpu = -1
    cpu_after: Cpu = -1
    steal_ticks: Count | None = 0
    frequency_khz: Count = 0
    control_hz: float | None = 0.0
    control_before_hz: float | None = 0.0
    width_hz: float | None = 0.0
    width_before_hz: float | None = 0.0
    width_between_hz: float | None = 0.0
    delay_ns: Count | None = None


class _Gauge(Record, frozen=True, tag_field="k", tag="gauge"):
    metric: str
    value: float | None


class _Clock(Record, frozen=True, tag_field="k", tag="clock"):
    """What it says is the same in most visits, and is read once for all of these."""


class _Skip(Record, frozen=True):
    reason: str


class _Fail(Record, frozen=True):
    status: Status
    reason: str


class _End(Record, frozen=True, tag_field="k", tag="end"):
    stopped: bool = False
    stays: bool = False
    served: float | None = None


class _Protocol(Record, frozen=True):
    protocol: Some = PROTOCOL


_ANY = msgspec.json.Decoder(_Visit | _Clock | _Control | _Sample | _Witness | _Gauge | _End)
_SAMPLE = msgspec.json.Decoder(_Sample)
_WITNESS = msgspec.json.Decoder(_Witness)
_LEARNING = threading.RLock()
"""msgspec learns a form when it is first asked for it, and a second thread that asks meanwhile reads what is half
written: a segmentation fault. Reentrant, since a handler of signals may read as well."""


def clean(value: Any, kept: str = "") -> Any:
    """The same JSON value with every character replaced that could do more than be read; kept: those that are not."""
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: found[0] if found[0] in kept else "\ufffd", value)
    if isinstance(value, dict):
        return {clean(key): clean(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, kept) for item in value]
    return value


def clean_suite(table: dict[str, Any]) -> dict[str, Any]:
    """The same of a suite's file: the words of its workloads' commands are for programs, and keep their line breaks."""
    commands = clean(table.get("workload", []), "\n\t")
    return {**clean(table), **({"workload": commands} if "workload" in table else {})}


def outcome(stream: bytes | Sequence[Line], among: Outcomes | None = None) -> Outcome:
    """What one visit brought back. among: who reads the others of its run too. Raises Damaged where the stream is not
    one whole visit."""
    lines = tuple(find_lines(stream)) if isinstance(stream, bytes) else stream
    check_order(lines)
    return (among or Outcomes()).of(lines)


class Outcomes:
    """Reads the visits of one run. What many of them say alike is kept once: their points, clocks and work, and the
    columns that their samples stand in: with a room, which is for large runs, those of each probe together."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room
        self._columns: dict[str, Columns] = {}
        self._same: dict[Any, Any] = {}
        self._clocks: dict[bytes, ClockReading] = {}

    def of(self, lines: Sequence[Line]) -> Outcome:
        """lines: a stream whose order was checked. Raises Damaged where it is no visit."""
        if lines[0].kind != "visit":
            raise Damaged("the stream does not begin with its visit")
        return _outcome(_payload(lines[0], _Visit), lines[1:], self)

    def of_text(self, stream: bytes) -> Outcome:
        """The same of a whole stream's bytes. One that has what most visits have is decoded in one call."""
        try:
            found = _usual(_ANY.decode_lines(stream), stream, self) if _is_harmless(stream) else None
        except (ValueError, RecursionError):
            found = None
        return found or self.of(lines_of(stream))

    def clock(self, text: bytes) -> ClockReading:
        """text: its record, which is the same to the byte in most visits."""
        if text not in self._clocks:
            self._clocks[text] = self.same(_payload(Line("clock", 1, text), ClockReading))
        return self._clocks[text]

    def same(self, value: T) -> T:
        """The value that is equal to it and was there first."""
        found: T = self._same.setdefault(value, value)
        return found

    def samples(self, probe: str, taken: Sequence[_Sample], seen: Sequence[_Witness]) -> Samples:
        place = probe if self._room else ""
        if place not in self._columns or not self._columns[place].is_open():
            self._columns[place] = Columns(self._room, _OF_A_PROBE) if self._room else Columns()
        return self._columns[place].add(taken, seen)


def head(stream: bytes | Sequence[Line]) -> Head:
    """The machine, clock, probes and builds that a stream tells of. Raises Damaged."""
    lines = tuple(find_lines(stream)) if isinstance(stream, bytes) else stream
    check_order(lines)
    machine = _only(lines, "machine", Machine)
    rates = [_rate(_payload(line, _Control)) for line in lines if line.kind == "control"]
    if machine and rates:
        machine = msgspec.structs.replace(machine, core_clock_hz=rates[0])
    probes = tuple(_probe(line) for line in lines if line.kind == "probe")
    builds = tuple(_payload(line, Build) for line in lines if line.kind == "build")
    return Head(machine, _only(lines, "clock", ClockReading), probes, builds)


def description(stream: bytes) -> tuple[Probe, Build]:
    """What `PROBE --describe` printed. Raises Damaged where it does not describe exactly one probe."""
    told = head(stream)
    if len(told.probes) != 1 or len(told.builds) != 1 or told.probes[0].probe != told.builds[0].probe:
        raise Damaged("not the description of one probe")
    return told.probes[0], told.builds[0]


def _probe(line: Line) -> Probe:
    version = _payload(line, _Protocol).protocol
    if version > PROTOCOL:
        raise Failure(
            f"its probes speak protocol {version}, and this Tollmeter reads up to {PROTOCOL}: "
            "a newer Tollmeter is needed"
        )
    return _payload(line, Probe)


def _only(lines: Iterable[Line], kind: str, form: type[T]) -> T | None:
    found = [_payload(line, form) for line in lines if line.kind == kind]
    if len(found) > 1:
        raise Damaged(f"more than one {kind}")
    return found[0] if found else None


def _rate(control: _Control) -> float:
    """Dependent additions a second, which is the core clock."""
    return control.adds * 1e9 / control.ns


def _payload(line: Line, form: type[T]) -> T:
    try:
        told = msgspec.json.decode(line.text)
        told = told if _is_harmless(line.text) else clean(told)
        with _LEARNING:
            return msgspec.convert(told, form)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"record {line.number}, {line.kind}: {_first(error, line.text)}") from error


def _is_harmless(text: bytes) -> bool:
    """Whether there can be nothing in it to clean: most lines are plain, and to go through each costs more than to read
    it. What JSON escapes may be anything; what it does not escape is no control character."""
    return text.isascii() and b"\\" not in text and b"\x7f" not in text


def _number(line: Line, decoder: msgspec.json.Decoder[T]) -> T:
    """A payload of numbers alone, straight from the bytes: there are two of these for each sample."""
    try:
        return decoder.decode(line.text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"record {line.number}, {line.kind}: {_first(error, line.text)}") from error


def _first(error: Exception, text: bytes) -> str:
    """What is wrong with a payload, as a person would say it: what it lacks, or where it holds what."""
    told = str(clean(str(error)))
    if not isinstance(error, msgspec.ValidationError):
        return "it is not JSON that can be read"
    lacks, at = _LACKS.search(told), _AT.search(told)
    if lacks:
        return f"it lacks {lacks.group(1)}"
    where = at.group(1)[:100] if at else "it"
    value = _value(text, _STEP.findall(where)) if at else ""
    return f"{where} holds {f'{value}, which' if value else 'what'} no such record can hold"


def _value(text: bytes, steps: Iterable[str]) -> str:
    """A word or a number that stands at a place of a payload, where it is short enough to be said; else empty."""
    try:
        told = clean(msgspec.json.decode(text))
        for step in steps:
            told = told[int(step)] if isinstance(told, list) else told[step]
    except (LookupError, ValueError, TypeError, RecursionError):
        return ""
    said = repr(told)
    return said if isinstance(told, str | int | float) and len(said) <= _MOST_SAID else ""


def _outcome(visit: _Visit, lines: Sequence[Line], known: Outcomes) -> Outcome:
    by_kind: dict[str, list[Line]] = {}
    for line in lines:
        by_kind.setdefault(line.kind, []).append(line)
    if "visit" in by_kind:
        raise Damaged("a second visit inside a stream")
    status, reason = _status(by_kind)
    samples = known.samples(visit.probe, *_samples(lines))
    gauges = _gauges(by_kind.get("gauge", []))
    if status == "ok" and not samples and not gauges:
        status, reason = _nothing(by_kind)
    kept = status == "ok"
    ends = [_payload(line, _End) for line in by_kind.get("end", [])]
    return _made(
        visit, known, status=status, reason=reason,
        clock=known.same(_only(lines, "clock", ClockReading) or ClockReading(kind="none")),
        controls=tuple(_rate(_payload(line, _Control)) for line in by_kind.get("control", [])),
        samples=samples if kept else (), gauges=gauges if kept else {}, marks=_only(lines, "marks", Marks),
        counted=_only(lines, "count", Counted),
        stays=any(end.stays for end in ends), served=ends[-1].served if ends else None,
    )  # fmt: skip


def _made(visit: _Visit, known: Outcomes, **told: Any) -> Outcome:
    """told: what stands in the other records."""
    point = Point(probe=visit.probe, abi=visit.abi, target=visit.target, parameters=tuple(visit.parameters.items()))
    return Outcome(
        visit=visit.visit, round=visit.round, point=known.same(point), work=known.same(visit.work),
        cpus=known.same(visit.cpus), workers=known.same(visit.workers), seed=visit.seed, at_ns=visit.at_ns,
        pinned=visit.pinned, priority=visit.priority,
        **told,
    )  # fmt: skip


def _usual(records: Sequence[Any], stream: bytes, known: Outcomes) -> Outcome | None:
    """Of a visit with a clock, samples, each with its witness, or gauges, and nothing but these: the records of its
    stream. None where there is anything else, or where an order is wrong."""
    visit, clock, end = records[0], records[1], records[-1]
    kinds = [type(record) for record in records]
    taken = [record for record in records if type(record) is _Sample]
    seen = [record for record in records if type(record) is _Witness]
    gauges = {one.metric: one.value for one in records if type(one) is _Gauge and one.value is not None}
    start, due = kinds.index(_Sample) if taken else 0, [*range(len(taken))]
    is_usual = (
        type(visit) is _Visit and type(clock) is _Clock and type(end) is _End and (taken or gauges)
        and kinds.count(_Visit) == kinds.count(_Clock) == kinds.count(_End) == 1
        and kinds[start : start + 2 * len(taken)] == [_Sample, _Witness] * len(taken)
        and [one.i for one in taken] == [one.i for one in seen] == due
    )  # fmt: skip
    if not is_usual:
        return None
    begin = stream.index(b"\n") + 1
    return _made(
        visit, known, status="ok", clock=known.clock(stream[begin : stream.index(b"\n", begin)]),
        controls=tuple([_rate(one) for one in records if type(one) is _Control]),
        samples=known.samples(visit.probe, taken, seen), gauges=gauges, stays=end.stays, served=end.served,
    )  # fmt: skip


def _status(by_kind: dict[str, list[Line]]) -> tuple[Status, str | None]:
    """A fail outweighs a skip; either outweighs whatever was measured before it."""
    for line in by_kind.get("fail", []):
        fail = _payload(line, _Fail)
        if fail.status == "ok":
            raise Damaged("a failure that says it went well")
        return fail.status, fail.reason
    for line in by_kind.get("skip", []):
        return "unsupported", _payload(line, _Skip).reason
    return "ok", None


def _nothing(by_kind: dict[str, list[Line]]) -> tuple[Status, str]:
    if any(_payload(line, _End).stopped for line in by_kind["end"]):
        return "interrupted", "stopped before its first sample"
    return "failed", "it ended without a sample, a reason or a value"


def _samples(lines: Sequence[Line]) -> tuple[list[_Sample], list[_Witness]]:
    """Each sample and the witness that follows it. A sample at the end of a failed stream may lack its own."""
    taken: list[_Sample] = []
    seen: list[_Witness] = []
    for line in lines:
        if line.kind == "sample":
            if len(taken) > len(seen):
                raise Damaged(f"record {line.number}: the sample before it has no witness")
            taken.append(_number(line, _SAMPLE))
            if taken[-1].i != len(seen):
                raise Damaged(f"record {line.number}: sample {taken[-1].i} where sample {len(seen)} was due")
        elif line.kind == "witness":
            seen.append(_number(line, _WITNESS))
            if len(taken) < len(seen) or seen[-1].i != taken[-1].i:
                raise Damaged(f"record {line.number}: a witness without its sample")
        elif line.kind == "end" and len(taken) > len(seen) and not any(other.kind == "fail" for other in lines):
            raise Damaged(f"record {line.number}: the last sample has no witness")
    return taken[: len(seen)], seen


def _gauges(lines: Iterable[Line]) -> dict[str, float]:
    """A gauge that is null could not be computed, and is left out."""
    gauges = (_payload(line, _Gauge) for line in lines)
    return {gauge.metric: gauge.value for gauge in gauges if gauge.value is not None}
