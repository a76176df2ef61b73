# SPDX-License-Identifier: Apache-2.0
"""From a plan to a run folder: a new run, or one that is resumed."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.catalog import Executable, check_unchanged
from tollmeter.conduct import Observer, Stage, Stopping, Watch, conduct, hold_machine_lock, pinned_to
from tollmeter.judgement import convergence, opposed
from tollmeter.library import places
from tollmeter.library.derive import learned
from tollmeter.library.looking import look
from tollmeter.library.options import Options, names
from tollmeter.library.peer import serving
from tollmeter.library.prepare import (
    LONGEST_FOLDER,
    Prepared,
    ResumedFrom,
    budget_of,
    check_machine,
    folder_for_files,
    for_measuring,
    head_of,
    same_machine,
    same_plan,
    used,
)
from tollmeter.library.reuse import Reused, reused
from tollmeter.library.wanted import ProbeRequest, selects_of
from tollmeter.library.workloads import with_workloads
from tollmeter.model import Failure, Machine, Outcome, Point, Probe, Suite, Visit
from tollmeter.model.topology import KIND
from tollmeter.notices import notify
from tollmeter.numbers.cpu_pairs import wide_pairs
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.rows import known_of, rows_of_point
from tollmeter.plan import Plan
from tollmeter.starting import realtime_priority
from tollmeter.store.journal import Journal, Session, read
from tollmeter.store.request import Request, places_of, read_request
from tollmeter.studies import attempts
from tollmeter.targets import Target
from tollmeter.targets.local import Local
from tollmeter.targets.profiling_visit import ending_at
from tollmeter.targets.ways import LOCAL, clocked

_LEAST_S, _LEAST_SHARE = 2.0, 0.1

ELSEWHERE = "ssh:"
"""Targets of that kind measure on another machine."""

Observing = Callable[[Plan, Machine], AbstractContextManager[Observer]]


class MeasuredRun(NamedTuple):
    """Where the run is, and how measuring ended. began: monotonic seconds from which its budget counts."""

    folder: Path
    session: Session
    began: float


class _Work(NamedTuple):
    """What to measure, and what was: outcomes and seconds. built_s: paid once, so not part of the budget."""

    plan: Plan
    machine: Machine
    executables: Mapping[tuple[str, str], Executable]
    done: Sequence[Outcome] = ()
    seconds_before: float = 0.0
    built_s: float = 0.0
    learned: Learned = Learned()


def measured(
    ready: Prepared, options: Options, observing: Observing, stopping: Stopping, *, in_passing: bool = False
) -> MeasuredRun:
    """A new run. observing: gets its progress. stopping: entered for its time. in_passing: does not become the last."""
    folder = options.out or places.RUNS / ready.request.id
    executables = used(ready.plan, ready.catalog)
    check_unchanged(executables.values())
    earlier = reused(ready, executables)
    request = msgspec.structs.replace(ready.request, reused=earlier.sentence) if earlier else ready.request
    with Journal.create(folder, request, head_of(ready, executables.values())) as journal:
        taken = _copied_visits(earlier, journal) if earlier else ()
        work = _Work(ready.plan, ready.machine, executables, taken, built_s=ready.built_s, learned=learned(request))
        if not in_passing:
            places.remember(journal.folder)
        done = _go(_placed(work, request, journal), journal, options, observing, stopping)
    if done.session.status != "interrupted":
        until_s = done.began + for_measuring(request.budget_seconds)
        with ending_at(until_s):
            look(ready, folder, until_s, stopping, quiet=options.quiet)
    return done


def _copied_visits(earlier: Reused, journal: Journal) -> Sequence[Outcome]:
    """The other run's visits, now in this journal too."""
    notify(earlier.sentence)
    for stream in earlier.streams:
        journal.append(stream)
    return earlier.outcomes


class Interrupted(NamedTuple):
    """A run that was interrupted, or whose budget was spent, with what is still to be done of it."""

    folder: Path
    work: _Work
    request: Request

    @property
    def plan(self) -> Plan:
        return self.work.plan


