# SPDX-License-Identifier: Apache-2.0
"""How often the levels of modelled machines are found as they are, from the rows of a default run: `make models`.

Two generators, `first` (random_machines.py) and `second` (other_machines.py). Rules and thresholds are chosen on seeds
0 to 99; seeds from 1000 on judge them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from math import log
from multiprocessing import Pool
from typing import NamedTuple

from model.measured import Noise, capacity_rows, described, description, latency_rows
from model.other_machines import as_unknown, other_capacity_rows, other_machine, other_rows, told_of
from model.random_machines import random_machine
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import Level, Row
from tollmeter.model import Machine as Description

GENERATORS = ("first", "second")
EXACT, NEAR = 0.05, 0.1
OF_A_FEW = {"no false level": 0.8, "L1 within one way": 0.8, "intervals hold": 0.7}
"""Least rates of the tests' few machines: as low as chance makes them."""


class Truth(NamedTuple):
    """sizes: what each cache serves. neighbours: whether other cores use the last one; its size is then not known."""

    sizes: tuple[float, ...]
    way_bytes: float
    huge_pages: bool
    neighbours: bool = False


class Case(NamedTuple):
    truth: Truth
    rows: list[Row]
    told: Description


def first(seed: int) -> Case:
    """Every other machine is an awkward one."""
    machine = random_machine(seed, awkward=seed % 2 == 1)
    sizes = tuple(float(cache.size_bytes) for cache in machine.caches)
    of_pages = machine.huge_pages and machine.huge_run > 1
    truth = Truth(sizes, sizes[0] / machine.caches[0].ways, of_pages)
    return Case(truth, latency_rows(machine, Noise(machine)) + capacity_rows(machine), description(machine, told=False))


def second(seed: int) -> Case:
    machine = other_machine(seed)
    truth = Truth(
        machine.served(), machine.caches[0].size_bytes / machine.caches[0].ways, machine.huge_pages, machine.foreign > 0
    )
    return Case(truth, other_rows(machine) + other_capacity_rows(machine), as_unknown(told_of(machine)))


def judged(truth: Truth, levels: Sequence[Level]) -> dict[str, bool]:
    """Each question that this machine can answer, and whether the answer is right."""
    found = [level for level in levels if level.size_bytes]
    answers = {"no false level": len(found) <= len(truth.sizes), "as many levels": len(found) == len(truth.sizes)}
    known = truth.sizes[:-1] if truth.neighbours else truth.sizes
    for place, size in enumerate(known):
        name = ("L1", "L2", "L3")[place]
        value, low, high = _size(found[place]) if place < len(found) else (0.0, 0.0, 0.0)
        answers[f"{name} size within 10 %"] = bool(value) and abs(log(value / size)) < NEAR
        if value:
            answers[f"{name} interval holds"] = low <= size <= high
        if place == 0:
            answers["L1 within one way"] = abs(value - size) <= truth.way_bytes
        if place == 1 and truth.huge_pages:
            answers["L2 within 5 % (huge pages)"] = bool(value) and abs(log(value / size)) < EXACT
    return answers


def _size(level: Level) -> tuple[float, float, float]:
    return level.size_bytes or 0.0, level.size_low or 0.0, level.size_high or 0.0


def answers_of(generator: str, seed: int) -> tuple[int, dict[str, bool], str]:
    case = {"first": first, "second": second}[generator](seed)
    levels = hierarchy(case.rows, described(), case.told)
    sizes = ", ".join(f"{size / 1024:.0f}" for size in case.truth.sizes)
    said = ", ".join(
        "{1:.0f}<{0:.0f}<{2:.0f}".format(*(size / 1024 for size in _size(one))) for one in levels if one.size_bytes
    )
    return seed, judged(case.truth, levels), f"{sizes} KiB, said {said}"


def rates(seen: Iterable[dict[str, bool]]) -> dict[str, tuple[int, int]]:
    """Of each question: how often right, of how many; intervals of all levels together last."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for answers in seen:
        for name, holds in answers.items():
            names = [name, "intervals hold"] if "interval" in name else [name]
            for one in names:
                asked[one] += 1
                right[one] += holds
    return {name: (right[name], asked[name]) for name in sorted(asked)}


def wrong_of_a_few(generator: str, seeds: Iterable[int]) -> list[str]:
    """Questions that are answered less often than OF_A_FEW, and how often."""
    found = rates(answers_of(generator, seed)[1] for seed in seeds)
    counts = {name: found[name] for name in OF_A_FEW}
    return [f"{name}: {good} of {all_}" for name, (good, all_) in counts.items() if good < OF_A_FEW[name] * all_]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("generator", choices=GENERATORS)
    words.add_argument("--seeds", default="1000-1099")
    words.add_argument("--processes", type=int, default=2)
    words.add_argument("--wrong", action="store_true", help="what is wrong of each machine")
    asked = words.parse_args()
    begin, end = map(int, asked.seeds.split("-"))
    with Pool(asked.processes) as pool:
        seen = list(pool.imap_unordered(partial(answers_of, asked.generator), range(begin, end + 1)))
    for seed, answers, said in sorted(seen) if asked.wrong else ():
        wrong = [name for name, holds in answers.items() if not holds]
        print(f"  {seed}: {said}: {'; '.join(wrong) or 'all right'}")
    print(f"{asked.generator}, seeds {asked.seeds}")
    for name, (good, count) in rates(answers for _, answers, _ in seen).items():
        print(f"  {name:30} {good:4} of {count:4}  {good / count:.0%}")


if __name__ == "__main__":
    main()
