# SPDX-License-Identifier: Apache-2.0
"""Parses records into the immutable values that every layer uses. Pure functions.

Text from a measured machine may hold anything. Control characters, and marks that change the writing direction, are
replaced once, here, so that no host name or reason can move a cursor or be disguised later."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from tollmeter.model import (
    Build,
    ClockReading,
    Columns,
    Counted,
    EventCounts,
    Failure,
    Machine,
    Marks,
    Outcome,
    Point,
    Priority,
    Probe,
    Record,
    Room,
    Sample,
    Samples,
    Status,
    Value,
    Witness,
    Work,
)
from tollmeter.model.former_names import has_former_names, present_metric, present_parameters, present_probe
from tollmeter.model.measured import Count, Positive
from tollmeter.protocol.framing import PROTOCOL, Damaged, RecordLine, check_order, find_lines, lines_of

T = TypeVar("T")

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


_LACKS = re.compile("missing required field `([^`]{1,100})`")
_AT = re.compile(r" - at `\$\.?([^`]+)`")
_LONGEST_QUOTED = 40
_OF_A_PROBE = 512
"""Samples of a block of columns if each probe has its own: samples of an incomplete block are objects, 15 MB for 40
probes."""
_STEP = re.compile(r"[^.\[\]]+")


class Head(NamedTuple):
    """The content of a host's first stream, of an executable's description, or of its record about the machine."""

    machine: Machine | None
    clock: ClockReading | None
    probes: tuple[Probe, ...]
    builds: tuple[Build, ...]


class _Visit(Record, frozen=True, gc=False, tag_field="k", tag="visit"):
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
    samples: Count = 0
    sample_ns: Count = 0
    revision: Count = 0
    at_ns: Count = 0
    pinned: bool | None = None
    priority: Priority = "normal"
    chosen: dict[str, str] = {}


class _Control(Record, frozen=True, gc=False, tag_field="k", tag="control"):
    adds: Positive
    ns: Positive
    when: str = ""


_Counts = tuple[tuple[Count, Count], ...]


class _Sample(Sample, frozen=True, kw_only=True, gc=False, tag_field="k", tag="sample"):
    i: Count
    counts: _Counts = ()
    control_counts: _Counts = ()


class _Counters(Record, frozen=True, gc=False, tag_field="k", tag="counters"):
    events: tuple[str, ...]
    by: str = ""
    kernel: bool = True
    refused: str = ""


class _Witness(Witness, frozen=True, kw_only=True, gc=False, tag_field="k", tag="witness"):
    i: Count


class _Gauge(Record, frozen=True, gc=False, tag_field="k", tag="gauge"):
    metric: str
    value: float | None


class _Aside(Record, frozen=True, gc=False, tag_field="k", tag="aside"):
    waited_ns: Count = 0
    counted_ns: Count = 0


class _Skip(Record, frozen=True, tag_field="k", tag="skip"):
    reason: str


class _Fail(Record, frozen=True, tag_field="k", tag="fail"):
    status: Status
    reason: str


class _End(Record, frozen=True, gc=False, tag_field="k", tag="end"):
    stopped: bool = False
    stays: bool = False
    served: float | None = None


class _Protocol(Record, frozen=True):
    protocol: Positive = PROTOCOL


_ANY = msgspec.json.Decoder(
    _Visit
    | ClockReading
    | _Control
    | _Sample
    | _Witness
    | _Gauge
    | Counted
    | Marks
    | _Aside
    | _Skip
    | _Fail
    | _End
    | _Counters
)
_FORMS: dict[str, type[Record]] = {form.__struct_config__.tag: form for form in get_args(_ANY.type)}
_NO_GAUGES: dict[str, float] = {}
_NO_CHOICES: dict[str, str] = {}
"""Shared empty dictionary: 200,000 separate ones take 16 MB."""
_ByForm = Mapping[type, Sequence[Any]]
"""Records of a visit by type, in order."""
_LEARNING = threading.RLock()
"""Lock for the first use of a type: msgspec then analyses it, and a second thread that uses it meanwhile reads
incomplete data and crashes. Reentrant, since a signal handler may read as well."""


def clean(value: Any, kept: str = "") -> Any:
    """Returns the JSON value with unsafe characters replaced. kept: unsafe characters that are not replaced."""
    if isinstance(value, str):
        if value.isprintable():  # no unsafe character is; a tenth of the time of a search
            return value
        return _UNSAFE.sub(lambda match: match[0] if match[0] in kept else "\ufffd", value)
    if isinstance(value, dict):
        return {clean(key): clean(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, kept) for item in value]
    return value


def clean_json(text: str) -> Any:
    """Returns the cleaned value of a JSON text. A text without an escape or unsafe character is not examined again,
    which took a third of the time of reading 10,000 small indexes."""
    value = msgspec.json.decode(text)
    return value if is_clean(text) else clean(value)


def is_clean(text: str) -> bool:
    """Returns whether a text, JSON or not, contains neither an escape nor a character that `clean` replaces."""
    return "\\" not in text and (text.isprintable() or not _UNSAFE.search(text))


def clean_suite(table: dict[str, Any]) -> dict[str, Any]:
    """Returns a suite file with unsafe characters replaced; the words of its workloads' commands keep their line
    breaks, since programs read them."""
    commands = clean(table.get("workload", []), "\n\t")
    return {**clean(table), **({"workload": commands} if "workload" in table else {})}


def outcome(stream: bytes | Sequence[RecordLine], among: Outcomes | None = None) -> Outcome:
    """Returns the outcome of one visit. among: reader of the run's visits, which stores equal values once. Raises
    Damaged unless the stream is one complete visit."""
    lines = tuple(find_lines(stream)) if isinstance(stream, bytes) else stream
    check_order(lines)
    return (among or Outcomes()).of(lines)


class Outcomes:
    """A reader of the visits of one run. It stores equal points, clocks and other values once, and the samples of many
    visits in shared columns. room: temporary storage of the columns, which then are separate for each probe."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room
        self._columns: dict[str, Columns] = {}
        self._same: dict[Any, Any] = {}

    def of(self, lines: Sequence[RecordLine]) -> Outcome:
        """Returns the outcome of a visit. lines: a stream whose order was checked. Raises Damaged if it is not a
        visit."""
        forms = ((line, _FORMS.get(line.kind)) for line in lines)
        return _outcome([_payload(line, form) if form else None for line, form in forms], self)

    def of_text(self, stream: bytes) -> Outcome:
        """Returns the outcome of a stream's bytes: in one step, if all its records can be parsed and none needs
        cleaning."""
        try:
            records = _ANY.decode_lines(stream) if _is_harmless(stream) else None
        except (ValueError, RecursionError):
            records = None
        return _outcome(records, self) if records else self.of(lines_of(stream))

    def same(self, value: T) -> T:
        """Returns the first equal value that was stored."""
        kept: T = self._same.setdefault(value, value)
        return kept

    def same_events(self, events: EventCounts) -> EventCounts:
        """Returns the shared copy of equal event counts, as `same` does: most visits have no events."""
        key = (*events.body.items(), None, *events.control.items(), events.samples, events.partial, events.refused)
        kept: EventCounts = self._same.setdefault((events.by, events.kernel, *key), events)
        return kept

    def same_gauges(self, gauges: dict[str, float]) -> dict[str, float]:
        """Returns the shared copy of equal gauges: a dictionary takes as much memory as its visit."""
        kept: dict[str, float] = self._same.setdefault(("gauges", *gauges.items()), gauges)
        return kept

    def samples(self, probe: str, samples: Sequence[_Sample], witnesses: Sequence[_Witness]) -> Samples:
        key = probe if self._room else ""
        if key not in self._columns or not self._columns[key].is_open():
            self._columns[key] = Columns(self._room, _OF_A_PROBE) if self._room else Columns()
        return self._columns[key].add(samples, witnesses)


