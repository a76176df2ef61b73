# SPDX-License-Identifier: Apache-2.0
"""Counts what a reader has to know: record types, hand-set numbers, verbs, options, names and lines.

    .venv/bin/python bench/concepts.py [COMMIT...]

Prints a row for each count and a column for each commit, or for the work tree. A record type is a class whose base
is Record, NamedTuple, Struct, Protocol or an enumeration, or that is a dataclass. A hand-set number is a module's
constant that holds a number other than 0, 1 and 2. An option counts once where it is declared, and once for each verb
that has it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "src/tollmeter/"
ANALYSIS = ("experiment", "numbers", "inference", "judgement", "studies", "findings", "plan", "conduct")
RECORDS = {"Record", "NamedTuple", "Struct", "Protocol", "Enum", "IntEnum", "StrEnum"}
PLAIN = {0, 1, 2}


def sources(commit: str) -> dict[str, str]:
    """Returns Python files by path. commit: empty for the work tree."""
    listed = ["git", "ls-files", "*.py"] if not commit else ["git", "ls-tree", "-r", "--name-only", commit]
    names = [name for name in _output(listed).splitlines() if name.endswith(".py")]
    if not commit:
        return {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).exists()}
    return {name: _output(["git", "show", f"{commit}:{name}"]) for name in names}


def _output(words: list[str]) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def counts(files: Mapping[str, str]) -> dict[str, int]:
    ours = {name: ast.parse(text) for name, text in files.items() if name.startswith(PACKAGE)}
    classes = [node for tree in ours.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    functions = Counter(name for tree in ours.values() for name in {*_functions(tree)})
    names = Counter(node.name for node in classes if not node.name.startswith("_"))
    rooms = [tree for name, tree in ours.items() if name.removeprefix(PACKAGE).split("/")[0] in ANALYSIS]
    verbs = [tree for name, tree in ours.items() if name.startswith(f"{PACKAGE}cli/")]
    return {
        "record types": sum(map(_is_record, classes)),
        "public class names defined twice": sum(count > 1 for count in names.values()),
        "public function names in two modules": sum(count > 1 for count in functions.values()),
        "hand-set numbers in analysis": sum(1 for tree in rooms for _ in _numbers(tree)),
        "options": sum(_is_option(node) for tree in verbs for node in ast.walk(tree)),
        "options of all verbs": sum(_takes_option(node) for tree in verbs for node in ast.walk(tree)),
        "lines of src": _lines(files, PACKAGE),
        "lines of tests": _lines(files, "tests/"),
    }


def _is_record(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bool(bases & RECORDS) or any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def _functions(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))


def _numbers(tree: ast.Module) -> Iterator[float]:
    """Yields the numbers in the module's own assignments to upper-case names."""
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for part in ast.walk(value) if value is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, int | float) and part.value not in PLAIN:
                yield part.value


def _is_option(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Option"


def _takes_option(node: ast.AST) -> bool:
    """Returns whether a parameter of a verb is an option, declared here or shared."""
    said = ast.unparse(node.annotation) if isinstance(node, ast.arg) and node.annotation else ""
    return "typer.Option(" in said or "shared." in said


def _lines(files: Mapping[str, str], below: str) -> int:
    return sum(text.count("\n") for name, text in files.items() if name.startswith(below))


def main(commits: list[str]) -> None:
    columns = [counts(sources(commit)) for commit in commits]
    heads = [commit[:12] or "work tree" for commit in commits]
    width = max(map(len, columns[0]))
    print(" " * width, *(f"{head:>14}" for head in heads))
    for name in columns[0]:
        print(f"{name:{width}}", *(f"{column[name]:>14,}" for column in columns))


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main(sys.argv[1:] or [""])
