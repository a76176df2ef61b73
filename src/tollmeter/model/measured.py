# SPDX-License-Identifier: Apache-2.0
"""Measured records: the result of a visit, the division of its time, and the facts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from tollmeter.model.base import (
    PRECISION,
    USUAL_PAGE_BYTES,
    Clock,
    Portion,
    Priority,
    Record,
    RunVerdict,
    StateName,
    Status,
    Value,
)
from tollmeter.model.requested import Point

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
CpuNumber = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Number of a CPU; negative if unknown."""
EXIT_STATUS, OUTPUT_GAUGE = "exit_status", "output"
"""Gauges of a command's execution that are no metrics: a status other than 0, and a hash of its output."""


class Witness(Record, frozen=True, gc=False):
    """The evidence recorded with one sample; None: the system does not report it, or the record lacks it. involuntary,
    voluntary, minor_faults, major_faults: context switches and page faults of the timed worker during the sample.
    cpu_before, cpu_after: number of its CPU. steal_ticks: ticks of 10 ms that the hypervisor took from the CPUs of the
    visit. frequency_khz: clock that the system reports, 0 if unreadable. control_before_hz, control_hz: dependent
    additions a second before and after the sample; width_before_hz, width_between_hz, width_hz: independent additions a
    second before, within and after it; 0 if not measured. delay_ns: time in which the worker was runnable and did not
    run."""

    involuntary: Count | None = None
    voluntary: Count | None = None
    minor_faults: Count | None = None
    major_faults: Count | None = None
    cpu_before: CpuNumber = -1
    cpu_after: CpuNumber = -1
    steal_ticks: Count | None = None
    frequency_khz: Count = 0
    control_hz: NotNegative | None = 0.0
    control_before_hz: NotNegative | None = 0.0
    width_hz: NotNegative | None = 0.0
    width_before_hz: NotNegative | None = 0.0
    width_between_hz: NotNegative | None = 0.0
    delay_ns: Count | None = None


class Sample(Record, frozen=True, gc=False):
    """The times of one sample. body: ns of n and of 2n iterations of the body. iterations: this n. control: the same
    for the control; control_iterations: n of the control, 0 if equal to that of the body. lanes: iterations and ns of
    each timed companion during the 2n batch. witness: the evidence recorded with it. at_ns: its start by the raw clock
    of the machine; 0 if unknown."""

    iterations: Positive
    body: tuple[Count, Count]
    control: tuple[Count, Count] | None = None
    lanes: tuple[tuple[Count, Count], ...] = ()
    witness: Witness = Witness()
    control_iterations: Count = 0
    at_ns: Count = 0


class Work(Record, frozen=True):
    """The work of one iteration of the body of a probe. bytes: bytes read and written. bus_bytes: estimated bytes on
    the memory bus, with write-allocate; 0 if equal to `bytes`. flops: floating-point operations. operations: number of
    operations by which costs are divided. footprint_bytes: size of the memory that it touches, 0 if not declared."""

    bytes: float = 0.0
    flops: float = 0.0
    bus_bytes: float = 0.0
    operations: float = 1.0
    footprint_bytes: float = 0.0


class Counted(Record, frozen=True, tag_field="k", tag="count"):
    """Counts by the system of two batches of n and 2n iterations. iterations: n. calls, instructions,
    control_calls, control_instructions: counts of both batches, of the body and of the control; None: not counted.
    most_calls, most_steps: limit of the counter, if both batches together exceeded it. long_calls, long_instructions:
    iterations of a longer batch, and its count. entered: n, and the bytes of the pages that n and 2n iterations enter.
    ladder: for several batches, the longest first, the iterations, and the shortest ns of the batch in each trial.
    buffer_bytes, chase_bytes: sizes that the probe requested. chase_in_order: share of steps to a neighbouring cell.
    chase_stride: bytes from one cell to the next. chase_pages: number of pages that the first 256 steps visit.
    line_bytes, page_bytes: sizes of a cache line and of a page of the machine. hugetlb_bytes: size of buffers in
    explicit huge pages. left_open, left_running: numbers of descriptors and child processes that the batches left."""

    iterations: Annotated[int, msgspec.Meta(ge=1)] = 1
    calls: tuple[int, int] | None = None
    instructions: tuple[int, int] | None = None
    control_calls: tuple[int, int] | None = None
    control_instructions: tuple[int, int] | None = None
    most_calls: int = 0
    most_steps: int = 0
    long_calls: tuple[int, int] | None = None
    long_instructions: tuple[int, int] | None = None
    entered: tuple[Positive, Count, Count] | None = None
    ladder: tuple[tuple[int, ...], ...] = ()
    buffer_bytes: Count = 0
    chase_bytes: Count = 0
    chase_in_order: Portion = 0.0
    chase_stride: Count = 0
    chase_pages: Count = 0
    line_bytes: Count = 0
    page_bytes: Count = USUAL_PAGE_BYTES
    hugetlb_bytes: Count = 0
    left_open: Count = 0
    left_running: Count = 0


