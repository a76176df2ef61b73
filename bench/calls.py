# SPDX-License-Identifier: Apache-2.0
"""Makes 100,000 calls over every channel, between every two ends, on every placement. Each answer is compared, and none
may be lost. Prints a line for each combination; exit status 1 if one failed.

    .venv/bin/python bench/calls.py [ABI] [NAME=VALUE...]
"""

from __future__ import annotations

import itertools
import platform
import subprocess
import sys
from pathlib import Path

from tollmeter.model import Outcome
from tollmeter.protocol import description, outcome

ROOT = Path(__file__).resolve().parents[1]
CALLS = 100_000
SAMPLES, SAMPLE_NS = 10, 20_000_000
BATCHES = 3
"""Iterations of a sample in multiples of n: a batch of n calls and one of 2n."""
DEADLINE_S = 60


def asked(executable: Path, point: dict[str, str]) -> Outcome:
    options = [f"--samples={SAMPLES}", f"--sample-ns={SAMPLE_NS}", f"--deadline-ms={1000 * DEADLINE_S}"]
    words = [str(executable), *options, *(f"{name}={value}" for name, value in point.items())]
    done = subprocess.run(words, capture_output=True, check=True, timeout=2 * DEADLINE_S)
    return outcome(done.stdout)


def told(executable: Path, point: dict[str, str]) -> tuple[str, bool]:
    """Returns a line about one combination, and whether no call was lost or wrong. Makes visits until there are CALLS
    calls."""
    name, calls, took_ns = " ".join(point.values()), 0, 0.0
    while calls < CALLS:
        done = asked(executable, point)
        if done.status != "ok":
            return f"{name:40} {done.status}: {done.reason}", done.status == "unsupported"
        calls += sum(BATCHES * sample.iterations for sample in done.samples)
        took_ns += sum(sum(sample.body) for sample in done.samples)
    return f"{name:40} {calls:9} calls, {took_ns / calls:10.1f} ns each", True


def main() -> int:
    fixed = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    abi = next((word for word in sys.argv[1:] if "=" not in word), platform.machine())
    executable = ROOT / "build" / abi / "kernel.call_object"
    described = subprocess.run([executable, "--describe"], capture_output=True, check=True)
    axes = {
        axis.name: axis.choices if axis.name not in fixed else (fixed[axis.name],)
        for axis in description(described.stdout)[0].parameters
    }
    failed = 0
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        line, whole = told(executable, point)
        failed += not whole
        print(line, flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
