# SPDX-License-Identifier: Apache-2.0
"""The middle of pairs that nobody writes out is that of those that are written out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tollmeter.experiment.precision import hodges_lehmann, middle_of_pairs, shamos_sd
from tollmeter.numbers.stats import hodges_lehmann_ratio


@pytest.mark.parametrize("count", [2, 3, 128, 129, 400, 401])
@pytest.mark.parametrize("kind", ["normal", "few values", "one value", "long tail", "negative"])
def test_it_is_the_median_of_all_pairs(count: int, kind: str) -> None:
    random = np.random.default_rng(count)
    values = {
        "normal": random.normal(3.0, 0.02, count),
        "few values": random.integers(0, 4, count).astype(float),
        "one value": np.full(count, 1.7),
        "long tail": random.pareto(0.5, count),
        "negative": random.normal(-1e6, 1e5, count),
    }[kind]
    for sign, least in ((1, 0), (-1, 1)):
        first, second = np.triu_indices(count, least)
        written = np.median(
            np.abs(values[first] + sign * values[second]) if sign < 0 else values[first] + values[second]
        )
        assert middle_of_pairs(values, sign, least) == pytest.approx(written, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["normal", "few values"])
def test_ten_thousand_visits_take_no_gigabyte(kind: str) -> None:
    """Also where the middle pair is one of millions of equal pairs."""
    random = np.random.default_rng(1)
    values = random.normal(0.0, 0.02, 10_000) if kind == "normal" else random.integers(0, 4, 10_000).astype(float)
    location, spread = (0.0, 0.02) if kind == "normal" else (1.5, 1 / 0.9539)
    tracemalloc.start()
    try:
        assert hodges_lehmann(values) == pytest.approx(location, abs=1e-3)
        assert shamos_sd(values) == pytest.approx(spread, rel=0.05)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("old", "new"), [(1, 1), (7, 5), (200, 300)])
def test_a_ratio_is_the_median_of_all_ratios(old: int, new: int) -> None:
    random = np.random.default_rng(old)
    before, after = random.lognormal(0.0, 0.1, old), random.lognormal(0.1, 0.1, new)
    written = np.exp(np.median(np.log(after)[:, None] - np.log(before)[None, :]))
    assert hodges_lehmann_ratio(list(before), list(after)).value == pytest.approx(written, rel=1e-12)
