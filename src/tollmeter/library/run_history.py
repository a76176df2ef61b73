# SPDX-License-Identifier: Apache-2.0
"""The rows of many runs, read from the index that each run keeps, and selected as `toll run` selects points."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.judgement.row_series import SeriesPoint, Source
from tollmeter.library import places
from tollmeter.library.derive import open_index, open_run
from tollmeter.library.row_words import EVERY, is_named, named_rows, no_row
from tollmeter.model import Build, Failure, Index, Level, Row, Toll
from tollmeter.notices import Counting, notify
from tollmeter.numbers.rows import Key, row_key
from tollmeter.report.shown import best_known
from tollmeter.root import typed
from tollmeter.store.index import load_excerpt
from tollmeter.store.journal import opening

_LEVEL = "memory.level"
"""Name of rows that are memory levels, in place of a probe's name."""


class History(NamedTuple):
    """The rows of several runs. runs: number of readable runs. readings: each row with its run. labels: names of rows
    on a first screen. usual: the rows of the youngest run's first screen, in its order; empty if words selected
    rows."""

    runs: int
    readings: tuple[SeriesPoint, ...]
    labels: dict[Key, str]
    usual: tuple[Key, ...] = ()


def youngest_runs(named: Sequence[Path], most: int) -> list[Path]:
    """Returns the youngest of the named runs and of the runs in named folders, by default of `toll list runs`; the
    oldest first. Raises Failure (2)."""
    every = [(run.parent, run.name) for run in places.runs_below(named)] if named else places.run_places()
    if not every:
        where = " or ".join(str(places.shown(folder)) for folder in named or [places.RUNS])
        raise Failure(f"there is no run in {where}: `{typed('run')}` measures one")
    if len(every) > most:
        notify(f"the youngest {most} of {len(every):,} runs are read; `--last {len(every)}` reads all")
    return [place / name for place, name in every[-most:]]


def read_history(folders: Sequence[Path], words: Sequence[str]) -> History:
    """Returns the history of rows. words: as for `toll run`; without words, the tolls and the memory levels. An
    unreadable run is reported and left out. Raises Failure: 2 for a word that no run has, with the nearest names; 5
    if no run can be read."""
    selected = named_rows(words)
    # Without words the rows of the tolls are read, else those of probes by a glob.
    glob = None if not selected else selected[0].name if len(selected) == 1 else EVERY
    excerpts = _excerpts(folders, glob)
    if not excerpts:
        raise Failure("none of the runs can be read: the reason of each is above", 5)
    readings = tuple(
        SeriesPoint(source, row)
        for source, excerpt in excerpts
        for row in (*excerpt.rows, *_level_rows(excerpt.hierarchy))
        if not selected or is_named(row.probe, row.parameters, selected, source.machine)
    )
    rows_read = [reading.row for reading in readings]
    if lacking := [word for word in selected if not any(fnmatchcase(row.probe, word.name) for row in rows_read)]:
        every = [row for _, excerpt in _excerpts(folders, EVERY) for row in excerpt.rows]
        raise no_row(lacking[0], every, "in these runs")
    labels = {_toll_key(toll): toll.toll for _, excerpt in excerpts for toll in excerpt.tolls}
    levels = (reading.row for reading in readings if reading.row.probe == _LEVEL)
    labels |= {row_key(row): f"{row.parameters['level']} {row.metric}" for row in levels}
    keys = dict.fromkeys(row_key(reading.row) for reading in readings)
    usual = () if selected else (*(key for key in keys if key[0] == _LEVEL), *_first_screen(folders))
    return History(len(excerpts), readings, labels, usual)


def _first_screen(folders: Sequence[Path]) -> list[Key]:
    """Returns the first-screen tolls of the youngest run that has tolls."""
    for folder in reversed(folders):
        with contextlib.suppress(Failure, OSError):
            tolls = best_known(open_run(folder))
            if tolls:
                return [*map(_toll_key, tolls)]
    return []


def _excerpts(folders: Sequence[Path], probes: str | None) -> list[tuple[Source, Index]]:
    """Returns the excerpts of runs, oldest first."""
    excerpts = []
    with Counting("reading runs") as counting:
        for number, folder in enumerate(folders, 1):
            try:
                excerpt = _excerpt(folder, probes)
                source = Source(
                    folder.resolve().name, _moment(excerpt.run.started), excerpt.machine, excerpt.run.tollmeter,
                    cache(partial(_builds, folder)),
                )  # fmt: skip
                excerpts.append((source, excerpt))
            except Failure as failure:
                notify(f"{places.shown(folder)} is left out: {failure.sentence}")
            except OSError as error:
                notify(f"{places.shown(folder)} is left out: {error.strerror or error}")
            counting(number, len(folders))
    return sorted(excerpts, key=lambda pair: pair[0].started)


def _excerpt(folder: Path, probes: str | None) -> Index:
    """Returns the rows of a run from its stored index; derives them if the index is missing or of another version."""
    kept = load_excerpt(folder, probes)
    if kept is not None:
        return kept
    index = open_index(folder)
    if probes is not None:
        rows = tuple(row for row in index.rows if fnmatchcase(row.probe, probes))
        return msgspec.structs.replace(index, rows=rows, hierarchy=(), tolls=())
    keys = {*map(_toll_key, index.tolls)}
    rows = tuple(row for row in index.rows if row_key(row) in keys and row.clock == "hardware")
    return msgspec.structs.replace(index, rows=rows)


def _moment(text: str) -> datetime:
    """Returns the time of a run. A time without a zone is UTC; an invalid time is first."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _builds(folder: Path) -> dict[tuple[str, str], Build]:
    return {(build.probe, build.abi): build for build in opening(folder).builds}


def _toll_key(toll: Toll) -> Key:
    return toll.probe, toll.abi, toll.target, toll.metric, tuple(sorted(toll.parameters.items()))


def _level_rows(levels: Sequence[Level]) -> Iterator[Row]:
    """Yields size, latency and read rate of each memory level, if they have intervals."""
    for level in levels:
        if level.few_samples:
            continue
        yield _level_row(level, "size", "B", (level.size_bytes, level.size_low, level.size_high))
        yield _level_row(level, "latency", "ns", (level.latency_ns, level.latency_low, level.latency_high))
        yield _level_row(level, "read", "B/s", (level.read_bytes_per_second, level.read_low, level.read_high))


def _level_row(level: Level, metric: str, unit: str, numbers: tuple[float | None, float | None, float | None]) -> Row:
    median, low, high = numbers
    return Row(
        probe=_LEVEL, revision=1, abi="", target="", clock="hardware", parameters={"level": level.level}, metric=metric,
        unit=unit, better="less" if unit == "ns" else "more", status="ok", median=median, low=low, high=high,
        visits=LEAST_VISITS, layouts=LEAST_LAYOUTS,
    )  # fmt: skip
