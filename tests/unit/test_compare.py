# SPDX-License-Identifier: Apache-2.0
"""What changed between two runs: true changes are seen, chance is not, and the machine's own are not the code's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from support import example_runs
from support.builders import CLOCK_HZ, metric, outcome, probe, row, sample
from tollmeter.experiment.core import cores_hz
from tollmeter.judgement.compare import Comparison, compare, of_rows
from tollmeter.model import Outcome, Probe, State, Work
from tollmeter.numbers.rows import row_key, rows

ROWS = 60


def run(
    seed: int, factor: dict[int, float] | None = None, visits: int = 6, clock_hz: float = CLOCK_HZ, **more: Any
) -> list[Outcome]:
    """ROWS points with long tails between visits and within, some of them `factor` times as dear."""
    chance = np.random.default_rng(seed)
    made = []
    for point in range(ROWS):
        spread = (0.002, 0.01, 0.05)[point % 3]
        for visit in range(visits):
            middle = 50 * (factor or {}).get(point, 1.0) * np.exp(spread * chance.standard_t(3))
            samples = [sample(middle * np.exp(spread * chance.exponential()), iterations=100_000) for _ in range(5)]
            controls = (clock_hz * np.exp(0.001 * chance.normal()),) * 2
            made.append(outcome(samples, visit=visit, parameters={"point": point}, controls=controls, **more))
    return made


TOLD = {"any.probe": probe()}


def compared(
    old: Sequence[Outcome], new: Sequence[Outcome], probes: Mapping[str, Probe], least: float = 0.01
) -> Comparison:
    before, after = ({row_key(row): row for row in rows(side, probes)} for side in (old, new))
    clocks = [rates[rates > 0] for rates in map(cores_hz, (old, new))]
    clock_ratio = float(np.median(clocks[1]) / np.median(clocks[0])) if all(map(len, clocks)) else None
    return of_rows(before, after, clock_ratio, least)


def verdicts(found: Comparison) -> Counter[str]:
    return Counter(change.verdict for change in found.changes)


def test_nothing_changed_is_not_called_a_change() -> None:
    """A/A: six pairs of runs of the same machine, 360 rows. At most one row in 200 may be a false alarm."""
    alarms = 0
    for seed in range(6):
        counted = verdicts(compared(run(seed), run(seed + 1000), TOLD))
        alarms += counted["faster"] + counted["slower"]
    assert alarms <= 360 / 200


def test_quiet_rows_are_the_same_and_noisy_ones_inconclusive() -> None:
    found = compared(run(1, visits=12), run(2, visits=12), TOLD)
    by_noise = {spread: Counter[str]() for spread in range(3)}
    for change in found.changes:
        by_noise[int(change.old.parameters["point"]) % 3][change.verdict] += 1
    assert by_noise[0]["same"] >= 18
    assert by_noise[2]["cannot tell"] >= 18


def test_what_changed_is_found_with_its_size_and_direction() -> None:
    changed = {0: 1.1, 3: 1.1, 6: 0.9, 9: 0.9}
    found = compared(run(3), run(4, changed), TOLD)
    told = {int(one.new.parameters["point"]): one for one in found.changes if one.verdict in ("faster", "slower")}
    assert set(changed) <= set(told)
    assert len(told) <= 5
    for point, factor in changed.items():
        assert told[point].verdict == ("slower" if factor > 1 else "faster")
        assert told[point].ratio.low <= factor <= told[point].ratio.high
        assert told[point].cause == "code"


def test_a_change_below_what_matters_is_none() -> None:
    shifted = dict.fromkeys(range(0, ROWS, 3), 1.04)
    assert verdicts(compared(run(5), run(6, shifted), TOLD, least=0.1))["slower"] == 0
    assert verdicts(compared(run(5), run(6, shifted), TOLD, least=0.01))["slower"] >= 10


def test_a_change_by_what_runs_differ_by_is_none() -> None:
    """However well each run knows its own: 1.2 % are two deviations of what runs of one machine differ by."""
    shifted = dict.fromkeys(range(0, ROWS, 3), 1.012)
    assert verdicts(compared(run(5, visits=12), run(6, shifted, visits=12), TOLD, least=0.001))["slower"] == 0


def test_two_visits_are_inconclusive_and_three_are_not() -> None:
    doubled = dict.fromkeys(range(ROWS), 2.0)
    found = [compared(run(7, visits=visits), run(8, doubled, visits=visits), TOLD) for visits in (2, 3)]
    assert set(verdicts(found[0])) == {"cannot tell"}
    assert verdicts(found[1])["slower"] > ROWS / 2


def test_a_whole_core_and_a_shared_one_are_no_pair() -> None:
    old, new = (row(median, state=state) for median, state in ((10.0, "uncontended"), (20.0, "contended")))
    alike = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01)
    assert [change.verdict for change in alike.changes] == ["cannot tell"]
    both = of_rows({row_key(old): old}, {row_key(new): row(20.0, state="uncontended")}, None, 0.01)
    assert [change.verdict for change in both.changes] == ["slower"]


@pytest.mark.parametrize(("calm", "state", "verdict"), [(False, "contended", "same"), (True, "all", "cannot tell")])
def test_disturbed_runs_compare_costs_beside_a_busy_sibling(calm: bool, state: str, verdict: str) -> None:
    """The mixture of a busy sibling differs by its share of the time; the cost beside it does not."""
    known = {"freedom": 8.0, "runs_sd": 0.001}
    beside = State(state="contended", share=0.7, median=20.0, low=19.9, high=20.1, error=0.002, **known)
    old, new = (
        msgspec.structs.replace(row(median, state="all"), error=0.1, states=(beside,)) for median in (16.0, 18.0)
    )
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01, calm=calm).changes
    assert (change.old.state, change.verdict) == (state, verdict)


def test_a_cost_beside_a_busy_sibling_shows_no_change() -> None:
    """Its neighbour may do something else in the other run."""
    old, new = (row(median, state="contended") for median in (10.0, 20.0))
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01, calm=False).changes
    assert change.verdict == "cannot tell" and change.reason


def test_an_uncontended_change_is_seen_beside_a_more_precise_contended_cost() -> None:
    known = {"error": 0.0005, "freedom": 8.0, "runs_sd": 0.001, "low": 29.9, "high": 30.1}
    beside = State(state="contended", share=0.7, median=30.0, **known)
    old, new = (msgspec.structs.replace(row(median, state="uncontended"), states=(beside,)) for median in (10.0, 15.0))
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01, calm=False).changes
    assert (change.old.state, change.verdict) == ("uncontended", "slower")


@pytest.mark.parametrize(("error", "verdict"), [(0.02, "same"), (0.04, "cannot tell")])
def test_rows_are_the_same_where_a_difference_of_5_percent_is_excluded(error: float, verdict: str) -> None:
    """By two one-sided tests at 5 %: 1.645 standard errors on either side."""
    sides = (msgspec.structs.replace(row(10.0), error=error / 2**0.5, freedom=1e3, runs_sd=0.0) for _ in range(2))
    (change,) = of_rows(*({row_key(side): side} for side in sides), None, 0.01).changes
    assert change.verdict == verdict


def test_rows_of_different_best_kernels_are_no_pair() -> None:
    old, new = (msgspec.structs.replace(row(10.0), chosen={"kernel": name}) for name in ("avx2", "avx512"))
    assert of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01).refused
    assert not of_rows({row_key(old): old}, {row_key(old): old}, None, 0.01).refused


def test_a_machine_that_moved_is_blamed_and_the_code_is_not() -> None:
    slower = dict.fromkeys(range(ROWS), 1.2)
    found = compared(run(9), run(10, slower, clock_hz=CLOCK_HZ / 1.1), TOLD)
    assert found.machine_moved
    assert found.control == pytest.approx(1 / 1.1, rel=0.01)
    waiting = [change for change in found.changes if not change.new.clock_hz]
    assert "machine" in {change.cause for change in waiting}
    assert {change.cause for change in waiting} <= {None, "machine"}


@pytest.mark.parametrize(
    ("clock", "slower", "verdict"), [(0.9, 1.0, "same"), (0.9, 1.1, "slower"), (1.1, 0.9, "faster")]
)
def test_what_follows_the_clock_is_compared_in_its_cycles(clock: float, slower: float, verdict: str) -> None:
    """Within an hour the clock of one machine wandered by 3.4 %, and 23 of 40 rows with it."""
    old = row(10.0, clock_hz=4e9)
    new = row(10.0 * slower / clock, clock_hz=4e9 * clock)
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, clock, 0.01).changes
    assert change.ratio.value == pytest.approx(slower)
    assert (change.verdict, change.cause) == (verdict, None if verdict == "same" else "code")


def test_rows_of_one_layout_say_nothing_of_another_run() -> None:
    """A size near a cache's end took 5.4 ns in one layout and 4.2 in the next run's: "faster, cause code"."""
    old, several, one = row(5.4), row(4.2), row(4.2, layouts=1)
    found = [of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01) for new in (several, one)]
    assert [each.changes[0].verdict for each in found] == ["faster", "cannot tell"]


@pytest.mark.parametrize(
    ("slower", "verdict"), [(1.0, "same"), (1.05, "same"), (1.025, "same"), (1.2, "slower"), (0.9, "faster")]
)
def test_what_may_or_may_not_follow_the_clock_changed_only_where_both_views_say_so(slower: float, verdict: str) -> None:
    """The clock fell by 5 %: the same time is 5 % fewer cycles, and the same cycles are 5 % more time."""
    old, new = row(10.0, clock_hz=None), row(10.0 * slower, clock_hz=None)
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, 1 / 1.05, 0.01).changes
    assert change.verdict == verdict


def test_a_rate_in_cycles_falls_with_the_clock_and_is_the_same() -> None:
    old, new = (row(rate, unit="B/s", clock_hz=hz) for rate, hz in ((100.0, 4e9), (90.0, 3.6e9)))
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, 0.9, 0.01).changes
    assert change.verdict == "same"


def test_a_probe_that_means_something_else_is_refused() -> None:
    old = row(10.0)
    new = msgspec.structs.replace(row(30.0), revision=old.revision + 1)
    found = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01)
    assert not found.changes and "revision" in found.refused[0].reason


def test_two_machines_are_named_and_blamed() -> None:
    one = example_runs.healthy().index
    other = msgspec.structs.replace(
        one, machine=msgspec.structs.replace(one.machine, kernel="Linux 9.9"),
        rows=tuple(msgspec.structs.replace(each, median=each.median and 2 * each.median, low=each.low and 2 * each.low,
                                           high=each.high and 2 * each.high) for each in one.rows),
    )  # fmt: skip
    assert not compare(one, one).differences
    found = compare(one, other)
    assert any("Linux 9.9" in difference for difference in found.differences)
    assert {change.cause for change in found.changes if change.cause} == {"machine"}
    busy = msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, verdict="busy"))
    assert compare(one, busy).differences == ("the new run is busy",)


def test_a_steady_machine_did_not_move() -> None:
    assert not compared(run(11), run(12), TOLD).machine_moved


def told_rate(better_more: bool) -> dict[str, Probe]:
    return {"any.probe": probe(metric(unit="B/s") if better_more else metric())}


def test_more_is_better_for_a_rate() -> None:
    work = Work(bytes=64)
    found = compared(run(13, work=work), run(14, {0: 1.2}, work=work), told_rate(True))
    change = next(one for one in found.changes if one.new.parameters["point"] == 0)
    assert change.verdict == "slower"
    assert change.ratio.value == pytest.approx(1 / 1.2, rel=0.03)


def test_clocks_that_differ_are_refused() -> None:
    found = compared(run(15), run(16, clock="virtual"), TOLD)
    assert not found.changes
    assert len(found.refused) == ROWS
    assert all("clock" in refusal.reason for refusal in found.refused)


def test_what_stands_in_one_run_only_is_named() -> None:
    old, new = run(17), run(18)
    lost = [one for one in new if one.point.values()["point"] != 5]
    (refusal,) = compared(old, lost, TOLD).refused
    assert ("point", 5) in refusal.key[4]
    assert "old run only" in refusal.reason


def test_a_failed_row_is_refused_with_its_reason() -> None:
    point = {"point": 5}
    new = [one for one in run(20) if one.point.values() != point]
    new.append(outcome(status="wrong_answer", reason="the sum is off", parameters=dict(point)))
    (refusal,) = compared(run(19), new, TOLD).refused
    assert "the sum is off" in refusal.reason


def test_gauges_are_compared_by_visit() -> None:
    told = {"any.probe": probe(metric("entries", unit="count", source="gauge", means=None))}
    old = [outcome(visit=i, gauges={"entries": 64.0 + i % 2}) for i in range(8)]
    new = [outcome(visit=i, gauges={"entries": 96.0 + i % 2}) for i in range(8)]
    (change,) = compared(old, new, told).changes
    assert change.ratio.value == pytest.approx(1.5, rel=0.02)
    assert change.verdict == "faster"
