# SPDX-License-Identifier: Apache-2.0
"""Imports flow one way, as the table of docs/architecture.md has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tidy.house import hold, text, under

TABLE = "docs/architecture.md"
PACKAGE = "src/tollmeter/"
ARROW = " -> "


def allowed() -> dict[str, set[str]]:
    """Who may import whom: `a, b -> c d`, several to a line. An empty set for `(nothing)`."""
    cells = [cell for line in text(TABLE).splitlines() if ARROW in line for cell in re.split(r"\s{2,}", line)]
    table: dict[str, set[str]] = {}
    for cell in filter(lambda cell: ARROW in cell, cells):
        owners, _, others = cell.partition(ARROW)
        for owner in owners.split(","):
            table[owner.strip()] = set(re.findall(r"\w+", others.replace("(nothing)", "")))
    return table


def imports(source: str) -> Iterator[str]:
    """The parts of Tollmeter that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            top, _, rest = name.partition(".")
            if top == "tollmeter" and rest and not rest.startswith("_"):
                yield rest.partition(".")[0]


def complaints(name: str, source: str, table: dict[str, set[str]]) -> Iterator[str]:
    owner = name.removeprefix(PACKAGE).partition("/")[0].removesuffix(".py")
    if owner.startswith("__"):
        return
    if owner not in table:
        yield f"{name}: {owner} has no line in the table of {TABLE}; give it one"
        return
    may = table[owner] | {owner}
    for part in set(imports(source)) - may:
        if "everything" not in may:
            yield f"{name} imports {part}, which {TABLE} does not allow; move the code, or mend the structure first"


def test_imports_flow_one_way() -> None:
    table = allowed()
    assert table["model"] == set()
    hold(said for name in under(PACKAGE, ".py") for said in complaints(name, text(name), table))


def test_no_family_of_probes_includes_another() -> None:
    def foreign(name: str) -> Iterator[str]:
        family = name.split("/")[1]
        shared = {header.rpartition("/")[2] for header in under("probes/runtime/", ".h")} - {"internal.h"}
        own = {header.rpartition("/")[2] for header in under(f"probes/{family}/", ".h")}
        for header in re.findall(r'^#include "(.*)"', text(name), re.MULTILINE):
            if header not in own | shared:
                yield f'{name} includes "{header}": what two families need belongs into probes/runtime'

    sources = [name for name in under("probes/", ".c", ".cc", ".h") if not name.startswith("probes/runtime/")]
    assert sources
    hold(said for name in sources for said in foreign(name))


def test_the_rule_bites() -> None:
    table = {"model": set(), "protocol": {"model"}, "cli": {"everything", "below"}}
    assert not list(complaints("src/tollmeter/protocol/a.py", "from tollmeter.model import Row", table))
    assert not list(complaints("src/tollmeter/cli/a.py", "from tollmeter import anything", table))
    for source in (
        "import tollmeter.store",
        "from tollmeter import store",
        "def f():\n  from tollmeter.store import a",
    ):
        assert list(complaints("src/tollmeter/protocol/a.py", source, table))
    assert list(complaints("src/tollmeter/unheard.py", "", table))
