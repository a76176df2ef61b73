# SPDX-License-Identifier: Apache-2.0
"""`toll casts`: where a C tree lays a type over bytes that may not be aligned for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import Columns, print_columns, say
from tollmeter.model import Abi, Failure

STRICT = ("sparc64", "mipsel", "arm-soft")
"""ABIs whose CPUs trap, or do not load what was asked for; the first that can be compiled here is taken."""
UNREAD = 1


def casts(
    folder: Annotated[Path, typer.Argument(help="a tree with its compile_commands.json, or that file")],
    *,
    abi: Annotated[
        str | None, typer.Option(help=f"a strict ABI [the first of {', '.join(STRICT)} that is here]")
    ] = None,
    by: Annotated[str | None, typer.Option(help="a probe made of this tree: the casts it runs most come first")] = None,
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
) -> int:
    """List the casts of a C tree that a strict CPU would trap at, worst first."""
    from tollmeter.toolchain.casts import casts as found_casts
    from tollmeter.toolchain.casts import ranked, units_of

    units = units_of(folder)
    chosen, compiler = _compiler(abi)
    found = found_casts(units, chosen, compiler)
    rows = ranked(found.casts, _hits(by) if by else {})
    cells = [(f"{one.file}:{one.line}", str(one.hits) if by else "", one.said) for one in rows]
    if cells or form != "table":
        print_columns(Columns(("place", "times", "cast"), cells, whole=("place", "times")), form)
    for file, trouble in found.troubles.items():
        say(f"{file} cannot be read as {chosen.name} has it: {trouble}")
    read = _read_of(found.units, len(found.troubles))
    say(
        f"{len(rows)} casts in {read} files, by {compiler} for {chosen.name}; what is cast from void * or by "
        "way of an integer is not among them, since the compiler takes it for aligned"
    )
    return UNREAD if found.units and len(found.troubles) == found.units else 0


def _read_of(units: int, troubles: int) -> str:
    """How many files were read, and of how many where not all were."""
    return f"{units - troubles} of {units}" if troubles else str(units)


def _compiler(name: str | None) -> tuple[Abi, str]:
    """Raises Failure: 2 for a name that no file has, 5 where it cannot be compiled here."""
    from tollmeter.library.places import ROOT
    from tollmeter.toolchain.abis import find
    from tollmeter.toolchain.build import Gap, find_compiler
    from tollmeter.toolchain.packages import install

    known = find(ROOT).abis
    if name is not None and name not in known:
        raise unknown("ABI", name, tuple(known))
    for one in (name,) if name else STRICT:
        compiler = find_compiler(known[one])
        if isinstance(compiler, str):
            return known[one], compiler
    first = known[name or STRICT[0]]
    gap = find_compiler(first)
    if isinstance(gap, Gap) and install(ROOT, gap.packages):
        gap = find_compiler(first)
    if isinstance(gap, Gap):
        raise Failure(f"{first.name} cannot be compiled here: {gap.reason}. {gap.mend}", 5)
    return first, gap


def _hits(probe: str) -> dict[tuple[str, int], int]:
    """How often each line was met while a probe ran. Raises Failure where it has no profile."""
    from tollmeter.library.profiling import lines_of

    return lines_of(probe)
