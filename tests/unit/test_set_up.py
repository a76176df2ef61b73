# SPDX-License-Identifier: Apache-2.0
"""What the set-up leaves in build/, where another user made it, and what it says of what cannot be written."""

from __future__ import annotations

import errno
import os
import platform
from pathlib import Path

import pytest

from tollmeter.library import set_up

LONG_AGO = 1_000_000_000.0


def test_the_stamp_that_another_user_made_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = tmp_path / "build/stamp"
    stamp.parent.mkdir()
    stamp.write_text("theirs\n")
    theirs, real = stamp.stat().st_ino, os.utime

    def utime(path: Path, times: tuple[float, float]) -> None:
        if path.stat().st_ino == theirs:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        real(path, times)

    monkeypatch.setattr(os, "utime", utime)
    monkeypatch.setattr(set_up, "ROOT", tmp_path)
    set_up._leave([], LONG_AGO)
    assert (stamp.read_text().strip(), stamp.stat().st_mtime) == (platform.machine(), LONG_AGO)


def test_an_error_without_a_file_s_name_tells_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(set_up, "build", refused)
    assert set_up.main([]) == 5
    assert str(set_up.ROOT / "build") in capsys.readouterr().err
