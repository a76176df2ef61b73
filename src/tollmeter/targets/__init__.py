# SPDX-License-Identifier: Apache-2.0
"""Targets, on which probes run. Every target answers with complete streams of records, over any connection
(docs/add-a-target.md)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, Protocol

from tollmeter.extras import install_line
from tollmeter.model import Visit


class Target(Protocol):
    """A machine, guest or emulator. `run` raises for no failure of a probe, and leaves no process behind."""

    name: str

    def describe(self, executable: str) -> bytes:
        """Returns the output of `EXECUTABLE --describe`. Raises Failure if it cannot be run."""

    def machine(self, executable: str) -> bytes:
        """Returns the output of `EXECUTABLE --machine`. Raises Failure if it cannot be run."""

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        """Returns the complete stream of one visit: as received, or completed with the reason of the failure."""

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Names the executables of the next visits, so that a target which packs them does so once. limit_s: the
        longest time that this may take; an executable that is not ready by then is reported in each of its visits."""

    def close(self) -> None:
        """Closes connections and processes that are open between visits. A target that is not closed ends with this
        process."""

    def interrupt(self) -> None:
        """Asks the running visit, if any, to end after its current sample. Safe inside a signal handler."""


class Lack(NamedTuple):
    """The missing requirement of a target or a compiler, and the Debian packages that provide it, or else another
    remedy."""

    reason: str
    packages: tuple[str, ...] = ()
    otherwise: str = ""

    @property
    def mend(self) -> str:
        return install_line(self.packages) if self.packages else self.otherwise
