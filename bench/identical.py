# SPDX-License-Identifier: Apache-2.0
"""The difference that `toll time` finds between two commands, identical or with a planted difference, and its verdicts.

    .venv/bin/python bench/identical.py [--times 20] [--runs N] [--beside HYPERFINE] [COMMAND [OTHER]]
    .venv/bin/python bench/identical.py --precision 0.02 --budget 60 \
        'mawk "BEGIN{for(;i<500000;i++);}"' 'mawk "BEGIN{for(;i<510000;i++);}"'

With --beside, also the ratio of the medians by `toll time` and by `HYPERFINE -N`, run one after the other in each
turn: the time that each adds to a command."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from math import exp, log
from pathlib import Path

import numpy as np

from tollmeter.library.derive import open_run
from tollmeter.library.options import TimeOptions
from tollmeter.library.timed import BUDGET_S, ratios
from tollmeter.model import PRECISION
from tollmeter.report.timed import TIME, gauges_of, pair_verdict


def medians(folder: Path, command: str) -> float:
    return float(np.median([*gauges_of(open_run(folder).outcomes, command, TIME)]))


def of_hyperfine(program: str, command: str, runs: int, folder: Path) -> float:
    words = [program, "-N", "--style=none", f"--runs={runs}", f"--export-json={folder / 'results.json'}", command]
    subprocess.run(words, check=True, capture_output=True)
    return float(json.loads((folder / "results.json").read_text())["results"][0]["median"]) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", nargs="?", default="true")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--precision", type=float, default=PRECISION)
    parser.add_argument("--budget", type=float, default=BUDGET_S)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--beside", default="")
    asked = parser.parse_args()
    texts = [asked.command, asked.other or asked.command]
    verdicts: Counter[str] = Counter()
    logs, beside = [], []
    for turn in range(asked.times):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "run"
            options = TimeOptions(runs=asked.runs, out=folder, precision=asked.precision, budget_s=asked.budget)
            for pair in ratios(texts, options):
                verdicts[pair_verdict(pair, asked.precision, asked.budget, 1.0).partition(":")[0]] += 1
                logs.append(log(pair.ratio))
            if asked.beside:
                theirs = of_hyperfine(asked.beside, asked.command, asked.runs or 1000, Path(name))
                beside.append(log(medians(folder, asked.command) / theirs))
        said = ", ".join(f"{text} {count}" for text, count in verdicts.most_common())
        error = 1.96 * float(np.std(logs)) / len(logs) ** 0.5
        line = f"{turn + 1}: {said}; mean difference {100 * float(np.mean(logs)):+.3f} % (±{100 * error:.3f} %)"
        print(line + (f"; over hyperfine's {exp(float(np.median(beside))):.3f}" if beside else ""), flush=True)


if __name__ == "__main__":
    main()
