# SPDX-License-Identifier: Apache-2.0
"""Keeps samples as columns: a sample object takes 700 bytes, and iterating over objects would be most of the time of
reading a large journal.

The `samples` of a visit are a range of columns that it shares with other visits that were read before and after it. A
single sample is returned as a Sample, and all numbers of a kind as a column. A count that the system does not report is
-1 in the column. The columns of a large run are in a temporary file (`Room`)."""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import astuple

from tollmeter.model.base import Failure
from tollmeter.model.measured import Sample, Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = -1
MOST_HELD = 1 << 12
"""Number of samples of a full block. Until a block is full, its samples are rows of 168 bytes, 0.7 MB together, which
fit into a cache."""
_MOST_IN_MEMORY = 16 << 20
"""Number of bytes of packed columns that a Room keeps in memory."""
RECENT = 96
"""Number of blocks that a Room keeps in memory after reading them: those of all probes of a run that is read in
order."""
_FOLDER = "/var/tmp"
"""Folder of the temporary file. It is on disk on all systems, unlike /tmp: a file in memory would save no memory."""

_SEEN = Witness.__struct_fields__
_RATES = tuple(name for name in _SEEN if name.endswith("_hz"))
_COUNTS = tuple(name for name in _SEEN if name not in _RATES)
_REPORTED = ("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks", "delay_ns")
MAYBE = (*_REPORTED, "control_n", "control_2n")
"""Columns in which a value may be missing: not reported by the system, or of a probe without a control."""
_ONCE = ("iterations", "control_iterations", "at_ns")
_TWICE = ("body_n", "body_2n", "control_n", "control_2n")
_WHOLE = (*_ONCE, *_TWICE, *_COUNTS)
COLUMNS = (*_WHOLE, *_RATES)
_INTEGERS = ("i1", "i2", "i4", "i8")
_NO_CONTROL = (NONE, NONE)
_TIMES_ROW, _SEEN_ROW = "q" * len((*_ONCE, *_TWICE)), "".join("d" if name in _RATES else "q" for name in _SEEN)

_M_MMAP_THRESHOLD = -3

Lanes = tuple[tuple[int, int], ...]
Packed = Mapping[str, "NDArray[Any]"]


