# SPDX-License-Identifier: Apache-2.0
"""The counters of an emulated 64-bit ARM: a PMU whose cycles and instructions are known, since an instruction takes
1 ns of its virtual time."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from support import target_stands
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Outcome, Point, Select, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import Lack
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.debian_kernel import fetched_kernel
from tollmeter.targets.qemu_system import Guest
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import find_compiler

TURN = 2
"""Instructions of a turn of the loop."""


def visit(guest: Guest, path: str, turn: int) -> Outcome:
    point = Point(probe="kernel.loop", abi="aarch64", target=guest.name)
    asked = Visit(
        id=turn + 1, point=point, round=max(0, turn), cpus=(0,), samples=2, sample_ns=1000, seed=1,
        deadline_ms=60000, counters=turn >= 0,
    )  # fmt: skip
    return outcome(guest.run(path, asked, 1))


@pytest.mark.parametrize("access", [0, 1], ids=["by read(2)", "in user mode"])
def test_the_pmu_of_a_64_bit_arm_counts_cycles_and_instructions(access: int, monkeypatch: pytest.MonkeyPatch) -> None:
    board = BOARDS["guest:virt"]
    if not board.kernel or not shutil.which(board.emulator):
        pytest.skip("needs qemu-system-aarch64")
    try:
        fetched_kernel(board.kernel)
    except Failure as failure:
        pytest.skip(str(failure))
    if isinstance(find_compiler(known_abis(places.ROOT)["aarch64"]), Lack):
        pytest.skip("needs the compiler of aarch64")
    places.made_ready(["aarch64"], [], ProbeRequest((Select(probe="kernel.loop"),)))
    path = str(places.ROOT / "build/aarch64/kernel.loop")
    words = f"{board.command_line} sysctl.kernel.perf_user_access={access}"
    monkeypatch.setitem(BOARDS, "guest:virt", board._replace(command_line=words))
    with contextlib.closing(Guest("guest:virt", target_stands.emulator_file("init.aarch64").parent)) as guest:
        guest.prepare([path])
        counted, unasked = visit(guest, path, 0), visit(guest, path, -1) if not access else None
    assert counted.status == "ok" and counted.events, counted.reason
    assert (counted.events.by, counted.events.kernel) == ("user" if access else "read", True)
    assert counted.events.partial == 0
    # The timer's interrupts are counted with it, and take less than a hundredth.
    assert counted.events.body["instructions"] == pytest.approx(TURN, rel=0.01)
    assert counted.events.body["cycles"] == pytest.approx(TURN, rel=0.01)
    assert unasked is None or unasked.events is None
