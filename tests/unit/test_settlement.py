# SPDX-License-Identifier: Apache-2.0
"""How much of a run is known well enough, and what would mend the rest."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from support.builders import CLOCK_HZ, outcome, probe, quiet, row, sample
from tollmeter.experiment.limits import LEAST_VISITS, MIB
from tollmeter.judgement.convergence import (
    LIMITED,
    Settlement,
    budget_beyond,
    convergence_sentence,
    missing_visits,
    settlement,
    visits_wanted,
)
from tollmeter.model import Outcome, Point
from tollmeter.numbers.known import Known, Learned, SharedCache
from tollmeter.numbers.rows import by_point

TOLD = {"any.probe": probe()}


def visits(point: int, costs: list[float], width: float = 4.0) -> list[Outcome]:
    seen = quiet(width_before_hz=width * CLOCK_HZ, width_hz=width * CLOCK_HZ)
    taken = [[sample(cost, witness=seen)] * 4 for cost in costs]
    return [outcome(four, visit=10 * point + i, parameters={"point": point}) for i, four in enumerate(taken)]


def settlement_of(outcomes: list[Outcome], known: Known, seconds: float) -> Settlement:
    return settlement(outcomes, missing_visits(by_point(outcomes), TOLD, known), known, seconds)


def settled(points: int, of: int, *open_s: float) -> Settlement:
    return Settlement(of, points, 0.5, None, open_s)


def test_points_that_can_have_a_number_are_counted_and_what_the_others_want() -> None:
    steady, loose = visits(0, [10.0, 10.01, 9.99]), visits(1, [10.0, 12.0, 14.5])
    gone = [outcome(visit=99, parameters={"point": 2}, status="unsupported", reason="no gate")]
    found = settlement_of([*steady, *loose, *gone], Known(), 10.0)
    assert (found.points, found.converged) == (2, 1)
    (wanted_s,) = found.open_s
    assert wanted_s > 0


def test_what_an_open_point_wants_is_wall_time_by_what_visits_have_taken() -> None:
    """Twice as long a run for the same batches makes each further visit twice as dear."""
    loose = visits(1, [10.0, 12.0, 14.5])
    short, long = (settlement_of(loose, Known(), seconds).open_s[0] for seconds in (5.0, 10.0))
    assert long == pytest.approx(2 * short)


def test_what_is_promised_of_a_mixture_is_when_its_uncontended_cost_is_known() -> None:
    """Three visits that saw the whole core and one more, at the rate at which visits see it."""
    mixed = [*visits(0, [10.0, 10.1]), *visits(0, [14.0, 15.0, 16.0, 17.0], width=2.4)]
    told = [msgspec.structs.replace(one, visit=number) for number, one in enumerate(mixed)]
    known = Known(widths={("local", "x86_64"): 4.0})
    timed_s = 6 * 4 * 3 * 13.7e-6
    (open_s,) = settlement_of(told, known, timed_s).open_s
    assert open_s == pytest.approx((visits_wanted(told, TOLD["any.probe"], known) - 6) * timed_s / 6)


def test_the_share_of_the_time_that_was_timed() -> None:
    """Three visits of four samples of 70 + 10000 + 70 + 20000 ns in a millisecond."""
    found = settlement_of(visits(0, [10.0] * 3), Known(), 1e-3)
    assert found.timed_share == pytest.approx(12 * 30_140e-9 / 1e-3)


def test_the_share_of_samples_on_a_contended_core() -> None:
    mixed = [*visits(0, [10.0] * 3), *visits(1, [10.0], width=2.4)]
    known = Known(widths={("local", "x86_64"): 4.0})
    assert settlement_of(mixed, known, 1.0).contended_share == pytest.approx(4 / 16)
    assert settlement_of(mixed, Known(), 1.0).contended_share is None


def test_a_count_converges_with_one_visit() -> None:
    counted = outcome([sample(10.0)] * 2, clock="instructions")
    found = settlement_of([counted], Known(), 1.0)
    assert (found.points, found.converged) == (1, 1)


def test_a_run_that_knows_all_says_only_that() -> None:
    assert convergence_sentence(settled(7, 7), [row(10.0)], 0.03, 60.0) == "7 of 7 points within 3 %"


def test_a_run_names_what_it_knows_worst_and_the_budget_that_would_mend_it() -> None:
    rows = [row(10.0), row(20.0, 0.2, parameters={"size": 4096}), row(None, status="failed")]
    said = convergence_sentence(settled(90, 100, *[1.0] * 10), rows, 0.03, 60.0)
    assert said == (
        "90 of 100 points within 3 %; worst: any.probe size=4096 x86_64, 16 to 24 ns; "
        "--budget 2m would let 100 converge"
    )


def test_the_shortest_budget_that_gains_most_is_named() -> None:
    """Eight points within half a minute more, one more within ten minutes, and one never: the one is not worth it."""
    still = (*[3.0] * 8, 500.0, inf)
    said = convergence_sentence(settled(90, 100, *still), [row(10.0)], 0.03, 60.0)
    assert said.endswith("--budget 2m would let 98 converge")


@pytest.mark.parametrize(("open_s", "seconds"), [((inf, inf), 60.0), ((9000.0,), 60.0), ((1.0,), 3600.0)])
def test_what_no_budget_mends_is_not_promised(open_s: tuple[float, ...], seconds: float) -> None:
    said = convergence_sentence(settled(9, 9 + len(open_s), *open_s), [row(10.0)], 0.03, seconds)
    assert "--budget" not in said
    assert "worst" in said


def test_a_point_limited_by_between_run_variance_gets_no_visits_and_does_not_converge() -> None:
    """0.6 % where nobody knows better makes an interval of 1.2 % at the least, which three visits that agree show."""
    known = Known(precision=0.01)
    same = [msgspec.structs.replace(told, visit=number, seed=number)
            for number, told in enumerate(visits(0, [10.0, 10.001, 9.999] * 20))]  # fmt: skip
    assert visits_wanted(same, TOLD["any.probe"], known) == len(same)
    assert visits_wanted(same[:3], TOLD["any.probe"], known) == 3
    scattered = [*same[:2], *visits(2, [11.0])]
    assert visits_wanted(scattered, TOLD["any.probe"], known) > 3
    found = settlement_of(same, known, 10.0)
    assert (found.converged, found.open_s) == (0, (inf,))
    assert convergence_sentence(found, [row(10.0)], 0.01, 10.0).endswith(LIMITED)


def test_data_in_a_share_of_the_last_cache_get_an_interval_before_their_runs_limit_them() -> None:
    """A first run of a guest visited each size beyond L2 once, since runs differ there by 30 %."""
    shared = Learned({}, {}, 0, SharedCache("L3", MIB, 32 * MIB))
    known = Known(learned=shared)
    once = [
        msgspec.structs.replace(visits(0, [16.0])[0], point=Point("any.probe", "x86_64", "local", (("size", 4 * MIB),)))
    ]
    same = [msgspec.structs.replace(once[0], visit=number, seed=number) for number in range(LEAST_VISITS)]
    assert visits_wanted(once, TOLD["any.probe"], known) == LEAST_VISITS
    assert visits_wanted(same, TOLD["any.probe"], known) == LEAST_VISITS


def test_minutes_are_written_as_such() -> None:
    told = convergence_sentence(settled(0, 1, 100.0), [row(10.0)], 0.03, 100.0)
    assert told.endswith("--budget 4m would let 1 converge")


def test_a_budget_beyond_another_is_a_usual_one() -> None:
    assert [budget_beyond(8, wanted) for wanted in (3, 11, 55, 200)] == [10, 20, 60, 240]
    assert budget_beyond(60, 60) == 120, "the same again would do no more"
    assert budget_beyond(3600, 4000) == 7200
