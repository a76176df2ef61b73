# SPDX-License-Identifier: Apache-2.0
"""Charts of boundaries: the toll ladder, hand-offs between CPUs and processes, switches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tollmeter.analysis.tolls import Toll, tolls
from tollmeter.model import Level, Row
from tollmeter.report.charts.bars import bars, rung
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, names, varying
from tollmeter.report.charts.curves import Curves, draw, named_by
from tollmeter.report.charts.heat import Heat, heat
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import cycles, time

CELLS_WITH_TEXT = 12
LEAST_CPUS_FOR_MATRIX = 3


def ladder(bench: Bench) -> Iterator[Chart]:
    """Every boundary from the first cache to a switch of processes, on one log scale."""
    machine = bench.book.index.machine
    paid = tolls(bench.own(bench.rows), bench.book.probes, machine.core_clock_hz)
    rows = [toll.row for toll in paid if toll.row.unit == "ns"]
    rungs = _levels(bench) + [_toll_rung(toll) for toll in paid if toll.row.unit == "ns"]
    if len(rungs) < 2:
        return
    yield Chart("ladder", "The toll ladder", "What does each boundary cost, from the first cache to another process?",
                bars(rungs, "ns", "time, each step of the axis ten times the last"),
                tuple(sorted({m.means for row in rows if (m := bench.metric(row)) and m.means})), names(rows))  # fmt: skip


def _levels(bench: Bench) -> list[Datum]:
    known = bench.book.index.hierarchy if bench.is_hardware else ()
    return [_level_rung(level) for level in known if level.latency_ns]


def _level_rung(level: Level) -> Datum:
    """A level of the hierarchy has an interval but no visits of its own."""
    label = "load from memory" if level.level == "memory" else f"load from {level.level}"
    low, high = level.latency_low or level.latency_ns, level.latency_high or level.latency_ns
    text = time(level.latency_ns, level.latency_low, level.latency_high)
    return {"y": level.latency_ns, "lo": low, "hi": high, "label": label, "tone": "rung-aside",
            "said": f"{text} · {cycles(level.latency_cycles)} cycles", "brief": str(text), "value": str(text),
            "interval": f"{time(low)} to {time(high)}", "samples": "from the curve of latency over size"}  # fmt: skip


def _toll_rung(toll: Toll) -> Datum:
    in_cycles = f" · {cycles(toll.cycles)} cycles" if toll.cycles else ""
    return rung(toll.row, toll.label, f"{time(toll.median_ns, toll.low_ns, toll.high_ns)}{in_cycles}")


def core_to_core(bench: Bench) -> Iterator[Chart]:
    """A matrix of CPUs, or bars where two CPUs make no matrix."""
    rows = bench.own(bench.meaning("core-to-core"))
    if not rows:
        return
    title, question = "From core to core", "How long does a cache line take to another CPU and back?"
    pairs = [(pair, row) for row in rows if (pair := cpus_of(row)) is not None]
    cpus = sorted({cpu for pair, _ in pairs for cpu in pair})
    spec = _matrix(pairs, cpus) if len(cpus) >= LEAST_CPUS_FOR_MATRIX and not _beyond_pair(rows) else _pairs(bench, rows)
    yield Chart("core-to-core", title, question, spec, ("core-to-core",), names(rows))


def cpus_of(row: Row) -> tuple[int, int] | None:
    """The two CPUs of a row, from whichever parameter holds two numbers: `pair` as "3-11", "3,11" or "3:11"."""
    found = re.fullmatch(r"\D{0,4}(\d+)\D{1,4}(\d+)", str(row.parameters.get("pair", "")))
    return (int(found[1]), int(found[2])) if found else None


def _beyond_pair(rows: Sequence[Row]) -> list[str]:
    return [name for name in varying(rows) if name != "pair"]


def _pairs(bench: Bench, rows: Sequence[Row]) -> Spec:
    label = named_by(bench, rows, varying(rows))
    texts = {id(row): label(row) if varying(rows) else _pair_label(row) for row in rows}
    rungs = [rung(row, texts[id(row)], str(time(row.median, row.low, row.high))) for row in rows]
    return bars([*rungs, *_levels(bench)], rows[0].unit, "round trip, beside loads that stay on one CPU")


def _pair_label(row: Row) -> str:
    pair = cpus_of(row)
    return f"between CPU {pair[0]} and CPU {pair[1]}" if pair else "between two CPUs"


def _matrix(pairs: Sequence[tuple[tuple[int, int], Row]], cpus: Sequence[int]) -> Spec:
    """Both halves of the square are filled from the one that was measured."""
    data = [
        datum(row, a=first, b=second, pair=f"CPU {first} and CPU {second}", said=time(row.median).number)
        for (one, other), row in pairs for first, second in ((one, other), (other, one))
    ]  # fmt: skip
    wide = max(10, min(44, 560 // len(cpus)))
    return heat(data, Heat(rows="a", columns="b", titles=("CPU", "CPU"), unit=pairs[0][1].unit, tips=(("pair", "between"),),
                           step=wide, said=len(cpus) <= CELLS_WITH_TEXT))  # fmt: skip


def hand_off(bench: Bench) -> Iterator[Chart]:
    """One call of an object over every transport and placement: the placement is in the label."""
    yield from _barred(bench, "call-of-object", "hand-off", "Asking an object elsewhere",
                       "What does one question and its answer cost, by how they travel and where both ends run?")  # fmt: skip


def traps(bench: Bench) -> Iterator[Chart]:
    yield from _barred(bench, "trap", "traps", "Traps", "What does a trap cost that the program handles itself?")


def faults(bench: Bench) -> Iterator[Chart]:
    yield from _barred(bench, "price-of-fault", "faults", "Page faults", "What does a page fault cost, by its kind?")


def _barred(bench: Bench, means: str, name: str, title: str, question: str) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(means))
    if len(rows) < 2:
        return
    label = _short_label(bench, rows)
    rungs = [rung(row, label[id(row)], str(time(row.median, row.low, row.high))) for row in rows if row.unit == "ns"]
    if len(rungs) > 1:
        yield Chart(name, title, question, bars(rungs, "ns", "round trip"), (means,), names(rows))


def _short_label(bench: Bench, rows: Sequence[Row]) -> dict[int, str]:
    """What tells a row from its neighbours: the probe's last name where there are several, and its parameters."""
    several = len({row.probe for row in rows}) > 1
    text = named_by(bench, rows, varying(rows))
    labels = {}
    for row in rows:
        told = text(row) if row.parameters and varying(rows) else ""
        probe = row.probe.split(".")[-1].replace("_", " ")
        labels[id(row)] = " · ".join(filter(None, (probe if several or not told else "", told)))
    return labels


def switches(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning("switch"))
    axis = "footprint" if "footprint" in varying(rows) else "processes"
    others = [name for name in varying(rows) if name != axis]
    curves = Curves(axis=axis, series=named_by(bench, rows, others), y_title="one switch, cache refill not counted",
                    x_title="touched by each process" if axis == "footprint" else "processes in the ring", log=False, height=280)  # fmt: skip
    if axis not in varying(rows):
        return
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("switches", "Switching between processes", "What does a switch cost, by how many take turns and what each touches?",
                    spec, ("switch",), names(rows))  # fmt: skip
