# SPDX-License-Identifier: Apache-2.0
"""A target whose visits are timed by this machine, at the other end of a line: `local+pty`, `local+serial:PATH`.

The probe writes one byte before and after each batch, and a thread of this process stamps it by the raw monotonic
clock. A byte may wait for milliseconds in a buffer of the line. protocol/line_marks.py evaluates the stamps.

Lines on which single bytes travel: pty                          a pseudo-terminal, a pair that lives as long as the run
serial:PATH                  a port whose two ends are one: a plug that leads back, or one port seen from both sides
serial:PATH@BAUD:OTHER       this end at so many baud, and the path of the end that the target writes to"""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

import msgspec

from tollmeter.extras import SERIAL, bring
from tollmeter.model import Failure, Visit
from tollmeter.protocol import NotTimed, Stamp, refused, retimed
from tollmeter.root import ROOT
from tollmeter.targets.child import Ended
from tollmeter.targets.target import Target

USUAL_BAUD = 115200
CHUNK = 4096
_VISITS_NS = (100_000_000, 300_000_000, 1_000_000_000)
"""Total time of a visit's batches in the first, second and third attempt. The relative error of a clock's rate is the
delay of the fastest bytes divided by this time: 50 µs give 0.05 %. Visits of more than 0.35 s get no real-time priority
(priority.c)."""
_SAMPLES, _BATCHES = 64, 3
"""Samples of a visit, and batches of a sample. Samples are short and many: on a busy machine at normal priority, a
sample that is longer than a scheduler's slice is always disturbed."""
_MOST_STAMPS = 100_000
_LAST_BYTES_S = 0.05
_PRIORITY = 2


# ---- lines -----------------------------------------------------------------------------------------------------------


class Pty:
    """A pseudo-terminal. Its far end stays open, so that no reader sees an end of file between two visits. name: as
    requested. far_end: the path to which a probe writes."""

    def __init__(self) -> None:
        self.name = "pty"
        self._near, self._far = os.openpty()
        tty.setraw(self._far)
        os.set_blocking(self._near, False)
        self.far_end = os.ttyname(self._far)

    def fileno(self) -> int:
        return self._near

    def take(self, most: int = CHUNK) -> bytes:
        """Returns the bytes that have arrived; empty if there are none, or if the other end is closed."""
        with contextlib.suppress(OSError):
            return os.read(self._near, most)
        return b""

    def forget(self) -> None:
        """Discards bytes that arrived before this call."""
        while self.take():
            continue

    def close(self) -> None:
        os.close(self._near)
        os.close(self._far)


class Port:
    """A serial port at eight bits without parity, with the methods of Pty. Raises Failure if it cannot be opened."""

    def __init__(self, words: str) -> None:
        self.name = f"serial:{words}"
        path, baud, self.far_end = device_parts(words)
        bring(ROOT, SERIAL)
        import serial

        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=1)
        except (serial.SerialException, ValueError, OSError) as error:
            raise Failure(f"the serial line {path} cannot be opened: {_why(error)}", 5) from error

    def fileno(self) -> int:
        return int(self._port.fileno())

    def take(self, most: int = CHUNK) -> bytes:
        import serial

        with contextlib.suppress(OSError, serial.SerialException):
            return bytes(self._port.read(most))
        return b""

    def put(self, content: bytes) -> None:
        """Writes to the line. Raises Failure if the line accepts no bytes."""
        import serial

        try:
            self._port.write(content)
        except (OSError, serial.SerialException) as error:
            raise Failure(f"{self.name} accepts no data: {_why(error)}", 5) from error

    def forget(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            self._port.reset_input_buffer()

    def close(self) -> None:
        self._port.close()


ClockLine = Pty | Port


def device_parts(words: str) -> tuple[str, int, str]:
    """Returns path, baud rate and far end's path of `PATH[@BAUD][:OTHER]`. Raises Failure."""
    near, _, far = words.partition(":")
    path, _, baud = near.partition("@")
    if not path or not (baud or str(USUAL_BAUD)).isdigit():
        raise Failure(f"serial:{words}: a line is serial:PATH, serial:PATH@BAUD or serial:PATH@BAUD:OTHER_END")
    return path, int(baud or USUAL_BAUD), far or path


def check_line(words: str) -> None:
    """Raises Failure if the words name no line."""
    kind, _, rest = words.partition(":")
    if kind == "serial":
        device_parts(rest)
    elif words != "pty":
        raise Failure(f"{words!r} is not a clock; expected pty or serial:PATH")


def open_line(words: str) -> ClockLine:
    """Returns the opened line. Raises Failure."""
    check_line(words)
    return Pty() if words == "pty" else Port(words.removeprefix("serial:"))


def _why(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)


# ---- visits ----------------------------------------------------------------------------------------------------------


class ExternalClock(Target):
    """A target that adds an external clock to another target. name: the other target's name, `+`, and the line's
    name."""

    def __init__(self, name: str, inner: Target, line: ClockLine) -> None:
        self.name = name
        self._inner, self._line = inner, line

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        self._inner.prepare(executables, limit_s)

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
        self._line.close()

    def _answered(self, executable: str, option: str) -> Ended:
        return self._inner._answered(executable, option)  # noqa: SLF001  of the same class

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
    """Returns the visit's stream in the line's time. Makes up to three attempts, until the stamps give the rate of the
    target's clock; each is longer than the previous one, so that delays of marks are a smaller part of it. attempt:
    makes a visit and returns its stream and the stamps."""
    sentence = ""
    samples = max(visit.samples, _SAMPLES)
    for whole_ns in _VISITS_NS:
        sample_ns = max(visit.sample_ns, whole_ns // (_BATCHES * samples))
        longer = msgspec.structs.replace(visit, samples=samples, sample_ns=sample_ns)
        if whole_ns != _VISITS_NS[0]:  # longer batches: the probe calibrates its iterations again
            longer = msgspec.structs.replace(longer, iterations=0, control_iterations=0)
        try:
            stream, stamps = attempt(longer)
            return retimed(stream, stamps, line)
        except NotTimed as failure:
            sentence = failure.sentence
            if failure.is_stopped:
                return refused(visit, revision, "interrupted", sentence)
        except Failure as failure:
            return refused(visit, revision, "infrastructure", failure.sentence)
    return refused(visit, revision, "infrastructure", sentence)


@contextmanager
def stamping(line: ClockLine) -> Iterator[list[Stamp]]:
    """Stamps all bytes that arrive while the block runs, and for a moment after it. Raises Failure if the line
    is gone."""
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
    """Stamps bytes as they arrive, sleeping between them. After the block has ended, it continues until no byte arrives
    for a while."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))  # of this thread, so that it wakes at once
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
