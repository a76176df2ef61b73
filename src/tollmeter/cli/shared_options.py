# SPDX-License-Identifier: Apache-2.0
"""The options that several verbs have, each declared once. Text in brackets is the default."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

TABLE_OR_JSON = ("table", "json")

ANYWHERE = "local, qemu-user, guest:x32, ssh:HOST"

Beside = Annotated[bool, typer.Option("--beside", help="do not wait for another run on this machine")]
Cpus = Annotated[str | None, typer.Option(help="CPUs to measure on: 0,2 or 4-7")]
Exported = Annotated[Path | None, typer.Option(help="results as hyperfine writes them; -: to stdout")]
Judged = Annotated[str | None, typer.Option("--run", help="judge this run, and measure nothing")]
Limit = Annotated[str | None, typer.Option(help="how much slower a row may be [5%, or the file's]")]
Limits = Annotated[Path | None, typer.Option(help="a TOML file with limits for patterns of rows")]
Peers = Annotated[
    list[str] | None,
    typer.Option(help="where this machine stands among others: a run, a file of `toll publish`, or their folder"),
]
Precision = Annotated[str | None, typer.Option(help="target half-width of each 95 % interval: 2% [3%]")]
Priority = Annotated[str | None, typer.Option(help="scheduling of probes: real-time or normal [real-time]")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress")]
ScratchFolder = Annotated[Path | None, typer.Option(help="scratch folder, on the disk to measure [the run's]")]
Seed = Annotated[int | None, typer.Option(help="seed of each random order and of memory layouts")]
Trust = Annotated[list[Path] | None, typer.Option(help="allow this suite or ABI file to run commands")]

ParameterList = Annotated[
    list[str] | None,
    typer.Option("--parameter-list", "-L", metavar="VAR VALUES", help="values of VAR: a,b,c"),
]
ParameterScan = Annotated[
    list[str] | None,
    typer.Option("--parameter-scan", "-P", metavar="VAR MIN MAX", help="values of VAR from MIN to MAX"),
]
ParameterStep = Annotated[str | None, typer.Option("--parameter-step-size", "-D", help="step of the scan [1]")]


def abi(usual: str) -> Any:
    return typer.Option("--abi", help=f"ABIs: x86_64,ia32 [{usual}]")


def explain(what: str) -> Any:
    return typer.Option("--explain", help=what)


def budget(usual: str, of: str = "a run") -> Any:
    """Returns the option --budget. usual: the default, as typed. of: the measurement that the budget limits."""
    return typer.Option("--budget", help=f"wall time of {of}: 30s, 2m [{usual}]")


def every(shown: str) -> Any:
    return typer.Option("--all", help=shown)


def formats(names: Sequence[str]) -> Any:
    return typer.Option("--format", help=", ".join(names))


def lasting(of: str) -> Any:
    return typer.Option("--for", help=f"duration of {of}")


def out(written: str = "file to write [standard output]") -> Any:
    return typer.Option("--out", "-o", help=written)


def target(where: str = ANYWHERE) -> Any:
    return typer.Option("--target", help=f"where: {where}")