class Columns:
    """A block of samples, which grows until it is full or a column is read: `iterations`, `at_ns`,
    `control_iterations`, `body_n`, `body_2n`, `control_n`, `control_2n`, and the fields of a witness."""

    def __init__(self, room: Room | None = None, most: int = MOST_HELD) -> None:
        """Creates a block. room: storage for the columns of full blocks; most: samples of a full block."""
        self._times: list[bytes] = []
        self._seen: list[bytes] = []
        self._room, self._most = room, most
        self._place: _Place | None = None
        self._columns: Packed = {}
        self._lanes: list[Lanes] = []
        self._least: dict[str, float] = {}

    @classmethod
    def kept(cls, room: Room, content: bytes, samples: int, kinds: tuple[tuple[str, bool], ...]) -> Columns:
        """Returns a full block of the content that `Room` wrote. Raises Failure (5) without disk space. kinds: number
        type of each column, and whether it is constant."""
        columns = cls(room)
        columns._place = room.put(content, samples, kinds)
        return columns

    def packed(self) -> tuple[Packed, Sequence[Lanes]]:
        """Returns all columns, and the lanes of the samples."""
        return self._held()

    def is_open(self) -> bool:
        """Returns whether samples may be added to the block."""
        return not self._columns and not self._place

    def add(self, taken: Iterable[Any], seen: Iterable[Any]) -> Samples:
        """Adds the samples of one visit while the block is open, and returns them. taken: samples, or records with the
        same fields. seen: the witness of each."""
        taken = [*taken]
        start = len(self._lanes)
        self._times.append(_times(taken))
        self._seen.append(_evidence([value for one in seen for value in astuple(one)[: len(_SEEN)]]))
        self._lanes += [sample.lanes for sample in taken]
        stop = len(self._lanes)
        if stop >= self._most:
            self._settle()
        return Samples(self, start, stop)

    def column(self, name: str) -> NDArray[Any]:
        """Returns a column of all samples in its narrowest type, which must be widened before arithmetic."""
        return self.columns()[name]

    def columns(self) -> Packed:
        """Returns all columns, in one reading."""
        return self._held()[0]

    def lanes(self, start: int, stop: int) -> Sequence[Lanes]:
        """Returns the lanes of a range of samples."""
        lanes = self._held()[1]
        return lanes[start:stop] if lanes else ((),) * (stop - start)

    def least(self, name: str) -> float:
        """Returns the lowest value of a column."""
        if name not in self._least:
            self._least[name] = float(self.column(name).min())
        return self._least[name]

    @cached_property
    def reports_all(self) -> bool:
        """Returns whether the system reported every count of all samples."""
        return all(self.least(name) > NONE for name in _REPORTED)

    @cached_property
    def has_lanes(self) -> bool:
        """Returns whether a sample has timed companions."""
        return bool(self._held()[1])

    def _held(self) -> tuple[Packed, Sequence[Lanes]]:
        """Returns the columns and lanes. If the block is still open, closes it."""
        if self.is_open():
            self._settle()
        return self._room.held(self._place) if self._room and self._place else (self._columns, self._lanes)

    def _settle(self) -> None:
        """Closes the block: converts its rows to columns, and stores these in the Room if there is one."""
        samples = len(self._lanes)
        self._columns, least = _packed(*_tables(self._times, self._seen))
        self._lanes = self._lanes if any(self._lanes) else []
        self._times, self._seen = [], []
        if self._room and samples:
            self.reports_all = all(least[name] > NONE for name in _REPORTED)
            self.has_lanes = bool(self._lanes)
            self._place = self._room.take(self._columns, self._lanes)
        if self._place:
            self._columns, self._lanes = {}, []


class _Place(NamedTuple):
    """The position of a block in a Room's file. kinds: number type of each column, and whether it is constant."""

    start: int
    size: int
    samples: int
    kinds: tuple[tuple[str, bool], ...]


