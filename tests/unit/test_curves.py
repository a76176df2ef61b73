# SPDX-License-Identifier: Apache-2.0
"""Levels of curves that are written down by hand; those of modelled machines are in tests/model."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import KIB, MIB, grid
from tollmeter.inference.curves import monotone, noisy_curve, segments
from tollmeter.inference.knees import fit_levels
from tollmeter.inference.shapes import SHAPES, Shape, miss_share


def test_the_fit_finds_a_capacity_that_first_rise_and_midpoint_miss() -> None:
    """Miss shares once seen on a 1 MiB 16-way L2: first rise says 600 KiB."""
    shares = {256: 0.0, 384: 0.0, 512: 0.05, 768: 0.21, 1024: 0.41, 1536: 0.88, 2048: 0.97, 3072: 1.0, 4096: 1.0}
    sizes = [16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, *shares]
    values = [1.0] * 4 + [3.6] * 4 + [3.6 + 9.4 * share for share in shares.values()]
    fit = fit_levels(noisy_curve([size * KIB for size in sizes], values))
    assert fit.knees[1].size_bytes == pytest.approx(MIB, rel=0.2)
    assert fit.knees[1].low <= MIB <= fit.knees[1].high


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_a_flat_curve_has_one_level(count: int) -> None:
    chance = np.random.default_rng(count)
    fit = fit_levels(noisy_curve([KIB * 1.3**i for i in range(count)], (1 + 0.02 * chance.normal(size=count)).tolist()))
    assert not fit.knees
    assert fit.latencies[0] == pytest.approx(1, rel=0.03)


def test_two_visits_of_a_slow_drift_make_no_level() -> None:
    sizes = grid(KIB, 64 * MIB, 2)
    fit = fit_levels(noisy_curve(sizes, [1.0 * (size / KIB) ** 0.02 for size in sizes]))
    assert not fit.knees


def test_no_more_levels_than_asked_for() -> None:
    sizes = grid(KIB, 24 * MIB, 2)
    steps = noisy_curve(sizes, [1.0 if size <= 32 * KIB else 4.0 if size <= MIB else 16.0 for size in sizes])
    assert [len(fit_levels(steps, most_levels=most).latencies) for most in (2, 3, 6)] == [2, 3, 3]


sizes_and_values = st.lists(
    st.tuples(st.integers(KIB, 1 << 28), st.floats(0.5, 300)), min_size=1, max_size=24, unique_by=lambda pair: pair[0]
)


@given(sizes_and_values)
def test_any_curve_gives_ordered_levels(points: list[tuple[int, float]]) -> None:
    fit = fit_levels(noisy_curve([size for size, _ in points], [value for _, value in points]))
    assert len(fit.latencies) == len(fit.knees) + 1 == len(fit.spreads)
    assert list(fit.latencies) == sorted(fit.latencies)
    assert [knee.size_bytes for knee in fit.knees] == sorted(knee.size_bytes for knee in fit.knees)
    assert all(knee.low <= knee.size_bytes <= knee.high for knee in fit.knees)


@given(sizes_and_values)
def test_the_monotone_fit_rises_and_keeps_the_weighted_mean(points: list[tuple[int, float]]) -> None:
    given_points = noisy_curve([size for size, _ in points], [value for _, value in points])
    rising = monotone(given_points)
    assert (np.diff(rising) >= -1e-9 * rising[:-1]).all()
    assert np.log(rising).mean() == pytest.approx(np.log(given_points.values).mean(), abs=1e-9)


def test_segments_by_hand() -> None:
    assert segments(noisy_curve([1, 2, 4, 8, 16, 32], [1, 1.01, 1, 5, 5.05, 5])) == (0, 3)
    assert segments(noisy_curve([1, 2, 4, 8], [1, 1, 1, 1])) == (0,)


def test_shapes_by_hand() -> None:
    lru, chance, smeared = Shape(ways=inf, keenness=inf), Shape(ways=inf, keenness=1.0), Shape(ways=16.0, keenness=inf)
    x = np.array([0.5, 0.99, 1.05, 2.0, 4.0])
    assert miss_share(lru, x) == pytest.approx([0, 0, 1, 1, 1])
    solved = miss_share(chance, x)
    assert solved[:2] == pytest.approx([0, 0])
    assert solved[3:] == pytest.approx(1 - np.exp(-x[3:] * solved[3:]), abs=1e-3)
    poisson = sum(exp(-16) * 16**k / np.prod(np.arange(1.0, k + 1)) for k in range(16))
    assert miss_share(smeared, np.array([1.0]))[0] == pytest.approx(1 - poisson, abs=2e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_rises_from_none_to_all(shape: Shape) -> None:
    shares = miss_share(shape, np.exp(np.linspace(log(1e-3), log(1e3), 300)))
    assert (np.diff(shares) >= -1e-9).all()
    assert shares[0] == 0
    assert shares[-1] > 0.999
