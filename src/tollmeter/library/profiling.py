# SPDX-License-Identifier: Apache-2.0
"""Profiles: points run under a sampler, their addresses made functions, kept in the run's folder beside the journal.

The journal holds what was measured, and is the truth of the rows. A profile is of the executable as it was then, which
nobody keeps: so it is written as functions at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tollmeter.catalog import Executable
from tollmeter.library import places
from tollmeter.library.asked import asked
from tollmeter.library.places import ROOT
from tollmeter.library.prepare import machine_of
from tollmeter.model import Failure, Point, Profile, Record, Select, Share, Work
from tollmeter.plan.effort import is_counted
from tollmeter.plan.points import Ground, check_asked, resolve
from tollmeter.protocol import Damaged, Line, find_lines
from tollmeter.store.profiles import keep
from tollmeter.targets.child import Ended
from tollmeter.targets.profiled import Asked as Sampling
from tollmeter.targets.profiled import profiled
from tollmeter.toolchain.abis import open_here
from tollmeter.toolchain.symbols import Met, Symbols

KERNEL = "(kernel)"
COUNTED_S = 0.05
"""Of a profile where every instruction is counted, each as a nanosecond: it is exact, and the same each time."""
T = TypeVar("T")
Tell = Callable[[str], None]


class _Sampled(Record, frozen=True):
    """One `profile` record."""

    source: str
    hits: tuple[tuple[int, int], ...]
    period_ns: int = 0
    kernel: int = 0
    sees_kernel: bool = False
    lost: int = 0
    iterations: int = 0
    ns: int = 0

    def own_ns(self, hits: int) -> float:
        """What the program itself took. ns passed on the wall, where others may have had the CPU for most of it: perf's
        clock stands still then, and so each of its samples is a period of the program's own time. Where it may not look
        into the kernel some are missing, and the wall's time is all that there is."""
        if not self.sees_kernel:
            return self.ns
        return float((hits + self.kernel + self.lost) * self.period_ns)


class _Trouble(Record, frozen=True):
    reason: str


class _Visit(Record, frozen=True):
    work: Work


class Wanted(NamedTuple):
    """One point, and the executable that it is a point of."""

    point: Point
    executable: Executable


def points_of(words: Sequence[str], abis: Sequence[str], targets: Sequence[str]) -> list[Wanted]:
    """What the words come to; a parameter that they do not name takes its typical value. Raises Failure: 2 for a name
    that is not there, 6 where nothing of it runs here."""
    catalog = places.made_ready(abis, targets)
    suite, settings = asked(words, places.suites(), catalog)
    if places.brought(catalog, suite):
        catalog = places.made_ready(abis, targets)
    selects = [msgspec.structs.replace(select, others="typical") for select in suite.select]
    check_asked(catalog, selects, settings, abis)
    ground = Ground(catalog, machine_of(catalog, targets)[0], settings, abis)
    found = wanted_by(selects, ground)
    if not found:
        raise Failure(f"nothing of {suite.name} runs here", 6)
    return found


def wanted_by(selects: Iterable[Select], ground: Ground) -> list[Wanted]:
    """The points of some selections that are built here, each once."""
    points = dict.fromkeys(point for select in selects for point in resolve(select, ground, 1).points)
    return [Wanted(point, ground.catalog.executables[point.probe, point.abi]) for point in points]


def profile_suite(folder: Path, selects: Sequence[Select], ground: Ground, seconds: float, tell: Tell) -> None:
    """Takes the profiles that a suite wants, and keeps them in the run's folder, also what there is of them after a
    Ctrl-C. tell: is told which is next."""
    taken: list[Profile] = []
    every = wanted_by(selects, ground)
    try:
        for number, wanted in enumerate(every, start=1):
            tell(f"profile {number} of {len(every)}: {wanted.point.probe} {wanted.point.abi}")
            lasting = min(seconds, COUNTED_S) if is_counted(wanted.point) else seconds
            taken.append(take(wanted, Sampling(round(1000 * lasting))))
    finally:
        keep(folder, taken)


def take(wanted: Wanted, sampling: Sampling) -> Profile:
    """One profile. What went wrong is its reason: it keeps no other from being taken."""
    point = wanted.point
    empty = Profile(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    try:
        return _taken(empty, wanted, sampling)
    except (Failure, OSError) as error:
        return msgspec.structs.replace(empty, reason=error.sentence if isinstance(error, Failure) else str(error))


def lines_of(words: Sequence[str], ms: int = 1000) -> Met:
    """How often each line of a probe's sources was met, at its typical values where the words name no others. Raises
    Failure."""
    wanted = points_of(words, (), ())[0]
    return Symbols(Path(wanted.executable.path)).met(_sampled(wanted, Sampling(ms))[2])


def _taken(empty: Profile, wanted: Wanted, sampling: Sampling) -> Profile:
    last, work, hits = _sampled(wanted, sampling)
    operations = last.iterations * (work.operations or 1.0)
    return msgspec.structs.replace(
        empty, source=last.source, shares=_shares(Path(wanted.executable.path), hits, last.kernel), lost=last.lost,
        operation_ns=last.own_ns(sum(hits.values())) / operations if operations else 0.0,
    )  # fmt: skip


def _sampled(wanted: Wanted, sampling: Sampling) -> tuple[_Sampled, Work, dict[int, int]]:
    """The last record of the profile, what an operation is, and how often each address was met. Raises Failure."""
    words = [f"{name}={value}" for name, value in wanted.point.parameters]
    told = profiled(wanted.point.target, wanted.executable.path, words, sampling, _emulator(wanted.point.target))
    last, work = read_profile(told.ended)
    records = _read(list(find_lines(told.ended.output)), "profile", _Sampled)
    return last, work, told.counted or dict(hit for record in records for hit in record.hits)


def read_profile(ended: Ended) -> tuple[_Sampled, Work]:
    """The last record of a profile, and what an operation is. Raises Failure with a reason where there is none."""
    lines = list(find_lines(ended.output))
    records = _read(lines, "profile", _Sampled)
    troubles = [*_read(lines, "skip", _Trouble), *_read(lines, "fail", _Trouble)]
    if troubles or not records:
        raise Damaged(troubles[0].reason if troubles else "it was ended before it told where it was")
    return records[-1], _read(lines, "visit", _Visit)[0].work


def _read(lines: Sequence[Line], kind: str, form: type[T]) -> list[T]:
    return [msgspec.json.decode(line.text, type=form) for line in lines if line.kind == kind]


def _emulator(target: str) -> Path:
    """With both plugins made, where one is needed."""
    if target.startswith("qemu-user:"):
        open_here(ROOT, target, ("profile.so",)).close()
    return ROOT / "build/emulator"


def _shares(path: Path, hits: dict[int, int], kernel: int) -> tuple[Share, ...]:
    symbols = Symbols(path)
    whole: Counter[str] = Counter({KERNEL: kernel} if kernel else {})
    inlined: dict[str, Counter[str]] = {}
    for address, count in hits.items():
        name, inner = symbols.function(address), symbols.inlined(address)
        whole[name] += count
        if inner:
            inlined.setdefault(name, Counter())[inner] += count
    return tuple(Share(function=name, hits=count, inlined=dict(inlined.get(name, Counter()).most_common()))
                 for name, count in whole.most_common())  # fmt: skip
