# SPDX-License-Identifier: Apache-2.0
"""`toll bill`: the cost of a program's boundary crossings."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_view, write_json
from tollmeter.model import Failure

if TYPE_CHECKING:
    from tollmeter.bill.billed import Billed


def bill(
    command: Annotated[
        list[str] | None, typer.Argument(help="-- COMMAND WORD...; with -- A -- B two commands, interleaved")
    ] = None,
    *,
    try_: Annotated[
        str, typer.Option("--try", help="another command, quoted: what it saves, by interleaved runs")
    ] = "",
    process: Annotated[int | None, typer.Option("--pid", "-p", help="a running process in place of a command")] = None,
    for_: Annotated[str, shared.lasting("the count of a running process")] = "10s",
    way: Annotated[str, typer.Option(help="kernel, notified or usage [the best that is permitted]")] = "",
    budget: Annotated[str | None, shared.budget("10s", "the clean runs")] = None,
    target: Annotated[str, shared.target("local, ssh:HOST, guest:BOARD")] = "local",
    save: Annotated[Path | None, typer.Option(help="a new run folder, for show, report, compare, export")] = None,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
) -> None:
    from tollmeter.bill.printed import blocks
    from tollmeter.catalog import check_known
    from tollmeter.conduct import Watch
    from tollmeter.library import places

    check_known("format", form, shared.TABLE_OR_JSON)
    if process is not None and (command or try_ or target != "local"):
        raise Failure("--pid counts a process that runs on this machine: no command is started beside it")
    began, watch = time.monotonic(), Watch(os.sched_getaffinity(0))
    if process is not None:
        billed = _of_process(process, for_)
    else:
        billed = _of_commands(command or [], try_, way, budget, target)
    if save:
        from tollmeter.bill.saved import save_bills as keep
        from tollmeter.store.journal import Session

        # Surroundings are recorded only of commands that this process starts on this machine.
        surroundings = watch.seen() if process is None and target == "local" else None
        keep(billed, save, sys.argv[2:], Session("settled", time.monotonic() - began, None, surroundings), target)
        places.set_last_run(save)
    if form == "json":
        write_json(billed)
    else:
        print_view(blocks(billed))


def _of_process(process: int, for_: str) -> tuple[Billed, ...]:
    from tollmeter.bill.billed import billed_process
    from tollmeter.library.options import seconds

    return (billed_process(process, seconds(for_)),)


def _of_commands(command: list[str], try_: str, way: str, budget: str | None, target: str) -> tuple[Billed, ...]:
    from tollmeter.bill.billed import BUDGET_S, billed, runner_of
    from tollmeter.bill.crossings import WAYS
    from tollmeter.catalog import check_known
    from tollmeter.library.options import seconds
    from tollmeter.library.typed_commands import NO_SHELL, words_of
    from tollmeter.targets.timer import Words

    if way:
        check_known("way", way, WAYS)
    typed = _several(command)
    if try_ and len(typed) > 1:
        raise Failure("--try is for one command: `toll bill --try 'B' -- A`, or `toll bill -- A -- B`")
    if not target.startswith("ssh:"):
        several = [words_of(shlex.join(words), NO_SHELL)[0] for words in typed]
    else:
        several = [Words(words[0], tuple(words)) for words in typed]
    several += [words_of(try_, None)[0]] if try_ else []
    ways = [known_way for known_way in WAYS if way in ("", known_way)]
    with runner_of(target, several) as runner:
        return billed(runner, several, seconds(budget) if budget else BUDGET_S, ways)


def _several(words: list[str]) -> list[list[str]]:
    """Returns the commands between `--`; typer removes the first `--`. Raises Failure (2)."""
    several: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            several.append([])
        else:
            several[-1].append(word)
    if not all(several) or len(several) > 2:
        raise Failure("a command is missing: `toll bill -- dd if=/dev/zero of=/dev/null bs=1 count=100000`")
    return several
