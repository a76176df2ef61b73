# SPDX-License-Identifier: Apache-2.0
"""Where probes run. Whatever the way there, a target answers with whole streams of records (docs/add-a-target.md)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol, runtime_checkable

from tollmeter.model import Visit
from tollmeter.targets.setup_queue import Forecast, Place, Staying


class Target(Protocol):
    """One place that runs executables. `run` never raises for what a probe does, and leaves no process behind."""

    name: str

    def describe(self, executable: str) -> bytes:
        """What `EXECUTABLE --describe` prints. Raises Failure where it could not be asked."""

    def machine(self, executable: str) -> bytes:
        """What `EXECUTABLE --machine` prints. Raises Failure where it could not be asked."""

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        """One visit's whole stream: as it came, or closed with the reason why it did not."""

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Tells what may be asked for next, so that a place which must be packed is packed once. limit_s: what that may
        take; one that is not there by then says so in each visit."""

    def close(self) -> None:
        """Ends whatever was kept open between visits. What was not closed ends with this process."""

    def interrupt(self) -> None:
        """Asks the visit under way, if any, to end after its current sample. Safe inside a signal handler."""


@runtime_checkable
class Foresees(Protocol):
    """A place that prepares layouts before their visits are asked for."""

    def expect(self, forecast: Forecast) -> None:
        """What the next visits are, in place of what was expected before."""

    def is_ready(self, place: Place) -> bool:
        """Whether its layout is prepared, and waits for its first visit; or could not be prepared."""

    def is_begun(self, place: Place) -> bool:
        """Whether it is, or is being prepared: its first visit does not tell what that takes."""

    def staying(self, place: Place) -> Staying | None:
        """Who waits for another visit of the place's layout; None where nobody does."""
