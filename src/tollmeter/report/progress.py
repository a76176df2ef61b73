# SPDX-License-Identifier: Apache-2.0
"""Progress of a run on standard error: the machine, the current point, the time left, the first numbers.

It is drawn only between visits, so that it never runs while a probe is timed. On a terminal it is three lines that are
redrawn in place; elsewhere, and on a terminal that cannot move the cursor, it is a plain line every ten seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tollmeter.judgement.verdict import has_interval
from tollmeter.model import BEST_KNOWN, Machine, Point, Probe, Row, Suite, Toll, is_best_known, printable
from tollmeter.numbers.meanings import meaning, native, sizes_of, whole_number, with_meaning
from tollmeter.numbers.tolls import paid
from tollmeter.numbers.units import in_percent
from tollmeter.report import tables
from tollmeter.report.numbers import DASH, clock_face, duration, quantity, size, two_digits
from tollmeter.report.text_layout import WIDEST

LEAST_SECONDS_BETWEEN_DRAWINGS, LEAST_SECONDS_BETWEEN_NUMBERS = 0.2, 2.0
SECONDS_BETWEEN_LINES = 10.0
_BAR, PLACE = 26, 52
"""Highest width of the bar, and the width that is left for the current point, in characters."""


class Progress:
    """The progress display. probes: descriptions by name, for the line of numbers. now: monotonic seconds."""

    def __init__(
        self,
        probes: Mapping[str, Probe] | None = None,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probes = probes or {}
        self._console = console or Console(stderr=True, highlight=False)
        self._now = now
        self._live: Live | None = None
        self._machine: Machine | None = None
        self._heads: list[str] = []
        self._place = ""
        self._share, self._left = 0.0, 0.0
        self._rows: dict[tuple[object, ...], Row] = {}
        self._numbers: dict[str, str] = {}
        self._drawn = self._numbered = -SECONDS_BETWEEN_LINES

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, machine: Machine, suite: Suite | str, seed: int, total_visits: int, budget_seconds: float) -> None:
        """Shows the machine, the suite and the number of planned visits, before the first visit."""
        self._machine, self._left = machine, budget_seconds
        name = suite if isinstance(suite, str) else suite.name
        facts = " · ".join(tables.facts_of(machine))
        self._heads = [printable(f"tollmeter · {facts}"), printable(f"suite {name}, seed {seed}")]
        self._place = f"{total_visits:,} visits planned"
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False, transient=True)
            self._live.start(refresh=True)
        else:
            self._print(f"{' · '.join(self._heads)}, measuring for at most {duration(budget_seconds)}")

    def visit(self, point: Point, share: float, seconds_left: float) -> None:
        """Shows the point that is visited next. share: spent share of the budget, 0 to 1. seconds_left: remaining
        budget, s."""
        self._place = self._named(point)
        self._share = min(1.0, max(0.0, share))
        self._left = seconds_left
        self._draw()

    def numbers(self, rows: Sequence[Row]) -> None:
        """Adds numbers to the displayed ones: the memory levels, then lines of the toll table."""
        for row in rows:
            self._rows[row.probe, row.metric, row.abi, tuple(row.parameters.items())] = row
        if rows:
            self._numbers = headlines(list(self._rows.values()), self._probes, self._machine)
            self._numbered = self._now()

    @property
    def takes_numbers(self) -> bool:
        """Returns whether numbers passed now will be displayed soon; a caller need not derive others, which takes as
        long as half a visit."""
        if self._live is None:
            return self._now() - self._drawn >= SECONDS_BETWEEN_LINES
        return self._now() - self._numbered >= LEAST_SECONDS_BETWEEN_NUMBERS

    def stop(self) -> None:
        """Removes the lines, so that the next output takes their place. May be called again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        every = LEAST_SECONDS_BETWEEN_DRAWINGS if self._live is not None else SECONDS_BETWEEN_LINES
        if self._now() - self._drawn < every:
            return
        self._drawn = self._now()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        else:
            first = ", ".join(f"{label} {text}" for label, text in list(self._numbers.items())[:3])
            left, known = f"{clock_face(self._left)} left", f"  ({first})" if first else ""
            self._print(f"{in_percent(self._share):>5}  {left}  {self._place}{known}")

    def _picture(self) -> Group:
        """Returns the display, never wider than the terminal: a wrapped line could not be erased."""
        width = min(WIDEST, max(20, self._console.width - 1))
        joined = " · ".join(self._heads)
        heads = [Text(line, style="bold") for line in ([joined] if len(joined) <= width else self._heads)]
        numbers = Text("  " + "   ".join(f"{label} {text}" for label, text in self._numbers.items()))
        for line in (*heads, numbers):
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return Group(*heads, self._bar(width), numbers)

    def _bar(self, width: int) -> Text:
        end = f" {in_percent(self._share):>5}  {clock_face(self._left):>5} left"
        bar = max(4, min(_BAR, width - PLACE - len(end)))
        full = round(bar * self._share)
        line = Text(self._place, no_wrap=True)
        line.truncate(max(4, width - bar - len(end) - 2), overflow="ellipsis", pad=True)
        line.append("  ").append("━" * full, style="cyan").append("─" * (bar - full), style="dim")
        return line.append(end)

    def _named(self, point: Point) -> str:
        sizes = sizes_of(self._probes.get(point.probe))
        values = [str(size(value)) if name in sizes and isinstance(value, int) else f"{name} {value}"
                  for name, value in point.parameters]  # fmt: skip
        return printable(f"{point.probe}  {', '.join([*values, point.abi])}")

    def _print(self, line: str) -> None:
        self._console.print(Text(printable(line)), soft_wrap=True, highlight=False)


