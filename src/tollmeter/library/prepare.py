# SPDX-License-Identifier: Apache-2.0
"""Makes a plan from command words: the request, the built probes, the machine, and the history of its earlier runs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from math import ceil, inf
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import msgspec

from tollmeter import protocol
from tollmeter.catalog import Catalog, Executable
from tollmeter.experiment.run_record import LEAST_WIDTH, MOST_PER_CYCLE
from tollmeter.experiment.runs_differ import USUAL, USUAL_PLACED, EarlierRun, rows_sd, runs_sd
from tollmeter.files import trust
from tollmeter.judgement.convergence import BUDGETS_S, HOUR_S, budget_text
from tollmeter.judgement.opposed import in_common
from tollmeter.library import places
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.options import (
    DEFAULT_BUDGET,
    Options,
    check_seed,
    counters_named,
    cpu_numbers,
    names,
    priority_named,
    seconds,
    share,
    usual_precision,
)
from tollmeter.library.overrun import cpu_time
from tollmeter.library.wanted import asking
from tollmeter.library.workloads import check_trusted_suites, with_workload_selections, with_workloads
from tollmeter.model import Build, ClockReading, Failure, Machine, Outcome, Pair, Probe, Suite
from tollmeter.notices import notify, spent_once_s
from tollmeter.numbers.meanings import entries
from tollmeter.plan import Plan, make_plan, measured_caches
from tollmeter.plan.claims import check_claims
from tollmeter.plan.points import on_machine
from tollmeter.store.history import recall
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.journal import Session
from tollmeter.store.request import Request
from tollmeter.store.sweeps import warn_of_killed
from tollmeter.targets.ways import LOCAL, clock_of, clocked, own_abis
from tollmeter.version import VERSION

_FINISHING_SHARE, _LEAST_FINISHING_S, _MOST_FINISHING_S = 0.15, 2.0, 10.0
"""Share of the budget for analysis and report, with its lower and upper limit."""
_USUALLY_FINISHING = 0.5
"""Share of that time that analysis and report take on a quiet machine."""
_LOOKING_SHARE = 0.25
"""Share of the remaining budget for a suite's measurements after the run: profiles, a modelled cache, stack
distances."""

_LEAST_BOOT_S = 1.0
_THREADS = 2
"""Hardware threads of a core, as most cores have."""

LONGEST_FOLDER = 1000
"""Longest path in bytes that a probe accepts."""


class Prepared(NamedTuple):
    """A run that is ready for its next visit. built_s: seconds to build the named probes, once. slowness: wall seconds
    for one second of CPU time. done: visits of earlier runs or sessions that count. folder, session: folder of a run
    that is resumed, and how its last session ended."""

    request: Request
    catalog: Catalog
    machine: Machine
    clock: ClockReading
    plan: Plan
    built_s: float = 0.0
    slowness: float = 1.0
    done: Sequence[Outcome] = ()
    folder: Path = Path()
    session: Session = Session("measuring", 0.0)


def prepared(options: Options, *, may_install: bool = True) -> Prepared:
    """Returns the run that is ready for its first visit. Raises Failure: 2 for an unknown name, 6 if nothing can
    run."""
    before = cpu_time()
    check_seed(options.seed)
    warn_of_killed()
    _check_no_run(options.against)
    targets = clocked(names(options.target), options.clock)
    abis = names(options.abi) or own_abis(targets)
    spent_s = spent_once_s()
    suites = places.suites()
    if may_install:
        trust(options.trust)
        check_trusted_suites(options.words, suites)
    wanted = asking(options.words, suites, places.sources(), options.against)
    places.check_selected_abis(() if options.abi else wanted.selects)
    catalog = places.made_ready(abis, targets, wanted, may_install)
    suite = suite_of_words(options.words, suites, catalog)
    catalog, suite = with_workloads(catalog, suite, abis, may_start=may_install), with_workload_selections(suite)
    built_s = spent_once_s() - spent_s
    check_claims(suite, catalog.probes())
    until_s = options.began + built_s + for_measuring(budget_of(options, suite))
    places.report_left_out(catalog, suite)
    catalog = places.with_gaps(catalog, suite)
    reported, clock = machine_of(catalog, targets, until_s)
    machine = measured_caches(reported, cpu_numbers(options.cpus))
    folder = options.out.resolve() if options.out else places.new_folder(suite.name)
    if not folder.name:
        raise Failure(f"--out {options.out}: a run needs a folder of its own")
    request = Request(
        id=folder.name,
        suite=on_machine(suite, machine),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=secrets.randbelow(1_000_000) if options.seed is None else options.seed,
        budget_seconds=budget_of(options, suite),
        tollmeter=VERSION,
        abis=abis,
        cpus=cpu_numbers(options.cpus),
        words=options.words,
        targets=targets,
        precision=share(options.precision) if options.precision else usual_precision(options.against),
        against=options.against,
        priority=priority_named(options.priority or "real-time"),
        counters=counters_named(options.counters or "on"),
        folder=str(folder_for_files(options.folder)) if options.folder else "",
        peer=options.peer or "",
        all_points=options.all_points,
    )
    plan = plan_of(request, catalog, machine)
    _check_comparable(plan)
    if plan.asked_s > plan.budget_seconds:
        request, text = _narrowed(plan, request)
        notify(text)
    request = with_history(request, machine, {point.probe for point in plan.points()})
    request = msgspec.structs.replace(request, least_cycles=_least_cycles(machine, entries(plan.probes)))
    pairs = tuple(Pair(point=point, against=other) for point, other in plan.ratios())
    request = msgspec.structs.replace(request, pairs=pairs)
    return Prepared(request, catalog, machine, clock, plan, built_s, cpu_time().since(before).slowness)


def _check_no_run(against: Iterable[str]) -> None:
    """Raises Failure, before anything is built, for an --against word that names a run."""
    for word in against:
        if "=" not in word and ("/" in word or (Path(word) / JOURNAL).is_file()):
            raise Failure(f"--against {word}: expected NAME=VALUE, an ABI or a probe; 'toll compare' compares runs")


def _check_comparable(plan: Plan) -> None:
    """Raises Failure, before anything is measured, for a comparison that can have no ratio."""
    for point, other in plan.against.items() if plan.is_of_pairs else ():
        if not in_common(plan.probes[point.probe], plan.probes[other.probe]):
            raise Failure(f"--against {other.probe}: none of its timed metrics has a name or unit of {point.probe}")


def with_history(request: Request, machine: Machine, probes: Set[str]) -> Request:
    """Returns the request with this machine's earlier runs, on which the numbers depend. probes: probes whose rows are
    requested."""
    runs = recall(places.RUNS, machine)
    shipped = {probe: sd for probe, sd in USUAL.items() if probe in probes}
    earlier = [
        msgspec.structs.replace(
            run, rows={name: run.rows[name] for name in run.rows if name.partition(" ")[0] in probes}
        )
        for run in runs
    ]
    private = private_bytes(machine)
    placed = USUAL_PLACED if machine.hypervisor else {}
    of_groups = shipped | {probe: sd for probe, sd in placed.items() if probe in probes}
    of_groups |= runs_sd(earlier, shipped, private)
    return msgspec.structs.replace(
        request, runs_sd=of_groups | rows_sd(earlier, of_groups, private), widths=_widths(runs), private_bytes=private
    )


def _widths(runs: Sequence[EarlierRun]) -> dict[str, dict[str, float]]:
    """Returns the width of the uncontended core by target and ABI: the greatest width of any run, since a sibling that
    is always busy hides it. Two threads of a core have half of it each, so a width of more than twice the median run's
    was misread and is ignored."""
    of_runs: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for target, abis in run.widths.items():
            for abi, width in abis.items():
                if LEAST_WIDTH <= width <= MOST_PER_CYCLE:
                    of_runs.setdefault((target, abi), []).append(width)
    widths: dict[str, dict[str, float]] = {}
    for (target, abi), several in of_runs.items():
        most = _THREADS * median_low(several)
        widths.setdefault(target, {})[abi] = max(width for width in several if width <= most)
    return widths


def _least_cycles(machine: Machine, probes: Set[str]) -> dict[str, float]:
    """Returns by row name the fewest cycles of these probes' rows in earlier runs on this kind of CPU, with any
    kernel."""
    least: dict[str, float] = {}
    for run in recall(places.RUNS, machine):
        for name, cost in run.rows.items():
            if cost.clock_hz and name.partition(" ")[0] in probes:
                cycles = cost.median * cost.clock_hz / 1e9
                least[name] = min(cycles, least.get(name, cycles))
    return least


def private_bytes(machine: Machine) -> int:
    """Returns the bytes that certainly fit into private caches: half of the last private cache, since random pages
    overfill a part of its sets; 0 if unknown."""
    sizes = [*machine.data_sizes().values()]
    return sizes[-2] // 2 if len(sizes) > 1 else 0


def plan_of(request: Request, catalog: Catalog, machine: Machine) -> Plan:
    return make_plan(
        request.suite, catalog, machine, budget_seconds=seconds_for_visits(request), seed=request.seed,
        abis=request.abis, cpus=request.cpus, priority=request.priority,
        counters=request.counters, precision=request.precision,
        against=request.against, all_points=request.all_points,
    )  # fmt: skip


def _narrowed(plan: Plan, request: Request) -> tuple[Request, str]:
    """Returns the request with the points that it leaves out, and the estimate that is printed before the run: that the
    budget is too short for most points, which points are measured in it, and which usual budget suffices."""
    others = ((s, msgspec.structs.replace(request, budget_seconds=s)) for s in BUDGETS_S)
    long = (seconds for seconds, other in others if seconds_for_visits(other) >= plan.asked_s)
    enough_s = next(long, HOUR_S * (ceil(plan.asked_s / HOUR_S) + 1))
    points = len(plan.points())
    asked = plan.asked or points
    counted = f"{asked} points are requested, and need" if asked > 1 else "1 point is requested, and needs"
    time_needed = f"{plan.asked_s:.0f} s" if plan.asked_s < 120 else f"{plan.asked_s / 60:.0f} min"
    mends, left_out = [f"--budget {budget_text(enough_s)} is enough on a quiet machine"], ""
    if 0 < points < plan.asked:
        left_out = f"Of {plan.asked} requested points only the {points} typical of them were measured."
        mends.append("--all-points measures them all, whatever the budget")
        done = f"the {points} typical ones are measured" if points > 1 else "the typical one is measured"
    else:
        done = "fewer than 80 % of them will" if asked > 1 else "it may not"
    if words := _fewer_words(plan):
        mends.append(f"{words} requests fewer")
    text = f"{counted} about {time_needed} to converge; in {request.budget_seconds:g} s {done}. {'; '.join(mends)}."
    return msgspec.structs.replace(request, narrowed=left_out, planned_s=enough_s), text


def _fewer_words(plan: Plan) -> str:
    """Returns parameters for a smaller request: the typical values of a single probe, in place of a sweep; empty if the
    suite selects several probes."""
    (select, *more) = plan.suite.select
    probe = plan.probes.get(select.probe)
    if more or probe is None:
        return ""
    swept = [
        parameter for parameter in probe.parameters if parameter.typical and parameter.name not in select.parameters
    ]
    return " ".join(f"{parameter.name}={parameter.typical}" for parameter in swept)


def folder_for_files(folder: Path) -> Path:
    """Returns the folder in which probes create files. Raises Failure (2) if no probe can create a file in it."""
    path = folder.resolve()
    if not path.is_dir():
        raise Failure(f"--folder {folder}: there is no such folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise Failure(f"--folder {folder}: it is not writable")
    if len(os.fsencode(path)) > LONGEST_FOLDER:
        raise Failure(f"--folder {folder}: its path is longer than {LONGEST_FOLDER} bytes")
    return path


def budget_of(options: Options, suite: Suite, before: float | None = None) -> float:
    """Returns the budget in seconds: as typed, else that of the earlier run, else the suite's, else the default."""
    if options.budget is None and before is not None:
        return before
    return seconds(options.budget or suite.budget or DEFAULT_BUDGET)


