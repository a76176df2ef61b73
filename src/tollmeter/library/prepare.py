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
from tollmeter.catalog import Catalog, Executable
from tollmeter.experiment.run_record import WIDTHS
from tollmeter.experiment.runs_differ import USUAL, USUAL_PLACED, EarlierRun, rows_sd, runs_sd
from tollmeter.files import trust
from tollmeter.judgement.convergence import BUDGETS_S, budget_text
from tollmeter.judgement.opposed import in_common
from tollmeter.library import places
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.options import (
    DEFAULT_BUDGET,
    Options,
    check_seed,
    counters_named,
    names,
    numbers,
    priority_named,
    seconds,
    share,
    usual_precision,
)
from tollmeter.library.overrun import cpu_time
from tollmeter.library.wanted import asking
from tollmeter.library.workloads import check_trusted_suites, selected, with_workloads
from tollmeter.model import Build, ClockReading, Failure, Machine, Pair, Probe, Suite
from tollmeter.notices import notify, spent_once_s
from tollmeter.numbers.meanings import entries
from tollmeter.plan import Plan, check_abis, make, measured_caches
from tollmeter.plan.points import on_machine
from tollmeter.store.history import recall
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.request import Request
from tollmeter.store.sweeps import warn_of_killed
from tollmeter.targets.ways import LOCAL, clock_of, clocked, own_abis
from tollmeter.version import VERSION

_FINISHING_SHARE, _LEAST_FINISHING_S, _MOST_FINISHING_S = 0.15, 2.0, 10.0
"""What analysis and report get of the budget."""
_USUALLY_FINISHING = 0.5
"""Of that, what they take on a quiet machine."""
_LOOKING_SHARE = 0.25
"""Of the rest, for what a suite wants looked at once all is measured: profiles, a modelled cache, loads."""

_LEAST_BOOT_S = 1.0

LONGEST_FOLDER = 1000
"""Bytes of a path that a probe takes."""


class Prepared(NamedTuple):
    """built_s: what it took to build what was named, once. slowness: wall seconds that a second on a CPU took."""

    request: Request
    catalog: Catalog
    machine: Machine
    clock: ClockReading
    plan: Plan
    built_s: float = 0.0
    slowness: float = 1.0


def prepared(options: Options, *, may_install: bool = True) -> Prepared:
    """All that is decided before the first visit. Raises Failure: 2 for an unknown name, 6 if nothing can run."""
    before = cpu_time()
    check_seed(options.seed)
    warn_of_killed()
    _check_no_run(options.against)
    targets = clocked(names(options.target), options.clock)
    abis = names(options.abi) or own_abis(targets)
    spent_s = spent_once_s()
    if may_install:
        trust(options.trust)
        check_trusted_suites(options.words, places.suites())
    wanted = asking(options.words, places.suites(), places.sources(), options.against)
    catalog = places.made_ready(abis, targets, wanted, may_install)
    suite = suite_of_words(options.words, places.suites(), catalog)
    catalog, suite = with_workloads(catalog, suite, abis, may_start=may_install), selected(suite)
    built_s = spent_once_s() - spent_s
    until_s = options.began + built_s + for_measuring(budget_of(options, suite))
    places.report_left_out(catalog, suite)
    catalog = places.with_gaps(catalog, suite)
    check_abis(catalog, abis)
    reported, clock = machine_of(catalog, targets, until_s)
    machine = measured_caches(reported, numbers(options.cpus))
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
        cpus=numbers(options.cpus),
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
    """Before anything is built for a word that can be no name."""
    for word in against:
        if "=" not in word and ("/" in word or (Path(word) / JOURNAL).is_file()):
            raise Failure(f"--against {word}: expected NAME=VALUE, an ABI or a probe; 'toll compare' compares runs")


def _check_comparable(plan: Plan) -> None:
    """Before anything is measured for a comparison that can have no ratio."""
    for point, other in plan.against.items() if plan.is_of_pairs else ():
        if not in_common(plan.probes[point.probe], plan.probes[other.probe]):
            raise Failure(f"--against {other.probe}: none of its timed metrics has a name or unit of {point.probe}")


def with_history(request: Request, machine: Machine, probes: Set[str]) -> Request:
    """The request with this machine's earlier runs, which the numbers use. probes: those whose rows are requested. A
    width that no core has, of a run whose visits had hardly any of their CPU, is left out."""
    runs = recall(places.RUNS, machine)
    widths: dict[str, dict[str, float]] = {}
    for run in runs:
        for target, abis in run.widths.items():
            held = widths.setdefault(target, {})
            for abi, width in abis.items():
                if WIDTHS[0] <= width <= WIDTHS[1]:
                    held[abi] = max(width, held.get(abi, 0.0))
    shipped = {probe: sd for probe, sd in USUAL.items() if probe in probes}
    earlier = [
        EarlierRun(run.place, {name: cost for name, cost in run.rows.items() if name.partition(" ")[0] in probes})
        for run in runs
    ]
    private = private_bytes(machine)
    placed = USUAL_PLACED if machine.hypervisor else {}
    of_groups = shipped | {probe: sd for probe, sd in placed.items() if probe in probes}
    of_groups |= runs_sd(earlier, shipped, private)
    return msgspec.structs.replace(
        request, runs_sd=of_groups | rows_sd(earlier, of_groups, private), widths=widths, private_bytes=private
    )


def _least_cycles(machine: Machine, probes: Set[str]) -> dict[str, float]:
    """The least that any row of these probes took in an earlier run on this kind of CPU, whatever its kernel."""
    least: dict[str, float] = {}
    for run in recall(places.RUNS, machine):
        for name, cost in run.rows.items():
            if cost.clock_hz and name.partition(" ")[0] in probes:
                cycles = cost.median * cost.clock_hz / 1e9
                least[name] = min(cycles, least.get(name, cycles))
    return least


