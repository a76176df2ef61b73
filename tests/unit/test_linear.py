# SPDX-License-Identifier: Apache-2.0
"""Costs that are not linear in a batch's iterations are refused; a time paid once, noise and contention are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tollmeter.experiment.batches import EXPONENT_OFF, WAITING_OFF, Array, bent, exponent_of, share_of

N, BATCH_NS, READING_NS = 4000.0, 300e3, 20.0
POINTS = 200


def point(
    rng: np.random.Generator, exponent: float, once_ns: float = 0.0, visits: int = 5, contended: float = 0.0,
    *, halves: bool = True,
) -> tuple[Array, Array, Any]:  # fmt: skip
    """Visits of 16 samples whose batches take once_ns + c n^exponent: each with 1 % of noise, one batch in twenty
    interrupted, and, where the core is contended for some time, longer by that share."""
    times, lengths, owner = [], [], []
    for visit in range(visits):
        each_ns, is_contended = BATCH_NS / N**exponent * np.exp(rng.normal(0, 0.02)), rng.random() < 0.5
        for sample in range(16):
            n = N / 2 if halves and sample // 2 % 4 == 1 else N
            took = [0.0, 0.0]
            for twice in [(0, 1), (1, 0)][sample % 2]:
                is_contended ^= rng.random() < 0.1
                linear = once_ns + each_ns * (n * (1 + twice)) ** exponent
                interrupted = rng.exponential(20e3) if rng.random() < 0.05 else 0.0
                took[twice] = linear * (1 + contended * is_contended) * np.exp(rng.normal(0, 0.01)) + interrupted
            times.append(took)
            lengths.append(n)
            owner.append(visit)
    return np.array(times), np.array(lengths), np.array(owner)


def refused(exponent: float, off: float = EXPONENT_OFF, **how: Any) -> float:
    rng = np.random.default_rng(4711)
    found = [bent(*point(rng, exponent, **how), READING_NS, off) for _ in range(POINTS)]
    return sum(why is not None for why in found) / POINTS


@pytest.mark.parametrize("contended", [0.0, 0.35, 0.8])
@pytest.mark.parametrize("exponent", [0.5, 0.9, 0.94, 1.06, 1.1, 1.2, 2.0])
def test_a_cost_that_is_not_linear_is_refused(exponent: float, contended: float) -> None:
    assert refused(exponent, contended=contended) >= 0.99


@pytest.mark.parametrize("contended", [0.0, 0.35, 0.8])
@pytest.mark.parametrize("once_ns", [0.0, 500.0, 60e3, 200e3])
def test_a_linear_cost_is_not(once_ns: float, contended: float) -> None:
    """200 µs: a batch that begins with caches which another program filled."""
    assert refused(1.0, once_ns=once_ns, contended=contended) == 0


def test_samples_of_one_length_cannot_tell_a_time_that_is_paid_once_from_a_root() -> None:
    assert refused(1.0, once_ns=60e3, halves=False) == 0
    assert refused(0.5, halves=False) == 0
    assert refused(1.2, halves=False) == 1


def test_processes_that_wait_for_each_other_may_bend_a_little() -> None:
    """Two processes that exchange bytes over a pipe on two CPUs: the exponent is 1.06."""
    assert refused(1.06, WAITING_OFF) == 0
    assert refused(1.2, WAITING_OFF) == 1


def test_one_visit_of_five_may_differ() -> None:
    rng = np.random.default_rng(1)
    times, lengths, owner = point(rng, 2.0)
    straight = point(rng, 1.0)[0]
    assert bent(np.where((owner > 0)[:, None], times, straight), lengths, owner, 0.0, EXPONENT_OFF)
    assert not bent(np.where((owner > 1)[:, None], times, straight), lengths, owner, 0.0, EXPONENT_OFF)


def test_the_sentence_states_how_the_cost_grows() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    assert "4.0" in (bent(times, lengths, owner, READING_NS, EXPONENT_OFF) or "")


def test_batches_within_the_cost_of_the_clock_are_not_judged() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 1.0)
    assert bent(times, lengths, owner, 1e308, EXPONENT_OFF) is None


def test_one_batch_within_the_cost_of_the_clock_excuses_no_other() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    times[0, 0] = READING_NS / 2
    assert bent(times, lengths, owner, READING_NS, EXPONENT_OFF)


def test_seven_samples_are_too_few() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    assert bent(times[:7], lengths[:7], owner[:7], 0.0, EXPONENT_OFF) is None
    assert bent(times[:8], lengths[:8], owner[:8], 0.0, EXPONENT_OFF)


@pytest.mark.parametrize("exponent", [0.5, 0.95, 1.0, 1.05, 2.0])
def test_a_share_tells_the_exponent(exponent: float) -> None:
    assert exponent_of(share_of(exponent)) == pytest.approx(exponent)
