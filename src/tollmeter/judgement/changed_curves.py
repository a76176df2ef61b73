# SPDX-License-Identifier: Apache-2.0
"""Changes of one probe over a size or a stride belong together: one boundary that moved changes a dozen rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tollmeter.judgement.compare import UNCHANGED, Change
from tollmeter.model import Level, Record, Value

LEAST_VALUES = 4
"""Values of a parameter from which its rows are a curve."""
LEAST_CHANGES = 2
BESIDE_BOUNDARY = 2.0
"""How far beside a boundary a curve changes where the boundary moves: misses begin at half of a capacity and reach
memory's share at twice of it."""

Fixed = tuple[tuple[str, Value], ...]
Name = tuple[str, str, str, str]
"""Probe, metric, ABI, target."""


class Curve(Record, frozen=True):
    """The rows of one metric over one numeric parameter, of which several changed. values: of the parameter, at all
    rows that were compared; changes: those that changed, by that value."""

    over: str
    values: tuple[int, ...]
    changes: tuple[Change, ...]


class Moved(Record, frozen=True):
    """A level of memory whose capacity differs by more than the two intervals."""

    old: Level
    new: Level


def curves(changes: Sequence[Change]) -> tuple[Curve, ...]:
    """All curves of which at least two rows changed."""
    by_name: dict[Name, list[Change]] = defaultdict(list)
    for change in changes:
        row = change.new
        by_name[row.probe, row.metric, row.abi, row.target].append(change)
    return tuple(curve for several in by_name.values() for curve in _curves_of(several))


def _curves_of(changes: Sequence[Change]) -> Iterator[Curve]:
    """Of one metric, a curve for each combination of the other parameters."""
    over = _longest(changes)
    groups: dict[Fixed, list[Change]] = defaultdict(list)
    for change in changes:
        if over in change.new.parameters:
            groups[_without(change, over)].append(change)
    for several in groups.values():
        ordered = sorted(several, key=lambda change: int(change.new.parameters[over]))
        changed = tuple(change for change in ordered if change.verdict not in UNCHANGED)
        if len(ordered) >= LEAST_VALUES and len(changed) >= LEAST_CHANGES:
            values = tuple(int(change.new.parameters[over]) for change in ordered)
            yield Curve(over=over, values=values, changes=changed)


def _longest(changes: Sequence[Change]) -> str:
    """The numeric parameter with the most values; empty where there is none."""
    seen: dict[str, set[int]] = defaultdict(set)
    for change in changes:
        for parameter, value in change.new.parameters.items():
            if isinstance(value, int):
                seen[parameter].add(value)
    return max(seen, key=lambda parameter: len(seen[parameter]), default="")


def _without(change: Change, over: str) -> Fixed:
    return tuple(sorted((name, value) for name, value in change.new.parameters.items() if name != over))


def moved(old: Sequence[Level], new: Sequence[Level]) -> tuple[Moved, ...]:
    """The levels of both whose intervals of capacity do not overlap."""
    after = {level.level: level for level in new}
    pairs = [(level, after[level.level]) for level in old if level.level in after]
    return tuple(Moved(old=first, new=second) for first, second in pairs if _are_apart(first, second))


def _are_apart(first: Level, second: Level) -> bool:
    if first.size_low is None or first.size_high is None or second.size_low is None or second.size_high is None:
        return False
    return first.size_high < second.size_low or second.size_high < first.size_low


def explaining(curve: Curve, boundaries: Sequence[Moved]) -> tuple[Moved, ...]:
    """The moved boundaries at which a curve over size changed."""
    sizes = [int(change.new.parameters[curve.over]) for change in curve.changes]
    return tuple(
        boundary
        for boundary in boundaries
        if curve.over == "size" and any(_is_beside(size, boundary) for size in sizes)
    )


def _is_beside(size: int, boundary: Moved) -> bool:
    ends = [level.size_bytes for level in (boundary.old, boundary.new) if level.size_bytes]
    return bool(ends) and min(ends) / BESIDE_BOUNDARY <= size <= max(ends) * BESIDE_BOUNDARY
