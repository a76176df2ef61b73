# SPDX-License-Identifier: Apache-2.0
"""Profiles in short slices, each a process, interleaved over all points, so that another workload affects all of them.

The slices of one state of the core are merged, the same state for all points; all slices, if no state has enough."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.library.sampled import Over, ProfilePoint, Slice, never, sampled
from tollmeter.model import Failure, Profile, Share, StateName
from tollmeter.numbers.known import Place
from tollmeter.numbers.slices import LEAST_SLICES, common_state, is_of, likeliest, shared_parts, within
from tollmeter.plan.effort import is_counted
from tollmeter.targets.profiling_visit import Asked as Sampling
from tollmeter.toolchain.symbols import Symbols

KERNEL = "(kernel)"
COUNTED_MS = 50
"""Of a profile where every instruction is counted, each as a nanosecond: it is exact, and the same each time."""
SLICE_MS, LEAST_TURNS = 125, 4
Report = Callable[[str], None]


class _Point(NamedTuple):
    """What there is of one. reasons: why slices of it are missing."""

    wanted: ProfilePoint
    slices: list[Slice]
    reasons: list[str]

    def add(self, sampling: Sampling) -> None:
        try:
            self.slices.append(sampled(self.wanted, sampling))
        except (Failure, OSError) as error:
            self.reasons.append(error.sentence if isinstance(error, Failure) else str(error))


class InterleavedProfiles:
    """sampling: for how long each point. widths: of the whole core, as earlier runs saw it."""

    def __init__(self, wanted: Sequence[ProfilePoint], sampling: Sampling, widths: Mapping[Place, float] = {}) -> None:
        points = [_Point(point, [], []) for point in wanted]
        self._points, self._widths = points, widths
        self._counted = [point for point in points if is_counted(point.wanted.point)]
        self._sampled = [point for point in points if not is_counted(point.wanted.point)]
        self._whole, self._count = sampling, max(LEAST_TURNS, round(sampling.ms / SLICE_MS))

    def take(self, report: Report, over: Over = never) -> None:
        """Takes half as many rounds again for points that lack slices, if a state then has enough slices of all."""
        for number, point in enumerate(self._counted, start=1):
            if over():
                return
            report(f"profile by counting {number} of {len(self._counted)}: {point.wanted.point.probe}")
            point.add(self._whole._replace(ms=min(self._whole.ms, COUNTED_MS)))
        part = self._whole._replace(ms=max(1, self._whole.ms // self._count))
        for turn, points in enumerate(self._rounds(), start=1):
            if over():
                return
            report(f"profiles of {len(self._sampled)} points: turn {turn} of {self._count}")
            for point in points:
                if why := over():
                    point.reasons.append(why)
                else:
                    point.add(part)

    def _rounds(self) -> Iterator[list[_Point]]:
        for _ in range(self._count if self._sampled else 0):
            yield self._sampled
        for _ in range(self._count // 2):
            if lacking := self._lacking():
                yield lacking

    def _lacking(self) -> list[_Point]:
        shared = self._shared()
        if common_state(shared) != "unknown":
            return []
        best, _ = likeliest(shared)
        met = [sum(is_of(part, best) for part in parts) for parts in shared]
        return [point for point, count in zip(self._with_slices(), met, strict=True) if count < LEAST_SLICES]

    def profiles(self) -> list[Profile]:
        """Of what was taken until now; a point of which there is nothing has a reason."""
        taken, shared = self._with_slices(), self._shared()
        state = common_state(shared)
        named = cache(Symbols)
        by_id = {id(point): _profile(point, point.slices, None, named) for point in self._points if point not in taken}
        for point, parts in zip(taken, shared, strict=True):
            kept = [each for each, part in zip(point.slices, parts, strict=True) if is_of(part, state)]
            by_id[id(point)] = _profile(point, kept, state, named)
        return [by_id[id(point)] for point in self._points]

    def _with_slices(self) -> list[_Point]:
        return [point for point in self._sampled if point.slices]

    def _shared(self) -> list[list[float | None]]:
        """For each sampled point and slice the share of its looks that saw the core contended."""
        places: dict[Place, list[_Point]] = defaultdict(list)
        for point in self._with_slices():
            places[point.wanted.point.target, point.wanted.point.abi].append(point)
        by_id: dict[int, list[float | None]] = {}
        for place, points in places.items():
            looks = [each.last.looks for point in points for each in point.slices]
            parts = iter(shared_parts(looks, self._widths.get(place, 0.0)))
            by_id |= {id(point): [next(parts) for _ in point.slices] for point in points}
        return [by_id[id(point)] for point in self._with_slices()]


# ---- slices to a profile --------------------------------------------------------------------------------------------


Named = Callable[[Path], Symbols]


def _profile(point: _Point, slices: Sequence[Slice], state: StateName | None, named: Named) -> Profile:
    asked = point.wanted.point
    empty = Profile(probe=asked.probe, abi=asked.abi, target=asked.target, parameters=asked.values())
    if not slices:
        return msgspec.structs.replace(empty, reason=(point.reasons or ["it was interrupted"])[0])
    operations = sum(part.operations for part in slices)
    return msgspec.structs.replace(
        empty, source=slices[0].last.source, state=state,
        shares=_shares(point.wanted, slices, named(Path(point.wanted.executable.path))),
        lost=sum(part.last.lost for part in slices),
        operation_ns=sum(part.own_ns for part in slices) / operations if operations else 0.0,
    )  # fmt: skip


def _shares(wanted: ProfilePoint, slices: Sequence[Slice], symbols: Symbols) -> tuple[Share, ...]:
    """Addresses as functions, resolved at once: the executable is not kept."""
    inlined: dict[str, Counter[str]] = defaultdict(Counter)
    parts = [_functions(symbols, part, inlined) for part in slices]
    whole = sum(parts, Counter[str]())
    exact = is_counted(wanted.point)
    return tuple(
        Share(function=name, hits=count, inlined=dict(inlined[name].most_common()) if name in inlined else {},
              within=0.0 if exact else within(parts, name))
        for name, count in whole.most_common()
    )  # fmt: skip


def _functions(symbols: Symbols, part: Slice, inlined: dict[str, Counter[str]]) -> Counter[str]:
    """How often each was met. inlined: is added to, by the function that another was put into."""
    whole: Counter[str] = Counter({KERNEL: part.last.kernel} if part.last.kernel else {})
    for address, count in part.hits.items():
        name, inner = symbols.function(address), symbols.inlined(address)
        whole[name] += count
        if inner:
            inlined[name][inner] += count
    return whole
