# SPDX-License-Identifier: Apache-2.0
"""Frozen records that every layer shares. Imports nothing of ours.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless said.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Better = Literal["less", "more", "neither"]
Source = Literal["body", "control", "difference", "companions", "together", "gauge"]
Clock = Literal["hardware", "virtual", "instructions", "external", "none"]
Status = Literal["ok", "failed", "wrong_answer", "timeout", "unsupported", "unstable", "interrupted", "infrastructure"]
Priority = Literal["normal", "real-time"]
StateName = Literal["whole", "shared", "unknown", "first", "second"]
RunVerdict = Literal["quiet", "busy", "too short", "interrupted"]
ClaimVerdict = Literal["holds", "does not hold", "cannot tell"]
Severity = Literal["note", "warning", "error"]
InferenceKind = Literal[
    "line", "ways", "translations", "translation_miss", "write_back", "write_allocate", "store_that_fits",
    "reload_after_store", "prefetched", "prefetch_gain", "yardstick", "reading_share", "efficiency", "slowdown",
    "idle_latency", "loaded_latency", "latency_rise", "most_traffic", "latency_knee",
]  # fmt: skip
Value = int | str
UNITS = ("ns", "cycle", "instruction", "B/s", "flop/s", "op/s", "B", "fault", "ratio", "count")
Unit = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(UNITS)})$")]
Portion = Annotated[float, msgspec.Meta(ge=0, le=1)]
INDEX_FORMAT = 2
"""Of what `toll show RUN --format json` prints. 2 has `inferred` and `tolls`."""

PRECISION = 0.03
"""Half-width of a 95 % interval, as a share: what is wanted unless told otherwise."""

PRECISION = 0.03
"""Half-width of a 95 % interval, as a share: what is wanted unless told otherwise."""


class Failure(Exception):
    """A sentence for the person, and the exit code of the design that goes with it.

    1 a probe failed, 2 usage, 3 gate tripped, 4 cannot tell, 5 infrastructure, 6 nothing ran, 130 interrupted.
    """

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of all records: immutable, compared by value, tolerant of keys that a newer version added."""


# ---- what a probe says of itself (record kind `probe`) ----------------------------------------------------------


class Metric(Record, frozen=True):
    name: str
    unit: str
    better: Better
    summary: str
    source: Source = "body"
    means: str | None = None
    toll: str | None = None


class Parameter(Record, frozen=True):
    name: str
    kind: Literal["size", "count", "choice"]
    summary: str
    start: int = 0
    stop: int = 0
    stop_scale: Literal["absolute", "last-cache", "cpus"] = "absolute"
    per_octave: int = 1
    values: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    typical: str | None = None
    refine: bool = False


class Role(Record, frozen=True):
    name: str
    worker: Literal["process", "thread"]
    pace: Literal["lockstep", "background"]


class Probe(Record, frozen=True):
    probe: str
    question: str
    revision: int
    metrics: tuple[Metric, ...]
    parameters: tuple[Parameter, ...] = ()
    roles: tuple[Role, ...] = ()
    control: bool = False
    switches: bool = False
    faults: bool = False


class Build(Record, frozen=True):
    """How one executable was made; the host adds its SHA-256 and size after reading the ELF back."""

    probe: str
    abi: str
    compiler: str
    flags: str
    sha256: str = ""
    size_bytes: int = 0


# ---- the machine being measured (record kind `machine`) --------------------------------------------------------


class Cache(Record, frozen=True):
    """As the operating system tells it for one CPU."""

    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: int
    line_bytes: int = 0
    ways: int = 0
    shared_cpus: str = ""


class Machine(Record, frozen=True):
    """core_clock_hz is measured, never read; facts holds whatever else the target could tell, by name."""

    host: str
    cpu: str
    kernel: str
    hypervisor: str | None
    cpus: int
    memory_bytes: int
    caches: tuple[Cache, ...] = ()
    core_clock_hz: float | None = None
    allowed_cpus: tuple[int, ...] = ()
    page_bytes: int = 4096
    architecture: str = ""
    facts: dict[str, str] = {}


