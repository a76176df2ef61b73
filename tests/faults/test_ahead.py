# SPDX-License-Identifier: Apache-2.0
"""Layouts that are prepared before their visit is asked for: beside what is calm, halted beside all else, and never
trusted.

Whoever is slow to prepare does so until the test lets it be ready; a visit that is held lasts until the test ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes import fake
from tollmeter.model import Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import child, local
from tollmeter.targets.child import Child
from tollmeter.targets.local import Local
from tollmeter.targets.worker_pool import PendingSetup, SetupSchedule
from waiting import LONG_S, in_time

PROBE = "kernel.enter"
VISIT = Visit(
    id=1, point=Point(probe=PROBE, abi="x86_64", target="local"), round=0, cpus=(0,), samples=2, sample_ns=1000,
    seed=7, deadline_ms=40_000,
)  # fmt: skip


def awaited(what: Callable[[], Any]) -> Any:
    found = in_time(what)
    assert found, "it did not come"
    return found


def state(process: int) -> str:
    """As ps has it; nothing where there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def is_at_work(process: int) -> bool:
    return state(process) in ("R", "S", "D")


def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What executables are started from now on."""
    seen: list[str] = []

    def begin(command: list[str], **options: Any) -> Child:
        seen.append(command[0])
        return Child(command, **options)

    monkeypatch.setattr(local, "Child", begin)
    return seen


class Place:
    """A target, and an executable on it for each behaviour."""

    def __init__(self, folder: Path) -> None:
        self.target = Local()
        self._folder = folder
        self._visits = 0
        self._elsewhere = ThreadPoolExecutor(1)

    def executable(self, behaviour: str) -> str:
        path = self._folder / behaviour / "x86_64" / PROBE
        return str(path if path.exists() else fake(path.parent, PROBE, behaviour))

    def coming(self, behaviour: str, **changed: Any) -> PendingSetup:
        return PendingSetup(self.executable(behaviour), msgspec.structs.replace(VISIT, **changed))

    def expect(self, *behaviours: str, calm: bool = False) -> None:
        self.target.expect(SetupSchedule(0, [self.coming(one) for one in behaviours], is_calm=lambda _, __: calm))

    def told(self, behaviour: str, **changed: Any) -> Outcome:
        self._visits += 1
        asked = msgspec.structs.replace(VISIT, id=self._visits, **changed)
        return outcome(self.target.run(self.executable(behaviour), asked, 1))

    def process(self, behaviour: str, **changed: Any) -> int:
        """Which one served the visit."""
        back = self.told(behaviour, **changed)
        assert (back.status, back.visit) == ("ok", self._visits), back.reason
        return int(back.gauges["process"])

    def preparing(self, behaviour: str) -> int:
        """Which one prepares, once it does."""
        said = Path(self.executable(behaviour) + ".preparing")
        return int(awaited(lambda: said.exists() and said.read_text().endswith("\n") and said.read_text()))

    def lets(self, behaviour: str, what: str) -> None:
        Path(f"{self.executable(behaviour)}.{what}").touch()

    @contextlib.contextmanager
    def visiting(self) -> Iterator[Future[int]]:
        """Beside a visit of one that is laid out already."""
        listens = Path(self.executable("held") + ".listens")
        under_way = self._elsewhere.submit(self.process, "held")
        try:
            awaited(listens.exists)
            yield under_way
        finally:
            self.lets("held", "released")
            under_way.result(LONG_S)

    def close(self) -> None:
        self._elsewhere.shutdown()
        self.target.close()

    def is_ready(self, behaviour: str) -> bool:
        return self.target.is_ready(self.coming(behaviour).key)

    def is_begun(self, behaviour: str) -> bool:
        return self.target.is_begun(self.coming(behaviour).key)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loud machine may take its time to halt a process."""
    monkeypatch.setattr(child, "_HALTING_S", 2 * LONG_S)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """With one process that waits for a visit which can be held."""
    made = Place(tmp_path)
    with contextlib.closing(made):
        made.lets("held", "released")
        made.process("held")
        for name in ("released", "listens"):
            Path(f"{made.executable('held')}.{name}").unlink()
        yield made


