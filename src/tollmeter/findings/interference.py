# SPDX-License-Identifier: Apache-2.0
"""Rules about other activity during the run, and about CPU time that the run did not get."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tollmeter.experiment.core import LEAST_BUSY
from tollmeter.experiment.evidence import missing_evidence
from tollmeter.experiment.limits import HARDLY, LEAST_VALUES, SAME_WITHIN, SOME
from tollmeter.findings import (
    LEAST_LOST,
    MOST_NAMED,
    FindingText,
    count_evidence,
    native_rows,
    own_rows,
    ratio_evidence,
    row_evidence,
    rule,
)
from tollmeter.judgement.verdict import STATUS, is_all_emulated, is_intercepted, unread
from tollmeter.model import OUTPUT_GAUGE, Evidence, Machine, Results, Row, Severity
from tollmeter.numbers.units import in_percent, short

ORDINARY_POLICY = "other"
LEAST_REGULAR = SOME
"""Smallest share of equal distances between interruptions that shows a period."""
TICKS_HZ = (100, 250, 300, 1000)
"""Rates of the timer's tick that Linux offers (CONFIG_HZ)."""
TICK_REMEDY = "isolcpus= and nohz_full= keep the tick and the kernel's threads from a CPU"
BUSY_REMEDY = (
    "end them (`ps -eo pcpu,pid,comm --sort=-pcpu | head` lists them), or measure on CPUs that they do not use (--cpus)"
)
UNKNOWN_WITHOUT = {
    STATUS: "whether a seccomp filter or a tracer slows system calls",
    "/proc/stat": "how much time other programs and the hypervisor took",
    "/proc/self/cgroup": "whether a control group limits CPU time",
    "getrusage": "how much of the CPUs' time was this run's own",
    "getpriority": "at which niceness it ran",
    "sched_getscheduler": "by which scheduling policy it ran",
    "sched_getaffinity": "on which CPUs it may run",
    "the lock on measuring": "whether another run measured",
    "the table of processes": "whether probes left processes behind",
}


@rule(
    "machine.another_run_measures",
    remedy="measure again without --beside: the run then waits until the other has ended",
    rank="distorts",
    proof="read",
)
def another_run_measures(results: Results) -> Iterator[FindingText]:
    """A second run of Tollmeter measured at the same time.

    One of the two runs was started with --beside."""
    surroundings = results.index.run.surroundings
    if surroundings and surroundings.company:
        words = "another run measured on this machine at the same time: each run disturbed the other"
        yield FindingText(words, [Evidence(what="the machine's lock on measuring", value="held by another run")])


@rule("machine.other_programs_work", rank="distorts", proof="counted")
def other_programs_work(results: Results) -> Iterator[FindingText]:
    """Other programs used the measured CPUs.

    They took more than a fifth of the CPUs' time; or, in a run too short to count that, tasks waited for a CPU for more
    than a fifth of the time."""
    surroundings = results.index.run.surroundings
    if surroundings is None or is_all_emulated(results.index.rows):
        return
    if surroundings.others is not None and surroundings.others > SOME:
        words = f"other programs took {in_percent(surroundings.others)} of the measured CPUs' time"
        evidence = ratio_evidence("CPU time of other programs, as a share of all", surroundings.others)
        yield FindingText(words, [evidence], BUSY_REMEDY)
    elif surroundings.others is None and surroundings.pressure is not None and surroundings.pressure > SOME:
        words = f"tasks waited for a CPU during {in_percent(surroundings.pressure)} of the run"
        evidence = ratio_evidence("time in which some task waited for a CPU", surroundings.pressure)
        yield FindingText(words, [evidence], BUSY_REMEDY)


