# SPDX-License-Identifier: Apache-2.0
"""Profiles: points run under a sampler and stored in the run's folder. Addresses are resolved to functions immediately,
since the executable is not kept.

Profiles are taken in short slices, each a process, interleaved over all points, so that another workload affects all of
them. The slices of one state of the core are merged, one state for all points; all slices are merged if no state has
enough."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter.catalog import Executable
from tollmeter.experiment.core import Look, common_state, contended_parts, is_of, likeliest, within
from tollmeter.experiment.limits import LEAST_VALUES
from tollmeter.library import places
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.prepare import machine_of
from tollmeter.library.wanted import asking
from tollmeter.model import KERNEL, Failure, Point, Profile, Record, Select, Share, StateName, Work, assignments
from tollmeter.numbers.known import Place
from tollmeter.plan.effort import counts_instructions
from tollmeter.plan.points import Ground, resolve
from tollmeter.protocol import Damaged, RecordLine, find_lines
from tollmeter.store.request import store_records
from tollmeter.targets.child import Ended
from tollmeter.targets.profiling_visit import ProfileRequest, executions, profiled
from tollmeter.toolchain.abis import open_here
from tollmeter.toolchain.symbols import KernelSymbols, LineHits, Symbols

PERF = "perf cpu-clock"
WITHOUT_KERNEL = f"{PERF}, without the kernel's (kernel.perf_event_paranoid)"
COUNTED_MS = 50
"""Length of a profile in which every instruction is counted, as a nanosecond each: it is exact and repeatable."""
SLICE_MS, LEAST_TURNS = 125, 4
"""Length of a slice in ms, and fewest rounds of slices."""
Report = Callable[[str], None]
SPENT, STOPPED = "the budget was spent before it", "the run was interrupted before it"
"""Reasons of a point that was not profiled any more."""
Over = Callable[[], str | None]
"""Returns why no further point is profiled; None if profiling continues."""


# ---- one process that is sampled ------------------------------------------------------------------------------------


class Slice(Record, frozen=True):
    """A slice of a profile: the last of its `profile` records, which has the totals, with the samples of all these
    records. hits, kernel_hits: number of samples at each address. period_ns: CPU time between two samples. ns: wall
    time. operations: number of operations of all iterations."""

    source: str
    hits: tuple[tuple[int, int], ...] = ()
    kernel_hits: tuple[tuple[int, int], ...] = ()
    period_ns: int = 0
    kernel: int = 0
    sees_kernel: bool = False
    lost: int = 0
    iterations: int = 0
    ns: int = 0
    looks: tuple[Look, ...] = ()
    operations: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Returns whether the kernel was sampled too, by a sampler that can do so."""
        return self.sees_kernel or self.source != PERF

    @property
    def own_ns(self) -> float:
        """Returns the program's own time in ns: the sum of perf's periods, whose clock stops while another task runs.
        Without permission to sample the kernel some samples are missing, and the wall time is returned."""
        if not self.sees_kernel:
            return self.ns
        return float((sum(count for _, count in self.hits) + self.kernel + self.lost) * self.period_ns)


class ProfilePoint(NamedTuple):
    """A point with its executable."""

    point: Point
    executable: Executable

    def command(self) -> list[str]:
        return [self.executable.path, *assignments(self.point.parameters)]


def sampled(wanted: ProfilePoint, sampling: ProfileRequest) -> Slice:
    """Returns a slice of a profile. Raises Failure with a reason if there is none, OSError if the executable cannot be
    started."""
    target = wanted.point.target
    if target.startswith("qemu-user:"):
        open_here(places.ROOT, target, ("profile.so",)).close()  # makes both plugins
    ended = profiled(target, wanted.command(), sampling, places.ROOT / "build/emulator")
    taken = read_profile(ended)
    executed = executions(ended.written)
    return msgspec.structs.replace(taken, hits=tuple(executed.items())) if executed else taken


def read_profile(ended: Ended) -> Slice:
    """Returns the slice of a profiled visit. Raises Failure with a reason if there is none."""
    lines = list(find_lines(ended.output))
    records = [msgspec.json.decode(line.text, type=Slice) for line in lines if line.kind == "profile"]
    troubles = [*_of_kind(lines, "skip"), *_of_kind(lines, "fail")]
    if troubles or not records:
        raise Damaged(troubles[0]["reason"] if troubles else "it ended before it reported the addresses of its code")
    last, work = records[-1], msgspec.convert(_of_kind(lines, "visit")[0]["work"], Work)
    return msgspec.structs.replace(
        last, operations=last.iterations * (work.operations or 1.0),
        hits=tuple(dict(hit for record in records for hit in record.hits).items()),
        kernel_hits=tuple(dict(hit for record in records for hit in record.kernel_hits).items()),
    )  # fmt: skip


