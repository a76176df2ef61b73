# SPDX-License-Identifier: Apache-2.0
"""One process that the host starts with a deadline: its whole output and its end; no descendant remains.

The process leads a new session, so that a terminal's Ctrl-C does not reach it and one signal reaches all its
descendants. While it measures, the host sleeps in poll(): it wakes when the process prints or ends, and at the
deadline."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from tollmeter import commands
from tollmeter.protocol import Trouble

_MOST_BYTES = 16 * 1024 * 1024
"""Highest output of a process in bytes, so that it cannot fill the host's memory. A visit prints kilobytes."""

_TICK_S = 0.05
_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C",
    **{name: folder for name, folder in os.environ.items() if name == "TOLL_SYSTEM_ROOT"},
}  # fmt: skip
"""Environment of every visit: its size moves the stack, and with it the alignment of the measured data (Mytkowicz et
al., ASPLOS 2009)."""

_SUSPENDED_S = 1.0
"""Delay in seconds after a deadline which shows that the host was suspended, together with the process."""


class Ended(NamedTuple):
    """The end of a process. status: as subprocess gives it, negative for a signal. limit: the limit that ended the
    process, or None. written: bytes that an emulator's plugin wrote; empty without one."""

    output: bytes
    status: int
    limit: Trouble | None
    written: str = ""


