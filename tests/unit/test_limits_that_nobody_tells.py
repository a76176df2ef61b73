# SPDX-License-Identifier: Apache-2.0
"""A sandbox that denies getrlimit: what may be held is then not known, and a run goes on."""

from __future__ import annotations

import resource

import pytest

from tollmeter.starting import make_room
from tollmeter.targets import local


def test_limits_that_the_system_does_not_tell_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: int) -> tuple[int, int]:
        raise PermissionError(1, "Operation not permitted")

    many = local._most_residents()
    monkeypatch.setattr(resource, "getrlimit", denied)
    assert make_room() is None
    assert 1 == local._most_residents() < many
