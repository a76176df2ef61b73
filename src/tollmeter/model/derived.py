# SPDX-License-Identifier: Apache-2.0
"""What is derived from all that came back: rows, levels, inferences, tolls, findings, and the index of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from tollmeter.model.base import (
    Better,
    ClaimVerdict,
    Clock,
    InferenceKind,
    OpposedVerdict,
    PlaceRelation,
    Portion,
    Record,
    Severity,
    StateName,
    Status,
    Unit,
    Value,
)
from tollmeter.model.described import Build, Machine, Probe
from tollmeter.model.measured import Outcome, RunInfo
from tollmeter.model.profiled import Distances, Modelled, Profile
from tollmeter.model.requested import Suite


class State(Record, frozen=True):
    """What a row costs in one state of the machine: on a core that is this program's alone (`whole`), beside somebody
    on its other hardware thread (`shared`), where that was not seen or changed within the sample (`unknown`); or in
    the first and second of two states that differ for a reason not seen. share: of the row's samples. low, high: 95 %.
    """

    state: StateName
    share: Portion
    median: float
    low: float
    high: float


class Row(Record, frozen=True):
    """One metric at one point. median, low and high are the estimate and its 95 % interval, in the row's state; states
    has every state that was seen often enough, this one's first. A time that follows the core's clock is one at
    clock_hz, and unadjusted is the median of what was read off the clock; clock_hz is None where nothing was adjusted.
    own_ratio: the target's own time over the line's, where a line's other end has the clock. layouts: of memory, in
    which the visits of its state were made. relation: of the timed worker's CPU to that of its companion, of several to
    the farthest; None where it has none, or the system does not report how CPUs relate.
    """

    probe: Annotated[str, msgspec.Meta(pattern=r"^[a-z]+\.[a-z0-9_]+$")]
    revision: int
    abi: str
    target: str
    clock: Clock
    parameters: dict[str, Value]
    metric: str
    unit: Unit
    better: Better
    status: Status
    reason: str | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    minimum: float | None = None
    quartiles: tuple[float, ...] = ()
    modes: tuple[float, ...] = ()
    visits: int = 0
    samples: int = 0
    set_aside: int = 0
    state: StateName | None = None
    states: tuple[State, ...] = ()
    unadjusted: float | None = None
    clock_hz: float | None = None
    settled: bool = False
    own_ratio: float | None = None
    layouts: int = 0
    relation: PlaceRelation | None = None


class Level(Record, frozen=True):
    """One level of the measured hierarchy. size_low..size_high is a 95 % interval; memory has no size.

    reading_low, reading_high: up to the first, reading goes at this level's rate, and from the second on more slowly;
    of the last cache, where that was measured. If no size by latency is between, size_low..size_high covers both.
    states: where some of its sizes are answered by it in one visit and from beyond it in the next, both latencies.
    read_by: the kernel whose rate read_bytes_per_second is; both are None where a kernel that was asked for in this
    level has no number there, and may be the fastest. read_low..read_high: a 95 % interval, None of too few visits.
    few_samples: how many its latency rests on, where these are of too few visits for an interval; else 0.
    not_apart_from: the next level, where this one was not told from it, and so has no size; not_apart_why: too few
    visits, or neighbours. read_missing, parallelism_missing: why there is none, where it was asked for in this level.
    """

    level: str
    size_bytes: float | None
    size_low: float | None
    size_high: float | None
    os_size_bytes: int | None
    latency_ns: float | None
    latency_cycles: float | None
    read_bytes_per_second: float | None
    parallelism: float | None
    latency_low: float | None = None
    latency_high: float | None = None
    reading_low: float | None = None
    reading_high: float | None = None
    states: tuple[State, ...] = ()
    read_by: str | None = None
    few_samples: int = 0
    not_apart_from: str = ""
    read_low: float | None = None
    read_high: float | None = None
    read_missing: str = ""
    parallelism_missing: str = ""
    not_apart_why: str = ""


class Fall(Record, frozen=True):
    """Where a rate over length falls: as fast as before up to after_n, and slower all along from by_n on.

    slower: times the time of one operation. lost_ns: of one operation; least_ns: all that the hardware's own way over
    the same memory takes for one, 0 where it was not timed there. cause: `unknown` where nothing proves one. levels:
    the caches that end there, if memory is what is waited for. bytes: 0 if not told.
    """

    after_n: int
    by_n: int
    after_bytes: int
    by_bytes: int
    slower: float
    lost_ns: float
    least_ns: float
    cause: Literal["memory", "length", "unknown"]
    levels: tuple[str, ...] = ()


class Lengths(Record, frozen=True):
    """One rate over vector length. parameters: all but the length. falls: nearest first; none where it never falls."""

    probe: str
    abi: str
    target: str
    clock: Clock
    metric: str
    parameters: dict[str, Value]
    first_n: int
    last_n: int
    usual_ns: float
    falls: tuple[Fall, ...] = ()


class Evidence(Record, frozen=True):
    """One number that a claim rests on: a row's place, or a fact of the machine."""

    what: str
    value: float | str
    unit: str = ""