def seconds_for_visits(request: Request) -> float:
    """Returns the seconds for visits, without the seconds for the suite's profiles and further measurements."""
    suite = request.suite
    looks = bool(suite.profile or suite.modelled or suite.worth)
    return for_measuring(request.budget_seconds) * (1 - _LOOKING_SHARE * looks)


def for_measuring(budget_seconds: float) -> float:
    finishing = min(_MOST_FINISHING_S, max(_LEAST_FINISHING_S, _FINISHING_SHARE * budget_seconds))
    return max(budget_seconds / 2, budget_seconds - finishing)


def finishing_later_s(budget_seconds: float, slowness: float) -> float:
    """Returns the extra seconds of analysis and report beyond the reserve of `for_measuring`, at most half of the time
    for measuring. slowness: as in Prepared."""
    measuring_s = for_measuring(budget_seconds)
    later_s = (budget_seconds - measuring_s) * max(0.0, _USUALLY_FINISHING * slowness - 1)
    return min(later_s, measuring_s / 2)


def machine_of(catalog: Catalog, targets: Sequence[str], until_s: float = inf) -> tuple[Machine, ClockReading]:
    """Returns the machine of the requested targets, or this one: the first to answer, in `main_place`'s order. until_s:
    monotonic seconds at which waiting for a booting target ends."""
    failures: list[Failure] = []
    for name, paths in _one_for_each_abi(catalog, targets).items():
        target = places.opened([name])[name]
        try:
            for path in paths:
                try:
                    # A target that boots with one executable boots faster than with all.
                    target.prepare([path], max(_LEAST_BOOT_S, until_s - time.monotonic()))
                    answer = protocol.head(target.machine(path))
                    if answer.machine and answer.clock:
                        return answer.machine, answer.clock
                    raise Failure(f"{path} does not describe the machine: run `make probes`", exit_code=5)
                except Failure as failure:
                    failures.append(failure)
        finally:
            target.close()
    raise failures[0] if failures else Failure("no built probe can run here: run `make probes`", 5)


