# SPDX-License-Identifier: Apache-2.0
"""The names of targets: kind, clock, missing requirements on this machine, and opening.

local               this machine                            hardware
core:KIND           the same, on another kind of core       hardware; chosen by a suite's `kinds`, and not by --target
qemu-user:ARCH      an emulated CPU, this kernel; of one    instructions
                    kind as ARCH:CPU
guest:BOARD         a machine with a kernel of its own      virtual; hardware under KVM
bare:BOARD          an emulated machine, our supervisor     virtual
ssh:HOST            another machine                         hardware
serial:PATH         a board at the end of a serial line     hardware
TARGET+LINE         the same, timed by this machine         external"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tollmeter.model import Abi, Clock, Failure
from tollmeter.protocol import clean
from tollmeter.targets import Lack, qemu_user
from tollmeter.targets.boards import BOARDS, board_of, clock_here
from tollmeter.targets.external_clock import ExternalClock, check_line, device_parts, open_line
from tollmeter.targets.local import Local
from tollmeter.targets.qemu_system import Guest
from tollmeter.targets.qemu_user import QemuUser
from tollmeter.targets.serial_line import SerialLine
from tollmeter.targets.ssh import Ssh, check_host
from tollmeter.targets.target import Target

LOCAL = "local"
NATIVE = "native"
"""Word in an ABI file's `runs` for this machine, if its CPU and kernel run the ABI."""

CLOCKS: dict[str, Clock] = {
    "local": "hardware", "qemu-user": "instructions", "guest": "virtual", "bare": "virtual", "ssh": "hardware",
    "serial": "hardware",
}  # fmt: skip
BY = "+"
"""Separator between a target and the line whose other end times it."""
_OWN = {"qemu-user": "emulator", "guest": "guest", "bare": "bare board"}
"""Kinds whose name alone means the emulator or board that the ABI's file names; and their description in a sentence."""


def clocked(targets: Sequence[str], line: str | None) -> tuple[str, ...]:
    """Returns the names of the targets with a serial line as their clock. targets: named targets; this machine if there
    are none. line: name of the line; None to keep the targets' own clocks. Raises Failure for an invalid line."""
    if line is None:
        return tuple(targets)
    check_line(line)
    return tuple(f"{target}{BY}{line}" for target in targets or (LOCAL,))


def clock_of(target: str) -> Clock:
    """Returns the clock of a target. Raises Failure for an unknown name."""
    inner, by, line = target.partition(BY)
    if by:
        check_line(line)
        if inner not in (LOCAL, line):
            raise Failure(
                f"{clean(inner)!r} is not timed over {clean(line)}: this machine is ({LOCAL}), and a board at the end "
                "of a serial line is over that line itself (--target serial:PATH --clock serial:PATH)"
            )
        return "external"
    kind, _, place = target.partition(":")
    if kind not in CLOCKS:
        raise Failure(
            f"there is no target {clean(target)!r}; known: local, qemu-user:ARCH, "
            f"{', '.join(BOARDS)}, ssh:HOST, serial:PATH"
        )
    if kind == LOCAL and target != LOCAL:
        raise Failure(f"there is no target {clean(target)!r}: use {LOCAL} for this machine")
    if kind == "ssh":
        if not place:
            raise Failure("the target ssh needs a host: ssh:HOST")
        check_host(place)
    if kind == "serial":
        device_parts(place)
    return clock_here(target) if kind == "guest" else CLOCKS[kind]


def lack(target: str) -> Lack | None:
    """Returns the missing requirement of a target, None without one. ssh targets are not examined: only the other
    machine knows its requirements."""
    clock_of(target)
    target = target.partition(BY)[0]
    kind, _, place = target.partition(":")
    if kind == "qemu-user":
        return qemu_user.emulator_lack(place)
    if kind in ("guest", "bare") and shutil.which((board := board_of(target)).emulator) is None:
        return Lack(f"no {board.emulator}", (board.package,))
    if kind == "ssh" and shutil.which("ssh") is None:
        return Lack("no ssh", ("openssh-client",))
    return None


def for_abi(target: str, abi: Abi) -> str:
    """Returns a target's full name for an ABI: `qemu-user`, `guest` and `bare` alone mean the ABI's own emulator or
    board."""
    if target not in _OWN:
        return target
    full_name = next((way for way in abi.runs if way.startswith(f"{target}:")), None)
    if full_name is None:
        raise Failure(f"{abi.name}.toml names no {_OWN[target]} that runs it")
    return full_name


def own_abis(targets: Sequence[str]) -> tuple[str, ...]:
    """Returns the ABIs of the boards among the targets, used if no ABI is named. Empty if a target runs this machine's
    ABIs."""
    abis = [BOARDS[target].abi if target in BOARDS else "" for target in targets]
    return tuple(dict.fromkeys(abis)) if all(abis) else ()


def targets_for(targets: Sequence[str], abi: Abi, runs_here: bool) -> tuple[str, ...]:
    """Returns those targets that run an ABI: targets in the ABI's file, this machine if `runs_here`, and every other
    machine. If there are none, returns all targets with a full name for the ABI, since an explicit request is tried.
    Raises Failure if no target has one."""
    is_fitting: dict[str, bool] = {}
    refused: list[Failure] = []
    for target in targets:
        try:
            name = for_abi(target, abi)
        except Failure as failure:
            refused.append(failure)
            continue
        inner = name.partition(BY)[0]
        is_fitting[name] = inner in abi.runs or (inner == LOCAL and runs_here) or inner.startswith(("ssh:", "serial:"))
    if not is_fitting:
        raise refused[0]
    return tuple(name for name, fits in is_fitting.items() if fits) or tuple(is_fitting)


def open_target(target: str, emulator: Path) -> Target:
    """Returns an open target. emulator: the folder build/emulator. Raises Failure with a sentence if it cannot be
    opened."""
    clock_of(target)
    inner, by, line = target.partition(BY)
    if by and inner == line:
        return SerialLine(target, timed=True)
    if by:
        return ExternalClock(target, open_target(inner, emulator), open_line(line))
    kind, _, place = target.partition(":")
    if kind == "qemu-user":
        return QemuUser(place, emulator / "count.so")
    if kind in ("guest", "bare"):
        return Guest(target, emulator)
    if kind == "serial":
        return SerialLine(target)
    return Ssh(place) if kind == "ssh" else Local()
