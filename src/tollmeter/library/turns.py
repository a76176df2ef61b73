# SPDX-License-Identifier: Apache-2.0
"""Profiles in short slices, every point's in turns: whoever comes to use the core, or leaves it, does so to all points.

A slice is a process of its own. Of the points' slices those are put together in which the core was in one state, the
same for all points; where no state has slices enough of each, all are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.library.sampled import Over, Slice, Wanted, never, sampled
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
Tell = Callable[[str], None]


class _Point(NamedTuple):
    """What there is of one. reasons: why slices of it are missing."""

    wanted: Wanted
    slices: list[Slice]
    reasons: list[str]

    def add(self, sampling: Sampling) -> None:
        try:
            self.slices.append(sampled(self.wanted, sampling))
        except (Failure, OSError) as error:
            self.reasons.append(error.sentence if isinstance(error, Failure) else str(error))


class Turns:
    """sampling: for how long each point. widths: of the whole core, as earlier runs saw it."""

    def __init__(self, wanted: Sequence[Wanted], sampling: Sampling, widths: Mapping[Place, float] = {}) -> None:
        points = [_Point(one, [], []) for one in wanted]
        self._points, self._widths = points, widths
        self._counted = [one for one in points if is_counted(one.wanted.point)]
        self._sampled = [one for one in points if not is_counted(one.wanted.point)]
        self._whole, self._count = sampling, max(LEAST_TURNS, round(sampling.ms / SLICE_MS))

    def take(self, tell: Tell, over: Over = never) -> None:
        """Half as many turns again where a state would have slices enough of all, for the points that lack them."""
        for number, one in enumerate(self._counted, start=1):
            if over():
                return
            tell(f"profile by counting {number} of {len(self._counted)}: {one.wanted.point.probe}")
            one.add(self._whole._replace(ms=min(self._whole.ms, COUNTED_MS)))
        part = self._whole._replace(ms=max(1, self._whole.ms // self._count))
        for turn, points in enumerate(self._turns(), start=1):
            if over():
                return
            tell(f"profiles of {len(self._sampled)} points: turn {turn} of {self._count}")
            for one in points:
                one.add(part)

    def _turns(self) -> Iterator[list[_Point]]:
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
        return [one for one, count in zip(self._taken(), met, strict=True) if count < LEAST_SLICES]

    def profiles(self) -> list[Profile]:
        """Of what was taken until now; a point of which there is nothing has a reason."""
        taken, shared = self._taken(), self._shared()
        state = common_state(shared)
        told = {id(one): _profile(one, one.slices, None) for one in self._points if one not in taken}
        for one, parts in zip(taken, shared, strict=True):
            kept = [each for each, part in zip(one.slices, parts, strict=True) if is_of(part, state)]
            told[id(one)] = _profile(one, kept, state)
        return [told[id(one)] for one in self._points]

    def _taken(self) -> list[_Point]:
        return [one for one in self._sampled if one.slices]

    def _shared(self) -> list[list[float | None]]:
        """By point that was sampled and slice, for how much of it somebody else used the core."""
        places: dict[Place, list[_Point]] = defaultdict(list)
        for one in self._taken():
            places[one.wanted.point.target, one.wanted.point.abi].append(one)
        told: dict[int, list[float | None]] = {}
        for place, points in places.items():
            looks = [each.last.looks for one in points for each in one.slices]
            parts = iter(shared_parts(looks, self._widths.get(place, 0.0)))
            told |= {id(one): [next(parts) for _ in one.slices] for one in points}
        return [told[id(one)] for one in self._taken()]


# ---- slices to a profile --------------------------------------------------------------------------------------------


def _profile(point: _Point, slices: Sequence[Slice], state: StateName | None) -> Profile:
    asked = point.wanted.point
    empty = Profile(probe=asked.probe, abi=asked.abi, target=asked.target, parameters=asked.values())
    if not slices:
        return msgspec.structs.replace(empty, reason=(point.reasons or ["it was interrupted"])[0])
    operations = sum(one.operations for one in slices)
    return msgspec.structs.replace(
        empty, source=slices[0].last.source, state=state, shares=_shares(point.wanted, slices),
        lost=sum(one.last.lost for one in slices),
        operation_ns=sum(one.own_ns for one in slices) / operations if operations else 0.0,
    )  # fmt: skip


def _shares(wanted: Wanted, slices: Sequence[Slice]) -> tuple[Share, ...]:
    """Addresses as functions, at once: nobody keeps an executable."""
    symbols = Symbols(Path(wanted.executable.path))
    inlined: dict[str, Counter[str]] = defaultdict(Counter)
    parts = [_functions(symbols, one, inlined) for one in slices]
    whole = sum(parts, Counter[str]())
    exact = is_counted(wanted.point)
    return tuple(
        Share(function=name, hits=count, inlined=dict(inlined[name].most_common()) if name in inlined else {},
              within=0.0 if exact else within(parts, name))
        for name, count in whole.most_common()
    )  # fmt: skip


def _functions(symbols: Symbols, one: Slice, inlined: dict[str, Counter[str]]) -> Counter[str]:
    """How often each was met. inlined: is added to, by the function that another was put into."""
    whole: Counter[str] = Counter({KERNEL: one.last.kernel} if one.last.kernel else {})
    for address, count in one.hits.items():
        name, inner = symbols.function(address), symbols.inlined(address)
        whole[name] += count
        if inner:
            inlined[name][inner] += count
    return whole
