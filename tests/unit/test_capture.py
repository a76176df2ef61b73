# SPDX-License-Identifier: Apache-2.0
"""Captures from elsewhere: what unpacks without end, or has no records, is refused early and in little memory."""

from __future__ import annotations

import gzip
import io
import lzma
import resource
import signal
import tarfile
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.probe_streams import VISIT, whole
from tollmeter.library.bundling import imported, request_of, write_run
from tollmeter.model import Failure
from tollmeter.protocol import seal
from tollmeter.store.capture import Kept, captured
from tollmeter.store.journal import NAME, read_journal

MOST_BYTES = 24 << 20
MACHINE = {"k": "machine", "host": "h", "cpu": "c", "kernel": "Linux", "hypervisor": None, "cpus": 4,
           "memory_bytes": 1 << 30}  # fmt: skip
REQUEST = {"k": "request", "format": 2, "suite": {"name": "s", "question": "?"}, "tollmeter": "1", "seed": 1,
           "budget_seconds": 1}  # fmt: skip


def journal(visits: int) -> bytes:
    several = (whole(visit=msgspec.structs.replace(VISIT, id=number)) for number in range(visits))
    return seal([MACHINE, REQUEST]) + b"".join(several)


def in_archive(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(f"toll-run/{NAME}")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


LINES = b"\n" * (48 << 20)
HOSTILE = {
    "lines, gz": lambda: gzip.compress(LINES, 1),
    "lines, xz": lambda: lzma.compress(LINES, preset=0),
    "lines in an archive": lambda: gzip.compress(in_archive(LINES), 1),
    "one line": lambda: gzip.compress(b"x" * (48 << 20), 1),
    "lines behind a journal": lambda: gzip.compress(journal(2) + LINES, 1),
    "one visit without end": lambda: lzma.compress(journal(1) + whole() * 60_000, preset=1),
    "streams without end": lambda: b"".join(seal([{"k": "x", "i": at}]).split(b"\n")[0] + b"\n" for at in range(9000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_bundle_writes_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / "capture").write_bytes(HOSTILE[name]())
    tracemalloc.start()
    try:
        with pytest.raises(Failure) as caught:
            captured(tmp_path / "capture")
        assert caught.value.exit_code == 5 and tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, in_archive])
@pytest.mark.parametrize("noise", [b"", b"U-Boot 2023\r\n" * 900])
def test_a_capture_is_read_in_one_pass_whatever_packs_it(
    tmp_path: Path, pack: Callable[[bytes], bytes], noise: bytes
) -> None:
    (tmp_path / "capture").write_bytes(pack(noise + journal(40)))
    with Kept() as kept:
        capture = captured(tmp_path / "capture", kept.add)
        visits = b"".join(kept)
    assert (capture.visits, capture.session.lost) == (40, 0)
    assert visits == journal(40).removeprefix(capture.first)


def test_a_full_disk_leaves_no_part_of_a_run_and_advises_nothing_that_measures_here(tmp_path: Path) -> None:
    (tmp_path / "capture").write_bytes(journal(40))
    old, previous = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        visits: list[bytes] = []
        capture = captured(tmp_path / "capture", visits.append)
        request = request_of(tmp_path / "capture", capture)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, old[1]))
        with pytest.raises(Failure) as caught:
            write_run(capture, visits, request, tmp_path / "run")
        with pytest.raises(Failure) as kept:
            imported(tmp_path / "capture", tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, previous)
    assert caught.value.exit_code == 5 and "Nothing was imported" in caught.value.sentence
    assert "resume" not in caught.value.sentence
    assert kept.value.exit_code == 5 and f"write to {tempfile.gettempdir()}" in kept.value.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["capture"]
    assert len(read_journal(imported(tmp_path / "capture", tmp_path / "run")[0]).outcomes) == 40
