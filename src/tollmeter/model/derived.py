# SPDX-License-Identifier: Apache-2.0
"""Derived records: rows, levels, inferences, tolls, findings, and the index of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from tollmeter.model.base import (
    Better,
    ClaimVerdict,
    Clock,
    EventSource,
    Failure,
    InferenceKind,
    OpposedVerdict,
    PlaceRelation,
    Portion,
    Proof,
    Rank,
    Record,
    Severity,
    StateName,
    Status,
    Unit,
    Value,
    assignments,
)
from tollmeter.model.described import Build, Machine, Probe
from tollmeter.model.measured import Distances, Modelled, Outcome, Profile, RunInfo
from tollmeter.model.requested import Suite


class State(Record, frozen=True):
    """The cost of a row in one state of the core or of the row: `uncontended` core, `contended` (beside a busy sibling
    hyperthread), `all` samples, `first` or `second` of two modes of unknown cause, or `unknown` if the evidence could
    not be read. share: share of the row's samples in this state. median, low, high: the estimate and its 95 % interval,
    in the row's unit. error, freedom, runs_sd: as in a row."""

    state: StateName
    share: Portion
    median: float
    low: float
    high: float
    error: float | None = None
    freedom: float = 0.0
    runs_sd: float = 0.0


class EventRate(Record, frozen=True):
    """The number of events of one operation. source: how the events were counted. value: median over the visits. low,
    high: values of the lowest and the highest visit. visits: number of visits."""

    source: EventSource
    value: float
    low: float
    high: float
    visits: int


class Row(Record, frozen=True):
    """One metric at one point. probe, abi, target, parameters: the point. revision: revision of the probe. clock: kind
    of the clock that timed it. better: whether less or more is better. status: ok, or why there is no number. reason:
    the same in a sentence, or a remark on an ok row.

    median, low, high: the estimate and its 95 % interval in the state of the row, in `unit`. minimum, quartiles, modes:
    lowest value, quartiles and modes of the same samples, in `unit`. error: standard error of the median's logarithm by
    the visits alone. freedom: degrees of freedom of this error. runs_sd: standard deviation of the logarithm between
    runs; low..high contains both. converged: whether the interval is as narrow as requested.

    visits, samples, discarded: numbers of visits, of samples used, and of samples discarded. layouts: number of memory
    layouts of the visits in the row's state. state: state in which median, low and high are given. states: every state
    with enough samples, this one first. clock_hz: clock to which the times were converted, None if they were not.
    unadjusted: median before the conversion. own_ratio: time by the target's clock over time by an external clock.
    relation: farthest relation of a companion's CPU to the worker's CPU; None without a companion, or if unreported.
    chosen: values that the probe chose on this machine, for example the kernel for `best`; several are joined by ` or
    `. shares: name of the cache that contains the row's data, if other guests of the host use it too. counters: events
    of one operation, by perf's names."""

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
    discarded: int = 0
    state: StateName | None = None
    states: tuple[State, ...] = ()
    unadjusted: float | None = None
    clock_hz: float | None = None
    converged: bool = False
    own_ratio: float | None = None
    layouts: int = 0
    relation: PlaceRelation | None = None
    chosen: dict[str, str] = {}
    error: float | None = None
    freedom: float = 0.0
    runs_sd: float = 0.0
    shares: str = ""
    counters: dict[str, EventRate] = {}

    @property
    def value(self) -> float:
        """Returns the median. Raises Failure (1) with the reason of the row if its status is not ok."""
        if self.status != "ok" or self.median is None:
            row = " ".join((self.probe, *assignments(self.parameters.items()), self.metric))
            raise Failure(f"{row} has no value: {self.reason or self.status}", 1)
        return self.median