# ---- an ABI (abis/NAME.toml) ------------------------------------------------------------------------------------


class Abi(Record, frozen=True, forbid_unknown_fields=True):
    """compiler: alternatives, each a name or a list of words; runs: ways to run it, best first (docs/add-an-abi.md);
    asked_only: built when a person names it, not for every machine that could; floats: what computes in it, where it
    claims that.
    """

    name: str
    summary: str
    compiler: tuple[str | tuple[str, ...], ...]
    flags: tuple[str, ...] = ()
    compiler_cxx: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    elf: dict[str, Value] = {}
    runs: tuple[str, ...] = ("native",)
    asked_only: bool = False
    floats: Literal["", "hard", "soft", "fpa"] = ""


# ---- what is asked ----------------------------------------------------------------------------------------------


class Select(Record, frozen=True, forbid_unknown_fields=True):
    """Probes (a name or glob), on which ABIs, at which values; `native` is the first ABI that this machine runs.

    A parameter that is not named takes its whole default sweep, or with others = "typical" its one typical value.
    cpu: the architectures that it is for, as `uname -m` names them; target: the places, by name or glob; empty for all.
    """

    probe: str
    cpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    abi: tuple[str, ...] = ("native",)
    parameters: dict[str, Value | tuple[Value, ...]] = {}
    others: Literal["sweep", "typical"] = "sweep"


class RowOf(Record, frozen=True, forbid_unknown_fields=True):
    """Picks rows by what they mean or where they come from; what is left out matches anything.

    target: a name or glob.
    """

    means: str | None = None
    probe: str | None = None
    metric: str | None = None
    abi: str | None = None
    target: str | None = None
    parameters: dict[str, Value] = {}


class Published(Record, frozen=True, forbid_unknown_fields=True):
    """One claim of a study. Beside it stands the median of `row`, or of `row` divided by that of `over`.

    figure is the claim as the study words it, value the same as a number in `unit`, where it is one. correction says
    what the claim gets wrong or leaves out. missing says, in a sentence, why no row can stand beside it yet.
    """

    what: str
    figure: str
    value: float | None = None
    unit: str = ""
    correction: str | None = None
    row: RowOf | None = None
    over: RowOf | None = None
    missing: str | None = None


class Suite(Record, frozen=True, forbid_unknown_fields=True):
    """A named selection and the question that it answers (suites/NAME.toml); source and published: of a study.

    budget: wall time that it needs, as --budget takes it; empty: the usual one.
    """

    name: str
    question: str
    select: tuple[Select, ...]
    budget: str = ""
    source: str | None = None
    published: tuple[Published, ...] = ()


class Point(Record, frozen=True):
    """One place in the space of probes, ABIs, targets and parameters: what a row stands for."""

    probe: str
    abi: str
    target: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def values(self) -> dict[str, Value]:
        return dict(self.parameters)


class Visit(Record, frozen=True):
    """Samples of one point at one moment. seed: of the layout: the process that has prepared it may serve several
    visits. iterations, control_iterations: of the shorter batch, as an earlier visit found them; 0 where there was
    none.
    """

    id: int
    point: Point
    round: int
    cpus: tuple[int, ...]
    samples: int
    sample_ns: int
    seed: int
    deadline_ms: int
    iterations: int = 0
    control_iterations: int = 0
    priority: Priority = "normal"


# ---- what came back ---------------------------------------------------------------------------------------------


class Witness(Record, frozen=True):
    """What happened beside one sample.

    control_hz: dependent additions a second, right after the sample and right before it; width_hz: independent ones
    likewise; 0 where not measured. delay_ns: time that the worker wanted to run and did not; None where nobody tells.
    """

    involuntary: int = 0
    voluntary: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    cpu_before: int = -1
    cpu_after: int = -1
    steal_ticks: int = 0
    frequency_khz: int = 0
    control_hz: float = 0.0
    control_before_hz: float = 0.0
    width_hz: float = 0.0
    width_before_hz: float = 0.0
    delay_ns: int | None = None


