# SPDX-License-Identifier: Apache-2.0
"""The conduct of a run, on a machine that exists only here: its clock moves by what visits cost."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from support.fake_catalog import MACHINE, two_packages
from support.probe_streams import whole
from support.simulated_run import Rig
from tollmeter import starting
from tollmeter.cli import run as run_verb
from tollmeter.conduct import pinned_to, starvation
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.library.measure import MeasuredRun
from tollmeter.library.options import Options
from tollmeter.model import Failure, Point, Published, RowOf, Select, Topology, Visit
from tollmeter.plan import Plan
from tollmeter.plan.effort import LARGE_BYTES, OF_MATRIX
from tollmeter.protocol import refused
from tollmeter.store.journal import Journal, Session, read_journal
from tollmeter.targets import child


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "run")


LATENCY = Select(probe="memory.latency", parameters={"pages": "huge"})
ENTER = Select(probe="kernel.enter", abi=("native", "ia32"))


def test_every_point_is_visited_until_it_converges(rig: Rig) -> None:
    plan = rig.plan(LATENCY, ENTER)
    session = rig.go(plan)
    assert session == Session("settled", pytest.approx(len(rig.visits) * rig.visit_s), None)
    assert Counter(visit.point for visit in rig.visits) == dict.fromkeys(plan.points(), 3)
    read_again = read_journal(rig.folder).session
    assert (read_again.status, read_again.visits) == (session.status, len(rig.visits))
    assert read_again.seconds == pytest.approx(session.seconds)
    assert [told.visit for told in read_journal(rig.folder).outcomes] == list(range(len(rig.visits)))


def test_a_visit_beyond_a_limit_ends_the_run(rig: Rig) -> None:
    rig.beyond, rig.ends_at = "too late", 4
    session = rig.go(rig.plan(LATENCY))
    assert (session.status, session.reason) == ("beyond", "too late")
    assert [visit.id for visit in rig.visits] == list(range(5))


def test_a_matrix_of_cpus_is_complete_before_its_points_converge(rig: Rig) -> None:
    plan = rig.plan(Select(probe="memory.ping"), machine=two_packages())
    assert rig.go(plan).status == "settled"
    pairs = {frozenset(visit.cpus) for visit in rig.visits}
    assert len(pairs) == 7 * 6 // 2


def test_all_pairs_of_48_cpus_are_visited_twice_and_those_that_differ_once_more(rig: Rig) -> None:
    """A visit takes as long as it does on a real machine (bench/matrix.py)."""
    halves = ("0-23", "24-47")
    topology = Topology(online="0-47", packages=halves, cores=tuple(f"{cpu}" for cpu in range(48)))
    machine = msgspec.structs.replace(MACHINE, cpus=48, allowed_cpus=tuple(range(48)), topology=topology)
    rig.visit_s, rig.wide = 0.0026, [[(47, 5), (40, 30)]]
    plan = rig.plan(Select(probe="memory.ping", abi=("x86_64",)), budget=8, machine=machine)
    assert rig.go(plan).status == "settled"
    several = Counter(frozenset(visit.cpus) for visit in rig.visits)
    assert len(several) == 47 * 46 // 2
    assert {pair for pair, count in several.items() if count != 2} == {frozenset((47, 5)), frozenset((40, 30))}
    first = [visit.point for visit in rig.visits if visit.round == 0]
    assert Counter(first) == dict.fromkeys(plan.points(), 14)
    assert max(len([*group]) for _, group in itertools.groupby(first)) == 1, "relations are interleaved"
    rounds: dict[frozenset[int], set[int]] = {}
    for visit in rig.visits:
        rounds.setdefault(frozenset(visit.cpus), set()).add(visit.round)
    assert min(max(numbers) - min(numbers) for numbers in rounds.values()) > 1
    assert {(visit.samples, visit.forks) for visit in rig.visits} == {(OF_MATRIX.samples, True)}


def test_what_was_measured_in_another_state_is_visited_again_three_times_at_most(rig: Rig) -> None:
    rig.differs = "kernel.enter"
    plan = rig.plan(LATENCY, ENTER)
    assert rig.go(plan).status == "settled"
    visits = Counter(visit.point for visit in rig.visits)
    assert visits == {point: 6 if point.probe == rig.differs else 3 for point in plan.points()}


def test_nothing_is_visited_again_behind_the_budget(rig: Rig) -> None:
    rig.differs = "kernel.enter"
    plan = rig.plan(ENTER, budget=4.5 * 2 * rig.visit_s)
    rig.go(plan)
    assert 3 * len(plan.points()) <= len(rig.visits) < 5 * len(plan.points())


def test_no_point_gets_a_third_visit_before_all_have_their_second(rig: Rig) -> None:
    plan = rig.plan(LATENCY, ENTER)
    rig.go(plan)
    rounds = [visit.round for visit in rig.visits]
    assert rounds == sorted(rounds)
    assert [visit.point for visit in rig.visits if visit.round == 0] != [v.point for v in rig.visits if v.round == 1]


PARALLEL = Select(probe="memory.parallel")


def until_other(rig: Rig) -> Counter[Point]:
    """Visits of each point of the first screen until another point has its second."""
    others = [visit.point for visit in rig.visits if visit.point.probe == "memory.parallel"]
    second = next(point for place, point in enumerate(others) if point in others[:place])
    until = [place for place, visit in enumerate(rig.visits) if visit.point == second][1]
    return Counter(visit.point for visit in rig.visits[:until] if visit.point.probe != "memory.parallel")


def test_the_first_screen_converges_before_the_rest_has_a_second_visit(rig: Rig) -> None:
    rig.visits_to_settle = 9
    rig.go(rig.plan(PARALLEL, LATENCY, ENTER))
    first = until_other(rig)
    assert {point.values().get("size") for point in first} >= {1024, 1 << 20, 8 << 20}
    assert {count for point, count in first.items() if point.abi == "x86_64"} == {rig.visits_to_settle}


def test_the_first_screen_has_half_of_the_time_before_the_rest_has_intervals(rig: Rig) -> None:
    """Each of its points converges soon in the judge's opinion, and none does."""
    rig.visits_wanted = lambda outcomes, _: len(outcomes) + 20  # type: ignore[method-assign]
    plan = rig.plan(PARALLEL, LATENCY, ENTER, budget=20)
    rig.go(plan)
    rest = len([point for point in plan.points() if point.probe == "memory.parallel"])
    first = (sum(until_other(rig).values()) + rest) * rig.visit_s
    assert 9 < first <= 10
    assert min(Counter(visit.point for visit in rig.visits).values()) >= LEAST_VISITS


