# SPDX-License-Identifier: Apache-2.0
"""`make faults`: kills, crafted journals, command lines and denied system calls, and one line of figures."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

from storm import command_lines, denials, journals, kills, readers

USUAL = 200
STORMS = {kills: 200, journals: 702, command_lines: 192, denials: 2500, readers: 100_000}
"""How many of each where the usual number of kills is asked for; of another number the same part."""


def main() -> int:
    """Returns 0 where nothing went wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=USUAL, help="kills; all else in proportion")
    asked.add_argument("--seed", type=int, default=4711)
    words = asked.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="toll-lock.") as lock:
        os.environ["TOLL_LOCK"] = lock  # nobody who measures is kept waiting
        tallies = [one.storm(words.seed, max(1, usual * words.count // USUAL)) for one, usual in STORMS.items()]
    for tally in tallies:
        for complaint in tally.complaints:
            print(f"{tally.title}: {complaint}")
    figures = "; ".join(tally.figures() for tally in tallies)
    print(f"faults: {figures}; seed {words.seed}, {time.monotonic() - began:.0f} s")
    return int(any(tally.complaints for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
