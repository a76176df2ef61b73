# SPDX-License-Identifier: Apache-2.0
"""Does a number come out the same tomorrow? The same points again and again, and changes of known size.

    bench/tomorrow.py collect FOLDER [RUNS [PAUSE_S]]   20 runs, 150 s apart: an hour and more
    bench/tomorrow.py judge FOLDER                      how often intervals hold, part, and find what was planted
    bench/tomorrow.py repeat FOLDER [RUNS [BUDGET_S]]   20 runs of the default suite, as they are
    bench/tomorrow.py rows FOLDER                       of any folder of runs: how often the intervals of all rows hold
                                                        and part, and how many rows tollmeter.compare calls changed
    bench/tomorrow.py usual FOLDER...                   by how much the runs in each folder differ, by probe, as
                                                        experiment/precision.py ships it

Collecting copies the checkout, adds probes with 0, 4 and 8 additions planted in 400 cycles (bench/planted.c: no
change, 1 % and 2 %) and a second one with none, and measures bench/tomorrow.toml and these in turn; at the end all of
them against none, in turns within one run. Judging derives all rows anew from the journals, so that a change of the
analysis can be judged on yesterday's runs.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import exp, log
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.recorded_runs import run_folders

import tollmeter
from tollmeter.experiment.precision import shamos_sd
from tollmeter.experiment.runs_differ import runs_sd
from tollmeter.judgement.compare import of_rows
from tollmeter.judgement.opposed import opposed
from tollmeter.judgement.verdict import has_interval
from tollmeter.library.derive import learned, open_run, remembered
from tollmeter.model import Results, Row
from tollmeter.numbers.readings import RATES
from tollmeter.numbers.rows import known_of, row_key, rows
from tollmeter.store.request import read_request

ROOT = Path(__file__).resolve().parents[1]
PLANTED = (0, 4, 8)
SOURCES = {**{str(planted): planted for planted in PLANTED}, "again": 0}
BLOCKS = (10, 30)
DRAWN = 100
SHOWN = 20


# ---- collecting -------------------------------------------------------------------------------------------------


def collect(folder: Path, runs: int, pause_s: float) -> None:
    tree = copied(folder / "tree")
    for number in range(runs):
        measured(tree, folder / f"points-{number}", "bench/tomorrow.toml", "--budget", "12s", "--precision", "1%")
        for planted in PLANTED:
            words = (f"bench.planted_{planted}", "--budget", "7s", "--precision", "0.1%")
            measured(tree, folder / f"planted-{planted}-{number}", *words)
        time.sleep(pause_s)
    against = ("bench.planted_4", "bench.planted_again", "--against", "bench.planted_0")
    measured(tree, folder / "turns", *against, "--budget", "100s", "--precision", "0.0001%")


def copied(tree: Path) -> Path:
    """Copies the checkout, adds the planted probes, and returns the copy's folder."""
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    (tree / "probes/bench").mkdir(exist_ok=True)
    for name, planted in SOURCES.items():
        source = f'#define PLANTED {planted}\n#include "../../bench/planted.c"\n'
        (tree / f"probes/bench/planted_{name}.c").write_text(source, encoding="utf-8")
    return tree


def measured(tree: Path, out: Path, *words: str) -> None:
    subprocess.run([tree / "toll", "run", *words, "--out", out, "--quiet"], check=False, stdout=subprocess.DEVNULL)


# ---- judging ----------------------------------------------------------------------------------------------------


def judge(folder: Path) -> None:
    judge_rows(sorted(folder.glob("points-*")))
    for runs in (1, 4):
        count_found(folder, runs)
    in_turns(folder / "turns")


class Judged(NamedTuple):
    """A judgement of all rows with a number and an interval that at least three runs have in one state. half: of the
    median interval, as a share. held: intervals that contain the median of all runs, and all intervals. parted:
    disjoint pairs of intervals, and all pairs. changed: rows that tollmeter.compare calls changed in all pairs of runs,
    and all rows."""

    half: float
    held: tuple[int, int]
    parted: tuple[int, int]
    changed: tuple[int, int]


def judged(runs: Sequence[tollmeter.Run]) -> Judged:
    seen = [views(several) for several in by_key(runs).values()]
    held = [low <= middle(ends) <= high for ends in seen for low, _, high in ends]
    pairs = [pair for ends in seen for pair in itertools.combinations(ends, 2)]
    parted = sum(a[2] < b[0] or b[2] < a[0] for a, b in pairs)
    changes = [change for a, b in itertools.combinations(runs, 2) for change in tollmeter.compare(a, b).changes]
    changed = sum(change.verdict in ("faster", "slower", "differs") for change in changes)
    half = float(np.median([(high - low) / 2 for ends in seen for low, _, high in ends]))
    return Judged(half, (sum(held), len(held)), (parted, len(pairs)), (changed, len(changes)))


def judge_rows(folders: Sequence[Path]) -> None:
    runs = [tollmeter.open(path) for path in folders]
    found = judged(runs)
    (held, of_all), (parted, pairs), (changed, rows) = found[1:]
    print(f"{len(runs)} runs; half of the middle interval {found.half:.2%}")
    print(f"intervals that hold the median of all runs: {held} of {of_all}, {held / of_all:.1%}")
    print(f"disjoint pairs: {parted} of {pairs}, {parted / max(1, pairs):.2%}")
    print(f"called changed by tollmeter.compare: {changed} of {rows}, {changed / max(1, rows):.2%}")
    ranges = [(spread(views(several)), key) for key, several in by_key(runs).items()]
    for width, key in sorted(ranges, key=lambda one: -one[0])[:SHOWN]:
        print(f"  range {width:.1%}: {key}")