def interrupted(name: str, options: Options, *, may_start: bool = True) -> Interrupted:
    """A run to resume. may_start: may build and execute; else only what is built and recorded is used. Raises Failure:
    2 if it is no run, requests more than it states, or names an untyped target; 5 if this machine or the build differs
    from the run's."""
    fixed = (
        options.words, options.abi, options.cpus, options.out, options.precision, options.priority, options.against,
        options.all_points, options.trust,
    )  # fmt: skip
    if any(fixed) or options.seed is not None:
        raise Failure(
            "--resume takes what to measure from the run. It accepts only --budget, --format, --dry-run, --quiet "
            "and --beside, and the run's own --target, --clock, --peer and --folder"
        )
    folder = places.find_run(name)
    request, contents = read_request(folder), read(folder)
    if request.settings:
        raise Failure(f"{folder} was begun by an older Tollmeter: start a new run", exit_code=5)
    _check_typed(folder, request, options)
    if request.is_of_commands:
        raise Failure(f"{folder} is a run of `toll time`, whose commands are started only where they are typed")
    _check_commands(folder, request)
    recorded = check_machine(folder, request, contents)
    wanted = ProbeRequest(selects_of(request.suite), request.against)
    catalog = places.made_ready(request.abis, request.targets, wanted, may_start, may_start=may_start)
    catalog = with_workloads(catalog, request.suite, request.abis, may_start=may_start)
    machine = same_machine(folder, request, recorded, catalog) if may_start else recorded
    plan, executables = same_plan(folder, request, contents, ResumedFrom(catalog, machine))
    budget = for_measuring(budget_of(options, request.suite, request.budget_seconds))
    plan = msgspec.structs.replace(plan, budget_seconds=budget)
    work = _Work(plan, machine, executables, contents.outcomes, contents.session.seconds, learned=learned(request))
    return Interrupted(folder, work, request)


def _check_typed(folder: Path, request: Request, options: Options) -> None:
    """A run's folder is untrusted: places that it names must be typed as well. Raises Failure (2)."""
    own = str(folder_for_files(options.folder)) if options.folder else ""
    typed = _elsewhere(clocked(names(options.target), options.clock)), options.peer or "", own
    if typed != (_elsewhere(request.targets), request.peer, request.folder):
        words = shlex.join(places_of(request)) or "no --target, --clock, --peer or --folder"
        raise Failure(
            f"{folder} was begun with {words}: type the same beside --resume, since a run's folder may come from "
            "another machine and connects to nothing by itself"
        )


def _elsewhere(targets: Sequence[str]) -> tuple[str, ...]:
    return () if {*targets} <= {LOCAL} else tuple(targets)


def _check_commands(folder: Path, request: Request) -> None:
    """A run's folder is untrusted: workload commands come from this checkout's suites. Raises Failure (2)."""
    ours = [workload for suite in places.suites().values() for workload in suite.workload]
    strange = next((workload for workload in request.suite.workload if workload not in ours), None)
    if strange:
        raise Failure(
            f"{folder}: no suite of this checkout has the commands of its workload {strange.name}, and a run that is "
            "resumed starts no others: begin a new run with the suite's file"
        )


def resumed(half: Interrupted, options: Options, observing: Observing, stopping: Stopping) -> MeasuredRun:
    """Goes on with it."""
    with Journal.resume(half.folder) as journal:
        places.remember(journal.folder)
        return _go(_placed(half.work, half.request, journal), journal, options, observing, stopping)


def _placed(work: _Work, request: Request, journal: Journal) -> _Work:
    """The plan with a folder for the probes' files, and the other end of a network where one was requested."""
    own = journal.folder.resolve()
    folder = request.folder or (str(own) if len(os.fsencode(own)) <= LONGEST_FOLDER else "")
    return work._replace(plan=msgspec.structs.replace(work.plan, folder=folder, peer=request.peer))


def _go(work: _Work, journal: Journal, options: Options, observing: Observing, stopping: Stopping) -> MeasuredRun:
    began = time.monotonic()
    serving_ones = (made for made in work.executables.values() if made.probe.serves and made.target == LOCAL)
    # One that is linked with a library has its services besides all others.
    ends = [made.path for made in sorted(serving_ones, key=lambda made: not made.probe.library)]
    with _watched(work.plan, options, stopping) as watch, serving(work.plan.peer, ends) as peer:
        work = work._replace(plan=msgspec.structs.replace(work.plan, peer=peer))
        # Neither what was built nor waiting for another run's end is measured time.
        started = options.began + work.built_s + time.monotonic() - began
        session = _conducted(work, journal, _Eyes(observing, stopping, watch), started)
        return MeasuredRun(journal.folder, session, started)


class _Eyes(NamedTuple):
    """What observes a run: its progress, requests to stop, and other activity on the machine."""

    observing: Observing
    stopping: Stopping
    watch: Watch | None


