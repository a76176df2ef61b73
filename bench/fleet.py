# SPDX-License-Identifier: Apache-2.0
"""Makes a modelled fleet as a Parquet dataset, and measures `toll fleet report` on it.

    bench/fleet.py RUN OUT MACHINES ROWS [ILL]     writes the dataset to OUT
    bench/fleet.py RUN SEEDS                       false names in that many fleets of 2,000 machines, in memory
    bench/fleet.py planted RUN FIRST SEEDS         22 machines with the rows of RUN; one has slow memory, or is slow
                                                   as a whole
    bench/fleet.py RUN                             time and memory of the report for 300 machines

Each machine has the rows of RUN, copied until there are ROWS of them; the copies have a parameter `copy`. The costs
of a machine vary as a whole by 0.7 % (standard deviation of logarithms), in each probe by 0.7 %, and in each row by
the row's own interval. ILL machines, spread evenly over the fleet, take 5 % longer in every row."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from math import expm1, log1p
from pathlib import Path
from statistics import median

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.fleet.judged import MEMORY, HardwareModel, JudgedModel, is_in_time, is_rate, judged_model
from tollmeter.library.derive import derived_table, open_index
from tollmeter.library.places import find_run
from tollmeter.model import Cache, Index, Row
from tollmeter.numbers.readings import RATES
from tollmeter.store.export import machine_name, write_tables

MACHINE_SD = PROBE_SD = 0.007
ILL_FACTOR = 1.05
SIZES = (300,)
ROWS = 3_000
FLEET, SMALL = 2_000, 22
SEED = 31


def copied(index: Index, rows: int) -> tuple[Row, ...]:
    """Returns this number of rows, copied from the rows that have enough visits for an interval."""
    known = [row for row in index.rows if row.median and row.low and row.high and row.low > 0
             and row.visits >= LEAST_VISITS and row.layouts >= LEAST_LAYOUTS]  # fmt: skip
    several = ((known[at % len(known)], at // len(known)) for at in range(rows))
    return tuple(msgspec.structs.replace(row, parameters={**row.parameters, "copy": copy}) for row, copy in several)


def ill_of(machines: int, ill: int) -> set[int]:
    """Returns the indices of the slow machines, spread evenly over the fleet."""
    return {int(at) for at in np.linspace(0, machines - 1, ill + 2)[1:-1]}


def times_of(rows: Sequence[Row], machines: int, ill: set[int], seed: int) -> Iterator[NDArray[np.float64]]:
    """Yields for each machine the factor of each row."""
    chance = np.random.default_rng(seed)
    rates = np.array([row.unit in RATES or row.better == "more" for row in rows])
    probes, of_probe = np.unique([row.probe for row in rows], return_inverse=True)
    errors = halves_of(rows) / 1.96
    for at in range(machines):
        cost = MACHINE_SD * chance.normal() + PROBE_SD * chance.normal(size=len(probes))[of_probe]
        cost = cost + errors * chance.normal(size=len(rows)) + np.log(ILL_FACTOR) * (at in ill)
        yield np.exp(np.where(rates, -cost, cost))


def halves_of(rows: Sequence[Row]) -> NDArray[np.float64]:
    return np.array([np.log(row.high / row.low) / 2 for row in rows if row.low and row.high])


def make(run: str, out: Path, machines: int, rows: int, ill: int = 0) -> list[str]:
    """Writes the dataset, and returns the names of the slow machines."""
    index = open_index(find_run(run))
    index = msgspec.structs.replace(index, rows=copied(index, rows))
    sick = ill_of(machines, ill)
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("rows", "machines"):
            write_tables(Path(scratch), index, [(name, derived_table(name, index))])
        sources = {path.relative_to(scratch).parts[0]: path for path in Path(scratch).glob("*/*/*/*")}
        names = [machine_name(msgspec.structs.replace(index.machine, host=f"node{at}")) for at in range(machines)]
        _write(sources, out, names, times_of(index.rows, machines, sick, SEED))
    return [names[at] for at in sorted(sick)]


def _write(sources: dict[str, Path], out: Path, names: Sequence[str], machines: Iterator[NDArray[np.float64]]) -> None:
    """Writes the tables of each machine: those of the sources, with the machine's name and its own numbers."""
    with duckdb.connect() as db:
        db.execute("SET threads = 1")
        for name, path in sources.items():
            db.execute(f"CREATE TABLE {name} AS SELECT row_number() OVER () - 1 AS place, * FROM '{path}'")
        for at, times in enumerate(machines):
            db.register("noise", {"place": np.arange(len(times)), "times": times})
            for name, path in sources.items():
                numbers = (
                    "median * times AS median, low * times AS low, high * times AS high, " if name == "rows" else ""
                )
                made = out / name / f"machine={names[at]}" / path.parent.name / path.name
                made.parent.mkdir(parents=True)
                db.execute(
                    f"COPY (SELECT * EXCLUDE (place, times) REPLACE ({numbers}'node{at}' AS host) FROM {name}"
                    f" JOIN noise USING (place)) TO '{made}' (FORMAT parquet)"
                )