def views(several: Sequence[tuple[Row, float]]) -> list[tuple[float, float, float]]:
    """Returns the logarithms of low, median and high, in the view with less scatter: in the row's unit, or in
    cycles."""
    stated = [(log(row.low or 0), log(row.median or 0), log(row.high or 0)) for row, _ in several]
    unit = several[0][0].unit
    sign = 1 if unit == "ns" else -1 if unit in RATES else 0
    shifts = [sign * log(clock_hz) for _, clock_hz in several]
    cycles = [(low + by, median + by, high + by) for (low, median, high), by in zip(stated, shifts, strict=True)]
    return min(stated, cycles, key=lambda view: shamos_sd([ends[1] for ends in view]))


def middle(ends: Sequence[tuple[float, float, float]]) -> float:
    return float(np.median([median for _, median, _ in ends]))


def spread(ends: Sequence[tuple[float, float, float]]) -> float:
    medians = [median for _, median, _ in ends]
    return exp(max(medians) - min(medians)) - 1


def repeat(folder: Path, runs: int, budget_s: int) -> None:
    for number in range(runs):
        measured(ROOT, folder / f"default-{number:02}", "default", "--budget", f"{budget_s}s")


def usual(folders: Sequence[Path]) -> None:
    """Prints the largest between-run deviation of each probe over the folders, each of which holds runs of one
    machine."""
    found: dict[str, float] = {}
    for folder in folders:
        runs = [open_run(path) for path in run_folders(folder)]
        kept = [msgspec.structs.replace(remembered(run), place="here") for run in runs]
        for probe, sd in runs_sd(kept, {}).items():
            found[probe] = max(sd, found.get(probe, 0.0))
    for probe, sd in sorted(found.items()):
        print(f'    "{probe}": {sd:.4f},')


def in_turns(path: Path) -> None:
    """Prints how often each planted change is distinguished from no change by several numbers of layouts, drawn at
    random from one run."""
    results = open_run(path)
    known = known_of(results.outcomes, results.probes)
    layouts = list(dict.fromkeys(outcome.seed for outcome in results.outcomes))
    for size, pair in itertools.product(BLOCKS, read_request(path).pairs):
        rng, found = random.Random(size), Counter[str]()
        for _ in range(DRAWN):
            drawn = set(rng.sample(layouts, size))
            visits = [outcome for outcome in results.outcomes if outcome.seed in drawn]
            found.update(
                ratio.verdict for ratio in opposed(visits, [(pair.point, pair.against)], results.probes, known)
            )
        print(f"{pair.point.probe} against {pair.against.probe}, {size} of {len(layouts)} layouts: {dict(found)}")


def count_found(folder: Path, count: int) -> None:
    """Prints how often a planted change is found between two groups of runs of 7 s, drawn at random. count: runs in a
    group."""
    rng = random.Random(count)
    runs = {planted: [open_run(path) for path in sorted(folder.glob(f"planted-{planted}-*"))] for planted in PLANTED}
    for planted in PLANTED:
        found = 0
        for _ in range(DRAWN):
            drawn = rng.sample(runs[0], 2 * count)
            old, new = drawn[:count], drawn[count:] if planted == 0 else rng.sample(runs[planted], count)
            found += is_slower(pooled(old), pooled(new))
        print(f"planted {planted / 4:g} %: found {found} times of {DRAWN}, {count} runs of 7 s on either side")


def pooled(runs: Sequence[Results]) -> Row:
    """Returns the row of the visits of several runs together, with the knowledge that the latest run had of earlier
    runs."""
    outcomes = [outcome for results in runs for outcome in results.outcomes]
    latest = max(runs, key=lambda results: results.index.run.started)
    before = learned(read_request(Path(latest.index.run.folder)))
    (row,) = rows(outcomes, latest.probes, known_of(outcomes, latest.probes, before))
    return row


def by_key(runs: Iterable[tollmeter.Run]) -> dict[object, list[tuple[Row, float]]]:
    """Returns the rows with the core clock of their run, by row and state: two core states are no repetition of each
    other."""
    found: dict[object, list[tuple[Row, float]]] = defaultdict(list)
    for run in runs:
        for row in run.rows:
            if row.status == "ok" and has_interval(row) and row.unit != "ratio" and row.low and row.low > 0:
                found[row_key(row), row.state].append((row, run.machine.core_clock_hz or 1.0))
    return {key: rows for key, rows in found.items() if len(rows) > 2}


def is_slower(old: Row, new: Row) -> bool:
    key = row_key(old)
    changes = of_rows({key: old}, {key: new}, None, 0.002).changes
    return any(change.verdict == "slower" for change in changes)


def main() -> None:
    if len(sys.argv) < 3:
        print(__doc__)
        return
    verb, folder = sys.argv[1], Path(sys.argv[2])
    numbers = [int(word) for word in sys.argv[3:] if word.isdigit()]
    if verb == "collect":
        collect(folder, *[*numbers, 20, 150][:2])
    elif verb == "repeat":
        repeat(folder, *[*numbers, 20, 100][:2])
    elif verb == "usual":
        usual([Path(word) for word in sys.argv[2:]])
    elif verb == "rows":
        judge_rows(run_folders(folder))
    else:
        judge(folder)


if __name__ == "__main__":
    main()
