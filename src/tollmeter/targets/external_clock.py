# SPDX-License-Identifier: Apache-2.0
"""A target whose visits are timed by this machine, at the other end of a line: `local+pty`, `local+serial:PATH`.

The probe writes one byte before and behind each batch, and a thread of this process stamps it by the raw monotonic
clock. A byte may wait for milliseconds in a buffer of the line. protocol/line_marks.py evaluates the stamps."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

import msgspec

from tollmeter.model import Failure, Visit
from tollmeter.protocol import NotTimed, Stamp, refused, retimed
from tollmeter.targets import Target
from tollmeter.targets.lines import ClockLine

_VISITS_NS = (100_000_000, 300_000_000, 1_000_000_000)
"""Batches of a visit, in all, and of its second and third attempt. The rate of a clock is known to a delay that few
bytes are spared over this length: 50 µs to 0.05 %. More than 0.35 s is refused real-time priority (priority.c)."""
_SAMPLES, _BATCHES = 64, 3
"""Of a visit, and of a sample. Many short samples: one that takes longer than a scheduler's slice is never undisturbed
at normal priority on a busy machine."""
_MOST_STAMPS = 100_000
_LAST_BYTES_S = 0.05
_PRIORITY = 2


class ExternalClock:
    """Implements targets.Target around another. name: the other's, `+` and the line's."""

    def __init__(self, name: str, inner: Target, line: ClockLine) -> None:
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
        def attempt(asked: Visit) -> tuple[bytes, Sequence[Stamp]]:
            marking = msgspec.structs.replace(asked, marks=self._line.far_end)
            with stamping(self._line) as stamps:
                stream = self._inner.run(executable, marking, revision)
            if len(stamps) >= _MOST_STAMPS:
                raise Failure(f"{self._line.name} never stops: {_MOST_STAMPS} bytes came in one visit")
            return stream, stamps

        return timed_over(self._line.name, visit, revision, attempt)


def timed_over(
    line: str, visit: Visit, revision: int, attempt: Callable[[Visit], tuple[bytes, Sequence[Stamp]]]
) -> bytes:
    """The visit's stream in the line's time: of the first of three attempts whose stamps give the rate of the target's
    clock. Each attempt is longer than the one before, so that the delays of its marks are a smaller part of it."""
    sentence = ""
    for whole_ns in _VISITS_NS:
        try:
            stream, stamps = attempt(_lasting(visit, whole_ns))
            return retimed(stream, stamps, line)
        except NotTimed as failure:
            sentence = failure.sentence
            if failure.is_stopped:
                return refused(visit, revision, "interrupted", sentence)
        except Failure as failure:
            return refused(visit, revision, "infrastructure", failure.sentence)
    return refused(visit, revision, "infrastructure", sentence)


def _lasting(visit: Visit, whole_ns: int) -> Visit:
    """A number of iterations that was found for shorter batches is looked for anew."""
    samples = max(visit.samples, _SAMPLES)
    asked = msgspec.structs.replace(
        visit, samples=samples, sample_ns=max(visit.sample_ns, whole_ns // (_BATCHES * samples))
    )
    is_first = whole_ns == _VISITS_NS[0]
    return asked if is_first else msgspec.structs.replace(asked, iterations=0, control_iterations=0)


@contextmanager
def stamping(line: ClockLine) -> Iterator[list[Stamp]]:
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


def _stamp(line: ClockLine, stop: int, stamps: list[Stamp]) -> None:
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
