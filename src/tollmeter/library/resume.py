# SPDX-License-Identifier: Apache-2.0
"""Reuses visits of earlier journals: of an interrupted run, which is resumed; and of the machine's default run of the
last hour, for a study that requests some of its points, so that the study's budget is left for its other points.

A visit of another run is reused unchanged if machine, kernel and boot are equal, the executable is identical, and the
requested priority is equal."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tollmeter.catalog import Executable, check_unchanged
from tollmeter.library import places
from tollmeter.library.command_words import DEFAULT
from tollmeter.library.options import Options, names
from tollmeter.library.prepare import (
    Prepared,
    budget_of,
    folder_for_files,
    for_measuring,
    is_same_machine,
    machine_of,
    plan_of,
    used,
)
from tollmeter.library.wanted import ProbeRequest, selects_of
from tollmeter.library.workloads import with_workloads
from tollmeter.model import ClockReading, Failure, Machine, Outcome
from tollmeter.protocol import head, outcome
from tollmeter.report.numbers import count
from tollmeter.store.journal import NAME, is_written, read_journal, streams
from tollmeter.store.request import Request, places_of, read_request
from tollmeter.targets.ways import LOCAL, clocked

MOST_AGE_S = 3600.0


def interrupted(name: str, options: Options, *, may_start: bool = True) -> Prepared:
    """Returns a run to resume, which was interrupted or spent its budget. may_start: allows building and executing;
    else only built and recorded data is used. Raises Failure: 2 if it is not a run, requests more than its suite
    states, or names a target that was not typed; 5 if this machine or the build differs from the run's."""
    fixed = (
        options.words, options.abi, options.cpus, options.out, options.precision, options.priority, options.against,
        options.all_points, options.trust,
    )  # fmt: skip
    if any(fixed) or options.seed is not None:
        raise Failure(
            "--resume takes what to measure from the run. It accepts only --budget, --format, --dry-run, --quiet "
            "and --beside; and --target, --clock, --peer and --folder with the values of that run"
        )
    folder = places.find_run(name, "suite")
    request, contents = read_request(folder), read_journal(folder)
    if request.settings:
        raise Failure(f"{folder} was begun by an older Tollmeter: start a new run", exit_code=5)
    _check_untrusted(folder, request, options)
    machine = contents.head.machine
    if machine is None:
        raise Failure(f"{folder} does not say which machine it was measured on: start a new run", exit_code=5)
    elsewhere = Failure(f"{folder} was measured on another machine or kernel: continue it there, or start a new run", 5)
    # Checked before anything is built or started.
    if {*request.targets} <= {LOCAL} and _is_visibly_another(machine):
        raise elsewhere
    requested = ProbeRequest(selects_of(request.suite), request.against)
    catalog = places.made_ready(request.abis, request.targets, requested, may_start, may_start=may_start)
    catalog = with_workloads(catalog, request.suite, request.abis, may_start=may_start)
    if may_start and not is_same_machine(machine, machine_of(catalog, request.targets)[0]):
        raise elsewhere
    plan = plan_of(request, catalog, machine)
    executables = used(plan, catalog)
    check_unchanged(executables.values())
    before = {(build.probe, build.abi): build.sha256 for build in contents.head.builds}
    for key, executable in executables.items():
        if before.get(key) != executable.build.sha256:
            raise Failure(f"{folder} was measured with another {key[0]} for {key[1]}: start a new run", exit_code=5)
    budget = for_measuring(budget_of(options, request.suite, request.budget_seconds))
    plan = msgspec.structs.replace(plan, budget_seconds=budget)
    return Prepared(
        request, catalog, machine, contents.head.clock or ClockReading(), plan, done=contents.outcomes, folder=folder,
        session=contents.session,
    )  # fmt: skip


