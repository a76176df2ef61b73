# SPDX-License-Identifier: Apache-2.0
"""`toll layout`: how ABIs lay out their types, side by side, and what the differences break."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import TableColumns, print_columns, print_notice
from tollmeter.library.places import ROOT
from tollmeter.model import Abi, Failure
from tollmeter.toolchain import abis
from tollmeter.toolchain.build import build_layout
from tollmeter.toolchain.packages import brought
from tollmeter.toolchain.type_layout import Fact, differences, double_order, read_layout, table

BREAKS = {"": "", "code": "~", "file": "!"}


def layout(
    abi: Annotated[str, typer.Option(help="ABIs to compare, separated by commas")] = "x86_64,ia32",
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    only: Annotated[str, typer.Option(help="all facts, or differences")] = "all",
) -> None:
    """Print the type layouts of ABIs side by side, and mark what differs."""
    check_known("choice", only, ("all", "differences"))
    known = {name: _known(name) for name in dict.fromkeys(abi.split(","))}
    compilers = brought(ROOT, known)
    layouts = {name: _facts(known[name], compilers[name]) for name in known}
    facts = table(layouts)
    apart = differences(facts)
    rows = [_cells(fact) for fact in (facts if only == "all" else apart)]
    columns = ("fact", *layouts, "breaks")
    marked = [(name, *values, breaks if form == "json" else BREAKS[breaks]) for name, values, breaks in rows]
    print_columns(TableColumns(columns, marked, narrow=len(columns), whole=columns[1:]), form)
    if form == "table":
        _print_what_breaks(apart, tuple(layouts))


def _known(name: str) -> Abi:
    """Raises Failure (2) for a name that no file has."""
    known = abis.find(ROOT, [name])
    if name in known.refused:
        raise Failure(known.refused[name])
    check_known("ABI", name, tuple(known.abis))
    return known.abis[name]


def _facts(abi: Abi, compiler: str) -> dict[str, str]:
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "layout.o"
        build_layout(ROOT, abi, compiler, path)
        return read_layout(path)


def _cells(fact: Fact) -> tuple[str, tuple[str, ...], str]:
    values = tuple(map(double_order, fact.values)) if fact.name.startswith("double") else fact.values
    return fact.name, values, fact.breaks


def _print_what_breaks(apart: tuple[Fact, ...], names: tuple[str, ...]) -> None:
    if len(names) < 2:
        return
    in_files = sum(fact.breaks == "file" for fact in apart)
    print_notice(
        f"{len(apart)} facts differ between {', '.join(names)}; {in_files} of them (!) break a file or wire format "
        "that holds the type as it lies in memory, the others (~) only code that assumes the number"
    )
