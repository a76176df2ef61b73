# SPDX-License-Identifier: Apache-2.0
"""How well `toll bill` predicts: programs that cross boundaries, each with a variant that is changed as the bill
advises.

    .venv/bin/python bench/bills.py [TURNS [ABI]]

Each line has the CPU time of the program, the sum of its items over this time, the saving that the bill predicts,
and the saving that interleaved runs of both programs show, with its interval. Last, for each program, the number of
turns in which the prediction is in this interval or within 15 % of its middle; the goal is 9 of 10."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tollmeter.bill.billed import billed, here
from tollmeter.bill.items import Bill
from tollmeter.root import ROOT
from tollmeter.targets.timer import Words
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import compiler_of

PAIRS = (
    ("bytes", "blocks", 200_000), ("forks", "vforks", 100), ("maps", "map_once", 20_000),
    ("stats", "stat_once", 50_000), ("seeks", "preads", 50_000), ("clocks", "nothing", 100_000),
    ("pings", "ping_blocks", 20_000), ("pings_on_one", "ping_blocks_on_one", 20_000), ("hands", "hand_blocks", 20_000),
)  # fmt: skip
BUDGET_S, NEAR = 4.0, 0.15


def main(turns: int, abi_name: str) -> None:
    abi = known_abis(ROOT)[abi_name]
    source = ROOT / "tests/faults/crossing.c"
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "crossing"))
        command = [*compiler_of(abi).split(), *abi.flags, "-O2", "-static", "-pthread", f"{source}", "-o", program]
        subprocess.run(command, check=True)
        agreed = Counter[str]()
        for _ in range(turns):
            for one, other, times in PAIRS:
                both = [Words(program, (program, mode, str(times))) for mode in (one, other)]
                first, second = billed(here(), both, BUDGET_S)
                assert isinstance(first.bill, Bill)
                predicted = first.savings[0].ns / 1e6 if first.savings else 0.0
                total = sum(item.ns or 0.0 for item in first.bill.items) / first.bill.cpu.value
                saved = second.saved
                assert saved
                print(f"{one:8} CPU {first.bill.cpu.value / 1e6:6.1f} ms  items {total:4.2f}", end="  ")
                print(f"predicted {predicted:6.1f} ms  saved {saved.value / 1e6:6.1f}", end=" ")
                print(f"({saved.low / 1e6:.1f} to {saved.high / 1e6:.1f}) ms", flush=True)
                is_near = abs(1e6 * predicted - saved.value) <= NEAR * abs(saved.value)
                agreed[one] += is_near or saved.low <= 1e6 * predicted <= saved.high
        print(", ".join(f"{one} {agreed[one]} of {turns}" for one, *_ in PAIRS))


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["1"])[0]), (sys.argv[2:] or ["x86_64"])[0])
