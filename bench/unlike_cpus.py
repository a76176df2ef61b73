# SPDX-License-Identifier: Apache-2.0
"""How often equal CPUs are named slow or contended, and how often a core that is 5 % slower is found.

    .venv/bin/python bench/unlike_cpus.py        8 minutes of one CPU

Models sweeps of three visits. CPUs scatter by 0.5 %, and visits of a CPU by 0.5 %, like the clock loop of a busy
guest of two CPUs; a share of the visits is delayed by 10 % in the mean."""

from __future__ import annotations

import numpy as np

from tollmeter.judgement.unlike_cpus import unlike_cpus
from tollmeter.numbers.each_cpu import EachCpu

LOOPS, BESIDES, VISITS = ("clock", "width", "second_cache", "memory", "copy"), ("nothing", "all"), 3
BETWEEN, NOISE, DRIFT, DELAY, SLOWER = 0.005, 0.005, 0.03, 0.1, 0.05
CPUS, MOST_SLOW = 4000, 150


def sweep(
    random: np.random.Generator, count: int, delayed: float, slower: float = 0.0
) -> dict[tuple[str, str], EachCpu]:
    """Returns the modelled costs of one sweep. slower: how much slower the first CPU's clock is, as a share."""
    costs = {}
    for point in ((loop, beside) for loop in LOOPS for beside in BESIDES):
        logs = random.normal(0, BETWEEN, count) + random.normal(0, NOISE, (VISITS, count))
        logs += random.normal(0, DRIFT, (VISITS, 1))
        logs += np.where(random.random((VISITS, count)) < delayed, random.exponential(DELAY, (VISITS, count)), 0)
        logs[:, 0] -= np.log(1 - (slower if point[0] != "memory" else 0))
        costs[point] = EachCpu(tuple(range(count)), logs)
    return costs


def main() -> None:
    for count in (2, 4, 8, 16, 64, 256):
        for delayed in (0.0, 0.05):
            random, machines = np.random.default_rng(count), max(12, CPUS // count)
            equal = [unlike_cpus(sweep(random, count, delayed), None) for _ in range(machines)]
            named = sum(len(slow) + len(contended) for slow, contended in equal)
            slower = range(min(machines, MOST_SLOW))
            planted = [unlike_cpus(sweep(random, count, delayed, SLOWER), None)[0] for _ in slower]
            found = sum(any(0 in one.cpus for one in slow) for slow in planted) / len(planted)
            words = f"{named} of {machines * count} named, the slow core found in {found:.1%}"
            print(f"{count} CPUs, {delayed:.0%} delayed: {words}")


if __name__ == "__main__":
    main()
