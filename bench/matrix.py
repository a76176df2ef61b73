# SPDX-License-Identifier: Apache-2.0
"""Measures the matrix of 128 CPUs on a machine of two. A folder describes 128 CPUs, and the probe's two threads run on
CPU 0 and CPU 1 whatever CPUs a visit names (bench/virtual_cpus.c). All 8,001 pairs are then the same pair, and 95 % of
the intervals must contain one value. The 128th CPU is the host's.

    bench/matrix.py [SECONDS]    `toll run memory.ping_pong method=flag`, in 70 s
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
CPUS = "sys/devices/system/cpu"
PROBE = "memory.ping_pong"
HALVES = ("0-63", "64-127")


def describe(root: Path) -> None:
    """Writes the description of two packages of 64 CPUs, with eight last-level caches each and two threads a core."""
    files = {f"{CPUS}/online": "0-127", f"{CPUS}/possible": "0-127",
             "proc/self/status": "Name:\tprobe\nCpus_allowed_list:\t0-127\nMems_allowed_list:\t0-1\n",
             "sys/devices/system/node/online": "0-1"}  # fmt: skip
    for node, cpus in enumerate(HALVES):
        files[f"sys/devices/system/node/node{node}/cpulist"] = cpus
        files[f"sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal: 268435456 kB"
    for cpu in range(128):
        folder, cache = f"{CPUS}/cpu{cpu}/topology", f"{CPUS}/cpu{cpu}/cache/index0"
        files[f"{folder}/package_cpus_list"] = HALVES[cpu // 64]
        files[f"{folder}/core_cpus_list"] = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        files |= {f"{cache}/type": "Unified", f"{cache}/level": "3", f"{cache}/size": "32768K"}
        files[f"{cache}/shared_cpu_list"] = f"{cpu // 8 * 8}-{cpu // 8 * 8 + 7}"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


def linked(folder: Path) -> Path:
    """Links the probe with virtual CPUs, and returns its path."""
    built, out = ROOT / "build" / platform.machine(), folder / PROBE
    objects = [*sorted((built / "obj/memory/ping_pong").glob("*.o")), built / "libtoll.a"]
    options = ["-O2", "-D_GNU_SOURCE", "-static", "-no-pie", "-Wl,--wrap=syscall", "-Wl,--wrap=sched_getcpu"]
    subprocess.run(["gcc", *options, ROOT / "bench/virtual_cpus.c", *objects, "-lpthread", "-o", out], check=True)
    return out


def measure(scratch: Path, seconds: str) -> None:
    os.environ["TOLL_SYSTEM_ROOT"] = str(scratch / "machine")
    from tollmeter.cli.run import answered
    from tollmeter.library.measure import measured, no_observers
    from tollmeter.library.options import Options
    from tollmeter.library.prepare import prepared

    began = time.monotonic()
    options = Options(
        words=(PROBE, "method=flag"), abi=platform.machine(), budget=f"{seconds}s", seed=1, cpus=None,
        out=scratch / "run", form="table", quiet=True, began=began, precision="5%",
    )  # fmt: skip
    ready, probe = prepared(options), linked(scratch)
    made = ready.catalog.executables[PROBE, platform.machine()]
    build = msgspec.structs.replace(made.build, sha256=hashlib.sha256(probe.read_bytes()).hexdigest())
    own = msgspec.structs.replace(made, path=str(probe), build=build)
    catalog = msgspec.structs.replace(ready.catalog, executables={(PROBE, platform.machine()): own})
    options = options._replace(began=time.monotonic())
    answered(lambda stopping: measured(ready._replace(catalog=catalog), options, no_observers, stopping), options)
    print(f"{time.monotonic() - options.began:.1f} s from the first visit to the page")


def figures(run: Path) -> None:
    from tollmeter.numbers.cpu_pairs import pair_numbers
    from tollmeter.store.journal import read_journal

    contents = read_journal(run)
    (probe,) = contents.head.probes
    numbers = pair_numbers(contents.outcomes, probe, probe.metrics[0])
    if not numbers:
        print("no pair has a number")
        return
    half = np.array([number.estimate.share_half_width() for number in numbers.values()])
    logs = np.log([number.estimate.value for number in numbers.values()])
    held = np.mean(np.abs(logs - np.median(logs)) <= np.log1p(half))
    visits, session = len(contents.outcomes), contents.session
    each_ms = 1000 * session.seconds / visits
    print(f"{session.status}: {visits:,} visits in {session.seconds:.1f} s, {each_ms:.2f} ms each")
    print(f"{len(numbers):,} pairs with {dict(Counter(number.visits for number in numbers.values()))} visits")
    print(
        f"within 5 %: {(half <= 0.05).sum():,}; half-width {np.median(half):.1%} in the median, {half.max():.1%} most"
    )
    print(f"intervals that contain the median of all: {held:.1%}")


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        describe(Path(scratch, "machine"))
        measure(Path(scratch), words[0] if words else "70")
        figures(Path(scratch, "run"))


if __name__ == "__main__":
    main(sys.argv[1:])
