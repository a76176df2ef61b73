# SPDX-License-Identifier: Apache-2.0
"""Processes that wait for another visit of their layout: used again, replaced, ended, and never trusted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from support.fake_probes import ENTRY, fake
from support.waiting import LONG_S, in_time
from tollmeter.model import Abi, Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import child, local
from tollmeter.targets.child import Child
from tollmeter.targets.local import Local

PROBE = "kernel.enter"
DESCRIBED = {**ENTRY, "parameters": [{"name": "size", "kind": "size", "summary": "bytes"}]}
VISIT = Visit(
    id=1, point=Point(probe=PROBE, abi="x86_64", target="local", parameters=(("size", 0),)), round=0, cpus=(0,),
    samples=2, sample_ns=1000, seed=7, deadline_ms=20_000,
)  # fmt: skip


class Place:
    """A target, and an executable on it that behaves as told."""

    def __init__(self, folder: Path) -> None:
        self.target = Local()
        self.folder = folder
        self._visits = 0

    def told(self, behaviour: str = "good", **changed: object) -> Outcome:
        self._visits += 1
        asked = msgspec.structs.replace(VISIT, id=self._visits, **changed)
        executable = fake(self.folder / behaviour / "x86_64", PROBE, behaviour, DESCRIBED)
        return outcome(self.target.run(str(executable), asked, 1))

    def interrupt(self, behaviour: str) -> None:
        """Once the probe would hear it."""
        listens = self.folder / behaviour / "x86_64" / f"{PROBE}.listens"
        in_time(listens.exists)
        self.target.interrupt()

    def process(self, behaviour: str = "good", **changed: object) -> int:
        """Which one served the visit."""
        back = self.told(behaviour, **changed)
        assert (back.status, back.visit) == ("ok", self._visits), back.reason
        return int(back.gauges["process"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    with contextlib.closing(made.target):
        yield made


def await_end(process: int) -> None:
    """Until it is over, and waits for this process to ask how."""
    stat = Path(f"/proc/{process}/stat")
    assert in_time(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z"), "it was killed, and lives"


def is_alive(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def test_visits_of_one_layout_are_served_by_one_process(place: Place) -> None:
    assert len({place.process() for _ in range(4)}) == 1


def test_another_seed_has_a_process_of_its_own_and_ends_the_other(place: Place) -> None:
    first, second = place.process(seed=7), place.process(seed=8)
    assert first != second
    assert is_alive(second)
    assert place.process(seed=8) == second
    assert not is_alive(first)


def test_points_and_cpus_wait_beside_each_other(place: Place) -> None:
    other = msgspec.structs.replace(VISIT.point, parameters=(("size", 1),))
    first, second, third = place.process(), place.process(point=other), place.process(cpus=(0, 1))
    assert len({first, second, third}) == 3
    assert [place.process(), place.process(point=other), place.process(cpus=(0, 1))] == [first, second, third]


def test_visits_that_fork_are_all_made_by_one_process(
    root: Path, own_abi: Abi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a child of it; another process replaces one that was killed."""
    started: list[Child] = []
    monkeypatch.setattr(local, "Child", lambda *words, **more: started.append(Child(*words, **more)) or started[-1])
    point = Point(probe="kernel.loop", abi=own_abi.name, target="local")
    executable = root / "build" / own_abi.name / point.probe
    with contextlib.closing(Local()) as target:
        for number, cpu in enumerate((0, 1, 0)):
            asked = msgspec.structs.replace(VISIT, id=number, point=point, cpus=(cpu,), seed=number, forks=True)
            back = outcome(target.run(str(executable), asked, 1))
            assert (back.status, back.visit, back.cpus, len(back.samples)) == ("ok", number, (cpu,), 2)
            if number == 1:
                assert len(started) == 1
                started[0].signal(signal.SIGKILL)
                await_end(started[0]._process.pid)
        assert len(started) == 2
    assert not any(child.is_alive for child in started)


def test_closing_ends_the_waiting_resident_processes(place: Place) -> None:
    waiting = [place.process(seed=7), place.process(seed=9, cpus=(1,))]
    assert all(map(is_alive, waiting))
    place.target.close()
    assert not any(map(is_alive, waiting))


def test_what_the_machine_has_no_memory_for_is_started_each_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_memory_bytes", lambda: 8 << 20)
    first = place.process()
    assert not is_alive(first), "a process of Python holds more than an eighth of 8 MiB"
    assert place.process() != first


