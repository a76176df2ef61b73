# SPDX-License-Identifier: Apache-2.0
"""Makes published runs from runs, and reads them from runs, files and folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tollmeter.fleet.published import Loaded, PublishedPair, PublishedRun, read_published, redacted
from tollmeter.library import places
from tollmeter.library.derive import open_run
from tollmeter.model import Failure, Index, Results
from tollmeter.notices import notify
from tollmeter.report.charts.chart import benches
from tollmeter.report.charts.cores import CORES, by_pair, cpus_of
from tollmeter.report.charts.memory import rows_with_traffic
from tollmeter.store.journal import NAME
from tollmeter.studies.attribution import prices_of


def publish(results: Results) -> PublishedRun:
    """Returns a run for publication, without names that identify its owner."""
    pairs: dict[tuple[int, int], PublishedPair] = {}
    loads: list[Loaded] = []
    for bench in benches(results)[:1]:
        for each in bench.own(bench.meaning(*CORES.means)):
            for row in by_pair(bench, each):
                cpus = cpus_of(row)
                if cpus and row.median and row.unit == "ns":
                    pairs.setdefault(cpus, PublishedPair(*cpus, row.median))
        for row, traffic in rows_with_traffic(bench):
            if row.median and traffic.median and row.unit == "ns":
                loads.append(Loaded(str(row.parameters.get("mix", "traffic")), traffic.median, row.median))
    walk = prices_of(results).load
    latency = tuple(zip(walk.sizes, walk.ns, strict=True))
    return redacted(results.index, tuple(pairs.values()), tuple(loads), latency, places.sources())


def _files_of(name: str) -> list[str]:
    """Returns the published files of a folder; for a run or a file, the name itself."""
    folder = Path(name)
    files = sorted(folder.glob("*.json")) if folder.is_dir() and not (folder / NAME).exists() else []
    return [*map(str, files)] or [name]


def peers_of(results: Results, names: Sequence[str]) -> list[Index]:
    """Returns the runs of other machines among the named ones. names: as for `published`. Raises Failure as `published`
    does."""
    own_id = publish(results).id
    return [peer.index for peer in published(names) if peer.id != own_id]


def published(names: Sequence[str]) -> Iterator[PublishedRun]:
    """Yields published runs, each once. names: runs, which are redacted first; files that `toll publish` wrote; and
    folders of such files. An unreadable name is reported and left out. Raises Failure if none can be read."""
    ids: set[str] = set()
    failures: list[tuple[str, str, int]] = []
    for name in (file for given in names for file in _files_of(given)):
        try:
            run = read_published(Path(name)) if Path(name).is_file() else publish(open_run(places.find_run(name)))
        except Failure as failure:
            failures.append((name, failure.sentence, failure.exit_code))
            continue
        if run.id not in ids:
            ids.add(run.id)
            yield run
    for name, sentence, _ in failures if ids else failures[1:]:
        notify(f"{name} is left out: {sentence}")
    if not ids:
        raise Failure(*failures[0][1:])
