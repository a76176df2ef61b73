# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a file or comes over a line, each reader of it gives a value or a sentence, and soon.

Inputs are recorded ones with small changes on top of each other. One that ends in a way not seen before is kept, and
changed further: a mutation fuzzer that is led by what the readers say. Checksums are made true again more often than
not, since else nothing would come past them. An input that breaks a reader is left in build/tests/fuzz.

    .venv/bin/python -m storm.readers SECONDS [SEED]"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from storm.ended import Tally
from support.probe_streams import whole
from tollmeter.catalog import read_suite
from tollmeter.experiment.runs_differ import Cost, EarlierRun
from tollmeter.library.derive import open_index
from tollmeter.model import Failure, Profile
from tollmeter.protocol import Stamp, head, joined, outcome, retimed
from tollmeter.store import document, history, index, journal, request
from tollmeter.store.request import NAME as REQUEST
from tollmeter.store.request import read_request
from tollmeter.toolchain.abis import read_abi

ROOT = Path(__file__).parents[2]
BROKEN = ROOT / "build/tests/fuzz"
RECORDED = ROOT / "tests/recordings/format-2"
MOST_S, MOST_KEPT, MOST_BYTES = 2.0, 300, 1 << 17
LEAST = 300
"""Inputs, however slow the machine is: beside two compilers two seconds went by before the first."""
STAMPS = [Stamp(0x80 + number, 1000 * number) for number in range(40)]
WORDS = (
    b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"9" * 400, b"18446744073709551616", b"[" * 3000, b'{"a":' * 3000,
    b"\\ud800", b"\\u0000", b"\x1b[2J", b"\xff\xfe", b'"', b"\n", b",", b"}", b"]", b"=", b"'''", b"[[", b"#", b"\x00",
    b'"i":', b'"k":"sample"', b'"k":"end"', b'"records":', b"2600-01-01T00:00:00Z", b"../../x", b"constructor",
)  # fmt: skip
_SEALED = re.compile(rb'^(\{.*)(,"c":")[0-9a-f]{8}("\})$', re.MULTILINE)
_SAID = re.compile(r"'.*'|[0-9]+|/\S+")


class Reader(NamedTuple):
    """read: of bytes; from_these: what is changed."""

    read: Callable[[bytes], object]
    from_these: Sequence[bytes]


def storm(seed: int, count: int) -> Tally:
    tally = Tally("changed inputs to readers")
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name:
        look(tally, seed, Path(name), lambda: tally.count < count)
    return tally


def look(tally: Tally, seed: int, folder: Path, goes_on: Callable[[], bool]) -> None:
    """Changes and reads for as long as it may. folder: empty, to write into."""
    chance, seen = random.Random(seed), set[tuple[str, str]]()
    known = readers(folder)
    kept = {name: list(reader.from_these) for name, reader in known.items()}
    while goes_on():
        name = chance.choice(list(known))
        data = changed(kept[name], chance)
        complaint, how = _ended(known[name].read, data)
        tally.one(f"{name}, {_left(name, data) if complaint else ''}", complaint)
        if (name, how) not in seen and len(kept[name]) < MOST_KEPT:
            seen.add((name, how))
            kept[name].append(data)


def readers(folder: Path) -> Mapping[str, Reader]:
    shutil.copytree(RECORDED, folder / "run")
    run = folder / "run"
    told = msgspec.json.encode(open_index(run))
    streams = [joined(stream.lines) for stream in journal.streams(run)]

    def in_file(path: Path, read: Callable[[], object], *others: bytes) -> Reader:
        def written(data: bytes) -> object:
            path.write_bytes(data)
            return read()

        path.parent.mkdir(exist_ok=True)
        return Reader(written, [path.read_bytes(), *others] if path.is_file() else others)

    remembered = msgspec.json.encode(EarlierRun("a", ("b", "c", "d"), "h", {"e": Cost(1.0, 0.1)}))
    abis = [path.read_bytes() for path in sorted((ROOT / "abis").glob("*.toml"))]
    suites = [path.read_bytes() for path in sorted((ROOT / "suites").glob("*.toml"))]
    return {
        "a visit": Reader(outcome, [whole(), *streams[1:4]]),
        "a head": Reader(head, streams[:1]),
        "marks": Reader(_marked, [whole(), *streams[1:4]]),
        "an index": Reader(document.read_document, [told]),
        journal.NAME: in_file(run / journal.NAME, lambda: journal.read_journal(run)),
        index.NAME: in_file(run / index.NAME, lambda: index.load_index(run)),
        REQUEST: in_file(run / REQUEST, lambda: read_request(run)),
        request.KEPT: in_file(run / request.KEPT, lambda: request.stored_records(run, Profile), b"[]"),
        history.NAME: in_file(run / history.NAME, lambda: list(history._all(run)), remembered + b"\n"),
        "a suite": in_file(folder / "suites/one.toml", lambda: read_suite(folder / "suites/one.toml"), *suites),
        "an ABI": in_file(folder / "abis/one.toml", lambda: read_abi(folder / "abis/one.toml"), *abis),
    }


