# SPDX-License-Identifier: Apache-2.0
"""A journal that another process still writes, read as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tollmeter.model import Failure
from tollmeter.protocol import LONGEST_LINE, Line, read_line
from tollmeter.store.journal import NAME

LOCKS = Path("/proc/locks")


class Tail:
    """Raises Failure where the folder holds no journal, or a damaged one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._offset = 0
        if not self._path.is_file():
            raise Failure(f"{folder} is not a run: it has no {NAME}")

    def new_streams(self) -> list[tuple[Line, ...]]:
        """Whole streams that were written since the last call; of one that is half written nothing yet."""
        streams: list[tuple[Line, ...]] = []
        gathered: list[Line] = []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            end = self._offset
            while (text := file.readline(LONGEST_LINE + 1)).endswith(b"\n"):
                end += len(text)
                gathered.append(read_line(text[:-1]))
                if gathered[-1].kind == "end":
                    streams.append(tuple(gathered))
                    gathered.clear()
                    self._offset = end
        return streams

    def is_written(self) -> bool:
        """Whether a process holds the journal open to write: it is locked until that process ends."""
        return is_written(self._path)


def is_written(journal: Path) -> bool:
    """Whether a process measures into this journal now, by the system's table of locks: to try for the lock itself
    could take it from a run that begins. False where the system does not report it."""
    try:
        inode = str(journal.stat().st_ino)
        table = LOCKS.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return False
    held = (line.split() for line in table.splitlines())
    return any("FLOCK" in words and "WRITE" in words and _inode(words) == inode for words in held)


def _inode(words: Sequence[str]) -> str:
    """Of a line such as `1: FLOCK ADVISORY WRITE 4711 fe:00:131 0 EOF`."""
    return next((word.rpartition(":")[2] for word in words if word.count(":") == 2), "")
