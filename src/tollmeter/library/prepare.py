# SPDX-License-Identifier: Apache-2.0
"""From command words to a plan: the request, the built probes, the machine, and the history of its earlier runs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from math import ceil, inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import protocol
from tollmeter.catalog import Catalog, Executable, check_unchanged
from tollmeter.experiment.runs_differ import USUAL, EarlierRun, rows_sd, runs_sd
from tollmeter.judgement.convergence import BUDGETS_S, budget_text
from tollmeter.library import places
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.options import (
    DEFAULT_BUDGET,
    Options,
    check_seed,
    names,
    numbers,
    priority_named,
    seconds,
    share,
    usual_precision,
)
from tollmeter.library.wanted import asking
from tollmeter.library.workloads import check_trusted_suites, selected, with_workloads
from tollmeter.model import ClockReading, Failure, Machine, Pair, Suite
from tollmeter.notices import notify
from tollmeter.plan import Plan, check_abis, make, measured_caches
from tollmeter.plan.claims import on_machine
from tollmeter.store.history import recall
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.journal import Contents
from tollmeter.store.request import Request
from tollmeter.targets import Target
from tollmeter.targets.ways import LOCAL, clock_of, clocked, own_abis
from tollmeter.toolchain import once
from tollmeter.toolchain.trusted import trust
from tollmeter.version import VERSION

_FINISHING_SHARE, _LEAST_FINISHING_S, _MOST_FINISHING_S = 0.15, 2.0, 10.0
"""What analysis and report take of the budget."""
_LOOKING_SHARE = 0.25
"""Of the rest, for what a suite wants looked at once all is measured: profiles, a modelled cache, loads."""

_LEAST_BOOT_S = 1.0

LONGEST_FOLDER = 1000
"""Bytes of a path that a probe takes."""


class Prepared(NamedTuple):
    """built_s: what it took to build what was named, once."""

    request: Request
    catalog: Catalog
    machine: Machine
    clock: ClockReading
    plan: Plan
    built_s: float = 0.0


class ResumedFrom(NamedTuple):
    """What a resumed run starts from."""

    catalog: Catalog
    machine: Machine


def prepared(options: Options, *, may_install: bool = True) -> Prepared:
    """All that is decided before the first visit. Raises Failure: 2 for an unknown name, 6 if nothing can run."""
    check_seed(options.seed)
    _check_no_run(options.against)
    targets = clocked(names(options.target), options.clock)
    abis = names(options.abi) or own_abis(targets)
    spent_s = once.spent_s()
    if may_install:
        trust(options.trust)
        check_trusted_suites(options.words, places.suites())
    wanted = asking(options.words, places.suites(), places.sources(), options.against)
    catalog = places.made_ready(abis, targets, wanted, may_install)
    suite = suite_of_words(options.words, places.suites(), catalog)
    catalog, suite = with_workloads(catalog, suite, abis, may_start=may_install), selected(suite)
    built_s = once.spent_s() - spent_s
    until_s = options.began + built_s + for_measuring(budget_of(options, suite))
    places.report_left_out(catalog, suite)
    catalog = places.with_gaps(catalog, suite)
    check_abis(catalog, abis)
    reported, clock = machine_of(catalog, targets, until_s)
    machine = measured_caches(reported, numbers(options.cpus))
    folder = _own_folder(options.out) if options.out else places.new_folder(suite.name)
    request = Request(
        id=folder.name,
        suite=on_machine(suite, machine),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=secrets.randbelow(1_000_000) if options.seed is None else options.seed,
        budget_seconds=budget_of(options, suite),
        tollmeter=VERSION,
        abis=abis,
        cpus=numbers(options.cpus),
        words=options.words,
        targets=targets,
        precision=share(options.precision) if options.precision else usual_precision(options.against),
        against=options.against,
        priority=priority_named(options.priority or "real-time"),
        folder=str(folder_for_files(options.folder)) if options.folder else "",
        peer=options.peer or "",
        all_points=options.all_points,
    )
    plan = plan_of(request, catalog, machine)
    if plan.asked_s > plan.budget_seconds:
        planned_s = _budget_for(plan.asked_s, request)
        request = msgspec.structs.replace(request, narrowed=_narrowed(plan, request, planned_s), planned_s=planned_s)
        notify(request.narrowed)
    request = with_history(request, machine, {point.probe for point in plan.points()})
    pairs = tuple(Pair(point=point, against=other) for point, other in plan.against.items())
    return Prepared(msgspec.structs.replace(request, pairs=pairs), catalog, machine, clock, plan, built_s)


def _check_no_run(against: Iterable[str]) -> None:
    """Before anything is built for a word that can be no name."""
    for word in against:
        if "=" not in word and ("/" in word or (Path(word) / JOURNAL).is_file()):
            raise Failure(f"--against {word}: expected NAME=VALUE, an ABI or a probe; 'toll compare' compares runs")


def _own_folder(out: Path) -> Path:
    """Raises Failure (2) for one that can be no run's own."""
    folder = out.resolve()
    if not folder.name:
        raise Failure(f"--out {out}: a run needs a folder of its own")
    return folder


