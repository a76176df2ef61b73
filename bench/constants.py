# SPDX-License-Identifier: Apache-2.0
"""Which hand-set numbers no recorded run can tell from half or twice their value.

    .venv/bin/python bench/constants.py RUN [RUN...] [--rooms findings,judgement]

A process for each number and factor imports the package with that number changed, derives the runs from their journals
and compares each with the next. Prints the numbers with which every answer stays as it is, to four digits. A number of
which no test fails either has no effect that anything shows. Takes some seconds for each number."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.concepts import ANALYSIS, PLAIN

SOURCES = Path(__file__).parents[1] / "src"
FACTORS = (0.5, 2.0)
DIGITS = 4


class Number(NamedTuple):
    """Where a number stands: its module, the name that it is assigned to, its value, line and column."""

    module: str
    name: str
    value: float
    line: int
    column: int


def numbers(rooms: Sequence[str]) -> Iterator[Number]:
    """The numbers in assignments of the rooms' modules to names of their own."""
    for path in sorted(path for room in rooms for path in (SOURCES / "tollmeter" / room).glob("*.py")):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                for part in ast.walk(node.value):
                    if not isinstance(part, ast.Constant) or not isinstance(part.value, int | float):
                        continue
                    if part.value not in PLAIN:
                        yield Number(module, ast.unparse(target), part.value, part.lineno, part.col_offset)


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
    """Finds the one module that is changed."""

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
    """With four digits: what lies behind them is no other answer."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [*map(rounded, value)] if isinstance(value, list | tuple) else value


def answers(folders: Sequence[str]) -> str:
    """A digest of all that is derived from the runs, and of the comparison of each with the next."""
    import msgspec

    from tollmeter.judgement.compare import compare
    from tollmeter.library.measured_run import derive

    runs = [derive(folder).index for folder in folders]
    made = [*runs, *(compare(old, new) for old, new in pairwise(runs))]
    text = json.dumps(rounded(msgspec.to_builtins(made)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def with_change(folders: Sequence[str], number: Number | None, factor: float) -> str:
    """The digest in a process of its own, or the error that the change led to."""
    reading, writing = os.pipe()
    if not os.fork():
        os.close(reading)
        try:
            if number:
                sys.meta_path.insert(0, Finder(number, factor))
            said = answers(folders)
        except Exception as error:  # noqa: BLE001  any error is an effect
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.wait()
    return said


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("runs", nargs="+")
    words.add_argument("--rooms", default=",".join(ANALYSIS))
    given = words.parse_args()
    sys.path.insert(0, str(SOURCES))
    known = with_change(given.runs, None, 1.0)
    seen = silent = 0
    for number in numbers(given.rooms.split(",")):
        seen += 1
        if all(with_change(given.runs, number, factor) == known for factor in FACTORS):
            silent += 1
            print(f"{number.module}:{number.line}  {number.name} = {number.value:g}", flush=True)
    print(f"{silent} of {seen} numbers change no answer of {len(given.runs)} runs")


if __name__ == "__main__":
    main()
