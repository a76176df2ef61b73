# SPDX-License-Identifier: Apache-2.0
"""`toll run`: measures, prints a summary, writes the report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter import starting
from tollmeter.catalog import check_known
from tollmeter.cli import completing, show
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_columns, print_notice, print_view
from tollmeter.cli.sharing import PAGE
from tollmeter.exit_codes import DONE, FAILED, INCOMPLETE, INFRASTRUCTURE, INTERRUPTED, NOTHING_RAN, TRIPPED
from tollmeter.extras import chart_script_made
from tollmeter.library import places
from tollmeter.library.derive import open_run, remembered
from tollmeter.library.options import DEFAULT_BUDGET, Options
from tollmeter.library.overrun import cpu_time, overrun
from tollmeter.model import BEYOND, Failure, Machine, Outcome, Point, Results, Row, assignments, first_few
from tollmeter.model.topology import listed
from tollmeter.notices import doing
from tollmeter.root import typed
from tollmeter.store.history import remember
from tollmeter.store.journal import Session

if TYPE_CHECKING:
    from tollmeter.conduct import Stopping
    from tollmeter.library.limits import Limits
    from tollmeter.library.measure import MeasuredRun
    from tollmeter.plan import Plan

_GRAVEST_FIRST = (INTERRUPTED, INFRASTRUCTURE, TRIPPED, FAILED, NOTHING_RAN, INCOMPLETE, DONE)
_MOST_CPUS = 8
"""Highest number of CPUs of one point in the list of `--dry-run`."""


def run(
    words: Annotated[
        list[str] | None,
        completing.TO_MEASURE,
    ] = None,
    *,
    abi: Annotated[list[str] | None, shared.abi("the suite's")] = None,
    target: Annotated[list[str] | None, shared.target()] = None,
    budget: Annotated[str | None, shared.budget(DEFAULT_BUDGET)] = None,
    precision: shared.Precision = None,
    priority: shared.Priority = None,
    counters: Annotated[str | None, typer.Option(help="hardware counters beside samples: on or off [on]")] = None,
    against: Annotated[list[str] | None, typer.Option(help="measure interleaved with NAME=VALUE, ABI or probe")] = None,
    clock: Annotated[str | None, typer.Option(help="external clock: pty or serial:PATH [the target's own]")] = None,
    seed: shared.Seed = None,
    cpus: shared.Cpus = None,
    folder: shared.ScratchFolder = None,
    peer: Annotated[str | None, typer.Option(help="host, reachable by ssh, at the network's other end")] = None,
    trust: shared.Trust = None,
    out: Annotated[str | None, shared.out("the run's folder [runs/DATE-SUITE]")] = None,
    form: Annotated[str, shared.formats(show.FORMATS)] = "table",
    all_points: Annotated[bool, typer.Option("--all-points", help="measure every point, whatever the budget")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan and its expected time")] = False,
    every: Annotated[bool, shared.every("with --dry-run: every point, and its CPUs")] = False,
    resume: Annotated[str | None, typer.Option(help="continue this run: measure only what is missing")] = None,
    beside: shared.Beside = False,
    quiet: shared.Quiet = False,
    limits: shared.Limits = None,
) -> int:
    from tollmeter.library.limits import read_limits

    check_known("format", form, show.FORMATS)
    abis, targets = (",".join(several) if several else None for several in (abi, target))
    options = Options(
        tuple(words or ()), abis, budget, seed, cpus, Path(out) if out else None, form, quiet, starting.began(),
        targets, precision, priority, tuple(against or ()), beside, clock, folder, peer, all_points,
        tuple(trust or ()), counters,
    )  # fmt: skip
    limits_read = read_limits(None, limits) if limits else None
    if dry_run:
        return _planned(options, resume, limits_read, every=every)
    # The chart script is made during the build of probes: not while measuring, and not after the answer.
    with chart_script_made(), starting.realtime_priority(wanted=options.is_urgent):
        measuring = _measuring(options, resume, limits_read)
    return answered(measuring, options, limits_read)


def _measuring(options: Options, resume: str | None, limits: Limits | None) -> Callable[[Stopping], MeasuredRun]:
    """Prepares a run, new or resumed, and returns a function that measures it. resume: name of a run to resume. Raises
    Failure for every reason that is known before measuring."""
    from tollmeter.cli.watching import watching
    from tollmeter.library.measure import measured, no_observers, resumed
    from tollmeter.library.prepare import prepared
    from tollmeter.library.resume import interrupted

    observing = no_observers if options.quiet else watching
    if resume is None:
        ready = prepared(options)
        _check_limits(limits, ready.plan, ready.machine)
        return lambda stopping: measured(ready, options, observing, stopping, limits=limits)
    interrupted_run = interrupted(resume, options)
    _check_limits(limits, interrupted_run.plan, interrupted_run.machine)
    return lambda stopping: resumed(interrupted_run, options, observing, stopping, limits=limits)


def _check_limits(limits: Limits | None, plan: Plan, machine: Machine) -> None:
    if limits:
        limits.check(plan.points(), plan.probes, machine)


def _planned(options: Options, resume: str | None, limits: Limits | None, *, every: bool) -> int:
    """Prints the plan of a run without measuring."""
    from tollmeter.library.prepare import prepared
    from tollmeter.library.resume import interrupted

    if resume is None:
        ready = prepared(options, may_install=False)
        plan, machine = ready.plan, ready.machine
    else:
        interrupted_run = interrupted(resume, options, may_start=False)
        print_notice(f"{len(interrupted_run.done)} visits of {interrupted_run.folder} are done already, and count")
        plan, machine = interrupted_run.plan, interrupted_run.machine
    _check_limits(limits, plan, machine)
    if options.form != "json":
        _print_answer(plan, only_time=every)
    if options.form == "json" or every:
        _print_points(plan, options.form)
    effort = plan.effort
    print_notice(
        f"a visit takes {effort.samples} samples of {effort.sample_ns / 1e6:g} ms; timed on CPU {plan.cpus[0]} of "
        f"{listed(plan.cpus)}; seed {plan.seed}"
    )
    return 0


def _print_answer(plan: Plan, *, only_time: bool) -> None:
    """Prints the duration of a plan, the measured points of each probe, and claims without a row. only_time: omits the
    points."""
    from tollmeter.plan import expected_seconds
    from tollmeter.plan.claims import unplanned_claims
    from tollmeter.report.planned import planned, without_row

    answer, *parts = planned(plan.points(), plan.probes, expected_seconds(plan), plan.budget_seconds)
    claims = [*unplanned_claims(plan)]
    print_view([answer, *(() if only_time else parts), *([without_row(claims)] if claims else [])])


def _print_points(plan: Plan, form: str) -> None:
    rows = [
        (
            point.probe, " ".join(assignments(point.parameters)), point.abi, point.target,
            _cpus(plan, point),
        )
        for point in plan.points()
    ]  # fmt: skip
    names = ("probe", "parameters", "abi", "target", "cpus")
    print_columns(names, rows, "json" if form == "json" else "table", narrow=5)


def _cpus(plan: Plan, point: Point) -> str:
    """Returns the CPUs that a point's first visits may use, the timed worker's first; for a matrix, the pairs of a
    round."""
    places = plan.placements(point)
    named = [f"{one}-{other}" for one, other in places] if len(places) > 1 else [*map(str, places[0])]
    return first_few(named, _MOST_CPUS, ",")


# ---- the end of a run -----------------------------------------------------------------------------------------------


def answered(measuring: Callable[[Stopping], MeasuredRun], options: Options, limits: Limits | None = None) -> int:
    """Measures and prints the answer. A signal ends the current step, and the report is still written. Returns the exit
    code."""
    from tollmeter.conduct import Stopping

    def promise() -> None:
        sys.stderr.write("\ntoll: ending with what is under way, and its report; once more ends at once\n")

    with Stopping(answer=promise) as stopping:
        if starting.signal_received():
            raise KeyboardInterrupt
        measured = measuring(stopping)
        measured_s = time.monotonic() - measured.began
        with starting.realtime_priority(wanted=options.is_urgent):
            code = _finished(measured, options, limits)
        whole_s = time.monotonic() - measured.began
        if not options.quiet and (why := overrun(measured.budget_s, measured_s, whole_s, cpu_time().waited_s)):
            print_notice(why)
        return gravest(code, INTERRUPTED if stopping.asked else DONE)


def _finished(measured: MeasuredRun, options: Options, limits: Limits | None = None) -> int:
    """Prints the answer of a run after its last visit, and its failures. Returns the exit code."""
    folder, session = measured.folder, measured.session
    if session.reason and session.status != BEYOND and not options.quiet:
        print_notice(session.reason)
    results = open_run(folder)
    remember(places.RUNS, remembered(results))
    code = exit_code(results.outcomes, results.index.rows, session) or (
        FAILED if results.index.run.unanswered else DONE
    )
    failures = [*_print_failures(results, options.form, folder), *_page_failures(results, folder)]
    if code not in (DONE, INTERRUPTED) and not failures and (options.quiet or not session.reason):
        print_notice(_why(results, code))
    for failure in [*failures, *_limit_failures(results, session, limits)]:
        print_notice(failure.sentence)
        code = gravest(code, failure.exit_code)
    return code


def _limit_failures(results: Results, session: Session, limits: Limits | None) -> Iterator[Failure]:
    """Yields the failures of limits: the visit that ended the run, the rows beyond their limits, and the limits that
    apply to no row."""
    if session.status == BEYOND:
        yield Failure(session.reason or "", TRIPPED)
    if limits is None:
        return
    yield from (Failure(why, TRIPPED) for why in limits.broken(results))
    for glob in limits.unmatched(results):
        why = f"no row with an interval matches {glob!r}, which the limits name"
        yield Failure(f"{why}: correct the name, or give a longer --budget", INCOMPLETE)


def _why(results: Results, code: int) -> str:
    """Returns the sentence that docs/exit-codes.md promises on standard error: the first failed visit, or the question
    that the run leaves open."""
    statuses = ("infrastructure",) if code == INFRASTRUCTURE else ("failed", "wrong_answer", "timeout")
    failed = next((outcome for outcome in results.outcomes if outcome.status in statuses), None)
    if failed and code != NOTHING_RAN:
        return f"{failed.point.probe}: {failed.reason or failed.status}"
    return results.index.run.unanswered or "no row has a number"


def _page_failures(results: Results, folder: Path) -> Iterator[Failure]:
    from tollmeter.report import page

    try:
        with doing("writing the page"):
            page.write_page(results, folder / PAGE)
    except Failure as failure:
        yield failure


def _print_failures(results: Results, form: str, folder: Path) -> Iterator[Failure]:
    """Prints the results, and yields failures of printing. A closed pipe or a full disk loses the printed text, and no
    data of the run; rich turns a closed pipe into an exit."""
    try:
        show.print_results(results, form, page=str(Path(results.index.run.folder) / PAGE))
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        starting.forget_output()
        why = error.strerror if isinstance(error, OSError) else "standard output is closed"
        yield Failure(
            f"the answer could not be printed ({why}): `{typed('show', str(folder))}` prints it", INFRASTRUCTURE
        )


def exit_code(outcomes: Sequence[Outcome], rows: Sequence[Row], session: Session) -> int:
    """Returns the exit code of the gravest event, by docs/exit-codes.md."""
    if session.status == "interrupted":
        return INTERRUPTED
    measured: set[Point] = {outcome.point for outcome in outcomes if outcome.status == "ok"}
    if any(outcome.status == "infrastructure" and outcome.point not in measured for outcome in outcomes):
        return INFRASTRUCTURE
    if any(outcome.status in ("failed", "wrong_answer", "timeout") for outcome in outcomes):
        return FAILED
    return DONE if any(row.status == "ok" for row in rows) else NOTHING_RAN


def gravest(*codes: int) -> int:
    return min(codes, key=_GRAVEST_FIRST.index)
