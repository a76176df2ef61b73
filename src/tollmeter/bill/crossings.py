# SPDX-License-Identifier: Apache-2.0
"""Runs a command once and counts what it crosses, by the process probes/runtime/crossings/."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tollmeter import commands
from tollmeter.model import Failure, Record
from tollmeter.targets.timer import Words

Way = Literal["kernel", "notified", "usage"]
"""How calls are counted: by BPF programs, which time them too; by seccomp notification; not at all, so that only what
the kernel accounts to every process is known."""
WAYS: tuple[Way, ...] = ("kernel", "notified", "usage")
SIZES = ("none", "below 64 B", "below 4 KiB", "below 64 KiB", "64 KiB and more")
"""Of the bytes that a call returned; by notification of those that it asked for, since the result is not seen."""


class CallCount(Record, frozen=True):
    """A system call of one size class. ns: of all of them, from entry to return, less the time switched out; 0 where
    calls are not timed. size: place in SIZES. is_32: of the kernel's 32-bit ABI. repeats: calls about a path that
    the process had asked the same about; 0 where that is not seen."""

    number: int
    is_32: bool
    name: str
    size: int
    count: int
    ns: int
    bytes: int
    errors: int
    repeats: int = 0


class Crossings(Record, frozen=True):
    """What one run crossed. reason: why it could not be counted; empty where it was. error: errno of a command that did
    not start. status: as wait(2) reports it. loop_ns, loop_faults: of a loop of the runner's own, else 0.
    window_ns, counting_ns: of getppid, counted by the same programs, its window and its CPU time; 0 if not timed."""

    reason: str
    error: int
    status: int
    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    voluntary: int
    involuntary: int
    calls: tuple[CallCount, ...]
    events: Mapping[str, int]
    loop_ns: int = 0
    loop_faults: int = 0
    window_ns: float = 0.0
    counting_ns: float = 0.0

    @property
    def cpu_ns(self) -> int:
        return self.user_ns + self.system_ns

    @property
    def count(self) -> int:
        return sum(call.count for call in self.calls)


def crossings(runner: Path, way: Way, words: Words) -> Crossings:
    """One run of a command. Its output is discarded. Raises Failure (5) if the runner ends without an answer."""
    return _answer(runner, [way], [words.path, *words.words])


def of_process(runner: Path, process: int, seconds: float) -> Crossings:
    """What a running process crosses in so many seconds. Raises Failure (5), and 2 where there is no such process."""
    return _answer(runner, ["running"], [str(process), str(round(seconds * 1000))])


def _answer(runner: Path, way: Sequence[str], words: Sequence[str]) -> Crossings:
    ours, theirs = os.pipe()
    with open(ours, "rb") as answers:  # noqa: PTH123  a descriptor
        try:
            process = commands.start(
                "typed", [runner, *way, str(theirs), *words], stdin=commands.DEVNULL, stdout=commands.DEVNULL,
                stderr=commands.DEVNULL, pass_fds=[theirs],
            )  # fmt: skip
        except OSError as error:
            raise Failure(f"the command cannot be passed on: {error.strerror}", 2) from error
        finally:
            os.close(theirs)
        try:
            answer = answers.read()
        finally:
            process.kill()
            process.wait()
    if not answer.strip():
        raise Failure("the process that counts crossings ended without an answer", 5)
    return msgspec.json.decode(answer, type=Crossings)
