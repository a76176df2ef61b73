# SPDX-License-Identifier: Apache-2.0
"""`toll layout`: how ABIs lay out their types, side by side, and what the differences break."""

from __future__ import annotations

from typing import Annotated

import typer

from tollmeter import abis
from tollmeter.build import Gap, build_layout, find_compiler
from tollmeter.catalog import unknown
from tollmeter.cli.places import ROOT
from tollmeter.cli.printing import Columns, print_columns, say
from tollmeter.layout import Fact, differences, double_order, read_layout, table
from tollmeter.model import Failure

BREAKS = {"": "", "code": "~", "file": "!"}


def layout(
    abi: Annotated[str, typer.Option(help="ABIs to lay side by side, with commas between")] = "x86_64,ia32",
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    only: Annotated[str, typer.Option(help="all facts, or differences")] = "all",
) -> None:
    """Lay the types of ABIs side by side, and mark what differs."""
    if only not in ("all", "differences"):
        raise unknown("choice", only, ("all", "differences"))
    layouts = {name: _laid_out(name) for name in dict.fromkeys(abi.split(","))}
    facts = table(layouts)
    apart = differences(facts)
    rows = [_cells(fact) for fact in (facts if only == "all" else apart)]
    columns = ("fact", *layouts, "breaks")
    marked = [(name, *values, breaks if form == "json" else BREAKS[breaks]) for name, values, breaks in rows]
    print_columns(Columns(columns, marked, narrow=len(columns)), form)
    if form == "table":
        _say_what_breaks(apart, tuple(layouts))


def _laid_out(name: str) -> dict[str, str]:
    """Raises Failure: 2 for a name that no file has, 5 where its compiler is missing, with the line that mends it."""
    found = abis.find(ROOT)
    if name in found.refused:
        raise Failure(found.refused[name])
    if name not in found.abis:
        raise unknown("ABI", name, tuple(found.abis))
    compiler = find_compiler(found.abis[name])
    if isinstance(compiler, Gap):
        mend = f"apt-get install --no-install-recommends {' '.join(compiler.packages)}"
        raise Failure(f"{name} cannot be compiled here: {compiler.reason}. {mend}", 5)
    return read_layout(build_layout(ROOT, found.abis[name], compiler))


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
