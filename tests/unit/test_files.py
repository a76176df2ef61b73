# SPDX-License-Identifier: Apache-2.0
"""Folders from elsewhere: links are not written through, pipes and devices are not waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tollmeter.files import open_regular, read_regular, write_whole


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_link_is_replaced_and_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_text("precious")
    (tmp_path / "page").symlink_to(tmp_path / target)
    write_whole(tmp_path / "page", b"new")
    assert (tmp_path / "page").read_bytes() == b"new"
    assert not (tmp_path / "page").is_symlink()
    assert (tmp_path / "there").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page", "there"]


def test_what_is_no_file_is_neither_replaced_nor_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(OSError, match="not a file"):
            write_whole(tmp_path / name, b"new")
        with pytest.raises(OSError, match="not a file"):
            read_regular(tmp_path / name, 100)
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_is_appended_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    (tmp_path / "history").symlink_to(tmp_path / "there")
    with pytest.raises(OSError, match="symbolic"):
        open_regular(tmp_path / "history", "ab", follow=False)
    assert read_regular(tmp_path / "history", 8) == b"precious"
    with pytest.raises(OSError, match="larger"):
        read_regular(tmp_path / "there", 7)


def test_a_new_file_has_the_rights_that_the_person_gives_to_all(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "page", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o640


def test_a_file_that_has_no_bytes_yet_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/kmsg, which is a regular file."""
    monkeypatch.setattr("tollmeter.files.stat.S_ISREG", lambda _: True)
    os.mkfifo(tmp_path / "messages")
    reader = os.open(tmp_path / "messages", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "messages", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="seek"):
            read_regular(tmp_path / "messages", 100)
    finally:
        os.close(reader)
        os.close(writer)