class Sample(Record, frozen=True):
    """Times in ns of the body over n and 2n iterations, and of the control likewise.

    control_iterations: the control's own n; 0 where it is the body's. lanes: for each background companion, iterations
    done and ns taken while the 2n batch ran. at_ns: when it began, by the machine's own raw clock; 0 where not told.
    """

    iterations: int
    body: tuple[int, int]
    control: tuple[int, int] | None = None
    lanes: tuple[tuple[int, int], ...] = ()
    witness: Witness = Witness()
    control_iterations: int = 0
    at_ns: int = 0


class Work(Record, frozen=True):
    bytes: float = 0.0
    flops: float = 0.0
    bus_bytes: float = 0.0
    operations: float = 1.0
    footprint_bytes: float = 0.0


class ClockReading(Record, frozen=True):
    source: str = "monotonic_raw"
    kind: Clock = "hardware"
    resolution_ns: float = 0.0
    cost_ns: float = 0.0


class Outcome(Record, frozen=True):
    """All that one visit brought back.

    controls: dependent additions per second before and after the samples. seed: of the layout that it was made in;
    visits of one point with one seed shared it, unless the seed is 0, which is not told. at_ns: when it began. pinned:
    whether the worker was kept on its CPU; None where not told. stays: whether its process waits for another visit.
    """

    visit: int
    round: int
    point: Point
    status: Status
    reason: str | None = None
    clock: ClockReading = ClockReading()
    work: Work = Work()
    controls: tuple[float, ...] = ()
    samples: tuple[Sample, ...] = ()
    gauges: dict[str, float] = {}
    cpus: tuple[int, ...] = ()
    seed: int = 0
    at_ns: int = 0
    pinned: bool | None = None
    priority: Priority = "normal"
    stays: bool = False


class RunInfo(Record, frozen=True):
    """seconds: wall time of the measuring; folder: as the person gave it. precision: half-width wanted of each
    interval, as a share. points: that the run set out to measure and that can be; settled: of these, known to that
    precision. timed_share: of the wall time, what lay in timed batches. shared_share: of the samples whose core's
    state was seen, those beside somebody else; None where none was. verdict: what judgement/verdict.py makes of these.
    """

    id: str
    suite: str
    started: str
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    seed: int
    status: str
    tollmeter: str
    folder: str
    precision: float = PRECISION
    points: int = 0
    settled: int = 0
    timed_share: Portion = 0.0
    shared_share: Portion | None = None
    verdict: RunVerdict = "quiet"
    summary: str = ""


# ---- what is derived --------------------------------------------------------------------------------------------


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


class Level(Record, frozen=True):
    """One level of the measured hierarchy. size_low..size_high is a 95 % interval; memory has no size.

    reading_low, reading_high: up to the first, reading goes at this level's rate, and from the second on more slowly;
    of the last cache, where that was measured. If no size by latency is between, size_low..size_high covers both.
    states: where some of its sizes are answered by it in one visit and from beyond it in the next, both latencies.
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
    number. reason: why value is None.
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


class Claim(Record, frozen=True):
    """A published figure beside what this machine says. value: the figure as a number, where it is one; here: the same
    by this run, and low..high its interval; of several rows the middle one, and the ends of all. reason: why it cannot
    be told.
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


class Study(Record, frozen=True):
    """What a run of a study says of each thing that was published."""

    source: str | None
    claims: tuple[Claim, ...]


class Index(Record, frozen=True):
    """What `toll show RUN --format json` prints, and all that findings, report and exports are made from."""

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


class Book(Record, frozen=True):
    """An index with what the page needs beyond it: descriptions, builds, raw outcomes by visit, and what was asked."""

    index: Index
    probes: dict[str, Probe]
    builds: tuple[Build, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    request: dict[str, Any] = {}
    suite: Suite | None = None
