# SPDX-License-Identifier: Apache-2.0
"""Which rows become lines of the toll table, and what a line says."""

from __future__ import annotations

from typing import Any

from tollmeter.model import Metric, Parameter, Probe, Row, State
from tollmeter.numbers.tolls import tolls

ENTRY = Probe(
    probe="kernel.enter", question="?", revision=1,
    metrics=(
        Metric(name="trip", unit="ns", better="less", summary="s", toll="system call"),
        Metric(name="control", unit="ns", better="less", summary="s"),
    ),
)  # fmt: skip
CALL = Probe(
    probe="kernel.call", question="?", revision=1,
    metrics=(Metric(name="trip", unit="ns", better="less", summary="s", toll="ask by {channel}"),),
    parameters=(
        Parameter(name="channel", kind="choice", summary="s", choices=("pipe", "shared_memory")),
        Parameter(name="size", kind="size", summary="s", typical="64"),
    ),
)  # fmt: skip
SIGNAL = Probe(
    probe="kernel.signal", question="?", revision=1,
    metrics=(Metric(name="trip", unit="ns", better="less", summary="s", toll="signal, handled"),),
    parameters=(
        Parameter(name="step", kind="choice", summary="s", choices=("deliver", "blocked"), typical="deliver"),
    ),
)  # fmt: skip
PROBES = {probe.probe: probe for probe in (ENTRY, CALL, SIGNAL)}


def row(probe: str, median: float | None, metric: str = "trip", **more: Any) -> Row:
    known: dict[str, Any] = {
        "revision": 1, "abi": "x86_64", "target": "local", "clock": "hardware", "parameters": {}, "unit": "ns",
        "better": "less", "status": "ok" if median else "failed", "low": median, "high": median,
    }  # fmt: skip
    return Row(probe=probe, metric=metric, median=median, **{**known, **more})


def labels(rows: list[Row]) -> list[str]:
    return [toll.toll for toll in tolls(rows, PROBES, 4e9) if toll.value]


def test_a_toll_line_has_cycles_and_calls_per_millisecond() -> None:
    (toll,) = tolls([row("kernel.enter", 125.0)], PROBES, 4e9)
    assert (toll.toll, toll.value, toll.unit, toll.cycles, toll.note) == ("system call", 125.0, "ns", 500.0, "")
    assert tolls([row("kernel.enter", 125.0)], PROBES, None)[0].cycles is None


def test_only_metrics_that_name_a_line_and_rows_with_a_number_are_shown() -> None:
    assert labels([row("kernel.enter", 1.0, metric="control"), row("kernel.enter", None)]) == []


def test_the_template_takes_values_in_words_and_only_typical_points_stand_for_the_rest() -> None:
    rows = [row("kernel.call", 9.0, parameters={"channel": "shared_memory", "size": size}) for size in (64, 4096)]
    assert labels(rows) == ["ask by shared memory"]
    assert tolls(rows, PROBES, None)[0].parameters["size"] == 64


def test_the_only_point_measured_stands_under_its_own_name() -> None:
    """The line's words are about 64 bytes."""
    (toll,) = tolls([row("kernel.call", 9.0, parameters={"channel": "pipe", "size": 4096})], PROBES, 4e9)
    assert (toll.toll, toll.typical) == ("kernel.call, channel pipe, size 4096", False)


def test_a_step_is_not_called_by_the_typical_steps_words() -> None:
    assert labels([row("kernel.signal", 554.0, parameters={"step": "blocked"})]) == ["kernel.signal, step blocked"]


def test_where_the_typical_value_has_no_number_no_other_takes_its_line() -> None:
    rows = [
        row("kernel.signal", None, parameters={"step": "deliver"}, status="interrupted", reason="the budget ended it"),
        row("kernel.signal", 554.0, parameters={"step": "blocked"}),
    ]
    assert labels(rows) == []
    (gap,) = tolls(rows, PROBES, 4e9)
    assert (gap.toll, gap.value, gap.reason) == ("signal, handled", None, "the budget ended it")


def test_what_a_machine_cannot_do_is_no_line() -> None:
    assert tolls([row("kernel.enter", None, status="unsupported", reason="no such gate")], PROBES, 4e9) == ()
    assert [toll.reason for toll in tolls([row("kernel.enter", 5.0)], PROBES, 4e9)] == [None]


def test_cheapest_first_and_nothing_emulated() -> None:
    rows = [
        row("kernel.enter", 125.0),
        row("kernel.call", 4.0, parameters={"channel": "pipe", "size": 64}),
        row("kernel.enter", 3.0, clock="instructions", abi="arm-soft"),
    ]
    assert labels(rows) == ["ask by pipe", "system call"]


def test_a_second_mode_and_what_the_row_says_are_noted() -> None:
    told = row("kernel.enter", 100.0, reason="half of the visits were on another CPU")
    two = row("kernel.enter", 100.0, modes=(100.0, 180.0))
    assert tolls([told], PROBES, None)[0].note == told.reason
    assert "180" in tolls([two], PROBES, None)[0].note


def test_rows_of_two_machines_never_share_the_table() -> None:
    """This machine's stand in it; without any, those of the first place by name."""
    board, arm = (row("kernel.enter", cost, target=place) for cost, place in ((5.0, "ssh:board"), (7.0, "ssh:arm")))
    here = row("kernel.enter", 9.0)
    assert [toll.value for toll in tolls([board, arm, here], PROBES, 4e9)] == [9.0]
    assert [toll.value for toll in tolls([board, arm], PROBES, 4e9)] == [7.0]
    silent = row("kernel.enter", None, target="local", status="infrastructure")
    assert [toll.value for toll in tolls([silent, board], PROBES, 4e9)] == [5.0]


def test_a_toll_in_cycles_has_its_states_in_ns_too() -> None:
    shared = State(state="contended", share=0.4, median=800.0, low=760.0, high=840.0)
    (toll,) = tolls([row("kernel.enter", 400.0, unit="cycle", states=(shared,))], PROBES, 4e9)
    assert (toll.value, toll.states[0].median, toll.states[0].high) == (100.0, 200.0, 210.0)