@rule(
    "machine.core_is_shared",
    remedy="numbers describe the uncontended core; reserve whole cores, or keep the sibling hyperthread idle",
    rank="distorts",
)
def core_is_shared(results: Results) -> Iterator[FindingText]:
    """Another workload used a part of the measured core, as one on a sibling hyperthread does.

    It ran for 5 % of the time or more. Its cost is that of the rows that were measured in both states."""
    share = results.index.run.contended_share
    if share is None or share < LEAST_BUSY:
        return
    both = [(row, cost) for row in native_rows(results) if (cost := _contended_cost(row)) is not None]
    typical_cost = ""
    if len(both) >= LEAST_VALUES:
        cost_in_words = in_percent(median(cost for _, cost in both), sign="+")
        typical_cost = f": rows measured in both states cost {cost_in_words} when contended"
    evidence = [
        ratio_evidence("share of the time in timed batches on a contended core", share),
        count_evidence("rows measured on an uncontended and on a contended core", len(both)),
    ]
    if both:
        row, cost = max(both, key=lambda pair: pair[1])
        evidence += [row_evidence(row), ratio_evidence("the same on a contended core", 1 + cost)]
    subject = "the sibling hyperthread is busy" if _may_have_sibling(results.index.machine) else "the core is contended"
    yield FindingText(f"{subject} for {in_percent(share)} of the time{typical_cost}", evidence)


def _may_have_sibling(machine: Machine) -> bool:
    """Returns whether a CPU may have a sibling hyperthread. On some architectures a guest does not see that its CPUs
    are threads of a core."""
    is_hidden = machine.hypervisor is not None and machine.architecture.startswith(("x86", "i", "ppc", "s390"))
    return is_hidden or bool(machine.cores)


def _contended_cost(row: Row) -> float | None:
    """Returns the extra cost of a row on a contended core, as a share; None if the row was not measured in both
    states."""
    medians = {state.state: state.median for state in row.states}
    if row.status != "ok" or row.better == "neither" or "uncontended" not in medians or "contended" not in medians:
        return None
    times = medians["contended"] / medians["uncontended"]
    return times - 1 if row.better == "less" else 1 / times - 1


@rule(
    "machine.time_is_stolen",
    remedy="measure again at a quieter hour, or ask for dedicated CPUs",
    rank="distorts",
)
def time_is_stolen(results: Results) -> Iterator[FindingText]:
    """The hypervisor gave a measured CPU to another guest.

    It took more than 1 % of the time of all samples on the machine's own clock. The kernel counts stolen time in ticks
    of 10 ms, so a short run does not show it."""
    share = results.index.run.stolen_share
    if share > HARDLY:
        words = f"the hypervisor gave {in_percent(share, 1)} of the measured time to other guests"
        yield FindingText(words, [Evidence(what="time stolen during samples, as a share of their time", value=share)])


@rule(
    "machine.cpu_time_is_limited",
    remedy="measure without a quota: the numbers contain waits for the next period. As root, "
    "`echo $$ > /sys/fs/cgroup/cgroup.procs` moves a shell out of its group (of version 1: /sys/fs/cgroup/cpu/), and "
    "/proc/$$/cgroup names the group to return to",
    rank="distorts",
    proof="counted",
)
def cpu_time_is_limited(results: Results) -> Iterator[FindingText]:
    """A control group limits the CPU time of the run.

    Its quota is less than the measured CPUs, or it stopped the run."""
    surroundings = results.index.run.surroundings
    if surroundings is None or surroundings.quota is None:
        return
    if (
        surroundings.throttled_s <= 0
        and surroundings.quota >= len(results.request.get("cpus") or ())
        and surroundings.quota >= 1
    ):
        return
    stopped = (
        f", and stopped it for {short(1e9 * surroundings.throttled_s, 'ns')}" if surroundings.throttled_s > 0 else ""
    )
    evidence = [
        count_evidence("CPUs at a time (cpu.max)", surroundings.quota),
        Evidence(what="stopped for it", value=1e9 * surroundings.throttled_s, unit="ns"),
    ]
    yield FindingText(f"a control group gave the run {surroundings.quota:g} CPUs at a time{stopped}", evidence)


