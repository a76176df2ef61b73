# SPDX-License-Identifier: Apache-2.0
"""Imports flow one way, as the table of docs/architecture.md has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter

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


@cache
def imported(source: str) -> tuple[str, ...]:
    """The dotted names below `tollmeter.` that a file imports, wherever in it."""
    return tuple(_imported(ast.walk(ast.parse(source))))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            top, _, rest = name.partition(".")
            if top == "tollmeter" and not rest.startswith("_"):
                yield rest


def imports(source: str) -> Iterator[str]:
    """The parts of Tollmeter that a file imports."""
    return (name.partition(".")[0] for name in imported(source) if name)


def of_files(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """By a file's dotted name the files that it imports; the package itself is the empty name."""
    return {name: {_file(one, sources) for one in imported(source)} - {name} for name, source in sources.items()}


def _file(name: str, known: Container[str]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def of_rooms(sources: Mapping[str, str]) -> dict[str, set[str]]:
    rooms: dict[str, set[str]] = {}
    for name, source in sources.items():
        room = name.partition(".")[0]
        if room:
            rooms.setdefault(room, set()).update(set(imports(source)) - {room})
    return rooms


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def ours() -> dict[str, str]:
    """Every file's text by its dotted name."""
    names = {name: name.removeprefix(PACKAGE).removesuffix(".py").replace("/", ".") for name in under(PACKAGE, ".py")}
    return {re.sub(r"(^|\.)__init__$", "", dotted): text(name) for name, dotted in names.items()}


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


GATE = "src/tollmeter/commands.py"
STARTERS = {"subprocess", "multiprocessing", "pty", "_posixsubprocess"}
STARTS = re.compile(r"exec[lv]\w*|spawn\w+|posix_spawnp?|fork|forkpty|system|popen")
NAMED = re.compile(rf"\b({'|'.join(STARTERS)}|{STARTS.pattern})\b")


def started(source: str) -> Iterator[str]:
    """What a file would start a process with, in words. Only a file that has one of the names is parsed."""
    nodes = ast.walk(ast.parse(source)) if NAMED.search(source) else ()
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in STARTERS)
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if node.module == "os" and STARTS.fullmatch(alias.name)]
            yield from [str(node.module)] if node.module in STARTERS else names
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            yield from [f"os.{node.attr}"] if STARTS.fullmatch(node.attr) else []


def test_one_file_starts_processes() -> None:
    hold(
        f"{name} uses {what}: start it by {GATE}, and name where its words are from"
        for name in under(PACKAGE, ".py")
        if name != GATE
        for what in started(text(name))
    )
    assert list(started(text(GATE))) == ["subprocess", "subprocess"]
    assert [*started("import pty\nimport os\ndef f():\n  os.execvp('a', [])")] == ["pty", "os.execvp"]
    assert [*started("from os import posix_spawn")] == ["posix_spawn"]
    assert not [*started("import os\nos.path.exists('a')")]


def test_imports_flow_one_way() -> None:
    table = allowed()
    assert table["model"] == set()
    hold(said for name in under(PACKAGE, ".py") for said in complaints(name, text(name), table))


def unused(table: dict[str, set[str]], rooms: Mapping[str, set[str]]) -> Iterator[str]:
    for owner, listed in table.items():
        for part in listed - rooms.get(owner, set()) if "everything" not in listed else ():
            yield f"{TABLE} lets {owner} import {part}, and no file does: delete the entry"


def test_every_import_of_the_table_is_used() -> None:
    table, rooms = allowed(), of_rooms(ours())
    hold(unused(table, rooms))
    assert len(list(unused({**table, "model": {"store"}}, rooms))) == 1


def test_no_import_goes_in_a_circle() -> None:
    assert circle(of_files(ours())) == []
    assert circle(of_rooms(ours())) == []


def test_a_circle_is_found_among_files_and_rooms_and_inside_functions() -> None:
    files = {"a.one": "from tollmeter.a import two", "a.two": "def f():\n  from tollmeter.a.one import g", "b": ""}
    assert circle(of_files(files)) and not circle(of_rooms(files))
    rooms = {"a.one": "import tollmeter.b.three", "b.three": "", "b.four": "from tollmeter.a.two import x", "a.two": ""}
    assert circle(of_rooms(rooms)) and not circle(of_files(rooms))
    assert circle(of_files({"": "from tollmeter.a import x", "a": "def f():\n  import tollmeter"}))


def test_the_table_of_rooms_has_each_room_above_all_that_it_imports() -> None:
    lines = [line for line in text(TABLE).splitlines() if line.startswith("| `")]
    order = [name for line in lines for name in re.findall(r"`([a-z]+)(?:/|\.py)`", line.split("|")[1])]
    assert {*order} >= {name.split("/")[2] for name in under(PACKAGE, ".py") if name.count("/") > 2}
    hold(
        f"{TABLE}: {room} imports {other}, and stands below it"
        for room, others in of_rooms(ours()).items()
        for other in others & {*order}
        if room in order and order.index(other) < order.index(room)
    )


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


def test_a_public_class_name_stands_for_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for name in under(PACKAGE, ".py"):
        for defined in re.findall(r"^ *class ([A-Za-z]\w*)[(:]", text(name), re.MULTILINE):
            places.setdefault(defined, set()).add(name)
    assert len(places) > 200
    hold(f"{name} is defined in {' and '.join(sorted(where))}" for name, where in places.items() if len(where) > 1)
