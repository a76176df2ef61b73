# SPDX-License-Identifier: Apache-2.0
"""The output of a bundle on another machine: its journal, an archive of its folder, or a capture of a serial line.

The file is untrusted data: none of it is executed, and no file of an archive is extracted."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

import msgspec

from tollmeter.files import open_regular
from tollmeter.model import Failure, Outcome
from tollmeter.protocol import (
    LONGEST_LINE,
    Damaged,
    Head,
    Outcomes,
    RecordLine,
    check_order,
    clean,
    find_line,
    head,
    joined,
    records_of_visit,
)  # fmt: skip
from tollmeter.store.journal import NAME, Session, pieces, read_note

_MOST_TIMES = 32
"""Highest ratio of unpacked to packed size: journals of measured runs compress to a tenth."""
_LEAST_UNPACKED = 4 << 20
_MOST_MEMORY = 100 << 20
"""Highest memory in bytes for unpacking: xz -9 needs 65 MiB."""
_MOST_FILES = 10_000
_MOST_LINES, _MOST_BYTES = 100_000, 16 << 20
"""Highest number of lines and bytes without a record."""
_MOST_LOST = 1000
"""Highest number of damaged streams before the first complete one."""
_PIECE = 1 << 20
_FAILED = ("failed", "wrong_answer", "timeout")


class Kept:
    """The visits of a capture, in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it ends with this object
        self._sizes = array("q")

    def add(self, stream: bytes) -> None:
        """Stores a visit. Raises Failure (5) without disk space."""
        try:
            self._file.write(stream)
            self._file.flush()
        except OSError as error:
            where = f"{tempfile.gettempdir()}, where it is unpacked to"
            raise Failure(f"cannot write to {where}: {error.strerror}; TMPDIR names another folder", 5) from error
        self._sizes.append(len(stream))

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        return map(self._file.read, self._sizes)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # closing writes the bytes for which the disk had no space
            self._file.close()


class Capture(NamedTuple):
    """A captured journal. first: the stream that describes the machine. visits: number of complete visits. session: how
    it ended, and the number of damaged streams. failures: reasons by probe."""

    first: bytes
    head: Head
    visits: int
    session: Session
    failures: dict[str, str]


def captured(path: Path, keep: Callable[[bytes], object] = bool) -> Capture:
    """Reads a capture once, in constant memory. keep: called with each complete visit. Raises Failure: 2 if the file
    does not exist, 5 if it is not the output of a bundle."""
    reading = _Reading(path, keep)
    try:
        with open_regular(path / NAME if path.is_dir() else path) as file:
            for stream in _streams(_opened(file, path), path):
                reading.take(stream)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, zlib.error) as error:
        raise Failure(f"{path} is an archive that cannot be read: {clean(str(error))[:200]}", 5) from error
    return reading.capture()


class _Reading:
    """The state of reading a capture."""

    def __init__(self, path: Path, keep: Callable[[bytes], object]) -> None:
        self._path, self._keep = path, keep
        self._first, self._head = b"", Head(None, None, (), ())
        self._numbers = set[int]()
        self._failures: dict[str, str] = {}
        self._session = Session("interrupted", 0.0, "it ended without a message")
        self._reader, self._lost = Outcomes(), 0

    def take(self, stream: bytes | tuple[RecordLine, ...]) -> None:
        """Processes a stream. stream: bytes of one complete visit, or record lines. Raises Failure (5) if too many
        streams are damaged."""
        try:
            if isinstance(stream, bytes):
                self._visit(self._reader.of_text(stream), stream)
                return
            check_order(stream)
            if stream[0].kind == "visit":
                self._visit(self._reader.of(stream), joined(stream))
            elif stream[0].kind == "machine" and self._head.machine is None:
                self._head, self._first = head(stream), joined(stream)
            elif stream[0].kind == "run":
                note = read_note(stream[0])
                self._session = Session(note.status, note.seconds, note.reason)
        except Damaged as error:
            self._lost += 1
            if self._lost > _MOST_LOST + 10 * len(self._numbers):
                words = f"{self._path}: {self._lost} streams are damaged, the last: {error.sentence}"
                raise Failure(words, 5) from error

    def _visit(self, outcome: Outcome, text: bytes) -> None:
        if outcome.visit not in self._numbers:
            self._numbers.add(outcome.visit)
            self._keep(text)
        if outcome.status in _FAILED:
            self._failures.setdefault(outcome.point.probe, outcome.reason or outcome.status)
        self._session = msgspec.structs.replace(self._session, status="interrupted")

    def capture(self) -> Capture:
        if self._head.machine is None:
            raise Failure(
                f"{self._path} has no complete machine record: it is not a journal of a bundle, or it is truncated", 5
            )
        session = self._session
        if session.status == "measuring":
            session = msgspec.structs.replace(session, status="interrupted", reason="it ended without a message")
        if self._lost:
            reason = "; ".join(filter(None, (session.reason, f"{self._lost} streams were damaged on the way")))
            session = msgspec.structs.replace(session, reason=reason, lost=self._lost)
        return Capture(self._first, self._head, len(self._numbers), session, self._failures)


