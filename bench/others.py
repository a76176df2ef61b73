# SPDX-License-Identifier: Apache-2.0
"""Compares the same pairs of runs by `toll compare`, benchstat, Welch's test (hyperfine's scripts) and `pyperf
compare_to`.

    .venv/bin/python bench/others.py BENCHSTAT PYPERF RUN RUN [RUN...]

BENCHSTAT, PYPERF: programs. Each run is compared with the one before it: first unchanged, then with every row of the
later one 3 % slower. All judge the same rows by the same visits, at their usual settings: times of at least three
visits in both runs. pyperf requires equal numbers of values, and gets the first ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.judgement.compare import NOT_CALLED_CHANGED, compare
from tollmeter.library.comparing import visit_values
from tollmeter.library.derive import open_run
from tollmeter.library.places import find_run
from tollmeter.maths.distributions import student_tails
from tollmeter.model import Index
from tollmeter.numbers.rows import Key, row_key

PLANTED, ALPHA = 1.03, 0.05
Visits = Mapping[Key, Sequence[float]]


class Run(NamedTuple):
    answer: Index
    visits: Visits

    def slower(self, factor: float) -> Run:
        rows = tuple(
            msgspec.structs.replace(row, median=row.median * factor, low=row.low * factor, high=row.high * factor)
            if row.median is not None and row.low is not None and row.high is not None
            else row
            for row in self.answer.rows
        )
        visits = {key: [factor * value for value in values] for key, values in self.visits.items()}
        return Run(msgspec.structs.replace(self.answer, rows=rows), visits)


def opened(name: str) -> Run:
    results = open_run(find_run(name))
    timed = (one for one in visit_values(results) if one.metric.unit == "ns" and one.scatter is not None)
    visits = {one.key(): one.values for one in timed if len(one.values) >= LEAST_VISITS and min(one.values) > 0}
    return Run(results.index, visits)


def ours(old: Run, new: Run, keys: Sequence[Key]) -> int:
    changes = compare(old.answer, new.answer).changes
    return sum(change.verdict not in NOT_CALLED_CHANGED for change in changes if row_key(change.old) in set(keys))


def welch(old: Run, new: Run, keys: Sequence[Key]) -> int:
    return sum(_welch_p(np.asarray(old.visits[key]), np.asarray(new.visits[key])) < ALPHA for key in keys)


def _welch_p(first: np.ndarray, second: np.ndarray) -> float:
    parts = [float(np.var(one, ddof=1)) / len(one) for one in (first, second)]
    if not sum(parts):
        return float(first[0] == second[0])
    freedom = sum(parts) ** 2 / sum(part**2 / (len(one) - 1) for part, one in zip(parts, (first, second), strict=True))
    return student_tails(freedom, float(np.mean(first) - np.mean(second)) / sum(parts) ** 0.5)


def benchstat(program: str) -> Callable[[Run, Run, Sequence[Key]], int]:
    def count(old: Run, new: Run, keys: Sequence[Key]) -> int:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("old", "new")]
            for file, run in zip(files, (old, new), strict=True):
                lines = (
                    f"BenchmarkRow{at} 1 {value} ns/op\n" for at, key in enumerate(keys) for value in run.visits[key]
                )
                file.write_text("".join(lines))
            printed = subprocess.run(
                [program, "-format=csv", *files], check=True, capture_output=True, text=True
            ).stdout
        return len(re.findall(r"^Row\d+.*,[+-][\d.]+%,p=", printed, re.MULTILINE))

    return count


def pyperf(program: str) -> Callable[[Run, Run, Sequence[Key]], int]:
    def count(old: Run, new: Run, keys: Sequence[Key]) -> int:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("old.json", "new.json")]
            for file, run in zip(files, (old, new), strict=True):
                several = [
                    {"metadata": {"name": f"row{at}"}, "runs": [{"values": [value * 1e-9]} for value in values]}
                    for at, key in enumerate(keys)
                    if (values := run.visits[key][: min(len(old.visits[key]), len(new.visits[key]))])
                ]
                file.write_text(json.dumps({"version": "1.0", "metadata": {"unit": "second"}, "benchmarks": several}))
            printed = subprocess.run(
                [program, "compare_to", "-v", *files], check=True, capture_output=True, text=True
            ).stdout
        return len(re.findall(r"^Significant", printed, re.MULTILINE))

    return count


def main(words: Sequence[str]) -> None:
    if len(words) < 4:
        print(__doc__)
        return
    tools = {"toll compare": ours, "benchstat": benchstat(words[0]), "hyperfine": welch, "pyperf": pyperf(words[1])}
    changed: dict[float, Counter[str]] = {1.0: Counter(), PLANTED: Counter()}
    judged = 0
    for old, new in pairwise(map(opened, words[2:])):
        keys = sorted(old.visits.keys() & new.visits.keys())
        judged += len(keys)
        for factor, found in changed.items():
            found.update({name: count(old, new.slower(factor), keys) for name, count in tools.items()})
    for name in tools:
        shares = ", ".join(f"{found[name]} ({found[name] / judged:.1%})" for found in changed.values())
        print(f"{name}: of {judged} rows changed, as they are and {PLANTED - 1:.0%} slower: {shares}")


if __name__ == "__main__":
    main(sys.argv[1:])