class EventCounts(Record, frozen=True, gc=False):
    """Events of one iteration of the body and of the control in one visit: medians over its samples. by: how they were
    read: in user mode, by read(2), or from the kernel's accounts. kernel: whether events in the kernel are counted.
    samples: number of samples that were counted for their whole time. partial: number counted for a part of it, which
    are discarded. refused: why the visit has no PMU, empty if it has one."""

    by: str
    kernel: bool
    body: dict[str, float] = {}
    control: dict[str, float] = {}
    samples: int = 0
    partial: int = 0
    refused: str = ""


class ClockReading(Record, frozen=True, tag_field="k", tag="clock"):
    """The clock that timed a visit. source: its name. kind: what it counts. resolution_ns: its smallest step. cost_ns:
    time of one reading."""

    source: str = "monotonic_raw"
    kind: Clock = "hardware"
    resolution_ns: float = 0.0
    cost_ns: float = 0.0


class Marks(Record, frozen=True, tag_field="k", tag="marks"):
    """The marks of a visit over a line whose other end has the clock. came, lost, doubled, inserted: numbers of marks
    that arrived, did not arrive, arrived twice, or were never sent. empty_ns: time between two consecutive marks.
    own_ratio: time by the target's clock over time by the clock of the line. ratio_error: relative deviation of this
    ratio between the two halves of the visit."""

    came: int = 0
    lost: int = 0
    doubled: int = 0
    inserted: int = 0
    empty_ns: float | None = None
    own_ratio: float | None = None
    ratio_error: float | None = None


class Outcome(Record, frozen=True, gc=False):
    """The complete result of one visit. round: round in which it was made. reason: why status is not ok. controls:
    dependent additions a second before and after the samples. gauges: values that the probe measured itself, by metric.
    cpus: the requested CPUs. workers: the CPUs of several workers, the timed one first. seed: seed of its layout;
    visits of one point with equal seeds shared a layout; 0 if unknown. at_ns: start of the visit. pinned: whether the
    worker was pinned; None if unknown. stays: whether its process waits for another visit. marks: marks of an external
    clock. counted: counts of the work, in the first visit of a point. served: share of the timed batches in which a
    loader served system calls of an ABI that the kernel does not know. chosen: values that the probe chose on this
    machine. waited_ns: time for which it waited for an uncontended core. counted_ns: time of counting the work of
    batches. revision: revision of the probe, 0 if unknown. events: hardware and kernel events of an iteration.
    asked_samples: number of requested samples, and asked_ns: requested time of the shorter batch; 0 if unknown."""

    visit: int
    round: int
    point: Point
    status: Status
    reason: str | None = None
    clock: ClockReading = ClockReading()
    work: Work = Work()
    controls: tuple[float, ...] = ()
    samples: Sequence[Sample] = ()
    gauges: dict[str, float] = {}
    cpus: tuple[int, ...] = ()
    seed: int = 0
    at_ns: int = 0
    pinned: bool | None = None
    priority: Priority = "normal"
    stays: bool = False
    marks: Marks | None = None
    counted: Counted | None = None
    served: float | None = None
    workers: tuple[int, ...] = ()
    chosen: dict[str, str] = {}
    waited_ns: int = 0
    counted_ns: int = 0
    revision: int = 0
    events: EventCounts | None = None
    asked_samples: int = 0
    asked_ns: int = 0


class Surroundings(Record, frozen=True):
    """The conditions around a run. nice, policy: niceness and scheduling policy of the host process, which its probes
    inherit. quota: CPUs that its control group may use at a time, None if unlimited. throttled_s: seconds for which the
    quota stopped it. others: share of the time of the measured CPUs that other programs took; None if unreported, or if
    the run was too short to compute it. pressure: share of the time in which some task of the machine waited for a CPU
    (PSI), None if the kernel does not report it. company: whether another run measured at the same time. left_behind:
    number of processes that its probes left, and that were ended. seccomp_filters: number of filters of each system
    call. traced: whether a tracer (strace, gdb) stopped the probes at system calls. Both are None if not recorded or
    unreadable. unreadable: files of the system that could not be read. weight: lowest relative share of CPU time of its
    control groups, 1 by default. memory_limit: bytes that a control group may use, None if unlimited. memory_pressure:
    share of the time in which some task waited for memory (PSI). paging: counts of the memory management of the kernel
    during the run, by their names in /proc/vmstat. interrupts: interrupts a second on the measured CPUs, by source, of
    sources with at least one."""

    nice: Annotated[int, msgspec.Meta(ge=-20, le=19)] = 0
    policy: str = "other"
    quota: Annotated[float, msgspec.Meta(gt=0)] | None = None
    throttled_s: NotNegative = 0.0
    others: Portion | None = None
    pressure: Portion | None = None
    company: bool = False
    left_behind: Count = 0
    seccomp_filters: Count | None = None
    traced: bool | None = None
    unreadable: tuple[str, ...] = ()
    weight: NotNegative = 1.0
    memory_limit: Count | None = None
    memory_pressure: Portion | None = None
    paging: dict[str, int] = {}
    interrupts: dict[str, NotNegative] = {}


