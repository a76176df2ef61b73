# SPDX-License-Identifier: Apache-2.0
"""Does a number come out the same tomorrow? The same points again and again, and changes of known size.

    bench/tomorrow.py collect FOLDER [RUNS [PAUSE_S]]   20 runs, 150 s apart: an hour and more
    bench/tomorrow.py judge FOLDER                      how often intervals hold, part, and find what was planted

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
from pathlib import Path

import numpy as np

from tollmeter.judgement.compare import of_rows
from tollmeter.judgement.opposed import opposed
from tollmeter.library.derive import learned, open_run
from tollmeter.model import Book, Row
from tollmeter.numbers.rows import Key, known_of, row_key, rows
from tollmeter.store.request import read_request

ROOT = Path(__file__).resolve().parents[1]
PLANTED = (0, 4, 8)
SOURCES = {**{str(planted): planted for planted in PLANTED}, "again": 0}
BLOCKS = (10, 30)
DRAWN = 100


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
    """The checkout with the planted probes."""
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
    points = [rows_of(path) for path in sorted(folder.glob("points-*"))]
    hold, pairs, parted = intervals(points)
    print(f"{len(points)} runs of {len(points[0])} rows")
    print(f"intervals that hold the median of all runs: {hold:.1%}; disjoint pairs: {parted} of {pairs}, "
          f"{parted / max(1, pairs):.2%}")  # fmt: skip
    for name, spread in ranges(points):
        print(f"  {name:<60} range {spread:.1%}")
    alarms, compared = false_alarms(points)
    print(f"A/A: {alarms} of {compared} rows called changed, in all pairs of runs")
    for runs in (1, 4):
        told(folder, runs)
    in_turns(folder / "turns")


def in_turns(path: Path) -> None:
    """How often each is told from none by so many layouts of one run, drawn anew each time."""
    book = open_run(path)
    known = known_of(book.outcomes, book.probes)
    layouts = list(dict.fromkeys(told.seed for told in book.outcomes))
    for size, pair in itertools.product(BLOCKS, read_request(path).pairs):
        chance, found = random.Random(size), Counter[str]()
        for _ in range(DRAWN):
            drawn = set(chance.sample(layouts, size))
            visits = [told for told in book.outcomes if told.seed in drawn]
            found.update(told.verdict for told in opposed(visits, {pair.point: pair.against}, book.probes, known))
        print(f"{pair.point.probe} against {pair.against.probe}, {size} of {len(layouts)} layouts: {dict(found)}")


def told(folder: Path, runs: int) -> None:
    """How often a planted change is found by so many runs of 7 s on either side, drawn anew each time."""
    chance = random.Random(runs)
    books = {planted: [open_run(path) for path in sorted(folder.glob(f"planted-{planted}-*"))] for planted in PLANTED}
    for planted in PLANTED:
        found = 0
        for _ in range(DRAWN):
            drawn = chance.sample(books[0], 2 * runs)
            old, new = drawn[:runs], drawn[runs:] if planted == 0 else chance.sample(books[planted], runs)
            found += is_slower(pooled(old), pooled(new))
        print(f"planted {planted / 4:g} %: found {found} times of {DRAWN}, {runs} runs of 7 s on either side")


def pooled(books: Sequence[Book]) -> Row:
    """The one row of several runs' visits, by what the machine's earlier runs had taught the latest."""
    outcomes = [told for book in books for told in book.outcomes]
    latest = max(books, key=lambda book: book.index.run.started)
    before = learned(read_request(Path(latest.index.run.folder)))
    (row,) = rows(outcomes, latest.probes, known_of(outcomes, latest.probes, before))
    return row


def rows_of(path: Path) -> dict[Key, Row]:
    rows = [row for row in open_run(path).index.rows if row.status == "ok" and row.unit != "ratio"]
    return {row_key(row): row for row in rows}


def intervals(runs: Sequence[dict[Key, Row]]) -> tuple[float, int, int]:
    held: list[bool] = []
    pairs = parted = 0
    for several in by_key(runs).values():
        middle = float(np.median([row.median for row in several]))
        held += [(row.low or 0) <= middle <= (row.high or 0) for row in several]
        for a, b in itertools.combinations(several, 2):
            pairs += 1
            parted += (a.high or 0) < (b.low or 0) or (b.high or 0) < (a.low or 0)
    return float(np.mean(held)), pairs, parted


def by_key(runs: Iterable[dict[Key, Row]]) -> dict[object, list[Row]]:
    """Rows in one state alone: a whole core and a shared one are no repetition of each other."""
    found: dict[object, list[Row]] = defaultdict(list)
    for run in runs:
        for key, row in run.items():
            found[key, row.state].append(row)
    return {key: rows for key, rows in found.items() if len(rows) > 2}


def ranges(runs: Sequence[dict[Key, Row]]) -> list[tuple[str, float]]:
    """Greatest over least median, less one."""
    made = []
    for several in by_key(runs).values():
        medians = [row.median or 0 for row in several]
        words = " ".join(f"{name}={value}" for name, value in several[0].parameters.items())
        made.append((f"{several[0].probe} {several[0].metric} {words} ({several[0].state}, {len(several)})",
                     max(medians) / min(medians) - 1))  # fmt: skip
    return sorted(made)


def false_alarms(runs: Sequence[dict[Key, Row]]) -> tuple[int, int]:
    alarms = compared = 0
    for a, b in itertools.combinations(runs, 2):
        changes = of_rows(a, b, None, 0.01).changes
        compared += len(changes)
        alarms += sum(change.verdict in ("faster", "slower", "differs") for change in changes)
    return alarms, compared


def is_slower(old: Row, new: Row) -> bool:
    key = row_key(old)
    changes = of_rows({key: old}, {key: new}, None, 0.002).changes
    return any(change.verdict == "slower" for change in changes)


def main() -> None:
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "collect":
        collect(folder, *(int(word) for word in [*sys.argv[3:], "20", "150"][:2]))
    else:
        judge(folder)


main()
