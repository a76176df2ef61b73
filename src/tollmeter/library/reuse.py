# SPDX-License-Identifier: Apache-2.0
"""What the machine's default run measured within the hour, for a study that asks for the same points: the study's own
budget is then left for what only it asks.

A visit is taken over as it stands in the other journal, if machine, kernel and boot are the same, the executable is the
same to the byte, and the priority that was asked for is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tollmeter.catalog import Executable
from tollmeter.library import places
from tollmeter.library.command_words import DEFAULT
from tollmeter.library.prepare import Prepared
from tollmeter.model import Failure, Machine, Outcome
from tollmeter.protocol import head, outcome
from tollmeter.store.journal import NAME, is_written, streams
from tollmeter.store.request import read_request

MOST_AGE_S = 3600.0


class Reused(NamedTuple):
    """streams: as they stand in the other journal; outcomes: what they say. minutes: since that run ended."""

    run: str
    minutes: float
    streams: tuple[bytes, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def sentence(self) -> str:
        points = len({outcome.point for outcome in self.outcomes})
        when = f"{self.minutes:.0f} min ago" if self.minutes >= 1 else "less than a minute ago"
        return (
            f"{len(self.outcomes)} visits of {points} points are taken over from {self.run}, which measured them on "
            f"this machine and build {when}."
        )


def reused(ready: Prepared, executables: Mapping[tuple[str, str], Executable]) -> Reused | None:
    """None for a run of no study, and where no default run of the last hour has anything of it."""
    if not ready.request.suite.published:
        return None
    for folder in _recent():
        try:
            earlier = _of_run(folder, ready, executables)
        except (Failure, OSError):
            continue
        if earlier is not None:
            return earlier
    return None


def _recent() -> Iterator[Path]:
    """Default runs of the person that ended within the hour, the newest first."""
    for folder in reversed(places.run_folders()):
        journal = folder / NAME
        if folder.parent != places.RUNS:
            continue
        if time.time() - journal.stat().st_mtime > MOST_AGE_S:
            return
        if not is_written(journal):
            yield journal.parent


def _of_run(folder: Path, ready: Prepared, executables: Mapping[tuple[str, str], Executable]) -> Reused | None:
    request = read_request(folder)
    if request.suite.name != DEFAULT or request.priority != ready.request.priority:
        return None
    whole = list(streams(folder))
    reported = head(whole[0].lines)
    # A visit from later than now is of another boot's clock.
    if reported.machine is None or not _same(reported.machine, ready.machine):
        return None
    built = {(build.probe, build.abi): build.sha256 for build in reported.builds}
    same = {key for key, made in executables.items() if built.get(key) == made.build.sha256}
    points = set(ready.plan.points())
    pairs = [(stream, outcome(stream.lines)) for stream in whole if stream.is_visit]
    kept = [
        (stream, seen) for stream, seen in pairs if seen.status == "ok" and seen.point in points and
        (seen.point.probe, seen.point.abi) in same and seen.at_ns <= time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    ]  # fmt: skip
    minutes = (time.time() - (folder / NAME).stat().st_mtime) / 60
    taken = tuple(stream.text for stream, _ in kept), tuple(seen for _, seen in kept)
    return Reused(folder.name, minutes, *taken) if kept else None


def _same(then: Machine, now: Machine) -> bool:
    return (then.host, then.cpu, then.kernel) == (now.host, now.cpu, now.kernel)
