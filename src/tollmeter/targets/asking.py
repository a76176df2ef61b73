# SPDX-License-Identifier: Apache-2.0
"""A target asks an executable to describe itself, or the machine: the same for every way of running it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf

from tollmeter.model import Failure, Visit
from tollmeter.protocol import refused
from tollmeter.targets.child import Ended
from tollmeter.targets.exit_reasons import not_started, trouble


class Asking(ABC):
    """The part of targets.Target that asks an executable to describe itself and prints like a visit's records."""

    asking_s = 20.0
    where = ""
    """Behind the executable in the sentence of a failure."""

    def describe(self, executable: str) -> bytes:
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        return self._ask(executable, "--machine")

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Nothing to do, where an executable needs no preparation."""
        del executables, limit_s

    def _ask(self, executable: str, option: str) -> bytes:
        """Raises Failure where it cannot be started, or goes wrong."""
        try:
            ended = self._answered(executable, option)
        except OSError as error:
            raise Failure(f"{executable} {option}: {not_started(error)[1]}", exit_code=5) from error
        if ill := trouble(ended, int(self.asking_s * 1000)):
            raise Failure(f"{executable} {option}{self.where}: {ill[1]}", exit_code=5)
        return ended.output

    @abstractmethod
    def _answered(self, executable: str, option: str) -> Ended:
        """Raises OSError where it cannot be started, Failure where the target cannot be reached."""


# ---- a target that could not be opened -------------------------------------------------------------------------------


class Absent(Asking):
    """Implements targets.Target."""

    def __init__(self, name: str, failure: Failure) -> None:
        self.name = name
        self._failure = failure

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        del executable
        return refused(visit, revision, "infrastructure", self._failure.sentence)

    def interrupt(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing was opened."""

    def _answered(self, executable: str, option: str) -> Ended:
        del executable, option
        raise self._failure