def count_names(run: str, seeds: int) -> None:
    """Prints how many slow machines, and how many others, are named in fleets of different seeds, without files."""
    rows = copied(open_index(find_run(run)), ROWS)
    halves = np.repeat(halves_of(rows)[:, None], FLEET, 1).astype(np.float32)
    names, sick = [f"node{at}" for at in range(FLEET)], ill_of(FLEET, FLEET // 100)
    for seed in range(SEED, SEED + seeds):
        times = np.stack([*times_of(rows, FLEET, sick, seed)], axis=1)
        found = judged_model(HardwareModel(run, names, rows, np.log(times).astype(np.float32), halves))
        named = {int(name.removeprefix("node")) for line in found.named for name in line.nodes}
        print(f"seed {seed}: {len(named & sick)} of {len(sick)} ill machines are named, and {len(named - sick)} of"
              f" {FLEET - len(sick)} others", flush=True)  # fmt: skip


def count_planted(run: str, first: int, seeds: int) -> None:
    """Prints how often a fleet of equal machines has a named node; and for planted slowdowns, how often the slow node
    is named and its interval contains the planted value."""
    index = open_index(find_run(run))
    rows = [row for row in index.rows if row.median and row.low and row.high and row.low > 0
            and row.visits >= LEAST_VISITS]  # fmt: skip
    if not rows:
        sys.exit(f"no row of {run} has the visits of an interval")
    caches = index.machine.caches
    alike = [_small_fleet(rows, caches, seed, "", 0) for seed in range(first, first + seeds)]
    print(f"{sum(bool(found.named) for found in alike)} of {seeds} fleets of equal machines have a name")
    for part in ("", MEMORY):
        for percent in (5, 8, 12, 16):
            found = [
                _small_fleet(rows, caches, seed, part, log1p(percent / 100)) for seed in range(first, first + seeds)
            ]
            effects = [one.effects[0] for each in found for one in each.named if "node5" in one.nodes]
            held = sum(abs(effect.cost - log1p(percent / 100)) <= effect.half for effect in effects)
            typical = median([expm1(effect.cost) for effect in effects] or [0])
            print(f"{part or 'all rows'} {percent} %: named in {len(effects)} of {seeds}, interval holds it in {held},"
                  f" {typical:.1%} in the middle", flush=True)  # fmt: skip


def _small_fleet(rows: Sequence[Row], caches: tuple[Cache, ...], seed: int, part: str, cost: float) -> JudgedModel:
    chance = np.random.default_rng(seed)
    timed, rates = (np.array([*map(is_of, rows)]) for is_of in (is_in_time, is_rate))
    probes, of_probe = np.unique([row.probe for row in rows], return_inverse=True)
    costs = MACHINE_SD * chance.normal(size=SMALL) + PROBE_SD * chance.normal(size=(len(probes), SMALL))[of_probe]
    errors = np.array([np.hypot(row.error or 0, row.runs_sd) for row in rows])[:, None]
    costs = np.where(timed[:, None], costs, 0) + errors * chance.normal(size=costs.shape)
    halves = np.where([row.layouts >= LEAST_LAYOUTS for row in rows], halves_of(rows), np.nan)
    wide = np.repeat(halves[:, None], SMALL, 1).astype(np.float32)
    model = HardwareModel("", [f"node{at}" for at in range(SMALL)], rows, costs.astype(np.float32), wide, caches)
    model.values[timed & [part in ("", model.part(one)) for one in rows], 5] += np.float32(cost)
    model.values[rates] *= -1
    return judged_model(model)


def report(folder: Path) -> tuple[float, float, str]:
    """Returns seconds, MB and output of `toll fleet report`."""
    start = time.monotonic()
    words = [sys.executable, "-m", "tollmeter", "fleet", "report", str(folder), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # 3: machines are named
    return time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, done.stdout


def time_reports(run: str) -> None:
    for machines in SIZES:
        with tempfile.TemporaryDirectory() as scratch:
            ill = make(run, Path(scratch), machines, ROWS, machines // 100)
            seconds, memory, answer = report(Path(scratch))
            named = {name for line in json.loads(answer)["named"] for name in line["nodes"]}
            print(f"{machines:6} machines x {ROWS} rows: {seconds:5.1f} s, {memory:5.0f} MB; {len(named & {*ill})} of"
                  f" {len(ill)} ill machines are named, and {len(named - {*ill})} others", flush=True)  # fmt: skip


def main(words: list[str]) -> None:
    if words[:1] == ["planted"]:
        count_planted(words[1], *map(int, words[2:]))
    elif len(words) == 2:
        count_names(words[0], int(words[1]))
    elif len(words) > 2:
        print(*make(words[0], Path(words[1]), *map(int, words[2:])), sep="\n")
    elif words:
        time_reports(words[0])


if __name__ == "__main__":
    main(sys.argv[1:])
