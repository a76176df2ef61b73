# SPDX-License-Identifier: Apache-2.0
"""Lines on which single bytes travel: a pseudo-terminal of this machine, or a serial port.

pty                          a pair that lives as long as the run
serial:PATH                  a port whose two ends are one: a plug that leads back, or one port seen from both sides
serial:PATH@BAUD:OTHER       this end at so many baud, and the path of the end that the target writes to"""

from __future__ import annotations

import contextlib
import os
import termios
import tty
from typing import Protocol

from tollmeter.extras import SERIAL, bring
from tollmeter.model import Failure
from tollmeter.root import ROOT

USUAL_BAUD = 115200
CHUNK = 4096


class ClockLine(Protocol):
    """name: as it was requested. far_end: the path that a probe writes to."""

    name: str
    far_end: str

    def fileno(self) -> int: ...

    def take(self, most: int = CHUNK) -> bytes:
        """The bytes that have come; empty where none have, or the other end is closed."""

    def forget(self) -> None:
        """Whatever came before now is no answer."""

    def close(self) -> None: ...


class Pty:
    """A pseudo-terminal; its far end stays open, so that no reader meets an end of file between two visits."""

    def __init__(self) -> None:
        self.name = "pty"
        self._near, self._far = os.openpty()
        tty.setraw(self._far)
        os.set_blocking(self._near, False)
        self.far_end = os.ttyname(self._far)

    def fileno(self) -> int:
        return self._near

    def take(self, most: int = CHUNK) -> bytes:
        with contextlib.suppress(OSError):
            return os.read(self._near, most)
        return b""

    def forget(self) -> None:
        while self.take():
            continue

    def close(self) -> None:
        os.close(self._near)
        os.close(self._far)


class Port:
    """A serial port at eight bits without parity. Raises Failure where it cannot be opened."""

    def __init__(self, words: str) -> None:
        self.name = f"serial:{words}"
        path, baud, self.far_end = parts_of(words)
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
        """Raises Failure where the line takes nothing."""
        import serial

        try:
            self._port.write(content)
        except (OSError, serial.SerialException) as error:
            raise Failure(f"{self.name} takes nothing: {_why(error)}", 5) from error

    def forget(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            self._port.reset_input_buffer()

    def close(self) -> None:
        self._port.close()


def parts_of(words: str) -> tuple[str, int, str]:
    """Path, baud and the far end's path of `PATH[@BAUD][:OTHER]`. Raises Failure."""
    near, _, far = words.partition(":")
    path, _, baud = near.partition("@")
    if not path or not (baud or str(USUAL_BAUD)).isdigit():
        raise Failure(f"serial:{words}: a line is serial:PATH, serial:PATH@BAUD or serial:PATH@BAUD:OTHER_END")
    return path, int(baud or USUAL_BAUD), far or path


def check_line(words: str) -> None:
    """Raises Failure for what is no line."""
    kind, _, rest = words.partition(":")
    if kind == "serial":
        parts_of(rest)
    elif words != "pty":
        raise Failure(f"{words!r} is no line: expected pty or serial:PATH")


def open_line(words: str) -> ClockLine:
    """Raises Failure."""
    check_line(words)
    return Pty() if words == "pty" else Port(words.removeprefix("serial:"))


def _why(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else str(error)