def test_a_toll_of_the_first_screen_converges_while_levels_get_their_intervals(rig: Rig) -> None:
    rig.wished = {2: [1280], 5: [1536], 8: [1792]}
    rig.visits_to_settle = 9
    plan = rig.plan(PARALLEL, LATENCY, ENTER)
    rig.go(plan)
    last = next(place for place, visit in enumerate(rig.visits) if visit.point.values().get("size") == 1792)
    several = Counter((visit.point.probe, visit.point.abi) for visit in rig.visits[:last])
    assert several["kernel.enter", "x86_64"] == 9
    assert set(
        Counter(visit.point for visit in rig.visits[:last] if visit.point.probe == "memory.latency").values()
    ) == {3}


def test_of_several_kinds_of_a_toll_the_first_screen_has_one_and_it_converges_first(rig: Rig) -> None:
    """Six kinds of page faults took 13 s of a run, and each run showed another one."""
    rig.visits_to_settle = 9
    rig.go(rig.plan(Select(probe="page.fault"), LATENCY, ENTER))
    huge, write = (
        [place for place, visit in enumerate(rig.visits) if visit.point.values().get("kind") == kind]
        for kind in ("huge_page", "anonymous_write")
    )
    assert write[8] < huge[2]
    assert len(huge) == len(write) == 9