class Room:
    """Stores the columns of one run. Columns beyond 16 MB are written to an unnamed file, and read from it a block at a
    time. Without disk space they stay in memory."""

    def __init__(self) -> None:
        self._bytes = 0
        self._file: int | None = None
        self._end = 0
        self._kinds: dict[Any, Any] = {}
        self._recent: dict[int, tuple[Packed, Sequence[Lanes]]] = {}

    def take(self, columns: Packed, lanes: Sequence[Lanes]) -> _Place | None:
        """Stores a block, and returns its position; None if it stays in memory."""
        parts, is_constant = self.parts(columns)
        content = b"".join([*parts, marshal.dumps([*lanes])])
        if self._bytes < _MOST_IN_MEMORY:
            self._bytes += len(content)
            return None
        kinds = tuple((column.dtype.str, same) for column, same in zip(columns.values(), is_constant, strict=True))
        return self._placed(content, len(columns["iterations"]), kinds)

    @staticmethod
    def parts(columns: Packed) -> tuple[list[bytes], list[bool]]:
        """Returns the bytes of each column, and whether all its values are equal."""
        is_constant = [not any(column.strides) for column in columns.values()]
        flagged = zip(columns.values(), is_constant, strict=True)
        return [column[: 1 if same else None].tobytes() for column, same in flagged], is_constant

    def put(self, content: bytes, samples: int, kinds: tuple[tuple[str, bool], ...]) -> _Place:
        """Stores a block in the file, and returns its position. Raises Failure (5) without disk space."""
        place = self._placed(content, samples, kinds)
        if place is None:
            raise Failure("a temporary file cannot be written", 5)
        return place

    def _placed(self, content: bytes, samples: int, kinds: tuple[tuple[str, bool], ...]) -> _Place | None:
        """Writes a block to the file, and returns its position; None without disk space."""
        start = self._write(content)
        return None if start is None else _Place(start, len(content), samples, self._kinds.setdefault(kinds, kinds))

    def _write(self, content: bytes) -> int | None:
        """Appends bytes to the file, and returns where they begin; None without disk space."""
        start = self._end
        with contextlib.suppress(OSError):
            if self._file is None:
                _return_memory()
                with tempfile.TemporaryFile(dir=_FOLDER if os.access(_FOLDER, os.W_OK) else None) as file:
                    self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            if os.pwrite(self._file, content, start) == len(content):
                self._end += len(content)
                return start
        return None

    def held(self, place: _Place) -> tuple[Packed, Sequence[Lanes]]:
        """Returns the columns and lanes of a stored block. Raises Failure (5) if the file cannot be read."""
        block = self._recent.pop(place.start, None) or self._read(place)
        self._recent[place.start] = block
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        return block

    def _read(self, place: _Place) -> tuple[Packed, Sequence[Lanes]]:
        """Reads a block from the file."""
        import numpy as np

        assert self._file is not None
        content, at, columns = os.pread(self._file, place.size, place.start), 0, {}
        if len(content) < place.size:
            raise Failure(f"a temporary file of {place.start + place.size} bytes was cut", 5)
        for name, (kind, is_one) in zip(COLUMNS, place.kinds, strict=True):
            column = np.ndarray((place.samples,), kind, content, at, (0,) if is_one else None)
            columns[name] = column
            at += column.itemsize * (1 if is_one else place.samples)
        return columns, marshal.loads(content[at:])


def _return_memory() -> None:
    """Makes the C library map each block of at least 256 KiB separately, and return it to the system when it is freed.
    Otherwise up to 100 MB that numpy frees between small objects stay allocated in a large run."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 18)


@lru_cache(maxsize=256)
def _rows(row: str, samples: int) -> Callable[..., bytes]:
    """Returns the function that packs the values of some samples. row: format of one sample."""
    return struct.Struct(f"={row * samples}").pack


def _times(taken: Sequence[Any]) -> bytes:
    """Returns the times of samples as bytes, a row for each. They are packed as soon as their visit is read: when a
    block is full, the objects are no longer in the cache of the CPU, and reading them takes twice as long."""
    values = [
        value for one in taken
        for value in (one.iterations, one.control_iterations, one.at_ns, *one.body, *(one.control or _NO_CONTROL))
    ]  # fmt: skip
    return _rows(_TIMES_ROW, len(taken))(*values)


def _evidence(values: Sequence[float | None]) -> bytes:
    """Returns the evidence of samples as bytes, a row for each, in the order of a witness. Missing values are replaced
    only if packing fails, since most systems report every value."""
    pack = _rows(_SEEN_ROW, len(values) // len(_SEEN))
    try:
        return pack(*values)
    except struct.error:
        absent = cycle([0.0 if name in _RATES else NONE for name in _SEEN])
        return pack(*[other if value is None else value for value, other in zip(values, absent, strict=False)])


def _tables(times: Sequence[bytes], seen: Sequence[bytes]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Returns three tables with a row for each sample: times; evidence, with its rates as integers; and rates."""
    import numpy as np

    evidence = np.frombuffer(b"".join(seen), np.int64).reshape(-1, len(_SEEN))
    rates = evidence[:, [_SEEN.index(name) for name in _RATES]].view(np.float64)
    rates[np.isnan(rates)] = 0.0
    return np.frombuffer(b"".join(times), np.int64).reshape(-1, len(_TIMES_ROW)), evidence, rates


