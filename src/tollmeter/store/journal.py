# SPDX-License-Identifier: Apache-2.0
"""The run folder: journal.jsonl grows by one complete stream for each visit, which is written before the next visit
begins and reaches the disk within a second.

A journal whose last stream is cut belongs to a run that was interrupted: it opens, and the cut stream is dropped. A
damaged record costs the stream that it is in; reading goes on at the next stream, whose first record has number 0. The
first stream, without which the rest cannot be read, is written twice."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import msgspec

from tollmeter.files import open_regular
from tollmeter.model import STOPPED, Failure, Outcome, Record, Room, Surroundings
from tollmeter.protocol import (
    LONGEST_LINE,
    Damaged,
    Head,
    Outcomes,
    RecordLine,
    check_order,
    clean,
    head,
    joined,
    joined_lines,
    lines_of,
    read_next,
    records_of_visit,
    seal,
)  # fmt: skip
from tollmeter.root import typed
from tollmeter.store.request import NAME as REQUEST
from tollmeter.store.request import Request, read_request, write_request

NAME = "journal.jsonl"
_VISIT = b'{"k":"visit",'
_NOTE = b'{"k":"run",'
_END = b'\n{"k":"end",'
_RECORD = b'{"k":"'
_BLOCK_BYTES = 1 << 20
_SYNC_S = 1.0
"""Shortest interval between writes to disk: a write takes longer than a visit, and its interrupts disturb the next
one."""


class Stream(NamedTuple):
    """One complete stream of a journal. end: byte offset after it; line: number of its first line."""

    text: bytes
    line: int
    end: int

    @property
    def is_visit(self) -> bool:
        return self.text.startswith(_VISIT)

    @property
    def lines(self) -> tuple[RecordLine, ...]:
        return lines_of(self.text)


class Session(Record, frozen=True):
    """A note in the journal on the progress or the end of measuring. seconds: wall time of all sessions. surroundings:
    surroundings of the last session that has them. lost: number of streams that were damaged before the journal was
    imported. visits: number of visits before the note; None if the note does not count them."""

    status: str
    seconds: float
    reason: str | None = None
    surroundings: Surroundings | None = None
    lost: Annotated[int, msgspec.Meta(ge=0)] = 0
    visits: int | None = None


class Contents(NamedTuple):
    """The content of a journal. damage: a sentence for each stream that is left out. differs: whether a copy of the
    first stream differs from it. begins: indices of the outcomes at which measuring was resumed. noted: number of
    outcomes that the session's seconds cover. notes: seconds after a number of outcomes, and the throttled part of
    them. digest: SHA-256 of the used bytes."""

    head: Head
    outcomes: tuple[Outcome, ...]
    session: Session
    damage: tuple[str, ...] = ()
    differs: bool = False
    begins: tuple[int, ...] = ()
    noted: int = 0
    notes: tuple[tuple[float, int, Surroundings | None], ...] = ()
    digest: bytes = b""


class Journal:
    """A run folder open for writing, by this process alone."""

    def __init__(self, folder: Path, file: IO[bytes], visits: int = 0) -> None:
        """Opens a journal for writing. visits: number that it already contains."""
        self.folder = folder
        self._file = file
        self._sync_at = 0.0
        self._visits = visits

    @classmethod
    def create(cls, folder: Path, request: Request, first: bytes) -> Journal:
        """Creates a run. first: the host's own stream. Raises Failure if the folder contains a run or cannot be
        created."""
        try:
            with contextlib.ExitStack() as opened:
                folder.mkdir(parents=True, exist_ok=True)
                file = opened.enter_context((folder / NAME).open("xb", buffering=0))
                opened.callback(_forget, folder)
                _lock(file, folder)
                write_request(folder, request)
                _write_all(file, first * 2)
                os.fsync(file.fileno())
                opened.pop_all()
                return cls(folder, file)
        except FileExistsError as error:
            if not (folder / NAME).exists():
                raise Failure(f"{folder} is not a folder") from error
            again = typed("run", "--resume", str(folder))
            raise Failure(
                f"{folder} already holds a run: continue it with `{again}`, or name a different folder with --out"
            ) from error
        except OSError as error:
            raise Failure(f"cannot write to {folder}: {error.strerror}. Nothing was measured yet", 5) from error

    @classmethod
    def resume(cls, folder: Path) -> Journal:
        """Opens an existing run, without a truncated last stream. Raises Failure if it is damaged or being written."""
        path = _regular(folder)
        try:
            with contextlib.ExitStack() as opened:
                file = opened.enter_context(open_regular(path, "r+b", follow=False))
                _lock(file, folder)
                whole = visits = 0
                for stream in streams(folder):
                    whole = stream.end
                    visits += stream.is_visit
                file.truncate(whole)
                file.seek(whole)
                opened.pop_all()
                return cls(folder, file, visits)
        except OSError as error:
            raise Failure(f"cannot write to {folder}: {error.strerror}", exit_code=5) from error

    def append(self, stream: bytes) -> None:
        """Writes a stream, and returns when the system has it; it is on disk within a second. Raises Failure (5)
        with the journal as before."""
        before = self._file.tell()
        try:
            if not os.fstat(self._file.fileno()).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the journal was removed")
            _write_all(self._file, stream)
            if time.monotonic() >= self._sync_at:
                os.fsync(self._file.fileno())
                self._sync_at = time.monotonic() + _SYNC_S
            self._visits += stream.startswith(_VISIT)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(before)
                self._file.seek(before)
            verb: tuple[str, ...] = ("run", "--resume")
            with contextlib.suppress(Failure):  # the folder may be gone
                verb = ("show",) if read_request(self.folder).is_of_commands else verb
            raise Failure(
                f"cannot write to {self.folder}: {error.strerror}. What was measured is kept; "
                f"when there is room: `{typed(*verb, str(self.folder))}`",
                exit_code=5,
            ) from error

    def note(self, session: Session) -> None:
        """Writes the progress of the run, and its number of visits; the last note counts."""
        record = {
            "k": "run", "status": session.status, "seconds": round(session.seconds, 3), "reason": session.reason,
            "visits": self._visits, "surroundings": msgspec.to_builtins(session.surroundings),
            **({"lost": session.lost} if session.lost else {}),
        }  # fmt: skip
        self.append(seal([record]))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def streams(folder: Path, damage: list[str] | None = None, begin: int = 0) -> Iterator[Stream]:
    """Yields the journal's complete streams. begin: byte offset of a stream's first byte. damage: receives a sentence,
    with the line's number, for each damaged stream."""
    with open_regular(_regular(folder)) as file:
        file.seek(begin)
        yield from _streams(file, [] if damage is None else damage, begin)


