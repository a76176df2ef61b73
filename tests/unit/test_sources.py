# SPDX-License-Identifier: Apache-2.0
"""Sources of others: fetched whole and with their own checksum, or not at all; one's own folder before that."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from tollmeter.library.asked import patterns
from tollmeter.model import Failure, Select, Suite
from tollmeter.toolchain import sources
from tollmeter.toolchain.sources import Source, bring, wanted

HELD = "src/core/it.c"


def archive(name: str = HELD) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:xz") as made:
        entry = tarfile.TarInfo(f"it-1.0/{name}")
        entry.size = 4
        made.addfile(entry, io.BytesIO(b"int;"))
    return raw.getvalue()


def source(content: bytes = b"") -> Source:
    return Source(
        name="it", summary="it 1.0", probes="any.it_*", variable="IT_SOURCE", holds=HELD, beside="libit0",
        archive="it_1.0.orig.tar.xz", sha256=hashlib.sha256(content or archive()).hexdigest(),
    )  # fmt: skip


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of Debian's with one package beside what is fetched; returns what is served from there."""
    served = tmp_path / "served"
    bins = tmp_path / "bin"
    for name, script in (
        ("apt-get", "echo \"'http://debian.example/pool/i/it/libit0_1.0_any.deb' libit0_1.0_any.deb 7 SHA256:1\""),
        ("apt-helper", f'[ "$2" = http://debian.example/pool/i/it/it_1.0.orig.tar.xz ] && cp {served} "$3"'),
    ):
        bins.mkdir(exist_ok=True)
        (bins / name).write_text(f"#!/bin/sh\n{script}\n")
        (bins / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bins}:{os.environ['PATH']}")
    monkeypatch.setattr(sources, "APT_HELPER", str(bins / "apt-helper"))
    monkeypatch.delenv("IT_SOURCE", raising=False)
    monkeypatch.delenv("TOLL_INSTALL", raising=False)
    served.write_bytes(archive())
    return served


def test_it_is_fetched_once_and_the_build_is_told(tmp_path: Path, apt: Path) -> None:
    assert bring(tmp_path, source())
    assert (tmp_path / "build/sources/it" / HELD).read_text() == "int;"
    assert (tmp_path / "build/sources/it.path").read_text() == f"{tmp_path}/build/sources/it\n"
    apt.unlink()
    assert not bring(tmp_path, source())


@pytest.mark.parametrize(
    ("served", "wanted_sum", "said"),
    [
        (archive() + b" ", archive(), "another checksum"),
        (b"no archive", b"no archive", "cannot be unpacked"),
        (archive("else"), archive("else"), "holds no"),
    ],
)
def test_what_is_not_what_was_pinned_is_left_out(
    tmp_path: Path, apt: Path, served: bytes, wanted_sum: bytes, said: str
) -> None:
    apt.write_bytes(served)
    with pytest.raises(Failure, match=said):
        bring(tmp_path, source(wanted_sum))
    assert not (tmp_path / "build/sources/it").exists()
    assert not (tmp_path / "build/sources/it.path").exists()
    assert list((tmp_path / "build/sources").iterdir()) == []


def test_an_archive_that_is_not_there_is_a_sentence(tmp_path: Path, apt: Path) -> None:
    apt.unlink()
    with pytest.raises(Failure, match=r"it_1\.0\.orig\.tar\.xz cannot be fetched"):
        bring(tmp_path, source())


@pytest.mark.usefixtures("apt")
def test_nothing_is_fetched_where_nobody_may_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLL_INSTALL", "no")
    with pytest.raises(Failure, match="IT_SOURCE=DIR"):
        bring(tmp_path, source())


@pytest.mark.usefixtures("apt")
def test_ones_own_comes_first_and_must_be_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    (own / "src/core").mkdir(parents=True)
    monkeypatch.setenv("IT_SOURCE", str(own))
    with pytest.raises(Failure, match=r"holds no src/core/it\.c"):
        bring(tmp_path, source())
    (own / HELD).write_text("int;")
    assert bring(tmp_path, source())
    assert (tmp_path / "build/sources/it.path").read_text() == f"{own}\n"
    monkeypatch.delenv("IT_SOURCE")
    assert bring(tmp_path, source()), "back to the one that is fetched"


@pytest.mark.usefixtures("apt")
def test_what_went_away_is_not_built_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(tmp_path, source())
    (tmp_path / "build/sources/it" / HELD).unlink()
    monkeypatch.setenv("TOLL_INSTALL", "no")
    with pytest.raises(Failure):
        bring(tmp_path, source())
    assert not (tmp_path / "build/sources/it.path").exists()


def test_it_is_wanted_by_its_probes_alone(tmp_path: Path) -> None:
    (tmp_path / "probes/any/it").mkdir(parents=True)
    for name in ("it_one", "other"):
        (tmp_path / f"probes/any/{name}.c").write_text("")
    told = "".join(f'{key} = "x"\n' for key in ("summary", "variable", "holds", "beside", "archive", "sha256"))
    (tmp_path / "probes/any/it/source.toml").write_text(f'{told}probes = "any.it_*"\n')
    assert [one.name for one in wanted(tmp_path, ["any.*"])] == ["it"]
    assert [one.name for one in wanted(tmp_path, ["any.it_one"])] == ["it"]
    assert not wanted(tmp_path, ["any.other", "none"])


def test_words_come_to_probes_before_any_is_built() -> None:
    suites = {"study": Suite(name="study", question="?", select=(Select(probe="any.it_*"), Select(probe="b.c")))}
    assert patterns(["study", "x=1", "d.*"], suites) == ["any.it_*", "b.c", "d.*"]
