# SPDX-License-Identifier: Apache-2.0
"""One process of the host's own with a deadline: all that it printed, how it ended, and nothing left of it.

The process leads a new session, so that a terminal's Ctrl-C does not reach it and one signal reaches all that it
started. While it measures, the host sleeps in poll(): it wakes when the process prints or ends, and at the deadline.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tollmeter import commands
from tollmeter.protocol import Trouble

MOST_BYTES = 16 * 1024 * 1024
"""A visit prints kilobytes. A process that prints more than this is ended, before it fills the host's memory."""

_TICK_S = 0.05
_ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
"""The same for every visit: the size of the environment moves the stack, and with it the alignment of what a probe
measures (Mytkowicz et al., ASPLOS 2009)."""


def _environment() -> dict[str, str]:
    """With the number of this process, always of one length: a probe that starts when this is gone ends at once."""
    return {**_ENVIRONMENT, "TOLL_PARENT": f"{os.getpid():010}"}


_HALTING_S, _HALTED_WITHIN_S = 0.1, 0.0001


class Meanwhile(Protocol):
    """What the host does while it waits for a process. voices: descriptors that wake it; go_on: quick."""

    def voices(self) -> Sequence[int]: ...

    def go_on(self) -> None: ...


class Ended(NamedTuple):
    """status: as subprocess gives it, negative for a signal. limit: why the host ended it, where it had to."""

    output: bytes
    status: int
    limit: Trouble | None


class Child:
    """Standard error joins standard output: records are found between whatever else is printed.

    listens: whether it is told more than its command on standard input. Raises OSError where it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        listens: bool = False,
        origin: commands.Origin = "checkout",
    ) -> None:
        self._process = commands.start(
            origin,
            command,
            stdin=commands.PIPE if listens else commands.DEVNULL,
            stdout=commands.PIPE,
            stderr=commands.STDOUT,
            bufsize=0,
            env=dict(environment or _environment()),
            start_new_session=True,
        )
        os.set_blocking(self.voice, False)
        self._reaped = False
        self._sent: set[int] = set()
        self._said = bytearray()

    def signal(self, number: int) -> None:
        """To the process and all that it started. Until it is reaped, its number cannot belong to another."""
        if not self._reaped:
            self._sent.add(number)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def finish(self, limit_s: float) -> Ended:
        """Waits for the end, at most so long. Whatever happens, the whole group is gone on return."""
        output = self._taken()
        if self._reaped:
            return self._ended(output, None)
        try:
            limit = self._gather(output, time.monotonic() + limit_s, limit_s)
        finally:
            self.end()
        return self._ended(output, limit)

    def say(self, line: str) -> bool:
        """False if it was gone before it was asked."""
        try:
            self._process.stdin.write(line.encode() + b"\n")  # type: ignore[union-attr]
        except BrokenPipeError:
            _drain(self.voice, self._said)
            self.end()
            return False
        return True

    def hear(self, limit_s: float, meanwhile: Meanwhile | None = None) -> Ended:
        """Waits for a stream that ends with the promise to stay: its status is then 0 and the process waits for the
        next line. Where it does not stay, all is as with `finish`.
        """
        output = self._taken()
        try:
            limit = self._gather(output, time.monotonic() + limit_s, limit_s, _promises_to_stay, meanwhile)
        except BaseException:
            self.end()
            raise
        if limit is None and _promises_to_stay(output):
            return Ended(bytes(output), 0, None)
        if limit:
            self.signal(signal.SIGKILL)  # to move a process in the middle of a trap to another CPU took until its end
        self.end()
        return self._ended(output, limit)

    def answer(self, line: str, limit_s: float, meanwhile: Meanwhile | None = None) -> Ended | None:
        """Says one line, and hears what comes of it. None if it was gone before it was asked."""
        return self.hear(limit_s, meanwhile) if self.say(line) else None

    def _taken(self) -> bytearray:
        """What it has said that nobody has been given."""
        said, self._said = self._said, bytearray()
        return said

    def _ended(self, output: bytearray, limit: Trouble | None) -> Ended:
        """One that was asked to stop before it could listen died of that, and of nothing else."""
        status = self._process.returncode
        if limit is None and status == -signal.SIGINT and signal.SIGINT in self._sent:
            limit = "interrupted", "stopped before its first sample"
        return Ended(bytes(output), status, limit)

    @property
    def stays(self) -> bool:
        return not self._reaped

    @property
    def voice(self) -> int:
        """The descriptor that can be read once it has said something, or has ended."""
        return self._process.stdout.fileno()  # type: ignore[union-attr]

    def has_answered(self) -> bool:
        """As `hear`, without waiting: whether a stream has come that promises to stay. One that will not promise it any
        more is ended, and has answered too."""
        if self._reaped:
            return True
        ended = _has_ended(self._process.pid)
        is_open = _drain(self.voice, self._said)
        if _promises_to_stay(self._said):
            self._said.clear()
            return True
        if ended or not is_open or len(self._said) > MOST_BYTES:
            self.end()
        return self._reaped

    def resident_bytes(self) -> int:
        """Of memory that it holds; 0 where the system does not tell."""
        return self._memory()[0]

    def own_bytes(self) -> int:
        """Of these, what no file and no other process has as well: its data."""
        resident, shared = self._memory()
        return resident - shared

    def _memory(self) -> tuple[int, int]:
        """Resident, and of that shared (proc(5), statm)."""
        try:
            told = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()
            return int(told[1]) * os.sysconf("SC_PAGESIZE"), int(told[2]) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            return 0, 0

    def cpu_s(self) -> float:
        """That its first thread has had; 0 where nobody tells (Documentation/scheduler/sched-stats.rst)."""
        try:
            return int(Path(f"/proc/{self._process.pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def halt(self) -> None:
        """Stops it where it is, until it is told to go on; returns once it stands, at the end of a page that the kernel
        clears for it at the latest. One that does not begin is ended."""
        if self._reaped:
            return
        if not _comes(self._has_begun):
            self.end()
            return
        os.kill(self._process.pid, signal.SIGSTOP)
        _comes(self._has_halted)

    def _has_begun(self) -> bool:
        """Or has ended. A probe reads what it is told behind the first line of its main, in which it asks the kernel to
        end it with this process: who is stopped before that stays for ever where this process is killed. And so would
        what it starts, which is not stopped."""
        assert self._process.stdin
        unread = fcntl.ioctl(self._process.stdin, termios.FIONREAD, bytes(4))
        return not any(unread) or _has_ended(self._process.pid)

    def _has_halted(self) -> bool:
        """Or has ended."""
        return os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def go_on(self) -> None:
        if not self._reaped:
            os.kill(self._process.pid, signal.SIGCONT)

    def dismiss(self) -> None:
        """Begins to end it: `end` then waits for less. It gives its memory back where the host is, and not on the CPU
        that is measured."""
        if self._reaped:
            return
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, os.sched_getaffinity(0))
        self.signal(signal.SIGKILL)

    def end(self) -> None:
        """Ends what is left of it and of its group."""
        if not self._reaped:
            self._reap()

    def _reap(self) -> None:
        """Ends what is left of the group while its leader still holds its number, then lets the leader go."""
        self.dismiss()
        self._reaped = True
        with _as_everybody():
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe:
                pipe.close()

    def _gather(
        self,
        output: bytearray,
        deadline: float,
        limit_s: float,
        is_whole: Callable[[bytearray], bool] | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> Trouble | None:
        """Collects until the process ends, or all has come; one that it left behind and that holds the pipe open does
        not count."""
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        watched = select.poll()
        watched.register(pipe, select.POLLIN)
        reading = True
        with _watching(self._process.pid, watched) as tick_s:
            while time.monotonic() < deadline:
                with _listening(meanwhile, watched):
                    watched.poll(1000 * min(tick_s, max(0.001, deadline - time.monotonic())))
                ended = _has_ended(self._process.pid)  # asked before the last read, so that nothing printed is missed
                if reading and not _drain(pipe, output):
                    watched.unregister(pipe)
                    reading = False
                if len(output) > MOST_BYTES:
                    return "failed", f"it printed more than {MOST_BYTES >> 20} MiB"
                if ended or (is_whole and is_whole(output)):
                    return None
        return "timeout", f"no end within {limit_s:.3g} s"


def _comes(what: Callable[[], bool]) -> bool:
    """Soon."""
    limit = time.monotonic() + _HALTING_S
    while not (has_come := what()) and time.monotonic() < limit:
        time.sleep(_HALTED_WITHIN_S)
    return has_come


def _promises_to_stay(output: bytearray) -> bool:
    """The last line, if it is whole, is a stream's end and says so."""
    if not output.endswith(b"}\n"):
        return False
    last = output[output.rfind(b"\n", 0, -1) + 1 :]
    return last.startswith(b'{"k":"end"') and b'"stays":true' in last


