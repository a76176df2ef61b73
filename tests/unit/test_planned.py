# SPDX-License-Identifier: Apache-2.0
"""What `toll run --dry-run` prints: the answer before the list, and every value of the points in it."""

from __future__ import annotations

from tollmeter.model import Metric, Parameter, Point, Probe, Published, RowOf
from tollmeter.report.blocks import Table
from tollmeter.report.planned import planned, without_row

PROBE = Probe(
    probe="memory.latency", question="q", revision=1,
    metrics=(Metric(name="load", unit="ns", better="less", summary="s"),),
    parameters=(Parameter(name="size", kind="size", summary="s"), Parameter(name="pages", kind="choice", summary="s")),
)  # fmt: skip
POINTS = [
    Point(probe=PROBE.probe, abi=abi, target="local", parameters=(("size", 1 << 10 + octave), ("pages", "small")))
    for octave in range(6)
    for abi in ("x86_64", "x32")
]


def test_the_time_stands_before_a_line_for_each_probe_with_human_sizes() -> None:
    answer, where, table, every = planned(POINTS, {PROBE.probe: PROBE}, 47.6, 100.0)
    assert answer == "About 48 s of 100 s, 12 points of 1 probe."
    assert where == "All x86_64, x32 on local."
    assert isinstance(table, Table)
    (line,) = table.rows
    assert line.cells == (PROBE.probe, "12", "size 1 KiB to 32 KiB (6 values); pages small")
    assert isinstance(every, str) and "--all" in every


def test_a_budget_that_is_too_short_is_said_and_places_that_differ_have_a_column() -> None:
    other = Point(probe="kernel.loop", abi="x86_64", target="qemu-user", parameters=())
    answer, table, _ = planned([*POINTS[:2], other], {PROBE.probe: PROBE}, 200.0, 100.0)
    assert "3 points of 2 probes: the budget ends before" in str(answer)
    assert isinstance(table, Table)
    assert [line.cells[-1] for line in table.rows] == ["x86_64, x32 on local", "x86_64 on qemu-user"]


def test_claims_without_a_planned_row_are_named_with_the_row() -> None:
    first = Published(what="Saturation", figure="8"), RowOf(probe="kernel.switch", parameters={"processes": 16})
    second = Published(what="Entry", figure="9"), RowOf(means="entry", metric="trip", abi="x32")
    assert without_row([first]) == "1 claim has no planned row: 'Saturation' (kernel.switch processes=16)."
    assert without_row([first, second]) == (
        "2 claims have no planned row: 'Saturation' (kernel.switch processes=16); 'Entry' (entry trip for x32)."
    )
