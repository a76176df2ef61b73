# SPDX-License-Identifier: Apache-2.0
"""Which value of a knob is best, on a modelled machine whose optimum is known, that drifts and whose runs differ."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from math import exp, log2
from pathlib import Path

import msgspec
import pytest

from support.builders import metric, probe, row
from support.example_runs import small
from support.rendered import of_blocks
from support.snapshots import approve
from tollmeter.experiment.precision import NORMAL
from tollmeter.judgement.compare import NOT_CALLED_CHANGED
from tollmeter.judgement.swept import SweptRun, best, drift, effects, not_resolved_from
from tollmeter.library.sweeping import Knob, new_sweep, order_of
from tollmeter.model import Index, Row, StateName
from tollmeter.report.blocks import Block, heading
from tollmeter.report.swept import SweptValues, as_json, blocks, sweep_answer, swept_values
from tollmeter.report.swept_page import render
from tollmeter.store.sweeps import SweepStep

RUNS_SD, VISITS_SD = 0.010, 0.006
"""Of the modelled runs: as a quiet guest's differ."""
VALUES = ("1", "2", "4", "8", "16")
MACHINE = small().index


def measured(cost: float, chance: random.Random, *, unit: str = "ns", name: str = "any.probe") -> Row:
    """A row of a run: its true cost, off by what this run differs by and by the scatter of its visits."""
    seen = cost * exp(chance.gauss(0, RUNS_SD) + chance.gauss(0, VISITS_SD))
    reach = NORMAL * (RUNS_SD**2 + VISITS_SD**2) ** 0.5
    value = seen if unit == "ns" else 1e9 / seen
    made = row(value, of=name, unit=unit, layouts=5, error=VISITS_SD, freedom=8.0, runs_sd=RUNS_SD)
    return msgspec.structs.replace(made, low=value * exp(-reach), high=value * exp(reach))


def sweep(cost: Callable[[str], float], seed: int, *, drifts: float = 0.03, unit: str = "ns") -> list[SweptRun]:
    """Runs in the sweep's order, on a machine that becomes slower by so much until the end."""
    chance, order = random.Random(seed), order_of(VALUES, seed)
    return [
        SweptRun(value, _index(measured(100 * cost(value) * (1 + drifts * place / len(order)), chance, unit=unit)))
        for place, value in enumerate(order)
    ]


def _index(*rows: Row) -> Index:
    return Index(format=3, run=MACHINE.run, machine=MACHINE.machine, rows=rows)


def of_optimum(value: str) -> float:
    """Least at 4, and 6 % more for each step away from it."""
    return 1 + 0.06 * abs(log2(int(value)) - 2)


@pytest.mark.parametrize("unit", ["ns", "op/s"])
def test_the_best_value_is_found_in_nineteen_of_twenty(unit: str) -> None:
    found = [best(effects(sweep(of_optimum, seed, unit=unit))) for seed in range(20)]
    assert sum(chosen is not None and chosen.value == "4" for chosen in found) >= 19
    costs = [chosen.cost for chosen in found if chosen and chosen.cost]
    assert sum(cost.low <= 1 / 1.12 <= cost.high for cost in costs) >= 19


def test_where_no_value_has_an_effect_none_is_named_in_nineteen_of_twenty() -> None:
    """The machine drifts by as much as the real effects of the other test."""
    named = [best(effects(sweep(lambda _: 1.0, seed, drifts=0.12))) for seed in range(100)]
    assert sum(chosen is not None for chosen in named) <= 5


def test_a_drift_is_seen_and_taken_out() -> None:
    runs = sweep(of_optimum, 3, drifts=0.3)
    moved = drift(runs)
    assert moved and moved.low > 1.1
    (of_four,) = (effect for effect in effects(runs) if effect.value == "4")
    assert of_four.cost and of_four.cost.value == pytest.approx(1 / 1.12, rel=0.03)


def test_a_value_whose_returns_disagree_is_inconclusive() -> None:
    """The machine became slower for good during the run between them."""
    chance = random.Random(1)
    runs = [SweptRun(value, _index(measured(cost, chance))) for value, cost in (("1", 100), ("2", 130), ("1", 130))]
    (effect,) = effects(runs)
    assert effect.verdict == "cannot tell"
    assert (effect.changes[0].verdict, effect.changes[0].reason) == ("cannot tell", "the neighbouring returns disagree")


def test_a_value_that_could_not_be_measured_has_no_effect_and_its_neighbours_have_theirs() -> None:
    runs = sweep(of_optimum, 5)
    runs[0] = runs[0]._replace(made=None)
    lost = runs[3].value
    runs[3] = runs[3]._replace(made=None)
    assert [effect.value for effect in effects(runs)] == [run.value for run in runs[1::2] if run.value != lost]
    assert all(effect.cost for effect in effects(runs))


