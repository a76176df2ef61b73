# SPDX-License-Identifier: Apache-2.0
"""A sweep as a table of its values with their effects on one scale, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tollmeter.experiment.precision import Estimate
from tollmeter.judgement.compare import Comparison
from tollmeter.judgement.swept import SweptRun, ValueEffect, best, drift, effects, not_resolved_from
from tollmeter.model import Results, json_document
from tollmeter.report.blocks import Block, Cell, Column, Figure, Line, Table
from tollmeter.report.compared_rows import Compared, full_name, row_table
from tollmeter.report.numbers import DASH, count, of_row, percent, quantity
from tollmeter.report.text_layout import interval
from tollmeter.root import typed
from tollmeter.store.sweeps import SweepState, SweepStep

_MOST_ROWS = 20
"""Rows of the table; `toll compare` prints all."""
_WORDS = {"better": "better", "worse": "worse", "same": "~", "cannot tell": "?"}


@dataclass(frozen=True)
class SweptValues:
    """A sweep, its steps with their runs in the order of measuring, and the effects of its values."""

    sweep: SweepState
    steps: tuple[tuple[SweepStep, Results | None], ...]
    effects: tuple[ValueEffect, ...]
    drift: Estimate | None

    @property
    def best(self) -> ValueEffect | None:
        return best(self.effects)


def swept_values(sweep: SweepState, steps: Sequence[tuple[SweepStep, Results | None]]) -> SweptValues:
    runs = [SweptRun(step.value, results.index if results else None) for step, results in steps]
    known = any(run.made for run in runs if run.value == sweep.first)
    found = sorted(effects(runs), key=lambda effect: sweep.values.index(effect.value)) if known else ()
    return SweptValues(sweep, tuple(steps), tuple(found), drift(runs) if known else None)


def failures(swept: SweptValues) -> list[str]:
    """Returns the steps without a run, in sentences."""
    return [f"{swept.sweep.variable} {step.value}: {step.reason}" for step, _ in swept.steps if step.reason]


# ---- in words -------------------------------------------------------------------------------------------------------


def blocks(swept: SweptValues) -> Iterator[Block]:
    """Yields the answer of a sweep, its table of values, the rows that changed, and what limits the answer."""
    sweep = swept.sweep
    yield f"{sweep.variable}: {sweep_answer(swept)}"
    yield _value_table(swept)
    if rows := _rows(swept):
        yield rows
    if not sweep.is_done:
        yield f"It was stopped after {len(sweep.steps)} of {len(sweep.order)} steps."
    if swept.drift is not None:
        yield (
            f"The returns to {sweep.first} {_drifted(swept.drift)} from the first to the last; each value is compared "
            "with the neighbouring returns."
        )
    yield from failures(swept)
    measured = [str(Path(sweep.folder) / step.run) for step, _ in swept.steps if step.run]
    if len(measured) > 1:
        yield f"`{typed('compare', *measured[:2])}` compares two of its runs."


def sweep_answer(swept: SweptValues) -> str:
    """Returns a sentence with the best verified value."""
    sweep, chosen = swept.sweep, swept.best
    if not swept.effects:
        return f"no value can be compared with {sweep.first}."
    if chosen is None or chosen.cost is None:
        inconclusive = [effect.value for effect in swept.effects if effect.verdict == "cannot tell"]
        more = f"; inconclusive: {', '.join(inconclusive)}, a longer --budget decides more" if inconclusive else ""
        return f"no value is better than {sweep.first}{more}."
    low, high = 1 - chosen.cost.high, 1 - chosen.cost.low
    best = (
        f"the best value that verified is {chosen.value}: its cost is {percent(1 - chosen.cost.value)} "
        f"({percent(low)} to {percent(high)}) below that at {sweep.first}"
    )
    slower = f"; {count(chosen.slower, 'row')} of it {'is' if chosen.slower == 1 else 'are'} worse" * bool(
        chosen.slower
    )
    alike = not_resolved_from(chosen, swept.effects)
    return f"{best}{slower}{'; not resolved from it: ' + ', '.join(alike) if alike else ''}."


def _drifted(drift: Estimate) -> str:
    if drift.low <= 1 <= drift.high:
        return f"did not move beyond their intervals ({_signed(drift.low)} to {_signed(drift.high)})"
    return f"moved by {_signed(drift.value)} ({_signed(drift.low)} to {_signed(drift.high)})"


def _signed(ratio: float) -> str:
    return f"{'+' if ratio >= 1 else '−'}{percent(ratio - 1)}"


def _value_table(swept: SweptValues) -> Table:
    """Returns the table of values, in the order of the command line. The first value is drawn without an interval: the
    scale is of ratios to it."""
    sweep, by_value = swept.sweep, {effect.value: effect for effect in swept.effects}
    ends = [end for effect in swept.effects if effect.cost for end in (effect.cost.low, effect.cost.high, 1.0)]
    scale = (min(ends), max(ends)) if ends and all(map(isfinite, ends)) and min(ends) > 0 else (0.5, 2.0)
    lines = []
    for value in sweep.values:
        steps = [step for step, _ in swept.steps if step.value == value]
        verified = sum(not step.reason for step in steps)
        proven = "" if not steps else "no" if not verified else "yes" if verified == len(steps) else "not always"
        cells: list[Cell] = [value, proven]
        effect = by_value.get(value)
        chosen = " (best)" if effect is not None and effect is swept.best else ""
        if value == sweep.first:
            cells += [Figure("1.00", "×"), "the first", "", "", interval(1.0, 1.0, 1.0, scale, "││││")]
        elif effect is None or effect.cost is None:
            cells += [DASH, "" if steps else "not reached", "", "", ""]
        else:
            cost = effect.cost
            cells += [
                quantity(cost.value, "ratio", cost.low, cost.high), f"{_WORDS[effect.verdict]}{chosen}",
                str(effect.faster), str(effect.slower), interval(cost.low, cost.value, cost.high, scale),
            ]  # fmt: skip
        lines.append(Line(tuple(cells), _why_inconclusive(effect)))
    columns = [
        Column(sweep.variable), Column("verified"), Column(f"cost over {sweep.first}", True), Column("verdict"),
        Column("rows better", True, spare=2), Column("worse", True, spare=1),
        Column(f"{quantity(scale[0], 'ratio')} to {quantity(scale[1], 'ratio')}"),
    ]  # fmt: skip
    return Table(columns, lines)


def _why_inconclusive(effect: ValueEffect | None) -> str:
    """Returns the most frequent reason of inconclusive rows, except a wide interval, which the table itself shows."""
    if effect is None or effect.verdict != "cannot tell":
        return ""
    reasons = Counter(change.reason for change in effect.changes if change.reason and change.verdict == "cannot tell")
    return f"{effect.value}: {reasons.most_common(1)[0][0]}" if reasons else ""


def _compared(swept: SweptValues) -> Compared | None:
    """Returns the values as runs that are compared with the run of the first value. Each change is relative to the
    adjacent runs of the first value. None if no value can be compared."""
    by_value = {step.value: results for step, results in reversed(swept.steps) if results is not None}
    first = by_value.get(swept.sweep.first)
    if first is None or not swept.effects:
        return None
    comparisons = tuple(
        Comparison(changes=effect.changes, refused=(), control=None, machine_moved=False) for effect in swept.effects
    )
    runs = (first, *(by_value[effect.value] for effect in swept.effects))
    return Compared(runs, (swept.sweep.first, *(effect.value for effect in swept.effects)), comparisons, machines=True)


def _rows(swept: SweptValues) -> Table | None:
    compared = _compared(swept)
    keys = [*compared.by_key()] if compared else []
    if compared is None or len(keys) > _MOST_ROWS:
        return None
    if len(keys) == 1:  # its ratios are those of the table above
        return _one_row(swept)
    return row_table(compared, keys)


def _one_row(swept: SweptValues) -> Table:
    """Returns the numbers of the only row, run by run in the order of measuring."""
    lines = []
    for step, results in swept.steps:
        numbers = [of_row(row) for row in results.index.rows if row.status == "ok"] if results else []
        lines.append(Line((step.run or DASH, step.value, numbers[0] if numbers else DASH)))
    return Table([Column("Run"), Column(swept.sweep.variable), Column("median", True)], lines)


# ---- for programs ---------------------------------------------------------------------------------------------------


def as_json(swept: SweptValues) -> bytes:
    """Returns the sweep with its values. runs: folders below the sweep's. cost: over the first value's, none if nothing
    can be compared. drift: cost of the last return over the cost of the first. adjusted: as for `toll compare`, over
    all values."""
    sweep, chosen = swept.sweep, swept.best
    answer = {
        "format": 1, "variable": sweep.variable, "first": sweep.first, "seed": sweep.seed, "folder": sweep.folder,
        "order": sweep.order, "best": chosen.value if chosen else None,
        "not_resolved_from_best": not_resolved_from(chosen, swept.effects) if chosen else (), "drift": swept.drift,
        "values": [_value(swept, value) for value in sweep.values], "restored": not sweep.unrestored,
    }  # fmt: skip
    return json_document(answer)


def _value(swept: SweptValues, value: str) -> dict[str, Any]:
    steps = [step for step, _ in swept.steps if step.value == value]
    effect = next((effect for effect in swept.effects if effect.value == value), None)
    cost = effect.cost if effect else None
    return {
        "value": value, "verified": bool(steps) and not any(step.reason for step in steps),
        "runs": [step.run for step in steps if step.run], "reasons": [step.reason for step in steps if step.reason],
        "verdict": effect.verdict if effect else None,
        "cost": cost.value if cost else None, "low": cost.low if cost else None,
        "high": cost.high if cost and isfinite(cost.high) else None,
        "rows": [
            {"row": full_name(change.new), "unit": change.new.unit, "ratio": change.ratio.value,
             "low": change.ratio.low, "high": change.ratio.high, "adjusted": change.adjusted,
             "verdict": change.verdict, "reason": change.reason}
            for change in (effect.changes if effect else ())
        ],
    }  # fmt: skip
