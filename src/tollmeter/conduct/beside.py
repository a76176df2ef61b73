# SPDX-License-Identifier: Apache-2.0
"""Reviews concurrent with visits: a thread on the host's CPU judges while a visit is measured on another CPU, unless
the core's width shows that this disturbs the visits, or the system starts no thread."""

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
"""Visits of each kind, beside a review and alone, from which their contended shares are compared. Reviews wait for the
visits if more are contended beside them than chance explains; if only a few more are, waiting costs more."""
_TURN_S = 0.001
"""Time in seconds for which the interpreter lets a review continue when a visit has ended. The default of 5 ms would
apply to each system call."""


class ReviewThread(Generic[T]):
    """A thread that makes one review at a time. The host's CPU may be the sibling of the measured CPU, as in guests
    whose hypervisor moves their CPUs: visits concurrent with a review are then contended more often than other
    visits."""

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
        return self._under_way is not None

    def begin(self, make: Callable[[], T], new: Sequence[Outcome]) -> None:
        """Begins a review. new: visits that the review reads for the first time. Their columns are made before the
        thread starts, since visits are added while it runs."""
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
        """Returns the result if it is available; None if it is not. wait: waits for it."""
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
        if min(self._visits) < _LEAST_VISITS:
            return False
        alone, beside = (some / of for some, of in zip(self._contended, self._visits, strict=True))
        usual = sum(self._contended) / sum(self._visits)
        error = sqrt(usual * (1 - usual) * sum(1 / of for of in self._visits))
        return beside - alone > max(FEW, PROVEN * error)

    def close(self) -> None:
        """Waits for the thread."""
        if self._threads:
            self._threads.shutdown()
        sys.setswitchinterval(self._turn_s)


def _priority() -> tuple[int, int] | tuple[()]:
    """Returns policy and priority of this thread; an empty tuple if the system does not report them."""
    with contextlib.suppress(OSError):
        return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    return ()


def _as_the_host(policy: int = os.SCHED_OTHER, priority: int = 0) -> None:
    """Sets this thread to the priority of the visiting thread, which waits for the interpreter's lock while other
    programs keep this thread from its CPU."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
