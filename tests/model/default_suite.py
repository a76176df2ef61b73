# SPDX-License-Identifier: Apache-2.0
"""The points of memory.latency that the default suite plans, and those that a run of it adds: what a model answers is
what a default run would have asked, and nothing else."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection
from functools import lru_cache
from math import inf
from typing import NamedTuple

import msgspec

from tollmeter.catalog import Catalog, load_catalog, read_suite
from tollmeter.judgement.convergence import refine
from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Failure, Machine, Row
from tollmeter.plan.points import Ground, SweepCurve, resolve
from tollmeter.root import ROOT

PROBE = "memory.latency"
MOST_TURNS = 8
"""Of asking a curve what it lacks: a run of 100 s has hardly more."""


class Wanted(NamedTuple):
    size: int
    pages: str


@lru_cache(maxsize=1)
def _catalog() -> Catalog:
    """The probe as it describes itself, for one ABI."""
    built = load_catalog(ROOT / "build", platform.machine())
    if (PROBE, built.abis[0]) not in built.executables:
        raise Failure(f"{PROBE} is not built, or older than its sources: `./toll --set-up-tests` builds it")
    return msgspec.structs.replace(built, abis=built.abis[:1], gaps={})


def planned(machine: Machine) -> tuple[list[Wanted], list[SweepCurve]]:
    ground = Ground(_catalog(), machine, ())
    suite = read_suite(ROOT / "suites" / "default.toml")
    entries = [resolve(select, ground) for select in suite.select if select.probe == PROBE and "native" in select.abi]
    points = [point.values() for entry in entries for point in entry.points]
    return [Wanted(int(one["size"]), str(one["pages"])) for one in points], [c for e in entries for c in e.curves]


def swept(machine: Machine, answer: Callable[[Wanted], Row], refused: Collection[str] = ()) -> list[Row]:
    """The rows of all that is planned, and of the sizes that each curve then asks for. refused: page modes that the
    system does not give."""
    points, curves = planned(machine)
    rows = {wanted: answer(wanted) for wanted in points if wanted.pages not in refused}
    standing = [curve.in_place() if curve.like.values()["pages"] in refused else curve for curve in curves]
    for curve in dict.fromkeys(standing):
        pages = str(curve.like.values()["pages"])
        added = [Wanted(size, pages) for size in curve.begun if pages not in refused]
        for _ in range(MOST_TURNS):
            rows.update((wanted, answer(wanted)) for wanted in added if wanted not in rows)
            seen = [(one.size, row) for one, row in sorted(rows.items()) if one.pages == pages]
            known = [(size, row.minimum or 0.0) for size, row in seen]
            intervals = {size: (row.low or 0.0, row.high or inf) for size, row in seen if has_interval(row)}
            added = [Wanted(size, pages) for size in refine(known, curve.grid, intervals)]
    return [rows[wanted] for wanted in sorted(rows)]
