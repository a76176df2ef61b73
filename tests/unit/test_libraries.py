# SPDX-License-Identifier: Apache-2.0
"""What probes are built with that is not ours: what is missing, what is brought whole and by its checksum, one's own
folder in its place, and what is refused."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tollmeter.library import places
from tollmeter.model import Failure
from tollmeter.targets import Lack
from tollmeter.toolchain import libraries

HELD = "src/core/it.c"

# Stands in for apt: knows one version of two packages, and notes each call. Its helper hands out what lies beside it.
APT = """#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/calls"
case "$*" in
  *red=1.0) echo "'http://pool/red/red_1.0.deb' red_1.0.deb 9 SHA256:0" ;;
  *libit0) echo "'http://pool/i/it/libit0_1.0_any.deb' libit0_1.0_any.deb 7 SHA256:1" ;;
  *update*) ;;
  *) echo "E: no such version" >&2; exit 100 ;;
esac
"""
HELPER = """#!/bin/sh
here=${0%/*}
while [ "$1" != download-file ]; do shift; done
case "$2" in
  http://pool/red/red_1.0.deb | http://pool/i/it/it_1.0.orig.tar.xz) cp "$here/${2##*/}" "$3" ;;
  *) echo "E: 404" >&2; exit 100 ;;
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

[it]
summary = "it 1.0"
package = "libit0"
archive = "it_1.0.orig.tar.xz"
sha256 = "{archive}"
holds = "src/core/it.c"
variable = "IT_SOURCE"
"""


def archive(name: str = HELD, *others: tarfile.TarInfo) -> bytes:
    """One file of four bytes, and what a test adds. Members without content are added as they are."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:xz") as made:
        for entry in (member(f"it-1.0/{name}"), *others):
            entry.size = 4 if entry.isreg() else 0
            made.addfile(entry, io.BytesIO(b"int;"))
    return raw.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, leads_to
    return entry


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in (("apt-get", APT), ("apt-helper", HELPER)):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    (tools / "it_1.0.orig.tar.xz").write_bytes(archive())
    monkeypatch.setattr(libraries, "APT_HELPER", str(tools / "apt-helper"))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("TOLL_INSTALL", raising=False)
    monkeypatch.delenv("IT_SOURCE", raising=False)
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
    subprocess.run(["dpkg-deb", "-b", content, root / "tools/red_1.0.deb"], check=True, capture_output=True)
    table(root)


def table(root: Path, version: str = "1.0", sha256: str = "", pinned: bytes = b"") -> None:
    whole = sha256 or hashlib.sha256((root / "tools/red_1.0.deb").read_bytes()).hexdigest()
    told = TABLE.format(version=version, sha256=whole, archive=hashlib.sha256(pinned or archive()).hexdigest())
    (root / "probes/libraries.toml").write_text(told)


def bring(root: Path, name: str) -> None:
    libraries.install_library(root, name, libraries.known_libraries(root)[name])


def is_missing(root: Path, name: str) -> bool:
    return name in libraries.missing_libraries(root, [name], ["wide"])


def test_missing_libraries_are_listed_by_abi(root: Path) -> None:
    assert libraries.missing_libraries(root, ["red"], ["wide"]) == ["red"]
    assert libraries.missing_libraries(root, ["red"], ["wide", "narrow"]) == ["red", "blue"]
    assert libraries.missing_libraries(root, [], ["narrow"]) == []
    with pytest.raises(Failure, match="green"):
        libraries.missing_libraries(root, ["green"], ["wide"])


def test_what_was_brought_is_there_and_not_brought_again(root: Path) -> None:
    bring(root, "red")
    assert (root / "build/libraries/red/usr/include/red.h").is_file()
    assert libraries.missing_libraries(root, ["red"], ["wide"]) == []
    before = (root / "tools/calls").read_text()
    bring(root, "red")
    assert (root / "tools/calls").read_text() == before


def test_a_file_that_is_not_the_one_that_is_pinned_is_refused(root: Path) -> None:
    table(root, sha256="0" * 64)
    with pytest.raises(Failure, match="not the file that is pinned"):
        bring(root, "red")
    assert libraries.missing_libraries(root, ["red"], ["wide"]) == ["red"]


def test_an_unavailable_version_is_looked_up_in_own_lists_and_then_reported(root: Path) -> None:
    table(root, version="2.0")
    with pytest.raises(Failure, match=r"red 2\.0 cannot be installed here: E: no such version"):
        bring(root, "red")
    calls = (root / "tools/calls").read_text().splitlines()
    assert [("update" in call) for call in calls] == [False, True, False]
    assert [one.name for one in (root / "build/libraries").iterdir()] == ["lock"]


def test_without_apt_the_message_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failure, match="no apt"):
        bring(root, "red")


def test_a_source_is_brought_from_beside_its_package(root: Path) -> None:
    bring(root, "it")
    assert (root / "build/libraries/it" / HELD).read_text() == "int;"
    (root / "tools/it_1.0.orig.tar.xz").unlink()
    bring(root, "it")


