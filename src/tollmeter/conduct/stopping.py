# SPDX-License-Identifier: Apache-2.0
"""Handles Ctrl-C, `kill` and a closed terminal: the first signal ends the run after the current sample, the second ends
it immediately."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tollmeter.model import Failure

_INTERRUPTED = 130
"""Exit status after SIGINT, as a shell returns it: 128 plus the number of the signal, 2."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """A context in which the first signal sets `asked`, and the second raises KeyboardInterrupt. signal: number of the
    first signal.

    A signal may arrive during a write to the journal or terminal, so its handler writes nothing, and a sleeping thread
    prints the message. Python delivers signals to the main thread only: in another thread the context has no effect. A
    Failure after the first signal keeps its sentence, and gets the exit code of an interrupted command."""

    def __init__(self, answer: Callable[[], object] = lambda: None) -> None:
        """Creates the context. answer: called once, in a thread, after the first signal."""
        self.asked = False
        self.signal: int | None = None
        self._interrupts: tuple[Callable[[], object], ...] = ()
        self._answer = answer
        self._before: dict[int, Any] = {}
        self._woken = threading.Event()
        self._answering = threading.Thread(target=self._answer_when_asked, daemon=True)

    def reach(self, *interrupts: Callable[[], object]) -> None:
        """Sets the functions by which a signal ends the operations in progress, each safe inside a signal handler. If a
        signal has already arrived, calls them immediately."""
        self._interrupts = interrupts
        if self.asked:
            self._interrupt()

    def __enter__(self) -> Stopping:
        with contextlib.suppress(RuntimeError):  # the system starts no thread: no message is printed
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
        if self.asked and isinstance(error, Failure):
            raise Failure(f"interrupted: {error.sentence}", _INTERRUPTED) from error

    def _answer_when_asked(self) -> None:
        """Waits for the first signal or the end of the context, and answers the signal."""
        self._woken.wait()
        if self.asked:
            self._answer()

    def _on_signal(self, number: int, _: object) -> None:
        """Handles a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked, self.signal = True, number
        self._interrupt()
        self._woken.set()

    def _interrupt(self) -> None:
        """Ends the operations in progress."""
        for interrupt in self._interrupts:
            interrupt()
