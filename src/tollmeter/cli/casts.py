# SPDX-License-Identifier: Apache-2.0
"""`toll casts`: where a C tree lays a type over bytes that may not be aligned for it."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import TableColumns, print_columns, print_notice
from tollmeter.model import Abi

if TYPE_CHECKING:
    from tollmeter.toolchain.misaligned_casts import Cast

STRICT = ("sparc64", "mipsel", "arm-soft")
"""ABIs whose CPUs trap on a misaligned access, or load other bytes; the first that can be compiled here is used."""
UNREAD = 1


def casts(
    folder: Annotated[Path, typer.Argument(help="a tree with its compile_commands.json, or that file")],
    *,
    abi: Annotated[
        str | None, typer.Option(help=f"a strict ABI [the first of {', '.join(STRICT)} that is here]")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="a probe of this tree, and NAME=VALUE: the casts that it runs most come first"),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
) -> int:
    """List C casts that trap on strict-alignment CPUs, worst first."""
    from tollmeter.toolchain.misaligned_casts import casts as found_casts
    from tollmeter.toolchain.misaligned_casts import ranked, units_of

    units = units_of(folder)
    chosen, compiler = _compiler(abi)
    survey = found_casts(units, chosen, compiler)
    met = None
    if by:
        from tollmeter.library.profiling import lines_of

        met = lines_of(by.split())
    rows = ranked(survey.casts, met)
    if rows or form != "table":
        cells = [_cells(cast) for cast in rows]
        names = ("times", "place", "through", "source", "cast")
        first = 0 if by else 1
        shown = TableColumns(names[first:], [line[first:] for line in cells], narrow=4 - first, whole=names[:3])
        print_columns(shown, form)
    for file, trouble in survey.troubles.items():
        print_notice(f"{file} cannot be read as {chosen.name} has it: {trouble}")
    unread = len(survey.troubles)
    read = f"{survey.units - unread} of {survey.units}" if unread else str(survey.units)
    through = sum(cast.through_void for cast in rows)
    print_notice(
        f"{len(rows) - through} casts in {read} files, and {through} more through void *, which may be aligned by who "
        f"made what it points at; by {compiler} for {chosen.name}. What goes by way of an integer is not among them"
    )
    return UNREAD if survey.units and len(survey.troubles) == survey.units else 0


def _cells(cast: Cast) -> tuple[str, ...]:
    source = linecache.getline(cast.file, cast.line).strip()
    return str(cast.hits), f"{cast.file}:{cast.line}", "void *" if cast.through_void else "", source, cast.message


def _compiler(name: str | None) -> tuple[Abi, str]:
    """Raises Failure: 2 for a name that no file has, 5 where it cannot be compiled here."""
    from tollmeter.library.places import ROOT
    from tollmeter.toolchain.abis import find
    from tollmeter.toolchain.build import find_compiler
    from tollmeter.toolchain.packages import brought

    known = find(ROOT).abis
    if name is not None and name not in known:
        raise unknown("ABI", name, tuple(known))
    for candidate in (name,) if name else STRICT:
        compiler = find_compiler(known[candidate])
        if isinstance(compiler, str):
            return known[candidate], compiler
    first = known[name or STRICT[0]]
    return first, brought(ROOT, {first.name: first})[first.name]
