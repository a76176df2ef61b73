# SPDX-License-Identifier: Apache-2.0
"""Further measurements of a suite after the run, in the remaining budget: profiles, a modelled cache, stack distances.
A measurement that did not fit is reported.

An emulator that sees a program's addresses gives the cache model and the stack distances: the misses of a study's cache
on a machine without that cache, and the misses of a cache of any size. They are stored in the run's folder beside the
journal: they are properties of the program alone, and no times. Stack distances are as exact as a count, so the result
for one executable is stored with the emulator's files and not measured again."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tollmeter.conduct import Stopping
from tollmeter.library.derive import learned
from tollmeter.library.places import ROOT
from tollmeter.library.prepare import Prepared
from tollmeter.library.profiling import SPENT, STOPPED, Over, ProfilePoint, profile_suite, read_profile, wanted_by
from tollmeter.model import CacheModel, Distances, Failure, Modelled, Record
from tollmeter.notices import Counting, notify
from tollmeter.plan.points import Ground
from tollmeter.store.request import store_records, stored_records
from tollmeter.targets.profiling_visit import DISTANCES, MISSES, loads_of, measure_distances, model_misses
from tollmeter.toolchain.abis import open_here

T = TypeVar("T", bound=Record)
PROFILE_S, _LEAST_PROFILE_S = 1.75, 0.5
"""Seconds of each profile of a suite, for about 17,000 samples in 14 slices; half of the samples still give a share to
1.1 percentage points."""
_TURNS = 1.5
"""Factor on the time of a profile's slices: a profile may take half as many slices again."""
_LASTS_MS, _MODEL_LASTS_MS = 20, 50
"""Milliseconds of the probe's run for which stack distances are recorded, and for which a cache is modelled."""
_EMULATOR = ROOT / "build/emulator"
_KEPT = _EMULATOR / "distances"


def look(ready: Prepared, folder: Path, until_s: float, stopping: Stopping, *, quiet: bool) -> None:
    """Makes the further measurements. until_s: monotonic seconds. Stores completed results in the run's folder, also
    after Ctrl-C."""

    def over() -> str | None:
        return STOPPED if stopping.asked else SPENT if time.monotonic() >= until_s else None

    suite, request = ready.request.suite, ready.request
    ground = Ground(ready.catalog, ready.machine, request.abis)
    if wanted := wanted_by(suite.profile, ground):
        left_s = (until_s - time.monotonic()) / len(wanted) / _TURNS
        seconds = min(PROFILE_S, max(_LEAST_PROFILE_S, left_s))
        report = (lambda _: None) if quiet else notify
        profile_suite(folder, wanted, seconds, report, learned(request).widths, over=over)
    if suite.modelled:
        cache: CacheModel = suite.modelled

        def modelled(point: ProfilePoint) -> Modelled:
            why = over()
            return _unmodelled(point, why) if why else model(point, cache)

        with Counting("points in a modelled cache") as count:
            points = wanted_by(cache.select, ground)
            _take(points, folder, Modelled, modelled, _silently if quiet else count)
    if suite.worth:
        with Counting("programs whose loads were looked at") as count:
            points = _sized_programs(wanted_by(suite.select, ground), ground)
            _take(points, folder, Distances, lambda point: distances(point, over), _silently if quiet else count)


def _silently(done: int, total: int) -> None:
    """Ignores progress, for --quiet."""


def _take(
    points: Sequence[ProfilePoint], folder: Path, form: type[T], take: Callable[[ProfilePoint], T],
    report: Callable[[int, int], None],
) -> None:  # fmt: skip
    """Stores completed results, also after Ctrl-C. report: called with the number of completed points, and the
    total."""
    taken: list[T] = []
    try:
        for done, point in enumerate(points):
            report(done, len(points))
            taken.append(take(point))
    finally:
        if taken:
            store_records(folder, form, taken)


def model(wanted: ProfilePoint, cache: CacheModel) -> Modelled:
    """Returns the misses and flushes of one point in a modelled cache, per operation. A failure becomes the reason of
    the result, and does not affect other points."""
    target = wanted.point.target
    try:
        open_here(ROOT, target, (MISSES,)).close()
        modelled = model_misses(target, wanted.command(), _MODEL_LASTS_MS, cache, _EMULATOR)
        operations = read_profile(modelled).operations
    except (Failure, OSError) as error:
        return _unmodelled(wanted, str(error))
    _, misses, flushes = (int(number) / operations for number in modelled.written.split())
    return msgspec.structs.replace(_unmodelled(wanted, None), misses=misses, flushes=flushes)


def _unmodelled(wanted: ProfilePoint, reason: str | None) -> Modelled:
    point = wanted.point
    return Modelled(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values(), reason=reason)


def _sized_programs(points: Sequence[ProfilePoint], ground: Ground) -> list[ProfilePoint]:
    """Returns the points of programs that are counted at several sizes, as the attribution of their time requires.
    Points that differ in a choice are of different programs."""
    probes = ground.catalog.probes()
    programs = {}
    for wanted in points:
        point = wanted.point
        is_program = any(metric.means == "cpu-time" for metric in probes[point.probe].metrics)
        if is_program and point.target.startswith("qemu-user:"):
            choices = (pair for pair in point.parameters if isinstance(pair[1], str))
            programs[wanted] = (point.probe, point.abi, *choices)
    sizes = Counter(programs.values())
    return [wanted for wanted, program in programs.items() if sizes[program] > 1]


def distances(wanted: ProfilePoint, over: Over) -> Distances:
    """Returns the stack distances of one point, or why there are none. over: returns why no more time is left; only
    stored results are then returned."""
    point = wanted.point
    empty = Distances(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    late = over()
    try:
        if not late:  # make alone takes 0.5 s beside busy programs, and some suites have 32 points
            open_here(ROOT, point.target, (DISTANCES,)).close()
        stored = _KEPT / _fingerprint(wanted)
        with contextlib.suppress(Failure):  # a damaged file is written again
            if known := stored_records(stored, Distances):
                return known[0]
        if late:
            return msgspec.structs.replace(empty, reason=late)
        measured = measure_distances(point.target, wanted.command(), _LASTS_MS, _EMULATOR)
        operations = read_profile(measured).operations
        loads_by_size = loads_of(measured.written)
        loads = tuple((size, foreseen / operations, others / operations) for size, foreseen, others in loads_by_size)
        result = msgspec.structs.replace(empty, loads=loads)
        stored.mkdir(parents=True, exist_ok=True)
        store_records(stored, Distances, [result])
        return result
    except (Failure, OSError) as error:
        return msgspec.structs.replace(empty, reason=late or str(error))


def _fingerprint(wanted: ProfilePoint) -> str:
    """Returns a fingerprint of all inputs of the answer: program, question, and emulator."""
    contents = [Path(wanted.executable.path).read_bytes(), (_EMULATOR / DISTANCES).read_bytes()]
    question = repr((wanted.point.target, wanted.point.parameters, _LASTS_MS)).encode()
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in (*contents, question))).hexdigest()[:32]
