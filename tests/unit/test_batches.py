# SPDX-License-Identifier: Apache-2.0
"""From times of batches to the cost of one iteration: what is paid once is found, or cancels; and costs that are not
linear in a batch's iterations are refused, but not a time paid once, noise or contention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollmeter.experiment.batches import (
    Array,
    Paid,
    bent,
    differences,
    exponent_of,
    paid_once,
    share_of,
    values,
)

EACH_NS, N = 10.0, 1000


def timed(once_ns: float, noise_ns: float = 0.0, samples: int = 40, seed: int = 1) -> tuple[Array, Array]:
    """Batches that take once_ns and EACH_NS an iteration, and as much noise each."""
    iterations = np.full(samples, float(N))
    times = once_ns + EACH_NS * np.outer(iterations, [1, 2])
    return times + np.random.default_rng(seed).normal(0, noise_ns, times.shape), iterations


def test_a_value_is_a_batch_less_what_it_pays_once() -> None:
    times, iterations = np.array([[1050.0, 2090.0]]), np.array([100.0])
    assert values(times, iterations, Paid(50.0)).tolist() == [[10.0, 10.2]]
    assert values(times, iterations, Paid(None)).tolist() == [[10.4]]
    assert differences(times, iterations).tolist() == [[10.4]]


def test_a_certain_fixed_cost_is_found_whatever_was_expected() -> None:
    times, iterations = timed(700.0, 5.0)
    assert paid_once(times, iterations, 20.0, 100.0).once_ns == pytest.approx(700.0, abs=10)


def test_what_noise_hides_is_pulled_to_what_is_expected() -> None:
    """The found is 2 t(n) - t(2n), with a noise of sqrt(5) times a batch's: here it says nothing beside 100 ns."""
    times, iterations = timed(20.0, 20_000.0)
    found = paid_once(times, iterations, 20.0, 100.0).once_ns
    assert found is not None
    raw = float(np.median(2 * times[:, 0] - times[:, 1]))
    assert abs(raw - 20.0) > 500, "the seed gives a sample whose own word is far off"
    assert abs(found - 20.0) < 5


def test_how_far_it_is_pulled_is_by_both_their_noise() -> None:
    """Found: half of the samples say 90, half 110, so 100 with a deviation of 10: error 1.2533 x 1.4826 x 10 / sqrt(16)
    = 4.645. Expected 90 give or take 4.645: they meet half way."""
    once = np.array([90.0, 110.0] * 8)
    iterations = np.full(16, 1000.0)
    times = np.column_stack([once + 10_000, once + 20_000])
    error = 1.2533 * 1.4826 * 10 / 4
    assert paid_once(times, iterations, 90.0, error).once_ns == pytest.approx(95.0)


def test_few_samples_say_nothing_of_it() -> None:
    times, iterations = timed(700.0, samples=7)
    assert paid_once(times, iterations, 20.0, 100.0) == Paid(20.0)
    times, iterations = timed(700.0, samples=8)
    assert paid_once(times, iterations, 20.0, 100.0).once_ns == pytest.approx(700.0)


def at_odds(each_ns: float) -> tuple[Array, Array]:
    """Sixteen samples, each batch 1000 ns off to either side, that pay 3344 ns once: 2 t(n) - t(2n) is off by 1000 or
    3000, so its error is 1.8581 x 2000 / sqrt(16) = 929 and it stands 3.6 of these above nothing: not surely there."""
    iterations = np.full(16, float(N))
    off = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 4) * 1000.0
    return 3344 + each_ns * np.outer(iterations, [1, 2]) + off, iterations


def test_where_batch_and_difference_part_the_difference_stands() -> None:
    """Were nothing paid once, a batch would say 12.26 ns. The differences say 8, 10, 10 and 12, so 10, give or take
    1.8581 x 1 / sqrt(16) = 0.46, of which 2.26 is more than four."""
    times, iterations = at_odds(10.0)
    found = paid_once(times, iterations, 0.0, 100.0)
    assert found.once_ns is None
    assert "+22" in (found.why or "")
    assert values(times, iterations, found).shape == (16, 1)


def test_parting_by_less_than_half_a_percent_is_none() -> None:
    assert paid_once(*at_odds(1000.0), 0.0, 100.0).why is None


@given(st.integers(min_value=1, max_value=10**6), st.integers(min_value=0, max_value=10**5))
def test_a_fixed_cost_never_moves_the_difference(n: int, once: int) -> None:
    iterations = np.array([float(n)])
    times = np.array([[once + 3.0 * n, once + 6.0 * n]])
    assert differences(times, iterations)[0, 0] == pytest.approx(3.0)


def test_values_are_less_noisy_than_differences() -> None:
    """Of one batch of noise s: the difference has sqrt(2) s / n, the longer batch s / 2n."""
    times, iterations = timed(50.0, 100.0, samples=4000)
    apart = differences(times, iterations).std()
    longer = values(times, iterations, Paid(50.0))[:, 1].std()
    assert apart / longer == pytest.approx(2 * np.sqrt(2), rel=0.1)


