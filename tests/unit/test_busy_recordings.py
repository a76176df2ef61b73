# SPDX-License-Identifier: Apache-2.0
"""Two default runs of a guest whose sibling hyperthreads were busy for 83 and 41 % of the time, derived again: what a
row means does not depend on how often the sibling was busy."""

from __future__ import annotations

from math import log

import msgspec
import numpy as np
import pytest

import tollmeter
from support.recordings import copied
from tollmeter.judgement.compare import NOT_CALLED_CHANGED, Change
from tollmeter.judgement.verdict import has_interval
from tollmeter.numbers.readings import is_time


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tollmeter.Run]:
    return [tollmeter.open(copied(f"busy/{name}", tmp_path_factory.mktemp("busy"))) for name in ("1", "4")]


def timed(runs: list[tollmeter.Run]) -> list[Change]:
    """Of the timed rows that have an interval in both, at one clock."""
    changes = tollmeter.compare(*runs).changes
    return [
        change for change in changes
        if is_time(change.old.unit) and has_interval(change.old) and has_interval(change.new)
    ]  # fmt: skip


def test_an_index_that_is_read_back_prints_the_same(runs: list[tollmeter.Run]) -> None:
    for run in runs:
        assert msgspec.json.encode(tollmeter.open(run.folder).index) == msgspec.json.encode(run.index)


def test_uncontended_costs_agree_and_mixed_ones_say_how_little_they_do(runs: list[tollmeter.Run]) -> None:
    both = [change for change in timed(runs) if change.old.state == change.new.state]
    assert len(both) > 300
    uncontended = [
        log(change.ratio.value) for change in both if change.old.state == "uncontended" and not change.old.shares
    ]
    assert len(uncontended) > 60 and np.median(np.abs(uncontended)) < 0.02
    for state, most in (("uncontended", 0.1), ("all", 0.2)):
        outside = [not change.ratio.low <= 1 <= change.ratio.high for change in both if change.old.state == state]
        assert np.mean(outside) < most, state


def test_a_comparison_calls_no_neighbour_a_change_of_the_code(runs: list[tollmeter.Run]) -> None:
    changes = timed(runs)
    changed = [change for change in changes if change.verdict not in NOT_CALLED_CHANGED]
    assert len(changed) <= 0.01 * len(changes)
    assert all(change.old.state == change.new.state == "uncontended" and not change.old.shares for change in changed)


def test_data_in_a_cache_that_others_use_is_a_range(runs: list[tollmeter.Run]) -> None:
    shared = [row for run in runs for row in run.rows if row.shares and row.status == "ok"]
    assert {row.shares for row in shared} == {"L3"} and len(shared) > 20
    assert not any(row.converged for row in shared)
    assert all(row.high and row.low and row.high > 1.2 * row.low for row in shared)
    assert all("share of L3" in (row.reason or "") for row in shared)
