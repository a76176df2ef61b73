# SPDX-License-Identifier: Apache-2.0
"""Whether the core was this program's alone, from additions that wait for nobody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from made import CLOCK_HZ, outcome, quiet, sample
from tollmeter.experiment.core import core_seen, cores_hz, states, usual, widths
from tollmeter.experiment.taken import Taken
from tollmeter.model import Outcome, Sample
from tollmeter.numbers import known
from tollmeter.numbers.known import Learned, machine_known


def seen(before: float, after: float | None = None, between: float = 0.0) -> Sample:
    """A sample between two readings of the width, in additions a cycle, and with one in its middle."""
    rates = [width * CLOCK_HZ for width in (before, before if after is None else after, between)]
    return sample(10, witness=quiet(width_before_hz=rates[0], width_hz=rates[1], width_between_hz=rates[2]))


def visit(*readings: float, number: int = 0) -> Outcome:
    return outcome([seen(reading) for reading in readings], visit=number)


def clocks(*hz: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(hz)


def states_of(samples: Sequence[Sample], clock_hz: float | None, width: float | None) -> list[str]:
    return [str(state) for state in states(Taken([samples]), clocks(clock_hz or 0.0), np.array([width or 0.0]))]


def test_the_clock_is_what_the_loops_reach_nine_times_in_ten() -> None:
    """A neighbour makes most of them slower, and nothing makes one faster but a reading that went wrong."""
    slowed = [sample(1, witness=quiet(control_before_hz=3.6e9, control_hz=3.7e9)) for _ in range(4)]
    visits = [outcome(slowed, controls=(3.7e9, 9e9)), outcome([sample(1)], controls=())]
    assert cores_hz(visits) == pytest.approx([3.7e9, 0])


def test_a_width_is_additions_in_a_cycle() -> None:
    assert widths(Taken([[seen(4.0, 2.0)]]), clocks(CLOCK_HZ)) == pytest.approx((4.0, 2.0))
    assert not len(widths(Taken([[sample(1, witness=quiet())]]), clocks(CLOCK_HZ)))
    assert not len(widths(Taken([[seen(4.0)]]), clocks(0.0)))


def test_the_width_of_one_heap_is_its_middle() -> None:
    assert core_seen([visit(3.98, 4.00, 4.02, 3.99, 4.01)]).width == pytest.approx(4.0)


def test_more_readings_of_a_heap_do_not_move_its_middle() -> None:
    """A heap's upper end grows with the number of its readings, and is not its middle."""
    many = np.random.default_rng(1).normal(4.0, 0.01, 2000)
    assert core_seen([visit(*many)]).width == pytest.approx(4.0, rel=0.002)


def test_the_width_of_two_heaps_is_the_upper_ones_however_small() -> None:
    """Neighbours had the core for 36 samples of 40, and two odd readings stand above both heaps."""
    shared = [2.4 + 0.01 * (i % 5) for i in range(36)]
    found = core_seen([visit(*shared), visit(3.98, 4.00, 4.02, 4.00, number=1), visit(5.5, number=2)]).width
    assert found == pytest.approx(4.0)


def test_too_few_readings_have_no_width() -> None:
    """Three samples have six readings, and a heap has eight."""
    assert core_seen([visit(4.0, 4.0, 4.0)]).width is None
    assert core_seen([visit(4.0, 4.0, 4.0, 4.0)]).width == pytest.approx(4.0)
    assert core_seen([outcome([sample(1)] * 20)]).width is None
    assert core_seen([]).width is None


def test_a_sample_is_whole_shared_or_unknown() -> None:
    """From 95 % of the width on, on both sides."""
    told = [seen(4.0), seen(3.81), seen(3.79), seen(2.4), seen(4.0, 2.4), seen(2.4, 4.0), sample(1, witness=quiet())]
    expected = ["whole", "whole", "shared", "shared", "unknown", "unknown", "unknown"]
    assert [states_of([one], CLOCK_HZ, 4.0)[0] for one in told] == expected
    assert states_of(told[:2], CLOCK_HZ, None) == ["unknown", "unknown"]
    assert states_of(told[:2], None, 4.0) == ["unknown", "unknown"]


