# SPDX-License-Identifier: Apache-2.0
"""A board at the end of a serial line, with the protocol of guests: a line with a program and its arguments is sent,
and records and the exit status are received (emulator/init.c).

The line may lose, duplicate and insert bytes. Records are recognized by their checksums, and the end of a visit by its
exit status or by a complete stream of records. A visit of which a record is lost is requested again: no stream is
assembled from two visits.

If this machine is the board's clock, the probe marks its batches on the line, by bytes that no text contains. The bytes
get timestamps when they arrive, and are removed."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tollmeter.model import Failure, Visit
from tollmeter.protocol import MARK, Damaged, Stamp, check_order, closed, find_lines, refused, words
from tollmeter.targets.child import Ended
from tollmeter.targets.external_clock import Port, timed_over
from tollmeter.targets.target import Target, not_started, trouble

_ENDED = re.compile(rb"\nguest (ended|cannot) (\d{1,5})\n")
_ATTEMPTS = 3
_GRACE_S = 5.0
_QUIET_S = 0.3
"""Seconds to wait after a complete stream for the exit status, which the line may lose."""
_MOST_BYTES = 2 * 1024 * 1024
_ONLY_CPU = 0
_ITS_OUTPUT = "-"
"""The output to which a program on the board writes its marks."""


class SerialLine(Target):
    """A target for a board. Programs on the board are named /ABI/FAMILY.NAME. timed: this machine is the clock, over
    the same line; the target's name then contains the line twice, joined by `+`."""

    def __init__(self, name: str, timed: bool = False) -> None:
        self.name = name
        self._timed = timed
        self._port = Port(name.partition("+")[0].removeprefix("serial:"))
        self._stamps: list[Stamp] = []
        self._silent: Failure | None = None

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        here = msgspec.structs.replace(visit, cpus=(_ONLY_CPU,))
        if not self._timed:
            return self._visited(executable, here, revision)

        def attempt(requested: Visit) -> tuple[bytes, Sequence[Stamp]]:
            marking = msgspec.structs.replace(requested, marks=_ITS_OUTPUT, priority="normal")
            return self._visited(executable, marking, revision), self._stamps

        return timed_over(self._port.name, here, revision, attempt)

    def _visited(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            limit_s = visit.deadline_ms / 1000 + _GRACE_S
            ended = self._run_with_retries([_path_on_board(executable), *words(visit)], limit_s)
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        except Failure as failure:
            return refused(visit, revision, "infrastructure", failure.sentence)
        return closed(ended.output, visit, revision, trouble(ended, visit.deadline_ms))

    def interrupt(self) -> None:
        self._port.put(b"interrupt\n")

    def close(self) -> None:
        self._port.close()

    def _answered(self, executable: str, option: str) -> Ended:
        """Runs an executable with one option and returns how it ended. Raises Failure also if its answer has no
        complete stream."""
        ended = self._run_with_retries([_path_on_board(executable), option], self.asking_s)
        if not _is_whole(ended.output) and not trouble(ended, 0):
            raise Failure(f"{executable} {option}: its records did not arrive whole", 5)
        return ended

    def _run_with_retries(self, arguments: Sequence[str], limit_s: float) -> Ended:
        """Runs a program on the board, up to three times, and returns the first complete answer, else the last one.
        Raises OSError if the program was not started, Failure if there is no answer."""
        if self._silent:
            raise self._silent
        for attempt in range(_ATTEMPTS):
            self._port.forget()
            self._stamps = []
            self._port.put(b"\n" + " ".join(arguments).encode() + b"\n")
            try:
                ended = self._answer(limit_s)
            except OSError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            if _is_whole(ended.output):
                break
        return ended

    def _answer(self, limit_s: float) -> Ended:
        """Returns the board's answer. Raises OSError if the board could not start the program, Failure if no answer
        arrived."""
        output, deadline = bytearray(), time.monotonic() + limit_s
        while len(output) <= _MOST_BYTES:
            if end := _ENDED.search(output):
                if end[1] == b"cannot":
                    raise OSError(int(end[2]), "the board refused it")
                return Ended(bytes(output[: end.start()]), os.waitstatus_to_exitcode(int(end[2])), None)
            is_whole = output.endswith(b"}\n") and _is_whole(bytes(output))
            wait_s = _QUIET_S if is_whole else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._port.fileno()], [], [], wait_s)
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            if ready:
                received = self._port.take()
                if self._timed:
                    self._stamps += [Stamp(byte, now) for byte in received if byte >= MARK]
                    received = bytes(byte for byte in received if byte < MARK)
                output += received
            elif output:
                return Ended(bytes(output), 0, None if is_whole else ("timeout", f"no end within {limit_s:.3g} s"))
            else:
                sentence = f"nothing came over {self.name} within {limit_s:g} s: is a board there, and ready?"
                self._silent = Failure(sentence, 5)
                raise self._silent
        sentence = f"{self.name} never stops: it said more than {_MOST_BYTES >> 20} MiB"
        return Ended(bytes(output), 0, ("failed", sentence))


def _path_on_board(executable: str) -> str:
    path = Path(executable)
    return f"/{path.parent.name}/{path.name}"


def _is_whole(output: bytes) -> bool:
    try:
        check_order(find_lines(output))
    except Damaged:
        return False
    return True
