# SPDX-License-Identifier: Apache-2.0
"""Which hand-set numbers no recorded run, and with --tests no unit test, can tell from half or twice their value.

    .venv/bin/python bench/constants.py RUN [RUN...] [--rooms findings,judgement] [--tests]

Derives the runs, and compares each with the one before it. A number whose name no executed function mentions has no
effect on them. For each other number and factor a process with that number changed derives the runs again, and ends at
the first answer that differs in four digits: give the shortest runs first. --tests: a number without effect on the runs
is also changed under the unit tests that name its module, or import from its package. Prints the numbers without
effect. A number takes up to twice the time of deriving all runs; its processes share the imports of other packages."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest
from bench.concepts import ANALYSIS, PLAIN

SOURCES = Path(__file__).parents[1] / "src"
TESTS = Path(__file__).parents[1] / "tests/unit"
FACTORS = (0.5, 2.0)
DIGITS = 4


class Number(NamedTuple):
    """The position of a number: its module, the assigned name, its value, line and column."""

    module: str
    name: str
    value: float
    line: int
    column: int


def numbers(rooms: Sequence[str]) -> Iterator[Number]:
    """Yields the numbers in assignments of the rooms' modules to names of their own."""
    for module, tree in trees(rooms):
        for node in tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            for target, value in _parts(node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value):
                for part in [part for part in ast.walk(value) if isinstance(part, ast.Constant)]:
                    if isinstance(part.value, int | float) and part.value not in PLAIN:
                        yield Number(module, ast.unparse(target), part.value, part.lineno, part.col_offset)


def _parts(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yields each name with its own value where several are assigned at once."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def trees(rooms: Sequence[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yields the name and the syntax tree of each module of the rooms."""
    for path in sorted(path for room in rooms for path in (SOURCES / "tollmeter" / room).glob("*.py")):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        yield module, ast.parse(path.read_bytes())


class Changed(importlib.machinery.SourceFileLoader):
    """Loads a module with one number times a factor."""

    def __init__(self, number: Number, factor: float, path: str) -> None:
        super().__init__(number.module, path)
        self._number, self._factor = number, factor

    def get_code(self, _: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float):
                continue
            if (node.lineno, node.col_offset) == (self._number.line, self._number.column):
                value = node.value * self._factor
                node.value = max(1, round(value)) if isinstance(node.value, int) else value
        return compile(tree, self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """A finder that loads the one module that is changed."""

    def __init__(self, number: Number, factor: float) -> None:
        self._number, self._factor = number, factor

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name != self._number.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, self._search())
        assert spec and spec.origin
        spec.loader = Changed(self._number, self._factor, spec.origin)
        return spec

    def _search(self) -> list[str]:
        parent = self._number.module.rpartition(".")[0]
        return [str(SOURCES.joinpath(*parent.split(".")))]


def rounded(value: Any) -> Any:
    """Returns the value with four digits, since a difference in later digits is no other answer."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [*map(rounded, value)] if isinstance(value, list | tuple) else value


def answers(folders: Sequence[Path]) -> Iterator[str]:
    """Yields a digest of all that is derived from each run, and of its comparison with the one before it."""
    import msgspec

    from tollmeter.judgement.compare import compare
    from tollmeter.library.derive import derive_results
    from tollmeter.store.journal import read_journal
    from tollmeter.store.request import read_request

    before = None
    for folder in folders:
        index = derive_results(read_journal(folder), read_request(folder), folder).index
        for made in (index, compare(before, index)) if before else (index,):
            text = json.dumps(rounded(msgspec.to_builtins(made)), sort_keys=True)
            yield hashlib.sha256(text.encode()).hexdigest()
        before = index


def answers_and_names(folders: Sequence[Path]) -> tuple[list[str], set[str]]:
    """Returns the digests, and all names that an executed function or a statement of a module mentions."""
    executed: set[CodeType] = set()
    sys.setprofile(lambda frame, event, _: executed.add(frame.f_code) if event == "call" else None)
    known = [*answers(folders)]
    sys.setprofile(None)
    inside = {name for code in executed if code.co_name != "<module>" for name in code.co_names}
    packages = [path.name for path in (SOURCES / "tollmeter").iterdir() if path.is_dir()]
    return known, inside | {name for _, tree in trees(packages) for node in tree.body for name in _outside(node)}


def _outside(node: ast.AST) -> Iterator[str]:
    """Yields names that are read when the module is imported: in an assignment, a default value or a class."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for name, value in ast.iter_fields(node):
        if name != "body" or isinstance(node, ast.ClassDef):
            for part in value if isinstance(value, list) else [value]:
                yield from _outside(part) if isinstance(part, ast.AST) else ()


def has_effect(number: Number, factor: float, differs: Callable[[], bool]) -> bool:
    """Returns whether a changed number changes the result of `differs`, which runs in a process of its own that imports
    the package with the number changed. An error is an effect."""
    child = os.fork()
    if child == 0:
        sys.meta_path.insert(0, Finder(number, factor))
        try:
            status = int(differs())
        except BaseException:  # noqa: BLE001  any error is an effect
            status = 1
        os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def a_test_fails(number: Number) -> bool:
    """Returns whether a unit test that names the number's module fails."""
    room = number.module.rpartition(".")[0]
    named = re.compile(rf"{re.escape(number.module)}\b|from {re.escape(room)} import ")
    files = [str(path) for path in TESTS.glob("test_*.py") if named.search(path.read_text())]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    options = ["-x", "-q", "-o", "cache_dir=build/tests/constants"]
    return bool(files) and pytest.main([*options, *files]) == pytest.ExitCode.TESTS_FAILED


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("runs", nargs="+", type=Path)
    words.add_argument("--rooms", default=",".join(ANALYSIS))
    words.add_argument("--tests", action="store_true")
    given = words.parse_args()
    sys.path.insert(0, str(SOURCES))
    known, names = answers_and_names(given.runs)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tollmeter"]:
        del sys.modules[name]

    def differs() -> bool:
        return any(new != old for new, old in zip(answers(given.runs), known, strict=True))

    seen = silent = 0
    for number in numbers(given.rooms.split(",")):
        seen += 1
        if number.name in names and any(has_effect(number, factor, differs) for factor in FACTORS):
            continue
        if given.tests and any(has_effect(number, factor, partial(a_test_fails, number)) for factor in FACTORS):
            continue
        silent += 1
        print(f"{number.module}:{number.line}  {number.name} = {number.value:g}", flush=True)
    print(f"{silent} of {seen} numbers have no effect that {len(given.runs)} runs show{' or a test' * given.tests}")


if __name__ == "__main__":
    main()
