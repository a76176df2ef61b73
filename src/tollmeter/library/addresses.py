# SPDX-License-Identifier: Apache-2.0
"""What an emulator that sees the addresses of a program says of it: the misses of a study's cache on a machine without
it, and the stack distances of a program's loads, that is the misses of each cache, whatever its size. Stored in the
run's folder beside the journal: these are properties of the program alone, and no time.

Stack distances are as exact as a count, so the result for one executable is stored beside the emulator's files and not
measured again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from tollmeter.library.places import ROOT
from tollmeter.library.profiling import wanted_by
from tollmeter.library.sampled import Over, ProfilePoint, read_profile
from tollmeter.model import CacheModel, Distances, Failure, Modelled, Suite
from tollmeter.plan.points import Ground
from tollmeter.store.profile_files import keep, kept
from tollmeter.targets.profiling_visit import DISTANCES, MISSES, measure_distances, model_misses
from tollmeter.toolchain.abis import open_here

T = TypeVar("T")
_LASTS_MS, _MODEL_LASTS_MS = 20, 50
_EMULATOR = ROOT / "build/emulator"
_KEPT = _EMULATOR / "distances"


def model_suite(
    folder: Path, cache: CacheModel, ground: Ground, over: Over, report: Callable[[int, int], None]
) -> None:
    """Models the points of a suite until the time is spent; after a Ctrl-C stores those that are done. report: called
    with the number of points done, and of all."""

    def modelled(wanted: ProfilePoint) -> Modelled:
        why = over()
        return _without(wanted, why) if why else model(wanted, cache)

    _take(wanted_by(cache.select, ground), modelled, report, partial(keep, folder, Modelled))


def take_distances(folder: Path, suite: Suite, ground: Ground, over: Over, report: Callable[[int, int], None]) -> None:
    """Measures every program of a suite that is counted at several sizes, as attribution of its time requires; after a
    Ctrl-C stores those that are done. report: called with the number of programs done, and of all."""
    every = [wanted for wanted in wanted_by(suite.select, ground) if _is_program(wanted, ground)]
    sizes = Counter(map(_program, every))
    every = [wanted for wanted in every if sizes[_program(wanted)] > 1]
    _take(every, partial(distances, over=over), report, partial(keep, folder, Distances))


def _take(
    every: Sequence[ProfilePoint], take: Callable[[ProfilePoint], T], report: Callable[[int, int], None],
    store: Callable[[list[T]], None],
) -> None:  # fmt: skip
    taken: list[T] = []
    try:
        for done, wanted in enumerate(every):
            report(done, len(every))
            taken.append(take(wanted))
    finally:
        if taken:
            store(taken)


def model(wanted: ProfilePoint, cache: CacheModel) -> Modelled:
    """One point. What went wrong is its reason: it keeps no other from being modelled."""
    target = wanted.point.target
    try:
        open_here(ROOT, target, (MISSES,)).close()
        modelled = model_misses(target, wanted.command(), _MODEL_LASTS_MS, cache, _EMULATOR)
        last, work = read_profile(modelled.ended)
    except (Failure, OSError) as error:
        return _without(wanted, error.sentence if isinstance(error, Failure) else str(error))
    operations = last.iterations * (work.operations or 1.0)
    return msgspec.structs.replace(
        _without(wanted, None), misses=modelled.misses / operations, flushes=modelled.flushes / operations
    )


def _without(wanted: ProfilePoint, reason: str | None) -> Modelled:
    """Of a point, with nothing that was counted, and why."""
    point = wanted.point
    return Modelled(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values(), reason=reason)


def _is_program(wanted: ProfilePoint, ground: Ground) -> bool:
    metrics = ground.catalog.probes()[wanted.point.probe].metrics
    return wanted.point.target.startswith("qemu-user:") and any(metric.means == "cpu-time" for metric in metrics)


def _program(wanted: ProfilePoint) -> tuple[object, ...]:
    """All but its size: another choice is another program."""
    return wanted.point.probe, wanted.point.abi, *(pair for pair in wanted.point.parameters if isinstance(pair[1], str))


def distances(wanted: ProfilePoint, over: Over) -> Distances:
    """The distances of one point, or why there are none. Once time is over, only stored results are returned."""
    point = wanted.point
    empty = Distances(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    late = over()
    try:
        if not late:  # make alone takes 0.5 s beside busy programs, and some suites have 32 points
            open_here(ROOT, point.target, (DISTANCES,)).close()
        stored = _KEPT / _fingerprint(wanted)
        if known := next(iter(_read(stored)), None):
            return known
        return msgspec.structs.replace(empty, reason=late) if late else _measured(empty, wanted, stored)
    except (Failure, OSError) as error:
        reason = error.sentence if isinstance(error, Failure) else str(error)
        return msgspec.structs.replace(empty, reason=late or reason)


def _fingerprint(wanted: ProfilePoint) -> str:
    """Of all that the answer is made of: the program, what it is asked, and what looks at it."""
    of = [Path(wanted.executable.path).read_bytes(), (_EMULATOR / DISTANCES).read_bytes()]
    asked = repr((wanted.point.target, wanted.point.parameters, _LASTS_MS)).encode()
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in (*of, asked))).hexdigest()[:32]


def _read(stored: Path) -> Sequence[Distances]:
    try:
        return kept(stored, Distances)
    except Failure:
        return ()


def _measured(empty: Distances, wanted: ProfilePoint, stored: Path) -> Distances:
    measured = measure_distances(wanted.point.target, wanted.command(), _LASTS_MS, _EMULATOR)
    last, work = read_profile(measured.ended)
    operations = last.iterations * (work.operations or 1.0)
    loads = tuple((size, foreseen / operations, others / operations) for size, foreseen, others in measured.loads)
    result = msgspec.structs.replace(empty, loads=loads)
    stored.mkdir(parents=True, exist_ok=True)
    keep(stored, Distances, [result])
    return result