def _check_untrusted(folder: Path, request: Request, options: Options) -> None:
    """Raises Failure (2) unless paths that a run's folder names were typed again, and commands of workloads come from
    this checkout's suites. The folder may come from an untrusted source."""
    scratch_folder = str(folder_for_files(options.folder)) if options.folder else ""
    typed = _elsewhere(clocked(names(options.target), options.clock)), options.peer or "", scratch_folder
    if typed != (_elsewhere(request.targets), request.peer, request.folder):
        words = shlex.join(places_of(request)) or "no --target, --clock, --peer or --folder"
        raise Failure(
            f"{folder} was started with {words}: repeat these options beside --resume, since a run's folder may come "
            "from another machine, and its own options are not trusted"
        )
    if request.is_of_commands:
        raise Failure(f"{folder} is a run of `toll time`, whose commands are started only where they are typed")
    ours = [workload for suite in places.suites().values() for workload in suite.workload]
    for workload in request.suite.workload:
        if workload not in ours:
            raise Failure(
                f"{folder}: no suite of this checkout has the commands of its workload {workload.name}, and a run that "
                "is resumed starts no others: begin a new run with the suite's file"
            )


def _elsewhere(targets: Sequence[str]) -> tuple[str, ...]:
    return () if {*targets} <= {LOCAL} else tuple(targets)


def _is_visibly_another(machine: Machine) -> bool:
    """Returns whether the run is from another machine, by host and kernel as a probe reports them. The system may
    refuse to name them."""
    try:
        here = os.uname()
    except OSError:
        return False
    return (here.nodename, f"{here.sysname} {here.release}") != (machine.host, machine.kernel)


# ---- visits that are used again -------------------------------------------------------------------------------------


def with_reused(ready: Prepared, executables: Mapping[tuple[str, str], Executable]) -> tuple[Prepared, Sequence[bytes]]:
    """Returns the run with reusable visits of another run as `done`, and the streams of these visits. Returns the run
    unchanged, without streams, unless it is a study and a default run of the last hour has some of its points."""
    for folder in _recent() if ready.request.suite.published else ():
        try:
            visits = _visits_of(folder, ready, executables)
        except (Failure, OSError):
            continue
        if visits:
            streams, outcomes = zip(*visits, strict=True)
            request = msgspec.structs.replace(ready.request, reused=_sentence(folder, outcomes))
            return ready._replace(request=request, done=outcomes), streams
    return ready, ()


def _sentence(folder: Path, outcomes: Sequence[Outcome]) -> str:
    points = len({outcome.point for outcome in outcomes})
    minutes = (time.time() - (folder / NAME).stat().st_mtime) / 60
    when = f"{minutes:.0f} min ago" if minutes >= 1 else "less than a minute ago"
    return (
        f"Reused from {folder.name}: {count(len(outcomes), 'visit')} of {count(points, 'point')}, measured on "
        f"this machine and build {when}."
    )


def _recent() -> Iterator[Path]:
    """Yields the user's runs that ended within the hour, newest first."""
    for folder in reversed(places.run_folders()):
        journal = folder / NAME
        if folder.parent != places.RUNS:
            continue
        if time.time() - journal.stat().st_mtime > MOST_AGE_S:
            return
        if not is_written(journal):
            yield folder


def _visits_of(
    folder: Path, ready: Prepared, executables: Mapping[tuple[str, str], Executable]
) -> list[tuple[bytes, Outcome]]:
    """Returns the visits of a stored run that can be reused, each after its stream. ready: the run that reuses them.
    executables: executables of that run."""
    request = read_request(folder)
    if request.suite.name != DEFAULT or request.priority != ready.request.priority:
        return []
    first, *others = streams(folder)
    reported = head(first.lines)
    if reported.machine is None or not is_same_machine(reported.machine, ready.machine):
        return []
    built = {(build.probe, build.abi): build.sha256 for build in reported.builds}
    same = {key for key, executable in executables.items() if built.get(key) == executable.build.sha256}
    points = set(ready.plan.points())
    visits = [(stream.text, outcome(stream.lines)) for stream in others if stream.is_visit]
    # A visit with a later time than now was made in another boot.
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return [
        (text, visit) for text, visit in visits if visit.status == "ok" and visit.point in points and
        (visit.point.probe, visit.point.abi) in same and visit.at_ns <= now_ns
    ]  # fmt: skip
