# SPDX-License-Identifier: Apache-2.0
"""Knees of caches whose truth is known: modelled by doing what they do, set by set."""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import caches
from caches import KIB, MIB, Level
from tollmeter.experiment.precision import Scatter, estimate
from tollmeter.inference.curves import NoisyCurve, curve, monotone, segments
from tollmeter.inference.knees import CurveFit, fit_levels
from tollmeter.inference.shapes import SHAPES, Shape, miss_share
from tollmeter.judgement.convergence import refine

Machine = tuple[tuple[Level, ...], float]

SOUND: Machine = (Level(48 * KIB, 12, 1.0), Level(MIB, 16, 3.6, "nru"), Level(4 * MIB, 16, 13.0, "random")), 140.0
TRUE_LRU: Machine = (Level(32 * KIB, 8, 1.2), Level(512 * KIB, 8, 3.6), Level(4 * MIB, 16, 11.0)), 90.0
NO_L3: Machine = (Level(32 * KIB, 8, 1.5, "nru"), Level(512 * KIB, 16, 6.0, "nru")), 110.0
ODD: Machine = (Level(48 * KIB, 12, 1.3, "nru"), Level(1280 * KIB, 20, 4.0, "nru"), Level(6 * MIB, 12, 20.0)), 95.0


def measured(machine: Machine, sizes: list[int], seed: int = 0, visits: int = 4, random: bool = True) -> NoisyCurve:
    told = [_told(machine, size, seed, visits, random) for size in sizes]
    found = [estimate(values, range(visits), Scatter(), (min(values), max(values))) for values in told]
    noise = [log(one.high / one.low) / 3.92 for one in found]
    return curve(sizes, [one.value for one in found], noise, visits)


@lru_cache(maxsize=4096)
def _told(machine: Machine, size: int, seed: int, visits: int, random: bool) -> list[float]:
    levels, memory = machine
    return caches.visits(levels, memory, size, seed=seed, count=visits, random=random)


def refined(machine: Machine, seed: int, top: int, random: bool = True) -> NoisyCurve:
    """As a run sweeps: one size an octave, then where the curve bends."""
    sizes, allowed = caches.grid(KIB, top, 1), caches.grid(KIB, top)
    for _ in range(4):
        points = measured(machine, sizes, seed, random=random)
        added = refine([(int(size), value) for size, value in zip(points.sizes, points.values, strict=True)], allowed)
        sizes = sorted({*sizes, *added})
    return measured(machine, sizes, seed, random=random)


@lru_cache
def fitted(machine: Machine, seed: int, random: bool = True) -> CurveFit:
    return fit_levels(refined(machine, seed, 4 * machine[0][-1].size, random))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("machine", [SOUND, ODD], ids=["sound", "odd"])
def test_sizes_of_a_sound_machine(machine: Machine, seed: int) -> None:
    """On small pages of random colours, 30 sizes of four visits: L1 within 10 %, L2 within 20 %."""
    fit = fitted(machine, seed)
    assert len(fit.knees) == 3
    first, second, third = (knee.size_bytes / level.size for knee, level in zip(fit.knees, machine[0], strict=True))
    assert first == pytest.approx(1, abs=0.1)
    assert second == pytest.approx(1, abs=0.22)
    assert third == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_cover_a_sound_machine(seed: int) -> None:
    for knee, level in zip(fitted(SOUND, seed).knees, SOUND[0], strict=True):
        assert knee.low <= level.size <= knee.high
        assert knee.high / knee.low < 2.2


@pytest.mark.parametrize("seed", range(3))
def test_sharp_knees_behind_contiguous_pages(seed: int) -> None:
    fit = fitted(TRUE_LRU, seed, random=False)
    for knee, level in zip(fit.knees, TRUE_LRU[0], strict=True):
        assert knee.size_bytes == pytest.approx(level.size, rel=0.1)
        assert knee.low <= level.size <= knee.high


@pytest.mark.parametrize("seed", range(3))
def test_a_level_that_is_not_there_is_not_found(seed: int) -> None:
    fit = fitted(NO_L3, seed)
    assert [knee.size_bytes / level.size for knee, level in zip(fit.knees, NO_L3[0], strict=True)] == pytest.approx(
        [1, 1], abs=0.2
    )


@pytest.mark.parametrize("machine", [SOUND, TRUE_LRU, NO_L3], ids=["sound", "lru", "no-l3"])
def test_latencies_of_the_plateaus(machine: Machine) -> None:
    expected = [*(level.latency for level in machine[0]), machine[1]]
    assert fitted(machine, 0, machine is not TRUE_LRU).latencies == pytest.approx(expected, rel=0.08)


