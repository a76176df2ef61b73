# SPDX-License-Identifier: Apache-2.0
"""Finds the verb, and turns whatever goes wrong into one line and the exit code of docs/exit-codes.md."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

import tollmeter
from tollmeter import commands, starting
from tollmeter.cli import bill, compare, developing, fleet, run, sharing, show
from tollmeter.cli import time as time_
from tollmeter.cli.printing import print_notice
from tollmeter.model import Failure
from tollmeter.notices import listen
from tollmeter.root import IS_CHECKOUT, ROOT, typed

USAGE, INFRASTRUCTURE, INTERRUPTED = 2, 5, 130
_SURROGATES = "surrogates not allowed"
"""What Python calls a path with bytes that are not UTF-8, where it is written as text."""
_AROUND = 40
"""Characters that are printed before and after such a byte."""
_OUTPUT_IS_LOST = (errno.EBADF, errno.ENOSPC, errno.EIO)

app = typer.Typer(
    name="toll",
    help="Measures the toll of every boundary that code crosses on a machine, and says why it costs what it costs.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
VERBS: dict[str, Callable[..., Any]] = {
    "run": run.run,
    "time": time_.time_,
    "bill": bill.bill,
    "list": show.list_,
    "show": show.show,
    "report": sharing.report,
    "compare": compare.compare,
    "gate": compare.gate,
    "history": show.history,
    "serve": sharing.serve,
    "export": sharing.export,
    "bundle": sharing.bundle,
    "import": sharing.import_,
    "publish": sharing.publish,
    "gallery": sharing.gallery,
    "layout": developing.layout,
    "new": developing.new,
    "selftest": developing.selftest,
    "profile": developing.profile,
    "casts": developing.casts,
}
GROUPS = {"fleet": ("Measure many machines, and name those that differ from their peers.", fleet.VERBS)}
"""What the help says of each, and its verbs."""


def stoppable(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Typer would end at a Ctrl-C without a word. A library may make another error of it."""

    @functools.wraps(verb)
    def stopped(*args: Any, **options: Any) -> Any:
        try:
            with starting.hearing_signals():
                return verb(*args, **options)
        except KeyboardInterrupt as error:
            raise Failure("interrupted", INTERRUPTED) from error
        except Exception as error:
            if starting.signal_received():
                raise Failure("interrupted", INTERRUPTED) from error
            raise

    return stopped


for _name, _verb in VERBS.items():
    app.command(_name)(stoppable(_verb))
for _name, (_help, _verbs) in GROUPS.items():
    _group = typer.Typer(help=_help, rich_markup_mode=None)
    for _sub, _verb in _verbs.items():
        _group.command(_sub)(stoppable(_verb))
    _group.callback()(lambda: None)
    app.add_typer(_group, name=_name)


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    listen(print_notice)
    given = list(sys.argv[1:] if words is None else words)
    if os.environ.get("COLUMNS", "").strip("+-0") == "":
        os.environ.pop("COLUMNS", None)  # in no columns nothing would be printed
    try:
        if given in (["--version"], ["-V"]):
            of = commit()
            print(f"tollmeter {tollmeter.__version__}{f' (commit {of})' if of else ''}", flush=True)
            return 0
        _check_whole(given)
        given = time_.joined(given) if given[:1] in (["time"], ["gate"]) else given
        code = int(app(given or ["--help"], prog_name="toll", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except (BrokenPipeError, SystemExit):
        # typer and rich turn a closed pipe into an exit: the reader has closed its end.
        starting.forget_output()
        return 0
    except KeyboardInterrupt:
        # A second signal, while the first was being answered.
        print_notice("interrupted")
        return INTERRUPTED
    except UnicodeEncodeError as error:
        if error.reason != _SURROGATES:
            raise
        around = error.object[max(0, error.start - _AROUND) : error.end + _AROUND]
        print_notice(f"a path or word is not UTF-8, and is not supported: {clean_of_bytes(around)}")
        return USAGE
    except (Failure, TyperException, OSError, MemoryError, ImportError) as error:
        if _lost_output(error):
            starting.forget_output()
        sentence, code = _exit_of(error)
        print_notice(sentence)
        return code


def clean_of_bytes(word: str) -> str:
    """Each byte that is not UTF-8 as a mark."""
    return word.encode(errors="surrogateescape").decode(errors="replace")


def _check_whole(given: Sequence[str]) -> None:
    """Raises Failure (2) for an empty word: a variable of a script that is not set would measure something else; and
    for one that is not UTF-8, in which a run and what is made of it name their folder."""
    for before, word in pairwise(["", *given]):
        if (shown := clean_of_bytes(word)) != word:
            raise Failure(f"{shown} is not UTF-8: rename it or choose another name")
        option = word.removesuffix("=") if word.startswith("--") and word.endswith("=") else before
        if not word.strip() or option != before:
            of = f"{option} has" if option.startswith("-") else "a word has"
            raise Failure(f"{of} an empty value: is a variable not set?")


def _exit_of(error: Failure | TyperException | OSError | MemoryError | ImportError) -> tuple[str, int]:
    if isinstance(error, Failure):
        return error.sentence, error.exit_code
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        verb = context.command_path.partition(" ")[2] if context else ""
        return f"{error.format_message()} (`{typed(*verb.split(), '--help')}`)", USAGE
    if isinstance(error, ImportError):
        return f"a library cannot be loaded: {str(error).strip().splitlines()[-1]}", INFRASTRUCTURE
    if isinstance(error, MemoryError):
        return "there is not enough memory for this (ulimit -v, or the control group's limit)", INFRASTRUCTURE
    where = error.filename or ("standard output" if _lost_output(error) else "the system")
    return f"{where}: {error.strerror or error}", INFRASTRUCTURE


def _lost_output(error: BaseException) -> bool:
    """An error of writing without a file name is one of standard output."""
    return isinstance(error, OSError) and not error.filename and error.errno in _OUTPUT_IS_LOST


# ---- the commit -----------------------------------------------------------------------------------------------------

_STATED = Path(__file__).resolve().parents[1] / "commit"
"""git writes it into an archive (.gitattributes); a wheel of that archive has it too."""
_UNWRITTEN = "$"


def commit() -> str | None:
    """Shortened, with `-dirty` where a checkout has changes; None where neither an archive nor git states it."""
    try:
        stated = _STATED.read_text(encoding="utf-8").strip()
        if not stated.startswith(_UNWRITTEN):
            return stated or None
        return _of_git() if IS_CHECKOUT and (ROOT / ".git").exists() else None
    except (OSError, UnicodeDecodeError):
        return None


def _of_git() -> str | None:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = commands.run("checkout", words, capture_output=True, text=True)
    return done.stdout.strip() or None