def private_bytes(machine: Machine) -> int:
    """Data that surely fit into private caches: half of the last cache but one, since pages at random overfill a part
    of its sets; 0 where it is not known."""
    sizes = [*machine.data_sizes().values()]
    return sizes[-2] // 2 if len(sizes) > 1 else 0


def plan_of(request: Request, catalog: Catalog, machine: Machine) -> Plan:
    return make(
        request.suite, catalog, machine, budget_seconds=seconds_for_visits(request), seed=request.seed,
        abis=request.abis, cpus=request.cpus, priority=request.priority,
        counters=request.counters, precision=request.precision,
        against=request.against, all_points=request.all_points,
    )  # fmt: skip


def _narrowed(plan: Plan, request: Request) -> tuple[Request, str]:
    """The request that says which points it leaves out; and the estimate that is printed before the run: that the
    budget is too short for most points, what is measured in it, and which of the usual budgets suffices."""
    long = (seconds for seconds in BUDGETS_S if _leaves(request, seconds) >= plan.asked_s)
    enough_s = next(long, 3600 * (ceil(plan.asked_s / 3600) + 1))
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


def _leaves(request: Request, budget_seconds: float) -> float:
    """Seconds that another budget leaves for visits."""
    return seconds_for_visits(msgspec.structs.replace(request, budget_seconds=budget_seconds))


def _fewer_words(plan: Plan) -> str:
    """Of one probe, its typical values in place of what is swept."""
    (select, *more) = plan.suite.select
    probe = plan.probes.get(select.probe)
    if more or probe is None:
        return ""
    swept = [
        parameter for parameter in probe.parameters if parameter.typical and parameter.name not in select.parameters
    ]
    return " ".join(f"{parameter.name}={parameter.typical}" for parameter in swept)


def folder_for_files(folder: Path) -> Path:
    """Raises Failure (2) for what no probe could make a file in."""
    path = folder.resolve()
    if not path.is_dir():
        raise Failure(f"--folder {folder}: there is no such folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise Failure(f"--folder {folder}: it is not writable")
    if len(os.fsencode(path)) > LONGEST_FOLDER:
        raise Failure(f"--folder {folder}: its path is longer than {LONGEST_FOLDER} bytes")
    return path


def budget_of(options: Options, suite: Suite, before: float | None = None) -> float:
    """What was typed, else what the run had before, else what the suite needs, else the usual."""
    if options.budget is None and before is not None:
        return before
    return seconds(options.budget or suite.budget or DEFAULT_BUDGET)


def seconds_for_visits(request: Request) -> float:
    """Seconds for visits, less those for the profiles and looks that the suite wants after them."""
    suite = request.suite
    looks = bool(suite.profile or suite.modelled or suite.worth)
    return for_measuring(request.budget_seconds) * (1 - _LOOKING_SHARE * looks)


def for_measuring(budget_seconds: float) -> float:
    finishing = min(_MOST_FINISHING_S, max(_LEAST_FINISHING_S, _FINISHING_SHARE * budget_seconds))
    return max(budget_seconds / 2, budget_seconds - finishing)


def finishing_later_s(budget_seconds: float, slowness: float) -> float:
    """Seconds that analysis and report take beyond what `for_measuring` leaves them. slowness: as of Prepared."""
    return (budget_seconds - for_measuring(budget_seconds)) * max(0.0, _USUALLY_FINISHING * slowness - 1)


def machine_of(catalog: Catalog, targets: Sequence[str], until_s: float = inf) -> tuple[Machine, ClockReading]:
    """The machine of the requested targets, or this one: the first to answer, in `main_place`'s order. until_s:
    monotonic seconds at which a target that boots is no longer waited for."""
    failures: list[Failure] = []
    for name, paths in _one_for_each_abi(catalog, targets).items():
        place = places.opened([name])[name]
        try:
            for path in paths:
                try:
                    # A target that boots with one executable boots faster than with all.
                    place.prepare([path], max(_LEAST_BOOT_S, until_s - time.monotonic()))
                    answer = protocol.head(place.machine(path))
                    if answer.machine and answer.clock:
                        return answer.machine, answer.clock
                    raise Failure(f"{path} does not describe the machine: run `make probes`", exit_code=5)
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


def is_same_machine(then: Machine, now: Machine) -> bool:
    return (then.host, then.cpu, then.kernel) == (now.host, now.cpu, now.kernel)


def used(plan: Plan, catalog: Catalog) -> dict[tuple[str, str], Executable]:
    wanted = {(point.probe, point.abi) for point in plan.points()}
    return {key: made for key, made in catalog.executables.items() if key in wanted}


def head_of(ready: Prepared, executables: Iterable[Executable]) -> bytes:
    """The journal's first stream: the machine, and every probe and build that the run will use."""
    names = sorted({point.probe for point in (*ready.plan.points(), *ready.plan.gaps())})
    probes = [ready.plan.probes[name] for name in names]
    return sealed_head(ready.machine, ready.clock, probes, [made.build for made in executables])


def sealed_head(machine: Machine, clock: ClockReading, probes: Iterable[Probe], builds: Iterable[Build]) -> bytes:
    measured_on = [{"k": "machine", **msgspec.to_builtins(machine)}, {"k": "clock", **msgspec.to_builtins(clock)}]
    return protocol.seal([*measured_on, *described(probes, builds)])


def described(probes: Iterable[Probe], builds: Iterable[Build]) -> list[dict[str, object]]:
    """As records of a journal."""
    return [
        *({"k": "probe", "protocol": protocol.PROTOCOL, **msgspec.to_builtins(probe)} for probe in probes),
        *({"k": "build", **msgspec.to_builtins(build)} for build in builds),
    ]
