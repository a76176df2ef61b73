# SPDX-License-Identifier: Apache-2.0
"""This machine, natively."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from tollmeter.model import Failure, Visit
from tollmeter.protocol import closed, refused, words
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.judging import not_started, trouble

_ASKING_S = 20.0
_GRACE_S = 2.0
"""The probe keeps its own deadline, and tells why it ended. The host's is for a probe that cannot."""


class Local:
    """Implements targets.Target."""

    name: str = "local"

    def __init__(self) -> None:
        self._child: Child | None = None

    def describe(self, executable: str) -> bytes:
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        return self._ask(executable, "--machine")

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            ended = self._finish(self._command(executable, words(visit)), visit.deadline_ms / 1000 + _GRACE_S)
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        return closed(ended.output, visit, revision, trouble(ended, visit.deadline_ms))

    def prepare(self, executables: Sequence[str]) -> None:
        """Nothing to do: they are here."""

    def close(self) -> None:
        """Nothing is kept open."""

    def interrupt(self) -> None:
        if self._child:
            self._child.signal(signal.SIGINT)

    def _ask(self, executable: str, option: str) -> bytes:
        try:
            ended = self._finish(self._command(executable, (option,)), _ASKING_S)
        except OSError as error:
            raise Failure(f"{executable} {option}: {not_started(error)[1]}", exit_code=5) from error
        ill = trouble(ended, int(_ASKING_S * 1000))
        if ill:
            raise Failure(f"{executable} {option}: {ill[1]}", exit_code=5)
        return ended.output

    def _command(self, executable: str, told: Sequence[str]) -> list[str]:
        return [executable, *told]

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        self._child = Child(command)
        try:
            return self._child.finish(limit_s)
        finally:
            self._child = None