def head(stream: bytes | Sequence[RecordLine]) -> Head:
    """Returns the machine, clock, probes and builds that a stream reports. Raises Damaged."""
    lines = tuple(find_lines(stream)) if isinstance(stream, bytes) else stream
    check_order(lines)
    machine = _only(_payloads(lines, "machine", Machine), "machine")
    rates = [_rate(control) for control in _payloads(lines, "control", _Control)]
    if machine and rates:
        machine = msgspec.structs.replace(machine, core_clock_hz=rates[0])
    version = max((header.protocol for header in _payloads(lines, "probe", _Protocol)), default=PROTOCOL)
    if version > PROTOCOL:
        raise Failure(
            f"its probes speak protocol {version}, and this Tollmeter reads up to {PROTOCOL}: "
            "a newer Tollmeter is needed"
        )
    probes = tuple(_with_present_names(probe) for probe in _payloads(lines, "probe", Probe))
    builds = (
        msgspec.structs.replace(build, probe=present_probe(build.probe)) for build in _payloads(lines, "build", Build)
    )
    return Head(machine, _only(_payloads(lines, "clock", ClockReading), "clock"), probes, tuple(builds))


def _with_present_names(probe: Probe) -> Probe:
    if not has_former_names(probe.probe):
        return probe
    name = present_probe(probe.probe)
    choices = present_parameters(name, {parameter.name: parameter.choices for parameter in probe.parameters})
    parameters = (
        msgspec.structs.replace(parameter, name=present, choices=choices[present])
        for parameter, present in zip(probe.parameters, choices, strict=True)
    )
    metrics = (msgspec.structs.replace(metric, name=present_metric(name, metric.name)) for metric in probe.metrics)
    return msgspec.structs.replace(probe, probe=name, metrics=tuple(metrics), parameters=tuple(parameters))


