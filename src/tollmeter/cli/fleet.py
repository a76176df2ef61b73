# SPDX-License-Identifier: Apache-2.0
"""`toll fleet`: many machines at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tollmeter.catalog import check_known, unknown
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_columns, print_notice, print_view, write
from tollmeter.exit_codes import FAILED, TRIPPED
from tollmeter.library.options import DEFAULT_BUDGET
from tollmeter.model import Failure, first_few
from tollmeter.root import typed

if TYPE_CHECKING:
    from tollmeter.fleet.collecting import NodeState
    from tollmeter.fleet.judged import JudgedModel

_FORMATS = ("table", "json", "html", "drain")


def report(
    runs: Annotated[
        list[str], typer.Argument(help="a dataset of `toll export --dataset`, or runs of several machines")
    ],
    *,
    limits: shared.Limits = None,
    every: Annotated[bool, shared.every("the distribution of every row")] = False,
    form: Annotated[str, shared.formats(_FORMATS)] = "table",
    out: Annotated[Path | None, shared.out()] = None,
) -> None:
    """Name the machines that differ from their peers, and how rows are distributed over machines.

    drain: a line for each of these machines, its host name and a reason. The exit code is 3 if there are any."""
    check_known("format", form, _FORMATS)
    from tollmeter.fleet.collecting import judged_machines
    from tollmeter.library.limits import read_limits

    models = judged_machines(runs, read_limits(None, limits).bounds)
    if form == "table" and out is None:
        _print(models, whole=every)
    elif form == "table":
        raise unknown("file format", form, _FORMATS[1:])
    else:
        from tollmeter.fleet import report

        write({"json": report.as_json, "drain": report.drain_reasons, "html": report.page}[form](models), out)
    names = [node for judged in models for named in judged.named for node in named.nodes]
    if names:
        raise Failure(f"unlike its peers: {first_few(names, 1)}", TRIPPED)
    broken = [f"{node}: {row}" for judged in models for node, row in judged.broken]
    if broken:
        raise Failure(f"beyond its limit: {broken[0]}", TRIPPED)


def _print(models: list[JudgedModel], *, whole: bool) -> None:
    from tollmeter.fleet.report import blocks

    print_view(blocks(models, whole=whole))


# ---- jobs -----------------------------------------------------------------------------------------------------------


def submit(
    words: Annotated[
        list[str] | None, typer.Argument(help="suites, probes, globs, NAME=VALUE; after --, options of sbatch")
    ] = None,
    *,
    out: Annotated[Path, shared.out("a new folder that every node has at the same path")],
    nodes: Annotated[str | None, typer.Option(help="node[1-3],node7, or how many [all of the partition]")] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm's partition [the default one]")] = None,
    abi: Annotated[list[str] | None, shared.abi("this CPU's")] = None,
    budget: Annotated[str | None, shared.budget(DEFAULT_BUDGET)] = None,
    precision: shared.Precision = None,
    hosts: Annotated[
        Path | None, typer.Option(help="over ssh, without Slurm: a file with one host in each line")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=256, help="of --hosts: how many measure at a time")] = 8,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the script of the jobs, and submit nothing")
    ] = False,
) -> None:
    """Submit a bundle to Slurm: one exclusive job for each node. With --hosts, measure over ssh and wait."""
    from tollmeter.fleet import jobs
    from tollmeter.library.bundling import BundleRequest

    first = next((at for at, word in enumerate(words or ()) if word.startswith("-")), len(words or ()))
    request = BundleRequest(tuple((words or [])[:first]), ",".join(abi) if abi else None, budget, precision)
    more = (words or [])[first:]
    if hosts:
        if dry_run or partition or nodes or more:
            raise Failure("--hosts measures without Slurm: it goes with --abi, --budget, --precision and --at-once")
        states = jobs.measure_hosts(request, out.resolve(), jobs.hosts_of(hosts), at_once)
        ended = len(states.nodes) - len(states.refused)
        print_notice(f"{ended} of {len(states.nodes)} hosts have measured; `{typed('fleet', 'collect', str(out))}`")
    elif dry_run:
        print(jobs.job_script(request, out.resolve(), jobs.new_name(), partition=partition, more=more), end="")
    else:
        submission = jobs.submit(request, out.resolve(), nodes=nodes, partition=partition, more=more)
        print_notice(
            f"{len(submission.jobs)} jobs named {submission.name}, one for each node; "
            f"`{typed('fleet', 'status', str(out))}`"
        )


def status(
    folder: Annotated[Path, typer.Argument(help="the folder of `toll fleet submit`")],
    *,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
) -> None:
    """Print what each node has measured, and why another has not."""
    from tollmeter.fleet.collecting import node_states

    _print_nodes(node_states(folder.resolve()), form)


def collect(
    folder: Annotated[Path, typer.Argument(help="the folder of `toll fleet submit`")],
    *,
    out: Annotated[Path | None, shared.out("folder of the runs, one for each node [FOLDER/runs]")] = None,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
) -> int:
    """Create a run from each node's complete journal, while jobs run or after."""
    from tollmeter.fleet.collecting import collect_runs as collected

    runs = out or folder / "runs"
    states = collected(folder.resolve(), runs.resolve())
    _print_nodes(states, form)
    whole = sum(state.run is not None for state in states)
    print_notice(f"{whole} of {len(states)} nodes have a run in {runs}")
    return 0 if whole == len(states) else FAILED


def _print_nodes(states: list[NodeState], form: str) -> None:
    names = ("node", "state", "visits", "remarks", "journal", "run")
    rows = [
        (
            state.node, state.state, str(state.attempt.visits if state.attempt else 0), "; ".join(state.remarks),
            str(state.attempt.folder) if state.attempt else "", str(state.run or ""),
        )
        for state in states
    ]  # fmt: skip
    print_columns(names, rows, form, narrow=4, whole=names[:3])


VERBS: dict[str, Callable[..., Any]] = {
    "submit": submit,
    "status": status,
    "collect": collect,
    "report": report,
}
"""Verbs of the group `toll fleet`."""
