# SPDX-License-Identifier: Apache-2.0
"""The files of the runtime form no circle: what a file calls stands below it, and can be read without it."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from support.waiting import LONG_S

ROOT = Path(__file__).resolve().parents[2]


def calls(symbols: Iterable[str]) -> dict[str, set[str]]:
    """The object files whose symbols each object file uses. symbols: lines of `nm -A -P`, file, name and kind first."""
    owner, used = dict[str, str](), defaultdict[str, set[str]](set)
    for line in symbols:
        file, name, kind, *_ = line.split()
        if kind == "U":
            used[name].add(file)
        elif kind in "TDBR":
            owner[name] = file
    users: Mapping[str, set[str]] = {name: files - {owner[name]} for name, files in used.items() if name in owner}
    called = defaultdict[str, set[str]](set)
    for name, files in users.items():
        for file in files:
            called[file].add(owner[name])
    return called


def circle(called: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(called).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_file_of_the_runtime_calls_one_above_it(own_abi_name: str) -> None:
    library = ROOT / "build" / own_abi_name / "libtoll.a"
    assert library.is_file(), "not built: ./toll --set-up-tests"
    symbols = subprocess.run(["nm", "-A", "-P", library], capture_output=True, text=True, check=True, timeout=LONG_S)
    called = calls(symbols.stdout.splitlines())
    assert sum(map(len, called.values())) > 20
    assert not circle(called)


def test_a_circle_is_seen() -> None:
    both = ["a.o: one T 0", "a.o: two U", "b.o: two T 0", "b.o: one U"]
    assert set(circle(calls(both))) == {"a.o:", "b.o:"}
    assert not circle(calls(both[:3]))
