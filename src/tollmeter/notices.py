# SPDX-License-Identifier: Apache-2.0
"""Sentences for the user beside the requested output. The command listens to them; a program that uses the library
may."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def notify(sentence: str) -> None:
    for listener in _listeners:
        listener(sentence)


def listen(listener: Callable[[str], None]) -> None:
    """From now on each sentence is given to it too."""
    if listener not in _listeners:
        _listeners.append(listener)