def test_the_knee_that_first_rise_and_half_way_miss() -> None:
    """Miss shares once seen on a 1 MiB 16-way L2: first rise says 600 KiB."""
    shares = {256: 0.0, 384: 0.0, 512: 0.05, 768: 0.21, 1024: 0.41, 1536: 0.88, 2048: 0.97, 3072: 1.0, 4096: 1.0}
    sizes = [16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, *shares]
    values = [1.0] * 4 + [3.6] * 4 + [3.6 + 9.4 * share for share in shares.values()]
    fit = fit_levels(curve([size * KIB for size in sizes], values))
    assert fit.knees[1].size_bytes == pytest.approx(MIB, rel=0.2)
    assert fit.knees[1].low <= MIB <= fit.knees[1].high


def test_an_outlier_makes_no_level() -> None:
    sizes = caches.grid(KIB, 16 * MIB)
    points = measured(SOUND, sizes, 3)
    place = sizes.index(8 * KIB)
    points.values[place] *= 3
    points.values[sizes.index(2 * MIB)] *= 2.5
    fit = fit_levels(points)
    assert len(fit.knees) == 3
    assert fit.latencies[0] == pytest.approx(1.0, rel=0.05)
    assert fit.knees[1].size_bytes == pytest.approx(MIB, rel=0.25)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_a_flat_curve_has_one_level(count: int) -> None:
    chance = np.random.default_rng(count)
    fit = fit_levels(curve([KIB * 1.3**i for i in range(count)], (1 + 0.02 * chance.normal(size=count)).tolist()))
    assert not fit.knees
    assert fit.latencies[0] == pytest.approx(1, rel=0.03)


def test_two_visits_of_a_slow_drift_make_no_level() -> None:
    sizes = caches.grid(KIB, 64 * MIB, 2)
    fit = fit_levels(curve(sizes, [1.0 * (size / KIB) ** 0.02 for size in sizes]))
    assert not fit.knees


def test_no_more_levels_than_asked_for() -> None:
    points = measured(SOUND, caches.grid(KIB, 24 * MIB, 2))
    assert len(fit_levels(points, most_levels=3).latencies) == 3


sizes_and_values = st.lists(
    st.tuples(st.integers(KIB, 1 << 28), st.floats(0.5, 300)), min_size=1, max_size=24, unique_by=lambda pair: pair[0]
)


@given(sizes_and_values)
def test_any_curve_gives_ordered_levels(points: list[tuple[int, float]]) -> None:
    fit = fit_levels(curve([size for size, _ in points], [value for _, value in points]))
    assert len(fit.latencies) == len(fit.knees) + 1 == len(fit.spreads)
    assert list(fit.latencies) == sorted(fit.latencies)
    assert [knee.size_bytes for knee in fit.knees] == sorted(knee.size_bytes for knee in fit.knees)
    assert all(knee.low <= knee.size_bytes <= knee.high for knee in fit.knees)


@given(sizes_and_values)
def test_the_monotone_fit_rises_and_keeps_the_weighted_mean(points: list[tuple[int, float]]) -> None:
    given_points = curve([size for size, _ in points], [value for _, value in points])
    rising = monotone(given_points)
    assert (np.diff(rising) >= -1e-9 * rising[:-1]).all()
    assert np.log(rising).mean() == pytest.approx(np.log(given_points.values).mean(), abs=1e-9)


def test_segments_by_hand() -> None:
    assert segments(curve([1, 2, 4, 8, 16, 32], [1, 1.01, 1, 5, 5.05, 5])) == (0, 3)
    assert segments(curve([1, 2, 4, 8], [1, 1, 1, 1])) == (0,)


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


@pytest.mark.parametrize(("policy", "keenness"), [("lru", inf), ("random", 1.0)])
def test_shapes_are_what_page_colours_and_replacement_do(policy: str, keenness: float) -> None:
    """Forty visits of a 1 MiB 16-way cache against the shape of 16 ways."""
    cache = Level(MIB, 16, 0.0, policy)
    for size in (768 * KIB, MIB, 1536 * KIB):
        done = np.mean(caches.visits([cache], 1.0, size, seed=7, count=40, noise=0.0))
        assert done == pytest.approx(
            float(miss_share(Shape(ways=16.0, keenness=keenness), np.array([size / MIB]))[0]), abs=0.06
        )