def _packed(times: NDArray[Any], evidence: NDArray[Any], rates: NDArray[Any]) -> tuple[Packed, Mapping[str, float]]:
    """Returns each column in its narrowest type, with a constant column as one value; and the lowest value of each
    column."""
    import numpy as np

    names = *_ONCE, *_TWICE, *_SEEN, *_RATES
    wide = dict(zip(names, (column for table in (times, evidence, rates) for column in table.T), strict=False))
    if not len(times):
        return {name: wide[name] for name in COLUMNS}, {}
    tables = (times, evidence, rates)
    least, most = (
        dict(zip(names, (end for table in tables for end in function(table, axis=0).tolist()), strict=True))
        for function in (np.min, np.max)
    )
    return {name: _narrow(wide[name], least[name], most[name]) for name in COLUMNS}, least


def _narrow(wide: NDArray[Any], least: float, most: float) -> NDArray[Any]:
    """Returns a column in its narrowest type; a constant column as one value with stride 0. least, most: its lowest and
    highest value."""
    import numpy as np

    if least == most:
        return np.ndarray(wide.shape, wide.dtype, wide[:1].tobytes(), 0, (0,))
    if wide.dtype.kind == "f":
        return wide.copy()
    reach = min(least, -most - 1)
    return wide.astype(next(kind for kind in _INTEGERS if -(2 ** (8 * int(kind[1]) - 1)) <= reach))


class Samples(Sequence[Sample]):
    """The samples of one visit. columns: the block that contains them. start, stop: their range in it."""

    __slots__ = ("columns", "start", "stop")

    def __init__(self, columns: Columns, start: int, stop: int) -> None:
        self.columns, self.start, self.stop = columns, start, stop

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Samples:
        """Returns samples as columns."""
        if isinstance(samples, Samples):
            return samples
        return Columns().add(samples, [sample.witness for sample in samples])

    def column(self, name: str) -> NDArray[Any]:
        """Returns one column, as Columns.column does."""
        return self.columns.column(name)[self.start : self.stop]

    def reported(self) -> dict[str, list[Any]]:
        """Returns the values of all columns as lists; None for a value that the system does not report, and for the
        control of a probe that has none."""
        cells_of = {name: column[self.start : self.stop].tolist() for name, column in self.columns.columns().items()}
        for name in MAYBE:
            if NONE in cells_of[name]:
                cells_of[name] = [None if cell == NONE else cell for cell in cells_of[name]]
        return cells_of

    def reports_all(self) -> bool:
        """Returns whether every sample of the block has every count; then every sample of the visit has."""
        return bool(len(self)) and self.columns.reports_all

    def lanes(self) -> Sequence[Lanes]:
        """Returns the lanes of each sample. A column must have been read before, which closes the block."""
        return self.columns.lanes(self.start, self.stop)

    def lacks(self, *names: str) -> bool:
        """Returns whether some sample lacks all of these values."""
        if not len(self) or any(self.columns.least(name) > NONE for name in names):
            return False
        return any(map(all, zip(*((self.column(name) == NONE).tolist() for name in names), strict=True)))

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        at = range(self.start, self.stop)[place]
        return next(iter(Samples(self.columns, at, at + 1)))

    def __iter__(self) -> Iterator[Sample]:
        columns = [self.column(name).tolist() for name in COLUMNS]
        return map(_sample, zip(*columns, strict=True), self.lanes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def _sample(values: Sequence[Any], lanes: Lanes) -> Sample:
    """Returns one sample from its values in the order of COLUMNS."""
    values_of: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
    evidence: dict[str, Any] = {
        name: None if values_of[name] == NONE and name in _REPORTED else values_of[name] for name in _SEEN
    }
    body, control = (values_of["body_n"], values_of["body_2n"]), (values_of["control_n"], values_of["control_2n"])
    return Sample(
        **{name: values_of[name] for name in _ONCE}, body=body, control=None if control[0] == NONE else control,
        lanes=lanes, witness=Witness(**evidence),
    )  # fmt: skip
