# SPDX-License-Identifier: Apache-2.0
"""How far a heap of tests is, now and then, for minutes in which `make test` would say nothing: its make holds back
what pytest says until the heap is done, so that two heaps at once do not mix. PROGRESS_FD is where these lines go.
"""

from __future__ import annotations

import os
import time

import pytest

EVERY_S = 10.0


class Progress:
    def __init__(self, config: pytest.Config, fd: int) -> None:
        self._heap = " ".join(config.args) if len(config.args) == 1 else "the others"
        self._fd = fd
        self._began_s = self._told_s = time.monotonic()
        self._total = self._done = self._failed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed

    def pytest_runtest_logfinish(self) -> None:
        self._done += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            failed = f", {self._failed} failed" if self._failed else ""
            line = f"{self._heap}: {self._done} of {self._total} tests{failed}, {now_s - self._began_s:.0f} s\n"
            os.write(self._fd, line.encode())


def register(config: pytest.Config) -> None:
    """Where somebody listens."""
    if fd := os.environ.get("PROGRESS_FD"):
        config.pluginmanager.register(Progress(config, int(fd)))
