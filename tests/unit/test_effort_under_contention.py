# SPDX-License-Identifier: Apache-2.0
"""A run that never was: who is visited, and what settles, on a core that somebody shares for half of the time."""

from __future__ import annotations

from math import inf

import numpy as np

from support.builders import CLOCK_HZ, outcome, probe, quiet, sample
from tollmeter.judgement.convergence import visits_wanted
from tollmeter.model import Outcome
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.rows import known_of, rows_of_point
from tollmeter.plan.effort import Wish, next_visits

POINTS, BUDGET = 30, 300
WHOLE, SHARED = 4.0, 2.4
TOLD = {"any.probe": probe()}
LEARNED = Learned(runs_sd={"any.probe": 0.006})
RESTLESS = 5
"""Points that no run of this length settles: they scatter by 40 %."""


def visit(point: int, number: int, chance: np.random.Generator) -> Outcome:
    """Beside a neighbour two visits in three, who makes it dearer by a tenth to four tenths."""
    scatter = 0.4 if point < RESTLESS else 0.008
    is_whole = chance.random() < 1 / 3
    cost = 20.0 * np.exp(chance.normal(0, scatter)) * (1.0 if is_whole else chance.uniform(1.1, 1.4))
    width = WHOLE if is_whole else SHARED
    looked = quiet(width_before_hz=width * CLOCK_HZ, width_hz=width * CLOCK_HZ)
    samples = [sample(cost * float(np.exp(chance.normal(0, 0.003))), witness=looked) for _ in range(8)]
    return outcome(samples, visit=number, parameters={"point": point})


def always_shared(number: int, chance: np.random.Generator) -> Outcome:
    looked = quiet(width_before_hz=SHARED * CLOCK_HZ, width_hz=SHARED * CLOCK_HZ)
    cost = 20.0 * chance.uniform(1.1, 1.4)
    return outcome([sample(cost, witness=looked) for _ in range(8)], visit=number)


def run(seed: int) -> set[int]:
    """The points that have converged at the end. Every visit takes a second."""
    chance, made = np.random.default_rng(seed), 0
    seen: dict[int, list[Outcome]] = {point: [] for point in range(POINTS)}
    due = list(range(POINTS))
    while due:
        for point in due:
            seen[point].append(visit(point, made, chance))
            made += 1
        known = known_of([told for several in seen.values() for told in several], TOLD, LEARNED)
        wanted = {point: visits_wanted(told, TOLD["any.probe"], known) for point, told in seen.items()}
        wishes = [Wish(point, len(seen[point]), wanted[point], 1.0) for point in seen]
        due = next_visits([wish for wish in wishes if wish.wanted > wish.seen], BUDGET - made)
    return {point for point, told in seen.items() if has_settled(told, known)}


def has_settled(told: list[Outcome], known: Known) -> bool:
    [row] = rows_of_point(told, TOLD["any.probe"], known)
    return row.converged and row.state == "uncontended"


def test_points_converge_under_contention_and_noisy_points_do_not_take_their_time() -> None:
    """Of 25 that can be settled 19 and more; it is 15 where a point that was seen beside the sibling stops at six."""
    assert sum(len(run(seed) - set(range(RESTLESS))) for seed in range(2)) >= 38


def test_a_point_that_was_never_seen_uncontended_may_still_be() -> None:
    """What runs differ by beside a busy sibling limits the cost there, and not the cost on an uncontended core."""
    chance = np.random.default_rng(3)
    known_core = [visit(0, number, chance) for number in range(8)]
    told = [always_shared(number, chance) for number in range(8, 16)]
    known = known_of([*known_core, *told], TOLD, Learned(runs_sd={"any.probe round_trip over-all": 0.12}))
    for by_scatter in (False, True):
        assert len(told) < visits_wanted(told, TOLD["any.probe"], known, by_scatter=by_scatter) < inf
