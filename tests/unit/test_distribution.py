# SPDX-License-Identifier: Apache-2.0
"""The line that installs what is missing, in the words of whichever distribution this is."""

from __future__ import annotations

import shutil

import pytest

from tollmeter.extras import install_line

NATIVE = ["gcc-12", "g++-12", "libc6-dev", "make"]


def here(monkeypatch: pytest.MonkeyPatch, *programs: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)


@pytest.mark.parametrize(
    ("manager", "line"),
    [
        ("apt-get", "apt-get update && apt-get install --no-install-recommends gcc-12 g++-12 libc6-dev make"),
        ("dnf", "dnf install gcc gcc-c++ glibc-devel glibc-static make"),
        ("apk", "apk add gcc g++ musl-dev linux-headers make"),
        ("pacman", "pacman -S --needed gcc glibc linux-api-headers make"),
    ],
)
def test_each_distribution_has_its_own_words(manager: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, manager)
    assert install_line([*NATIVE, "make"]) == f"`{line}`"


def test_what_has_no_name_here_is_told_by_debians(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, "dnf")
    told = install_line(["libc6-dev-i386", "lib32gcc-12-dev", "gcc-12-s390x-linux-gnu"])
    assert told.startswith("`dnf install glibc-devel.i686 glibc-static.i686 libgcc.i686`; ")
    assert "Debian calls gcc-12-s390x-linux-gnu" in told
    assert "dnf" not in install_line(["gcc-12-s390x-linux-gnu"])


def test_a_system_without_any_of_them_is_told_debians_line(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch)
    assert install_line(["make"]).startswith("on Debian, `apt-get update && apt-get install")