class _Hashed:
    """A file whose bytes are hashed while they are read: reading 1 GB again for its digest takes a second."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._hash.update(block)
        return block

    def digest(self) -> bytes:
        """Returns the digest of the whole file, including bytes after a truncated stream."""
        while self.read(_BLOCK_BYTES):
            pass
        return self._hash.digest()


def _streams(file: IO[bytes] | _Hashed, damage: list[str], begin: int = 0) -> Iterator[Stream]:
    gathering = _Gathering(damage)
    number, end = 0, begin
    for piece in pieces(file):
        if (records := records_of_visit(piece)) and gathering.is_between():
            yield Stream(piece, number + 1, end + len(piece))
            number, end = number + records, end + len(piece)
            continue
        lines = io.BytesIO(piece)
        while text := lines.readline(LONGEST_LINE + 1):
            number, end = number + 1, end + len(text)
            if not text.endswith(b"\n") and len(text) <= LONGEST_LINE:
                return
            if gathering.passes_over(text):
                continue
            for whole, first in gathering.add(text[:-1] if text.endswith(b"\n") else text, number):
                yield Stream(joined(whole), first, end)


def pieces(file: IO[bytes] | _Hashed) -> Iterator[bytes]:
    """Yields a journal in pieces that end after an `end` record; parts of a longer stream are as long as one read."""
    held = b""
    while block := file.read(_BLOCK_BYTES):
        held, begin = held + block, 0
        while (seal := held.find(_END, begin)) >= 0 and (stop := held.find(b"\n", seal + 1) + 1):
            yield held[begin:stop]
            begin = stop
        held = held[begin:]
        if len(held) >= _BLOCK_BYTES:
            stop = held.rfind(b"\n") + 1 or len(held) // (LONGEST_LINE + 1) * (LONGEST_LINE + 1)
            yield held[:stop]
            held = held[stop:]
    yield held


class _Gathering:
    """A parser of streams from lines. Lines after a damaged line are skipped until a record of number 0."""

    def __init__(self, damage: list[str]) -> None:
        self._damage = damage
        self._lines: list[RecordLine] = []
        self._first = 0
        self._is_lost = False

    def is_between(self) -> bool:
        """Returns whether no stream is open: the next record of number 0 then ends the lost range."""
        self._is_lost = self._is_lost and bool(self._lines)
        return not self._lines

    def passes_over(self, text: bytes) -> bool:
        """Returns whether a line after a damaged one is not the beginning of a stream."""
        return self._is_lost and _RECORD not in text

    def add(self, text: bytes, number: int) -> Iterator[tuple[tuple[RecordLine, ...], int]]:
        """Yields the streams that end with this line, each with the number of its first line."""
        try:
            several = [read_next(text, len(self._lines))]
        except Damaged as error:
            several = joined_lines(text)
            if not several:
                self._lose(number, error)
        for line in several:
            if line.number == 0:
                if self._lines:
                    self._lose(number, Damaged("the stream before it has no end"))
                self._is_lost, self._first = False, number
            elif self._is_lost:
                continue
            self._lines.append(line)
            if line.kind != "end" and line.number == len(self._lines) - 1:
                continue
            try:
                check_order(self._lines)
            except Damaged as error:
                self._lose(number, error)
            else:
                yield tuple(self._lines), self._first
                self._lines.clear()

    def _lose(self, number: int, error: Damaged) -> None:
        """Discards the current stream, and reports it once. number: the damaged line's."""
        if not self._is_lost:
            self._damage.append(f"line {number}: {error.sentence}")
        self._is_lost = True
        self._lines.clear()


