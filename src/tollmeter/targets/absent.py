# SPDX-License-Identifier: Apache-2.0
"""A target that could not be opened: each of its visits states the reason, and the other targets continue."""

from __future__ import annotations

from tollmeter.model import Failure, Visit
from tollmeter.protocol import refused
from tollmeter.targets.asking import Asking
from tollmeter.targets.child import Ended


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