def test_a_change_that_one_of_many_values_may_have_by_chance_is_none() -> None:
    """3.6 % is 2.2 standard errors: enough for one value, and met by chance among four."""

    def runs(*others: str) -> list[SweptRun]:
        costs = [
            ("1", 100.0),
            *(pair for value in others for pair in ((value, 96.5 if value == "2" else 100.0), ("1", 100.0))),
        ]
        exact = random.Random()
        exact.gauss = lambda *_: 0.0  # type: ignore[method-assign]
        return [SweptRun(value, _index(measured(cost, exact))) for value, cost in costs]

    assert effects(runs("2"))[0].changes[0].verdict == "faster"
    of_many = effects(runs("4", "2", "8", "16"))
    assert [effect.changes[0].verdict in NOT_CALLED_CHANGED for effect in of_many] == [True] * 4
    assert of_many[1].changes[0].reason == "one of many values"


def test_the_cost_of_several_rows_is_their_geometric_mean() -> None:
    chance = random.Random(2)
    first, other = (
        _index(*(measured(cost, chance, name=f"any.{name}") for name, cost in pair.items()))
        for pair in ({"one": 100.0, "two": 100.0}, {"one": 50.0, "two": 128.0})
    )
    (effect,) = effects([SweptRun("a", first), SweptRun("b", other), SweptRun("a", first)])
    assert effect.cost and effect.cost.value == pytest.approx(0.8, rel=0.05)
    assert (effect.faster, effect.slower, effect.verdict) == (1, 1, "better")


def test_the_cost_is_of_times_in_like_states_of_the_core_where_there_are_some() -> None:
    """A contended run beside an uncontended one is no effect of a knob; what is left without times is no substitute."""
    chance = random.Random(3)

    def index(cost: float, state: StateName, *, alike: bool) -> Index:
        unlike, time = (measured(cost, chance, name=f"any.{name}") for name in ("unlike", "time"))
        memory = measured(100.0, chance, unit="B", name="any.memory")
        states = (state, "uncontended" if alike else state, "uncontended")
        rows = zip((unlike, time, memory), states, strict=True)
        return _index(*(msgspec.structs.replace(row, state=own) for row, own in rows))

    for alike, verdict in ((True, "better"), (False, "cannot tell")):
        first, other = index(100, "uncontended", alike=alike), index(50, "contended", alike=alike)
        (effect,) = effects([SweptRun("a", first), SweptRun("b", other), SweptRun("a", first)])
        assert effect.cost and effect.cost.value == pytest.approx(0.5, rel=0.05) and effect.verdict == verdict


def test_what_is_not_resolved_from_the_best_is_named() -> None:
    several = effects(sweep(lambda value: 1.0 if value == "1" else 0.8, 1))
    chosen = best(several)
    assert chosen and {chosen.value, *not_resolved_from(chosen, several)} == {*VALUES[1:]}


def test_the_order_has_each_value_once_and_the_first_between() -> None:
    order = order_of(VALUES, 4)
    assert order[::2] == ("1",) * 5 and sorted(order[1::2]) == sorted(VALUES[1:])
    assert order == order_of(VALUES, 4) and len({order_of(VALUES, seed) for seed in range(20)}) > 5


# ---- what is printed ------------------------------------------------------------------------------------------------


def of_sweep(runs: Sequence[SweptRun]) -> SweptValues:
    """As kept on disk, without its folders."""
    knob = Knob("knob", "set {}")
    sweep = new_sweep(knob, VALUES, [], 1, Path("/sweep"))
    steps = [
        (SweepStep(value=run.value, run=f"{place:02}" if run.made else "", reason="" if run.made else "not set"),
         msgspec.structs.replace(small(), index=run.made, probes={"any.probe": probe(metric())}) if run.made else None)
        for place, run in enumerate(runs)
    ]  # fmt: skip
    return swept_values(msgspec.structs.replace(sweep, steps=tuple(step for step, _ in steps)), steps)


def test_what_is_printed_of_a_sweep() -> None:
    runs = sweep(of_optimum, 2)
    lost = next(place for place, run in enumerate(runs) if run.value == "16")
    swept = {
        "the best is 4, and 16 was not set": of_sweep(
            [*runs[:lost], runs[lost]._replace(made=None), *runs[lost + 1 :]]
        ),
        "nothing was measured": of_sweep([SweptRun("1", None), SweptRun("2", None)]),
    }
    made: list[Block] = []
    for title, one in swept.items():
        read = msgspec.json.decode(as_json(one))
        numbers = {
            value["value"]: (value["verified"], value["cost"] and round(value["cost"], 3)) for value in read["values"]
        }
        made += [heading(title), sweep_answer(one), *blocks(one), f"{read['best']} {read['restored']} {numbers}"]
    approve("sweep", of_blocks(made))


def test_the_page_draws_the_numbers_over_the_values() -> None:
    text = render(of_sweep(sweep(of_optimum, 2)))
    assert 'id="chart-any-probe-cost"' in text and "the best value that verified is 4" in text
    data = json.loads(re.findall(r'type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[0])
    (drawn,) = data["charts"]["any-probe-cost"]["datasets"].values()
    assert sorted(set(drawn["x"])) == [1, 2, 4, 8, 16]