class Level(Record, frozen=True):
    """One level of the measured hierarchy. size_bytes: measured size. size_low..size_high: 95 % interval of the size;
    memory has no size. size_low alone is a lower bound, measured while a sibling hyperthread used a part of the cache.
    os_size_bytes: size that the system reports. latency_ns, latency_cycles: time of a load from this level.
    latency_low..latency_high: its 95 % interval in ns. read_bytes_per_second: highest read rate of one core.
    read_low..read_high: its 95 % interval, None for too few visits. read_by: the kernel with this rate. Rate and kernel
    are None if a requested kernel has no number in this level, since it may be the fastest. parallelism: number of
    loads in flight at once.

    reading_low, reading_high: sizes of the last cache in bytes, if measured: reading runs at the rate of this level up
    to the first size, and more slowly from the second on. If the size by latency is not between them,
    size_low..size_high covers both. states: both latencies of sizes that this level serves in some visits only.
    few_samples: number of samples of the latency, if their visits are too few for an interval; else 0. not_apart_from:
    the next level, if this level was not resolved from it and so has no size. not_apart_why: the reason: too few
    visits, or other workloads. read_missing, parallelism_missing: why a requested value is missing."""

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
    """A fall of a rate over vector length: the rate is constant up to after_n, and lower from by_n on. after_bytes,
    by_bytes: memory that an operation touches at these lengths, 0 if unknown. slower: ratio of the times of one
    operation. lost_ns: time that an operation loses. least_ns: time of the hardware instruction on as much memory, 0 if
    not timed. cause: `unknown` without proof. levels: caches that end at the fall, if memory is the cause."""

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
    """One rate over vector length. parameters: all parameters except the length. first_n, last_n: shortest and longest
    length, in elements. usual_ns: time of an operation before the first fall. falls: in ascending length; empty if the
    rate never falls."""

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
    """One number in evidence of a claim, from a row or a fact of the machine. what: the quantity in words."""

    what: str
    value: float | str
    unit: str = ""


class Setting(Record, frozen=True):
    """A system file that a user may write. path: a glob, which may match several files of equal meaning. values: values
    to write; the first permitted one is used. among: file that lists the permitted values; empty if all are
    permitted."""

    path: str
    values: tuple[str, ...]
    among: str = ""


class Finding(Record, frozen=True):
    """A claim that could be false, with its evidence and remedy. name: family.claim_in_snake_case. claim, remedy:
    sentences. rank: which results are affected. proof: whether the claim was measured, counted or read. settings:
    system settings that would change it."""

    name: str
    severity: Severity
    claim: str
    evidence: Annotated[tuple[Evidence, ...], msgspec.Meta(min_length=1)]
    remedy: str
    rank: Rank = "information"
    proof: Proof = "measured"
    settings: tuple[Setting, ...] = ()

    @property
    def is_fact(self) -> bool:
        """Returns whether the claim was counted or read, and not inferred from times. Such a claim is true in any run,
        even a short or busy one."""
        return self.proof != "measured"


class Inference(Record, frozen=True):
    """One property inferred from the rows beyond the hierarchy. name: the property in words. kind: the property, named
    alike on every machine. level, parameters: what it is a property of. value: a number in `unit` with its 95 %
    interval low..high, or true or false without unit and interval. system: value that the system reports. reason: why
    value is None."""

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
    """One line of the toll table. toll: the boundary in words. value, low, high: the cost and its 95 % interval, in
    `unit`. cycles: the cost in core cycles, None if unknown. states: the cost in each state of the core. typical:
    whether the parameters are the probe's typical ones. note: a second mode, or a remark of the row. reason: why value
    is None. visits, samples: their numbers."""

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


class Charge(Record, frozen=True):
    """The cost of one kind of crossing of a command. name: the kind. count: number of crossings. errors: number of
    these that failed. ns: CPU time of all these crossings; None if unknown. boundary_ns: the part of it for entering
    and leaving the kernel. bytes: number of transferred bytes; None if the call transfers none. bound: `about` for an
    estimate from prices; `at least` or `at most` if a part was not seen or may belong to another process."""

    name: str
    count: int
    ns: float | None
    boundary_ns: float
    bytes: int | None = None
    errors: int = 0
    bound: str = ""

    @property
    def each_ns(self) -> float | None:
        """Returns the CPU time of one crossing in ns; None if unknown."""
        return None if self.ns is None else self.ns / self.count


