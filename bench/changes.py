# SPDX-License-Identifier: Apache-2.0
"""How well `toll history` finds changes: in modelled series of 20 to 100 runs with intervals; and its time for many
runs.

bench/changes.py                   false changes per 100 series, and the share of steps found, with seeds of its own
bench/changes.py FIRST_SEED COUNT  the same with other seeds
bench/changes.py RUN RUNS          seconds of `toll history` over that many copies of a run
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tollmeter.library.derive import open_index
from tollmeter.maths.fits import change_points

Array = NDArray[np.float64]
FIRST_SEED, COUNT = 1_000_000, 1000
NEAR = 2
EDGE = 3
"""Fewest runs on each side of a step: fewer runs are no level."""


def wandering(chance: np.random.Generator, count: int) -> Array:
    """Returns a series in which neighbouring runs have a correlation of 0.5."""
    values = chance.standard_normal(count)
    for place in range(1, count):
        values[place] = 0.5 * values[place - 1] + 0.75**0.5 * values[place]
    return values


def outliers(chance: np.random.Generator, count: int) -> Array:
    off = chance.choice([-1, 1], count) * chance.uniform(5, 40, count)
    return chance.standard_normal(count) + np.where(chance.random(count) < 0.05, off, 0.0)


def two_modes(share: float) -> Callable[[np.random.Generator, int], Array]:
    return lambda chance, count: chance.standard_normal(count) + 8 * (chance.random(count) < share)


def drift(chance: np.random.Generator, count: int) -> Array:
    return chance.standard_normal(count) + np.linspace(0, 5, count)


NOISE: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "as wide as the intervals": lambda chance, count: chance.standard_normal(count),
    "half as wide": lambda chance, count: 0.5 * chance.standard_normal(count),
    "twice as wide": lambda chance, count: 2 * chance.standard_normal(count),
    "long tails (Student's t, 3)": lambda chance, count: chance.standard_t(3, count),
    "outliers in 5 % of runs": outliers,
    "bimodal, 15 % in the second": two_modes(0.15),
    "bimodal, 40 % in the second": two_modes(0.4),
    "correlation 0.5 of neighbours": wandering,
    "drift of 5 sigma (it changes)": drift,
}


def modelled(seed: int, noise: Callable[[np.random.Generator, int], Array]) -> tuple[Array, Array, np.random.Generator]:
    """Returns values, their standard errors, which differ between runs, and the random generator."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(20, 101))
    errors = np.exp(chance.normal(0, 0.3, count))
    return noise(chance, count) * errors, errors, chance


def found(values: Array, errors: Array) -> list[int]:
    return change_points(values.tolist(), errors.tolist())


def false_changes(first: int, count: int) -> None:
    for name, noise in NOISE.items():
        several = [found(*modelled(first + number, noise)[:2]) for number in range(count)]
        changed = sum(map(bool, several)) / count
        print(f"{name:32} {100 * changed:5.1f} of 100 series change, {sum(map(len, several)) / count:.2f} each")


def steps(first: int, count: int) -> None:
    """Prints, for steps of several heights, how often a step is found at its position, and how often within 2, 3 and 5
    runs after it."""
    for sigma in (2, 3, 5, 10):
        near, after = 0, []
        for number in range(count):
            values, errors, chance = modelled(first + number, NOISE["as wide as the intervals"])
            at = int(chance.integers(EDGE, len(values) - EDGE))
            values += sigma * errors.mean() * (np.arange(len(values)) >= at)
            near += any(abs(place - at) <= NEAR for place in found(values, errors))
            after.append(_runs_until_seen(values, errors, at))
        later = ", ".join(f"{100 * sum(runs <= most for runs in after) / count:.0f}" for most in (2, 3, 5))
        print(f"step of {sigma:2} sigma: {100 * near / count:5.1f} of 100 within {NEAR} runs; after 2, 3, 5: {later}")


def _runs_until_seen(values: Array, errors: Array, at: int) -> int:
    for runs in range(1, 6):
        seen = found(values[: at + runs], errors[: at + runs])
        if any(abs(place - at) <= NEAR for place in seen):
            return runs
    return 6


def seconds(run: Path, runs: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(run, Path(scratch, "run-000"))
        open_index(Path(scratch, "run-000"))
        for number in range(1, runs):
            shutil.copytree(Path(scratch, "run-000"), Path(scratch, f"run-{number:03}"))
        for words in ([], ["kernel.enter_syscall"]):
            command = [sys.executable, "-m", "tollmeter", "history", *words, "--folders", scratch]
            begun_s, begun_cpu_s = time.perf_counter(), _cpu_seconds()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            took_s, cpu_s = time.perf_counter() - begun_s, _cpu_seconds() - begun_cpu_s
            print(f"{runs} runs, toll history {' '.join(words):24} {took_s:.1f} s, {cpu_s:.1f} s of CPU")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(words: Sequence[str]) -> None:
    if words and Path(words[0]).is_dir():
        seconds(Path(words[0]), int(words[1]))
        return
    first, count = (int(words[0]), int(words[1])) if words else (FIRST_SEED, COUNT)
    false_changes(first, count)
    steps(first, count)


if __name__ == "__main__":
    main(sys.argv[1:])
