# SPDX-License-Identifier: Apache-2.0
"""What a bundle wrote on another machine: its journal, an archive of its folder, or what a serial line brought of it.

The file is data, and may come from anybody: nothing of it is executed, and no file of an archive is extracted."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from tollmeter.files import open_regular, read_regular
from tollmeter.model import Failure
from tollmeter.protocol import Damaged, Head, Line, Outcomes, check_order, clean, find_lines, head, joined
from tollmeter.store.journal import NAME, Session

_MOST_BYTES = 1 << 30
_MOST_FILES = 10_000
_FAILED = ("failed", "wrong_answer", "timeout")


class Capture(NamedTuple):
    """first: the stream that describes the machine. lost: streams that were not whole. failures: of probes that failed
    in a visit, by name, with the reason."""

    first: tuple[Line, ...]
    head: Head
    visits: tuple[bytes, ...]
    session: Session
    lost: int
    failures: dict[str, str]


def captured(path: Path) -> Capture:
    """Raises Failure: 2 where there is no such file, 5 where it holds no run of a bundle."""
    return _found(path, _content(path))


# ---- the file -------------------------------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    """Of a folder its journal; of an archive the journal in it."""
    path = path / NAME if path.is_dir() else path
    try:
        with open_regular(path) as file:
            is_archive = tarfile.is_tarfile(file)
        return _of_archive(path) if is_archive else read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Failure(f"{path} is an archive that cannot be read: {clean(str(error))[:200]}", 5) from error


def _of_archive(path: Path) -> bytes:
    """Only the journal is read, into memory: names, links and modes of an archive mean nothing here."""
    read_bytes = 0
    with tarfile.open(path, "r:*") as archive:
        for count, member in enumerate(archive):
            read_bytes += member.size
            if count >= _MOST_FILES or read_bytes > _MOST_BYTES:
                raise Failure(f"{path}: more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB are before {NAME}", 5)
            if member.isreg() and PurePosixPath(member.name).name == NAME:
                file = archive.extractfile(member)
                return file.read() if file else b""
    raise Failure(f"{path} is an archive without {NAME}", 5)


# ---- its streams ----------------------------------------------------------------------------------------------------


def _found(path: Path, content: bytes) -> Capture:
    """Raises Failure (5) where the first stream is missing, or is no bundle's."""
    first: tuple[Line, ...] | None = None
    told: Head | None = None
    visits: dict[int, bytes] = {}
    failures: dict[str, str] = {}
    session = Session("interrupted", 0.0, "it ended without a word")
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
            elif stream[0].kind == "machine" and told is None:
                told, first = head(stream), stream
            elif stream[0].kind == "run":
                session = _session(stream[0])
        except Damaged:
            lost += 1
    if told is None or told.machine is None or first is None:
        raise Failure(f"{path} holds no whole record of a machine: it is no journal of a bundle, or was cut short", 5)
    if session.status == "measuring":
        session = session._replace(status="interrupted", reason="it ended without a word")
    if lost:
        reason = "; ".join(filter(None, (session.reason, f"{lost} streams were damaged on the way")))
        session = session._replace(reason=reason)
    return Capture(first, told, tuple(visits.values()), session, lost, failures)


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


class _Note(msgspec.Struct):
    status: str
    seconds: float
    reason: str | None = None


def _session(line: Line) -> Session:
    try:
        note = msgspec.convert(clean(msgspec.json.decode(line.text)), _Note)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"a note of the run that cannot be read: {error}") from error
    return Session(note.status, note.seconds, note.reason)