# ---- beside which visits ------------------------------------------------------------------------------------------


def test_a_layout_is_prepared_beside_a_calm_visit_and_serves_its_own(place: Place) -> None:
    place.expect("slow", calm=True)
    preparing = place.preparing("slow")
    with place.visiting() as under_way:
        assert is_at_work(preparing)
        place.lets("slow", "prepared")
        awaited(lambda: place.is_ready("slow"))
        assert not under_way.done(), "nothing ended it"
    assert place.process("slow") == preparing
    assert place.process("slow") == preparing, "it stays, as any other"


def test_who_prepares_is_halted_while_any_other_visit_measures_and_goes_on_behind_it(place: Place) -> None:
    place.expect("slow", calm=False)
    preparing = place.preparing("slow")
    with place.visiting():
        assert state(preparing) == "T"
        place.lets("slow", "prepared")
    awaited(lambda: state(preparing) != "T")
    assert place.process("slow") == preparing


def test_a_visit_waits_for_whoever_prepares_it(place: Place) -> None:
    place.expect("slow")
    preparing = place.preparing("slow")
    letting = threading.Timer(0.3, place.lets, ["slow", "prepared"])
    letting.start()
    assert not place.is_ready("slow")
    assert place.process("slow") == preparing


def test_a_layout_is_begun_before_it_is_ready_and_no_longer_when_it_is_taken(place: Place) -> None:
    place.expect("slow", "good")

    def begun_and_ready(behaviour: str) -> tuple[bool, bool]:
        one = place.coming(behaviour).key
        return place.target.is_begun(one), place.target.is_ready(one)

    place.preparing("slow")
    assert (begun_and_ready("slow"), begun_and_ready("good")) == ((True, False), (False, False))
    place.lets("slow", "prepared")
    awaited(lambda: place.expect("slow", "good") or place.is_ready("slow"))
    assert begun_and_ready("slow") == (True, True)
    place.process("slow")
    assert begun_and_ready("slow") == (False, False)


@pytest.mark.parametrize("calm", [True, False])
def test_the_next_is_prepared_beside_a_visit_that_is_calm_and_not_between_two(
    place: Place, monkeypatch: pytest.MonkeyPatch, calm: bool
) -> None:
    """To start a process takes as long as to ask for a visit."""
    started = begun(monkeypatch)
    place.expect("good", "slow", calm=calm)
    place.preparing("good")
    place.process("good")
    assert place.is_begun("slow") == calm
    assert (place.executable("slow") in started) == calm