@rule("machine.run_is_held_back", remedy="start it without nice and chrt", rank="distorts", proof="read")
def run_is_held_back(results: Results) -> Iterator[FindingText]:
    """The run had a niceness, scheduling policy or share of CPU time that differs from the default.

    It affects probes without real-time priority: those that wait for other processes."""
    surroundings = results.index.run.surroundings
    if surroundings is None:
        return
    if surroundings.weight < 1:
        words = f"a control group around the run has {in_percent(surroundings.weight)} of an ordinary share of CPU time"
        evidence = ratio_evidence("share of CPU time beside an ordinary group (cpu.weight)", surroundings.weight)
        yield FindingText(
            f"{words}: the run waits when other programs want a CPU", [evidence],
            "start the run in a separate group: `systemd-run --scope -p CPUWeight=100`",
            name="machine.group_has_a_small_share",
        )  # fmt: skip
    if surroundings.nice == 0 and surroundings.policy == ORDINARY_POLICY:
        return
    is_ordinary = surroundings.policy == ORDINARY_POLICY
    how = f"at niceness {surroundings.nice}" if is_ordinary else f"by the scheduling policy {surroundings.policy}"
    evidence_of_both = [
        count_evidence("niceness", surroundings.nice),
        Evidence(what="scheduling policy", value=surroundings.policy),
    ]
    words = f"the run was scheduled {how}: this changes how long a probe waits for a CPU"
    mend = f"`renice -n 0 -p $$` in the shell that starts it{'' if is_ordinary else ', and `chrt -o -p 0 $$`'}"
    yield FindingText(words, evidence_of_both, mend, name="" if surroundings.nice >= 0 else "machine.run_is_preferred")


@rule(
    "machine.system_calls_are_filtered",
    remedy="run it outside the container, or with `--security-opt seccomp=unconfined`, for the kernel's own cost",
    rank="distorts",
    proof="read",
)
def system_calls_are_filtered(results: Results) -> Iterator[FindingText]:
    """Seccomp filters, such as those of containers, apply to each system call of a probe.

    It is a problem where system calls were timed."""
    surroundings = results.index.run.surroundings
    if surroundings and surroundings.seccomp_filters:
        filters = (
            "a seccomp filter"
            if surroundings.seccomp_filters == 1
            else f"{surroundings.seccomp_filters} seccomp filters"
        )
        evidence = [count_evidence("filters (Seccomp_filters)", surroundings.seccomp_filters), *_entries(results)]
        severity: Severity = "warning" if is_intercepted(surroundings, results.index.rows) else "note"
        yield FindingText(
            f"each system call passed {filters}: its time includes that of the filter", evidence, severity=severity
        )


@rule("machine.probes_are_traced", remedy="run it without strace, gdb or another tracer", rank="distorts", proof="read")
def probes_are_traced(results: Results) -> Iterator[FindingText]:
    """A tracer stops the probes at each system call.

    It is a problem where system calls were timed."""
    surroundings = results.index.run.surroundings
    if surroundings and surroundings.traced:
        words = "a tracer was attached to the probes: each system call and signal waits for it"
        severity: Severity = "warning" if is_intercepted(surroundings, results.index.rows) else "note"
        evidence = [Evidence(what="tracer (TracerPid)", value="attached"), *_entries(results)]
        yield FindingText(words, evidence, severity=severity)


def _entries(results: Results) -> list[Evidence]:
    """Returns the cost of a system call as evidence, if it was measured."""
    return [row_evidence(row) for row in own_rows(results, "entry")][:1]


@rule(
    "machine.probe_leaves_processes",
    "error",
    "run the probes one by one to find a probe that calls setsid or daemon",
    rank="distorts",
    proof="counted",
)
def probe_leaves_processes(results: Results) -> Iterator[FindingText]:
    """A probe started processes that were still running after it ended.

    It is unknown which visits they disturbed."""
    surroundings = results.index.run.surroundings
    if surroundings and surroundings.left_behind:
        count_in_words = f"{surroundings.left_behind} processes" if surroundings.left_behind > 1 else "a process"
        words = (
            f"a probe left {count_in_words} behind, outside its own session, and they ran during the next measurements"
        )
        yield FindingText(words, [count_evidence("processes ended with the run", surroundings.left_behind)])