def _marked(data: bytes) -> object:
    """A target hands on whole visits alone."""
    outcome(data)
    return outcome(retimed(data, STAMPS, "line"))


def _ended(read: Callable[[bytes], object], data: bytes) -> tuple[str | None, str]:
    """What is wrong with how it ended, and how it ended."""
    began = time.process_time()
    try:
        how = type(read(data)).__name__
    except Failure as failure:
        how = _SAID.sub("", failure.sentence)
    except Exception as error:  # noqa: BLE001  whatever it is, a person would see a traceback
        return f"a traceback: {type(error).__name__}: {error}"[:300], ""
    took = time.process_time() - began
    return f"it took {took:.1f} s" if took > MOST_S else None, how


def _left(name: str, data: bytes) -> str:
    BROKEN.mkdir(parents=True, exist_ok=True)
    path = BROKEN / f"reader-{re.sub('[^a-z]', '-', name)}-{zlib.crc32(data):08x}"
    path.write_bytes(data)
    return str(path)


# ---- changes --------------------------------------------------------------------------------------------------------


def changed(kept: Sequence[bytes], chance: random.Random) -> bytes:
    data = bytearray(chance.choice(kept))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        chance.choice(_CHANGES)(data, chance, kept)
    del data[MOST_BYTES:]
    return sealed(bytes(data)) if chance.random() < 0.7 else bytes(data)


def sealed(data: bytes) -> bytes:
    return _SEALED.sub(lambda line: b"%s%s%08x%s" % (line[1], line[2], zlib.crc32(line[1]), line[3]), data)


def _place(data: bytearray, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _flip(data: bytearray, chance: random.Random, _: Iterable[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(data: bytearray, chance: random.Random, _: Iterable[bytes]) -> None:
    place = _place(data, chance)
    del data[place : place + chance.choice((1, 3, 30, 3000))]


def _double(data: bytearray, chance: random.Random, _: Iterable[bytes]) -> None:
    place = _place(data, chance)
    data[place:place] = data[place : place + chance.choice((1, 3, 30, 3000))]


def _word(data: bytearray, chance: random.Random, _: Iterable[bytes]) -> None:
    place = _place(data, chance)
    data[place : place + chance.choice((0, 0, 1, 5))] = chance.choice(WORDS)


def _number(data: bytearray, chance: random.Random, _: Iterable[bytes]) -> None:
    """In place of a number another: the checksum can be made true around it, and the shape stays."""
    found = list(re.finditer(rb"-?[0-9]+(\.[0-9]+)?|\"[a-z_]+\"", data[: MOST_BYTES // 4]))
    if found:
        chosen = chance.choice(found)
        data[chosen.start() : chosen.end()] = chance.choice(WORDS[:8])


def _join(data: bytearray, chance: random.Random, kept: Iterable[bytes]) -> None:
    other = chance.choice(list(kept))
    place = chance.randrange(len(other) + 1)
    data[_place(data, chance) :] = other[place:]


_CHANGES = (_flip, _cut, _double, _word, _word, _number, _number, _number, _join)


if __name__ == "__main__":
    ends, asked = time.process_time() + float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4711
    found = Tally("changed inputs to readers")
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as scratch:
        look(found, asked, Path(scratch), lambda: found.count < LEAST or time.process_time() < ends)
    print(*found.complaints, f"{found.figures()}; seed {asked}", sep="\n")
    sys.exit(int(bool(found.complaints)))
