# SPDX-License-Identifier: Apache-2.0
"""Measures a plan into a run folder: a new run, or a resumed one."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.catalog import check_unchanged
from tollmeter.conduct import Observer, Stage, Stopping, Watch, conduct, hold_machine_lock, pinned_to
from tollmeter.judgement import convergence, opposed
from tollmeter.judgement.verdict import KERNEL, has_interval
from tollmeter.library import places
from tollmeter.library.derive import learned
from tollmeter.library.known_before import tell_worst
from tollmeter.library.limits import Limits
from tollmeter.library.options import Options
from tollmeter.library.prepare import LONGEST_FOLDER, Prepared, finishing_later_s, for_measuring, head_of, used
from tollmeter.library.resume import with_reused
from tollmeter.model import Failure, Machine, Outcome, Point, Probe, Row, Suite
from tollmeter.model.topology import KIND
from tollmeter.notices import notify
from tollmeter.numbers.cpu_pairs import wide_pairs
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.meanings import TRAFFIC
from tollmeter.numbers.rows import known_of, rows_of_point
from tollmeter.plan import Plan
from tollmeter.protocol import clean
from tollmeter.starting import realtime_priority
from tollmeter.store.journal import Journal, Session
from tollmeter.studies import attempts
from tollmeter.studies.study import is_decided
from tollmeter.targets.local import Local
from tollmeter.targets.profiling_visit import ending_at
from tollmeter.targets.ssh import Ssh
from tollmeter.targets.target import Target
from tollmeter.targets.ways import LOCAL

_LEAST_S, _LEAST_SHARE = 2.0, 0.1
"""Seconds, and share of the budget: measuring gets at least the smaller of the two."""
_PEER_STARTS_S, _PEER_ENDS_S = 20.0, 5.0
"""Seconds within which a peer's server must start, and must end."""
_MOST_BYTES = 4096

ELSEWHERE = "ssh:"
"""Prefix of targets that measure on another machine."""

Observing = Callable[[Plan, Machine], AbstractContextManager[Observer]]


class MeasuredRun(NamedTuple):
    """A measured run: its folder, and how measuring ended. began: monotonic seconds from which its budget counts."""

    folder: Path
    session: Session
    began: float
    budget_s: float


def measured(
    ready: Prepared, options: Options, observing: Observing, stopping: Stopping, *, in_passing: bool = False,
    limits: Limits | None = None,
) -> MeasuredRun:  # fmt: skip
    """Measures a new run. ready: the prepared run. observing: opens the observer of its progress. stopping: ends the
    run on a signal; the caller has entered it. in_passing: the run does not become LAST, and reuses no visit. limits: a
    worst value beyond one of them ends the run."""
    executables = used(ready.plan, ready.catalog)
    check_unchanged(executables.values())
    ready, streams = (ready, ()) if in_passing else with_reused(ready, executables)
    with places.new_journal(options.out, ready.request, head_of(ready, executables.values())) as journal:
        if streams:
            notify(ready.request.reused)
        for stream in streams:
            journal.append(stream)
        if not in_passing:
            places.set_last_run(journal.folder)
        done = _go(ready, journal, options, observing, stopping, limits=limits)
    if done.session.status != "interrupted":
        from tollmeter.library.looking import look

        until_s = done.began + for_measuring(ready.request.budget_seconds)
        with ending_at(until_s):
            look(ready, journal.folder, until_s, stopping, quiet=options.quiet)
    return done


def resumed(
    half: Prepared, options: Options, observing: Observing, stopping: Stopping, *, limits: Limits | None = None
) -> MeasuredRun:
    """Resumes an interrupted run. limits: limits of rows, at which the run ends early."""
    with Journal.resume(half.folder) as journal:
        places.set_last_run(journal.folder)
        # A run that was killed has not recorded that it ended, and the clock may have begun anew since.
        journal.note(msgspec.structs.replace(half.session, status="interrupted", reason="the run was resumed"))
        return _go(half, journal, options, observing, stopping, limits=limits)


def _go(
    ready: Prepared, journal: Journal, options: Options, observing: Observing, stopping: Stopping, *,
    limits: Limits | None,
) -> MeasuredRun:  # fmt: skip
    began, request = time.monotonic(), ready.request
    run_folder = journal.folder.resolve()
    folder = request.folder or (str(run_folder) if len(os.fsencode(run_folder)) <= LONGEST_FOLDER else "")
    executables = used(ready.plan, ready.catalog).values()
    servers = [executable for executable in executables if executable.probe.serves and executable.target == LOCAL]
    # A server that is linked with a library offers the library's services, and all others.
    servers.sort(key=lambda executable: not executable.probe.library)
    with (
        _watched(ready.plan, options, stopping) as watch,
        serving(request.peer, [executable.path for executable in servers]) as peer,
    ):
        if watch is not None and not options.quiet:
            _tell_conditions(watch, ready)
        ready = ready._replace(plan=msgspec.structs.replace(ready.plan, folder=folder, peer=peer))
        # Neither what was built nor waiting for another run's end is measured time.
        started = options.began + ready.built_s + time.monotonic() - began
        session = _conducted(
            ready, journal, observing, stopping, judge=_judge(ready, limits), watch=watch,
            started=started - finishing_later_s(request.budget_seconds, ready.slowness),
        )  # fmt: skip
        return MeasuredRun(journal.folder, session, started, request.budget_seconds)


