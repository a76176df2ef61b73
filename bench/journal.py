# SPDX-License-Identifier: Apache-2.0
"""A run folder of any size, from a recorded one: its visits over and over, each with a number, a round and a moment of
its own, and every record sealed anew. To time what reads a journal:

    .venv/bin/python bench/journal.py RUN OUT MEGABYTES
"""

from __future__ import annotations

import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tollmeter.protocol import Line
from tollmeter.store.journal import NAME, streams

LATER_NS = 10**13
SEALED = b',"c":"00000000"}'
MEGABYTE = 1 << 20


def seeded(line: Line, number: int, turn: int) -> bytes:
    """The visit's own record, of a later visit."""
    told = msgspec.json.decode(line.text)
    told.pop("c")
    told["visit"], told["round"] = number, told["round"] + turn * 100_000
    told["at_ns"] = told.get("at_ns", 0) + turn * LATER_NS
    body = msgspec.json.encode(told)[:-1]
    return b'%s,"c":"%08x"}\n' % (body, zlib.crc32(body))


def grown(visits: Iterable[tuple[Line, ...]], size: int) -> Iterator[bytes]:
    """Streams of visits until that many bytes are made."""
    kept, made, turn, number = list(visits), 0, 0, 0
    while made < size:
        for lines in kept:
            rest = b"".join(line.text + b"\n" for line in lines[1:])
            stream = seeded(lines[0], number, turn) + rest
            yield stream
            made, number = made + len(stream), number + 1
            if made >= size:
                return
        turn += 1


def make(run: Path, out: Path, size: int) -> None:
    """A run folder of that many bytes."""
    every = [stream.lines for stream in streams(run)]
    visits = [lines for lines in every if lines[0].kind == "visit"]
    out.mkdir(parents=True)
    shutil.copyfile(run / "run.toml", out / "run.toml")
    with (out / NAME).open("wb") as file:
        file.write(b"".join(line.text + b"\n" for line in every[0]))
        file.writelines(grown(visits, size))


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) * MEGABYTE)
