# SPDX-License-Identifier: Apache-2.0
"""The end of a run: the answer is printed, the page written, the exit code found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tollmeter import starting
from tollmeter.cli.printing import print_notice
from tollmeter.cli.sharing import PAGE
from tollmeter.cli.show import print_results
from tollmeter.conduct import Stopping
from tollmeter.library import places
from tollmeter.library.derive import learned, open_run, remembered
from tollmeter.library.measure import MeasuredRun
from tollmeter.library.options import Options
from tollmeter.model import Failure, Outcome, Point, Results, Row
from tollmeter.notices import doing
from tollmeter.root import typed
from tollmeter.store.history import remember
from tollmeter.store.journal import Session
from tollmeter.store.request import read_request

DONE, FAILED, INFRASTRUCTURE, NOTHING, INTERRUPTED = 0, 1, 5, 6, 130
GRAVEST_FIRST = (INTERRUPTED, INFRASTRUCTURE, FAILED, NOTHING, DONE)


def answered(measuring: Callable[[Stopping], MeasuredRun], options: Options) -> int:
    """From the first visit to the answer: a signal anywhere in between ends what is under way, and the report is
    written. Returns the exit code of the whole run."""
    with Stopping(answer=_promise) as stopping:
        if starting.signal_received():
            raise KeyboardInterrupt
        measured = measuring(stopping)
        with starting.realtime_priority(wanted=options.is_urgent):
            code = finished(measured, options)
        return gravest(code, INTERRUPTED if stopping.asked else DONE)


def _promise() -> None:
    sys.stderr.write("\ntoll: ending with what is under way, and its report; once more ends at once\n")


def finished(measured: MeasuredRun, options: Options) -> int:
    """Returns the exit code."""
    folder, session = measured.folder, measured.session
    if session.reason and not options.quiet:
        print_notice(session.reason)
    results = open_run(folder)
    remember(places.RUNS, remembered(results, learned(read_request(folder))))
    code = exit_code(results.outcomes, results.index.rows, session) or (
        FAILED if results.index.run.unanswered else DONE
    )
    failures = [*_print_failures(results, options.form, folder), *_page_failures(results, folder)]
    if code not in (DONE, INTERRUPTED) and not failures and (options.quiet or not session.reason):
        print_notice(_why(results, code))
    for failure in failures:
        print_notice(failure.sentence)
        code = gravest(code, failure.exit_code)
    return code


def _why(results: Results, code: int) -> str:
    """What docs/exit-codes.md promises on standard error: the first visit that failed, or what the run leaves open."""
    statuses = ("infrastructure",) if code == INFRASTRUCTURE else ("failed", "wrong_answer", "timeout")
    failed = next((outcome for outcome in results.outcomes if outcome.status in statuses), None)
    if failed and code != NOTHING:
        return f"{failed.point.probe}: {failed.reason or failed.status}"
    return results.index.run.unanswered or "no row has a number"


def _page_failures(results: Results, folder: Path) -> Iterator[Failure]:
    from tollmeter.report import page

    try:
        with doing("writing the page"):
            page.write(results, folder / PAGE)
    except Failure as failure:
        yield failure


def _print_failures(results: Results, form: str, folder: Path) -> Iterator[Failure]:
    """A closed pipe or a full disk loses the printed text, and nothing of the run. rich turns a closed pipe into an
    exit."""
    try:
        print_results(results, form, page=str(Path(results.index.run.folder) / PAGE))
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        starting.forget_output()
        why = error.strerror if isinstance(error, OSError) else "standard output is closed"
        yield Failure(
            f"the answer could not be printed ({why}): `{typed('show', str(folder))}` prints it", INFRASTRUCTURE
        )


def exit_code(outcomes: Sequence[Outcome], rows: Sequence[Row], session: Session) -> int:
    """The gravest of what happened, as docs/exit-codes.md has it."""
    if session.status == "interrupted":
        return INTERRUPTED
    measured: set[Point] = {outcome.point for outcome in outcomes if outcome.status == "ok"}
    if any(outcome.status == "infrastructure" and outcome.point not in measured for outcome in outcomes):
        return INFRASTRUCTURE
    if any(outcome.status in ("failed", "wrong_answer", "timeout") for outcome in outcomes):
        return FAILED
    return DONE if any(row.status == "ok" for row in rows) else NOTHING


def gravest(*codes: int) -> int:
    return min(codes, key=GRAVEST_FIRST.index)
