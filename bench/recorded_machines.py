# SPDX-License-Identifier: Apache-2.0
"""Plans a run of memory.latency for recorded machines: `bench/recorded_machines.py FOLDER...`, each the root of a /sys
and a /proc, such as the recordings of util-linux (tests/ts/lscpu/dumps) and hwloc (tests/hwloc/linux), unpacked.

Prints a line for each: the CPU of the single worker and its kind, kinds of core, data caches and the source of each
size, and the sizes that the curve begins with and may grow to. Exit status 1 if a plan has no size beyond all
caches."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from tollmeter.catalog import Catalog, load_catalog, read_suite
from tollmeter.model import Machine, Suite
from tollmeter.model.topology import kind_of
from tollmeter.plan import make_plan, measured_caches
from tollmeter.protocol import head
from tollmeter.root import ROOT

ABI = os.uname().machine
BUILT = ROOT / "build" / ABI


def machine_of(root: Path) -> Machine | None:
    """Returns the machine record of a probe that reads this folder in place of the system; None if it names no CPU."""
    done = subprocess.run(
        [BUILT / "memory.latency", "--machine"], capture_output=True, timeout=60, check=True,
        env={**os.environ, "TOLL_SYSTEM_ROOT": str(root)},
    )  # fmt: skip
    machine = head(done.stdout).machine
    return machine if machine and machine.allowed_cpus else None


@cache
def _catalog() -> Catalog:
    return load_catalog(ROOT / "build", ABI, (ABI,))


@cache
def _suite() -> Suite:
    """Returns the memory curve of the default suite."""
    suite = read_suite(ROOT / "suites/default.toml")
    return replace(suite, select=tuple(one for one in suite.select if one.probe == "memory.latency"))


def line_of(root: Path, machine: Machine) -> tuple[str, bool]:
    """Returns the line, and whether the curve goes beyond every reported cache."""
    seen = measured_caches(machine, ())
    plan = make_plan(_suite(), _catalog(), seen, budget_seconds=100, seed=1)
    curve = plan.curves()[0]
    kinds = seen.topology.kinds if seen.topology else ()
    own = kind_of(seen.topology, plan.cpus[0])
    caches = [f"L{cache.level} {cache.size_bytes and cache.size_bytes >> 10} {cache.source}" for cache in seen.caches
              if cache.kind != "instruction"]  # fmt: skip
    last = max(seen.data_sizes().values(), default=0)
    named = ", ".join(f"{kind.name or kind.capacity} {kind.cpus}" for kind in kinds)
    words = (f"{root.name}: CPU {plan.cpus[0]} of {machine.cpus} ({own.name if own else '-'}); kinds: {named or '-'}; "
             f"{', '.join(caches) or 'no cache'}; {curve.begun[0]} .. {curve.begun[-1] >> 20} MiB, at most "
             f"{curve.grid[-1] >> 20} MiB")  # fmt: skip
    is_bounded = machine.memory_bytes and curve.begun[-1] > machine.memory_bytes // 8
    return words, curve.begun[-1] >= 4 * last or bool(is_bounded)


def main(folders: list[str]) -> int:
    short = planned = 0
    for folder in map(Path, folders):
        machine = machine_of(folder)
        if machine is None:
            print(f"{folder.name}: names no CPU that may be used")
            continue
        words, is_whole = line_of(folder, machine)
        planned, short = planned + 1, short + (not is_whole)
        print(words if is_whole else f"{words}: NOT BEYOND ITS CACHES")
    print(f"{planned} machines planned, {short} of them short of main memory")
    return 1 if short else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
