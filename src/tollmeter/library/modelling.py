# SPDX-License-Identifier: Apache-2.0
"""The misses of a study's cache on a machine without it: points run under an emulator that passes their addresses to a
model of that cache. Stored in the run's folder beside the journal, since it is no measurement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tollmeter.library.places import ROOT
from tollmeter.library.profiling import wanted_by
from tollmeter.library.sampled import Over, ProfilePoint, read_profile
from tollmeter.model import CacheModel, Failure, Modelled
from tollmeter.plan.points import Ground
from tollmeter.store.profile_files import keep_modelled
from tollmeter.targets.modelled_visit import MISSES, model_misses
from tollmeter.toolchain.abis import open_here

LASTS_MS = 50


def model_suite(folder: Path, cache: CacheModel, ground: Ground, over: Over, tell: Callable[[int, int], None]) -> None:
    """Models what a suite wants, until time is over; also stores what there is after a Ctrl-C. tell: is called with the
    number that is done, and of all."""
    taken: list[Modelled] = []
    every = wanted_by(cache.select, ground)
    try:
        for done, wanted in enumerate(every):
            tell(done, len(every))
            why = over()
            taken.append(_without(wanted, why) if why else model(wanted, cache))
    finally:
        if taken:
            keep_modelled(folder, taken)


def model(wanted: ProfilePoint, cache: CacheModel) -> Modelled:
    """One point. What went wrong is its reason: it keeps no other from being modelled."""
    point = wanted.point
    words = [f"{name}={value}" for name, value in point.parameters]
    try:
        open_here(ROOT, point.target, (MISSES,)).close()
        modelled = model_misses(
            point.target, [wanted.executable.path, *words], LASTS_MS, cache, ROOT / "build/emulator"
        )
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
