# SPDX-License-Identifier: Apache-2.0
"""`toll sweep`: a run at each value of a setting, and the best value."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter import starting
from tollmeter.catalog import check_known
from tollmeter.cli import completing
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_notice, print_view, write
from tollmeter.cli.run import gravest
from tollmeter.cli.time import split_values
from tollmeter.exit_codes import DONE, FAILED, INFRASTRUCTURE, INTERRUPTED, NOTHING_RAN
from tollmeter.files import own_folder
from tollmeter.library.options import DEFAULT_BUDGET, Options, check_seed
from tollmeter.model import Failure
from tollmeter.notices import doing, once_each
from tollmeter.root import typed

if TYPE_CHECKING:
    from tollmeter.conduct import Stopping
    from tollmeter.library.sweeping import Knob, Measure
    from tollmeter.report.swept import SweptValues
    from tollmeter.store.sweeps import SweepState

_PAGE = "sweep.html"


def sweep(
    words: Annotated[list[str] | None, completing.TO_MEASURE] = None,
    *,
    set_: Annotated[
        str,
        typer.Option("--set", metavar="'CMD {}'", help="command that sets a value, {} in it; the first is restored"),
    ] = "",
    verify: Annotated[
        str, typer.Option(help="command that proves a value: prints it, or has {} in it and ends with 0")
    ] = "",
    lists: shared.ParameterList = None,
    scan: shared.ParameterScan = None,
    step: shared.ParameterStep = None,
    reboots: Annotated[
        Path | None, typer.Option(help="a value needs a restart: keep the sweep in this file, and go on after each")
    ] = None,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore",
            help="restore the setting that a killed sweep changed, and measure nothing; with --reboots, also end that "
            "sweep",
        ),
    ] = False,
    abi: Annotated[list[str] | None, shared.abi("the suite's")] = None,
    target: Annotated[list[str] | None, shared.target()] = None,
    budget: Annotated[str | None, shared.budget(DEFAULT_BUDGET)] = None,
    precision: shared.Precision = None,
    priority: shared.Priority = None,
    seed: shared.Seed = None,
    cpus: shared.Cpus = None,
    trust: shared.Trust = None,
    out: Annotated[Path | None, shared.out("the sweep's folder [runs/DATE-sweep]")] = None,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
    beside: shared.Beside = False,
    quiet: shared.Quiet = False,
) -> int:
    check_known("format", form, shared.TABLE_OR_JSON)
    if restore:
        return _restored(reboots)
    from tollmeter.library.sweeping import Knob, check_knob

    variable, values = _values(lists, scan, step)
    check_seed(seed)
    if not set_:
        raise Failure(
            f"--set is missing: the command that sets a value of {variable}, such as --set 'echo {{}} > FILE'"
        )
    if reboots and not verify:
        raise Failure("--reboots needs --verify: only that shows which value the machine started with")
    knob = Knob(variable, set_, verify)
    check_knob(knob, values)
    abis, targets = (",".join(several) if several else None for several in (abi, target))
    options = Options(
        tuple(words or ()), abis, budget, seed, cpus, out, form, quiet, starting.began(), targets, precision, priority,
        beside=beside, trust=tuple(trust or ()),
    )  # fmt: skip
    return _swept(knob, values, options, reboots)


def _values(lists: Sequence[str] | None, scan: Sequence[str] | None, step: str | None) -> tuple[str, list[str]]:
    from tollmeter.library.typed_commands import parameter_sets

    sets = parameter_sets(split_values(scan, 3), step, split_values(lists, 2))
    if len(sets[0]) != 1:
        raise Failure("expected one knob with its values: -L VAR 1,2,4 or -P VAR 1 8")
    return sets[0][0][0], [value for ((_, value),) in sets]


def _restored(reboots: Path | None) -> int:
    from tollmeter.library.sweeping import abandoned, restore_killed
    from tollmeter.store.sweeps import sweep_lock_file

    if reboots:
        print(abandoned(reboots))
        return DONE
    with sweep_lock_file() as lock:
        print(restore_killed(lock) or "no killed sweep left a knob to restore")
    return DONE


def _swept(knob: Knob, values: Sequence[str], options: Options, reboots: Path | None) -> int:
    from tollmeter.conduct import Stopping
    from tollmeter.library import places
    from tollmeter.library.sweeping import conducted, new_sweep, over_restarts, restore_killed
    from tollmeter.store.sweeps import NAME, load_sweep, save_sweep, sweep_lock_file

    with sweep_lock_file() as lock:
        restore_killed(lock)
    begun = load_sweep(reboots) if reboots else None
    folder = Path(begun.folder) if begun else (options.out or places.new_folder("sweep")).absolute()
    seed = begun.seed if begun else secrets.randbelow(1_000_000) if options.seed is None else options.seed
    options = options._replace(seed=seed)
    if not begun and folder.exists():
        raise Failure(f"{folder} exists: a sweep needs a folder of its own", INFRASTRUCTURE)
    new = new_sweep(knob, values, sys.argv[2:], seed, folder)
    with once_each(), Stopping(answer=_promise) as stopping:
        _check_measures(options, folder)
        own_folder(folder)
        measure = _measure(options, folder, stopping, len(new.order))
        if reboots:
            done = over_restarts(new, reboots, measure, lambda: stopping.asked)
            save_sweep(folder / NAME, done)
        else:
            done = conducted(new, folder / NAME, measure, lambda: stopping.asked)
        code = _answered(done, options.form)
        return INTERRUPTED if stopping.asked else code


def _promise() -> None:
    sys.stderr.write("\ntoll: ending with what is under way, and restoring the first value\n")


def _check_measures(options: Options, folder: Path) -> None:
    """Checks everything for which a run would be refused, before the setting is changed, and builds missing probes.
    Raises Failure."""
    from tollmeter.library.prepare import prepared

    with starting.realtime_priority(wanted=options.is_urgent):
        prepared(options._replace(out=folder / "first"))


def _measure(options: Options, folder: Path, stopping: Stopping, steps: int) -> Measure:
    from tollmeter.cli.watching import watching
    from tollmeter.library.derive import open_run
    from tollmeter.library.measure import measured, no_observers
    from tollmeter.library.prepare import prepared

    observing = no_observers if options.quiet else watching

    def measure(value: str, name: str) -> str:
        step_options = options._replace(out=folder / name, began=time.monotonic())
        if not options.quiet:
            print_notice(f"run {name.partition('-')[0].lstrip('0')} of {steps}: {value}")
        try:
            with starting.realtime_priority(wanted=step_options.is_urgent):
                ready = prepared(step_options)
            done = measured(ready, step_options, observing, stopping, in_passing=True)
            if stopping.asked:
                return "interrupted"
            rows = open_run(done.folder).index.rows
        except Failure as failure:
            return failure.sentence
        reasons = [row.reason for row in rows if row.reason]
        return (
            "" if any(row.status == "ok" for row in rows) else f"no row has a number: {next(iter(reasons), 'no row')}"
        )

    return measure


def _answered(sweep: SweepState, form: str) -> int:
    """Prints the results so far. Returns the exit code."""
    from tollmeter.library.sweeping import runs_of
    from tollmeter.report import swept as report
    from tollmeter.report import swept_page
    from tollmeter.report.page import put

    found = report.swept_values(sweep, runs_of(sweep))
    if form == "json":
        write(report.as_json(found))
    else:
        print_view(report.blocks(found))
    page = Path(sweep.folder) / _PAGE
    try:
        with doing("writing the page"):
            put(swept_page.render(found), page)
    except Failure as failure:
        print_notice(failure.sentence)
        return gravest(_code(found), INFRASTRUCTURE)
    if form == "table":
        print(f"Page  {page}")
    return _code(found)


def _code(found: SweptValues) -> int:
    """Returns the exit code, and prints its reason on standard error."""
    from tollmeter.report.swept import failures

    sweep, failed = found.sweep, failures(found)
    if sweep.unrestored:
        print_notice(
            f"{sweep.variable} is not restored to {sweep.first}: {sweep.unrestored}; the next sweep, or "
            f"`{typed('sweep', '--restore')}`, tries again"
        )
        return INFRASTRUCTURE
    if not found.effects:
        stopped = f"it was stopped after {len(sweep.steps)} of {len(sweep.order)} steps" * (not sweep.is_done)
        why = stopped or next(iter(failed), "no row has a number")
        print_notice(f"no value can be compared with {sweep.first}: {why}")
        return NOTHING_RAN
    if failed:
        print_notice(f"{len(failed)} of {len(sweep.order)} steps have no run: {failed[0]}")
        return FAILED
    return DONE