def description(stream: bytes) -> tuple[Probe, Build]:
    """Returns the output of `PROBE --describe`. Raises Damaged unless it describes exactly one probe."""
    described = head(stream)
    if len(described.probes) == len(described.builds) == 1:
        probe, build = described.probes[0], described.builds[0]
        if probe.probe == build.probe:
            return probe, build
    raise Damaged("not the description of one probe")


def _payloads(lines: Iterable[RecordLine], kind: str, form: type[T]) -> list[T]:
    return [_payload(line, form) for line in lines if line.kind == kind]


def _only(records: Sequence[T], kind: str) -> T | None:
    if len(records) > 1:
        raise Damaged(f"more than one {kind}")
    return records[0] if records else None


def _of_moments(controls: Sequence[_Control]) -> Iterable[_Control]:
    """Returns one control loop before the samples, and one after them."""
    return {control.when or at: control for at, control in enumerate(controls)}.values()


def _rate(control: _Control) -> float:
    """Returns the dependent additions per second, which is the core clock in hertz."""
    return control.adds * 1e9 / control.ns


def _payload(line: RecordLine, form: type[T]) -> T:
    try:
        payload = msgspec.json.decode(line.text)
        payload = payload if _is_harmless(line.text) else clean(payload)
        with _LEARNING:
            return msgspec.convert(payload, form)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"record {line.number}, {line.kind}: {_first(error, line.text)}") from error


def _is_harmless(text: bytes) -> bool:
    """Returns whether a text certainly needs no cleaning: most lines are plain, and examining every character costs
    more than parsing. A JSON escape may be any character; an unescaped character is not a control character."""
    return text.isascii() and b"\\" not in text and b"\x7f" not in text


def _first(error: Exception, text: bytes) -> str:
    """Returns the error of a payload in words: the missing field, or the field with a wrong value."""
    message = str(clean(str(error)))
    if not isinstance(error, msgspec.ValidationError):
        return "it is not JSON that can be read"
    lacks, at = _LACKS.search(message), _AT.search(message)
    if lacks:
        return f"it lacks {lacks.group(1)}"
    where = at.group(1)[:100] if at else "it"
    value = _value(text, _STEP.findall(where)) if at else ""
    return f"{where} holds {f'{value}, which' if value else 'what'} no such record can hold"


def _value(text: bytes, steps: Iterable[str]) -> str:
    """Returns the word or number at a path of a payload, if it is short enough to quote; else empty."""
    try:
        value = clean(msgspec.json.decode(text))
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (LookupError, ValueError, TypeError, RecursionError):
        return ""
    text_of_value = repr(value)
    return text_of_value if isinstance(value, str | int | float) and len(text_of_value) <= _LONGEST_QUOTED else ""


def _outcome(records: Sequence[Any], known: Outcomes) -> Outcome:
    """Returns the outcome of a visit. records: records of its stream, in order, with None for a record of an unknown
    kind; known: earlier outcomes, whose equal objects are shared."""
    regular = _regular(records)
    by_form: dict[type, list[Any]] = defaultdict(list)
    for record in [*records[: regular.start], *records[regular.stop :]]:
        by_form[type(record)].append(record)
    visit = records[0]
    if type(visit) is not _Visit:
        raise Damaged("the stream does not begin with its visit")
    if len(by_form[_Visit]) > 1:
        raise Damaged("a second visit inside a stream")
    status, reason = _status(by_form)
    pairs = records[regular] if regular.stop else _pairs(records, is_cut=bool(by_form[_Fail]))
    gauges = {gauge.metric: gauge.value for gauge in by_form[_Gauge] if gauge.value is not None}
    ends = by_form[_End]
    if status == "ok" and not pairs and not gauges:
        status, reason = "failed", "it ended without a sample, a reason or a value"
        if any(end.stopped for end in ends):
            status, reason = "interrupted", "stopped before its first sample"
    is_kept = status == "ok"
    point = Point(probe=visit.probe, abi=visit.abi, target=visit.target, parameters=tuple(visit.parameters.items()))
    return Outcome(
        visit=visit.visit, round=known.same(visit.round), point=known.same(point), work=known.same(visit.work),
        cpus=known.same(visit.cpus), workers=known.same(visit.workers), chosen=visit.chosen or _NO_CHOICES,
        seed=known.same(visit.seed), at_ns=visit.at_ns, pinned=visit.pinned, priority=visit.priority, status=status,
        reason=known.same(reason),
        clock=known.same(_only(by_form[ClockReading], "clock")) or ClockReading(kind="none"),
        controls=tuple([_rate(control) for control in _of_moments(by_form[_Control])]),
        samples=known.samples(point.probe, pairs[::2], pairs[1::2]) if is_kept else (),
        gauges=known.same_gauges(gauges) if is_kept and gauges else _NO_GAUGES,
        marks=known.same(_only(by_form[Marks], "marks")), counted=known.same(_only(by_form[Counted], "count")),
        stays=any(end.stays for end in ends), served=ends[-1].served if ends else None,
        waited_ns=sum(aside.waited_ns for aside in by_form[_Aside]),
        counted_ns=sum(aside.counted_ns for aside in by_form[_Aside]), revision=visit.revision,
        events=_events(by_form, pairs[::2], known) if is_kept else None, asked_samples=visit.samples,
        asked_ns=known.same(visit.sample_ns),
    )  # fmt: skip


