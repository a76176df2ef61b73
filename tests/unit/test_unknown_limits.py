# SPDX-License-Identifier: Apache-2.0
"""A sandbox that denies getrlimit or the mask of signals: what may be held is not known, what would wait comes at once,
and a run goes on."""

from __future__ import annotations

import resource
import signal

import pytest

from tollmeter import starting
from tollmeter.starting import make_room
from tollmeter.targets import local


def test_unknown_limits_of_the_system_block_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: int) -> tuple[int, int]:
        raise PermissionError(1, "Operation not permitted")

    many = local._most_workers()
    monkeypatch.setattr(resource, "getrlimit", denied)
    assert make_room() is None
    assert 1 == local._most_workers() < many


def test_signals_that_may_not_be_held_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_how: int, _mask: object) -> set[int]:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(signal, "pthread_sigmask", denied)
    monkeypatch.setattr(starting, "_holding", False)
    starting.hold_signals()
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with starting.hearing_signals():
        assert not starting.signal_received()
