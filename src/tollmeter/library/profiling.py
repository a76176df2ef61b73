# SPDX-License-Identifier: Apache-2.0
"""Profiles: points run under a sampler and stored beside the journal. Addresses are resolved to functions at once,
since the executable of that time is not kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tollmeter.library import places
from tollmeter.library.command_words import suite_of_words
from tollmeter.library.interleaved_profiles import InterleavedProfiles, Report
from tollmeter.library.prepare import machine_of
from tollmeter.library.sampled import Over, ProfilePoint, never, sampled
from tollmeter.library.wanted import asking
from tollmeter.model import Failure, Profile, Select
from tollmeter.numbers.known import Place
from tollmeter.plan.points import Ground, check_abis, resolve
from tollmeter.store.profile_files import keep
from tollmeter.targets.profiling_visit import Asked as Sampling
from tollmeter.toolchain.symbols import Met, Symbols


def points_of(words: Sequence[str], abis: Sequence[str], targets: Sequence[str]) -> list[ProfilePoint]:
    """The points of the words, else typical values. Raises Failure: 2 for unknown names, 6 if none runs here."""
    catalog = places.made_ready(abis, targets, asking(words, places.suites(), places.sources()))
    suite = suite_of_words(words, places.suites(), catalog)
    selects = [msgspec.structs.replace(select, others="typical") for select in suite.select]
    check_abis(catalog, abis)
    ground = Ground(catalog, machine_of(catalog, targets)[0], abis)
    points = wanted_by(selects, ground)
    if not points:
        raise Failure(f"nothing of {suite.name} runs here", 6)
    return points


def wanted_by(selects: Iterable[Select], ground: Ground) -> list[ProfilePoint]:
    """The points of some selections that are built here, each once."""
    points = dict.fromkeys(point for select in selects for point in resolve(select, ground).points)
    return [ProfilePoint(point, ground.catalog.executables[point.probe, point.abi]) for point in points]


def profile_suite(
    folder: Path,
    wanted: Sequence[ProfilePoint],
    seconds: float,
    report: Report,
    widths: Mapping[Place, float],
    *,
    over: Over = never,
) -> None:
    """Takes the profiles of a suite and stores them in the run's folder; after a Ctrl-C stores those that are taken.
    seconds: of each. report: called with the progress. widths: of the uncontended core, from earlier runs."""
    turns = InterleavedProfiles(wanted, Sampling(round(1000 * seconds)), widths)
    try:
        turns.take(report, over)
    finally:
        keep(folder, Profile, turns.profiles())


def take_all(wanted: Sequence[ProfilePoint], sampling: Sampling) -> list[Profile]:
    """A profile of each. What went wrong with one is its reason, and keeps no other from being taken."""
    turns = InterleavedProfiles(wanted, sampling)
    turns.take(lambda _: None)
    return turns.profiles()


def lines_of(words: Sequence[str]) -> Met:
    """How often each line of a probe's sources ran, at typical values unless the words name others. Raises Failure."""
    wanted = points_of(words, (), ())[0]
    return Symbols(Path(wanted.executable.path)).met(sampled(wanted, Sampling(1000)).hits)
