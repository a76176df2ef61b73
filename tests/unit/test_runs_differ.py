# SPDX-License-Identifier: Apache-2.0
"""How much one machine's runs differ beyond what each says of itself."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from tollmeter.experiment.precision import USUAL_RUNS_SD
from tollmeter.experiment.runs_differ import rows_sd, runs_sd

Run = dict[str, tuple[float, float]]


def history(*medians: float, error: float = 0.0, row: str = "a.b x86_64") -> list[Run]:
    return [{row: (median, error)} for median in medians]


def test_by_hand() -> None:
    """Three runs at -1 %, 0 and +1 %: the median distance is 1 %, and three runs pull it to the usual's four."""
    found = runs_sd(history(*(100 * exp(log) for log in (-0.01, 0.0, 0.01))))
    own = (0.01 / 0.9539) ** 2
    assert found == {"a.b": pytest.approx(sqrt((3 * own + 4 * USUAL_RUNS_SD**2) / 7))}


def test_what_a_run_says_of_its_own_error_is_taken_off() -> None:
    moved = [100 * exp(log) for log in (-0.01, 0.0, 0.01)]
    assert runs_sd(history(*moved, error=0.02)) == {"a.b": pytest.approx(sqrt(4 * USUAL_RUNS_SD**2 / 7))}


def test_two_runs_say_nothing_nor_does_what_has_no_logarithm() -> None:
    assert runs_sd(history(100.0, 105.0)) == {}
    assert runs_sd(history(100.0, 105.0, -3.0)) == {}
    assert runs_sd([]) == {}


def test_rows_of_a_probe_speak_together_and_by_their_median() -> None:
    """One row in three that jumps does not make its probe's runs differ."""
    rows = {f"a.b x86_64 {i}": (0.004, -0.004, 0.0) for i in range(2)} | {"a.b x86_64 2": (0.3, -0.3, 0.0)}
    told = [{name: (exp(logs[run]), 0.0) for name, logs in rows.items()} for run in range(3)]
    assert list(runs_sd(told)) == ["a.b"]
    assert runs_sd(told)["a.b"] < 0.01


def test_probes_are_told_apart() -> None:
    told = [{"a.b x": (100.0, 0.0), "a.c x": (median, 0.0)} for median in (100.0, 120.0, 80.0)]
    found = runs_sd(told)
    assert found["a.b"] < USUAL_RUNS_SD < found["a.c"]


def test_many_runs_tell_the_truth_within_bounds() -> None:
    chance = np.random.default_rng(1)
    for true in (0.003, 0.02):
        assert runs_sd(history(*np.exp(chance.normal(0, true, 40))))["a.b"] == pytest.approx(true, rel=0.35)
    assert runs_sd(history(*np.exp(chance.normal(0, 0.5, 40))))["a.b"] == 0.05
    assert runs_sd(history(*[1.0] * 40))["a.b"] >= 0.0015


def test_a_row_that_differs_by_more_than_its_probe_is_learned_by_itself() -> None:
    """By hand: three runs at -3 %, 0 and +3 %, and the probe's own as much as one run."""
    logs = {"a.b still": (0.0, 0.0, 0.0), "a.b moved": (-0.03, 0.0, 0.03)}
    told = [{name: (exp(values[run]), 0.0) for name, values in logs.items()} for run in range(3)]
    found = rows_sd(told, {"a.b": 0.006})
    assert found["a.b moved"] == pytest.approx(sqrt((3 * (0.03 / 0.9539) ** 2 + 0.006**2) / 4))
    assert list(found) == ["a.b moved"], "and three runs that agree are no certainty"


def test_a_row_like_its_probe_is_not_named_nor_is_one_of_two_runs() -> None:
    like = history(*(100 * exp(log) for log in (-0.006, 0.0, 0.006)))
    assert rows_sd(like, {"a.b": 0.006}) == {}
    assert rows_sd(history(100.0, 120.0), {"a.b": 0.006}) == {}
