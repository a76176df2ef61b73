# SPDX-License-Identifier: Apache-2.0
"""Sentences for the user on standard error, the progress of long work, and the time of one-off work. The command prints
the sentences; a program that uses the library may listen to them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

_listeners: list[Callable[[str], None]] = []


def notify(sentence: str) -> None:
    """Passes a sentence for the user to all listeners."""
    for listener in _listeners:
        listener(sentence)


@contextlib.contextmanager
def once_each() -> Iterator[None]:
    """Passes each sentence on only once while the block runs, since several runs of one plan repeat their sentences."""
    printed, before = set[str](), [*_listeners]

    def tell(sentence: str) -> None:
        if sentence not in printed:
            printed.add(sentence)
            for listener in before:
                listener(sentence)

    _listeners[:] = [tell]
    try:
        yield
    finally:
        _listeners[:] = before


def listen(listener: Callable[[str], None]) -> None:
    """Adds a listener, which receives each sentence from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


# ---- counting --------------------------------------------------------------------------------------------------------

_FIRST_S, _REDRAWN_EVERY_S = 5.0, 0.2
_FROM_THE_LEFT = "\r\033[K"


@contextlib.contextmanager
def doing(what: str) -> Iterator[None]:
    """Shows what is being done on a terminal while the block runs, and removes the line afterwards."""
    is_terminal = _redraws()
    if is_terminal:
        _write(f"{_FROM_THE_LEFT}toll: {what}\r")
    try:
        yield
    finally:
        if is_terminal:
            _write(_FROM_THE_LEFT)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _redraws() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Counting:
    """A progress function, called with the completed number and the total. Work that ends before the first line is due
    prints nothing."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._redraws = _redraws()
        self._pause_s = _REDRAWN_EVERY_S if self._redraws else _FIRST_S
        self._due_s = time.monotonic() + self._pause_s
        self._drawn = False

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._redraws and self._drawn:
            _write(_FROM_THE_LEFT)

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() < self._due_s:
            return
        self._pause_s *= 1 if self._redraws else 2
        self._due_s = time.monotonic() + self._pause_s
        self._drawn = True
        before, after = (_FROM_THE_LEFT, "") if self._redraws else ("", "\n")
        _write(f"{before}toll: {self._what}: {done} of {total}{after}")


# ---- work that is done once ------------------------------------------------------------------------------------------

# Builds, installations and downloads are no part of a run's budget. The check whether they are needed is repeated by
# each run, and is part of its budget.

_spent_s = [0.0]
_is_counting = [False]


@contextlib.contextmanager
def once() -> Iterator[None]:
    """Counts the time inside as one-off work; of nested blocks, only the outermost. For the main thread only."""
    if _is_counting[0]:
        yield
        return
    _is_counting[0], began = True, time.monotonic()
    try:
        yield
    finally:
        _is_counting[0] = False
        _spent_s[0] += time.monotonic() - began


def spent_once_s() -> float:
    """Returns the seconds of one-off work since this process began."""
    return _spent_s[0]
