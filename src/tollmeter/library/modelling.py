# SPDX-License-Identifier: Apache-2.0
"""What a study's cache would miss, where there is none: points run under an emulator that tells their addresses to a
model of that cache. Kept in the run's folder beside the journal, since it is no measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tollmeter.library.places import ROOT
from tollmeter.library.profiling import wanted_by
from tollmeter.library.sampled import Wanted, read_profile
from tollmeter.model import CacheModel, Failure, Modelled
from tollmeter.plan.points import Ground
from tollmeter.store.profiles import keep_modelled
from tollmeter.targets.modelled import MISSES, missed
from tollmeter.toolchain.abis import open_here

LASTS_MS = 50


def model_suite(folder: Path, cache: CacheModel, ground: Ground, tell: Callable[[str], None]) -> None:
    """All that a suite wants modelled; what there is of it also after a Ctrl-C. tell: is told which is next."""
    taken: list[Modelled] = []
    every = wanted_by(cache.select, ground)
    try:
        for number, wanted in enumerate(every, start=1):
            tell(f"modelled cache {number} of {len(every)}: {wanted.point.probe} {wanted.point.abi}")
            taken.append(model(wanted, cache))
    finally:
        if taken:
            keep_modelled(folder, taken)


def model(wanted: Wanted, cache: CacheModel) -> Modelled:
    """One point. What went wrong is its reason: it keeps no other from being modelled."""
    point = wanted.point
    empty = Modelled(probe=point.probe, abi=point.abi, target=point.target, parameters=point.values())
    words = [f"{name}={value}" for name, value in point.parameters]
    try:
        open_here(ROOT, point.target, (MISSES,)).close()
        told = missed(point.target, [wanted.executable.path, *words], LASTS_MS, cache, ROOT / "build/emulator")
        last, work = read_profile(told.ended)
    except (Failure, OSError) as error:
        return msgspec.structs.replace(empty, reason=error.sentence if isinstance(error, Failure) else str(error))
    operations = last.iterations * (work.operations or 1.0)
    return msgspec.structs.replace(empty, misses=told.misses / operations, flushes=told.flushes / operations)