# ---- linear costs ----------------------------------------------------------------------------------------------------

LENGTH, BATCH_NS, READING_NS = 4000.0, 300e3, 20.0
POINTS = 200


def point(
    rng: np.random.Generator, exponent: float, once_ns: float = 0.0, visits: int = 5, contended: float = 0.0,
    *, samples: int = 16, halves: bool = True,
) -> tuple[Array, Array, Any]:  # fmt: skip
    """Visits of these samples whose batches take once_ns + c n^exponent: each with 1 % of noise, one batch in twenty
    interrupted, and, where the core is contended for some time, longer by that share."""
    times, lengths, owner = [], [], []
    for visit in range(visits):
        each_ns, is_contended = BATCH_NS / LENGTH**exponent * np.exp(rng.normal(0, 0.02)), rng.random() < 0.5
        for sample in range(samples):
            n = LENGTH / 2 if halves and sample // 2 % 4 == 1 else LENGTH
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


def refused(exponent: float, *, waits: bool = False, **how: Any) -> float:
    rng = np.random.default_rng(4711)
    found = [bent(*point(rng, exponent, **how), READING_NS, waits=waits) for _ in range(POINTS)]
    return sum(why is not None for why in found) / POINTS


@pytest.mark.parametrize("contended", [0.0, 0.35, 0.8])
@pytest.mark.parametrize("exponent", [0.5, 0.94, 1.06, 2.0])
def test_a_cost_that_is_not_linear_is_refused(exponent: float, contended: float) -> None:
    assert refused(exponent, contended=contended) >= 0.99


@pytest.mark.parametrize("contended", [0.0, 0.35, 0.8])
@pytest.mark.parametrize("once_ns", [0.0, 500.0, 60e3, 200e3])
def test_a_linear_cost_is_not(once_ns: float, contended: float) -> None:
    """200 µs: a batch that begins with caches which another program filled."""
    assert refused(1.0, once_ns=once_ns, contended=contended) == 0


def test_short_visits_do_not_agree_by_chance_that_a_time_paid_once_grows() -> None:
    """As of a short run beside other programs: 2 % of such points were refused."""
    assert refused(1.0, once_ns=30e3, contended=0.8, visits=4, samples=4) == 0


def test_samples_of_one_length_do_not_separate_a_fixed_cost_from_a_root() -> None:
    assert refused(1.0, once_ns=60e3, halves=False) == 0
    assert refused(0.5, halves=False) == 0
    assert refused(1.2, halves=False) == 1


def test_processes_that_wait_for_each_other_may_bend_a_little() -> None:
    """Two processes that exchange bytes over a pipe on two CPUs: the exponent is 1.06."""
    assert refused(1.06, waits=True) == 0
    assert refused(1.2, waits=True) == 1


@pytest.mark.parametrize(("free", "waits", "is_refused"), [(1, True, False), (1, False, True), (3, True, True)])
def test_the_first_iteration_may_be_free_where_processes_wait(free: int, waits: bool, is_refused: bool) -> None:
    """A round trip by a pipe between two CPUs of a guest takes 30 µs, in batches of 5 and 10: the first finds the other
    CPU awake."""
    rng = np.random.default_rng(7)
    lengths = np.full(80, 5.0)
    times = 30e3 * (lengths[:, None] * [1, 2] - free) * np.exp(rng.normal(0, 0.05, (80, 2)))
    assert bool(bent(times, lengths, np.repeat(np.arange(5), 16), READING_NS, waits=waits)) == is_refused


def test_one_visit_of_five_may_differ() -> None:
    rng = np.random.default_rng(1)
    times, lengths, owner = point(rng, 2.0)
    straight = point(rng, 1.0)[0]
    assert bent(np.where((owner > 0)[:, None], times, straight), lengths, owner, 0.0, waits=False)
    assert not bent(np.where((owner > 1)[:, None], times, straight), lengths, owner, 0.0, waits=False)


def test_the_sentence_states_how_the_cost_grows() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    assert "4.0" in (bent(times, lengths, owner, READING_NS, waits=False) or "")


def test_batches_within_the_cost_of_the_clock_are_not_judged() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 1.0)
    assert bent(times, lengths, owner, 1e308, waits=False) is None


def test_one_batch_within_the_cost_of_the_clock_excuses_no_other() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    times[0, 0] = READING_NS / 2
    assert bent(times, lengths, owner, READING_NS, waits=False)


def test_seven_samples_are_too_few() -> None:
    times, lengths, owner = point(np.random.default_rng(1), 2.0)
    assert bent(times[:7], lengths[:7], owner[:7], 0.0, waits=False) is None
    assert bent(times[:8], lengths[:8], owner[:8], 0.0, waits=False)


@pytest.mark.parametrize("exponent", [0.5, 0.95, 1.0, 1.05, 2.0])
def test_a_share_tells_the_exponent(exponent: float) -> None:
    assert exponent_of(share_of(exponent)) == pytest.approx(exponent)