class Uncompared(Record, frozen=True):
    """A pair of points without a ratio. point, against: their names. layouts: number of layouts in which both were
    measured. reason: why there is no ratio. is_short: whether the layouts are too few, so that a longer run helps."""

    point: str
    against: str
    layouts: int
    reason: str
    is_short: bool = False


class RunInfo(Record, frozen=True):
    """The facts of a run. started: date and time in ISO 8601. seed: seed of all random choices. status: how it ended.
    tollmeter: version. summary: what converged, in a sentence. seconds: wall time of the measuring. folder: as the user
    named it. precision: requested half-width of each interval, as a share. points: number of planned points that can be
    measured. converged: number of these that converged to this precision. limited: number of other points whose
    interval is between-run variance, which a longer budget would not narrow. timed_share: share of wall time in timed
    batches. contended_share: share of timed batches beside a busy sibling hyperthread; None if unknown. verdict: how
    disturbed it was (judgement/verdict.py). unanswered: why the question of the run has no answer, empty if it has one.
    unseen_share: share of the samples that lack evidence. stolen_share: share of the time of all samples that the
    hypervisor gave to other guests. surroundings: None if not recorded. narrowed: requested points that were left out
    since the budget is too short; empty if none. reused: visits of another run that are used; empty if none. damage:
    damaged streams of the journal that are left out; empty if none. withheld_problems: number of withheld findings with
    a severity above `note`. uncompared: pairs of `--against` without a ratio. enough_s: budget in seconds that would
    give each pair a ratio, or let most points of a busy run converge, by the times of the visits of this run; None if
    no budget helps, or none is needed. contradictions: rules that the journal breaks (docs/measuring.md), each as a
    sentence that is true of an honest run. uncounted: why it has no hardware counters."""

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
    converged: int = 0
    limited: int = 0
    timed_share: Portion = 0.0
    contended_share: Portion | None = None
    verdict: RunVerdict = "quiet"
    unseen_share: Portion = 0.0
    stolen_share: Portion = 0.0
    surroundings: Surroundings | None = None
    summary: str = ""
    unanswered: str = ""
    narrowed: str = ""
    reused: str = ""
    damage: str = ""
    withheld_problems: Annotated[int, msgspec.Meta(ge=0)] = 0
    uncompared: tuple[Uncompared, ...] = ()
    enough_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    contradictions: tuple[str, ...] = ()
    uncounted: str = ""


# ---- where a probe's time goes -----------------------------------------------------------------------------------


KERNEL = "(kernel)"


class Share(Record, frozen=True):
    """The share of one function of the executable, or of KERNEL, in a profile. hits: number of samples, or of counted
    instructions. inlined: hits in functions that are inlined into it, by name; for KERNEL, in the functions of the
    kernel. within: half of the 95 % interval in percentage points; 0 for a count, None if not recorded."""

    function: str
    hits: int
    inlined: dict[str, int] = {}
    within: float | None = None


class Modelled(Record, frozen=True):
    """The misses of a modelled cache by the loads of one point; never compared with a measurement. misses, flushes:
    numbers per operation. reason: why there are none."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    misses: float = 0.0
    flushes: float = 0.0
    reason: str | None = None


class Distances(Record, frozen=True):
    """The stack distances of one point's loads, by an emulator that records their addresses. loads: cache size in
    bytes, and the loads per operation whose line a smaller cache no longer contains: those with a constant stride, and
    others. reason: why there are none."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    loads: tuple[tuple[float, float, float], ...] = ()
    reason: str | None = None


class Profile(Record, frozen=True):
    """The profile of the body of one point. shares: functions, the most frequent first. source: the perf CPU clock,
    SIGPROF, or an exact count of instructions. lost: number of samples that the system dropped. operation_ns: time of
    an operation while it is profiled, in ns, or its instructions if these are counted. state: state of the core;
    "unknown" if mixed, None if not observed. reason: why there is no profile."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    source: str = ""
    state: StateName | None = None
    shares: tuple[Share, ...] = ()
    lost: int = 0
    operation_ns: float = 0.0
    reason: str | None = None

    @property
    def hits(self) -> int:
        """Returns the number of samples or counted instructions of all functions."""
        return sum(share.hits for share in self.shares)

    def part(self, function: str) -> float:
        """Returns the share of a function in all samples, 0 if it has none."""
        return sum(share.hits for share in self.shares if share.function == function) / (self.hits or 1)