def test_a_source_that_is_not_there_is_a_sentence(root: Path) -> None:
    (root / "tools/it_1.0.orig.tar.xz").unlink()
    with pytest.raises(Failure, match=r"it_1\.0\.orig\.tar\.xz cannot be fetched"):
        bring(root, "it")


@pytest.mark.parametrize(
    ("served", "pinned", "said"),
    [
        (archive() + b" ", archive(), "not the file that is pinned"),
        (b"no archive", b"no archive", "cannot be unpacked"),
        (archive("else"), archive("else"), "holds no"),
    ],
)
def test_what_is_not_what_was_pinned_is_left_out(root: Path, served: bytes, pinned: bytes, said: str) -> None:
    (root / "tools/it_1.0.orig.tar.xz").write_bytes(served)
    table(root, pinned=pinned)
    with pytest.raises(Failure, match=said):
        bring(root, "it")
    assert [one.name for one in (root / "build/libraries").iterdir()] == ["lock"]


@pytest.mark.parametrize(
    "hostile",
    [
        [member("{outside}/landed")],
        [member("../landed")],
        [member("it-1.0/../../landed")],
        [member("it-1.0/folder", tarfile.SYMTYPE, "{outside}"), member("it-1.0/folder/landed")],
        [member("it-1.0/file", tarfile.SYMTYPE, "{outside}/landed"), member("it-1.0/file")],
        [member("it-1.0/file", tarfile.LNKTYPE, "{outside}/kept"), member("it-1.0/file")],
        [member("it-1.0/pipe", tarfile.FIFOTYPE)],
        [member("it-1.0/zero", tarfile.CHRTYPE)],
    ],
)
def test_nothing_of_an_archive_lands_outside_its_folder(root: Path, hostile: list[tarfile.TarInfo]) -> None:
    outside = root / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for one in hostile:
        one.name, one.linkname = (text.replace("{outside}", str(outside)) for text in (one.name, one.linkname))
    served = archive(HELD, *hostile)
    (root / "tools/it_1.0.orig.tar.xz").write_bytes(served)
    table(root, pinned=served)
    with pytest.raises(Failure, match="cannot be unpacked"):
        bring(root, "it")
    assert not [*root.rglob("landed"), *root.rglob("pipe"), *root.rglob("zero")]
    assert (outside / "kept").read_text() == "kept"
    assert [one.name for one in (root / "build/libraries").iterdir()] == ["lock"]


def test_another_checksum_is_another_library(root: Path) -> None:
    bring(root, "it")
    newer = archive() + b"\0"
    table(root, pinned=newer)
    assert is_missing(root, "it")
    (root / "tools/it_1.0.orig.tar.xz").write_bytes(newer)
    bring(root, "it")
    assert not is_missing(root, "it")


def test_nothing_is_fetched_where_installing_is_forbidden(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLL_INSTALL", "no")
    with pytest.raises(Failure, match="IT_SOURCE=DIR"):
        bring(root, "it")
    assert not (root / "tools/calls").exists()


@pytest.mark.parametrize("compiler", ["cc", Lack("no cc")])
def test_a_library_is_fetched_only_for_a_compiler(
    root: Path, checkout: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, compiler: str | Lack
) -> None:
    """Without one the probe that a release brought would be stale, and could not be built."""
    brought: list[str] = []
    checkout(root)
    monkeypatch.setattr(places, "find_compiler", lambda _: compiler)
    monkeypatch.setattr(libraries, "install_library", lambda _, name, __: brought.append(name))
    (root / "abis").mkdir()
    (root / "abis/own.toml").write_text('summary = "s"\ncompiler = ["cc"]\nruns_on = ["*"]\n[elf]\nclass = 64\n')
    places._install_libraries({"own": {"kernel.it"}}, {"kernel.it": ("it",)})
    assert brought == (["it"] if compiler == "cc" else [])


def test_ones_own_comes_first_and_must_be_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = root / "one's own"
    (own / "src/core").mkdir(parents=True)
    monkeypatch.setenv("IT_SOURCE", str(own))
    with pytest.raises(Failure, match=r"holds no src/core/it\.c"):
        bring(root, "it")
    (own / HELD).write_text("own;")
    bring(root, "it")
    assert (root / "build/libraries/it" / HELD).read_text() == "own;"
    monkeypatch.delenv("IT_SOURCE")
    assert is_missing(root, "it")
    bring(root, "it")
    assert (root / "build/libraries/it" / HELD).read_text() == "int;"
    assert (own / HELD).read_text() == "own;", "what was linked is nobody's to remove"


def test_what_went_away_is_not_built_with(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(root, "it")
    (root / "build/libraries/it" / HELD).unlink()
    told = root / "build/libraries/it.from"
    monkeypatch.setenv("TOLL_INSTALL", "no")
    with pytest.raises(Failure):
        bring(root, "it")
    assert told.read_text() == "" and not (root / "build/libraries/it").exists()