def _tell_conditions(watch: Watch, ready: Prepared) -> None:
    """Reports known conditions, unless all points are emulated: an emulator's time is not this machine's."""
    here = [point.probe for point in ready.plan.points() if point.target == LOCAL]
    if here:
        tell_worst(watch, ready.machine, calls=any(probe.startswith(KERNEL) for probe in here))


def _judge(ready: Prepared, limits: Limits | None) -> AnalysisJudge:
    plan, of_machine = ready.plan, (limits or Limits()).on(ready.machine)
    return AnalysisJudge(
        plan.probes, learned(ready.request, ready.machine), plan.precision, plan.suite, limits=of_machine
    )


def _conducted(
    ready: Prepared, journal: Journal, observing: Observing, stopping: Stopping, *, judge: AnalysisJudge,
    watch: Watch | None, started: float,
) -> Session:  # fmt: skip
    """Makes the visits and returns the session. started: monotonic seconds from which the time for visits counts."""
    plan = ready.plan
    paths = {key: executable.path for key, executable in used(plan, ready.catalog).items()}
    with (
        _targets(plan, paths, started) as targets,
        pinned_to(plan.host_cpu, notify),
        realtime_priority(plan.priority == "real-time" and plan.host_cpu is not None),
    ):
        stopping.reach(*(target.interrupt for target in dict.fromkeys(targets.values())))
        with observing(plan, ready.machine) as observer:
            local = targets[LOCAL]
            pool = local.pool if isinstance(local, Local) else None
            has_own_cpu = plan.host_cpu not in (None, *plan.cpus[:1])
            stage = Stage(
                targets, paths, journal, judge, observer, stopping, pool=pool, watch=watch, reviews_beside=has_own_cpu
            )
            left = msgspec.structs.replace(plan, budget_seconds=_left_s(plan, started))
            session = conduct(left, stage, ready.done, ready.session.seconds)
        stopping.reach()
    return session


@contextmanager
def _watched(plan: Plan, options: Options, stopping: Stopping) -> Iterator[Watch | None]:
    """Holds this machine's lock and watches it, if a point is measured on it; yields None if none is."""
    if all(point.target.startswith(ELSEWHERE) for point in plan.points()):
        yield None
        return
    with hold_machine_lock(notify, lambda: stopping.asked, beside=options.beside) as company:
        yield Watch(plan.cpus, company=company)


@contextmanager
def _targets(plan: Plan, paths: Mapping[tuple[str, str], str], began: float) -> Iterator[dict[str, Target]]:
    """Opens every target of the plan, prepares its executables within the budget, and closes it afterwards. A booting
    target gets at most half of the time if other targets are measured too."""
    needed: dict[str, dict[str, None]] = {LOCAL: {}}
    for point in plan.points():
        needed.setdefault(point.target, {})[paths[point.probe, point.abi]] = None
    targets = places.opened(name for name in needed if not name.startswith(KIND))
    targets |= {name: targets[LOCAL] for name in needed if name.startswith(KIND)}
    several = sum(map(bool, needed.values())) > 1
    try:
        for name, executables in needed.items():
            targets[name].prepare(list(executables), _left_s(plan, began) / (2 if several else 1))
        yield targets
    finally:
        for target in dict.fromkeys(targets.values()):
            target.close()


def _left_s(plan: Plan, began: float) -> float:
    """Returns the seconds of the budget that are left; at least enough to measure the cheapest points once.
    began: monotonic time in seconds at which the command began."""
    least = min(_LEAST_S, _LEAST_SHARE * plan.budget_seconds)
    return max(least, plan.budget_seconds - (time.monotonic() - began))


# ---- the other end of a network -------------------------------------------------------------------------------------


@contextmanager
def serving(host: str, executables: Sequence[str]) -> Iterator[str]:
    """Starts the first executable as a server on the host, over ssh, and yields its address as a probe reads it; empty
    without a host or an executable. Raises Failure if the host cannot be reached, or the server does not start."""
    if not host or not executables:
        yield ""
        return
    machine = Ssh(host)
    try:
        with machine.serve(executables[0]) as process:
            try:
                yield _served_address(host, process)
            finally:
                assert process.stdin
                process.stdin.close()
                try:
                    process.wait(_PEER_ENDS_S)
                except commands.TimeoutExpired:
                    process.kill()
    finally:
        machine.close()


