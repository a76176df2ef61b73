# SPDX-License-Identifier: Apache-2.0
"""Makes reviews during visits: a thread on the CPU of the host process judges while a visit is measured on another CPU.
If the width of the core shows that this disturbs the visits, or the system starts no thread, reviews wait for the
visits."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import sqrt
from typing import Generic, TypeVar

from tollmeter.experiment.limits import FEW, PROVEN
from tollmeter.model import Outcome, Samples

T = TypeVar("T")

_LEAST_VISITS = 20
"""Number of visits during reviews, and of others, from which their contended shares are compared. Reviews wait for the
visits if far more of these are contended during reviews, beyond chance; if only a few more are, waiting costs more."""
_TURN_S = 0.001
"""Time in seconds for which the interpreter lets a review continue when a visit has ended. The default of 5 ms would
apply to each system call of the visiting thread."""


class ReviewThread(Generic[T]):
    """A thread that makes one review at a time. The CPU of the host process may be the sibling hyperthread of the
    measured CPU, as in guests whose hypervisor moves their CPUs: visits during a review are then contended more often
    than other visits."""

    def __init__(self, *, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._threads = ThreadPoolExecutor(1, initializer=_as_the_host, initargs=_priority()) if is_allowed else None
        self._turn_s = sys.getswitchinterval()
        if is_allowed:
            sys.setswitchinterval(_TURN_S)
        self._under_way: Future[T] | None = None
        self._visits, self._contended = [0, 0], [0, 0]

    @property
    def is_under_way(self) -> bool:
        """Returns whether a review was begun whose result was not taken."""
        return self._under_way is not None

    def begin(self, make: Callable[[], T], new: Sequence[Outcome]) -> None:
        """Begins a review. new: visits that the review reads for the first time. Their columns are made here, since
        visits are added to the same block while the thread runs."""
        for outcome in new:
            Samples.of(outcome.samples).columns.columns()
        if self._threads and self._is_allowed:
            try:
                self._under_way = self._threads.submit(make)
            except RuntimeError:  # the system starts no thread
                self._is_allowed = False
        if self._under_way is None:
            self._under_way = Future()
            self._under_way.set_result(make())

    def taken(self, *, wait: bool) -> T | None:
        """Returns the result of the review that was begun; None if it is not available. wait: whether to wait for
        it."""
        done = self._under_way
        if done is None or not (wait or done.done()):
            return None
        self._under_way = None
        return done.result()

    def add(self, outcome: Outcome) -> None:
        """Counts a visit, and whether it waited for an uncontended core."""
        beside = int(self.is_under_way)
        self._visits[beside] += 1
        self._contended[beside] += outcome.waited_ns > 0
        self._is_allowed = self._is_allowed and not self._disturbs()

    def _disturbs(self) -> bool:
        """Returns whether visits during reviews are contended more often than other visits, beyond chance."""
        if min(self._visits) < _LEAST_VISITS:
            return False
        share_alone, share_beside = (
            contended / visits for contended, visits in zip(self._contended, self._visits, strict=True)
        )
        share = sum(self._contended) / sum(self._visits)
        error = sqrt(share * (1 - share) * sum(1 / visits for visits in self._visits))
        return share_beside - share_alone > max(FEW, PROVEN * error)

    def close(self) -> None:
        """Waits for the thread, and restores the switch interval of the interpreter."""
        if self._threads:
            self._threads.shutdown()
        sys.setswitchinterval(self._turn_s)


def _priority() -> tuple[int, int] | tuple[()]:
    """Returns the scheduling policy and priority of this thread; empty if the system does not report them."""
    with contextlib.suppress(OSError):
        return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    return ()


def _as_the_host(policy: int = os.SCHED_OTHER, priority: int = 0) -> None:
    """Gives this thread the priority of the visiting thread, which waits for the interpreter's lock while other
    programs keep this thread from its CPU."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
