# SPDX-License-Identifier: Apache-2.0
"""Finds the verb, and turns every error into one line and the exit code of docs/exit-codes.md."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tollmeter import starting
from tollmeter.cli.verbs import help_text
from tollmeter.exit_codes import INFRASTRUCTURE, INTERRUPTED, USAGE
from tollmeter.notices import listen
from tollmeter.root import IS_CHECKOUT, ROOT, typed
from tollmeter.version import VERSION

if TYPE_CHECKING:
    from typer.exceptions import TyperException

_OUTPUT_IS_LOST = (errno.EBADF, errno.ENOSPC, errno.EIO)
_SURROGATES = "surrogates not allowed"
"""Message of Python's codec for a name that contains bytes that are not UTF-8."""
_AROUND = 60
"""Characters before and after an invalid one that are printed."""
_HELP: tuple[list[str], ...] = (["--help"], ["-h"], ["help"], [])


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code. words: the command line; by default this process's own."""
    given = list(sys.argv[1:] if words is None else words)
    if os.environ.get("COLUMNS", "").strip("+-0") == "":
        os.environ.pop("COLUMNS", None)  # with 0 columns nothing would be printed
    try:
        if given in _HELP and _COMPLETES not in os.environ:
            print(help_text(), end="", flush=True)
            return 0
        if given in (["--version"], ["-V"], ["version"]):
            of = commit()
            print(f"tollmeter {VERSION}{f' (commit {of})' if of else ''}", flush=True)
            return 0
        return _run(given)
    except (BrokenPipeError, SystemExit):
        # typer and rich turn a closed pipe into an exit: the reader has closed its end.
        starting.forget_output()
        return 0
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  _exit_of raises what is not expected
        sentence, code = _exit_of(error, given)
        _print_notice(sentence)
        return code


_COMPLETES = "_TOLL_COMPLETE"
"""Environment variable that the shell's completion sets; typer then prints words."""


def _run(given: list[str]) -> int:
    """Runs the verb. Returns its exit code."""
    listen(_print_notice)
    _check_whole(given)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if given[:1] in (["time"], ["gate"], ["sweep"]):
        from tollmeter.cli.time import with_joined_values

        given = with_joined_values(given)
    from tollmeter.cli.app import app

    code = int(app(given, prog_name="toll", standalone_mode=False) or 0)
    sys.stdout.flush()
    return code


def _print_notice(sentence: str) -> None:
    from tollmeter.cli.printing import print_notice

    print_notice(sentence)


def clean_of_bytes(word: str) -> str:
    """Returns the word with a mark for each byte that is not UTF-8."""
    return word.encode(errors="surrogateescape").decode(errors="replace")


def _check_whole(given: Sequence[str]) -> None:
    """Raises Failure (2) for an empty word, since an unset variable of a script would select another measurement; and
    for a word that is not UTF-8, since a run's folder is named by it."""
    from tollmeter.model import Failure

    for before, word in pairwise(["", *given]):
        if (shown := clean_of_bytes(word)) != word:
            raise Failure(f"{shown} is not UTF-8: rename it or choose another name")
        option = word.removesuffix("=") if word.startswith("--") and word.endswith("=") else before
        if not word.strip() or option != before:
            of = f"{option} has" if option.startswith("-") else "a word has"
            raise Failure(f"{of} an empty value: is a variable not set?")


def _exit_of(error: BaseException, given: Sequence[str]) -> tuple[str, int]:
    """Returns the message of an error, and the exit code. Raises an unexpected error again."""
    from typer.exceptions import TyperException

    from tollmeter.model import Failure

    if isinstance(error, Failure):
        return error.sentence, error.exit_code
    if isinstance(error, TyperException):
        return _usage(error, given), USAGE
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED  # a second signal, while the first was being answered
    if isinstance(error, UnicodeEncodeError) and error.reason == _SURROGATES:
        around = error.object[max(0, error.start - _AROUND) : error.end + _AROUND]
        return f"a path or word is not UTF-8, and is not supported: {clean_of_bytes(around)}", USAGE
    return _of_the_system(error), INFRASTRUCTURE


def _of_the_system(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"a library cannot be loaded: {str(error).strip().splitlines()[-1]}"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this (ulimit -v, or the control group's limit)"
    if not isinstance(error, OSError):
        raise error
    if _lost_output(error):
        starting.forget_output()
    where = error.filename or ("standard output" if _lost_output(error) else "the system")
    return f"{where}: {error.strerror or error}"


def _usage(error: TyperException, given: Sequence[str]) -> str:
    """Returns the message of a usage error, with the command that prints the verb's help. If the error does not name
    the verb, the first word does."""
    context = getattr(error, "ctx", None)
    first = given[0] if given and not given[0].startswith("-") else ""
    verb = context.command_path.partition(" ")[2] if context else first
    return f"{error.format_message()} (`{typed(*verb.split(), '--help')}`)"


def _lost_output(error: BaseException) -> bool:
    """Returns whether an error is of standard output: a write error without a file name is."""
    return isinstance(error, OSError) and not error.filename and error.errno in _OUTPUT_IS_LOST


# ---- the commit -----------------------------------------------------------------------------------------------------

_STATED = Path(__file__).resolve().parents[1] / "commit"
"""File with the commit, which git writes into an archive (.gitattributes); a wheel of that archive contains it too."""
_UNWRITTEN = "$"


def commit() -> str | None:
    """Returns the short commit, with `-dirty` if a checkout has changes; None if neither an archive nor git
    states it."""
    try:
        stated = _STATED.read_text(encoding="utf-8").strip()
        if not stated.startswith(_UNWRITTEN):
            return stated or None
        return _of_git() if IS_CHECKOUT and (ROOT / ".git").exists() else None
    except (OSError, UnicodeDecodeError):
        return None


def _of_git() -> str | None:
    from tollmeter import commands

    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = commands.run("checkout", words, capture_output=True, text=True)
    return done.stdout.strip() or None