def test_each_round_visits_the_tolls_of_the_first_screen_until_they_converge(rig: Rig) -> None:
    """A run of 100 s had eight visits of a system call: layouts of 1 GiB took 41 s of its second half."""
    rig.visits_to_settle = 30
    rig.go(rig.plan(PARALLEL, LATENCY, ENTER, budget=20))
    native = [visit.round for visit in rig.visits if (visit.point.probe, visit.point.abi) == ("kernel.enter", "x86_64")]
    assert native[:30] == [*range(30)]


def test_without_a_best_known_kind_the_first_screen_has_what_there_is(rig: Rig) -> None:
    rig.visits_to_settle = 9
    rig.go(rig.plan(Select(probe="page.fault", parameters={"kind": "huge_page"}), PARALLEL))
    assert {count for point, count in until_other(rig).items() if point.abi == "x86_64"} == {9}


def test_what_refinement_added_has_an_interval_and_waits_for_what_was_planned(rig: Rig) -> None:
    rig.wished = {0: [1280, 1536]}
    rig.visits_to_settle = 9
    plan = rig.plan(PARALLEL, LATENCY, ENTER)
    rig.go(plan)
    first = until_other(rig)
    assert {first[point] for point in added(rig, plan)} == {LEAST_VISITS}
    assert {count for point, count in first.items() if point.probe == "memory.latency"} == {LEAST_VISITS, 9}


def test_the_first_screen_s_tolls_have_intervals_also_where_not_every_point_can_be_visited(rig: Rig) -> None:
    """A run of 20 s had two visits of a system call, and no interval."""
    plan = rig.plan(PARALLEL, LATENCY, ENTER, budget=0.2)
    rig.go(plan)
    counts = Counter(visit.point for visit in rig.visits)
    assert len(counts) < len(plan.points())
    assert {counts[point] for point in plan.points() if (point.probe, point.abi) == ("kernel.enter", "x86_64")} == {3}


def test_a_budget_that_gives_no_interval_to_the_rest_visits_every_point_first(rig: Rig) -> None:
    plan = rig.plan(PARALLEL, LATENCY, ENTER, budget=0.5)
    rig.go(plan)
    small = {point for point in plan.points() if point.values().get("size", 0) <= LARGE_BYTES}  # type: ignore[operator]
    assert small and small <= {visit.point for visit in rig.visits}


def test_the_rest_has_intervals_also_where_the_first_screen_never_converges(rig: Rig) -> None:
    rig.visits_to_settle = 10**6
    plan = rig.plan(PARALLEL, LATENCY, ENTER, budget=10)
    rig.go(plan)
    assert min(Counter(visit.point for visit in rig.visits).values()) >= LEAST_VISITS


def test_a_core_that_stays_contended_costs_no_point_its_interval(rig: Rig) -> None:
    """Every visit waits as long as it may."""
    plan = rig.plan(PARALLEL, LATENCY, ENTER, budget=10)
    rig.width = 4.0

    def answer(visit: Visit) -> bytes:
        assert visit.full_width == rig.width
        rig.clock_s += visit.wait_ms / 1000
        return whole(visit=visit)

    rig.answer = answer
    assert rig.go(plan).seconds < 10 + rig.visit_s
    assert max(visit.wait_ms for visit in rig.visits) > 0
    assert min(Counter(visit.point for visit in rig.visits).values()) >= LEAST_VISITS


