# SPDX-License-Identifier: Apache-2.0
"""The commands of `toll time` as typed: parameters, names, and whether a shell reads them."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from tollmeter.catalog import unknown
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.root import typed
from tollmeter.targets.timer import Words

SHELL = "/bin/sh"
NO_SHELL = "none"
_QUOTED = re.compile(r"""'[^']*'|"((?:[^"\\]|\\.)*)"|\\.""", re.DOTALL)
_OF_A_SHELL = re.compile(r"[|&;<>()*?\[\]$`\n]|(?:^|\s)[~#!{}]|^\s*\w+=")
_BUILT_IN = re.compile(
    r":|\.|break|cd|command|continue|eval|exec|exit|export|read|readonly|return|set|shift|times|trap|type|ulimit|umask"
    r"|unset|wait"
)
_MOST_COMMANDS = 1000


class Command(NamedTuple):
    """A command to time. name: unique, as shown. text: as typed, with parameters replaced. shell: empty if it is
    started directly. place: its index among all commands that the timer starts; hooks: the indices of its hooks
    (setup, prepare, conclude, cleanup, verify), if they were typed."""

    name: str
    text: str
    words: Words
    shell: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    place: int = 0
    hooks: Mapping[str, int] = {}


def needs_shell(text: str) -> bool:
    """Returns whether a text has shell syntax other than quotes and backslashes."""

    def unquoted(match: re.Match[str]) -> str:
        return "$" if match[1] and re.search("[$`]", match[1]) else "x"

    return bool(_OF_A_SHELL.search(_QUOTED.sub(unquoted, text)))


def words_of(text: str, shell: str | None) -> tuple[Words, str]:
    """Returns the words that start a command, and the shell that reads it, empty if none does. text: the command as
    typed. shell: as typed; None to use a shell only if the command needs one. Raises Failure (2) if the executable is
    not found."""
    try:
        words = shlex.split(text)
        shell_words = shlex.split(shell) if shell not in (None, NO_SHELL) else [SHELL]
    except ValueError as error:
        raise Failure(f"{text!r}: {str(error).lower()}") from error
    if not words or not shell_words:
        raise Failure("a command is empty: is a variable not set?")
    is_built_in = bool(_BUILT_IN.fullmatch(words[0])) and not shutil.which(words[0])
    if shell != NO_SHELL and (shell or needs_shell(text) or is_built_in):
        return Words(_path(shell_words[0]), (*shell_words, "-c", text)), " ".join(shell_words)
    return Words(_path(words[0]), tuple(words)), ""


def _path(name: str) -> str:
    """Returns the path of an executable, searched once so that no timed execution includes the search. Raises Failure
    (2)."""
    path = shutil.which(name)
    if path:
        return path
    if "/" in name:
        raise Failure(
            f"{clean(name)} does not exist" if not Path(name).exists() else f"{clean(name)} is not executable"
        )
    known: list[str] = []
    for folder in os.get_exec_path():
        if os.path.isdir(folder) and os.access(folder, os.R_OK):  # noqa: PTH112  Path.is_dir raises where it is denied
            known += os.listdir(folder)  # noqa: PTH208  the names alone
    raise unknown("command", name, sorted(known))


def commands_of(
    texts: Sequence[str], names: Sequence[str], parameters: Sequence[tuple[tuple[str, str], ...]], shell: str | None
) -> list[Command]:
    """Returns each text once for each set of the parameters that it names. names: names of the texts, which may contain
    parameters too, or of the resulting commands. Raises Failure (2)."""
    filled = [
        (fill(text, used), used, fill(names[place], used) if len(names) == len(texts) else "")
        for place, text in enumerate(texts)
        for used in dict.fromkeys(
            tuple(pair for pair in parameter_set if f"{{{pair[0]}}}" in text) for parameter_set in parameters
        )
    ]
    if len(names) > len(filled) or len(filled) > _MOST_COMMANDS:
        raise Failure(
            f"{len(filled)} commands and {len(names)} names: at most {_MOST_COMMANDS}, and no more names than commands"
        )
    left = [] if len(names) == len(texts) else [*names]
    shown = unique([clean(name or (left.pop(0) if left else text)) for text, _, name in filled])
    read = [_words_after(texts, text, shell) for text, *_ in filled]
    return [
        Command(name, text, words, by, used)
        for name, (text, used, _), (words, by) in zip(shown, filled, read, strict=True)
    ]


def _words_after(texts: Sequence[str], text: str, shell: str | None) -> tuple[Words, str]:
    """Returns the result of `words_of` for one text. texts: all typed texts: if each is one word, they may be the words
    of one command."""
    try:
        return words_of(text, shell)
    except Failure as failure:
        if text == texts[0] or any(" " in word for word in texts):
            raise
        whole = typed("time", " ".join(texts))
        raise Failure(f"{clean(text)} is not a command. Quote a command with its words: {whole}") from failure


def fill(text: str, parameters: Iterable[tuple[str, str]]) -> str:
    for name, value in parameters:
        text = text.replace(f"{{{name}}}", value)
    return text


def unique(names: Sequence[str]) -> list[str]:
    """Returns the names, with a number added to a repeated one."""
    occurrences: dict[str, int] = {}
    unique_names = []
    for name in names:
        occurrences[name] = occurrences.get(name, 0) + 1
        unique_names.append(name if occurrences[name] == 1 else f"{name} ({occurrences[name]})")
    return unique_names


def parameter_sets(
    scans: Sequence[Sequence[str]], step: str | None, lists: Sequence[Sequence[str]]
) -> list[tuple[tuple[str, str], ...]]:
    """Returns every combination of the parameters' values; one empty set without parameters. Raises Failure (2)."""
    values: Mapping[str, Sequence[str]] = {
        **{name: scanned(name, low, high, step) for name, low, high in scans},
        **{name: text.split(",") for name, text in lists},
    }
    if len(values) < len(scans) + len(lists):
        raise Failure("a parameter is given twice: give each parameter one -L or -P")
    if step and not scans:
        raise Failure("--parameter-step-size needs --parameter-scan")
    sets = itertools.product(*([(name, value) for value in several] for name, several in values.items()))
    return [*itertools.islice(sets, _MOST_COMMANDS + 1)]


def scanned(name: str, low: str, high: str, step: str | None) -> list[str]:
    """Returns the values from low to high, both included. Decimal arithmetic keeps 0.1 exact."""
    try:
        first, last, by = Decimal(low), Decimal(high), Decimal(step or "1")
        count = int((last - first) / by) if by > 0 else -1
    except (InvalidOperation, OverflowError) as error:
        raise Failure(f"--parameter-scan {name} {low} {high}: expected numbers") from error
    if not 0 <= count < _MOST_COMMANDS:
        raise Failure(
            f"--parameter-scan {name} {low} {high}: expected a step above 0 and at most {_MOST_COMMANDS} values"
        )
    return [str(first + place * by) for place in range(count + 1)]
