# SPDX-License-Identifier: Apache-2.0
"""Charts of boundaries into the kernel and to other processes: the toll ladder, hand-offs, traps, faults, switches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from tollmeter.model import Row, Toll
from tollmeter.numbers.known import core_clocks_hz
from tollmeter.numbers.tolls import paid
from tollmeter.report.charts.arithmetic import kernel_of
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.curves_chart import Curves, charted, named_by
from tollmeter.report.charts.dots_and_heat import Rungs, level_rungs, rung
from tollmeter.report.numbers import cycles, of_row, of_toll

HAND_OFF = Subject(
    "hand-off",
    "Asking an object elsewhere",
    "What does one question and its answer cost, by how they travel and where both ends run?",
    ("call-of-object",),
)
_OTHER_END = {"other": "another process", "same": "another thread", "same_thread": "the thread itself"}
_PLACED = {"one_cpu": "on one CPU", "two_cpus": "on two", "sibling": "on both threads of a core"}
_LEAST_RUNGS = 4
TRAPS = Subject("traps", "Traps", "What does a trap cost that the program handles itself?", ("trap",))
FAULTS = Subject("faults", "Page faults", "What does a page fault cost, by its kind?", ("price-of-fault",))
SWITCHES = Subject(
    "switches",
    "Switching between processes",
    "What does a switch cost, by how many take turns and what each touches?",
    ("switch",),
)


def ladder(bench: Bench) -> Iterator[Chart]:
    """Every boundary from the first cache to a switch of processes, on one log scale."""
    clock_hz = core_clocks_hz(bench.outcomes).get(bench.target)
    lines = paid(bench.own(bench.rows), bench.results.probes, clock_hz)
    rungs = (*level_rungs(bench), *(_toll_rung(row, toll) for row, toll in lines))
    if len(rungs) < 2:
        return
    rows = [row for row, _ in lines]
    means = {metric.means for row in rows if (metric := bench.metric(row)) is not None and metric.means}
    subject = Subject(
        "ladder",
        "The toll ladder",
        "What does each boundary cost, from the first cache to another process?",
        tuple(sorted(means)),
    )
    yield subject.chart(Rungs(rungs, "ns", "time, each step of the axis ten times the last"), rows)


def _toll_rung(row: Row, toll: Toll) -> Datum:
    in_cycles = f" · {cycles(toll.cycles)} cycles" if toll.cycles else ""
    in_ns = msgspec.structs.replace(row, unit=toll.unit, median=toll.value, low=toll.low, high=toll.high)
    return rung(in_ns, toll.toll, f"{of_toll(toll)}{in_cycles}")


def hand_off(bench: Bench) -> Iterator[Chart]:
    """A ladder for each placement of the other end, named by it; rows differ by their channel."""
    every = bench.own(bench.meaning(*HAND_OFF.means))
    ladders: dict[tuple[str, str], list[Row]] = {}
    for row in every:
        ends = str(row.parameters.get("placement", "")), str(row.parameters.get("map", "other"))
        ladders.setdefault(ends, []).append(row)
    if all(len(rows) < _LEAST_RUNGS for rows in ladders.values()):
        yield from dotted(bench, every, HAND_OFF)
        return
    for ends, rows in sorted(ladders.items()):
        name = "-".join(filter(None, (HAND_OFF.name, *ends)))
        yield from dotted(bench, rows, replace(HAND_OFF, name=name, title=f"{HAND_OFF.title}: {_where(*ends)}"))


def _where(placement: str, map_: str) -> str:
    """The ends in words; a word that is unknown here is printed as the probe gives it."""
    return ", ".join(filter(None, (_OTHER_END.get(map_, map_), _PLACED.get(placement, placement))))


def of_subject(bench: Bench, subject: Subject, x_title: str = "round trip") -> Iterator[Chart]:
    yield from dotted(bench, bench.own(bench.meaning(*subject.means)), subject, x_title)


def dotted(bench: Bench, rows: Sequence[Row], subject: Subject, x_title: str = "round trip") -> Iterator[Chart]:
    """A bar a row, where there are two to compare."""
    alike = [row for row in rows if row.unit == rows[0].unit and row.median is not None and row.median > 0]
    if len(alike) < 2:
        return
    labels = _labels(bench, alike)
    texts = (str(of_row(row)) for row in alike)
    rungs = tuple(rung(row, label, text) for row, label, text in zip(alike, labels, texts, strict=True))
    yield subject.chart(Rungs(rungs, alike[0].unit, x_title), alike)


def _labels(bench: Bench, rows: Sequence[Row]) -> list[str]:
    """The probe's name where there are several, and the parameters that distinguish the row."""
    several, swept = len({row.probe for row in bench.named_among(rows)}) > 1, bench.varying(rows)
    by = named_by(bench, rows, swept)
    labels = [by(row) if any(name in row.parameters for name in swept) else "" for row in rows]
    return [" · ".join(filter(None, (kernel_of(row) if several or not text else "", text)))
            for row, text in zip(rows, labels, strict=True)]  # fmt: skip


def switches(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*SWITCHES.means))
    varying = bench.varying(rows)
    axis = "footprint" if "footprint" in varying else "processes"
    if axis not in varying:
        return
    curves = Curves(
        axis=axis,
        series=named_by(bench, rows, bench.varying(rows, axis)),
        y_title="one switch, cache refill not counted",
        x_title="touched by each process" if axis == "footprint" else "processes in the ring",
        log=False,
        height=280,
    )
    yield from charted(bench, rows, SWITCHES, curves)