def with_history(request: Request, machine: Machine, probes: Set[str]) -> Request:
    """The request with this machine's earlier runs, which the numbers use. probes: those whose rows are requested."""
    runs = recall(places.RUNS, machine)
    widths: dict[str, dict[str, float]] = {}
    for run in runs:
        for target, abis in run.widths.items():
            for abi, width in abis.items():
                held = widths.setdefault(target, {})
                held[abi] = max(width, held.get(abi, 0.0))
    shipped = {probe: sd for probe, sd in USUAL.items() if probe in probes}
    earlier = [
        EarlierRun(run.place, {name: cost for name, cost in run.rows.items() if name.partition(" ")[0] in probes})
        for run in runs
    ]
    private = private_bytes(machine)
    of_groups = shipped | runs_sd(earlier, shipped, private)
    return msgspec.structs.replace(
        request, runs_sd=of_groups | rows_sd(earlier, of_groups, private), widths=widths, private_bytes=private
    )


def private_bytes(machine: Machine) -> int:
    """Data that surely fit into private caches: half of the last cache but one, since pages at random overfill a part
    of its sets; 0 where it is not known."""
    sizes = {cache.level: cache.size_bytes for cache in machine.caches if cache.kind != "instruction"}
    return sizes[sorted(sizes)[-2]] // 2 if len(sizes) > 1 else 0


def plan_of(request: Request, catalog: Catalog, machine: Machine) -> Plan:
    return make(
        request.suite,
        catalog,
        machine,
        budget_seconds=seconds_for_visits(request),
        seed=request.seed,
        abis=request.abis,
        cpus=request.cpus,
        priority=request.priority,
        precision=request.precision,
        against=request.against,
        all_points=request.all_points,
    )


def _narrowed(plan: Plan, request: Request, planned_s: int) -> str:
    """That the budget is too short for most requested points, what is measured in it, and which budget suffices."""
    points = len(plan.points())
    asked = plan.asked or points
    counted = f"{asked} points are requested, and need" if asked > 1 else "1 point is requested, and needs"
    several = f"{counted} about {_minutes(plan.asked_s)} to converge"
    is_less = 0 < points < plan.asked
    mends = [f"--budget {budget_text(planned_s)} gives time for all"]
    mends += ["--all-points measures all in any budget"] if is_less else []
    mends += [f"{words} requests fewer"] if (words := _fewer_words(plan)) else []
    typical = f"the {points} typical ones are measured" if points > 1 else "the typical one is measured"
    done = typical if is_less else "fewer than 80 % of them will" if asked > 1 else "it may not"
    return f"{several}; in {request.budget_seconds:g} s {done}. {'; '.join(mends)}."


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _budget_for(measuring_s: float, request: Request) -> int:
    """Seconds of the shortest usual budget that leaves so much for measuring."""
    for budget in BUDGETS_S:
        if seconds_for_visits(msgspec.structs.replace(request, budget_seconds=budget)) >= measuring_s:
            return budget
    return 3600 * (ceil(measuring_s / 3600) + 1)


def _fewer_words(plan: Plan) -> str:
    """Of one probe, its typical values in place of what is swept."""
    (select, *more) = plan.suite.select
    probe = plan.probes.get(select.probe)
    if more or probe is None:
        return ""
    free = (
        parameter for parameter in probe.parameters if parameter.typical and parameter.name not in select.parameters
    )
    return " ".join(f"{parameter.name}={parameter.typical}" for parameter in free)


def folder_for_files(folder: Path) -> Path:
    """Raises Failure (2) for what no probe could make a file in."""
    whole = folder.resolve()
    if not whole.is_dir():
        raise Failure(f"--folder {folder}: there is no such folder")
    if not os.access(whole, os.W_OK | os.X_OK):
        raise Failure(f"--folder {folder}: it is not writable")
    if len(os.fsencode(whole)) > LONGEST_FOLDER:
        raise Failure(f"--folder {folder}: its path is longer than {LONGEST_FOLDER} bytes")
    return whole


def budget_of(options: Options, suite: Suite, before: float | None = None) -> float:
    """What was typed, else what the run had before, else what the suite needs, else the usual."""
    if options.budget is None and before is not None:
        return before
    return seconds(options.budget or suite.budget or DEFAULT_BUDGET)


def seconds_for_visits(request: Request) -> float:
    """Seconds for visits, less what is kept for whatever the suite wants looked at behind them."""
    suite = request.suite
    looks = bool(suite.profile or suite.modelled or suite.worth)
    return for_measuring(request.budget_seconds) * (1 - _LOOKING_SHARE * looks)


