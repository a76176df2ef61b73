# SPDX-License-Identifier: Apache-2.0
"""Charts of boundaries into the kernel and to other processes: the toll ladder, hand-offs, traps, faults, switches; and
of misaligned addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from tollmeter.model import Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.numbers.tolls import paid
from tollmeter.report.charts.chart import Bench, Chart, Subject, is_wide, short_probe_name
from tollmeter.report.charts.curves_chart import charted
from tollmeter.report.charts.dots_and_heat import Cells, Rungs, dots, level_rungs, rung
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import cycles, of_toll, quantity

_LADDER = Subject("ladder", "The toll ladder", "What does each boundary cost, from the first cache to another process?")
HAND_OFF = Subject("hand-off", "Asking an object elsewhere",
                   "What does one question and its answer cost, by how they travel and where both ends run?",
                   ("call-of-object",))  # fmt: skip
_TRAPS = Subject("traps", "Traps", "What does a trap cost that the program handles itself?", ("trap",))
FAULTS = Subject("faults", "Page faults", "What does a page fault cost, by its kind?", ("price-of-fault",))
SWITCHES = Subject("switches", "Switching between processes",
                   "What does a switch cost, by how many take turns and what each touches?", ("switch",))  # fmt: skip
_OTHER_END = {"other": "another process", "same": "another thread", "same_thread": "the thread itself"}
_PLACED = {"one_cpu": "on one CPU", "two_cpus": "on two", "sibling": "on both threads of a core"}
_LEAST_RUNGS = 4


def toll_ladder(bench: Bench) -> Iterator[Chart]:
    """Yields every boundary from the first cache to a process switch, on one log scale."""
    lines = paid(bench.own(bench.rows), bench.results.probes, bench.known.clocks_hz.get(bench.target))
    rungs = level_rungs(bench)
    for row, toll in lines:
        in_cycles = f" · {cycles(toll.cycles)} cycles" if toll.cycles else ""
        in_ns = msgspec.structs.replace(row, unit=toll.unit, median=toll.value, low=toll.low, high=toll.high)
        rungs.append(rung(in_ns, toll.toll, f"{of_toll(toll)}{in_cycles}"))
    if len(rungs) >= 2:
        drawing = Rungs(rungs, "ns", "time, each step of the axis ten times the last")
        yield _LADDER.chart(drawing, [row for row, _ in lines])


def hand_off(bench: Bench) -> Iterator[Chart]:
    """Yields a ladder for each placement of the other end, named by it; rows differ by channel."""
    rows = bench.own(bench.meaning(*HAND_OFF.means))
    ladders: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        ends = str(row.parameters.get("placement", "")), str(row.parameters.get("address_space", "other"))
        ladders.setdefault(ends, []).append(row)
    if all(len(of_ends) < _LEAST_RUNGS for of_ends in ladders.values()):
        yield from _dotted(bench, rows, HAND_OFF)
        return
    for (placement, map_), of_ends in sorted(ladders.items()):
        # A word that is unknown here is printed as the probe gives it.
        words = filter(None, (_OTHER_END.get(map_, map_), _PLACED.get(placement, placement)))
        name = "-".join(filter(None, (HAND_OFF.name, placement, map_)))
        yield from _dotted(bench, of_ends, replace(HAND_OFF, name=name, title=f"{HAND_OFF.title}: {', '.join(words)}"))


def traps(bench: Bench) -> Iterator[Chart]:
    yield from _dotted(bench, bench.own(bench.meaning(*_TRAPS.means)), _TRAPS)


def faults(bench: Bench) -> Iterator[Chart]:
    yield from _dotted(bench, bench.own(bench.meaning(*FAULTS.means)), FAULTS, "one fault")


def _dotted(bench: Bench, rows: Sequence[Row], subject: Subject, x_title: str = "round trip") -> Iterator[Chart]:
    """Yields a dot for each row, named by its probe if there are several, and by the parameters that distinguish it."""
    alike = [row for row in rows if row.unit == rows[0].unit and row.median is not None and row.median > 0]
    several, swept = len({row.probe for row in bench.named_among(alike)}) > 1, bench.varying(alike)
    by = bench.named_by(alike, swept)

    def label(row: Row) -> str:
        text = by(row) if any(name in row.parameters for name in swept) else ""
        return " · ".join(filter(None, (short_probe_name(row) if several or not text else "", text)))

    drawing = dots(alike, label, x_title)
    if drawing is not None:
        yield subject.chart(drawing, alike)


def switches(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*SWITCHES.means))
    varying = bench.varying(rows)
    axis = "footprint" if "footprint" in varying else "processes"
    if axis in varying:
        yield from charted(
            bench, rows, SWITCHES, axis=axis, series=bench.series(rows, axis),
            y_title="one switch, cache refill not counted",
            x_title="touched by each process" if axis == "footprint" else "processes in the ring", log=False,
            height=280,
        )  # fmt: skip


# ---- alignment ------------------------------------------------------------------------------------------------------

SHOWN_LENGTH_BYTES = 1500
LEAST_FOR_SQUARE = 3
ACCESS = Subject("access", "One access off its alignment", "What does an address that is not aligned cost?",
                 ("access-of-offset",))  # fmt: skip
COPY = Subject("copy", "Copies off their alignment", "Which routine falls to bytes when its ends are not aligned?",
               ("copy-of-offset",))  # fmt: skip


def access(bench: Bench) -> Iterator[Chart]:
    """Yields charts of single accesses over their offset, a line for each width."""
    rows = bench.own(bench.meaning(*ACCESS.means))
    others = bench.varying(rows, "offset")
    by = "width" if "width" in others else next(iter(others), "")
    yield from charted(
        bench, rows, ACCESS, axis="offset", series=bench.named_by(rows, [by]),
        panel=bench.panels(rows, "offset", by), y_title="one access", x_title="bytes off its alignment",
        log=is_wide(rows),
    )  # fmt: skip


def copy(bench: Bench) -> Iterator[Chart]:
    """Yields a square of both offsets for each routine, at the length nearest to a network packet's."""
    rows = [row for row in bench.own(bench.meaning(*COPY.means))
            if all(isinstance(row.parameters.get(end), int) for end in ("source", "target"))]  # fmt: skip
    if not rows:
        return
    length = min((whole_number(row, "bytes") for row in rows), key=lambda bytes_: abs(bytes_ - SHOWN_LENGTH_BYTES))
    rows = [row for row in rows if whole_number(row, "bytes") == length]
    of_length = f"Copies of {length:,} bytes off their alignment" if length else COPY.title
    subject = replace(COPY, title=of_length)
    if any(len({row.parameters[end] for row in rows}) < LEAST_FOR_SQUARE for end in ("source", "target")):
        yield from _dotted(bench, rows, subject, bench.axis_title(rows, "bytes copied in a second"))
        return
    panel = bench.panels(rows, "source", "target")
    data = [datum(row, a=row.parameters["source"], b=row.parameters["target"], panel=panel(row) if panel else "",
                  said=quantity(row.median, row.unit).number) for row in rows]  # fmt: skip
    titles = "bytes that the source is off", "bytes that the target is off"
    tips = ("panel", "routine"), ("a", "source is off by"), ("b", "target is off by")
    square = Cells(data, titles, rows[0].unit, tips, step=26, labelled=False, panel=panel is not None)
    yield subject.chart(square, rows)
