# SPDX-License-Identifier: Apache-2.0
"""Runs a command once and counts its crossings, by the program probes/runtime/crossings/, on this machine, on a host or
in a guest."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tollmeter import commands
from tollmeter.model import Failure, Record
from tollmeter.targets.local import native_command, needs_loader
from tollmeter.targets.qemu_system import Guest
from tollmeter.targets.ssh import Ssh
from tollmeter.targets.timer import Words, why_failed

Way = Literal["kernel", "notified", "usage"]
"""Method of counting calls: BPF programs, which also time the calls; seccomp notification; or none, so that only the
kernel's accounts of a process are known."""
WAYS: tuple[Way, ...] = ("kernel", "notified", "usage")
SIZES = ("none", "below 64 B", "below 4 KiB", "below 64 KiB", "64 KiB and more")
"""Size classes of the bytes that a call returned; under seccomp notification, of the bytes that it requested, since the
result is not visible."""


class CallCount(Record, frozen=True):
    """The count of a system call in one size class. ns: time of all calls, from entry to return, without the time
    switched out; 0 if calls are not timed. size: index in SIZES. is_32: of the kernel's 32-bit ABI. repeats: look-ups
    of a path that the process had looked up before; 0 if unknown. switched: calls in which the thread was
    switched out, and switches after such a call, before the next; 0 if calls are not timed."""

    number: int
    is_32: bool
    name: str
    size: int
    count: int
    ns: int
    bytes: int
    errors: int
    repeats: int = 0
    switched: int = 0


class Crossings(Record, frozen=True):
    """The crossings of one run. reason: why they could not be counted; empty if they were. error: errno of a command
    that did not start. status: as wait(2) reports it. stderr: last line on standard error of a command that failed and
    was not counted. loop_ns, loop_faults: time and faults of a loop of the runner itself, else 0. toll_ns: time of
    getppid without counting, just before; window_ns, counting_ns: window and CPU time of getppid, counted by the same
    programs. These are 0 if not timed."""

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
    toll_ns: float = 0.0
    window_ns: float = 0.0
    counting_ns: float = 0.0
    stderr: str = ""

    @property
    def failure(self) -> str:
        """Returns how the command failed; empty if it did not."""
        return why_failed(self.error, self.status, self.wall_ns, self.stderr)

    @property
    def cpu_ns(self) -> int:
        return self.user_ns + self.system_ns

    @property
    def on_cpu_ns(self) -> int:
        """Returns the elapsed ns in which threads of the command were on a CPU, between context switches; 0 if not
        timed."""
        return self.events.get("on_cpu_ns", 0)

    @property
    def count(self) -> int:
        return sum(call.count for call in self.calls)


LOADED = (
    "our loader serves the calls of x32, which this kernel does not know. A kernel that does is entered by the same "
    "instruction as from x86-64"
)
_EMULATED = "the guest's clock is the emulator's"


class Runner:
    """Starts the process that counts, on this machine. path: its executable. machine: the architecture by
    `uname -m`."""

    def __init__(self, path: Path, machine: str = platform.machine()) -> None:
        self.path, self.machine = path, machine

    def answer(self, way: str, words: Sequence[str]) -> bytes:
        """Returns the output of one run. words: the path that is executed, and the command's arguments. Raises
        Failure."""
        ours, theirs = os.pipe()
        command = native_command(words[0])
        started = [command[0], *command, *words[2:]] if needs_loader(words[0]) else words
        with open(ours, "rb") as answers:  # noqa: PTH123  a descriptor
            try:
                process = commands.start("typed", [self.path, way, str(theirs), *started], pass_fds=[theirs])
            except OSError as error:
                raise Failure(
                    f"the program that counts the command's crossings cannot be started: {error.strerror}", 2
                ) from error
            finally:
                os.close(theirs)
            try:
                return answers.read()
            finally:
                process.kill()
                process.wait()

    def place(self, program: Path) -> str:
        """Returns the path of a static program on the machine that runs the commands, to which it is copied. Raises
        Failure if it cannot be copied."""
        return f"{program}"

    def untimed(self, words: Words, /) -> str:
        """Returns why times on this runner include more than the command; empty if they do not."""
        return LOADED if needs_loader(words.path) else ""


class HostRunner(Runner):
    """A runner on a host, to which the executable is copied. Commands run in the user's folder there, with the user's
    environment."""

    def __init__(self, host: Ssh, path: Path) -> None:
        super().__init__(path, host.architecture())
        self.host = host

    def answer(self, way: str, words: Sequence[str]) -> bytes:
        path, *arguments = words
        script = f'{_FIND.format(name=shlex.quote(path))}\n"$copy" {way} 1 "$found" {shlex.join(arguments)}'
        done = self.host.with_copy(f"{self.path}", script)
        if done.returncode == _NOT_FOUND:
            raise Failure(f"{self.host.name} has no command {path!r}")
        return done.stdout

    def place(self, program: Path) -> str:
        return self.host.copy_of(f"{program}")

    def untimed(self, _: Words, /) -> str:
        return ""


class GuestRunner(Runner):
    """A runner in a guest, into whose first file system the executable and the commands are packed."""

    def __init__(self, guest: Guest, path: Path, machine: str) -> None:
        super().__init__(path, machine)
        self.guest = guest

    def answer(self, way: str, words: Sequence[str]) -> bytes:
        path, *arguments = words
        try:
            words = [way, "1", self.place(Path(path)), *arguments]
            ended = self.guest.started(f"{self.path}", words, _A_DAY_S)
        except OSError as error:
            raise Failure(f"{self.guest.name} cannot start the command: {error.strerror}", 5) from error
        if ended.limit:
            raise Failure(f"{self.guest.name}: {ended.limit[1]}", 5)
        return ended.output

    def place(self, program: Path) -> str:
        return self.guest.place_of(f"{program}")

    def untimed(self, _: Words, /) -> str:
        return _EMULATED


_A_DAY_S = 86_400.0
_NOT_FOUND = 127
# The folders of PATH are searched, since `command -v` may find a built-in of the shell, which no process can execute.
_FIND = """name={name} found= IFS=:
case $name in
-* | */*) found=$name ;;
*) for folder in $PATH; do
    if [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then found=$folder/$name; break; fi
  done ;;
esac
[ "$found" ] || exit 127"""


def crossings(runner: Runner, way: Way, words: Words) -> Crossings:
    """Returns the crossings of one run of a command. Its output is discarded. Raises Failure (5) if the runner ends
    without an answer."""
    return _read(runner.answer(way, [words.path, *words.words]))


def without_loader(crossed: Crossings) -> Crossings:
    """Returns the crossings without those of the x32 loader itself: the signal by which each call reaches the loader,
    and the return from that signal."""
    returns = sum(call.count for call in crossed.calls if call.name == "rt_sigreturn")
    events = {**crossed.events}
    if "signals" in events:
        events["signals"] = max(0, events["signals"] - returns)
    calls = tuple(call for call in crossed.calls if call.name != "rt_sigreturn")
    return msgspec.structs.replace(crossed, calls=calls, events=events)


def of_process(runner: Runner, process: int, seconds: float) -> Crossings:
    """Returns the crossings that a running process makes in a number of seconds. Raises Failure: 2 if the process does
    not exist, 5 if the runner ends without an answer."""
    return _read(runner.answer("running", [str(process), str(round(seconds * 1000))]))


def _read(answer: bytes) -> Crossings:
    if not answer.strip():
        raise Failure("the process that counts crossings ended without an answer", 5)
    return msgspec.json.decode(answer, type=Crossings)