class Finding(Record, frozen=True):
    """A claim that could be false, its evidence and what to do about it. name: family.claim_in_snake_case."""

    name: str
    severity: Severity
    claim: str
    evidence: Annotated[tuple[Evidence, ...], msgspec.Meta(min_length=1)]
    remedy: str


class Inference(Record, frozen=True):
    """One thing that follows from the rows beyond the hierarchy. name: in words; kind: what it says, the same on every
    machine; level and parameters: of what. A number lies in low..high with 95 %; a yes or no
    has neither unit nor ends. system: the operating system's word for it. reason: why value is None.
    """

    name: str
    kind: InferenceKind
    value: float | bool | None
    low: float | None
    high: float | None
    unit: Unit | None
    system: str | None = None
    reason: str | None = None
    level: str | None = None
    parameters: dict[str, Value] = {}


class Toll(Record, frozen=True):
    """One line of the toll table. toll: in words; typical: these are what the probe's own words say, and not a point
    that stands under its own name. note: a second mode, or what the row says beside its
    number. reason: why value is None. visits, samples: what value rests on.
    """

    toll: str
    probe: str
    metric: str
    abi: str
    target: str
    parameters: dict[str, Value]
    value: float | None
    low: float | None
    high: float | None
    unit: Unit = "ns"
    typical: bool = True
    cycles: float | None = None
    states: tuple[State, ...] = ()
    note: str = ""
    reason: str | None = None
    visits: int = 0
    samples: int = 0


class KindAnswer(Record, frozen=True):
    """What one kind of core has for the hierarchy and the toll table. target: of its rows. core_clock_hz: measured.
    reason: why it has neither, where it was left out."""

    kind: str
    cpus: str
    target: str
    core_clock_hz: float | None = None
    hierarchy: tuple[Level, ...] = ()
    tolls: tuple[Toll, ...] = ()
    reason: str = ""


class Claim(Record, frozen=True):
    """A published figure beside what this machine says. value: the figure as a number, where it is one; here: the same
    by this run, and low..high its interval; of several rows the middle one, and the ends of all. reason: why it cannot
    be judged. holds_at: where it would hold, in words; empty where the study states nothing that could be judged.
    times: of the verdict `same direction`, how many times as large as published. unmet: conditions of the study that
    this machine does not have. counted: whether the study's tally has it.
    """

    what: str
    figure: str
    value: float | None
    here: float | None
    low: float | None
    high: float | None
    unit: str
    verdict: ClaimVerdict
    reason: str | None = None
    holds_at: str = ""
    times: float | None = None
    unmet: tuple[str, ...] = ()
    counted: bool = False


class Tally(Record, frozen=True):
    """How many of the figures that a study printed have each verdict here."""

    holds: int = 0
    same_direction: int = 0
    does_not_hold: int = 0
    cannot_tell: int = 0


class Relative(Record, frozen=True):
    """What a program needs under one ABI, as a multiple of what it needs under another, both in one place. measure: of
    memory, the most that was ever resident; of time, the CPU's. published: the study's word for it. reason: why value
    is None. thin: it rests on too few visits for an interval.
    """

    what: str
    primitive: bool
    measure: Literal["memory", "time"]
    abi: str
    over: str
    target: str | None
    value: float | None
    low: float | None
    high: float | None
    published: str = ""
    reason: str | None = None
    thin: bool = False


class Study(Record, frozen=True):
    """What a run says of each published figure. relatives: the lines of its tables. worth: whether the study's ABI is
    worth it here, in a sentence; empty where unknown."""

    source: str | None
    claims: tuple[Claim, ...]
    relatives: tuple[Relative, ...] = ()
    worth: str = ""
    tally: Tally = Tally()


class Opposed(Record, frozen=True):
    """One point against another, interleaved. ratio: of their medians, in the metric's unit, with its 95 % interval.
    blocks: layouts of each."""

    metric: str
    unit: Unit
    point: str
    against: str
    ratio: float
    low: float
    high: float
    blocks: int
    verdict: OpposedVerdict


class Index(Record, frozen=True):
    """What `toll show RUN --format json` prints, and all that findings, report and exports are made from.

    held_back: names of findings that the rows would give and a run like this cannot carry. kinds: of a machine with
    several kinds of cores each one's answer, that of the usual timed worker first, which hierarchy and tolls are.
    """

    format: int
    run: RunInfo
    machine: Machine
    rows: tuple[Row, ...]
    hierarchy: tuple[Level, ...] = ()
    findings: tuple[Finding, ...] = ()
    lengths: tuple[Lengths, ...] = ()
    inferred: tuple[Inference, ...] = ()
    tolls: tuple[Toll, ...] = ()
    study: Study | None = None
    held_back: tuple[str, ...] = ()
    opposed: tuple[Opposed, ...] = ()
    profiles: tuple[Profile, ...] = ()
    modelled: tuple[Modelled, ...] = ()
    kinds: tuple[KindAnswer, ...] = ()


class Book(Record, frozen=True):
    """An index with what the page needs beyond it: descriptions, builds, raw outcomes by visit, and what was asked."""

    index: Index
    probes: dict[str, Probe]
    builds: tuple[Build, ...] = ()
    outcomes: Sequence[Outcome] = ()
    distances: Sequence[Distances] = ()
    request: dict[str, Any] = {}
    suite: Suite | None = None
