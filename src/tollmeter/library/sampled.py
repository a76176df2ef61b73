# SPDX-License-Identifier: Apache-2.0
"""One process that is sampled: a slice of a profile, its addresses as the executable has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tollmeter.catalog import Executable
from tollmeter.library.places import ROOT
from tollmeter.model import Point, Record, Work
from tollmeter.numbers.slices import Look
from tollmeter.protocol import Damaged, Line, find_lines
from tollmeter.targets.child import Ended
from tollmeter.targets.profiling_visit import Asked as Sampling
from tollmeter.targets.profiling_visit import profiled
from tollmeter.toolchain.abis import open_here

T = TypeVar("T")

SPENT, STOPPED = "the budget was spent before it", "the run was interrupted before it"
"""Of a point that was not looked at any more."""

Over = Callable[[], str | None]
"""Why nothing more is to be looked at, if so."""


def never() -> str | None:
    """No time limit: for callers that wait for the end, or end it by an exception."""
    return None


class Sampled(Record, frozen=True):
    """One `profile` record."""

    source: str
    hits: tuple[tuple[int, int], ...]
    period_ns: int = 0
    kernel: int = 0
    sees_kernel: bool = False
    lost: int = 0
    iterations: int = 0
    ns: int = 0
    looks: tuple[Look, ...] = ()


class Slice(NamedTuple):
    """last: its last record, which has what holds for all; hits: how often each address was met."""

    last: Sampled
    work: Work
    hits: dict[int, int]

    @property
    def own_ns(self) -> float:
        """The program's own time: the sum of perf's periods, whose clock stops while another task runs. Without
        permission to look into the kernel some samples are missing, and it is the wall time."""
        if not self.last.sees_kernel:
            return self.last.ns
        return float((sum(self.hits.values()) + self.last.kernel + self.last.lost) * self.last.period_ns)

    @property
    def operations(self) -> float:
        return self.last.iterations * (self.work.operations or 1.0)


class _Trouble(Record, frozen=True):
    reason: str


class _ProfiledVisit(Record, frozen=True):
    work: Work


class ProfilePoint(NamedTuple):
    """One point, and the executable that it is a point of."""

    point: Point
    executable: Executable

    def command(self) -> list[str]:
        return [self.executable.path, *(f"{name}={value}" for name, value in self.point.parameters)]


def sampled(wanted: ProfilePoint, sampling: Sampling) -> Slice:
    """Raises Failure with a reason where there is none, OSError where the executable cannot be started."""
    visit = profiled(wanted.point.target, wanted.command(), sampling, _emulator(wanted.point.target))
    last, work = read_profile(visit.ended)
    records = _read(list(find_lines(visit.ended.output)), "profile", Sampled)
    return Slice(last, work, visit.counted or dict(hit for record in records for hit in record.hits))


def read_profile(ended: Ended) -> tuple[Sampled, Work]:
    """The last record of a profile, and what an operation is. Raises Failure with a reason where there is none."""
    lines = list(find_lines(ended.output))
    records = _read(lines, "profile", Sampled)
    troubles = [*_read(lines, "skip", _Trouble), *_read(lines, "fail", _Trouble)]
    if troubles or not records:
        raise Damaged(troubles[0].reason if troubles else "it was ended before it told where it was")
    return records[-1], _read(lines, "visit", _ProfiledVisit)[0].work


def _read(lines: Sequence[Line], kind: str, form: type[T]) -> list[T]:
    return [msgspec.json.decode(line.text, type=form) for line in lines if line.kind == kind]


def _emulator(target: str) -> Path:
    """With both plugins made, where one is needed."""
    if target.startswith("qemu-user:"):
        open_here(ROOT, target, ("profile.so",)).close()
    return ROOT / "build/emulator"
