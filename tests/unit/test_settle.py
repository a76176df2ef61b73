# SPDX-License-Identifier: Apache-2.0
"""When to stop visiting a point, and where to look closer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest

from support.builders import CLOCK_HZ, metric, outcome, probe, quiet, sample
from tollmeter.judgement.convergence import OF_TRAFFIC, refine, refine_load, visits_wanted
from tollmeter.model import Metric, Outcome, Point, Probe, Sample, Status
from tollmeter.numbers.known import Known
from tollmeter.numbers.rows import rows_of_point

PROBE = Probe(
    probe="kernel.enter",
    question="?",
    revision=1,
    metrics=(Metric(name="cost", unit="ns", better="less", summary="s"),),
)
GRID = [1024 * step for step in (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)]


def visit(number: int, cost_ns: float, spread: float = 0.0, status: Status = "ok") -> Outcome:
    costs = [cost_ns * (1 + spread * (place - 2)) for place in range(5)]
    samples = tuple(Sample(iterations=1000, body=(int(1000 * cost), int(2000 * cost))) for cost in costs)
    point = Point(probe="kernel.enter", abi="x86_64", target="local")
    return Outcome(visit=number, round=number, point=point, status=status, samples=samples if status == "ok" else ())


def settled(visits: list[Outcome]) -> bool:
    return visits_wanted(visits, PROBE) <= len(visits)


def test_three_visits_that_agree_are_enough_and_two_are_not() -> None:
    assert settled([visit(n, 100) for n in range(3)])
    assert not settled([visit(n, 100) for n in range(2)])


@pytest.mark.parametrize(("counts", "known"), [((0, 0, 0), True), ((0, 0), False), ((0, 0, 1), False)])
def test_a_count_of_nothing_is_known_by_three_visits_that_agree(counts: Sequence[float], known: bool) -> None:
    one = probe(metric("faults", unit="count", source="gauge"))
    visits = [outcome(gauges={"faults": count}, visit=number) for number, count in enumerate(counts)]
    assert (visits_wanted(visits, one) <= len(visits)) is known


def test_visits_that_differ_ask_for_more() -> None:
    assert not settled([visit(0, 100), visit(1, 110), visit(2, 121)])


def test_no_number_of_visits_of_one_layout_is_enough_for_a_point() -> None:
    together = [visit(number, 100 + 0.1 * (number % 3)) for number in range(9)]
    alone = [msgspec.structs.replace(told, seed=7) for told in together]
    assert settled(together)
    assert visits_wanted(alone, PROBE) > 9
    assert visits_wanted([*alone, msgspec.structs.replace(visit(9, 100), seed=8)], PROBE) <= 10


def test_of_three_visits_one_odd_one_does_not_make_hundreds() -> None:
    """One is in two of the three pairs that the scatter is read from. As they say of themselves these want 122."""
    odd = [visit(0, 100), visit(1, 101), visit(2, 150)]
    assert 6 < visits_wanted(odd, PROBE) < 40
    assert settled([*odd, visit(3, 100), visit(4, 101), visit(5, 100)])


def test_of_three_visits_those_that_agree_better_ask_for_less() -> None:
    wanted = [visits_wanted([visit(0, 100), visit(1, 101), visit(2, high)], PROBE) for high in (106, 120, 150)]
    assert wanted == sorted(set(wanted))


# ---- a core that somebody shares --------------------------------------------------------------------------------

SEEN = probe()
KNOWN = Known(widths={("local", "x86_64"): 4.0})
WHOLE, SHARED = 4.0, 2.4


def beside(number: int, cost: float, width: float, known: int = 4) -> Outcome:
    """A visit of four samples, the first of which have the core as it is."""
    looked = quiet(width_before_hz=width * CLOCK_HZ, width_hz=width * CLOCK_HZ)
    other = quiet(width_before_hz=WHOLE * CLOCK_HZ, width_hz=SHARED * CLOCK_HZ)
    taken = [sample(cost, witness=looked if place < known else other) for place in range(4)]
    return outcome(taken, visit=number)


def mixture(*widths: float) -> list[Outcome]:
    costs = {WHOLE: 10.0, SHARED: 14.0}
    return [beside(number, costs[width] * (1 + 0.02 * number), width) for number, width in enumerate(widths)]


def test_a_mixture_wants_visits_that_see_the_whole_core() -> None:
    """By hand: two of six saw it, and two more are wanted; three in eight of further visits see it."""
    told = mixture(WHOLE, SHARED, SHARED, WHOLE, SHARED, SHARED)
    assert visits_wanted(told, SEEN, KNOWN) == pytest.approx(6 + 2 * 8 / 3)
    assert visits_wanted(told, SEEN) > 20, "where the states cannot be told apart it is its scatter"


def test_the_rarer_the_whole_core_the_more_visits_it_takes_to_see_it() -> None:
    rare, rarer = mixture(WHOLE, *[SHARED] * 5), mixture(WHOLE, *[SHARED] * 8)
    assert visits_wanted(rarer, SEEN, KNOWN) - 9 > visits_wanted(rare, SEEN, KNOWN) - 6


def test_a_point_unaffected_by_contention_needs_no_uncontended_visits() -> None:
    """Its mixture is narrow enough, or nearly so."""
    same = [beside(number, 10.0, SHARED) for number in range(5)]
    assert visits_wanted(same, SEEN, KNOWN) == 5
    nearly = [beside(number, 10.0 + 0.5 * (number % 3), SHARED) for number in range(6)]
    assert 6 < visits_wanted(nearly, SEEN, KNOWN) < 18


def test_only_visits_in_the_rows_state_count_for_its_scatter() -> None:
    """Three of nine saw the whole core: an odd one among these is no more sure than of three in all."""
    odd = [beside(0, 10.0, WHOLE), beside(1, 10.1, WHOLE), beside(2, 12.0, WHOLE)]
    alone, among = odd, [*odd, *(beside(number, 14.0, SHARED) for number in range(3, 9))]
    assert visits_wanted(among, SEEN, KNOWN) == pytest.approx(3 * visits_wanted(alone, SEEN, KNOWN), rel=0.35)


# ---- what is left of a difference --------------------------------------------------------------------------------

LEFT = probe(metric("gain", source="difference"))


def twins(count: int, gains: Sequence[float]) -> list[Outcome]:
    """Visits of a cost of 100 ns and a control that is less by one of these, in turns."""
    return [
        outcome([sample(100.0, 100.0 - gains[number % len(gains)]) for _ in range(6)], visit=number, seed=number)
        for number in range(count)
    ]


def test_a_difference_near_nothing_is_as_unsure_as_the_whole_that_it_is_left_of() -> None:
    """Three visits of 100 ns that happen to agree on 0.01 to 0.03 ns."""
    (found,) = rows_of_point(twins(3, (0.01, 0.02, 0.03)), LEFT)
    assert found.status == "unstable" or (found.low or 0.0) < -0.5


@pytest.mark.parametrize("count", [6, 24])
def test_a_difference_near_zero_wants_the_visits_of_its_scatter(count: int) -> None:
    """And not three more time and again, which seem to be near."""
    gains = [6.0, -5.0, 5.0, -4.0]
    (row,) = rows_of_point(twins(count, gains), LEFT)
    assert row.low is not None
    assert row.low < 0 < (row.median or 0.0)
    assert visits_wanted(twins(count, gains), LEFT) > 20 * count


@pytest.mark.parametrize("count", [3, 12])
def test_what_physics_refuses_wants_as_many_visits_again(count: int) -> None:
    told = twins(count, [-5.0])
    assert rows_of_point(told, LEFT)[0].status == "unstable"
    assert visits_wanted(told, LEFT) == 2 * count


# ---- where to look closer ---------------------------------------------------------------------------------------


def test_a_flat_curve_needs_nothing_more() -> None:
    assert refine([(4096, 1.0), (8192, 1.02), (16384, 0.99), (32768, 1.05)], GRID) == []


def test_a_change_within_the_scatter_of_both_ends_adds_no_value() -> None:
    """In a cache that other machines use each value lies anywhere between the cache's and memory's."""
    values = [(4096, 1.0), (8192, 1.0), (16384, 3.5), (32768, 3.6)]
    scattered, known = {8192: (0.8, 4.0), 16384: (0.9, 6.0)}, {8192: (0.99, 1.01), 16384: (3.4, 3.6)}
    assert refine(values, GRID, scattered) == []
    assert refine(values, GRID, known) == refine(values, GRID) != []


def test_a_step_is_looked_at_from_within() -> None:
    added = refine([(4096, 1.0), (8192, 1.0), (16384, 3.5), (32768, 3.6)], GRID)
    assert added
    assert all(8192 < value < 16384 for value in added)


def test_a_fall_is_a_step_too_and_the_grid_is_all_there_is() -> None:
    assert refine([(8192, 9.0), (16384, 3.0)], [size for size in GRID if size <= 16384]) == [10240, 12288, 14336]
    assert refine([(8192, 9.0), (10240, 3.0)], [8192, 10240]) == []


def test_a_sweep_goes_on_until_three_doublings_are_flat() -> None:
    """A cache that the system did not report ends behind the planned sizes."""
    rising = [(1 << 20, 3.0), (2 << 20, 3.1), (4 << 20, 3.2), (8 << 20, 9.0)]
    grid = [n << 20 for n in (1, 2, 4, 8, 16, 32, 64)]
    assert refine(rising, grid) == [16 << 20]
    assert refine([*rising, (16 << 20, 9.2), (32 << 20, 9.3)], grid) == [64 << 20]
    assert refine([*rising, (16 << 20, 9.2), (32 << 20, 9.3), (64 << 20, 9.1)], [*grid, 128 << 20]) == []
    assert refine(rising, grid[:4]) == []


def test_steps_are_taken_in_the_order_of_their_size() -> None:
    grid = list(range(1, 141))
    stairs = [(10 * n, 1.5 ** (n * n / 10)) for n in range(1, 15)]
    added = refine(stairs, grid)
    assert len(added) == 12
    assert added == sorted(added)
    assert min(added) > 60


def test_a_straight_curve_needs_nothing_more_however_steep() -> None:
    """A cost that grows with the bytes is a line in log-log; a little noise does not bend it."""
    grid = [step * 1024 for step in range(1, 1025)]
    assert refine([(size, 3.0 * size) for size in (1024, 4096, 16384, 262144, 1048576)], grid) == []
    assert refine([(1024 << n, (2.0**n) * (1.02 if n % 2 else 0.98)) for n in range(11)], grid) == []


def test_a_bend_without_a_step_is_looked_at() -> None:
    grid = [step * 1024 for step in range(1, 65)]
    added = refine([(1024, 1.0), (2048, 1.0), (4096, 1.0), (8192, 1.0), (16384, 2.0), (32768, 4.0), (65536, 8.0)], grid)
    assert added
    assert all(8192 < value < 32768 for value in added)


def test_refining_ends() -> None:
    """A step is narrowed until the grid holds nothing between its sides."""
    grid = [4096 + 512 * step for step in range(57)]
    known = {size: 1.0 if size < 13000 else 4.0 for size in (4096, 8192, 16384, 32768)}
    for _ in range(12):
        added = refine(sorted(known.items()), grid)
        assert not set(added) & set(known)
        known |= {size: 1.0 if size < 13000 else 4.0 for size in added}
    assert not added
    assert {12800, 13312} <= set(known)
    assert len(known) < 20


PACES = [base + base * step // 8 for base in (64 << n for n in range(10)) for step in range(8)] + [65536]


def loaded(pace: int, most: float = 20e9) -> tuple[int, float, float]:
    """Latency and traffic of a machine that saturates: a queue before a server."""
    rate = min(0.98 * most, 768 / pace * 4e9)
    return pace, 80 + 10 / (1 - rate / most), rate


def test_a_load_curve_is_halved_until_its_points_lie_close_along_it() -> None:
    known = {pace: loaded(pace) for pace in (64 << n for n in range(11))}
    assert len({traffic for *_, traffic in known.values()}) < 12
    while added := refine_load([*known.values()], PACES):
        assert not known.keys() & set(added) and set(added) <= set(PACES)
        known.update((pace, loaded(pace)) for pace in added)
    points = [known[pace] for pace in sorted(known)]
    assert len({traffic for *_, traffic in points}) >= 12
    for (low, before, much), (high, after, less) in pairwise(points):
        if any(low < pace < high for pace in PACES):
            assert much - less <= 0.98 * 20e9 * OF_TRAFFIC and before <= after * 1.25
    saturated = [pace for pace in known if loaded(pace)[2] == 0.98 * 20e9]
    assert sorted(saturated)[:-2] == [64], "nothing is added where the memory gives no more"


def test_a_load_curve_of_one_rate_is_left_alone() -> None:
    assert refine_load([(64, 100.0, 9e9), (512, 101.0, 9e9), (65536, 99.0, 9e9)], PACES) == []
    assert refine_load([(64, 100.0, 9e9)], PACES) == refine_load([], PACES) == []
    assert refine_load([(64, 100.0, 0.0), (512, 101.0, 0.0)], PACES) == []
