# SPDX-License-Identifier: Apache-2.0
"""Finds the verb, and turns whatever goes wrong into one line and the exit code of docs/exit-codes.md."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.exceptions import TyperException

import tollmeter
from tollmeter.cli import export, layout, report, run, serve, show
from tollmeter.cli import list as list_
from tollmeter.cli.printing import say
from tollmeter.model import Failure
from tollmeter.root import COMMAND
from tollmeter.saying import listen

USAGE, INFRASTRUCTURE, INTERRUPTED = 2, 5, 130

app = typer.Typer(
    name="toll",
    help="Measures the toll of every boundary that code crosses on a machine, and says why it costs what it costs.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
VERBS: dict[str, Callable[..., Any]] = {
    "run": run.run,
    "list": list_.list_,
    "show": show.show,
    "report": report.report,
    "serve": serve.serve,
    "export": export.export,
    "layout": layout.layout,
}


def stoppable(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Typer would end at a Ctrl-C without a word."""

    @functools.wraps(verb)
    def told(*args: Any, **options: Any) -> Any:
        try:
            return verb(*args, **options)
        except KeyboardInterrupt as error:
            raise Failure("interrupted", INTERRUPTED) from error

    return told


for _name, _verb in VERBS.items():
    app.command(_name)(stoppable(_verb))


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    listen(say)
    given = list(sys.argv[1:] if words is None else words)
    if given in (["--version"], ["-V"]):
        print(f"tollmeter {tollmeter.__version__}")
        return 0
    try:
        return int(app(given or ["--help"], prog_name="toll", standalone_mode=False) or 0)
    except (BrokenPipeError, SystemExit):
        # An exit is what typer and rich make of a closed pipe. Whoever read has had enough; what is still buffered must
        # not complain when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Failure, TyperException, OSError) as error:
        sentence, code = _told(error)
        say(sentence)
        return code


def _told(error: Failure | TyperException | OSError) -> tuple[str, int]:
    if isinstance(error, Failure):
        return error.sentence, error.exit_code
    if isinstance(error, TyperException):
        return f"{error.format_message()} ({COMMAND} --help)", USAGE
    return f"{error.filename or 'the system'}: {error.strerror or error}", INFRASTRUCTURE