class Child:
    """A running process, whose standard error goes to its standard output. listens: whether it reads standard input.
    answers_with: returns whether the output ends with a complete answer to a line. Raises OSError if the process cannot
    be started."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        listens: bool = False,
        answers_with: Callable[[bytearray], bool] | None = None,
        origin: commands.Origin = "checkout",
    ) -> None:
        self._is_answer = answers_with or _announces_next_visit
        self._process = commands.start(
            origin,
            command,
            stdin=commands.PIPE if listens else commands.DEVNULL,
            stdout=commands.PIPE,
            stderr=commands.STDOUT,
            bufsize=0,
            # A probe that outlives this process exits at once. The id has a constant length, as the rest of the
            # environment.
            env=dict(environment or {**_ENVIRONMENT, "TOLL_PARENT": f"{os.getpid():010}"}),
            start_new_session=True,
        )
        os.set_blocking(self._stdout_fd, False)
        self._reaped = False
        self._sent: set[int] = set()
        self._unread = bytearray()

    def signal(self, number: int) -> None:
        """Signals the process and its group. Until it is reaped, no other process can have its id."""
        if not self._reaped:
            self._sent.add(number)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def finish(self, limit_s: float) -> Ended:
        """Waits at most limit_s for the end. On return the whole process group is gone."""
        output, self._unread = self._unread, bytearray()
        limit = None
        try:
            if not self._reaped:
                limit = self._gather(output, limit_s)
        finally:
            self.end()
        return self._ended(output, limit)

    def send(self, line: str) -> bool:
        """Writes one line to the process's standard input. Returns False if the process had ended before."""
        try:
            self._process.stdin.write(line.encode() + b"\n")  # type: ignore[union-attr]
        except BrokenPipeError:
            _drain(self._stdout_fd, self._unread)
            self.end()
            return False
        return True

    def read_stream(self, limit_s: float) -> Ended:
        """Reads the stream of one visit. Returns status 0 if the process then waits for the next line; if the process
        ended or the limit passed, the same as `finish`."""
        output, self._unread = self._unread, bytearray()
        try:
            limit = self._gather(output, limit_s, self._is_answer)
        except BaseException:
            self.end()
            raise
        if limit is None and self._is_answer(output):
            return Ended(bytes(output), 0, None)
        if limit:
            self.signal(
                signal.SIGKILL
            )  # first: moving a process that is inside a trap to another CPU would block until its end
        self.end()
        return self._ended(output, limit)

    def answer(self, line: str, limit_s: float) -> Ended | None:
        """Sends one line, and returns the stream that answers it. None if the process had ended before."""
        return self.read_stream(limit_s) if self.send(line) else None

    def _ended(self, output: bytearray, limit: Trouble | None) -> Ended:
        """Returns the end of the process. A process that SIGINT ended before it installed its handler counts as
        interrupted, not as failed."""
        status = self._process.returncode
        if limit is None and status == -signal.SIGINT and signal.SIGINT in self._sent:
            limit = "interrupted", "stopped before its first sample"
        return Ended(bytes(output), status, limit)

    @property
    def is_alive(self) -> bool:
        return not self._reaped

    @property
    def _stdout_fd(self) -> int:
        """Returns the descriptor that becomes readable when the process has printed or ended."""
        return self._process.stdout.fileno()  # type: ignore[union-attr]

    def resident_bytes(self) -> int:
        """Returns the resident memory in bytes (proc(5), statm); 0 if the system does not report it."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
            return int(pages) * os.sysconf("SC_PAGESIZE")
        except (OSError, IndexError):
            return 0

    def end(self) -> None:
        """Kills the process group, then reaps the process; until then no other process can have its id. The process's
        memory is freed on the host's CPU."""
        if self._reaped:
            return
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, os.sched_getaffinity(0))
        self.signal(signal.SIGKILL)
        self._reaped = True
        with _normal_priority():
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe:
                pipe.close()

    def _gather(
        self, output: bytearray, limit_s: float, is_complete: Callable[[bytearray], bool] = lambda _: False
    ) -> Trouble | None:
        """Collects output until the process ends or the stream is complete, even if another process holds the pipe
        open. Returns the limit that was exceeded, or None. If the process was suspended with this one, as by a
        container's freezer, the time limit begins anew."""
        pipe, deadline = self._stdout_fd, time.monotonic() + limit_s
        reading, tick_s = True, _TICK_S
        watched = select.poll()
        watched.register(pipe, select.POLLIN)
        with contextlib.ExitStack() as opened:
            with contextlib.suppress(OSError):  # before Linux 5.3, the end of a process wakes no poll()
                descriptor = os.pidfd_open(self._process.pid)
                opened.callback(os.close, descriptor)
                watched.register(descriptor, select.POLLIN)
                tick_s = inf
            while time.monotonic() < deadline:
                watched.poll(1000 * min(tick_s, max(0.001, deadline - time.monotonic())))
                # Checked before the last read, so that no output is missed; the process is not reaped.
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
                if reading and not _drain(pipe, output):
                    watched.unregister(pipe)
                    reading = False
                if len(output) > _MOST_BYTES:
                    return "failed", f"it printed more than {_MOST_BYTES >> 20} MiB"
                if ended or is_complete(output):
                    return None
                if (now := time.monotonic()) - deadline > _SUSPENDED_S:
                    deadline = now + limit_s
        return "timeout", f"no end within {limit_s:.3g} s"


def _announces_next_visit(output: bytearray) -> bool:
    """Returns whether the last line is a complete end record that announces that the process waits for another
    visit."""
    return ends_stream(output) and b'"stays":true' in output[output.rfind(b"\n", 0, -1) + 1 :]


def ends_stream(output: bytearray) -> bool:
    """Returns whether the last line is a complete end record."""
    return output.endswith(b"}\n") and output.startswith(b'{"k":"end"', output.rfind(b"\n", 0, -1) + 1)


@contextlib.contextmanager
def _normal_priority() -> Iterator[None]:
    """Leaves real-time priority while a process is reaped. The kernel empties the process's folder in /proc, and spins
    while another thread holds an entry of it. An ending thread that this process preempted on this CPU can hold one
    for the whole second that the system grants real-time tasks."""
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


def _drain(pipe: int, output: bytearray) -> bool:
    """Reads the available bytes. Returns False once no process can write to the pipe."""
    while len(output) <= _MOST_BYTES:
        try:
            chunk = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        output += chunk
    return True


def leashed(command: Sequence[str]) -> list[str]:
    """Returns a command that runs another one and ends with this process. It must be started by a thread that lives as
    long as this process."""
    same_parent = '[ "$PPID" = "$0" ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", same_parent, str(os.getpid()), *command]
