# SPDX-License-Identifier: Apache-2.0
"""What every target owes, whatever its way to the machine: one whole stream a visit, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from support import target_stands
from support.target_stands import Stand
from support.waiting import LONG_S, in_time
from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import description, head, outcome
from tollmeter.targets import local, qemu_system, ssh

STANDS: list[Callable[[Path], AbstractContextManager[Stand]]] = [
    target_stands.local,
    target_stands.documented,
    target_stands.qemu_user,
    target_stands.guest,
    target_stands.bare,
    target_stands.ssh,
]


@pytest.fixture(scope="module", params=STANDS, ids=lambda make: make.__name__)
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One for all tests of this file, since a guest takes seconds to boot."""
    with request.param(tmp_path_factory.mktemp("stand")) as made:
        yield made


def visit(stand: Stand, deadline_ms: int = 20000) -> Visit:
    point = Point(probe="kernel.enter", abi="x86_64", target=stand.target.name)
    return Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=deadline_ms)


def told(stand: Stand, behaviour: str, deadline_ms: int = 20000) -> Outcome:
    return outcome(stand.target.run(str(stand.make(behaviour)), visit(stand, deadline_ms), 1))


def need_no_boot(stand: Stand) -> None:
    """Skips a Linux guest where the host ends the emulator, as it ends a board's, and would boot it again for 10 s."""
    if stand.target.name.startswith("guest:"):
        pytest.skip("the same lines end a board without an operating system")


@pytest.mark.parametrize("behaviour", ["good", "garbage", "flood"])
def test_a_whole_stream_is_found_whatever_stands_around_it(stand: Stand, behaviour: str) -> None:
    if behaviour == "flood" and stand.is_a_machine:
        pytest.skip("its wire is too slow to wait for the end of that: it is held to what never ends, below")
    back = told(stand, behaviour)
    assert (back.status, back.visit, back.round) == ("ok", 5, 2)
    assert len(back.samples) >= 2


@pytest.mark.parametrize(
    ("behaviour", "status", "named"),
    [
        ("cut", "infrastructure", "cut"),
        ("silent", "infrastructure", "cut"),
        ("bad_exit", "failed", "wrote past the arena"),
        ("crash", "failed", "SIGSEGV"),
        ("closed_output", "failed", "SIGABRT"),
        ("deadline", "timeout", "20000 ms"),
        ("endless", "failed", "MiB"),
        ("wrong", "wrong_answer", "off by one"),
        ("skip", "unsupported", "no such gate"),
        ("other_visit", "infrastructure", "visit 6"),
    ],
)
def test_a_visit_that_goes_wrong_fails_with_its_reason(stand: Stand, behaviour: str, status: str, named: str) -> None:
    if behaviour == "endless":
        need_no_boot(stand)
    back = told(stand, behaviour)
    assert (back.status, back.samples, back.visit) == (status, (), 5)
    assert named in (back.reason or "")


def test_a_probe_that_hangs_is_ended_at_its_deadline_with_all_that_it_started(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_no_boot(stand)
    for place in (local, qemu_system, ssh):
        monkeypatch.setattr(place, "_GRACE_S", 2.0)
    began = time.monotonic()
    back = told(stand, "hang", deadline_ms=100)
    assert back.status == "timeout"
    assert time.monotonic() - began < LONG_S, "it hangs for ten minutes"
    assert not stand.left_behind()


def test_the_budget_ends_what_would_last_longer(stand: Stand) -> None:
    if stand.is_a_machine:
        pytest.skip("the guest would boot once more for this; tests/unit/test_guests.py tests it with a fake emulator")
    asked = msgspec.structs.replace(visit(stand), wall_ms=400)
    back = outcome(stand.target.run(str(stand.make("hang")), asked, 1))
    assert (back.status, back.reason) == ("interrupted", "the budget ended before it did")
    assert not stand.left_behind()


def test_a_companion_left_behind_neither_delays_nor_survives(stand: Stand) -> None:
    told(stand, "good")
    began = time.monotonic()
    assert told(stand, "orphan").status == "ok"
    assert time.monotonic() - began < LONG_S, "the companion sleeps for ten minutes"
    assert stand.is_a_machine or not stand.left_behind()


def test_a_visit_asked_to_stop_ends_with_what_it_has(stand: Stand) -> None:
    """One that was asked before it listened has nothing: on a busy machine it may be long in coming."""
    told(stand, "good")
    for patience_s in (0.5, 3, 8):
        ended = threading.Event()

        def ask(every_s: float = patience_s, ended: threading.Event = ended) -> None:
            while not ended.wait(every_s):
                stand.target.interrupt()

        asking = threading.Thread(target=ask)
        asking.start()
        back = told(stand, "interruptible")
        ended.set()
        asking.join()
        if back.samples:
            break
    assert (back.status, len(back.samples)) == ("ok", 1)


def test_killed_half_way_from_outside(stand: Stand) -> None:
    told(stand, "good")

    def kill() -> None:
        found = in_time(lambda: stand.is_asked() and stand.processes())
        time.sleep(0.1)
        os.kill(found[-1], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    back = told(stand, "hang")
    killing.join()
    assert (back.status, back.samples) == ("failed", ())
    assert "SIGKILL" in (back.reason or "")
    assert told(stand, "good").status == "ok"


def test_an_interrupt_between_two_visits_ends_the_next_one_alone(stand: Stand) -> None:
    """A Ctrl-C may come after the run has looked whether to stop, and before the visit begins."""
    if stand.is_a_machine:
        pytest.skip("its visits are asked for over a line, on which there is nothing to interrupt yet")
    stand.target.interrupt()
    assert told(stand, "interruptible").status != "timeout", "it waits to be interrupted"
    assert told(stand, "good").status == "ok"


def test_what_is_no_executable_is_named(stand: Stand, tmp_path: Path) -> None:
    missing = outcome(stand.target.run(str(tmp_path / "kernel.enter"), visit(stand), 1))
    assert (missing.status, missing.point) == ("infrastructure", visit(stand).point)
    assert told(stand, "foreign").status == "unsupported"
    with pytest.raises(Failure) as caught:
        stand.target.describe(str(missing))
    assert caught.value.exit_code == 5


def test_it_asks_for_the_description_and_the_machine(stand: Stand) -> None:
    executable = str(stand.make("good"))
    assert description(stand.target.describe(executable))[0].probe == "kernel.enter"
    told_of = head(stand.target.machine(executable)).machine
    assert told_of
    assert told_of.core_clock_hz == 4e9