def read_journal(folder: Path) -> Contents:
    """Reads all undamaged records, in order. Raises Failure if the folder is not a run or is of a newer format, if a
    visit occurs twice, or if more visits are missing than are damaged."""
    with open_regular(_regular(folder)) as file:
        hashed = _Hashed(file)
        return _read(folder, hashed)._replace(digest=hashed.digest())


def _read(folder: Path, file: _Hashed) -> Contents:
    described: Head | None = None
    first, differs = b"", False
    outcomes: list[Outcome] = []
    visits, damage = Outcomes(Room()), list[str]()
    session = Session("interrupted", 0.0, "it ended without a message")
    ends, noted, notes = list[int](), 0, list[tuple[float, int, Surroundings | None]]()
    for stream in _streams(file, damage):
        try:
            if stream.is_visit:
                outcomes.append(visits.of_text(stream.text))
            elif described is None:
                described, first = head(stream.lines), stream.text
            elif stream.lines[0].kind == "machine":
                differs |= stream.text != first
            elif stream.lines[0].kind == "run":
                session = read_note(stream.lines[0])
                if session.visits is not None and not 0 <= session.visits - len(outcomes) <= len(damage):
                    raise Failure(f"it counts {session.visits} visits, and {len(outcomes)} precede it", 5)
                noted = len(outcomes)
                notes.append((session.seconds, noted, session.surroundings))
                ends += [noted] * (session.status != "measuring")
        except Damaged as error:
            damage.append(f"line {stream.line}: {error.sentence}")
        except Failure as error:
            raise Failure(f"{folder}: {error.sentence}", error.exit_code) from error
    if described is None or described.machine is None:
        raise Failure(f"{folder / NAME} has no machine record at its start: it is damaged or truncated", exit_code=5)
    _check_once(folder, outcomes)
    begins = tuple(end for end in dict.fromkeys(ends) if 0 < end < len(outcomes))
    session = msgspec.structs.replace(session, status="interrupted" if noted < len(outcomes) else session.status)
    return Contents(described, tuple(outcomes), session, tuple(damage), differs, begins, noted, tuple(notes))


def opening(folder: Path) -> Head:
    """Returns the content of the first stream. Raises Failure as `read_journal` does."""
    for stream in streams(folder):
        return head(stream.lines)
    raise Failure(f"{folder / NAME} has no machine record at its start: it is damaged or truncated", exit_code=5)


_LAST_BYTES = 1 << 16


def has_ended(folder: Path) -> bool:
    """Returns whether the last note of a run says that the run ended without being stopped; False if the journal does
    not end with a note."""
    try:
        with (folder / NAME).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LAST_BYTES))
            parts = [line for line in file.read().split(b"\n") if line.startswith((_NOTE, _VISIT))]
        return parts[-1].startswith(_NOTE) and msgspec.json.decode(parts[-1])["status"] not in STOPPED
    except (OSError, ValueError, LookupError, TypeError):
        return False


