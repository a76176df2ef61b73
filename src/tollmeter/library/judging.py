# SPDX-License-Identifier: Apache-2.0
"""What analysis says of a run under way, in the form in which conduct asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.judgement import attempts, opposed, settle
from tollmeter.model import Outcome, Point, Probe, Suite
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.rows import known_of, rows_of_point


class AnalysisJudge:
    """Implements conduct.Judge."""

    def __init__(self, probes: Mapping[str, Probe], learned: Learned, precision: float, suite: Suite) -> None:
        self._probes = probes
        self._suite = suite
        self._learned = learned
        self._known = Known(learned=learned, precision=precision)
        self._medians: dict[tuple[Point, int], float | None] = {}

    def look(self, outcomes: Sequence[Outcome]) -> None:
        self._known = known_of(outcomes, self._probes, self._learned, self._known.precision, self._known)
        self._medians.clear()

    def read(self, outcomes: Sequence[Outcome]) -> None:
        good = self._known.unread([told for told in outcomes if told.status == "ok"])
        if good:
            self._known.read(good, [self._probes[told.point.probe] for told in good])

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        return 0.0 if settle.is_counted_out(outcomes, probe) else settle.visits_wanted(outcomes, probe, self._known)

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        return opposed.visits_wanted(outcomes, pair, self._probes, self._known, self._known.precision)

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        return attempts.differing(seen, self._suite, self._probes) if self._suite.listing else ()

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]:
        """By the first metric that is drawn over a parameter, which is the probe's first."""
        medians = [(value, self._median(outcomes, probe)) for value, outcomes in sorted(curve.items())]
        return settle.refine([(value, median) for value, median in medians if median is not None], list(grid))

    def _median(self, outcomes: Sequence[Outcome], probe: Probe) -> float | None:
        """Kept for as long as the point has no further visit."""
        place = outcomes[0].point, len(outcomes)
        if place not in self._medians:
            made = rows_of_point(list(outcomes), probe, self._known)
            self._medians[place] = made[0].median if made and made[0].status == "ok" else None
        return self._medians[place]
