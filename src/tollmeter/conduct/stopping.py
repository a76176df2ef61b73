# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, `kill` and a closed terminal: the first ends the run after the current sample, the second at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from tollmeter.targets import Target

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """While entered, `asked` turns true at the first signal, and the second raises KeyboardInterrupt.

    A signal may come in the middle of any line, one that is being printed or written to the journal too: its handler
    writes nothing. What is said of it is said by a thread, which sleeps until then. signal: the first one's number.

    Python delivers signals to the main thread only: entered in another thread it changes nothing.
    """

    def __init__(self, targets: Iterable[Target] = (), answer: Callable[[], object] = lambda: None) -> None:
        """answer: called once, at the first signal."""
        self.asked = False
        self.signal: int | None = None
        self._targets = tuple(targets)
        self._answer = answer
        self._before: dict[int, Any] = {}
        self._woken = threading.Event()
        self._answering = threading.Thread(target=self._answer_when_asked, daemon=True)

    def reach(self, targets: Iterable[Target]) -> None:
        """These are asked to end their visit from now on, and at once where somebody asked already."""
        self._targets = tuple(targets)
        if self.asked:
            self._interrupt()

    def __enter__(self) -> Stopping:
        with contextlib.suppress(RuntimeError):  # the system starts no thread: then nothing is said
            self._answering.start()
        with contextlib.suppress(ValueError):  # not the main thread
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._woken.set()
        if self._answering.ident is not None:
            self._answering.join()

    def _answer_when_asked(self) -> None:
        self._woken.wait()
        if self.asked:
            self._answer()

    def _on_signal(self, number: int, _: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked, self.signal = True, number
        self._interrupt()
        self._woken.set()

    def _interrupt(self) -> None:
        for target in self._targets:
            target.interrupt()