class KindAnswer(Record, frozen=True):
    """The hierarchy and tolls of one kind of core. kind: name of the kind. cpus: its CPUs as a list. target: target of
    its rows. core_clock_hz: measured core clock. reason: why hierarchy and tolls are missing."""

    kind: str
    cpus: str
    target: str
    core_clock_hz: float | None = None
    hierarchy: tuple[Level, ...] = ()
    tolls: tuple[Toll, ...] = ()
    reason: str = ""


class Claim(Record, frozen=True):
    """A published figure beside the value of this machine. what, figure: the claim and the figure in the study's words.
    value: the figure as a number. here: value of this run in `unit`, and low..high its interval; for several rows the
    median, and the outermost ends. reason: why the claim cannot be judged. holds_at: values for which the claim would
    hold, in words. times: for the verdict `same direction`, the ratio to the published effect. unmet: the study's
    conditions that this machine lacks. counted: whether it is in the study's tally."""

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
    """The number of a study's printed figures with each verdict on this machine."""

    holds: int = 0
    same_direction: int = 0
    does_not_hold: int = 0
    cannot_tell: int = 0


class Relative(Record, frozen=True):
    """The need of a program under one ABI as a multiple of its need under another, on one target. what: the program in
    words. primitive: whether it is a part of programs and not a program. measure: `memory` is peak resident memory,
    `asked` is bytes requested of malloc, if no system accounts for the program. `time` is CPU time, `instructions` is
    instructions in a guest, if hardware timed neither ABI, and `counted` is the program's own instructions, if only
    those were counted. value: the need under `abi` over that under `over`. low..high: its 95 % interval. published: the
    study's words. reason: why value is None. thin: whether the visits are too few for an interval."""

    what: str
    primitive: bool
    measure: Literal["memory", "asked", "time", "instructions", "counted"]
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
    """A run's answers to a study. source: the publication. claims: its figures. tally: number of claims by verdict.
    relatives: lines of its tables of programs. worth: whether the study's ABI is an advantage on this machine, in a
    sentence; empty if unknown."""

    source: str | None
    claims: tuple[Claim, ...]
    relatives: tuple[Relative, ...] = ()
    worth: str = ""
    tally: Tally = Tally()


class Opposed(Record, frozen=True):
    """The comparison of two interleaved points. point, against: their names. ratio: first value over second, in the
    metric's unit. low..high: its 95 % interval. blocks: number of layouts in which both were measured. metric_against:
    the second point's metric, if it has another name."""

    metric: str
    unit: Unit
    point: str
    against: str
    ratio: float
    low: float
    high: float
    blocks: int
    verdict: OpposedVerdict
    metric_against: str = ""


class Index(Record, frozen=True):
    """The document that `toll show RUN --format json` prints, from which reports and exports are made.

    withheld: names of findings withheld because this run's evidence is too weak. kinds: the answer for each kind of
    core, if there are several; the first is the kind of the usual timed worker, and `hierarchy` and `tolls` repeat its
    answer."""

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
    withheld: tuple[str, ...] = ()
    opposed: tuple[Opposed, ...] = ()
    profiles: tuple[Profile, ...] = ()
    modelled: tuple[Modelled, ...] = ()
    kinds: tuple[KindAnswer, ...] = ()


class Results(Record, frozen=True):
    """An index with further data for the page. probes: descriptions by name. builds: executables. outcomes: raw results
    of the visits. distances: stack distances of modelled points. request: what the user requested. suite: None if no
    suite was run."""

    index: Index
    probes: dict[str, Probe]
    builds: tuple[Build, ...] = ()
    outcomes: Sequence[Outcome] = ()
    distances: Sequence[Distances] = ()
    request: dict[str, Any] = {}
    suite: Suite | None = None
