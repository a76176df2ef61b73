# SPDX-License-Identifier: Apache-2.0
"""What a bundle wrote on another machine: its journal, an archive of its folder, or what a serial line brought of it.

The file is data, and may come from anybody: nothing of it is executed, and no file of an archive is extracted."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from tollmeter.files import open_regular, read_regular
from tollmeter.model import Failure
from tollmeter.protocol import Damaged, Head, Line, Outcomes, check_order, clean, find_lines, head, joined
from tollmeter.store.journal import NAME, Session, read_note

_MOST_BYTES = 1 << 30
_MOST_FILES = 10_000
_PIECE = 1 << 20
_FAILED = ("failed", "wrong_answer", "timeout")


class Capture(NamedTuple):
    """first: the stream that describes the machine. lost: damaged streams. failures: reasons by probe."""

    first: tuple[Line, ...]
    head: Head
    visits: tuple[bytes, ...]
    session: Session
    lost: int
    failures: dict[str, str]


def captured(path: Path) -> Capture:
    """Raises Failure: 2 where there is no such file, 5 where it holds no run of a bundle."""
    content = _content(path)
    first: tuple[Line, ...] | None = None
    described: Head | None = None
    visits: dict[int, bytes] = {}
    failures: dict[str, str] = {}
    session = Session("interrupted", 0.0, "it ended without a message")
    reader, lost = Outcomes(), 0
    for stream in _streams(find_lines(content)):
        try:
            check_order(stream)
            if stream[0].kind == "visit":
                outcome = reader.of(stream)
                visits.setdefault(outcome.visit, joined(stream))
                if outcome.status in _FAILED:
                    failures.setdefault(outcome.point.probe, outcome.reason or outcome.status)
                session = session._replace(status="interrupted")
            elif stream[0].kind == "machine" and described is None:
                described, first = head(stream), stream
            elif stream[0].kind == "run":
                note = read_note(stream[0])
                session = Session(note.status, note.seconds, note.reason)
        except Damaged:
            lost += 1
    if described is None or described.machine is None or first is None:
        raise Failure(f"{path} has no complete machine record: it is not a journal of a bundle, or it is truncated", 5)
    if session.status == "measuring":
        session = session._replace(status="interrupted", reason="it ended without a message")
    if lost:
        reason = "; ".join(filter(None, (session.reason, f"{lost} streams were damaged on the way")))
        session = session._replace(reason=reason, lost=lost)
    return Capture(first, described, tuple(visits.values()), session, lost, failures)


def _streams(lines: Iterable[Line]) -> Iterator[tuple[Line, ...]]:
    """From each record of number 0 to its `end`, or to what stands in its place."""
    held: list[Line] = []
    for line in lines:
        if line.number == 0 and held:
            yield tuple(held)
            held = []
        held.append(line)
        if line.kind == "end":
            yield tuple(held)
            held = []
    if held:
        yield tuple(held)


# ---- the file -------------------------------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    """Of a folder its journal; of an archive the journal in it."""
    path = path / NAME if path.is_dir() else path
    try:
        with open_regular(path) as file:
            unpacked = _OPENERS.get(file.read(2), open)
        with closing(unpacked(path, "rb")) as bytes_of:
            members = _members(bytes_of)
            return read_regular(path, _MOST_BYTES) if members is None else _of_archive(members, path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, zlib.error) as error:
        raise Failure(f"{path} is an archive that cannot be read: {clean(str(error))[:200]}", 5) from error


_OPENERS: dict[bytes, Callable[[Path, str], Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}
"""By the first bytes of a compressed file."""


class _InPieces:
    """A file of which nothing large is read at once: the length of a name in an archive may be any."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > 2 * _PIECE:
            raise tarfile.ReadError(f"one of its headers has {size >> 20} MiB")
        return self._file.read(size)


def _members(file: IO[bytes]) -> tarfile.TarFile | None:
    """None where the file is no archive."""
    try:
        return tarfile.open(fileobj=cast("IO[bytes]", _InPieces(file)), mode="r:")
    except tarfile.ReadError:
        file.seek(0)
        if len(start := file.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE or start[257:262] != b"ustar":
            return None
        raise


def _of_archive(archive: tarfile.TarFile, path: Path) -> bytes:
    """Only the journal is read, into memory: names, links and modes of an archive mean nothing here."""
    read_bytes = 0
    for count, member in enumerate(archive):
        read_bytes += member.size
        if count >= _MOST_FILES or read_bytes > _MOST_BYTES:
            raise Failure(f"{path}: more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB are before {NAME}", 5)
        if member.isreg() and PurePosixPath(member.name).name == NAME:
            file = archive.extractfile(member)
            return b"".join(iter(partial(file.read, _PIECE), b"")) if file else b""
    raise Failure(f"{path} is an archive without {NAME}", 5)
