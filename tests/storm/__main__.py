# SPDX-License-Identifier: Apache-2.0
"""`make faults`: each storm in a process, two at a time, and a line of figures for each.

python -m storm --count 20 --seed 4711 --only kills --only pages"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from storm.ended import told

USUAL = 200
STORMS = {
    "kills": 350, "journals": 2000, "run_files": 10_000, "readers": 40_000, "denials": 368, "command_lines": 400,
    "pages": 100, "streams": 60,
}  # fmt: skip
"""How many of each, the longest first; where another number than the usual is asked for, the same part of all."""
_AT_ONCE = 2


def main() -> int:
    """Returns 0 where nothing went wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=USUAL, help=f"of {USUAL}: the part of all that is done")
    asked.add_argument("--seed", type=int, default=4711)
    asked.add_argument("--only", action="append", choices=STORMS, help="one storm, and not all")
    words = asked.parse_args()
    began = time.monotonic()
    counts = {name: max(1, STORMS[name] * words.count // USUAL) for name in words.only or STORMS}
    with tempfile.TemporaryDirectory(prefix="toll-lock.") as lock:
        os.environ["TOLL_LOCK"] = lock  # nobody who measures is kept waiting
        with ProcessPoolExecutor(_AT_ONCE, get_context("spawn")) as pool:
            done = [pool.submit(told, name, words.seed, count) for name, count in counts.items()]
            complaints = [complaint for each in done for complaint in each.result()]
    print(f"faults: {len(complaints)} wrong; seed {words.seed}, {time.monotonic() - began:.0f} s")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