def _served_address(host: str, process: commands.Popen[bytes]) -> str:
    """Returns ADDRESS,PORT,... from the server's first two lines. Raises Failure (5), with its output, if it prints
    anything else."""
    assert process.stdout
    output, deadline = b"", time.monotonic() + _PEER_STARTS_S
    while output.count(b"\n") < 2 and len(output) < _MOST_BYTES:
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        chunk = os.read(process.stdout.fileno(), _MOST_BYTES)
        if not chunk:
            break
        output += chunk
    answer = output.decode(errors="replace")
    match = re.fullmatch(r"address ([0-9a-fA-F.:%\w]*)\nports((?:,\d{1,5})+)\n", answer)
    if match is None:
        raise Failure(f"--peer {host}: it does not serve: {clean(answer.strip())[:200] or 'it prints nothing'}", 5)
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", match[1]):
        raise Failure(f"--peer {host}: ssh reaches it at {match[1] or 'no address'}, and an IPv4 address is needed", 5)
    return f"{match[1]}{match[2]}"


# ---- the judge of a run in progress ---------------------------------------------------------------------------------


class AnalysisJudge:
    """Judges the points of a run from the analysis of its visits, for conduct (conduct.Judge)."""

    def __init__(
        self, probes: Mapping[str, Probe], learned: Learned, precision: float, suite: Suite, *,
        limits: Limits = Limits(),
    ) -> None:  # fmt: skip
        self._probes = probes
        self._limits = limits
        self._suite = suite
        self._learned = learned
        self._known = Known(widths=learned.widths, learned=learned, precision=precision)
        self._rows: dict[tuple[Point, int], Mapping[str, Row]] = {}

    def look(self, outcomes: Sequence[Outcome]) -> None:
        self._known = known_of(outcomes, self._probes, self._learned, self._known.precision, self._known)
        self._rows.clear()

    def full_width(self, point: Point) -> float:
        known, key = self._known, (point.target, point.abi)
        return 0.0 if key in known.alternating else known.widths.get(key, 0.0)

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        """Returns the visits that a point needs. A point whose worst value has a limit is visited to the end of the
        budget."""
        if convergence.is_counted_out(outcomes, probe):
            return 0.0
        if outcomes and any(self._limits.worst_levels(outcomes[0].point, probe)):
            return inf
        return convergence.visits_wanted(outcomes, probe, self._known)

    def excess(self, outcome: Outcome) -> str:
        return self._limits.excess(outcome, self._probes[outcome.point.probe])

    def wide_pairs(self, outcomes: Sequence[Outcome], point: Point) -> Sequence[tuple[int, ...]]:
        return wide_pairs(outcomes, point, self._probes[point.probe], self._known)

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        """Returns the visits that a pair needs. A study's pair needs no more once each of its claims has a verdict."""
        precision, claims = self._known.precision, self._suite.published
        wanted = opposed.visits_wanted_of_two(outcomes, pair, self._probes, self._known, precision)
        visits = sum(outcome.point == pair[0] for outcome in outcomes)
        if claims and visits < wanted:
            ratios = opposed.opposed(outcomes, [pair], self._probes, self._known, precision)
            return visits if is_decided(claims, *pair, ratios) else wanted
        return wanted

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        return attempts.differing(seen, self._suite, self._probes) if self._suite.listing else ()

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]:
        """Returns the values of a parameter, from `grid`, at which a curve needs further points. A curve has the
        probe's first metric over the parameter, or for a probe with traffic, both metrics. curve: visits by value."""
        first = probe.metrics[0].name
        traffic = next((metric.name for metric in probe.metrics if metric.means == TRAFFIC), first)
        rows_by_value = [(value, self._rows_of(outcomes, probe)) for value, outcomes in sorted(curve.items())]
        both = [
            (value, rows[first], rows[traffic]) for value, rows in rows_by_value if first in rows and traffic in rows
        ]
        if traffic != first:
            numbers = [(value, _undisturbed(latency), _undisturbed(amount)) for value, latency, amount in both]
            return convergence.refine_load(numbers, list(grid))
        intervals = {value: (row.low or 0.0, row.high or inf) for value, row, _ in both if has_interval(row)}
        return convergence.refine([(value, _undisturbed(row)) for value, row, _ in both], list(grid), intervals)

    def _rows_of(self, outcomes: Sequence[Outcome], probe: Probe) -> Mapping[str, Row]:
        """Returns the rows with a number, by metric; cached until the next visit."""
        key = outcomes[0].point, len(outcomes)
        if key not in self._rows:
            rows = rows_of_point(list(outcomes), probe, self._known)
            self._rows[key] = {row.metric: row for row in rows if row.status == "ok" and row.median is not None}
        return self._rows[key]


def _undisturbed(row: Row) -> float:
    """Returns the lowest cost, since interference only adds time; or the median rate."""
    least = row.minimum if row.better == "less" else None
    return (row.median or 0.0) if least is None else least


# ---- an observer that does nothing ----------------------------------------------------------------------------------


@contextmanager
def no_observers(plan: Plan, machine: Machine) -> Iterator[Observer]:
    del plan, machine
    yield Observer()
