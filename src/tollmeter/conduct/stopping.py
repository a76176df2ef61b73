# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, `kill` and a closed terminal: the first ends the run after the current sample, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from tollmeter.targets import Target

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """While entered, `asked` turns true at the first signal, and the second raises KeyboardInterrupt."""

    def __init__(self, targets: Iterable[Target], answer: Callable[[], object] = lambda: None) -> None:
        """answer: called at the first signal, from inside its handler."""
        self.asked = False
        self._targets = tuple(targets)
        self._answer = answer
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        for target in self._targets:
            target.interrupt()
        self._answer()