def test_a_sample_is_whole_only_beside_looks_that_saw_the_core_whole() -> None:
    """Somebody who was there a moment before may have been there a moment after two looks."""
    told = [seen(4.0), seen(4.0), seen(4.0), seen(2.4), seen(4.0), seen(4.0)]
    expected = ["whole", "whole", "unknown", "shared", "unknown", "whole"]
    assert states_of(told, CLOCK_HZ, 4.0) == expected


def test_somebody_who_was_there_in_the_middle_only_is_seen() -> None:
    told = [seen(4.0, between=4.0), seen(4.0, between=2.4), seen(4.0, between=4.0), seen(4.0, between=4.0)]
    assert widths(Taken([told[1:2]]), clocks(CLOCK_HZ)) == pytest.approx((4.0, 2.4, 4.0))
    expected = ["unknown", "unknown", "unknown", "whole"]
    assert states_of(told, CLOCK_HZ, 4.0) == expected, "who is there in one sample's middle came from somewhere"
    assert states_of([seen(2.4, between=4.0)], CLOCK_HZ, 4.0) == ["unknown"]
    assert states_of([seen(2.4, between=2.4)], CLOCK_HZ, 4.0) == ["shared"]


def test_visits_that_are_looked_at_together_are_no_neighbours() -> None:
    """Somebody was there at the end of the first visit, and at the beginning of the third; the second has no sample."""
    alone, beside = [seen(4.0)] * 2, [seen(2.4)]
    told = Taken([[*alone, *beside], [], [*beside, *alone], alone])
    expected = ["whole", "unknown", "shared", "shared", "unknown", "whole", "whole", "whole"]
    assert states(told, clocks(*[CLOCK_HZ] * 4), np.full(4, 4.0)).tolist() == expected
    some = told.where(np.array([True, True, False, False, True, True, True, True]))
    assert (some.counts.tolist(), some.column("width_hz").tolist()) == ([2, 0, 2, 2], [4.0 * CLOCK_HZ] * 6)
    assert states(some, clocks(CLOCK_HZ, CLOCK_HZ, 0.0, CLOCK_HZ), np.full(4, 4.0)).tolist() == [
        "whole", "whole", "unknown", "unknown", "whole", "whole"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("whole", "shared", "unknown", "name"),
    [(8, 2, 0, "whole"), (7, 3, 0, "unknown"), (1, 8, 1, "shared"), (0, 0, 10, "unknown"), (0, 0, 0, "unknown")],
)
def test_a_mixture_is_called_what_four_fifths_of_it_are(whole: int, shared: int, unknown: int, name: str) -> None:
    assert usual(np.array(["whole"] * whole + ["shared"] * shared + ["unknown"] * unknown, dtype="<U7")) == name


def test_a_width_that_earlier_runs_saw_counts_where_this_one_was_never_alone() -> None:
    alone, beside = [visit(*[4.0] * 8)], [visit(*[2.4] * 8)]
    place = ("local", "x86_64")
    assert machine_known(alone).widths[place] == pytest.approx(4.0)
    assert machine_known(beside).widths[place] == pytest.approx(2.4)
    assert machine_known(beside, Learned(widths={place: 4.0})).widths[place] == 4.0
    assert machine_known(alone, Learned(widths={place: 2.4})).widths[place] == pytest.approx(4.0)


def test_the_core_of_many_visits_is_that_of_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_ENOUGH_VISITS", 30)
    looked: list[int] = []
    whole = known.core_seen
    monkeypatch.setattr(known, "core_seen", lambda some: (looked.append(len(some)), whole(some))[1])
    found = machine_known([visit(4.0, 3.99, 4.01, number=number) for number in range(100)])
    assert looked == [25]
    assert [*found.widths.values()] == pytest.approx([4.0], rel=0.005)
