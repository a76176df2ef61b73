# SPDX-License-Identifier: Apache-2.0
"""A board at the end of a serial line: an emulated one over its UART, and a made one over a line with faults."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import target_stands
from support.noisy_line import Faults, noisy_line
from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.protocol.framing import seal
from tollmeter.targets import serial_line
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.qemu_system import _ALWAYS, archive
from tollmeter.targets.serial_line import SerialLine

PROBE, ABI = "kernel.enter", "x86_64"


def point(name: str) -> Point:
    return Point(PROBE, ABI, name)


def visited(target: SerialLine, executable: str = f"/build/{ABI}/{PROBE}") -> Outcome:
    visit = Visit(id=4, point=point(target.name), round=0, cpus=(0,), samples=3, sample_ns=100_000, seed=1,
                  deadline_ms=10_000)  # fmt: skip
    return outcome(target.run(executable, visit, 1))


# ---- a made board ---------------------------------------------------------------------------------------------------


def answer(line: bytes, name: str) -> bytes:
    """What a board says of a visit: three samples, past some words of its own."""
    if not line.startswith(f"/{ABI}/{PROBE} --visit=4 ".encode()):
        return b"\nguest cannot 2\n"
    head = {"k": "visit", "visit": 4, "round": 0, "probe": PROBE, "revision": 1, "abi": ABI, "target": name}
    samples = [
        record
        for i in range(3)
        for record in ({"k": "sample", "i": i, "iterations": 9, "body": [100, 200]}, {"k": "witness", "i": i})
    ]
    return b"booting\r\n" + seal([head, {"k": "clock", "kind": "hardware"}, *samples]) + b"\nguest ended 0\n"


@contextlib.contextmanager
def board(path: str, name: str) -> Iterator[list[bytes]]:
    """Answers every whole line; gives the lines that it heard."""
    heard: list[bytes] = []
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    stop, wake = os.pipe()

    def serve() -> None:
        kept = b""
        while stop not in serial_line.select.select([descriptor, stop], [], [])[0]:
            *lines, kept = (kept + os.read(descriptor, 4096)).split(b"\n")
            for line in filter(None, lines):
                heard.append(line)
                os.write(descriptor, answer(line, name))

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield heard
    finally:
        os.close(wake)
        server.join()
        os.close(stop)
        os.close(descriptor)


@contextlib.contextmanager
def made(faults: Faults, seed: int, back: Faults | None = None) -> Iterator[tuple[SerialLine, list[bytes]]]:
    with noisy_line(faults, seed, back) as ends:
        name = f"serial:{ends.near}"
        with board(ends.far, name) as heard, contextlib.closing(SerialLine(name)) as target:
            yield target, heard


def test_a_visit_comes_whole_over_a_clean_line_at_once() -> None:
    with made(Faults(), 1) as (target, heard):
        back = visited(target)
    assert (back.status, len(back.samples), len(heard)) == ("ok", 3, 1)


def test_noise_between_records_costs_nothing_and_a_damaged_visit_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serial_line, "_GRACE_S", -9.0)
    asked, told = 0, []
    for seed in range(6):
        with made(Faults(0.0005, 0.0005, 0.0005), seed) as (target, heard):
            told.append(visited(target))
            asked += len(heard)
    assert asked > 6
    assert sum(back.status == "ok" for back in told) >= 3
    assert all(len(back.samples) == 3 for back in told if back.status == "ok")
    assert all(back.reason for back in told if back.status != "ok")


def test_a_command_that_was_damaged_is_asked_again() -> None:
    class Once(Faults):
        """Loses one byte, the first time."""

        spent: list[bool] = []

        def on(self, content: bytes, rng: random.Random) -> bytes:
            del rng
            if self.spent or len(content) < 20:
                return content
            self.spent.append(True)
            return content[:9] + content[10:]

    with made(Faults(), 1, Once()) as (target, heard):
        back = visited(target)
    assert (back.status, len(heard)) == ("ok", 2)


def test_silence_is_a_reason_and_is_not_waited_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_line, "_GRACE_S", -9.5)
    with noisy_line() as ends, contextlib.closing(SerialLine(f"serial:{ends.near}")) as target:
        first = visited(target)
        monkeypatch.setattr(serial_line, "_GRACE_S", 600.0)
        second = visited(target)
        with pytest.raises(Failure, match="nothing came over"):
            target.machine(f"/build/{ABI}/{PROBE}")
    assert {first.status, second.status} == {"infrastructure"}
    assert "nothing came over" in str(first.reason) and first.reason == second.reason


def test_a_line_that_never_stops_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_line, "_MOST_BYTES", 20_000)
    monkeypatch.setattr(serial_line, "_ATTEMPTS", 1)
    with made(Faults(doubled=1.0), 1) as (target, _):
        once = target._port.take
        monkeypatch.setattr(target._port, "take", lambda: once() * 1000)
        back = visited(target)
    assert (back.status, "never stops" in str(back.reason)) == ("failed", True)


# ---- an emulated one ------------------------------------------------------------------------------------------------


def test_an_emulated_board_answers_over_its_uart(tmp_path: Path) -> None:
    """The supervisor on the board, its second UART on a pseudo-terminal, and the target at the other end of that."""
    compiler = "arm-linux-gnueabi-gcc-12"
    target_stands.need("qemu-system-arm", compiler)
    chosen = BOARDS["bare:vexpress-a9"]
    image = target_stands.emulator_file(chosen.ours)
    program = target_stands.rogue(tmp_path, compiler, "good")
    first_files = tmp_path / "initramfs"
    first_files.write_bytes(archive({f"/{ABI}/{PROBE}": program.read_bytes()}))
    with noisy_line() as ends:
        words = [chosen.emulator, *_ALWAYS, *chosen.words, "-kernel", str(image), "-append", chosen.command_line,
                 "-initrd", str(first_files), "-serial", "null", "-serial", ends.far]  # fmt: skip
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as emulator:
            try:
                with contextlib.closing(SerialLine(f"serial:{ends.near}")) as target:
                    back = visited(target, str(program))
            finally:
                emulator.kill()
    assert (back.status, back.point.target) == ("ok", f"serial:{ends.near}"), back.reason