def _conducted(work: _Work, journal: Journal, eyes: _Eyes, started: float) -> Session:
    paths = {key: made.path for key, made in work.executables.items()}
    judge = AnalysisJudge(work.plan.probes, work.learned, work.plan.precision, work.plan.suite)
    with (
        _targets(work.plan, paths, started) as targets,
        pinned_to(work.plan.host_cpu) as complaint,
        realtime_priority(work.plan.priority == "real-time" and work.plan.host_cpu is not None),
    ):
        eyes.stopping.reach(dict.fromkeys(targets.values()))
        if complaint:
            notify(complaint)
        with eyes.observing(work.plan, work.machine) as observer:
            local = targets[LOCAL]
            pool = local.pool if isinstance(local, Local) else None
            stage = Stage(targets, paths, journal, judge, observer, eyes.stopping, pool=pool, watch=eyes.watch)
            session = conduct(_after_start(work.plan, started), stage, work.done, work.seconds_before)
        eyes.stopping.reach(())
    return session


@contextmanager
def _watched(plan: Plan, options: Options, stopping: Stopping) -> Iterator[Watch | None]:
    """Has this machine's measuring to itself, if any of it is done here. None where nothing is."""
    if all(point.target.startswith(ELSEWHERE) for point in plan.points()):
        yield None
        return
    with hold_machine_lock(notify, lambda: stopping.asked, beside=options.beside) as company:
        yield Watch(plan.cpus, company=company)


@contextmanager
def _targets(plan: Plan, paths: Mapping[tuple[str, str], str], began: float) -> Iterator[dict[str, Target]]:
    """Opens every target of the plan and prepares its executables, within the budget; closed afterwards. A target that
    boots has at most half of the time, where others are measured too."""
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


def _after_start(plan: Plan, began: float) -> Plan:
    """What it took to get here is part of the budget."""
    return msgspec.structs.replace(plan, budget_seconds=_left_s(plan, began))


def _left_s(plan: Plan, began: float) -> float:
    """Of the budget, since the command began. The shortest is for one look at the cheapest points."""
    least = min(_LEAST_S, _LEAST_SHARE * plan.budget_seconds)
    return max(least, plan.budget_seconds - (time.monotonic() - began))


# ---- the judge of a run in progress ---------------------------------------------------------------------------------


class AnalysisJudge:
    """Implements conduct.Judge."""

    def __init__(self, probes: Mapping[str, Probe], learned: Learned, precision: float, suite: Suite) -> None:
        self._probes = probes
        self._suite = suite
        self._learned = learned
        self._known = Known(learned=learned, precision=precision)
        self._numbers: dict[tuple[Point, int], float | None] = {}

    def look(self, outcomes: Sequence[Outcome]) -> None:
        self._known = known_of(outcomes, self._probes, self._learned, self._known.precision, self._known)
        self._numbers.clear()

    def read(self, outcomes: Sequence[Outcome]) -> None:
        good = self._known.unread([outcome for outcome in outcomes if outcome.status == "ok"])
        if good:
            self._known.read(good, [self._probes[outcome.point.probe] for outcome in good])

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        return (
            0.0
            if convergence.is_counted_out(outcomes, probe)
            else convergence.visits_wanted(outcomes, probe, self._known)
        )

    def wide_pairs(self, outcomes: Sequence[Outcome], point: Point) -> Sequence[tuple[int, ...]]:
        return wide_pairs(outcomes, point, self._probes[point.probe], self._known)

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        return opposed.visits_wanted(outcomes, pair, self._probes, self._known, self._known.precision)

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        return attempts.differing(seen, self._suite, self._probes) if self._suite.listing else ()

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]:
        """By the first metric that is drawn over a parameter, which is the probe's first."""
        numbers = [(value, self._undisturbed(outcomes, probe)) for value, outcomes in sorted(curve.items())]
        return convergence.refine([(value, number) for value, number in numbers if number is not None], list(grid))

    def _undisturbed(self, outcomes: Sequence[Outcome], probe: Probe) -> float | None:
        """The least cost, since interference only adds, or the median rate; cached until the next visit."""
        place = outcomes[0].point, len(outcomes)
        if place not in self._numbers:
            row = rows_of_point(list(outcomes), probe, self._known)[0]
            number = row.minimum if row.better == "less" else row.median
            self._numbers[place] = number if row.status == "ok" else None
        return self._numbers[place]


# ---- an observer that does nothing ----------------------------------------------------------------------------------


@contextlib.contextmanager
def unseen(plan: Plan, machine: Machine) -> Iterator[Observer]:
    del plan, machine
    yield Blind()


class Blind:
    """Implements conduct.Observer for --quiet, and for programs."""

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        del visit, fraction, seconds_left

    def outcome(self, outcome: Outcome) -> None:
        del outcome
