# SPDX-License-Identifier: Apache-2.0
"""Each pair of a matrix of CPUs has its own interval, from two visits, while the machine drifts."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
import pytest

from support.builders import metric, outcome, probe, sample
from tollmeter.model import Columns, Outcome
from tollmeter.numbers.cpu_pairs import pair_numbers, wide_pairs
from tollmeter.numbers.known import Known

METRIC = metric("round_trip")
PROBE = probe(METRIC)
PAIRS = [*combinations(range(40), 2)]


def cost_of(pair: tuple[int, int]) -> float:
    """Within one half of the CPUs, and between two."""
    return 100.0 if pair[0] // 20 == pair[1] // 20 else 250.0


def visits(seed: int, *, sd: float = 0.02, drift: float = 0.1, readings: int = 2) -> list[Outcome]:
    """The pairs in random order, as often as said. The machine's state swings by `drift` eight times."""
    chance, columns, made = np.random.default_rng(seed), Columns(), list[Outcome]()
    order = [PAIRS[place] for _ in range(readings) for place in chance.permutation(len(PAIRS))]
    for turn, pair in enumerate(order):
        state = np.exp(drift * np.sin(16 * np.pi * turn / len(order)) + sd * chance.normal())
        samples = [sample(cost_of(pair) * state, iterations=10_000) for _ in range(2)]
        made.append(outcome(samples, visit=turn, seed=turn + 1, cpus=pair, columns=columns))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_intervals_of_pairs_hold_their_cost_and_not_the_state_of_the_machine(seed: int) -> None:
    numbers = pair_numbers(visits(seed), PROBE, METRIC)
    assert [*numbers] == PAIRS
    off = [abs(log(number.estimate.value / cost_of(pair))) for pair, number in numbers.items()]
    half = [number.estimate.share_half_width() for number in numbers.values()]
    held = sum(one <= log(1 + reach) for one, reach in zip(off, half, strict=True)) / len(off)
    assert held >= 0.95
    assert sum(number.is_wide for number in numbers.values()) < 0.02 * len(PAIRS)
    assert np.median(half) < 0.042


def test_a_pair_whose_visits_differ_is_visited_again_until_it_has_had_six() -> None:
    several = visits(1, drift=0.0, sd=0.005)
    (odd,) = (one for one in several[len(PAIRS) :] if one.cpus == (3, 7))
    slow = outcome([sample(150.0, iterations=10_000)] * 2, visit=odd.visit, seed=odd.seed, cpus=odd.cpus)
    mixed = [slow if one is odd else one for one in several]
    assert wide_pairs(several, odd.point, PROBE, Known()) == []
    assert wide_pairs(mixed, odd.point, PROBE, Known()) == [(3, 7)]
    more = [outcome([sample(cost, iterations=10_000)] * 2, visit=5000 + turn, seed=5000 + turn, cpus=(3, 7))
            for turn, cost in enumerate((100.0, 150.0, 100.0, 150.0))]  # fmt: skip
    assert wide_pairs([*mixed, *more], odd.point, PROBE, Known()) == []


def test_a_pair_with_one_visit_is_wide_and_one_without_a_sample_is_left_out() -> None:
    one, none = outcome([sample(90.0)] * 2, visit=1, cpus=(0, 1)), outcome([], visit=2, cpus=(0, 2))
    assert [*pair_numbers([one, none], PROBE, METRIC)] == [(0, 1)]
    assert wide_pairs([one, none], one.point, PROBE, Known()) == [(0, 1)]
