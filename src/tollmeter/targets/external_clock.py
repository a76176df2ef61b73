# SPDX-License-Identifier: Apache-2.0
"""A target whose batches are timed by this machine, at the other end of a line: `local+pty`, `local+serial:PATH`.

The probe makes one byte before and behind each batch, and whoever reads the line stamps it by the raw monotonic clock.
What a byte takes on its way cancels where it is always the same; what it varies by is shown by the empty test.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import msgspec

from tollmeter.model import Failure, Visit
from tollmeter.protocol import Stamp, refused, retimed
from tollmeter.targets import Target
from tollmeter.targets.lines import Line

LEAST_SAMPLE_NS = 5_000_000
"""A byte waits for its reader to wake: tens of microseconds on a busy machine. Longer batches would meet somebody else
on their CPU."""
_MOST_STAMPS = 100_000
_LAST_BYTES_S = 0.2
_PRIORITY = 2


class ExternalClock:
    """Implements targets.Target around another. name: the other's, `+` and the line's."""

    def __init__(self, name: str, inner: Target, line: Line) -> None:
        self.name = name
        self._inner, self._line = inner, line

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        self._inner.prepare(executables, limit_s)

    def describe(self, executable: str) -> bytes:
        return self._inner.describe(executable)

    def machine(self, executable: str) -> bytes:
        return self._inner.machine(executable)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
        self._line.close()

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        # A terminal's bytes are handed on by a thread of the kernel's, which a probe of real time would keep waiting.
        asked = msgspec.structs.replace(
            visit, sample_ns=max(visit.sample_ns, LEAST_SAMPLE_NS), marks=self._line.far_end, priority="normal"
        )
        try:
            with stamping(self._line) as stamps:
                stream = self._inner.run(executable, asked, revision)
            if len(stamps) >= _MOST_STAMPS:
                raise Failure(f"{self._line.name} never stops: {_MOST_STAMPS} bytes came in one visit")
            return retimed(stream, stamps, self._line.name)
        except Failure as failure:
            return refused(visit, revision, "infrastructure", failure.sentence)


@contextmanager
def stamping(line: Line) -> Iterator[list[Stamp]]:
    """Stamps whatever comes while the block runs, and for a moment after it. Raises Failure where the line is gone."""
    stamps: list[Stamp] = []
    line.forget()
    stop, wake = os.pipe()
    reader = threading.Thread(target=_stamp, args=(line, stop, stamps), daemon=True)
    reader.start()
    try:
        yield stamps
    finally:
        os.close(wake)
        reader.join()
        os.close(stop)


def _stamp(line: Line, stop: int, stamps: list[Stamp]) -> None:
    """Sleeps until a byte comes. Once the block has ended, until none has come for a while."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))  # of this thread: it is to wake at once
    watched, last_s = [line.fileno(), stop], None
    while len(stamps) < _MOST_STAMPS:
        ready, _, _ = select.select(watched, [], [], last_s)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if line.fileno() in ready:
            stamps += [Stamp(byte, now) for byte in line.take(1)]
        elif stop in ready:
            watched, last_s = [line.fileno()], _LAST_BYTES_S
        else:
            return
