# SPDX-License-Identifier: Apache-2.0
"""Prints the machine of a test run, its load, and the share of the time in which its core is contended. The argument is
printed: `before` or `after` the tests. It shows which failures may be due to other workloads."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def contended_share() -> str:
    """Returns the share of the time in which the core was contended, from a run of one probe for two seconds."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["kernel.function_call", "--budget", "2s", "--out", f"{folder}/run", "--format", "json"]
        done = subprocess.run([ROOT / "toll", "run", *words], capture_output=True, text=True, check=False, timeout=120)
    try:
        share = json.loads(done.stdout)["run"]["contended_share"]
    except (ValueError, KeyError):
        return "not measured"
    return "not measured" if share is None else f"{share:.0%} of the time"


if __name__ == "__main__":
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{sys.argv[1]}: {cpu_model()}, {os.cpu_count()} CPUs, load {load}, core contended {contended_share()}")