def _of_kind(lines: Sequence[RecordLine], kind: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line.text) for line in lines if line.kind == kind]


# ---- interleaved slices ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Point:
    """The slices of one point. reasons: why slices are missing. parts: contended share of each slice's width readings;
    None without readings."""

    wanted: ProfilePoint
    slices: list[Slice] = field(default_factory=list)
    parts: list[float | None] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, sampling: ProfileRequest) -> None:
        try:
            self.slices.append(sampled(self.wanted, sampling))
        except (Failure, OSError) as error:
            self.reasons.append(str(error))


class InterleavedProfiles:
    """Profiles taken in interleaved slices. sampling: time and method of each point's profile. widths: widths of the
    uncontended core, from earlier runs."""

    def __init__(
        self, wanted: Sequence[ProfilePoint], sampling: ProfileRequest, widths: Mapping[Place, float] = {}
    ) -> None:
        self._points, self._widths = [_Point(point) for point in wanted], widths
        self._counted = [point for point in self._points if counts_instructions(point.wanted.point)]
        self._sampled = [point for point in self._points if not counts_instructions(point.wanted.point)]
        self._sampling, self._turns = sampling, max(LEAST_TURNS, round(sampling.ms / SLICE_MS))

    def take(self, report: Report, over: Over = lambda: None) -> None:
        """Takes the slices of all points in rounds. If points lack slices, takes up to half as many further rounds, as
        long as these can give all points enough slices of one state. report: called with the progress."""
        for number, point in enumerate(self._counted, start=1):
            if over():
                return
            report(f"profile by counting {number} of {len(self._counted)}: {point.wanted.point.probe}")
            point.add(self._sampling._replace(ms=min(self._sampling.ms, COUNTED_MS)))
        part = self._sampling._replace(ms=max(1, self._sampling.ms // self._turns))
        for turn, points in enumerate(self._rounds(), start=1):
            if over():
                return
            report(f"profiles of {len(self._sampled)} points: turn {turn} of {self._turns}")
            for point in points:
                if why := over():
                    point.reasons.append(why)
                else:
                    point.add(part)

    def _rounds(self) -> Iterator[list[_Point]]:
        for _ in range(self._turns if self._sampled else 0):
            yield self._sampled
        for _ in range(self._turns // 2):
            if lacking := self._lacking():
                yield lacking

    def _lacking(self) -> list[_Point]:
        points = self._with_parts()
        parts = [point.parts for point in points]
        if common_state(parts) != "unknown":
            return []
        best, _ = likeliest(parts)
        return [point for point in points if sum(is_of(part, best) for part in point.parts) < LEAST_VALUES]

    def profiles(self) -> list[Profile]:
        """Returns the profiles of all slices so far; a point without a slice has a reason."""
        sampled_points = self._with_parts()
        state = common_state([point.parts for point in sampled_points])
        symbols_of = cache(Symbols)
        profiles = []
        for point in self._points:
            slices, slices_state = point.slices, None
            if point in sampled_points:
                pairs = zip(point.slices, point.parts, strict=True)
                slices, slices_state = [each for each, part in pairs if is_of(part, state)], state
            profiles.append(_profile(point, slices, slices_state, symbols_of))
        return profiles

    def _with_parts(self) -> list[_Point]:
        """Returns the sampled points with the contended shares of their slices."""
        points = [point for point in self._sampled if point.slices]
        by_place: dict[Place, list[_Point]] = defaultdict(list)
        for point in points:
            by_place[point.wanted.point.target, point.wanted.point.abi].append(point)
        for place, several in by_place.items():
            looks = [each.looks for point in several for each in point.slices]
            parts = iter(contended_parts(looks, self._widths.get(place, 0.0)))
            for point in several:
                point.parts = [next(parts) for _ in point.slices]
        return points


def _profile(
    point: _Point, slices: Sequence[Slice], state: StateName | None, symbols_of: Callable[[Path], Symbols]
) -> Profile:
    profiled_point = point.wanted.point
    empty = Profile(
        probe=profiled_point.probe,
        abi=profiled_point.abi,
        target=profiled_point.target,
        parameters=profiled_point.values(),
    )
    if not slices:
        return msgspec.structs.replace(empty, reason=(point.reasons or ["it was interrupted"])[0])
    operations = sum(part.operations for part in slices)
    symbols = symbols_of(Path(point.wanted.executable.path))
    return msgspec.structs.replace(
        empty, source=slices[0].source if slices[0].is_whole else WITHOUT_KERNEL, state=state,
        shares=_shares(symbols, slices, is_exact=counts_instructions(profiled_point)),
        lost=sum(part.lost for part in slices),
        operation_ns=sum(part.own_ns for part in slices) / operations if operations else 0.0,
    )  # fmt: skip


@cache
def _kernel() -> KernelSymbols:
    return KernelSymbols()


def _shares(symbols: Symbols, slices: Sequence[Slice], *, is_exact: bool) -> tuple[Share, ...]:
    """Returns the share of each function, with the functions inlined into it; the kernel's functions form one share."""
    inlined: dict[str, Counter[str]] = defaultdict(Counter)
    by_slice = []
    for part in slices:
        hits: Counter[str] = Counter({KERNEL: part.kernel} if part.kernel else {})
        for address, count in part.hits:
            name, inner = symbols.function(address), symbols.inlined(address)
            hits[name] += count
            if inner:
                inlined[name][inner] += count
        for address, count in part.kernel_hits:
            if function := _kernel().function(address):
                inlined[KERNEL][function] += count
        by_slice.append(hits)
    return tuple(
        Share(function=name, hits=count, inlined=dict(inlined[name].most_common()) if name in inlined else {},
              within=0.0 if is_exact else within(by_slice, name))
        for name, count in sum(by_slice, Counter[str]()).most_common()
    )  # fmt: skip


# ---- profiles of a suite, or of words -------------------------------------------------------------------------------


def points_of(words: Sequence[str], abis: Sequence[str], targets: Sequence[str]) -> list[ProfilePoint]:
    """Returns the points that words select; a parameter that the words do not name has its typical value. Raises
    Failure: 2 for unknown names, 6 if none runs here."""
    suites = places.suites()
    catalog = places.made_ready(abis, targets, asking(words, suites, places.sources()))
    suite = suite_of_words(words, suites, catalog)
    selects = [msgspec.structs.replace(select, others="typical") for select in suite.select]
    ground = Ground(catalog, machine_of(catalog, targets)[0], abis)
    points = wanted_by(selects, ground)
    if not points:
        raise Failure(f"nothing of {suite.name} runs here", 6)
    return points


def wanted_by(selects: Iterable[Select], ground: Ground) -> list[ProfilePoint]:
    """Returns the built points of some selections, each once."""
    points = dict.fromkeys(point for select in selects for point in resolve(select, ground).points)
    return [ProfilePoint(point, ground.catalog.executables[point.probe, point.abi]) for point in points]


def profile_suite(
    folder: Path,
    wanted: Sequence[ProfilePoint],
    seconds: float,
    report: Report,
    widths: Mapping[Place, float],
    *,
    over: Over = lambda: None,
) -> None:
    """Takes the profiles of a suite and stores them in the run's folder; after Ctrl-C stores the completed profiles.
    seconds: time of each profile. report: called with the progress. widths: widths of the uncontended core, from
    earlier runs."""
    turns = InterleavedProfiles(wanted, ProfileRequest(round(1000 * seconds)), widths)
    try:
        turns.take(report, over)
    finally:
        store_records(folder, Profile, turns.profiles())


def take_all(wanted: Sequence[ProfilePoint], sampling: ProfileRequest) -> list[Profile]:
    """Returns a profile of each point. A failure becomes the profile's reason and does not affect other points."""
    turns = InterleavedProfiles(wanted, sampling)
    turns.take(lambda _: None)
    return turns.profiles()


def executed_lines(words: Sequence[str]) -> LineHits:
    """Returns how often each line of a probe's sources ran, at typical values unless the words name others. Raises
    Failure."""
    wanted = points_of(words, (), ())[0]
    return Symbols(Path(wanted.executable.path)).line_hits(sampled(wanted, ProfileRequest(1000)).hits)