def test_of_a_study_what_its_claims_are_about_has_an_interval_before_the_rest_begins(rig: Rig) -> None:
    claim = Published(what="?", figure="?", row=RowOf(probe="memory.latency", parameters={"size": 4096}))
    selects = Select(probe="memory.latency", parameters={"size": [4096, 8192, 16384]}), Select(probe="kernel.switch")
    rig.visits_to_settle = 4
    rig.go(rig.plan(*selects, published=(claim,)))
    sizes = [visit.point.values().get("size") for visit in rig.visits]
    assert sizes[: LEAST_VISITS * sizes.count(4096) // 4] == [4096] * (LEAST_VISITS * sizes.count(4096) // 4)
    assert set(Counter(visit.point for visit in rig.visits).values()) == {4}


def test_of_a_study_what_its_claims_are_about_converges_before_the_rest_is_visited_beyond_its_interval(
    rig: Rig,
) -> None:
    claim = Published(what="?", figure="?", row=RowOf(probe="memory.latency", parameters={"size": 4096}))
    rig.visits_to_settle = 9
    rig.go(rig.plan(Select(probe="memory.latency", parameters={"size": [4096, 8192]}), published=(claim,)))
    sizes = [visit.point.values()["size"] for visit in rig.visits]
    last = len(sizes) - sizes[::-1].index(4096)
    others = Counter(visit.point for visit in rig.visits[:last] if visit.point.values()["size"] == 8192)
    assert max(others.values(), default=0) <= LEAST_VISITS


def test_the_abis_of_a_study_s_claim_are_visited_in_turns_and_its_other_points_are_not(rig: Rig) -> None:
    of_both = Select(probe="kernel.enter", abi=("x86_64", "ia32"))
    claim = Published(
        what="?", figure="?", row=RowOf(probe="kernel.enter", abi="ia32"), over=RowOf(probe="kernel.enter")
    )
    rig.visits_to_settle = 8
    plan = rig.plan(of_both, Select(probe="memory.latency", parameters={"size": 4096}), published=(claim,))
    (pair,) = plan.against.items()
    assert [point.abi for point in pair] == ["ia32", "x86_64"]
    rig.go(plan)
    turns = [visit for visit in rig.visits if visit.point in pair]
    assert "".join(visit.point.abi[0] for visit in turns[:8]) == "ixxiixxi"
    for first, second in zip(turns[::2], turns[1::2], strict=True):
        assert (first.round, first.seed) == (second.round, second.seed)
        assert rig.visits.index(second) == rig.visits.index(first) + 1
    assert any(visit.point.probe == "memory.latency" for visit in rig.visits)


def test_an_emulators_point_of_a_claim_waits_where_this_machine_answers(rig: Rig) -> None:
    claim = Published(what="?", figure="?", row=RowOf(probe="kernel.enter", abi="ia32"))
    rig.visits_to_settle = 6
    plan = rig.plan(Select(probe="kernel.enter", abi=("ia32",)), Select(probe="kernel.switch"), published=(claim,))
    (here,) = plan.points()[:1]
    there = msgspec.structs.replace(here, target="guest:x32")
    entry = msgspec.structs.replace(plan.entries[0], points=(here, there))
    rig.go(msgspec.structs.replace(plan, entries=(entry, *plan.entries[1:])))
    order = [(visit.point.probe, visit.point.target) for visit in rig.visits]
    assert order.index(("kernel.enter", "guest:x32")) >= LEAST_VISITS


def test_a_point_that_one_visit_settles_does_not_delay_the_others(rig: Rig) -> None:
    """A guest that counts says all at once."""
    claim = Published(what="?", figure="?", row=RowOf(probe="memory.latency", parameters={"size": 4096}))
    rig.visits_to_settle = 1
    rig.go(rig.plan(Select(probe="memory.latency", parameters={"size": [4096, 8192]}), published=(claim,)))
    assert set(Counter(visit.point for visit in rig.visits).values()) == {1}


def test_a_claim_that_the_budget_cannot_pay_keeps_nothing_from_the_rest(rig: Rig) -> None:
    claim = Published(what="?", figure="?", row=RowOf(probe="memory.latency", parameters={"size": 1 << 40}))
    selects = Select(probe="memory.latency", parameters={"size": [4096, 1 << 40], "pages": "small"})
    rig.go(rig.plan(selects, budget=1, published=(claim,)))
    assert {visit.point.values()["size"] for visit in rig.visits} == {4096}


def test_the_judge_is_asked_less_often_the_more_visits_there_are(rig: Rig) -> None:
    """To read a thousand visits anew after each of them took longer than the visits."""
    rig.visits_to_settle = 500
    plan = rig.plan(ENTER)
    rig.go(plan)
    assert Counter(visit.point for visit in rig.visits) == dict.fromkeys(plan.points(), 500)
    assert rig.asked < 100 * len(plan.points())


def test_a_review_is_made_after_a_tenth_more_visits(rig: Rig) -> None:
    rig.visits_to_settle = 50
    rig.go(rig.plan(LATENCY))
    assert len(rig.visits) == rig.looks[-1]
    assert all(1.1 * before <= after for before, after in itertools.pairwise(rig.looks[:-1]))
    assert (rig.folder / "journal.jsonl").read_bytes().count(b'"status":"measuring"') == len(rig.looks)


def test_a_curve_is_refined_once_more_before_a_run_has_converged(rig: Rig) -> None:
    rig.wished = {2: [1280]}
    rig.go(rig.plan(LATENCY))
    assert sum(visit.point.values()["size"] == 1280 for visit in rig.visits) == 3


def test_converged_points_get_no_more_visits(rig: Rig) -> None:
    rig.visits_to_settle = 2
    plan = rig.plan(LATENCY)
    rig.answer = lambda visit: whole(visit=visit)
    rig.go(plan)
    assert set(Counter(visit.point for visit in rig.visits).values()) == {2}


def test_a_spent_budget_ends_the_run_in_time(rig: Rig) -> None:
    rig.visits_to_settle = 10**9
    session = rig.go(rig.plan(LATENCY, ENTER, budget=5))
    assert session.status == "budget"
    assert session.reason
    assert 4 < session.seconds <= 5


def test_more_budget_means_more_visits(rig: Rig, tmp_path: Path) -> None:
    rig.visits_to_settle = 10**9
    rig.go(rig.plan(LATENCY, budget=3))
    other = Rig(tmp_path / "other")
    other.visits_to_settle = 10**9
    other.go(other.plan(LATENCY, budget=6))
    assert len(other.visits) > len(rig.visits)


def test_a_curve_gets_the_points_that_the_judge_wishes_for(rig: Rig) -> None:
    rig.wished = {0: [1280, 1536, 999], 1: [1792]}
    plan = rig.plan(LATENCY)
    rig.go(plan)
    added = [visit for visit in rig.visits if visit.point not in plan.points()]
    assert Counter(visit.point.values()["size"] for visit in added) == {1280: 3, 1536: 3, 1792: 3}
    assert min(visit.round for visit in added if visit.point.values()["size"] == 1792) == 2


def added(rig: Rig, plan: Plan) -> set[Point]:
    return {visit.point for visit in rig.visits} - set(plan.points())


def test_a_short_budget_adds_no_more_points_than_a_small_share_of_it_pays(rig: Rig) -> None:
    rig.wished = {0: [1280, 1536, 1792, 2560, 3072, 3584]}
    rig.visits_to_settle = 10**9
    plan = rig.plan(LATENCY, PARALLEL, ENTER, budget=4)
    rig.visit_s = 0.045
    rig.go(plan)
    assert 0 < len(added(rig, plan)) <= 2


@pytest.mark.parametrize(("size", "is_added"), [(96 << 20, True), (256 << 20, False)])
def test_a_large_size_beyond_a_sweep_has_a_small_share_of_the_budget_alone(
    rig: Rig, size: int, *, is_added: bool
) -> None:
    """Between planned sizes it may place the end of a cache."""
    plan = rig.plan(Select(probe="memory.latency", parameters={"pages": "huge", "size": "1KiB..128MiB"}), budget=9)
    (curve,) = plan.curves()
    further = msgspec.structs.replace(curve, grid=(*curve.grid, 256 << 20))
    entry = msgspec.structs.replace(plan.entries[0], curves=(further,))
    rig.wished = {0: [size]}
    rig.go(msgspec.structs.replace(plan, entries=(entry,)))
    assert bool(added(rig, plan)) == is_added


def test_a_curve_that_is_refused_is_measured_in_another_way(rig: Rig) -> None:
    select = Select(probe="memory.latency", parameters={"pages": "huge"}, refused={"pages": "small"})
    plan = rig.plan(select)
    begun_with = set(plan.points())
    rig.answer = lambda visit: (
        refused(visit, 1, "unsupported", "no huge pages") if visit.point in begun_with else whole(visit=visit)
    )
    rig.go(plan)
    begun = {point.values()["size"] for point in plan.points()}
    assert {point.values()["size"] for point in added(rig, plan)} == begun
    assert {point.values()["pages"] for point in added(rig, plan)} == {"small"}


def test_a_point_too_expensive_to_converge_takes_no_time_from_others(rig: Rig) -> None:
    plan = rig.plan(LATENCY, ENTER, budget=5)
    slow = plan.points()[5]

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 1.8 if visit.point == slow else 0
        return whole(visit=visit)

    rig.answer = answer
    assert rig.go(plan).status == "budget"
    assert Counter(visit.point for visit in rig.visits) == {**dict.fromkeys(plan.points(), 3), slow: 2}


def test_a_skip_is_asked_once_and_a_failure_twice(rig: Rig) -> None:
    def answer(visit: Visit) -> bytes:
        status = "unsupported" if visit.point.abi == "ia32" else "failed"
        return refused(visit, 1, status, "no")

    rig.answer = answer
    assert rig.go(rig.plan(ENTER)).status == "settled"
    assert Counter(visit.point.abi for visit in rig.visits) == {"ia32": 1, "x86_64": 2}


def test_a_gap_is_a_sentence_in_the_journal(rig: Rig) -> None:
    rig.go(rig.plan(Select(probe="kernel.enter", abi=("native", "x32")), gaps={"x32": "x32 (no compiler)"}))
    told = [outcome for outcome in read_journal(rig.folder).outcomes if outcome.point.abi == "x32"]
    assert [(outcome.status, outcome.reason) for outcome in told] == [("unsupported", "x32 (no compiler)")]
    assert not any(visit.point.abi == "x32" for visit in rig.visits)


def stop_at(number: int, *, with_samples: bool) -> Callable[[Visit], bytes]:
    def answer(visit: Visit) -> bytes:
        if visit.id < number:
            return whole(visit=visit)
        os.kill(os.getpid(), signal.SIGINT)
        return whole(visit=visit) if with_samples else refused(visit, 1, "interrupted", "before its first sample")

    return answer


@pytest.mark.parametrize("with_samples", [True, False])
def test_the_first_ctrl_c_ends_after_the_sample_and_resuming_does_the_rest_once(rig: Rig, with_samples: bool) -> None:
    plan = rig.plan(LATENCY, ENTER)
    rig.answer = stop_at(5, with_samples=with_samples)
    session = rig.go(plan)
    assert session.status == "interrupted"
    assert rig.interrupts == 1
    assert len(rig.visits) == 6
    told = read_journal(rig.folder)
    assert {outcome.point for outcome in told.outcomes} == set(plan.points())
    rig.answer = lambda visit: whole(visit=visit)
    resumed = rig.go(plan, told.outcomes, told.session.seconds)
    assert resumed.status == "settled"
    assert resumed.seconds == pytest.approx(rig.clock_s)
    measured = [outcome for outcome in read_journal(rig.folder).outcomes if outcome.status == "ok"]
    places = Counter((outcome.point, outcome.round) for outcome in measured)
    assert set(places.values()) == {1}
    assert Counter(point for point, _ in places) == dict.fromkeys(plan.points(), 3)
    outcomes = read_journal(rig.folder).outcomes
    assert len({outcome.visit for outcome in outcomes}) == len(outcomes)


def test_resuming_a_finished_run_measures_nothing(rig: Rig) -> None:
    rig.wished = {0: [1280]}
    plan = rig.plan(LATENCY, Select(probe="kernel.enter", abi=("x32",)), gaps={"x32": "x32 (no compiler)"})
    rig.go(plan)
    made = len(rig.visits)
    assert rig.go(plan, read_journal(rig.folder).outcomes).status == "settled"
    assert len(rig.visits) == made


def test_the_second_ctrl_c_ends_at_once(rig: Rig) -> None:
    def answer(visit: Visit) -> bytes:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return whole(visit=visit)

    rig.answer = answer
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        rig.go(rig.plan(ENTER))
    assert signal.getsignal(signal.SIGINT) is before
    assert read_journal(rig.folder).session.status == "interrupted"


def test_progress_grows_to_its_end(rig: Rig) -> None:
    rig.go(rig.plan(LATENCY, ENTER))
    fractions = [fraction for fraction, _ in rig.progress]
    assert fractions[0] == 0
    assert fractions == sorted(set(fractions))
    assert all(0 <= fraction <= 1 and fraction * 1000 + left == pytest.approx(1000) for fraction, left in rig.progress)


def test_pairs_of_cpus_are_visited_one_by_one(rig: Rig) -> None:
    rig.go(rig.plan(Select(probe="memory.ping")))
    assert Counter(visit.cpus for visit in rig.visits if visit.round == 0) == {(3, 2): 1, (3, 1): 1, (2, 1): 1}


def test_a_full_disk_ends_the_run_with_what_was_flushed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    append = Journal.append

    def full(journal: Journal, stream: bytes) -> None:
        if len(rig.visits) > 3:
            raise Failure("no room", exit_code=5)
        append(journal, stream)

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(Failure):
        rig.go(rig.plan(LATENCY))
    assert len(read_journal(rig.folder).outcomes) == 3


def test_the_host_keeps_off_the_measured_cpus_and_gives_them_back() -> None:
    before = os.sched_getaffinity(0)
    lowest = min(before)
    said: list[str] = []
    with pinned_to(lowest, said.append):
        assert os.sched_getaffinity(0) == {lowest}
    assert not said
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("cpu", [None, 4095])
def test_no_cpu_for_the_host_is_said_and_borne(cpu: int | None) -> None:
    before = os.sched_getaffinity(0)
    said: list[str] = []
    with pinned_to(cpu, said.append):
        assert said
    assert os.sched_getaffinity(0) == before


def refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_refused_affinity_is_said_and_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = min(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    said: list[str] = []
    with pinned_to(lowest, said.append):
        assert "Operation not permitted" in said.pop()
    monkeypatch.setattr(os, "sched_getaffinity", refuse)
    with pinned_to(lowest, said.append):
        assert said


def test_a_process_that_another_keeps_from_its_cpu_goes_on_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 3 s heard neither its budget nor Ctrl-C while a program of real-time priority 10 had the host's CPU."""
    monkeypatch.setattr(starvation, "TURN_S", 0.01)
    every = os.sched_getaffinity(0)
    own = every - {max(every)}
    if not own:
        pytest.skip("this machine has one CPU")

    def spinning(priority: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        opened.callback(process.wait)
        opened.callback(process.kill)
        os.sched_setaffinity(process.pid, {max(every)})
        try:
            os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError:
            pytest.skip("the system gives no real-time priority here")
        return process

    with contextlib.ExitStack() as opened:
        opened.callback(os.sched_setaffinity, 0, every)
        os.sched_setaffinity(0, own)
        starved = spinning(1)
        spinning(2)
        assert starvation.is_starved(starved.pid)
        starvation.release(starved.pid)
        assert os.sched_getscheduler(starved.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER
        assert os.sched_getaffinity(starved.pid) == own
        starved.kill()
        starved.wait()
        assert not starvation.is_starved(starved.pid)


@pytest.mark.parametrize("call", ["sched_getscheduler", "sched_getparam", "sched_setscheduler"])
def test_a_refused_priority_is_borne(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(starting, "_is_bounded", lambda: True)
    monkeypatch.setattr(os, call, refuse)
    with starting.realtime_priority(wanted=True):
        pass
    with child._normal_priority():
        pass


def test_the_host_comes_before_others_and_what_it_starts_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, what: told.append((policy, what.sched_priority)))
    monkeypatch.setattr(starting, "_is_bounded", lambda: True)
    with starting.realtime_priority(wanted=True):
        assert told == [(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 1)]
    assert told[1:] == [(os.SCHED_OTHER, 0)]
    told.clear()
    with starting.realtime_priority(wanted=False):
        assert told == []
    monkeypatch.setattr(starting, "_is_bounded", lambda: False)
    with starting.realtime_priority(wanted=True):
        assert os.SCHED_FIFO not in [policy & ~os.SCHED_RESET_ON_FORK for policy, _ in told]


ONE_SIZE = Select(probe="memory.latency", parameters={"size": 1024})


def test_compared_points_are_interleaved_until_their_ratio_converges(rig: Rig) -> None:
    rig.visits_to_settle = 20
    rig.go(rig.plan(ONE_SIZE, against=("pages=small",)))
    pages = [visit.point.values()["pages"] for visit in rig.visits]
    assert pages == ["huge", "small", "small", "huge"] * 10
    assert len({visit.seed for visit in rig.visits[:16]}) == 1
    assert rig.visits[16].seed != rig.visits[0].seed


def test_compared_points_wait_for_an_uncontended_core_however_many_visits_they_want(rig: Rig) -> None:
    rig.width, rig.visits_to_settle = 4.0, 10**6
    rig.go(rig.plan(Select(probe="memory.latency", parameters={"size": 4096}), budget=3, against=("pages=small",)))
    half = rig.visits[: len(rig.visits) // 2]
    assert len(half) > 80 and min(visit.wait_ms for visit in half) > 0


@pytest.mark.parametrize("lacking", ["small", "huge"])
def test_where_one_is_not_there_the_other_is_not_visited_again(rig: Rig, lacking: str) -> None:
    def answer(visit: Visit) -> bytes:
        is_lacking = visit.point.values()["pages"] == lacking
        return refused(visit, 1, "unsupported", "no such pages") if is_lacking else whole(visit=visit)

    rig.answer, rig.visits_to_settle = answer, 20
    assert rig.go(rig.plan(ONE_SIZE, against=("pages=small",))).status == "settled"
    assert len(rig.visits) == 2


def test_the_answer_of_a_run_has_its_priority_and_none_where_that_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside four busy programs it took several times as long, beyond the budget."""
    asked: list[bool] = []

    @contextlib.contextmanager
    def noted(*, wanted: bool) -> Iterator[None]:
        asked.append(wanted)
        yield

    monkeypatch.setattr(starting, "realtime_priority", noted)
    monkeypatch.setattr(run_verb, "_finished", lambda *_: 0)
    for priority in (None, "normal"):
        options = Options((), None, None, None, None, None, "table", quiet=True, began=0.0, priority=priority)
        ended = MeasuredRun(tmp_path, Session("settled", 1.0, None), time.monotonic(), 60.0)
        assert run_verb.answered(lambda _, ended=ended: ended, options) == 0
    assert asked == [True, False]


def test_a_command_begins_before_its_imports() -> None:
    told = "time.sleep(0.05); print(time.monotonic() - starting.began())"
    words = f"import time; from tollmeter import starting; starting.hold_signals(); {told}"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 0.05


@pytest.mark.parametrize(("ago_s", "counts"), [(2.0, True), (90.0, False)])
def test_what_the_launcher_took_is_part_of_a_budget_and_what_it_set_up_is_not(
    ago_s: float, *, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) - ago_s
    monkeypatch.setenv("TOLL_BEGAN", str(launched))
    words = (
        "import time; from tollmeter import starting; starting.hold_signals(); "
        "print(time.monotonic() - starting.began())"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert (float(done.stdout) >= ago_s) == counts
