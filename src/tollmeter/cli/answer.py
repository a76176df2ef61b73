# SPDX-License-Identifier: Apache-2.0
"""The end of a run: the page is written, the answer printed, the exit code found."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.cli.printing import say
from tollmeter.cli.report import PAGE
from tollmeter.cli.show import print_book
from tollmeter.library import places
from tollmeter.library.derive import learned, open_run, remembered
from tollmeter.library.measure import Measured
from tollmeter.library.options import Options
from tollmeter.model import Failure, Outcome, Point
from tollmeter.store.history import remember
from tollmeter.store.journal import Session
from tollmeter.store.request import read_request

DONE, FAILED, INFRASTRUCTURE, NOTHING, INTERRUPTED = 0, 1, 5, 6, 130


def finished(measured: Measured, options: Options) -> int:
    """Returns the exit code of the whole run."""
    from tollmeter.report import page

    folder, session = measured
    if session.reason and not options.quiet:
        say(session.reason)
    book = open_run(folder)
    remember(places.RUNS, remembered(book, learned(read_request(folder))))
    code = exit_code(book.outcomes, session) or (FAILED if book.index.run.unanswered else DONE)
    try:
        page.write(book, folder / PAGE)
    except Failure as failure:
        say(failure.sentence)
        code = code or failure.exit_code
    print_book(book, options.form)
    return code


def exit_code(outcomes: Sequence[Outcome], session: Session) -> int:
    """The gravest of what happened, as docs/exit-codes.md has it."""
    if session.status == "interrupted":
        return INTERRUPTED
    measured: set[Point] = {told.point for told in outcomes if told.status == "ok"}
    if any(told.status == "infrastructure" and told.point not in measured for told in outcomes):
        return INFRASTRUCTURE
    if any(told.status in ("failed", "wrong_answer", "timeout") for told in outcomes):
        return FAILED
    return DONE if measured else NOTHING
