# SPDX-License-Identifier: Apache-2.0
"""What the set-up says of what cannot be written."""

from __future__ import annotations

import errno
import os

import pytest

from tollmeter.library import places, set_up


def test_an_error_without_a_file_name_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: bool) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(set_up, "_set_up", refused)
    assert set_up.main([]) == set_up.INFRASTRUCTURE
    assert str(places.ROOT / "build") in capsys.readouterr().err
