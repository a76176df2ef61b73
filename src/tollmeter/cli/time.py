# SPDX-License-Identifier: Apache-2.0
"""`toll time`: the time of commands, against each other."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import STANDARD_OUTPUT, print_notice, write
from tollmeter.exit_codes import FAILED, INTERRUPTED
from tollmeter.library.options import TimeOptions, seconds, share, statuses
from tollmeter.model import Failure, Results

if TYPE_CHECKING:
    from tollmeter.library.typed_commands import Command

_SHOWS_EVERY_S = 0.2
_VALUES = {"-P": 3, "--parameter-scan": 3, "-L": 2, "--parameter-list": 2}
"""Number of values of each option that has several, which typer cannot read."""
_BETWEEN = "\x1f"
"""Separator of these values in one word."""


def timing(
    *,
    warmup: Annotated[int, typer.Option("--warmup", "-w", help="untimed runs of each command")] = 0,
    runs: Annotated[int | None, typer.Option("--runs", "-r", help="exact number of runs of each command")] = None,
    min_runs: Annotated[int | None, typer.Option("--min-runs", "-m", help="minimum number of runs [10]")] = None,
    max_runs: Annotated[int | None, typer.Option("--max-runs", "-M", help="maximum number of runs")] = None,
    budget: Annotated[str | None, shared.budget("20s", "a measurement")] = None,
    timeout: Annotated[str | None, typer.Option(help="end a run that takes longer, which fails: 5s [none]")] = None,
    prepare: Annotated[list[str] | None, typer.Option("--prepare", "-p", help="command before each run")] = None,
    conclude: Annotated[list[str] | None, typer.Option("--conclude", "-C", help="command after each run")] = None,
    setup: Annotated[str, typer.Option("--setup", "-s", help="command before the first run of each")] = "",
    cleanup: Annotated[str, typer.Option("--cleanup", "-c", help="command after the last run of each")] = "",
    verify: Annotated[str, typer.Option(help="command that checks each run's output")] = "",
    shell: Annotated[str | None, typer.Option("--shell", "-S", help="shell that runs every command")] = None,
    no_shell: Annotated[bool, typer.Option("--no-shell", "-N", help="run every command without a shell")] = False,
    ignore: Annotated[
        str,
        typer.Option(
            "--ignore-failure", "-i", metavar="[=STATUS,...]", help="also count runs that fail, or with these statuses"
        ),
    ] = "",
    input_: Annotated[str, typer.Option("--input", help="standard input of the commands [/dev/null]")] = "",
    output: Annotated[str, typer.Option(help="their output: null, pipe, inherit, or a file [kept and compared]")] = "",
    metrics: Annotated[
        str, typer.Option(help="also count these: cycles,instructions,cache-misses,page-faults,...; a gate judges one")
    ] = "",
    beside: shared.Beside = False,
) -> TimeOptions:
    """Returns how commands are measured: the options that `toll time` and `toll gate` share."""
    if no_shell and shell:
        raise Failure("--no-shell and --shell contradict each other")
    from tollmeter.library.command_metrics import metrics_named

    return TimeOptions(
        warmup=warmup, runs=runs, min_runs=min_runs, max_runs=max_runs, budget_s=seconds(budget) if budget else None,
        timeout_s=seconds(timeout, "--timeout") if timeout else 0.0, prepare=tuple(prepare or ()),
        conclude=tuple(conclude or ()), setup=setup, cleanup=cleanup, verify=verify,
        shell="none" if no_shell else shell,
        allowed=statuses(ignore), input=_input_file(input_), output=output, metrics=metrics_named(metrics),
        beside=beside,
    )  # fmt: skip


def takes_timing(verb: Callable[..., int | None]) -> Callable[..., int | None]:
    """Returns the verb with the options of `timing` in place of its parameter `how`."""
    verb_parameters, timing_parameters = (
        inspect.signature(function, eval_str=True).parameters for function in (verb, timing)
    )

    @functools.wraps(verb)
    def taking(*args: Any, **options: Any) -> int | None:
        how = timing(**{name: options.pop(name) for name in timing_parameters if name in options})
        return verb(*args, how=how, **options)

    before, after = (
        [*verb_parameters.values()][: [*verb_parameters].index("how")],
        [*verb_parameters.values()][[*verb_parameters].index("how") + 1 :],
    )
    taking.__signature__ = inspect.Signature([*before, *timing_parameters.values(), *after])  # type: ignore[attr-defined]
    taking.__annotations__ = {}
    return taking


@takes_timing
def time_(
    commands: Annotated[
        list[str] | None, typer.Argument(help="commands, each quoted as one argument; the first is the reference")
    ] = None,
    *,
    how: TimeOptions,
    precision: Annotated[
        str, typer.Option(help="target half-width of intervals, and the least difference reported")
    ] = "3%",
    scan: shared.ParameterScan = None,
    step: shared.ParameterStep = None,
    lists: shared.ParameterList = None,
    names: Annotated[list[str] | None, typer.Option("--command-name", "-n", help="name of a command")] = None,
    export_json: shared.Exported = None,
    export_csv: shared.Exported = None,
    export_markdown: shared.Exported = None,
    import_: Annotated[Path | None, typer.Option("--import", help="results of hyperfine to compare")] = None,
    out: Annotated[Path | None, shared.out("the run's folder [runs/DATE-time]")] = None,
) -> int:
    if import_:
        return _imported(import_, commands or [])
    from tollmeter.library.typed_commands import commands_of, parameter_sets

    if not commands:
        raise Failure("a command is missing: `toll time 'sleep 0.1'`")
    sets = parameter_sets(split_values(scan, 3), step, split_values(lists, 2))
    options = how._replace(words=tuple(sys.argv[2:]), precision=share(precision), out=out)
    exports = {"json": export_json, "csv": export_csv, "markdown": export_markdown}
    typed = commands_of(commands, names or [], sets, options.shell)
    return _measured(typed, options, {form: path for form, path in exports.items() if path})


def with_joined_values(words: Sequence[str]) -> list[str]:
    """Returns the command line of `time`, `gate` and `sweep` in words that typer reads: the values of -P and -L in one
    word each, and -i with its value."""
    left, joined_words = [*words], []
    while left:
        word = left.pop(0)
        values = _VALUES.get(word, 0)
        if values and left:
            joined_words += [word, _BETWEEN.join(left[:values])]
        elif match := re.fullmatch(r"(?:-(N?)i|--ignore-failure)(?:=(.*))?", word):
            joined_words += [*(["-N"] if match[1] else []), f"--ignore-failure={match[2] or 'all-non-zero'}"]
        else:
            joined_words.append(word)
        del left[:values]
        if word == "--":
            return joined_words + left
    return joined_words


def split_values(words: Sequence[str] | None, values: int) -> list[tuple[str, ...]]:
    several = [tuple(word.split(_BETWEEN)) for word in words or ()]
    if any(len(parts) != values for parts in several):
        raise Failure(f"expected {'VAR MIN MAX' if values == 3 else 'VAR VALUES'} after the parameter option")
    return several


def _input_file(name: str) -> str:
    if name and name != "null" and not Path(name).is_file():
        raise Failure(f"--input {name}: there is no such file")
    return "" if name == "null" else name


def _imported(path: Path, commands: Sequence[str]) -> int:
    from tollmeter.library.hyperfine import compared_sentences, read_results

    if commands:
        raise Failure("--import compares stored times, and starts no command")
    for line in compared_sentences(read_results(path)):
        print(line)
    return 0


def _measured(commands: Sequence[Command], options: TimeOptions, exports: dict[str, Path]) -> int:
    from tollmeter.conduct import Stopping
    from tollmeter.library import places
    from tollmeter.library.command_metrics import uncounted_sentences
    from tollmeter.library.derive import open_run
    from tollmeter.library.timed import timed

    with Stopping(answer=lambda: sys.stderr.write("\ntoll: ending; once more ends at once\n")) as stopping:
        done = timed(commands, options, stopping, _progress())
        places.set_last_run(done.folder)
        results = open_run(done.folder)
        # If an export goes to standard output, a program reads it, and the answer goes to standard error.
        answer = sys.stderr if STANDARD_OUTPUT in exports.values() else sys.stdout
        _print(results, commands, options, answer)
        for sentence in uncounted_sentences(done.uncounted):
            print(f"{sentence}.", file=answer)
        print(f"Run  {done.folder}", file=answer)
        _export(results, commands, exports)
    if done.session.reason:
        print_notice(done.session.reason)
    if stopping.asked:
        return INTERRUPTED
    uncompared = results.index.run.uncompared
    if uncompared and not done.session.reason:
        print_notice(f"not compared: {uncompared[0].reason}")
    return FAILED if done.session.reason or uncompared else 0


def _progress() -> Callable[[int, float], None]:
    """Returns a function that draws progress on one line of a terminal, between two runs."""
    shown_at = time.monotonic()

    def show(rounds: int, share: float) -> None:
        nonlocal shown_at
        if sys.stderr.isatty() and time.monotonic() - shown_at >= _SHOWS_EVERY_S:
            sys.stderr.write(f"\r{rounds} rounds, {100 * min(1.0, share):.0f} % of the budget \r")
            shown_at = time.monotonic()

    return show


def _print(results: Results, commands: Sequence[Command], options: TimeOptions, answer: TextIO) -> None:
    from tollmeter.library.timed import BUDGET_S
    from tollmeter.model import printable
    from tollmeter.report.timed import lines

    shells = {command.name: command.shell for command in commands}
    for line in lines(results, shells, options.precision, options.budget_s or BUDGET_S, options.metrics):
        print(printable(line), file=answer)


def _export(results: Results, commands: Sequence[Command], exports: dict[str, Path]) -> None:
    from tollmeter.library.hyperfine import as_csv, as_json, as_markdown, results_of

    forms = {"json": as_json, "csv": as_csv, "markdown": as_markdown}
    for form, path in exports.items():
        write(forms[form](results_of(commands, results.outcomes)), path)
