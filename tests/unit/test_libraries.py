# SPDX-License-Identifier: Apache-2.0
"""Libraries that single probes are compiled with: what is missing, what is brought, and what is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tollmeter.model import Failure
from tollmeter.toolchain import libraries

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _may_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOLL_INSTALL", raising=False)


# Stands in for apt: knows one version, hands out the package that lies beside it, and notes each call.
APT = """#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/calls"
case "$*" in
  *print-uris*=1.0) echo "'http://pool/red/red_1.0.deb' red_1.0.deb 9 SHA256:0" ;;
  *download*=1.0) cp "$here/red.deb" red_1.0.deb ;;
  *update*) ;;
  *) echo "E: no such version" >&2; exit 100 ;;
esac
"""
TABLE = """
[red]
summary = "a library"
package = "red"
version = "{version}"
sha256 = "{sha256}"
with = ["blue"]

[blue]
summary = "another"
package = "blue"
version = "1.0"
sha256 = ""
abis = ["narrow"]
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "apt-get").write_text(APT)
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    (tmp_path / "probes").mkdir()
    _package(tmp_path)
    return tmp_path


def _package(root: Path) -> None:
    """A Debian package of one header."""
    content = root / "content"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "usr/include").mkdir(parents=True)
    (content / "usr/include/red.h").write_text("int red;\n")
    control = "Package: red\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: red\n"
    (content / "DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "-b", content, root / "tools/red.deb"], check=True, capture_output=True)
    table(root)


def table(root: Path, version: str = "1.0", sha256: str = "") -> None:
    whole = hashlib.sha256((root / "tools/red.deb").read_bytes()).hexdigest()
    (root / "probes/libraries.toml").write_text(TABLE.format(version=version, sha256=sha256 or whole))


def test_what_is_missing_is_told_by_abi(root: Path) -> None:
    assert libraries.missing(root, ["red"], ["wide"]) == ["red"]
    assert libraries.missing(root, ["red"], ["wide", "narrow"]) == ["red", "blue"]
    assert libraries.missing(root, [], ["narrow"]) == []
    with pytest.raises(Failure, match="green"):
        libraries.missing(root, ["green"], ["wide"])


def test_what_was_brought_is_there_and_not_brought_again(root: Path) -> None:
    libraries.bring(root, "red")
    assert (root / "build/libraries/red/usr/include/red.h").is_file()
    assert libraries.missing(root, ["red"], ["wide"]) == []
    before = (root / "tools/calls").read_text()
    libraries.bring(root, "red")
    assert (root / "tools/calls").read_text() == before


def test_a_file_that_is_not_the_one_that_is_pinned_is_refused(root: Path) -> None:
    table(root, sha256="0" * 64)
    with pytest.raises(Failure, match="not the file that is pinned"):
        libraries.bring(root, "red")
    assert libraries.missing(root, ["red"], ["wide"]) == ["red"]


def test_a_version_that_nobody_has_is_looked_for_in_lists_of_our_own_and_then_told(root: Path) -> None:
    table(root, version="2.0")
    with pytest.raises(Failure, match=r"red 2\.0 cannot be had here: E: no such version"):
        libraries.bring(root, "red")
    calls = (root / "tools/calls").read_text().splitlines()
    assert [("update" in call) for call in calls] == [False, True, False]
    assert not (root / "build/libraries/apt").exists()


def test_without_apt_it_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failure, match="no apt"):
        libraries.bring(root, "red")


def test_where_nothing_may_be_installed_no_library_is_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLL_INSTALL", "no")
    monkeypatch.setattr(libraries, "_downloaded", lambda *_: pytest.fail("it was downloaded"))
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes/libraries.toml").write_bytes((ROOT / "probes/libraries.toml").read_bytes())
    with pytest.raises(Failure, match="TOLL_INSTALL=no forbids"):
        libraries.bring(tmp_path, next(iter(libraries.known(ROOT))))
