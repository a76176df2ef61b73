# SPDX-License-Identifier: Apache-2.0
"""A process that answers on one wire, again and again: lines go in, bytes come out until a mark.

What comes back is bytes of a guest, believed in nothing but the mark."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tollmeter import commands
from tollmeter.targets.child import leashed

MOST_BYTES = 2 * 1024 * 1024
"""An emulated serial line is slow: at half a megabyte a second, this is seconds."""
_CHUNK = 1 << 16
_LONGEST_MARK = 256


class Gone(Exception):
    """The process ended during a request, or printed more than the limit: the reason, and what had come until then."""


class Slow(Gone):
    """No mark within the limit."""


class Wire:
    """Raises OSError where the process cannot be started. It dies with this process, whatever that one died of."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        with output.open("wb") as log:
            self._process = commands.start(
                "checkout",
                leashed(command),
                stdin=commands.PIPE,
                stdout=commands.PIPE,
                stderr=log,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stdin and self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._kept = bytearray()

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """Safe inside a signal handler: a line is shorter than what a pipe takes whole."""
        with contextlib.suppress(OSError):
            self._in.write(line.encode() + b"\n")

    def until(self, mark: re.Pattern[bytes], limit_s: float) -> tuple[bytes, re.Match[bytes]]:
        """The bytes up to and with the mark. Raises Gone or Slow, with the bytes read as second argument."""
        deadline = time.monotonic() + limit_s
        looked = 0
        while True:
            match = mark.search(self._kept, looked)
            if match:
                before = bytes(self._kept[: match.start()])
                match = mark.fullmatch(bytes(match.group()))
                assert match
                del self._kept[: len(before) + len(match.group())]
                return before, match
            looked = max(0, len(self._kept) - _LONGEST_MARK)
            self._more(deadline, limit_s)

    def _more(self, deadline: float, limit_s: float) -> None:
        if len(self._kept) > MOST_BYTES:
            raise Gone(f"it printed more than {MOST_BYTES >> 20} MiB", self._take_all())
        ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Slow(f"no end within {limit_s:.3g} s", self._take_all())
        chunk = os.read(self._out.fileno(), _CHUNK)
        if not chunk:
            raise Gone(f"the emulator ended ({self._how()})", self._take_all())
        self._kept += chunk

    def _take_all(self) -> bytes:
        kept = bytes(self._kept)
        self._kept.clear()
        return kept

    def _how(self) -> str:
        status = self._process.wait()
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def sleep(self) -> None:
        """Takes the CPU away until it is woken."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._in.close()
        self._out.close()

    def _signal(self, number: int) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
