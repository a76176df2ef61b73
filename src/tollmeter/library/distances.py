# SPDX-License-Identifier: Apache-2.0
"""Stack distances of the loads of a study's programs, from an emulator that sees their addresses: the misses of each
cache, whatever its size. Stored in the run's folder beside the journal: it is a property of the program alone, and no
time.

It is as exact as a count, so the result for one executable is stored beside the emulator's files and not measured
again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tollmeter.library.places import ROOT
from tollmeter.library.profiling import wanted_by
from tollmeter.library.sampled import Over, ProfilePoint, read_profile
from tollmeter.model import Distances, Failure, Suite
from tollmeter.plan.points import Ground
from tollmeter.store.profile_files import keep_distances, kept_distances
from tollmeter.targets.distance_visit import DISTANCES, measure_distances
from tollmeter.toolchain.abis import open_here

LASTS_MS = 20
_EMULATOR = ROOT / "build/emulator"
_KEPT = _EMULATOR / "distances"


def take_distances(folder: Path, suite: Suite, ground: Ground, over: Over, tell: Callable[[int, int], None]) -> None:
    """Measures every program of a suite that is counted at several sizes, as attribution of its time requires; also
    stores what there is after a Ctrl-C. tell: is called with the number that is done, and of all."""
    taken: list[Distances] = []
    every = [wanted for wanted in wanted_by(suite.select, ground) if _is_program(wanted, ground)]
    sizes = Counter(map(_program, every))
    every = [wanted for wanted in every if sizes[_program(wanted)] > 1]
    try:
        for done, wanted in enumerate(every):
            tell(done, len(every))
            taken.append(distances(wanted, over))
    finally:
        keep_distances(folder, taken)


def _is_program(wanted: ProfilePoint, ground: Ground) -> bool:
    metrics = ground.catalog.probes()[wanted.point.probe].metrics
    return wanted.point.target.startswith("qemu-user:") and any(metric.means == "cpu-time" for metric in metrics)


def _program(wanted: ProfilePoint) -> tuple[object, ...]:
    """All but its size: another choice is another program."""
    return wanted.point.probe, wanted.point.abi, *(pair for pair in wanted.point.parameters if isinstance(pair[1], str))


def distances(wanted: ProfilePoint, over: Over) -> Distances:
    """The distances of one point. A failure becomes its reason, and does not stop the others. Once time is over, only
    stored results are returned."""
    point = wanted.point
    empty = Distances(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    try:
        open_here(ROOT, point.target, (DISTANCES,)).close()
        kept = _KEPT / _fingerprint(wanted)
        if known := next(iter(_read(kept)), None):
            return known
        if why := over():
            return msgspec.structs.replace(empty, reason=why)
        return _measured(empty, wanted, kept)
    except (Failure, OSError) as error:
        return msgspec.structs.replace(empty, reason=error.sentence if isinstance(error, Failure) else str(error))


def _fingerprint(wanted: ProfilePoint) -> str:
    """Of all that the answer is made of: the program, what it is asked, and what looks at it."""
    of = [Path(wanted.executable.path).read_bytes(), (_EMULATOR / DISTANCES).read_bytes()]
    asked = repr((wanted.point.target, wanted.point.parameters, LASTS_MS)).encode()
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in (*of, asked))).hexdigest()[:32]


def _read(kept: Path) -> Sequence[Distances]:
    try:
        return kept_distances(kept)
    except Failure:
        return ()


def _measured(empty: Distances, wanted: ProfilePoint, kept: Path) -> Distances:
    words = [f"{name}={value}" for name, value in wanted.point.parameters]
    measured = measure_distances(wanted.point.target, [wanted.executable.path, *words], LASTS_MS, _EMULATOR)
    last, work = read_profile(measured.ended)
    operations = last.iterations * (work.operations or 1.0)
    loads = tuple((size, foreseen / operations, others / operations) for size, foreseen, others in measured.loads)
    result = msgspec.structs.replace(empty, loads=loads)
    kept.mkdir(parents=True, exist_ok=True)
    keep_distances(kept, [result])
    return result
