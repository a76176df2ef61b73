# SPDX-License-Identifier: Apache-2.0
"""Measures the time before a run: starts and builds, in seconds, on this machine.

Each is repeated; the shortest time is that of the work, and the longest shows the effect of a busy machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIALS = 5


def toll(*words: str) -> None:
    subprocess.run([ROOT / "toll", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def touched(name: str) -> None:
    os.utime(ROOT / name)
    toll("--set-up")


WAITS: dict[str, Callable[[], None]] = {
    "toll list probes, nothing stale": lambda: toll("list", "probes"),
    "build, nothing stale": lambda: toll("--set-up"),
    "build, one probe changed": lambda: touched("probes/kernel/loop.c"),
    "build, everything stale": lambda: touched("probes/runtime/toll.h"),
}


def seconds(wait: Callable[[], None]) -> float:
    begun = time.perf_counter()
    wait()
    return time.perf_counter() - begun


def main() -> None:
    toll("--set-up")
    for title, wait in WAITS.items():
        taken = sorted(seconds(wait) for _ in range(TRIALS))
        print(f"{title:34} {taken[0]:6.2f} .. {taken[-1]:6.2f} s")


if __name__ == "__main__":
    main()