@rule(
    "run.journal_contradicts_itself",
    "error",
    "measure again; if the journal came from another machine, transfer it again",
    rank="prevents",
    proof="read",
)
def journal_contradicts_itself(results: Results) -> Iterator[FindingText]:
    """Records of the journal contradict each other about the machine, its clock or a visit.

    Visits that break a rule of docs/measuring.md have no numbers."""
    if broken := results.index.run.contradictions:
        words = f"the journal contradicts itself in {len(broken)} ways, and the visits concerned have no numbers"
        yield FindingText(words, [Evidence(what="this rule is broken", value=one) for one in broken[:MOST_NAMED]])


@rule("machine.evidence_is_missing", rank="distorts", proof="read")
def evidence_is_missing(results: Results) -> Iterator[FindingText]:
    """Samples have no evidence, so it is unknown whether they were disturbed.

    The system refused evidence about samples, or evidence about what intercepts system calls."""
    surroundings = results.index.run.surroundings
    if files := unread(surroundings, results.index.rows) if surroundings is not None else ():
        listed, unknown = ", ".join(files), " and ".join(UNKNOWN_WITHOUT.get(name, name) for name in files)
        evidence = Evidence(what="not readable", value=listed)
        yield FindingText(
            f"{listed} was not read or not recorded: {unknown} is unknown", [evidence], f"let the run read {listed}"
        )
    if share := results.index.run.unseen_share:
        lacks = {
            kind
            for outcome in results.outcomes
            for kind in missing_evidence(outcome, results.probes[outcome.point.probe])
        }
        yield FindingText(
            f"{in_percent(share)} of the samples have no evidence of {' or '.join(sorted(lacks))}: their "
            "disturbances are unknown, and their intervals are wider",
            [ratio_evidence("samples that lack evidence", share)],
            "let the probes call getrusage and sched_setaffinity, and read /proc (a sandbox may deny these)",
        )


@rule(
    "machine.noise_has_a_source",
    "note",
    "look for the source: other programs (top), interrupts (/proc/interrupts), or other guests of the host",
)
def noise_has_a_source(results: Results) -> Iterator[FindingText]:
    """A busy loop is interrupted; the interval between interruptions suggests the source.

    Detours take more than a thousandth of the time."""
    share, period, regular = (
        next(iter(own_rows(results, means)), None) for means in ("noise-share", "noise-period", "noise-regular")
    )
    if share is None or (share.median or 0.0) <= LEAST_LOST:
        return
    source, remedy = "no timer: the distances vary", ""
    if period is not None and regular is not None and (regular.median or 0.0) >= LEAST_REGULAR:
        period_ns = period.median or 0.0
        source = f"an event that repeats every {period_ns / 1e6:.3g} ms"
        for hz in TICKS_HZ:
            if abs(period_ns * hz / 1e9 - 1) <= SAME_WITHIN:
                source, remedy = f"the timer's tick, {hz} a second", TICK_REMEDY
                break
    words = f"detours take {in_percent(share.median or 0.0, 2)} of a busy loop's time; likely source: {source}"
    yield FindingText(words, [row_evidence(row) for row in (share, period, regular) if row is not None], remedy)


@rule(
    "command.output_changes",
    remedy="make each run do the same work (--prepare, a fixed seed), or check its output with --verify",
    rank="distorts",
    proof="counted",
)
def output_changes(results: Results) -> Iterator[FindingText]:
    """The output of a timed command differs between its runs.

    Its runs may have done different work."""
    outputs: dict[str, list[float]] = {}
    for outcome in results.outcomes if results.suite and not results.suite.select else ():
        if OUTPUT_GAUGE in outcome.gauges:
            name = " ".join(str(value) for _, value in outcome.point.parameters)
            outputs.setdefault(name, []).append(outcome.gauges[OUTPUT_GAUGE])
    for name, hashes in outputs.items():
        if different := sum(digest != hashes[0] for digest in hashes):
            words = f"{name} printed different output than in its first run, in {different} of {len(hashes)} runs"
            yield FindingText(words, [count_evidence("runs with different output", different)])
