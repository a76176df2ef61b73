# SPDX-License-Identifier: Apache-2.0
"""Compares the floating-point suite's times and repeatability with the promised ones.

Uses every target that this machine has: native execution, user-mode emulators, guests, bare boards. Missing ones are
named and left out. Times are wall time, including the effect of other activity on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.qemu_user import emulator_of
from tollmeter.targets.target import Target
from tollmeter.toolchain.abis import known_abis, open_here
from tollmeter.toolchain.build import build_abi, find_compiler

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ("float.distance", "float.dot", "float.fft", "float.fir")
WAYS = ("hardware", "emulated", "trapped")
ABIS = ("x86_64", "x86_64-musl", "ia32", "ia32-x87", "x32", "arm-soft", "arm-softfp", "arm-hard", "arm-fpa", "aarch64",
        "riscv64", "s390x")  # fmt: skip
IN_GUEST = {"guest:x32": "x32", "guest:vexpress-a9": "arm-soft", "bare:vexpress-a9": "arm-fpa"}
BUILT = "arm-soft"
TIMES = 5
SHORT = 16
"""Length of the vectors: the cost of an operation does not depend on it here, and trapped operations are slow."""


class Line(NamedTuple):
    what: str
    measured: str
    promised: str
    kept: bool


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def visit(target: Target, abi: str, probe: str, way: str = "emulated") -> Outcome:
    """Returns one visit as a run makes it, always with the same seed."""
    parameters = (("n", SHORT), ("precision", "double"), ("way", way))
    point = Point(probe=probe, abi=abi, target=target.name, parameters=parameters)
    asked = Visit(id=1, point=point, round=0, cpus=(0,), samples=3, sample_ns=100_000, seed=7, deadline_ms=15_000)
    return outcome(target.run(executable(abi, probe), asked, 1))


def executable(abi: str, probe: str) -> str:
    return str(ROOT / "build" / abi / probe)


# ---- the matrix -------------------------------------------------------------------------------------------------


def matrix(scratch: Path) -> Iterator[Line]:
    """Yields the time of every float probe in three ways, at one length, for all ABIs. The probes are built before.
    Points that the budget does not reach are counted."""
    words = [str(ROOT / "toll"), "run", "float.*", f"n={SHORT}", "--abi", ",".join(ABIS), "--budget", "3m"]
    subprocess.run([*words, "--dry-run"], capture_output=True, check=True)
    begun = time.perf_counter()
    asked = [*words, "--quiet", "--format", "json", "--out", str(scratch / "matrix")]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    taken = time.perf_counter() - begun
    rows = json.loads(done.stdout)["rows"]
    abis = {row["abi"] for row in rows if row["status"] == "ok"}
    unseen = sum(row["status"] in {"interrupted", "infrastructure", "timeout"} for row in rows)
    what = f"{len(abis)} ABIs, {len(rows)} rows, {unseen} not reached"
    yield Line(what, f"{taken:.0f} s", "12 ABIs, all reached, 180 s", taken <= 180 and not unseen and len(abis) >= 12)


# ---- guests -----------------------------------------------------------------------------------------------------


def guests() -> Iterator[Line]:
    for name, abi in IN_GUEST.items():
        if name not in BOARDS and name.split(":")[1] not in BOARDS:
            continue
        try:
            target = open_here(ROOT, name)
        except Failure as failure:
            yield Line(f"{name}: {failure.sentence}", "–", "–", True)
            continue
        yield from guest(target, abi)


def guest(target: Target, abi: str) -> Iterator[Line]:
    """Yields the time to boot, run each probe of the suite in each way, and end; then the spread of each visit when
    repeated in one boot."""
    place = target.name

    def lived() -> None:
        target.prepare([executable(abi, probe) for probe in KERNELS])
        for probe in KERNELS:
            for way in WAYS:
                visit(target, abi, probe, way)
        target.close()

    taken = seconds(lived)
    yield Line(f"{place} boots, runs {len(KERNELS)} probes of {abi}, is gone", f"{taken:.1f} s", "30 s", taken <= 30)
    again = open_here(ROOT, place)
    again.prepare([executable(abi, probe) for probe in KERNELS])
    for probe in KERNELS:
        for way in WAYS:
            yield from repeated(again, abi, probe, way)
    again.close()


def repeated(target: Target, abi: str, probe: str, way: str) -> Iterator[Line]:
    costs = [cost for _ in range(TIMES) if (cost := typical_ns(visit(target, abi, probe, way))) is not None]
    if len(costs) == TIMES:
        spread = max(costs) / min(costs) - 1
        what = f"{target.name}: {probe} of {abi}, {way}, {TIMES} times"
        yield Line(what, f"{spread * 100:.3f} %", "0.5 %", spread <= 0.005)


def typical_ns(told: Outcome) -> float | None:
    """Returns the ns of one iteration in the median sample; None if this way is not available."""
    costs = sorted((taken.body[1] - taken.body[0]) / taken.iterations for taken in told.samples)
    return costs[len(costs) // 2] if told.status == "ok" else None


# ---- counts -----------------------------------------------------------------------------------------------------


def counts() -> Iterator[Line]:
    """Yields for every ABI that a user-mode emulator runs the number of batches whose counts differ between two equal
    visits."""
    for abi in known_abis(ROOT).values():
        way = next((way for way in abi.runs if way.startswith("qemu-user:")), None)
        if way is None or not emulator_of(way.split(":")[1]) or not Path(executable(abi.name, KERNELS[0])).exists():
            continue
        target = open_here(ROOT, way)
        twice = [bodies(target, abi.name) for _ in range(2)]
        target.close()
        differ = sum(one != other for one, other in zip(*twice, strict=True))
        yield Line(f"{way} counts {abi.name} twice: {len(twice[0])} bodies", f"{differ} differ", "0 differ", not differ)


def bodies(target: Target, abi: str) -> list[tuple[str, str, tuple[int, int]]]:
    return [
        (probe, way, taken.body)
        for probe in KERNELS
        for way in WAYS
        for taken in visit(target, abi, probe, way).samples
    ]


# ---- builds -----------------------------------------------------------------------------------------------------


def builds(scratch: Path) -> Iterator[Line]:
    abi = known_abis(ROOT)[BUILT]
    compiler = find_compiler(abi)
    if not isinstance(compiler, str):
        yield Line(f"{BUILT}: {compiler.reason}", "–", "–", True)
        return
    tree = scratch / "tree"
    for part in ("probes", "abis", "emulator"):
        shutil.copytree(ROOT / part, tree / part)
    shutil.copy(ROOT / "Makefile", tree)
    whole = seconds(lambda: build_abi(tree, abi, compiler))
    made = len(list((tree / "build" / BUILT).glob("*.*")))
    yield Line(f"all probes for {BUILT}, {made} files, {os.cpu_count()} CPUs", f"{whole:.1f} s", "60 s", whole <= 60)
    os.utime(tree / "probes/float/dot.cc")
    changed = seconds(lambda: build_abi(tree, abi, compiler))
    yield Line(f"the same after one probe changed for {BUILT}", f"{changed:.2f} s", "2 s", changed <= 2)


def main() -> int:
    lines = []
    print(f"{'':68} {'measured':>10}  promised")
    with tempfile.TemporaryDirectory(prefix="toll-bench-") as scratch:
        for part in (matrix(Path(scratch)), guests(), counts(), builds(Path(scratch))):
            for line in part:
                lines.append(line)
                print(f"{line.what:68} {line.measured:>10}  {line.promised:<10} {'' if line.kept else '!'}", flush=True)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