class Visits(Sequence[Outcome]):
    """The visits of a run, read on demand: numeric tables stored beside its journal do not need them."""

    def __init__(self, read_visits: Callable[[], tuple[Outcome, ...]]) -> None:
        self._read = functools.cache(read_visits)

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, place: Any) -> Any:
        return self._read()[place]

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._read())


def _check_once(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Checks that no visit occurs twice, since a duplicate would narrow an interval. Visits are identified by number,
    and by time if a copy has another number. Raises Failure (5)."""
    import numpy as np

    timed = [outcome for outcome in outcomes if outcome.at_ns > 0 and outcome.clock.kind == "hardware"]
    moments = (hash((outcome.seed, outcome.at_ns, outcome.cpus)) for outcome in timed)
    for several, keys in ((outcomes, (outcome.visit for outcome in outcomes)), (timed, moments)):
        # Sets of 200,000 numbers would take 50 MB.
        numbers = np.fromiter(keys, np.int64, len(several))
        order = np.argsort(numbers, kind="stable")
        again = order[1:][np.diff(numbers[order]) == 0]
        if len(again):
            raise Failure(f"{folder}: visit {several[again.min()].visit} is in the journal twice", 5)


_SOURCES = {
    "nice": "getpriority", "policy": "sched_getscheduler", "quota": "/proc/self/cgroup",
    "throttled_s": "/proc/self/cgroup", "others": "/proc/stat", "company": "the lock on measuring",
    "left_behind": "the table of processes", "seccomp_filters": "/proc/self/status", "traced": "/proc/self/status",
}  # fmt: skip
"""Source of each field of the surroundings. A field that is missing in a note is unknown."""


def read_note(line: RecordLine) -> Session:
    """Returns the note in a record. Raises Damaged."""
    try:
        record = clean(msgspec.json.decode(line.text))
        note = msgspec.convert(record, Session)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"a note of the run that cannot be read: {error}") from error
    if surroundings := note.surroundings:
        absent = dict.fromkeys(source for key, source in _SOURCES.items() if key not in record["surroundings"])
        surroundings = msgspec.structs.replace(surroundings, unreadable=(*surroundings.unreadable, *absent))
        return msgspec.structs.replace(note, surroundings=surroundings)
    return note


def _regular(folder: Path) -> Path:
    """Returns the journal's path. Raises Failure unless it is a regular file: a pipe or a device would never end."""
    path = folder / NAME
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise Failure(f"{folder} is not a run: {NAME}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise Failure(f"{path} is not a file", exit_code=5)
    return path


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        remedy = "wait until it ends, or choose another folder with --out"
        raise Failure(f"another `toll` process is writing {folder}: {remedy}", exit_code=5) from error


def _forget(folder: Path) -> None:
    """Removes the folder of a run that never began."""
    for name in (NAME, REQUEST):
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _write_all(file: IO[bytes], stream: bytes) -> None:
    view = memoryview(stream)
    while view:
        written = file.write(view)
        view = view[written or 0 :]


# ---- a journal that grows --------------------------------------------------------------------------------------------

LOCKS = Path("/proc/locks")


class Tail:
    """A reader of a journal that another process writes. Damaged streams are left out. Raises Failure if the folder
    holds no journal."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._offset = 0
        if not self._path.is_file():
            raise Failure(f"{folder} is not a run: it has no {NAME}")

    def new_streams(self) -> Iterator[Stream]:
        """Yields complete streams written since the last call, in order; never an incomplete one."""
        for stream in streams(self._path.parent, begin=self._offset):
            self._offset = stream.end
            yield stream

    def is_written(self) -> bool:
        """Returns whether a process has the journal open for writing: it is locked until that process ends."""
        return is_written(self._path)


def is_written(journal: Path) -> bool:
    """Returns whether a process writes this journal now, by the system's table of locks; False if the system does not
    report locks. Acquiring the lock as a test could make a run fail that begins at this moment."""
    try:
        inode = str(journal.stat().st_ino)
        table = LOCKS.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return False
    # The inode of a line such as `1: FLOCK ADVISORY WRITE 4711 fe:00:131 0 EOF`.
    held = (line.split() for line in table.splitlines())
    return any(
        "FLOCK" in words and "WRITE" in words and
        next((word.rpartition(":")[2] for word in words if word.count(":") == 2), "") == inode
        for words in held
    )  # fmt: skip
