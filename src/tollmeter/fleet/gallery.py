# SPDX-License-Identifier: Apache-2.0
"""A static site of machines: `index.html` with the list, and a file for each machine that it loads to show it. `toll
compare --machines` writes this page with the machines' numbers included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.files import own_folder, write_whole
from tollmeter.fleet.published import PublishedRun
from tollmeter.model import Failure, Toll
from tollmeter.report.blocks import Figure
from tollmeter.report.numbers import numbers_of, of_level, of_toll, reading_of_level, size, size_of_level
from tollmeter.report.page import island, rendered
from tollmeter.report.tables import cpu_of

_FOLDER = "machines"
_OF_A_MACHINE = re.compile(r"[0-9a-f]{12}\.js")


def write_site(machines: Iterable[PublishedRun], folder: Path) -> int:
    """Writes a site with the machines, in place of an earlier one, and returns their number. Raises Failure (5) if it
    cannot be written."""
    listed: dict[str, dict[str, Any]] = {}
    try:
        inner = own_folder(folder, _FOLDER)
        for machine in machines:
            listed[f"{machine.id}.js"] = _summary(machine)
            write_whole(inner / f"{machine.id}.js", f"show({island(_whole(machine))});\n".encode())
        for path in inner.iterdir():
            if _OF_A_MACHINE.fullmatch(path.name) and path.name not in listed:
                path.unlink()
        write_whole(folder / "index.html", _page([*listed.values()], loads=True).encode())
    except OSError as error:
        raise Failure(f"cannot write {folder}: {error.strerror}", 5) from error
    return len(listed)


def single_page(machines: Sequence[PublishedRun], names: Sequence[str]) -> str:
    """Returns the machines side by side in one page that needs no other file. names: names of their runs."""
    named = zip(map(_whole, machines), names, strict=True)
    return _page([machine | {"name": f"{machine['name']}, {name}"} for machine, name in named], loads=False)


def _page(machines: Sequence[dict[str, Any]], *, loads: bool) -> str:
    """Returns the page. loads: whether the page loads a machine's data from its own folder."""
    data, words = {"machines": machines, "loads": loads}, {"count": len(machines)}
    return rendered("gallery.html", (), words, "gallery.css", own="gallery.js", data=data, loads=loads)


def _summary(published: PublishedRun) -> dict[str, Any]:
    run, machine = published.index.run, published.index.machine
    return {
        "id": published.id, "name": cpu_of(machine), "cpus": machine.cpus,
        "memory": str(size(machine.memory_bytes)), "kernel": machine.kernel, "hypervisor": machine.hypervisor or "",
        "day": run.started[:10], "clock": f"{machine.core_clock_hz / 1e9:.2f} GHz" if machine.core_clock_hz else "",
        "verdict": run.verdict, "suite": run.suite, **numbers_of(published.index),
    }  # fmt: skip


def _whole(published: PublishedRun) -> dict[str, Any]:
    index = published.index
    return _summary(published) | {
        "facts": index.machine.facts,
        "tollmeter": index.run.tollmeter,
        "hierarchy": [
            {"level": level.level, "figures": [*map(_figure, (size_of_level(level), of_level(level),
             reading_of_level(level)))]} for level in index.hierarchy
        ],
        "tolls": [
            {"key": " ".join((toll.probe, toll.metric, toll.abi, toll.target,
                              *(f"{name}={value}" for name, value in sorted(toll.parameters.items())))),
             "toll": toll.toll, "figure": _figure(of_toll(toll)), "unit": toll.unit,
             "value": _short(toll.value), **_ends(toll),
             "state": toll.states[0].state if toll.states else ""}
            for toll in index.tolls if toll.value is not None
        ],
        "pairs": [[pair.first, pair.second, _short(pair.ns)] for pair in published.pairs],
        "loaded": [[load.mix, _short(load.bytes_per_second), _short(load.ns)] for load in published.load],
        "latency": [[_short(size_bytes), _short(ns)] for size_bytes, ns in published.latency],
    }  # fmt: skip


def _figure(figure: Figure) -> tuple[str, str]:
    """Returns the value in its unit, and its interval in words."""
    return str(figure.bare), figure.sure


def _ends(toll: Toll) -> dict[str, float | None]:
    """Returns the ends of a toll's interval, which a toll of too few visits lacks."""
    few = toll.visits < LEAST_VISITS
    return {"low": None if few else _short(toll.low), "high": None if few else _short(toll.high)}


def _short(value: float | None) -> float | None:
    """Returns a value with five digits."""
    return None if value is None or not isfinite(value) else float(f"{value:.5g}")
