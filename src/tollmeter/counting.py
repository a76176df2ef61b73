# SPDX-License-Identifier: Apache-2.0
"""How far something is that takes long, on standard error: on a terminal in one line that is written over and at the
end taken away, elsewhere in a line now and then.
"""

from __future__ import annotations

import os
import sys
import time

_EVERY_S, _REDRAWN_EVERY_S = 5.0, 0.2
_FROM_THE_LEFT = "\r\033[K"


class Counting:
    """Is told how many are done, and of what. What is done before the first line would be due is never told of."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._redraws = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._due_s = time.monotonic() + self._pause_s()
        self._drawn = False

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._redraws and self._drawn:
            sys.stderr.write(_FROM_THE_LEFT)
            sys.stderr.flush()

    def __call__(self, of: str, done: int, total: int) -> None:
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + self._pause_s()
        self._drawn = True
        before, after = (_FROM_THE_LEFT, "") if self._redraws else ("", "\n")
        sys.stderr.write(f"{before}toll: {self._what} for {of}: {done} of {total}{after}")
        sys.stderr.flush()

    def _pause_s(self) -> float:
        return _REDRAWN_EVERY_S if self._redraws else _EVERY_S
