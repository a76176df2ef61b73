# SPDX-License-Identifier: Apache-2.0
"""Profiles in turns: what a neighbour does to the core is met by all points, and mixed into none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tollmeter.catalog import Executable
from tollmeter.experiment.core import Look, common_state, contended_parts, within
from tollmeter.experiment.limits import LEAST_VALUES
from tollmeter.library import profiling
from tollmeter.library.profiling import (
    SLICE_MS,
    SPENT,
    InterleavedProfiles,
    Over,
    ProfilePoint,
    Slice,
    profile_suite,
)
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Build, Failure, Point, Probe, Profile
from tollmeter.store.request import stored_records
from tollmeter.targets.profiling_visit import ProfileRequest

CLOCK_HZ = 4e9
WHOLE: Look = (CLOCK_HZ, 4 * CLOCK_HZ)
SHARED: Look = (CLOCK_HZ, 2.4 * CLOCK_HZ)
OUTER, INNER = 1, 2
TURNS = 12
PROBE = Probe(probe="any.probe", question="?", revision=1, metrics=())
NOTHING = Executable(path="", probe=PROBE, build=Build(probe="any.probe", abi="any", compiler="", flags=""))


class Named:
    """Symbols of an executable of two functions."""

    def __init__(self, _: Path) -> None: ...

    def function(self, address: int) -> str:
        return {OUTER: "outer", INNER: "inner"}[address]

    def inlined(self, _: int) -> None: ...


class Machine:
    """Its neighbour takes more from one function than from the other: which is met how often hangs on whether he is
    there. He is, for the slices that are named. before: called before each slice."""

    def __init__(self) -> None:
        self.neighbour, self.asked = range(0), list[tuple[str, int]]()
        self.before: Callable[[ProfilePoint], object] = lambda _: None

    def sampled(self, wanted: ProfilePoint, sampling: ProfileRequest) -> Slice:
        self.before(wanted)
        self.asked.append((str(wanted.point.parameters), sampling.ms))
        there = len(self.asked) - 1 in self.neighbour
        hits = {OUTER: 700, INNER: 300} if there else {OUTER: 500, INNER: 500}
        looks = tuple(SHARED if there else WHOLE for _ in range(10))
        return Slice("perf cpu-clock", tuple(hits.items()), ns=1000, looks=looks, operations=1)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(profiling, "Symbols", Named)
    monkeypatch.setattr(profiling, "sampled", made.sampled)
    return made


def taken(machine: Machine, neighbour: Sequence[int] = (), points: int = 3) -> list[Profile]:
    machine.neighbour, machine.asked = neighbour, []
    found = InterleavedProfiles(asked_for(points), ProfileRequest(TURNS * SLICE_MS))
    found.take(lambda _: None)
    return found.profiles()


def asked_for(points: int, target: str = "local") -> list[ProfilePoint]:
    return [ProfilePoint(Point("any.probe", "x86_64", target, (("way", way),)), NOTHING) for way in range(points)]


def test_profiles_of_points_are_interleaved_for_the_requested_time(machine: Machine) -> None:
    taken(machine)
    who = [name for name, _ in machine.asked]
    assert who == who[:3] * TURNS and len(set(who[:3])) == 3
    assert sum(ms for name, ms in machine.asked if name == who[0]) == TURNS * SLICE_MS


@pytest.mark.parametrize(
    ("neighbour", "state", "outer"),
    [
        (range(5 * 3), "uncontended", 0.5),  # he leaves after five turns of twelve
        (range(3, 10 * 3), "contended", 0.7),  # he comes behind the first turn, and leaves before the last two
        (range(1000), "uncontended", 0.7),  # who is always there cannot be seen
    ],
)
def test_a_profile_is_of_one_state_of_the_core_the_same_for_all(
    machine: Machine, neighbour: Sequence[int], state: str, outer: float
) -> None:
    told = taken(machine, neighbour)
    assert [(one.state, one.part("outer")) for one in told] == [(state, outer)] * 3


def test_points_that_lack_slices_of_the_state_get_more_turns_and_what_stays_mixed_says_so(machine: Machine) -> None:
    """He comes and goes with the points: the first has him always, the second never."""
    told = taken(machine, range(0, 2 * TURNS, 2), points=2)
    assert {one.state for one in told} == {"uncontended"} and [one.part("outer") for one in told] == [0.5, 0.5]
    assert len(machine.asked) == 2 * TURNS + LEAST_VALUES
    mixed = taken(machine, [*range(0, 2 * TURNS, 2), *range(2 * TURNS, 1000)], points=2)
    assert {one.state for one in mixed} == {"unknown"} and [one.part("outer") for one in mixed] == [0.7, 0.5]


def test_a_failed_profile_is_reported_for_its_point_alone(machine: Machine) -> None:
    def failing(wanted: ProfilePoint) -> None:
        if ("way", 1) in wanted.point.parameters:
            raise Failure("no timer here")

    machine.before = failing
    found = InterleavedProfiles(asked_for(3), ProfileRequest(500))
    found.take(lambda _: None)
    assert [one.reason for one in found.profiles()] == [None, "no timer here", None]


def test_a_count_is_taken_once_and_briefly_and_is_exact(machine: Machine, tmp_path: Path) -> None:
    counted = asked_for(1, "qemu-user:mipsel")
    profile_suite(tmp_path, [*asked_for(1), *counted], 1.5, lambda _: None, {})
    times = [ms for _, ms in machine.asked]
    assert times[0] < 100 and len(times) == 1 + TURNS and sum(times[1:]) == 1500
    sampled, exact = stored_records(tmp_path, Profile)
    assert {share.within for share in exact.shares} == {0.0} and exact.state is None
    assert all(share.within for share in sampled.shares)


def test_an_interrupted_profile_keeps_what_there_is(machine: Machine, tmp_path: Path) -> None:
    def interrupted(_: ProfilePoint) -> None:
        if len(machine.asked) == 4:
            raise KeyboardInterrupt

    machine.before = interrupted
    with pytest.raises(KeyboardInterrupt):
        profile_suite(tmp_path, asked_for(5), 1.0, lambda _: None, {})
    assert [bool(one.reason) for one in stored_records(tmp_path, Profile)] == [False] * 4 + [True]


def test_no_slice_is_begun_once_the_budget_is_spent(machine: Machine, tmp_path: Path) -> None:
    """Beside a busy program one turn of fifteen points took 15 s."""
    over: Over = lambda: SPENT if len(machine.asked) >= 2 else None  # noqa: E731
    profile_suite(tmp_path, asked_for(3), TURNS * SLICE_MS / 1000, lambda _: None, {}, over=over)
    assert len(machine.asked) == 2
    assert [profile.reason for profile in stored_records(tmp_path, Profile)] == [None, None, SPENT]


def test_a_core_that_earlier_runs_saw_wider_is_known_as_shared() -> None:
    slices = [[SHARED] * 10] * 4
    assert contended_parts(slices) == [0.0] * 4
    assert contended_parts(slices, known_width=4.0) == [1.0] * 4
    assert contended_parts([[], []]) == [None, None] and common_state([[None], [0.0]]) is None


def test_a_share_is_known_no_better_than_its_slices_agree_or_chance_permits() -> None:
    alike = [{"f": 500, "g": 500}] * 10
    assert within(alike, "f") == pytest.approx(NORMAL * 100 * 0.5 / 10_000**0.5)
    apart = [{"f": 400, "g": 600}, {"f": 600, "g": 400}] * 5
    assert within(apart, "f") == pytest.approx(NORMAL * 10 / 9**0.5)
    assert within(alike[:1], "f") is None
