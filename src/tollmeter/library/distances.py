# SPDX-License-Identifier: Apache-2.0
"""How far apart the loads of a study's programs lie, from an emulator that sees their addresses: what each cache would
miss of them, whatever its size. Kept in the run's folder beside the journal: it is of the program alone, and no time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tollmeter.library.places import ROOT
from tollmeter.library.profiling import Wanted, read_profile, wanted_by
from tollmeter.model import Distances, Failure, Suite
from tollmeter.plan.points import Ground
from tollmeter.store.profiles import keep_distances
from tollmeter.targets.distances import DISTANCES, apart
from tollmeter.toolchain.abis import open_here

LASTS_MS = 20


def take_distances(folder: Path, suite: Suite, ground: Ground, tell: Callable[[str], None]) -> None:
    """Of every program of a suite where instructions are counted; what there is of them also after a Ctrl-C. tell: is
    told which is next."""
    taken: list[Distances] = []
    every = [wanted for wanted in wanted_by(suite.select, ground) if _is_program(wanted, ground)]
    try:
        for number, wanted in enumerate(every, start=1):
            tell(f"distances {number} of {len(every)}: {wanted.point.probe} {wanted.point.abi}")
            taken.append(distances(wanted))
    finally:
        keep_distances(folder, taken)


def _is_program(wanted: Wanted, ground: Ground) -> bool:
    metrics = ground.catalog.probes()[wanted.point.probe].metrics
    return wanted.point.target.startswith("qemu-user:") and any(metric.means == "cpu-time" for metric in metrics)


def distances(wanted: Wanted) -> Distances:
    """Of one point. What went wrong is its reason: it keeps no other from being taken."""
    point = wanted.point
    empty = Distances(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    words = [f"{name}={value}" for name, value in point.parameters]
    try:
        open_here(ROOT, point.target, (DISTANCES,)).close()
        told = apart(point.target, [wanted.executable.path, *words], LASTS_MS, ROOT / "build/emulator")
        last, work = read_profile(told.ended)
    except (Failure, OSError) as error:
        return msgspec.structs.replace(empty, reason=error.sentence if isinstance(error, Failure) else str(error))
    operations = last.iterations * (work.operations or 1.0)
    loads = tuple((size, foreseen / operations, others / operations) for size, foreseen, others in told.loads)
    return msgspec.structs.replace(empty, loads=loads)