def for_measuring(budget_seconds: float) -> float:
    finishing = min(_MOST_FINISHING_S, max(_LEAST_FINISHING_S, _FINISHING_SHARE * budget_seconds))
    return max(budget_seconds / 2, budget_seconds - finishing)


def machine_of(catalog: Catalog, targets: Sequence[str], until_s: float = inf) -> tuple[Machine, ClockReading]:
    """The machine of the requested targets, or this one: the first to answer, in `main_place`'s order. until_s:
    monotonic seconds at which a target that boots is no longer waited for."""
    failures: list[Failure] = []
    for name, paths in _one_for_each_abi(catalog, targets).items():
        place = places.opened([name])[name]
        try:
            for path in paths:
                try:
                    return _asked_machine(place, path, max(_LEAST_BOOT_S, until_s - time.monotonic()))
                except Failure as failure:
                    failures.append(failure)
        finally:
            place.close()
    raise failures[0] if failures else Failure("no built probe can run here: run `make probes`", 5)


def _one_for_each_abi(catalog: Catalog, targets: Sequence[str]) -> dict[str, list[str]]:
    """By place, the hardware's first: an executable of each ABI, since a place may run one and not another."""
    by_place: dict[str, dict[str, str]] = {}
    for made in sorted(catalog.executables.values(), key=lambda made: catalog.abis.index(made.build.abi)):
        for name in (made.target, *made.also):
            if targets or name == LOCAL:
                by_place.setdefault(name, {}).setdefault(made.build.abi, made.path)
    ordered = sorted(by_place, key=lambda name: (clock_of(name) != "hardware", name != LOCAL, name))
    return {name: list(by_place[name].values()) for name in ordered}


def _asked_machine(place: Target, path: str, limit_s: float) -> tuple[Machine, ClockReading]:
    """The machine as one executable there describes it: a target that boots with one boots faster."""
    place.prepare([path], limit_s)
    answer = protocol.head(place.machine(path))
    if answer.machine is None or answer.clock is None:
        raise Failure(f"{path} does not describe the machine: run `make probes`", exit_code=5)
    return answer.machine, answer.clock


def used(plan: Plan, catalog: Catalog) -> dict[tuple[str, str], Executable]:
    wanted = {(point.probe, point.abi) for point in plan.points()}
    return {key: made for key, made in catalog.executables.items() if key in wanted}


def head_of(ready: Prepared, executables: Iterable[Executable]) -> bytes:
    """The journal's first stream: the machine, and every probe and build that the run will use."""
    probes = sorted({point.probe for point in (*ready.plan.points(), *ready.plan.gaps())})
    records = [
        {"k": "machine", **msgspec.to_builtins(ready.machine)},
        {"k": "clock", **msgspec.to_builtins(ready.clock)},
    ]
    records += [
        {"k": "probe", "protocol": protocol.PROTOCOL, **msgspec.to_builtins(ready.plan.probes[name])} for name in probes
    ]
    records += [{"k": "build", **msgspec.to_builtins(made.build)} for made in executables]
    return protocol.seal(records)


def check_machine(folder: Path, request: Request, contents: Contents) -> Machine:
    """The machine as it was then. Raises Failure (5) where it is visibly another one, before anything is started."""
    then = contents.head.machine
    if then is None:
        raise Failure(f"{folder} does not say which machine it was measured on", exit_code=5)
    if {*request.targets} <= {LOCAL} and (there := _name_here()) and there != (then.host, then.kernel):
        raise _another_machine(folder)
    return then


def _name_here() -> tuple[str, str] | None:
    """Host and kernel, as a probe reports them. None where the system refuses."""
    try:
        here = os.uname()
    except OSError:
        return None
    return here.nodename, f"{here.sysname} {here.release}"


def same_machine(folder: Path, request: Request, then: Machine, catalog: Catalog) -> Machine:
    """Raises Failure (5) where a probe reports another machine."""
    now, _ = machine_of(catalog, request.targets)
    if (then.host, then.cpu, then.kernel) != (now.host, now.cpu, now.kernel):
        raise _another_machine(folder)
    return then


def _another_machine(folder: Path) -> Failure:
    return Failure(f"{folder} was measured on another machine or kernel, and cannot be continued here", exit_code=5)


def same_plan(
    folder: Path, request: Request, contents: Contents, ground: ResumedFrom
) -> tuple[Plan, dict[tuple[str, str], Executable]]:
    """The plan that the run had. Raises Failure (5) where an executable is another one now."""
    plan = plan_of(request, ground.catalog, ground.machine)
    executables = used(plan, ground.catalog)
    check_unchanged(executables.values())
    before = {(build.probe, build.abi): build.sha256 for build in contents.head.builds}
    for key, made in executables.items():
        if before.get(key) != made.build.sha256:
            raise Failure(f"{folder} was measured with another {key[0]} for {key[1]}: start a new run", exit_code=5)
    return plan, executables
