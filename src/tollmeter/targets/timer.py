# SPDX-License-Identifier: Apache-2.0
"""The process that starts and times the commands of `toll time` (probes/runtime/workload/timer.c)."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.targets import energy

Input = Literal["n", "m"]
"""Input of a run: the file common to all commands, or the output of the last command in memory."""
LAST_OUTPUT: Input = "m"
Output = Literal["n", "m", "p", "i", "f"]
"""Destination of a run's output: none, memory, a pipe, the inherited output, or a file."""


class Words(NamedTuple):
    """The words of one command. path: the executed file; words: its arguments, its name first."""

    path: str
    words: tuple[str, ...]


class Ran(NamedTuple):
    """One execution of a command, by wait4(2) and getrusage(2). error: why it was not executed (errno), 0 if it was.
    status: as wait(2) reports it. output_hash: 0 if the output was not read. held_pipe: inode of the output's pipe if
    another process kept it open after the command ended, else 0. counts: counts of the requested events; a negative
    value is the error of an event that could not be counted. stderr: end of its standard error, if it failed.
    energy_uj: energy of all packages of the machine during the run, µJ; negative if it cannot be read."""

    error: int
    status: int
    at_ns: int
    wall_ns: int
    user_ns: int
    system_ns: int
    peak_bytes: int
    minor_faults: int
    major_faults: int
    blocks_in: int
    blocks_out: int
    voluntary: int
    involuntary: int
    output_bytes: int
    output_hash: int
    held_pipe: int
    counts: tuple[int, ...] = ()
    stderr: str = ""
    energy_uj: int = energy.UNREADABLE

    @property
    def cpu_ns(self) -> int:
        return self.user_ns + self.system_ns

    @property
    def exit_code(self) -> int:
        """Returns the exit code as a shell reports it: 128 plus the number of a signal."""
        return 128 + os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status)

    @property
    def failure(self) -> str:
        """Returns how it failed; empty if it did not."""
        return why_failed(self.error, self.status, self.wall_ns, self.stderr)


_FIELDS = Ran._fields.index("stderr")
"""Number of fields of an answer; the message of a failed run follows them."""


def why_failed(error: int, status: int, wall_ns: int, stderr: str) -> str:
    """Returns how a run failed, by the fields of `Ran`; empty if it did not."""
    if error == errno.ETIMEDOUT:
        return f"it was ended after {wall_ns / 1e9:.3g} s, the limit of one run"
    if error:
        return f"it cannot be executed: {os.strerror(error)}"
    if not status:
        return ""
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)} ended it"
    lines = stderr.strip().splitlines()
    return f"exit status {os.WEXITSTATUS(status)}{f': {lines[-1]}' if lines else ''}"


class Timer:
    """A process that starts commands one after the other. On exit, it ends their remaining processes."""

    def __init__(
        self,
        executable: Path,
        several: Sequence[Words],
        input_file: str = "",
        output_file: str = "",
        limit_s: float = 0.0,
        *,
        packages: Mapping[Path, int] = {},
    ) -> None:
        """Stores the commands and their options; entering the context starts the timer. several: the commands. limit_s:
        time limit of one run, s; 0 for no limit. packages: counters read around each run, as `energy.packages`
        returns them."""
        self._packages = packages
        self._executable = executable
        self._own = [word for command in several for word in (str(len(command.words)), command.path, *command.words)]
        self._common = [input_file or os.devnull, output_file or os.devnull, str(ceil(1000 * limit_s))]

    def __enter__(self) -> Timer:
        inherited = os.dup(1)
        environment = {name: value for name, value in os.environ.items() if name != "TOLL_COMMAND"}
        try:
            self._process = commands.start(
                "typed", [self._executable, str(inherited), *self._common, *self._own], stdin=commands.PIPE,
                stdout=commands.PIPE, pass_fds=[inherited], env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failure(f"the program that times the commands cannot be started: {error.strerror}", 2) from error
        finally:
            os.close(inherited)
        return self

    def run(self, number: int, source: Input = "n", sink: Output = "n", *, events: Sequence[str] = ()) -> Ran:
        """Runs a command once, by its index. events: events to count, by perf's names. Raises Failure (5) if it cannot
        be started."""
        assert self._process.stdin and self._process.stdout
        before_uj = energy.read_counters(self._packages)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{number} {source} {sink} {','.join(events)}\n".encode())
            self._process.stdin.flush()
        answer = self._process.stdout.readline().decode("ascii").split()
        took_uj = energy.taken_uj(self._packages, before_uj, energy.read_counters(self._packages))
        if len(answer) < _FIELDS:
            raise Failure("the process that starts the commands has ended: it printed why, or was killed", 5)
        *numbers, counted = answer[:_FIELDS]
        counts = tuple(map(int, counted.split(","))) if events else ()
        message = bytes.fromhex(answer[-1]).decode(errors="replace") if len(answer) > _FIELDS else ""
        return Ran._make([*map(int, numbers), counts, clean(message, "\n"), took_uj])

    def interrupt(self) -> None:
        """Ends the running command and its descendants. Safe inside a signal handler."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGKILL)
        self._process.communicate()


def holders(pipe: int) -> Iterator[str]:
    """Yields the names of the processes that have a pipe open, by its inode, except for other users' processes."""
    link = f"pipe:[{pipe}]"
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if any(os.readlink(file) == link for file in (process / "fd").iterdir()):  # noqa: PTH115  it is no path
                words = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                yield f"{clean(words.decode(errors='replace'))} (process {process.name})"