@contextlib.contextmanager
def _as_everybody() -> Iterator[None]:
    """At the usual priority. Whoever lets a process go empties its folder in /proc, and spins while somebody else still
    has an entry of it in hand: a thread of it that ends on this CPU, and that this process was put before, had it for
    the whole second that the system leaves to real time.
    """
    policy, parameter = os.SCHED_OTHER, os.sched_param(0)
    with contextlib.suppress(OSError):
        policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    if policy & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
        yield
        return
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameter)


@contextlib.contextmanager
def _listening(meanwhile: Meanwhile | None, watched: select.poll) -> Iterator[None]:
    """Does what is done meanwhile, and lets poll() wake for more of it."""
    if meanwhile:
        meanwhile.go_on()
    voices = meanwhile.voices() if meanwhile else []
    for voice in voices:
        watched.register(voice, select.POLLIN)
    yield
    for voice in voices:
        watched.unregister(voice)


@contextlib.contextmanager
def _watching(pid: int, watched: select.poll) -> Iterator[float]:
    """Lets poll() wake at the end of a process; where the kernel cannot (before 5.3), at short ticks instead."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield _TICK_S
        return
    watched.register(descriptor, select.POLLIN)
    try:
        yield float("inf")
    finally:
        os.close(descriptor)


def _has_ended(pid: int) -> bool:
    """Without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(pipe: int, output: bytearray) -> bool:
    """Reads what is there now. False once nobody can write to it any more."""
    while len(output) <= MOST_BYTES:
        try:
            chunk = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        output += chunk
    return True
