# SPDX-License-Identifier: Apache-2.0
"""Makes the listing of a study: loops a second of each attempt, with the control loop and the width loop before and
after it.

An attempt ran in another state of the machine if the rate of its control loop differs, or if the width loop shows a
busy sibling hyperthread, which slows other code but not dependent additions. An attempt within 3 % of the usual rate is
valid, and up to 10 % suspect. Beyond that, or beside a busy sibling, it was measured again; if the repetition is no
better, it is printed with its mark. The time of one loop is that of its row, from all visits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from tollmeter.experiment.batches import BATCHES
from tollmeter.experiment.core import WHOLE_FROM, highest_mode
from tollmeter.experiment.limits import ALIKE, MOST_AGAIN
from tollmeter.model import PRECISION, Clock, Listed, Outcome, Point, Probe, Results, Row, RowOf, Sample, Suite
from tollmeter.studies.matching_rows import exits_of, picked

VALID = PRECISION
"""Largest relative difference of the control-loop rate at which an attempt is valid."""
ATTEMPTS = 5
"""Number of attempts that are listed."""

State = Literal["valid", "suspect", "differs", "unseen"]

_Timed = Sequence[tuple[Sample, float]]
"""Samples, each with the operations of one iteration."""


class Attempt(NamedTuple):
    """An attempt at a test. loops_hz: loops per second. control_hz: additions per second of the adjacent control loop;
    0 if none was measured. state: `differs` if it ran in another state of the machine, `unseen` if unknown."""

    loops_hz: float
    control_hz: float
    state: State


class Test(NamedTuple):
    """One line of a listing on one target. again: number of attempts that were measured again. exits: guest exits of
    one loop; None if not applicable."""

    listed: Listed
    row: Row
    attempts: tuple[Attempt, ...]
    again: int
    exits: float | None = None


class TargetListing(NamedTuple):
    """The listing of one target. control_hz: usual rate of the control loop, or 0."""

    target: str
    abi: str
    clock: Clock
    control_hz: float
    tests: tuple[Test, ...]


def attempted_listing(results: Results) -> tuple[TargetListing, ...]:
    """Returns the listing of each target, in the order of the suite; empty if the suite lists no test, or no row has a
    number."""
    listed = results.suite.listing if results.suite else ()
    pairs = [(listed_row, row) for listed_row in listed for row in picked(results, listed_row.row)]
    places = dict.fromkeys((row.target, row.abi, row.clock) for _, row in pairs)
    answers = []
    for place in places:
        target, abi, clock = place
        of_place = [(listed_row, row) for listed_row, row in pairs if (row.target, row.abi, row.clock) == place]
        samples = [_in_turn(outcomes_of(results, row)) for _, row in of_place]
        tests = [
            Test(listed_row, row, *chosen_attempts(_tried(taken, samples)), exits_of(results, row))
            for (listed_row, row), taken in zip(of_place, samples, strict=True)
        ]
        answers.append(TargetListing(target, abi, clock, _usual_control_hz(samples), tuple(tests)))
    return tuple(answers)


def published_turns(listed: Sequence[Listed]) -> Iterator[tuple[Listed, int, float]]:
    """Yields each line with a published time, the index of the build, and the time in turns of the loop of the first
    line, which is the control loop."""
    loops = next((line.published for line in listed if line.published), ())
    for line in listed:
        for build, (rate, loop) in enumerate(zip(line.published, loops, strict=False)):
            if rate and rate != loop:
                yield line, build, loop / rate


def _usual_control_hz(samples: Iterable[_Timed]) -> float:
    """Returns the median rate of the control loop of all attempts on one target; 0 if none was measured."""
    rates = [hz for timed in samples for sample, _ in timed if (hz := control_around(sample))]
    return median(rates) if rates else 0.0


def _usual_width(samples: Iterable[_Timed]) -> float | None:
    """Returns the independent additions per cycle of the uncontended core; None if too few readings show it."""
    readings = [width for timed in samples for sample, _ in timed for width in _widths(sample)]
    return highest_mode(np.array(readings)) if readings else None


def _widths(sample: Sample) -> list[float]:
    """Returns the independent additions per cycle directly before and after a sample."""
    witness = sample.witness
    looks = ((witness.width_before_hz, witness.control_before_hz), (witness.width_hz, witness.control_hz))
    return [width / hz for width, hz in looks if width and hz]


def _tried(samples: _Timed, of_target: Sequence[_Timed]) -> list[Attempt]:
    """Returns one attempt for each sample, over both of its batches: the overhead of a batch is negligible in a
    millisecond. of_target: samples of all tests on the target."""
    attempts, usual_hz, usual_width = [], _usual_control_hz(of_target), _usual_width(of_target)
    for sample, operations in samples:
        took_ns, control_hz = sum(sample.body), control_around(sample)
        loops_hz = BATCHES * sample.iterations * operations * 1e9 / took_ns if took_ns else 0.0
        is_contended = usual_width is not None and any(one < WHOLE_FROM * usual_width for one in _widths(sample))
        state = "differs" if is_contended else state_of(control_hz, usual_hz)
        attempts.append(Attempt(loops_hz, control_hz, state))
    return attempts


def differing(seen: Mapping[Point, Sequence[Outcome]], suite: Suite, probes: Mapping[str, Probe]) -> list[Point]:
    """Returns the points of the listing of which one of the five attempts differs, if no further attempt can replace it
    yet. seen: visits of each point."""

    def is_of(wanted: RowOf, point: Point) -> bool:
        meanings = {metric.means for metric in probes[point.probe].metrics}
        return (
            wanted.probe in (None, point.probe)
            and (wanted.means is None or wanted.means in meanings)
            and wanted.parameters.items() <= point.values().items()
        )

    listed = [point for point in seen if any(is_of(line.row, point) for line in suite.listing)]
    samples = {point: _in_turn(outcome for outcome in seen[point] if outcome.status == "ok") for point in listed}
    places: dict[tuple[str, str], list[_Timed]] = {}
    for point in listed:
        places.setdefault((point.target, point.abi), []).append(samples[point])
    tests = {point: chosen_attempts(_tried(samples[point], places[point.target, point.abi])) for point in listed}
    return [
        point for point, (kept, again) in tests.items()
        if again < MOST_AGAIN and any(attempt.state == "differs" for attempt in kept)
    ]  # fmt: skip


def chosen_attempts(tried: Sequence[Attempt]) -> tuple[tuple[Attempt, ...], int]:
    """Returns five attempts in the order of measuring, and the number that were replaced. An attempt that differs is
    replaced by the next one, at most three times."""
    kept: list[Attempt] = []
    replaced = 0
    for place, attempt in enumerate(tried):
        if len(kept) == ATTEMPTS:
            break
        can_replace = len(tried) - place - 1 >= ATTEMPTS - len(kept)
        if attempt.state == "differs" and replaced < MOST_AGAIN and can_replace:
            replaced += 1
        else:
            kept.append(attempt)
    return tuple(kept), replaced


def state_of(control_hz: float, usual_hz: float) -> State:
    """Returns the state of an attempt by the rates of its control loop and of all control loops."""
    if not control_hz or not usual_hz:
        return "unseen"
    off = abs(control_hz / usual_hz - 1)
    return "valid" if off <= VALID else "suspect" if off <= ALIKE else "differs"


def control_around(sample: Sample) -> float:
    """Returns the mean rate of the control loops directly before and after a sample; 0 without one."""
    rates = [hz for hz in (sample.witness.control_before_hz, sample.witness.control_hz) if hz]
    return sum(rates) / len(rates) if rates else 0.0


def outcomes_of(results: Results, row: Row) -> list[Outcome]:
    """Returns the visits of a row."""
    return [
        outcome
        for outcome in results.outcomes
        if outcome.status == "ok"
        and (outcome.point.probe, outcome.point.abi, outcome.point.target) == (row.probe, row.abi, row.target)
        and outcome.point.values() == row.parameters
    ]


def _in_turn(outcomes: Iterable[Outcome]) -> _Timed:
    """Returns the first samples of all visits, then the second ones, and so on, so that attempts are far apart in time;
    each with the operations of an iteration."""
    visits = [[(sample, outcome.work.operations or 1.0) for sample in outcome.samples] for outcome in outcomes]
    longest = max((len(visit) for visit in visits), default=0)
    return [visit[turn] for turn in range(longest) for visit in visits if turn < len(visit)]
