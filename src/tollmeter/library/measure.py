# SPDX-License-Identifier: Apache-2.0
"""From a plan to a run folder: a new run, or one that is gone on with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.catalog import Executable, check_unchanged
from tollmeter.conduct import Observer, Stage, Stopping, conduct, kept_on
from tollmeter.library import places
from tollmeter.library.derive import learned
from tollmeter.library.judging import AnalysisJudge
from tollmeter.library.options import Options
from tollmeter.library.prepare import Ground, Prepared, budget_of, for_measuring, head_of, same_machine, same_plan, used
from tollmeter.library.reuse import Reused, reused
from tollmeter.model import Failure, Machine, Outcome
from tollmeter.numbers.known import Learned
from tollmeter.plan import Plan
from tollmeter.saying import say
from tollmeter.store.journal import Journal, Session, read
from tollmeter.store.request import read_request
from tollmeter.targets import Target
from tollmeter.targets.ways import LOCAL

Observing = Callable[[Plan, Machine], AbstractContextManager[Observer]]


class Measured(NamedTuple):
    """Where the run is, and how measuring ended."""

    folder: Path
    session: Session


class _Work(NamedTuple):
    """What is to be measured with what, and what was already: outcomes, and seconds of wall time. built_s: no part of
    the budget, since it is paid once.
    """

    plan: Plan
    machine: Machine
    executables: Mapping[tuple[str, str], Executable]
    done: Sequence[Outcome] = ()
    seconds_before: float = 0.0
    built_s: float = 0.0
    learned: Learned = Learned()


def measured(ready: Prepared, options: Options, observing: Observing) -> Measured:
    """A new run. observing: what sees it go by."""
    folder = options.out or places.RUNS / ready.request.id
    executables = used(ready.plan, ready.catalog)
    check_unchanged(executables.values())
    found = reused(ready, executables)
    request = msgspec.structs.replace(ready.request, reused=found.sentence) if found else ready.request
    with Journal.create(folder, request, head_of(ready, executables.values())) as journal:
        done = _taken_over(found, journal) if found else ()
        work = _Work(ready.plan, ready.machine, executables, done, built_s=ready.built_s, learned=learned(request))
        return _go(work, journal, options.began, observing)


def _taken_over(found: Reused, journal: Journal) -> Sequence[Outcome]:
    """The other run's visits, now in this journal too."""
    say(found.sentence)
    for stream in found.streams:
        journal.append(stream)
    return found.outcomes


def resumed(name: str, options: Options, observing: Observing) -> Measured:
    """Goes on with a run that was interrupted, or whose budget was spent."""
    fixed = (options.words, options.abi, options.target, options.cpus, options.out, options.precision, options.priority)
    if any(fixed) or options.seed is not None:
        raise Failure(
            "--resume takes what to measure from the run: beside it stand only --budget, --format and --quiet"
        )
    folder = places.find_run(name)
    request, contents = read_request(folder), read(folder)
    catalog = places.made_ready(request.abis, request.targets)
    machine = same_machine(folder, request, contents, catalog)
    plan, executables = same_plan(folder, request, contents, Ground(catalog, machine))
    budget = for_measuring(budget_of(options, request.suite, request.budget_seconds))
    plan = msgspec.structs.replace(plan, budget_seconds=budget)
    with Journal.resume(folder) as journal:
        work = _Work(plan, machine, executables, contents.outcomes, contents.session.seconds, learned=learned(request))
        return _go(work, journal, options.began, observing)


def _go(work: _Work, journal: Journal, began: float, observing: Observing) -> Measured:
    places.remember(journal.folder)
    paths = {key: made.path for key, made in work.executables.items()}
    judge = AnalysisJudge(work.plan.probes, work.learned, work.plan.precision)
    with (
        _targets(work.plan, paths) as targets,
        Stopping(targets.values(), _promise) as stopping,
        kept_on(work.plan.host_cpu) as complaint,
    ):
        if complaint:
            say(complaint)
        with observing(work.plan, work.machine) as observer:
            stage = Stage(targets, paths, journal, judge, observer, stopping)
            session = conduct(_after_start(work.plan, began + work.built_s), stage, work.done, work.seconds_before)
    return Measured(journal.folder, session)


def _promise() -> None:
    """Written past Python's buffers, which a signal may have caught half way."""
    os.write(2, b"\ntoll: ending after this sample; once more ends at once\n")


@contextmanager
def _targets(plan: Plan, paths: Mapping[tuple[str, str], str]) -> Iterator[dict[str, Target]]:
    """Every place that the plan names, told what it will be asked for; closed afterwards."""
    needed: dict[str, dict[str, None]] = {LOCAL: {}}
    for point in plan.points():
        needed.setdefault(point.target, {})[paths[point.probe, point.abi]] = None
    targets = places.opened(needed)
    try:
        for name, executables in needed.items():
            targets[name].prepare(list(executables))
        yield targets
    finally:
        for target in targets.values():
            target.close()


def _after_start(plan: Plan, began: float) -> Plan:
    """What it took to get here is part of the budget."""
    left = max(plan.budget_seconds / 2, plan.budget_seconds - (time.monotonic() - began))
    return msgspec.structs.replace(plan, budget_seconds=left)
