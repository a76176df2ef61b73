# SPDX-License-Identifier: Apache-2.0
"""Where probes run. Every target answers with whole streams of records, whatever connects it (docs/add-a-target.md)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

from tollmeter.model import Visit


class Target(Protocol):
    """A machine, guest or emulator. `run` never raises for what a probe does, and leaves no process behind."""

    name: str

    def describe(self, executable: str) -> bytes:
        """What `EXECUTABLE --describe` prints. Raises Failure where it cannot be run."""

    def machine(self, executable: str) -> bytes:
        """What `EXECUTABLE --machine` prints. Raises Failure where it cannot be run."""

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        """The whole stream of one visit: as it came, or completed with the reason why it did not come."""

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Names the executables of the next visits, so that a target which packs them does so once. limit_s: the
        longest time that this may take; an executable that is not ready by then is reported in each of its visits."""

    def close(self) -> None:
        """Ends what was kept open between visits. A target that is not closed ends with this process."""

    def interrupt(self) -> None:
        """Asks the running visit, if any, to end after its current sample. Safe inside a signal handler."""


class Lack(NamedTuple):
    """What a target needs and does not find, and the Debian packages that bring it."""

    reason: str
    packages: tuple[str, ...] = ()