def _status(by_form: _ByForm) -> tuple[Status, str | None]:
    """Returns the status and its reason. A record of failure outweighs one of skipping; either outweighs earlier
    samples."""
    for fail in by_form[_Fail]:
        if fail.status == "ok":
            raise Damaged("a failure with the status of a success")
        return fail.status, fail.reason
    for skip in by_form[_Skip]:
        return "unsupported", skip.reason
    return "ok", None


def _events(by_form: _ByForm, samples: Sequence[_Sample], known: Outcomes) -> EventCounts | None:
    """Returns the event counts of the samples; None without a record of counters. Raises Damaged if a sample has
    another number of counts than that record has events."""
    counters = _only(by_form[_Counters], "record of counters")
    if counters is None:
        return None
    counted = [sample for sample in samples if sample.counts]
    distinct = {counts for sample in counted for counts in (sample.counts, sample.control_counts) if counts}
    if {*map(len, distinct)} - {len(counters.events)}:
        raise Damaged("a sample counts other events than its visit names")
    # Most samples have no event at all.
    are_none = all(once == twice for counts in distinct for once, twice in counts)
    body = [(sample.counts, sample.iterations) for sample in counted]
    control = [(sample.control_counts, sample.control_iterations or sample.iterations) for sample in counted]
    both = [_medians(counters.events, several[:1] if are_none else several) for several in (body, control)]
    several = (counters.by, counters.kernel, *both, len(counted), len(samples) - len(counted), counters.refused)
    return known.same_events(EventCounts(*several))


def _medians(events: Sequence[str], counted: Sequence[tuple[_Counts, int]]) -> dict[str, float]:
    """Returns by event the median count per iteration. counted: for each sample, the counts of n and of 2n iterations,
    and n."""
    rates: dict[str, list[float]] = defaultdict(list)
    for several, iterations in counted:
        for name, (once, twice) in zip(events, several, strict=False):
            rates[name].append((twice - once) / iterations)
    return {name: median(several) for name, several in rates.items()}


def _regular(records: Sequence[Any]) -> slice:
    """Returns the slice of samples, each followed by its witness; slice(0) if they are not in this order, or if there
    are none."""
    forms = [*map(type, records)]
    count = forms.count(_Sample)
    if not count or forms.count(_Witness) != count:
        return slice(0, 0)
    place = slice(first := forms.index(_Sample), first + 2 * count)
    numbers = [record.i for record in records[place]] if forms[place] == [_Sample, _Witness] * count else []
    return place if numbers[::2] == numbers[1::2] == [*range(count)] else slice(0, 0)


def _pairs(records: Sequence[Any], *, is_cut: bool) -> Sequence[Any]:
    """Returns the samples, each followed by its witness. is_cut: the stream failed, and may lack the last witness."""
    kept = [record for record in records if type(record) is _Sample or type(record) is _Witness]
    if is_cut and len(kept) % 2:
        kept.pop()
    for place, record in enumerate(kept):
        due = (_Sample, _Witness)[place % 2]
        if type(record) is not due or record.i != place // 2:
            number = next(number for number, candidate in enumerate(records) if candidate is record)
            raise Damaged(f"record {number}: {_word(type(record))} {record.i} where {_word(due)} {place // 2} was due")
    if len(kept) % 2:
        raise Damaged("the last sample has no witness")
    return kept


def _word(form: type) -> str:
    return "sample" if form is _Sample else "witness"