def headlines(rows: Sequence[Row], probes: Mapping[str, Probe], machine: Machine | None) -> dict[str, str]:
    """Returns labels and values that users know: latency within each cache, then tolls; by the machine's own clock."""
    native_rows = native(rows, machine.architecture if machine else "")
    lines = _levels(with_meaning(native_rows, probes, "latency-of-size"), machine)
    fame = {means: place for place, means in enumerate(BEST_KNOWN)}

    def rank(line: tuple[Row, Toll]) -> tuple[int, bool]:
        means = meaning(line[0], probes)
        return fame.get(means or "", len(fame)), not is_best_known(means, line[1].parameters)

    for row, toll in sorted(paid(native_rows, probes, None), key=rank):
        lines.setdefault(printable(toll.toll), _value(row))
    return lines


def _levels(rows: Sequence[Row], machine: Machine | None) -> dict[str, str]:
    """Returns for each cache the row whose buffer is midway between the previous cache's capacity and its own, in
    logarithms: other workloads may hold most of a shared cache. For memory, the largest buffer beyond the last-level
    cache."""
    sizes = machine.data_sizes() if machine else {}
    split = {cache.level for cache in machine.caches if cache.kind == "data"} if machine else set()
    sized = [(whole_number(row, "size"), row) for row in rows]
    by_level: dict[str, str] = {}
    below = 0
    for level, bytes_ in sizes.items():
        middle = math.sqrt(below * bytes_) if below else bytes_ / 2
        inside = [(abs(math.log(held / middle)), row) for held, row in sized if below < held <= bytes_ * 0.75]
        if inside:
            by_level[f"L{level}d" if level in split else f"L{level}"] = _value(min(inside, key=itemgetter(0))[1])
        below = bytes_
    beyond = [(held, row) for held, row in sized if below and held >= 2 * below]
    if beyond:
        by_level["memory"] = _value(max(beyond, key=itemgetter(0))[1])
    return by_level


def _value(row: Row) -> str:
    """Returns a row's value as text, with `~` before a value from too few visits for an interval."""
    if not has_interval(row):
        return f"~ {two_digits(row.median, row.unit)}" if row.median else DASH
    return str(quantity(row.median, row.unit, row.low, row.high).bare)