def _one_for_each_abi(catalog: Catalog, targets: Sequence[str]) -> dict[str, list[str]]:
    """Returns for each target one executable of each ABI, since a target may run only some ABIs; targets with a
    hardware clock first."""
    by_place: dict[str, dict[str, str]] = {}
    for executable in sorted(
        catalog.executables.values(), key=lambda executable: catalog.abis.index(executable.build.abi)
    ):
        for name in (executable.target, *executable.also):
            if targets or name == LOCAL:
                by_place.setdefault(name, {}).setdefault(executable.build.abi, executable.path)
    ordered = sorted(by_place, key=lambda name: (clock_of(name) != "hardware", name != LOCAL, name))
    return {name: list(by_place[name].values()) for name in ordered}


def is_same_machine(then: Machine, now: Machine) -> bool:
    return (then.host, then.cpu, then.kernel) == (now.host, now.cpu, now.kernel)


def used(plan: Plan, catalog: Catalog) -> dict[tuple[str, str], Executable]:
    wanted = {(point.probe, point.abi) for point in plan.points()}
    return {key: made for key, made in catalog.executables.items() if key in wanted}


def head_of(ready: Prepared, executables: Iterable[Executable]) -> bytes:
    """Returns the journal's first stream: the machine, and every probe and build that the run will use."""
    names = sorted({point.probe for point in (*ready.plan.points(), *ready.plan.gaps())})
    probes = [ready.plan.probes[name] for name in names]
    return sealed_head(ready.machine, ready.clock, probes, [made.build for made in executables])


def sealed_head(machine: Machine, clock: ClockReading, probes: Iterable[Probe], builds: Iterable[Build]) -> bytes:
    measured_on = [{"k": "machine", **msgspec.to_builtins(machine)}, {"k": "clock", **msgspec.to_builtins(clock)}]
    return protocol.seal([*measured_on, *description_records(probes, builds)])


def description_records(probes: Iterable[Probe], builds: Iterable[Build]) -> list[dict[str, object]]:
    """Returns descriptions and builds as records of a journal."""
    return [
        *({"k": "probe", "protocol": protocol.PROTOCOL, **msgspec.to_builtins(probe)} for probe in probes),
        *({"k": "build", **msgspec.to_builtins(build)} for build in builds),
    ]
