# SPDX-License-Identifier: Apache-2.0
"""Which of Debian's packages a guest's kernel comes from; apt is one that only says what it was asked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tollmeter.model import Failure
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.debian_kernel import fetched, newest

SMALL, WHOLE = "kernel-image-6.1.0-50-amd64-di", "linux-image-6.1.0-56-amd64"
APT = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in
  *--print-uris*) echo "'http://debian.example/debian/dists/bookworm/InRelease' InRelease 0" ;;
  *pkgnames*) cat $(echo "$*" | sed 's/.*sourcelist=\\([^ ]*\\).*/\\1/') > {folder}/sources; cat {folder}/names ;;
  *depends*) printf 'linux-image-amd64\\n  Depends: {whole}\\n' ;;
  *download*)
    for name in "$@"; do :; done
    test -e {folder}/$name || {{ echo "E: 404 of $name" >&2; exit 100; }}
    cp {folder}/$name ./$name.udeb ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scripts = {"apt-get": APT, "apt-cache": APT, "dpkg": '#!/bin/sh\ncat "$2"\n'}
    for name, script in scripts.items():
        path = tmp_path / name
        path.write_text(script.format(folder=tmp_path, whole=WHOLE))
        path.chmod(0o755)
    (tmp_path / "names").write_text(f"kernel-image-6.1.0-9-amd64-di\n{SMALL}\nkernel-image-6.1.0-50-armmp-di\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def package(path: Path, image: str, content: bytes) -> None:
    with tarfile.open(path, "w") as packed:
        member = tarfile.TarInfo(f"./boot/{image}")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))


def kernel() -> bytes:
    wanted = BOARDS["guest:x32"].kernel
    assert wanted
    return fetched(wanted).image.read_bytes()


def test_the_installers_package_is_taken_which_is_an_eighth_of_the_other(folder: Path) -> None:
    package(folder / SMALL, "vmlinuz", b"small")
    package(folder / WHOLE, f"vmlinuz-{WHOLE}", b"whole")
    assert kernel() == b"small"
    assert " http://debian.example/debian bookworm main/debian-installer" in (folder / "sources").read_text()
    assert WHOLE not in (folder / "asked").read_text()


@pytest.mark.parametrize("names", [SMALL, ""])
def test_where_that_cannot_be_had_the_whole_package_is(folder: Path, names: str) -> None:
    (folder / "names").write_text(names)
    package(folder / WHOLE, f"vmlinuz-{WHOLE}", b"whole")
    assert kernel() == b"whole"
    assert "sourcelist" not in (folder / "asked").read_text().splitlines()[-1], "by the system's own sources"


@pytest.mark.usefixtures("folder")
def test_where_neither_can_be_had_the_reason_names_it() -> None:
    with pytest.raises(Failure) as caught:
        kernel()
    assert f"cannot download {WHOLE}: E: 404" in caught.value.sentence


def test_the_newest_is_by_its_number_and_not_by_its_letters() -> None:
    assert newest(["linux-image-amd64", "Depends:", "linux-image-6.1.0-9-amd64", WHOLE]) == WHOLE
    assert newest(["linux-image-6.9.1-amd64", "linux-image-6.12.1-amd64"]) == "linux-image-6.12.1-amd64"
    assert newest(["linux-image-amd64"]) is None
