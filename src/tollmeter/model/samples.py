# SPDX-License-Identifier: Apache-2.0
"""Samples as columns: as objects one took 700 bytes, and to look at each in turn was most of what a large journal took.

A visit's `samples` are a stretch of columns that it shares with the visits read before and after it. Who wants one
gets it as a Sample; who wants all of a kind asks for the column. A count that the system does not tell stands there as
-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tollmeter.model.measured import Sample, Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = -1
MANY = 256
"""Samples of a block whose columns are worth packing."""
MOST_HELD = 1 << 15
"""Samples of a full block. Until then they wait as objects: 16 MB."""

_SEEN = Witness.__struct_fields__
_RATES = tuple(name for name in _SEEN if name.endswith("_hz"))
_COUNTS = tuple(name for name in _SEEN if name not in _RATES)
_MAYBE = ("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks", "delay_ns")
_ONCE = ("iterations", "control_iterations", "at_ns")
_TWICE = ("body_n", "body_2n", "control_n", "control_2n")
_WHOLE = (*_ONCE, *_TWICE, *_COUNTS)
_INTEGERS = ("i1", "i2", "i4", "i8")
_once_of, _counts_of, _rates_of = attrgetter(*_ONCE), attrgetter(*_COUNTS), attrgetter(*_RATES)

Lanes = tuple[tuple[int, int], ...]


class Columns:
    """A block of samples, which grows until it is full or somebody asks for a column: `iterations`, `at_ns`,
    `control_iterations`, `body_n`, `body_2n`, `control_n`, `control_2n`, and the fields of a witness."""

    def __init__(self) -> None:
        self._taken: list[Any] = []
        self._seen: list[Any] = []
        self._columns: dict[str, NDArray[Any]] = {}
        self._lanes: Sequence[Lanes] = ()
        self._least: dict[str, float] = {}

    def is_open(self) -> bool:
        """Whether more samples may come into it."""
        return not self._columns

    def add(self, taken: Iterable[Any], seen: Iterable[Any]) -> Samples:
        """One visit's, while it is open. taken: samples, or records with a sample's fields; seen: likewise of
        witnesses."""
        start = len(self._taken)
        self._taken += taken
        self._seen += seen
        stop = len(self._taken)
        if stop >= MOST_HELD:
            self._settle()
        return Samples(self, start, stop)

    def column(self, name: str) -> NDArray[Any]:
        """Of all samples, in as few bytes as hold them: widen it before reckoning."""
        if not self._columns:
            self._settle()
        return self._columns[name]

    def lanes(self, start: int, stop: int) -> Sequence[Lanes]:
        return self._lanes[start:stop] if self._lanes else ((),) * (stop - start)

    def least(self, name: str) -> float:
        if name not in self._least:
            self._least[name] = float(self.column(name).min())
        return self._least[name]

    def _settle(self) -> None:
        import numpy as np

        whole = _integers(self._taken, self._seen)
        rates = np.array(list(map(_rates_of, self._seen)), dtype=np.float64).reshape(-1, len(_RATES))
        rates[np.isnan(rates)] = 0.0
        columns = dict(zip((*_WHOLE, *_RATES), (*whole.T, *rates.T), strict=True))
        self._columns = {name: _narrow(one) for name, one in columns.items()} if len(whole) >= MANY else columns
        lanes = [one.lanes for one in self._taken]
        self._lanes = lanes if any(lanes) else ()
        self._taken, self._seen = [], []


def _whole(one: Any, seen: Any) -> tuple[int | None, ...]:
    """Of a sample and its witness what is no rate."""
    return *_once_of(one), *one.body, *(one.control or (NONE, NONE)), *_counts_of(seen)


def _integers(taken: Sequence[Any], seen: Sequence[Any]) -> NDArray[Any]:
    """Most systems tell everything, and are not asked value by value whether they do."""
    import numpy as np

    def every() -> Iterator[int | None]:
        return chain.from_iterable(map(_whole, taken, seen))

    try:
        wide = np.fromiter(every(), dtype=np.int64)
    except TypeError:
        wide = np.fromiter((NONE if value is None else value for value in every()), dtype=np.int64)
    return wide.reshape(-1, len(_WHOLE))


def _narrow(wide: NDArray[Any]) -> NDArray[Any]:
    """In as few bytes as hold it; one value for all takes the room of one."""
    import numpy as np

    if (wide == wide[0]).all():
        return np.broadcast_to(wide[0], wide.shape)
    if wide.dtype.kind == "f":
        return wide.copy()
    least = min(int(wide.min()), -int(wide.max()))
    return wide.astype(next(kind for kind in _INTEGERS if -(2 ** (8 * int(kind[1]) - 1)) <= least))


class Samples(Sequence[Sample]):
    """Those of one visit. columns, start, stop: where they stand."""

    __slots__ = ("columns", "start", "stop")

    def __init__(self, columns: Columns, start: int, stop: int) -> None:
        self.columns, self.start, self.stop = columns, start, stop

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Samples:
        if isinstance(samples, Samples):
            return samples
        return Columns().add(samples, [one.witness for one in samples])

    def column(self, name: str) -> NDArray[Any]:
        return self.columns.column(name)[self.start : self.stop]

    def lanes(self) -> Sequence[Lanes]:
        """Of each; asked for behind a column."""
        return self.columns.lanes(self.start, self.stop)

    def lacks(self, *names: str) -> bool:
        """Whether there is a sample of which the system told none of these."""
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
        columns = [self.column(name).tolist() for name in (*_WHOLE, *_RATES)]
        return map(_sample, zip(*columns, strict=True), self.lanes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def _sample(values: Sequence[Any], lanes: Lanes) -> Sample:
    told: dict[str, Any] = dict(zip((*_WHOLE, *_RATES), values, strict=True))
    seen: dict[str, Any] = {name: None if told[name] == NONE and name in _MAYBE else told[name] for name in _SEEN}
    body, control = (told["body_n"], told["body_2n"]), (told["control_n"], told["control_2n"])
    return Sample(
        **{name: told[name] for name in _ONCE}, body=body, control=None if control[0] == NONE else control,
        lanes=lanes, witness=Witness(**seen),
    )  # fmt: skip
