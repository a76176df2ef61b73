# SPDX-License-Identifier: Apache-2.0
"""`toll layout`: how ABIs lay out their types, side by side, and what the differences break."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import TableColumns, print_columns, say
from tollmeter.library.places import ROOT
from tollmeter.model import Abi, Failure
from tollmeter.toolchain import abis
from tollmeter.toolchain.build import Gap, build_layout, find_compiler
from tollmeter.toolchain.packages import install
from tollmeter.toolchain.type_layout import Fact, differences, double_order, read_layout, table

BREAKS = {"": "", "code": "~", "file": "!"}


def layout(
    abi: Annotated[str, typer.Option(help="ABIs to lay side by side, with commas between")] = "x86_64,ia32",
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    only: Annotated[str, typer.Option(help="all facts, or differences")] = "all",
) -> None:
    """Lay the types of ABIs side by side, and mark what differs."""
    if only not in ("all", "differences"):
        raise unknown("choice", only, ("all", "differences"))
    known = {name: _known(name) for name in dict.fromkeys(abi.split(","))}
    compilers = _compilers(known)
    layouts = {name: _facts(known[name], compilers[name]) for name in known}
    facts = table(layouts)
    apart = differences(facts)
    rows = [_cells(fact) for fact in (facts if only == "all" else apart)]
    columns = ("fact", *layouts, "breaks")
    marked = [(name, *values, breaks if form == "json" else BREAKS[breaks]) for name, values, breaks in rows]
    print_columns(TableColumns(columns, marked, narrow=len(columns), whole=columns[1:]), form)
    if form == "table":
        _say_what_breaks(apart, tuple(layouts))


def _known(name: str) -> Abi:
    """Raises Failure (2) for a name that no file has."""
    known = abis.find(ROOT, [name])
    if name in known.refused:
        raise Failure(known.refused[name])
    if name not in known.abis:
        raise unknown("ABI", name, tuple(known.abis))
    return known.abis[name]


def _compilers(known: Mapping[str, Abi]) -> dict[str, str]:
    """Missing compilers are installed, all at once. Raises Failure (5) where one cannot be, with the command that
    would."""
    compilers = {name: find_compiler(abi) for name, abi in known.items()}
    gaps = [compiler for compiler in compilers.values() if isinstance(compiler, Gap)]
    if install(ROOT, [package for gap in gaps for package in gap.packages]):
        compilers.update({gap.abi: find_compiler(known[gap.abi]) for gap in gaps})
    for name, compiler in compilers.items():
        if isinstance(compiler, Gap):
            raise Failure(f"{name} cannot be compiled here: {compiler.reason}. {compiler.mend}", 5)
    return {name: compiler for name, compiler in compilers.items() if isinstance(compiler, str)}


def _facts(abi: Abi, compiler: str) -> dict[str, str]:
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "layout.o"
        build_layout(ROOT, abi, compiler, path)
        return read_layout(path)


def _cells(fact: Fact) -> tuple[str, tuple[str, ...], str]:
    values = tuple(map(double_order, fact.values)) if fact.name.startswith("double") else fact.values
    return fact.name, values, fact.breaks


def _say_what_breaks(apart: tuple[Fact, ...], names: tuple[str, ...]) -> None:
    if len(names) < 2:
        return
    in_files = sum(fact.breaks == "file" for fact in apart)
    say(
        f"{len(apart)} facts differ between {', '.join(names)}; {in_files} of them (!) break a file or wire format "
        "that holds the type as it lies in memory, the others (~) only code that assumes the number"
    )
