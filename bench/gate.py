# SPDX-License-Identifier: Apache-2.0
"""How often `toll gate` fails a build that did not change, and how often it finds a planted change.

    python bench/gate.py RUN RUN [RUN...]

Every ordered pair of the runs is a build without a change. Simulated builds, of each run in turn, split the visits
of each row in two at random, by memory layouts, for the reference and the build; each half gets a between-run
deviation from a normal distribution with the row's own standard deviation. Then a change is planted in the visits of
one row."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import exp
from statistics import median

import msgspec
import numpy as np

from tollmeter.experiment.precision import LEAST_LAYOUTS, estimate
from tollmeter.judgement.compare import of_rows
from tollmeter.judgement.gate import Decision, decide, of_change
from tollmeter.library import places
from tollmeter.library.comparing import VisitValues, visit_values
from tollmeter.library.derive import open_run
from tollmeter.library.gating import gated
from tollmeter.library.limits import Limits
from tollmeter.model import Failure, Results, Row
from tollmeter.numbers.rows import Key, row_key
from tollmeter.report.compared_rows import full_name

BUILDS, PLANTED, LIMITS = 1000, (0.03, 0.10, 0.25), (0.01, 0.05)
LEAST_EACH = 8
"""Fewest visits of a row that is split in two."""
Chance = np.random.Generator


def pairs(runs: Sequence[str], limit: float) -> tuple[int, int]:
    """Returns the number of builds, and of those that failed, whatever the verdicts of the runs are."""
    decisions: list[Decision] = []
    for base, new in permutations(runs, 2):
        try:
            decisions.append(gated(base, new, Limits(usual=limit)).decision)
        except Failure as failure:
            sys.stderr.write(f"{base} and {new}: {failure.sentence}\n")
    return len(decisions), sum(not one.passes for one in decisions)


def timed(results: Results) -> dict[Key, tuple[Row, VisitValues]]:
    """Returns the rows of times with the costs of their visits."""
    rows = {row_key(row): row for row in results.index.rows if row.unit == "ns" and row.status == "ok"}
    several = (one for one in visit_values(results) if one.scatter is not None and len(one.costs) >= LEAST_EACH)
    found = {one.key(): one for one in several if min(one.costs) > 0}
    return {key: (row, found[key]) for key, row in rows.items() if key in found}


def halves(seen: VisitValues, chance: Chance) -> tuple[list[int], list[int]]:
    """Returns the indices of the visits of the reference and of the build: whole layouts if there are enough of
    them."""
    names = [int(name) for name in chance.permutation(sorted(set(seen.layouts)))]
    if len(names) >= 2 * LEAST_LAYOUTS:
        first = set(names[: len(names) // 2])
        sides = [layout in first for layout in seen.layouts]
    else:
        sides = [False] * len(seen.layouts)
        for name in names:
            own = [place for place, layout in enumerate(seen.layouts) if layout == name]
            for place in chance.permutation(own)[: len(own) // 2]:
                sides[int(place)] = True
    return [place for place, side in enumerate(sides) if side], [place for place, side in enumerate(sides) if not side]


def made(row: Row, seen: VisitValues, places_: Sequence[int], of_run: float) -> Row:
    """Returns the row that a run with these visits would have. of_run: the run's between-run deviation, as a factor."""
    assert seen.scatter is not None
    costs = [seen.costs[place] * of_run for place in places_]
    own = [seen.layouts[place] for place in places_]
    found = estimate(costs, own, seen.scatter, (min(costs), max(costs)))
    runs_sd = seen.scatter.runs_sd
    return msgspec.structs.replace(
        row, visits=len(costs), layouts=len(set(own)), clock_hz=None,
        median=found.value, low=found.low, high=found.high,
        error=found.error, freedom=found.freedom, runs_sd=runs_sd,
    )  # fmt: skip


def simulated(
    known: Mapping[Key, tuple[Row, VisitValues]], limit: float, planted: float, chance: Chance
) -> tuple[Decision, str]:
    """Returns the decision on one build, and the name of the row in which the change is planted."""
    slow = [*known][int(chance.integers(len(known)))]
    old, new = {}, {}
    for key, (row, seen) in known.items():
        assert seen.scatter is not None
        first, second = halves(seen, chance)
        of_runs = [exp(seen.scatter.runs_sd * chance.normal()) for _ in range(2)]
        old[key] = made(row, seen, first, of_runs[0])
        new[key] = made(row, seen, second, of_runs[1] * (1 + planted * (key == slow)))
    changes = of_rows(old, new, None, 0.01).changes
    judged = [of_change(one, full_name(one.old), limit) for one in changes]
    return decide(judged), full_name(known[slow][0])


def report(runs: Sequence[Results]) -> Iterator[str]:
    known, chance = [rows for results in runs if (rows := timed(results))], np.random.default_rng(1)
    for limit in LIMITS:
        builds = [simulated(known[number % len(known)], limit, 0.0, chance)[0] for number in range(BUILDS)]
        floors = sorted(one.least for decision in builds for one in decision.rows if not one.judged.reason)
        yield (
            f"limit {limit:.0%}, {' '.join(str(len(rows)) for rows in known)} rows: "
            f"{sum(not one.passes for one in builds)} of {BUILDS} simulated builds without a change fail; "
            f"the rows show from {floors[0]:.0%}, half of them from {median(floors):.0%}"
        )
        for planted in PLANTED:
            found = [simulated(known[number % len(known)], limit, planted, chance) for number in range(BUILDS)]
            seen = sum(name in {one.judged.name for one in decision.of("slower")} for decision, name in found)
            yield f"  +{planted:.0%} in one row is seen in {seen} of {BUILDS} builds"


def main(runs: Sequence[str]) -> None:
    if len(runs) < 2:
        print(__doc__)
        return
    for limit in LIMITS:
        builds, failed = pairs(runs, limit)
        print(f"limit {limit:.0%}: {failed} of {builds} pairs of runs without a change fail")
    for line in report([open_run(places.find_run(run)) for run in runs]):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
