# SPDX-License-Identifier: Apache-2.0
"""The analysis of a run in progress, in the form that conduct calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.judgement import opposed, settle
from tollmeter.model import Outcome, Point, Probe, Suite
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.rows import known_of, rows_of_point
from tollmeter.studies import attempts


class AnalysisJudge:
    """Implements conduct.Judge."""

    def __init__(self, probes: Mapping[str, Probe], learned: Learned, precision: float, suite: Suite) -> None:
        self._probes = probes
        self._suite = suite
        self._learned = learned
        self._known = Known(learned=learned, precision=precision)
        self._numbers: dict[tuple[Point, int], float | None] = {}

    def look(self, outcomes: Sequence[Outcome]) -> None:
        self._known = known_of(outcomes, self._probes, self._learned, self._known.precision, self._known)
        self._numbers.clear()

    def read(self, outcomes: Sequence[Outcome]) -> None:
        good = self._known.unread([outcome for outcome in outcomes if outcome.status == "ok"])
        if good:
            self._known.read(good, [self._probes[outcome.point.probe] for outcome in good])

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        return 0.0 if settle.is_counted_out(outcomes, probe) else settle.visits_wanted(outcomes, probe, self._known)

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        return opposed.visits_wanted(outcomes, pair, self._probes, self._known, self._known.precision)

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        return attempts.differing(seen, self._suite, self._probes) if self._suite.listing else ()

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]:
        """By the first metric that is drawn over a parameter, which is the probe's first."""
        numbers = [(value, self._undisturbed(outcomes, probe)) for value, outcomes in sorted(curve.items())]
        return settle.refine([(value, number) for value, number in numbers if number is not None], list(grid))

    def _undisturbed(self, outcomes: Sequence[Outcome], probe: Probe) -> float | None:
        """Of a cost the least, since other workloads only ever add; of a rate the median. Kept for as long as the point
        has no further visit."""
        place = outcomes[0].point, len(outcomes)
        if place not in self._numbers:
            row = rows_of_point(list(outcomes), probe, self._known)[0]
            number = row.minimum if row.better == "less" else row.median
            self._numbers[place] = number if row.status == "ok" else None
        return self._numbers[place]