def test_the_next_is_prepared_once_the_first_is_visited(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    started = begun(monkeypatch)
    place.expect("good", "slow", calm=True)
    first = place.preparing("good")
    assert started == [place.executable("good")], "one at a time"
    assert place.process("good") == first
    second = place.preparing("slow")
    place.lets("slow", "prepared")
    assert place.process("slow") == second


def test_what_is_asked_for_out_of_turn_is_not_prepared_any_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.expect("slow", "good")
    place.preparing("slow")
    first = place.process("good")
    started = begun(monkeypatch)
    place.lets("slow", "prepared")
    place.process("slow")
    assert (place.process("good"), started) == (first, [])


@pytest.mark.parametrize("first", ["good", "held"])
def test_whether_a_visit_is_calm_is_asked_with_the_bytes_of_its_process_alone(place: Place, first: str) -> None:
    """Of one that was prepared, and of one that has served a visit."""
    asked: list[tuple[Point, int]] = []
    coming = [place.coming("good")] if first == "good" else []
    place.lets("held", "released")
    place.target.expect(SetupSchedule(0, coming, is_calm=lambda point, bytes_: bool(asked.append((point, bytes_)))))
    process = place.process(first)
    resident, shared = map(int, Path(f"/proc/{process}/statm").read_text().split()[1:3])
    [(point, told)] = asked
    own = (resident - shared) * os.sysconf("SC_PAGESIZE")
    assert point == VISIT.point
    assert own / 2 < told < own * 2


@pytest.mark.parametrize("behaviour", ["wordy", "flooding"])
def test_a_visit_waits_for_nothing_that_is_said_beside_it(place: Place, behaviour: str) -> None:
    """Less than a line, or more than a pipe holds."""
    place.expect(behaviour, calm=True)
    with place.visiting() as under_way:
        preparing = place.preparing(behaviour)
        place.lets("held", "released")
        under_way.result(30)
    assert is_at_work(preparing)
    assert not place.is_ready(behaviour)
    place.lets(behaviour, "prepared")
    assert place.process(behaviour) == preparing


def test_what_is_said_while_nothing_is_visited_is_heard_with_the_rest(place: Place) -> None:
    place.expect("wordy")
    preparing = place.preparing("wordy")
    place.expect("wordy")
    assert not place.is_ready("wordy")
    place.lets("wordy", "prepared")
    awaited(lambda: place.expect("wordy") or place.is_ready("wordy"))
    assert place.process("wordy") == preparing


# ---- what is not wanted, or cannot be had -------------------------------------------------------------------------


def test_what_nobody_expects_any_more_is_ended_and_what_is_begun_is_not_begun_again(place: Place) -> None:
    place.expect("slow")
    preparing = place.preparing("slow")
    place.expect("good", "slow")
    assert is_at_work(preparing)
    place.expect("good")
    assert state(preparing) == ""
    assert place.preparing("good") == place.process("good")


def test_one_of_another_seed_is_ended_and_not_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.expect("slow")
    preparing = place.preparing("slow")
    monkeypatch.setattr(place.target._pool, "_wait", lambda *_: pytest.fail("it may take as long as it wants"))
    assert place.process("slow", seed=8) != preparing
    assert state(preparing) == ""


@pytest.mark.parametrize("behaviour", ["unprepared", "lost", "mute"])
def test_what_cannot_be_prepared_is_visited_by_a_process_of_its_own(place: Place, behaviour: str) -> None:
    place.expect(behaviour, "good", calm=True)
    preparing = place.preparing(behaviour)
    assert place.process(behaviour) != preparing
    assert state(preparing) == ""
    with place.visiting():
        following = place.preparing("good")
    assert place.process("good") == following, "the next is prepared all the same"


@pytest.mark.parametrize("behaviour", ["unprepared", "lost", "mute"])
def test_the_next_is_begun_beside_a_calm_visit_where_one_could_not_be_prepared(place: Place, behaviour: str) -> None:
    place.expect(behaviour, "good", calm=True)
    with place.visiting():
        preparing = place.preparing("good")
        assert place.is_ready(behaviour), "for a visit that says why: nobody waits for it"
    assert place.process("good") == preparing
    place.expect(behaviour, calm=True)
    assert (place.is_ready(behaviour), place.is_begun(behaviour)) == (True, False), "and it is not tried again"


def test_one_that_died_while_it_waited_ready_is_replaced(place: Place) -> None:
    place.expect("good")
    preparing = place.preparing("good")
    awaited(lambda: place.expect("good") or place.is_ready("good"))
    os.kill(preparing, signal.SIGKILL)
    awaited(lambda: state(preparing) == "Z" or not state(preparing))
    assert place.process("good") != preparing


def test_one_that_is_never_ready_costs_its_visit_no_more_than_the_patience_with_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_GRACE_S", 0.1)
    place.target.expect(SetupSchedule(0, [place.coming("slow", deadline_ms=100)]))
    preparing = place.preparing("slow")
    assert place.process("slow") != preparing
    assert state(preparing) == ""


def test_what_cannot_be_started_says_so_in_its_visit_and_the_next_is_prepared(place: Place, tmp_path: Path) -> None:
    missing = PendingSetup(str(tmp_path / "missing"), VISIT)
    place.target.expect(SetupSchedule(0, [missing, place.coming("good")]))
    assert place.preparing("good") == place.process("good")
    back = outcome(place.target.run(missing.executable, VISIT, 1))
    assert (back.status, "could not be started" in (back.reason or "")) == ("infrastructure", True)


def test_a_place_that_has_a_process_for_each_visit_prepares_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would never be asked for its visit."""
    monkeypatch.setattr(Local, "keeps_residents", False)
    started = begun(monkeypatch)
    place.expect("good")
    assert not started


# ---- signals and ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calm", [True, False])
def test_an_interrupt_reaches_the_visit_and_not_whoever_prepares(place: Place, calm: bool) -> None:
    place.process("interruptible_later")
    place.expect("slow", calm=calm)
    preparing = place.preparing("slow")
    listens = Path(place.executable("interruptible_later") + ".listens")
    asking = threading.Thread(target=lambda: awaited(listens.exists) and place.target.interrupt())
    asking.start()
    back = place.told("interruptible_later")
    asking.join()
    assert (back.status, len(back.samples)) == ("ok", 1)
    place.lets("slow", "prepared")
    assert place.process("slow") == preparing


def interrupting(place: Place) -> threading.Thread:
    """Once the target waits for a process."""
    asking = threading.Thread(target=lambda: awaited(lambda: place.target._child) and place.target.interrupt())
    asking.start()
    return asking


def test_an_interrupt_reaches_whoever_prepares_once_its_visit_waits_for_it(place: Place) -> None:
    """It takes no sample."""
    place.expect("asked")
    preparing = place.preparing("asked")
    awaited(Path(place.executable("asked") + ".listens").exists)
    asking = interrupting(place)
    back = place.told("asked")
    asking.join()
    assert (back.status, back.reason) == ("interrupted", "stopped before its first sample")
    assert Path(place.executable("asked") + ".preparing").read_text() == f"{preparing}\n", "no other one prepared"


def test_who_takes_the_place_of_one_that_an_interrupt_ended_is_asked_to_stop_as_well(place: Place) -> None:
    place.expect("slow")
    place.preparing("slow")
    asking = interrupting(place)
    back = place.told("slow")
    asking.join()
    assert (back.status, back.reason) == ("interrupted", "stopped before its first sample")
    place.lets("slow", "prepared")
    assert place.process("slow"), "the next visit is as any other"


@pytest.mark.parametrize("how", ["slow", "halted", "good"])
def test_closing_ends_whoever_prepares_or_is_ready(place: Place, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour = "slow" if how == "halted" else how
    place.expect(behaviour, "held")
    preparing = place.preparing(behaviour)
    if how == "halted":
        place.target._pool.halt()
        assert state(preparing) == "T"
    started = begun(monkeypatch)
    place.target.close()
    assert state(preparing) == ""
    assert not started, "none takes its turn"


def test_a_process_is_halted_as_often_as_asked_and_goes_on() -> None:
    one = Child(["sh", "-c", "read it; exec sleep 60"], listens=True)
    process = one._process.pid
    one.send("go on")
    for _ in range(3):
        one.halt()
        assert state(process) == "T"
        one.resume()
        awaited(lambda: is_at_work(process))
    one.halt()
    one.end()
    assert state(process) == ""


def test_what_a_process_has_started_is_not_halted_with_it() -> None:
    """It has not asked to end with anybody, and would stand there for ever once both are killed."""
    one = Child(["sh", "-c", "read it; sleep 60 & wait"], listens=True)
    process = one._process.pid
    one.send("go on")
    children = Path(f"/proc/{process}/task/{process}/children")
    [started] = awaited(lambda: children.read_text().split())
    one.halt()
    assert (state(process), is_at_work(int(started))) == ("T", True)
    one.end()
    awaited(lambda: not is_at_work(int(started)))


def test_one_that_has_ended_is_halted_without_waiting() -> None:
    one = Child(["true"], listens=True)
    awaited(lambda: state(one._process.pid) == "Z")
    began = time.monotonic()
    one.halt()
    one.resume()
    assert time.monotonic() - began < LONG_S
    assert one.finish(20).status == 0


def test_the_priority_is_normal_prioritys_while_a_process_is_let_go_and_then_as_it_was() -> None:
    """In a thread of its own, whose priority ends with it."""
    with ThreadPoolExecutor(1) as elsewhere:
        seen = elsewhere.submit(_priorities).result()
    if not seen:
        pytest.skip("no real-time priority here")
    first = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 1
    assert seen == [first, (os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, 0), first]


def _priorities() -> list[tuple[int, int]]:
    """Before, while and after; nothing where it may not be raised."""

    def now() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority

    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        return []
    seen = [now()]
    with child._normal_priority():
        seen.append(now())
    return [*seen, now()]
