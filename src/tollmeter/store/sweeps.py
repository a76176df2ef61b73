# SPDX-License-Identifier: Apache-2.0
"""Stores the data of a sweep: its order and completed steps in its folder, or in the file of `--reboots`. While a
setting is not at its first value, the restoring commands are in the user's state folder, where a killed sweep leaves
them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from tollmeter.files import open_regular, plain_name, read_regular, write_whole
from tollmeter.model import Failure, Record, json_document
from tollmeter.notices import notify
from tollmeter.protocol import clean
from tollmeter.root import typed, user_folder

NAME = "sweep.json"
_MOST_BYTES = 4 << 20
T = TypeVar("T", bound=Record)
_PROC = Path("/proc")
_START = 19
"""Index of the field `starttime` of /proc/PID/stat among the fields that follow the name (proc(5))."""


class SweepStep(Record, frozen=True):
    """A step of a sweep. run: folder of its run, below the sweep's; empty if it has none, with the reason."""

    value: str
    run: str = ""
    reason: str = ""


class SweepState(Record, frozen=True):
    """The state of a sweep. set, verify: commands as typed. order: order of the values, the first one between the
    others. words: its command line. folder: folder of its runs. set_in: in a sweep over reboots, the boot in which the
    next value was set, None before; tried: the boots in which that value was measured without a stored result.
    unrestored: why the setting is not at its first value after the sweep, empty if it is."""

    variable: str
    set: str
    verify: str
    values: tuple[str, ...]
    order: tuple[str, ...]
    words: tuple[str, ...]
    seed: int
    started: str
    folder: str
    format: Literal[1] = 1
    steps: tuple[SweepStep, ...] = ()
    set_in: str | None = None
    tried: tuple[str, ...] = ()
    unrestored: str = ""

    @property
    def first(self) -> str:
        return self.values[0]

    @property
    def is_done(self) -> bool:
        return len(self.steps) == len(self.order)


def save_sweep(path: Path, sweep: SweepState) -> None:
    """Writes the state of a sweep. Raises Failure (5)."""
    _write(path, sweep)


def load_sweep(path: Path) -> SweepState | None:
    """Returns the state; None if the file does not exist. Raises Failure (5) if it is damaged."""
    return _read(path, SweepState)


# ---- restoring a setting --------------------------------------------------------------------------------------------


class Unrestored(Record, frozen=True):
    """A setting to restore. set, verify: as typed, for the value of the variable; cwd: the folder in which they are
    started. process, began: id and start time of the sweep."""

    variable: str
    value: str
    set: str
    verify: str
    cwd: str
    folder: str
    process: int
    began: str


def unrestored() -> Unrestored | None:
    """Returns the setting that a sweep of this user on this machine has not restored; None without one. Raises Failure
    (5) if the file cannot be read, or belongs to another user, since it names a command to start."""
    path = record_path()
    with contextlib.suppress(OSError):
        if path.lstat().st_uid != os.geteuid():
            raise Failure(f"{path} belongs to another user: it names a command, and is not followed", 5)
    return _read(path, Unrestored)


def keep_unrestored(record: Unrestored) -> None:
    """Stores the data with which a setting is restored. Raises Failure (5) if they cannot be stored: the setting must
    not be changed then."""
    record_path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(record_path(), record)


def forget_unrestored() -> None:
    record_path().unlink(missing_ok=True)


def warn_of_killed() -> None:
    """Warns, before another measurement, of a setting that a killed sweep left at another value."""
    try:
        record = unrestored()
    except Failure as failure:
        notify(failure.sentence)
        return
    if record is not None and not is_running(record):
        notify(f"a killed sweep left {record.variable} at another value: `{typed('sweep', '--restore')}` restores it")


def is_running(record: Unrestored) -> bool:
    """Returns whether the sweep is still running; its process id may belong to another process by now."""
    return start_of(record.process) == record.began


def start_of(process: int) -> str:
    """Returns the start time of a process; empty if it does not exist, or is a zombie."""
    try:
        fields = (_PROC / f"{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[_START]


@contextlib.contextmanager
def sweep_lock_file() -> Iterator[int]:
    """Opens the file whose flock(2) marks a running sweep, and yields its descriptor, not yet locked. Commands inherit
    it, so the lock is held until the last of them ends: a command that outlives a killed sweep could change the setting
    after it was restored. Raises Failure (5) if the file cannot be opened."""
    path = record_path().with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = open_regular(path, "ab", follow=False)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}", 5) from error
    with file:
        yield file.fileno()


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def record_path() -> Path:
    """Returns the path of the record. Each machine has its own, since machines may share a home directory, but not a
    setting."""
    return user_folder("XDG_STATE_HOME", ".local/state") / f"sweep-{plain_name(os.uname().nodename)}.json"


def boot() -> str:
    """Returns the id of the machine's present boot; empty if the system reports none."""
    with contextlib.suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


# ---- files ----------------------------------------------------------------------------------------------------------


def _write(path: Path, record: Record) -> None:
    """Writes a file to disk before it returns: the next step may reboot the machine."""
    try:
        write_whole(path, json_document(record))
        for synced in (path, path.parent):
            descriptor = os.open(synced, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}", 5) from error


def _read(path: Path, form: type[T]) -> T | None:
    """Reads a record exactly as written, since it contains the words of commands to start."""
    try:
        return msgspec.json.decode(read_regular(path, _MOST_BYTES), type=form)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", 5) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", 5) from error
