# SPDX-License-Identifier: Apache-2.0
"""A target that could not be opened: each of its visits states the reason, and the other targets continue."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tollmeter.model import Failure, Visit
from tollmeter.protocol import refused


class Absent:
    """Implements targets.Target."""

    def __init__(self, name: str, failure: Failure) -> None:
        self.name = name
        self._failure = failure

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Nothing to prepare it in."""

    def close(self) -> None:
        """Nothing was opened."""

    def describe(self, executable: str) -> bytes:
        del executable
        raise self._failure

    def machine(self, executable: str) -> bytes:
        del executable
        raise self._failure

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        del executable
        return refused(visit, revision, "infrastructure", self._failure.sentence)

    def interrupt(self) -> None:
        """Nothing is under way."""
