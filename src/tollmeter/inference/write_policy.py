# SPDX-License-Identifier: Apache-2.0
"""Whether the first cache writes back or writes through, and whether a store that misses all caches allocates its
line.

* A write-through cache sends every store on to the next level. So a store to a set of lines that fit costs much more
than a load of them, and hardly less than a store to lines that do not fit and must travel anyway. In a write-back
cache, a store to lines that fit stays there. Both must hold: loops that their own instructions limit make stores that
fit look as expensive as others, but then they cost no more than loads.

* After stores to uncached lines, a chase through the same lines hits where the stores allocated them, and takes as long
as one through other lines where they did not.

Beyond the first cache a store crosses a path either way, once it leaves it, and the policies look alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log, sqrt
from statistics import median

from tollmeter.inference.answers import NORMAL_95, YesOrNo, middle, number, relative_error, rows_meaning
from tollmeter.model import Level, Probe, Row
from tollmeter.numbers.stats import Estimate

THROUGH_BESIDE_MISS = 0.316
THROUGH_BESIDE_LOAD = 1.75
NOT_FETCHED = 0.75
WELL_INSIDE, JUST_INSIDE = 0.75, 1.1
FAR_BEYOND = 2


def write_back(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> YesOrNo:
    """Of the first cache, from rows that mean `write-policy`, of one ABI and target. ratio: a store that fits over one
    that does not."""
    stores = rows_meaning(rows, probes, "write-policy", test="resident")
    fits, misses = _inside(stores, levels), _outside(stores, levels)
    loads = _inside(rows_meaning(rows, probes, "write-policy-baseline", test="resident"), levels)
    if not fits or not loads or not misses:
        return YesOrNo(why="stores were not timed both inside the first cache and well outside of it")
    beside_miss, beside_load = _over(fits, misses), _over(fits, loads)
    above = [_above(beside_miss, THROUGH_BESIDE_MISS), _above(beside_load, THROUGH_BESIDE_LOAD)]
    if False in above:
        return YesOrNo(holds=True, ratio=beside_miss)
    if None not in above:
        return YesOrNo(holds=False, ratio=beside_miss)
    why = (
        f"a store that fits costs {beside_load.low:.2f} to {beside_load.high:.2f} times a load, and "
        f"{beside_miss.low:.2f} to {beside_miss.high:.2f} times a store that does not fit: either policy does that"
    )
    return YesOrNo(ratio=beside_miss, why=why)


def write_allocate(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> YesOrNo:
    """Of the caches together, from the same rows. ratio: stores and a chase through their lines over the same stores
    and a chase through others."""
    tests = _inside(rows_meaning(rows, probes, "write-policy", test="reload"), levels)
    baselines = _inside(rows_meaning(rows, probes, "write-policy-baseline", test="reload"), levels)
    if not tests or not baselines:
        return YesOrNo(why="no chase through lines just stored to was timed inside the first cache")
    seen = _over(tests, baselines)
    above = _above(seen, NOT_FETCHED)
    if above is None:
        why = f"a chase after stores takes {seen.low:.2f} to {seen.high:.2f} times as long as one through other lines"
        return YesOrNo(ratio=seen, why=f"{why}: too close to decide")
    return YesOrNo(holds=not above, ratio=seen)


def _inside(rows: Sequence[Row], levels: Sequence[Level]) -> list[Row]:
    """The rows of sizes well inside the first cache; where there is none, those that just fit."""
    first = _sizes(levels)[0] if _sizes(levels) else 0.0
    for share in (WELL_INSIDE, JUST_INSIDE):
        if well_inside := [row for row in rows if number(row, "size") <= share * first]:
            return well_inside
    return []


def _outside(rows: Sequence[Row], levels: Sequence[Level]) -> list[Row]:
    """Those furthest beyond the first cache but inside the second, or anywhere beyond a single one."""
    first, second = (*_sizes(levels), inf, inf)[:2]
    beyond = [row for row in rows if FAR_BEYOND * first <= number(row, "size") <= WELL_INSIDE * second]
    furthest = max((number(row, "size") for row in beyond), default=0)
    return [row for row in beyond if 2 * number(row, "size") >= furthest]


def _sizes(levels: Sequence[Level]) -> list[float]:
    return [level.size_bytes for level in levels if level.size_bytes is not None]


def _over(above: Sequence[Row], below: Sequence[Row]) -> Estimate:
    """Medians over several sizes; their errors are as independent as their visits."""
    value = median(map(middle, above)) / median(map(middle, below))
    error = sqrt(sum(_error(rows) ** 2 for rows in (above, below)))
    wide = exp(NORMAL_95 * error)
    return Estimate(value=value, low=value / wide, high=value * wide)


def _error(rows: Sequence[Row]) -> float:
    return sqrt(sum(relative_error(row) ** 2 for row in rows)) / len(rows)


def _above(estimate: Estimate, limit: float) -> bool | None:
    """None where the interval holds the limit and the value is within an eighth of it."""
    if estimate.low <= limit <= estimate.high and abs(log(estimate.value / limit)) < log(1.125):
        return None
    return estimate.value > limit
