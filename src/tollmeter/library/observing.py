# SPDX-License-Identifier: Apache-2.0
"""An observer that does nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tollmeter.conduct import Observer
from tollmeter.model import Machine, Outcome, Visit
from tollmeter.plan import Plan


@contextlib.contextmanager
def unseen(plan: Plan, machine: Machine) -> Iterator[Observer]:
    del plan, machine
    yield Blind()


class Blind:
    """Implements conduct.Observer for --quiet, and for programs."""

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        del visit, fraction, seconds_left

    def outcome(self, outcome: Outcome) -> None:
        del outcome