def _streams(file: IO[bytes], path: Path) -> Iterator[bytes | tuple[RecordLine, ...]]:
    """Yields each stream of a capture: a complete visit as bytes; any other stream as its lines, from record 0 to its
    `end`, or to the line where `end` is missing."""
    held: list[RecordLine] = []
    number = lines = size = 0
    for piece in pieces(file):
        if not held and (records := records_of_visit(piece)):
            number, lines, size = number + records, 0, 0
            yield piece
            continue
        for text in io.BytesIO(piece):
            number, lines, size = number + 1, lines + 1, size + len(text)
            if lines > _MOST_LINES or size > _MOST_BYTES:
                raise Failure(f"{path}: no record is in the {lines} lines up to line {number}: cut the file there", 5)
            line = find_line(text.rstrip(b"\n")[-LONGEST_LINE:])
            if line is None:
                continue
            lines = size = 0
            if (line.number == 0 and held) or len(held) > _MOST_LINES:
                yield tuple(held)
                held = []
            held.append(line)
            if line.kind == "end":
                yield tuple(held)
                held = []
    if held:
        yield tuple(held)


# ---- the file -------------------------------------------------------------------------------------------------------


def _opened(file: IO[bytes], path: Path) -> IO[bytes]:
    """Returns the unpacked file; for an archive, the journal in it."""
    unpack = _UNPACKING.get(file.read(2))
    file.seek(0)
    if unpack is None and not _is_archive(file.peek(tarfile.BLOCKSIZE)):  # type: ignore[attr-defined]
        return file
    most = max(_LEAST_UNPACKED, _MOST_TIMES * os.fstat(file.fileno()).st_size)
    unpacked = io.BufferedReader(_Bounded(unpack(file) if unpack else file, most), _PIECE)
    if not _is_archive(unpacked.peek(tarfile.BLOCKSIZE)):
        return unpacked
    return _in_archive(tarfile.open(fileobj=cast("IO[bytes]", _Forward(unpacked)), mode="r:"), path)


def _is_archive(start: bytes) -> bool:
    """Returns whether these bytes begin a tar archive; also one with a damaged header, which has tar's magic at byte
    257, so that tarfile reports the damage."""
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return start[257:262] == b"ustar"
    return True


class _Unpacking(io.RawIOBase):
    """Decompressed xz or bzip2 content, stream after stream, in bounded memory. Raises EOFError if it is truncated."""

    def __init__(self, file: IO[bytes], new: Callable[[], Any]) -> None:
        self._file, self._new, self._decompressor = file, new, new()
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer with decompressed bytes and returns their number, 0 at the end. Zero bytes after a stream
        are padding; any other bytes begin another stream."""
        while True:
            if self._decompressor.eof:
                self._held = self._decompressor.unused_data or self._file.read(_PIECE)
                if not self._held.strip(b"\0"):
                    return 0
                self._decompressor = self._new()
            elif not self._held and self._decompressor.needs_input:
                self._held = self._file.read(_PIECE)
                if not self._held:
                    raise EOFError("it is cut")
            content = self._decompressor.decompress(self._held, len(buffer))
            self._held = b""
            if content:
                buffer[: len(content)] = content
                return len(content)


_UNPACKING: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7": lambda file: _Unpacking(file, lambda: lzma.LZMADecompressor(memlimit=_MOST_MEMORY)),
    b"BZ": lambda file: _Unpacking(file, bz2.BZ2Decompressor),
}
"""Functions that unpack a file, by its first bytes."""


class _Bounded(io.RawIOBase):
    """A file of which at most `most` bytes are read, since a small packed file may unpack without end."""

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._left = file, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content: bytes = self._file.read(min(len(buffer), _PIECE))
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {_MOST_TIMES} times its size, which no journal does")
        buffer[: len(content)] = content
        return len(content)


class _Forward:
    """A file that is read once, forward, in small pieces: a name in an archive may have any length."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._at = file, 0

    def read(self, size: int) -> bytes:
        if size > 2 * _PIECE:
            raise tarfile.ReadError(f"one of its headers has {size >> 20} MiB")
        content = self._file.read(size)
        self._at += len(content)
        return content

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        if to < self._at:
            raise tarfile.ReadError("its parts are not in order")
        while self._at < to and self.read(min(_PIECE, to - self._at)):
            pass


def _in_archive(archive: tarfile.TarFile, path: Path) -> IO[bytes]:
    """Returns the journal in the archive. Names, links and modes of other members are ignored."""
    for count, member in enumerate(archive):
        if count >= _MOST_FILES:
            raise Failure(f"{path}: more than {_MOST_FILES} files are before {NAME}", 5)
        if member.isreg() and PurePosixPath(member.name).name == NAME and (file := archive.extractfile(member)):
            return file
    raise Failure(f"{path} is an archive without {NAME}: pack the whole folder of a run", 5)