def test_the_pool_reports_the_layouts_of_waiting_processes(place: Place) -> None:
    executable = str(fake(Path(place.folder) / "good" / "x86_64", PROBE, "good", DESCRIBED))
    key = executable, VISIT.point.parameters, VISIT.cpus
    assert key not in place.target.pool
    place.process()
    assert key in place.target.pool
    place.target.close()
    assert key not in place.target.pool


# ---- a set-up with a request of its own ----------------------------------------------------------------------------


def lines_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each process is asked from now on: to set up, or to make a visit."""
    lines: list[str] = []
    send = Child.send

    def noted(self: Child, line: str) -> bool:
        lines.append("set up" if f"--ahead={VISIT.cpus[0]}" in line else "visit")
        return send(self, line)

    monkeypatch.setattr(Child, "send", noted)
    return lines


def test_a_layout_is_set_up_before_its_first_visit_and_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_sent(monkeypatch)
    first = place.process(sets_up_first=True)
    assert place.process(sets_up_first=True) == first
    assert lines == ["set up", "visit", "visit"]
    assert place.process("good", seed=8) != first
    assert lines[3:] == ["visit"], "the visit sets up its layout itself"


@pytest.mark.parametrize("behaviour", ["unprepared", "lost", "mute"])
def test_a_layout_that_cannot_be_set_up_is_visited_by_another_process(place: Place, behaviour: str) -> None:
    """Which reports the reason."""
    visited = place.process(behaviour, sets_up_first=True)
    (asked,) = map(int, (place.folder / behaviour / "x86_64" / f"{PROBE}.preparing").read_text().split())
    assert visited != asked
    assert not is_alive(asked)


def test_an_interrupt_during_a_set_up_leaves_the_visit_without_a_sample(place: Place) -> None:
    asking = threading.Thread(target=place.interrupt, args=["asked"])
    asking.start()
    back = place.told("asked", sets_up_first=True)
    asking.join()
    assert (back.status, back.reason) == ("interrupted", "stopped before its first sample")


# ---- how many wait ---------------------------------------------------------------------------------------------------


def test_the_longest_idle_resident_ends_when_residents_hold_too_much_memory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the machine's memory, here two processes and a half."""
    first = place.process(cpus=(0,))
    held = next(iter(place.target.pool._waiting.values())).bytes
    monkeypatch.setattr(local, "_memory_bytes", lambda: 4 * held * 5 // 2)
    second = place.process(cpus=(1,))
    assert place.process(cpus=(0,)) == first
    third = place.process(cpus=(2,))
    assert [is_alive(process) for process in (first, second, third)] == [True, False, True]


def test_no_more_wait_than_so_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MOST_WORKERS", 1)
    first, second = place.process(), place.process(cpus=(1,))
    assert (is_alive(first), is_alive(second)) == (False, True)


def test_a_place_that_counts_has_a_process_for_each_visit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Local, "keeps_residents", False)
    first = place.process()
    assert not is_alive(first)
    assert place.process() != first


def test_a_crash_in_the_second_visit_is_that_visits_alone(place: Place) -> None:
    first = place.process("crash_later")
    back = place.told("crash_later")
    assert (back.status, back.visit, back.samples) == ("failed", 2, ())
    assert "SIGSEGV" in (back.reason or "")
    third = place.process("crash_later")
    assert third != first


def test_a_hang_in_the_second_visit_ends_at_its_deadline(place: Place) -> None:
    first = place.process("hang_later")
    began = time.monotonic()
    back = place.told("hang_later", deadline_ms=100)
    assert back.status == "timeout"
    assert time.monotonic() - began < LONG_S, "it sleeps for ten minutes"
    assert not is_alive(first)
    assert place.process("hang_later") != first


def test_one_that_died_while_it_waited_is_started_again(place: Place) -> None:
    first = place.process()
    os.kill(first, signal.SIGKILL)
    await_end(first)
    second = place.process()
    assert second != first


def test_an_interrupt_reaches_the_process_that_is_visited(place: Place) -> None:
    """Within its deadline: nobody else would ask it for a minute."""
    place.process("interruptible_later")
    asking = threading.Thread(target=place.interrupt, args=["interruptible_later"])
    asking.start()
    back = place.told("interruptible_later")
    asking.join()
    assert (back.status, len(back.samples)) == ("ok", 1)


def test_the_priority_is_normal_while_a_process_is_reaped_and_then_as_it_was() -> None:
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
