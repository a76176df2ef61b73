# SPDX-License-Identifier: Apache-2.0
"""Stores the visits of a large journal in its index, from which they are read in a twentieth of the time: common values
of visits once, and the columns of their samples as bytes."""

from __future__ import annotations

import marshal
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tollmeter.model import ClockReading, Columns, Outcome, Room, Samples
from tollmeter.model.samples import COLUMNS

LEAST_BYTES = 32 << 20
"""Smallest journal whose visits are stored: a smaller one is read in two seconds, and its index would be several times
as large."""
_NUMBER = re.compile("[<>|][if][1248]")
TABLES = ("visit_blocks", "visit_kinds", "visits")
_AT_ONCE = 4096
"""Visits of a cell, which is then about a megabyte."""
_OWN: dict[str, Any] = {"visit": 0, "round": 0, "seed": 0, "at_ns": 0, "waited_ns": 0, "counted_ns": 0, "controls": (),
                        "clock": ClockReading(), "samples": ()}  # fmt: skip
"""Fields that differ between visits of one kind. Visits with equal other fields are of one kind."""


class _Kept(msgspec.Struct, array_like=True, gc=False):
    """A stored visit. kind, clock: indices in their lists; block: block of its samples' columns, -1 without samples."""

    kind: int
    visit: int
    round: int
    seed: int
    at_ns: int
    waited_ns: int
    counted_ns: int
    controls: tuple[float, ...]
    clock: int
    block: int
    start: int
    stop: int


class _Block(msgspec.Struct, array_like=True):
    """A stored block of samples. columns: their bytes; kinds: number type of each, and whether it is constant; lanes:
    lanes of companions."""

    samples: int
    kinds: tuple[tuple[str, bool], ...]
    columns: bytes
    lanes: tuple[tuple[tuple[int, int], ...], ...]


_Common = tuple[tuple[Outcome, ...], tuple[ClockReading, ...]]
"""The values that visits of one kind share, and the clocks' readings: a visit has the index of each."""


def cells(visits: Sequence[Outcome]) -> Iterator[tuple[str, bytes]]:
    """Yields the table and the content of each cell that stores these visits."""
    blocks: dict[Columns, int] = {}
    kinds: dict[bytes, int] = {}
    clocks: dict[ClockReading, int] = {}
    for start in range(0, len(visits), _AT_ONCE):
        part = [_kept(visit, blocks, kinds, clocks) for visit in visits[start : start + _AT_ONCE]]
        yield "visits", msgspec.msgpack.encode(part)
    common = tuple(msgspec.msgpack.decode(kind, type=Outcome) for kind in kinds)
    yield "visit_kinds", msgspec.msgpack.encode((common, (*clocks,)))
    for columns in blocks:
        packed, lanes = columns.packed()
        parts, are_same = Room.parts(packed)
        types = tuple((column.dtype.str, same) for column, same in zip(packed.values(), are_same, strict=True))
        content = _Block(len(packed["iterations"]), types, b"".join(parts), (*lanes,))
        yield "visit_blocks", msgspec.msgpack.encode(content)


def _kept(
    visit: Outcome, blocks: dict[Columns, int], kinds: dict[bytes, int], clocks: dict[ClockReading, int]
) -> _Kept:
    samples = Samples.of(visit.samples) if len(visit.samples) else None
    block = -1 if samples is None else blocks.setdefault(samples.columns, len(blocks))
    common = msgspec.msgpack.encode(msgspec.structs.replace(visit, **_OWN))
    return _Kept(
        kinds.setdefault(common, len(kinds)), visit.visit, visit.round, visit.seed, visit.at_ns, visit.waited_ns,
        visit.counted_ns, visit.controls, clocks.setdefault(visit.clock, len(clocks)), block,
        samples.start if samples else 0, samples.stop if samples else 0,
    )  # fmt: skip


def visits_kept(db: sqlite3.Connection) -> tuple[Outcome, ...]:
    """Returns the stored visits. Raises LookupError if the index contains none, and ValueError if they are damaged."""
    (content,) = db.execute("SELECT content FROM visit_kinds").fetchone() or [None]
    if content is None:
        raise LookupError("no visits are kept")
    common = msgspec.msgpack.decode(content, type=_Common)
    room = Room()
    blocks = [_columns(room, content) for (content,) in db.execute("SELECT content FROM visit_blocks ORDER BY rowid")]
    cells_of = (content for (content,) in db.execute("SELECT content FROM visits ORDER BY rowid"))
    return tuple(
        visit
        for content in cells_of
        for visit in _visits(msgspec.msgpack.decode(content, type=list[_Kept]), common, blocks)
    )


def _columns(room: Room, content: bytes) -> tuple[Columns, int]:
    """Returns a block, and its number of samples. Raises ValueError if its bytes do not match."""
    block = msgspec.msgpack.decode(content, type=_Block)
    if not all(_NUMBER.fullmatch(kind) for kind, _ in block.kinds):
        raise ValueError("a column has another type than a number's")
    sizes = [int(kind[2:]) * (1 if same else block.samples) for kind, same in block.kinds]
    if len(sizes) != len(COLUMNS) or min(sizes) < 1 or sum(sizes) != len(block.columns):
        raise ValueError("the columns are not as long as their samples")
    if len(block.lanes) not in (0, block.samples):
        raise ValueError("samples and their lanes are not as many")
    content = block.columns + marshal.dumps([*block.lanes])
    return Columns.kept(room, content, block.samples, block.kinds), block.samples


def _visits(part: Iterable[_Kept], common: _Common, blocks: Sequence[tuple[Columns, int]]) -> Iterator[Outcome]:
    (kinds, clocks), replace = common, msgspec.structs.replace
    for stored in part:
        samples: Samples | tuple[()] = ()
        if stored.block >= 0:
            columns, many = blocks[stored.block]
            if not 0 <= stored.start < stored.stop <= many:
                raise ValueError("a visit has samples that its block lacks")
            samples = Samples(columns, stored.start, stored.stop)
        yield replace(
            kinds[stored.kind], visit=stored.visit, round=stored.round, seed=stored.seed, at_ns=stored.at_ns,
            waited_ns=stored.waited_ns, counted_ns=stored.counted_ns, controls=stored.controls,
            clock=clocks[stored.clock], samples=samples,
        )  # fmt: skip
