# SPDX-License-Identifier: Apache-2.0
"""Real visits of real probes, kept short. What is judged is whether work was done and which of two is dearer."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import pytest

from support import runtime_objects
from support.waiting import LONG_S
from tollmeter.model import Abi, Outcome, Probe, Value, Witness
from tollmeter.protocol import description, find_lines, outcome
from tollmeter.toolchain.build import build_abi

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_NS = 200_000
SHORT = (f"--sample-ns={SAMPLE_NS}", f"--deadline-ms={1000 * LONG_S:.0f}")
"""A sample is short; what ends a visit that hangs is far from what a loaded machine takes for one."""
AT_A_TIME_NS = 10_000
"""Longer than any machine takes to send a line to another CPU and back, and shorter than a host's time slice."""
PATIENCE_S = float(os.environ.get("TOLL_TEST_PATIENCE_S", "0.3"))
"""Within which visits are repeated for an uncontended core. What failed is tried again with more:
tests/support/failed_again.py."""
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
COUNTED: dict[str, Value] = {"--iterations": 1}
"""Told of a point that was visited before: its work is not counted again, instruction by instruction for 60 ms."""


def cpus() -> list[int]:
    """A probe is pinned to the first, which is another one for the next worker of the tests."""
    allowed = sorted(os.sched_getaffinity(0))
    first = WORKER % len(allowed)
    return allowed[first:] + allowed[:first]


def options(samples: int) -> list[str]:
    return [f"--samples={samples}", *SHORT, f"--cpus={','.join(map(str, cpus()))}"]


def executable(abi: str, probe: str, root: Path = ROOT) -> Path:
    path = root / "build" / abi / probe
    assert path.is_file(), f"{path} is not built: `make probes`"
    return path


def describe(abi: str, probe: str) -> Probe:
    told = subprocess.run([executable(abi, probe), "--describe"], capture_output=True, check=True)
    return description(told.stdout)[0]


def visit(abi: str, probe: str, root: Path = ROOT, samples: int = 5, **parameters: Value) -> Outcome:
    words = [f"{name}={value}" for name, value in parameters.items()]
    done = subprocess.run([executable(abi, probe, root), *options(samples), *words], capture_output=True, check=False)
    assert done.returncode == 0, f"{probe} {words}: status {done.returncode}, {done.stderr.decode()}"
    return outcome(done.stdout)


def in_turns(*visited: Callable[..., Outcome], turns: int = 3) -> list[Outcome]:
    """The cheapest visit of each, taken in turns: a neighbour who comes for a second slows no one alone. It goes on for
    PATIENCE_S until the least of each was met twice on a core that was uncontended: what stands alone may still be a
    neighbour's, and one who stays on the sibling hyperthread slows this code by a third and that not at all."""
    told: list[list[Outcome]] = [[] for _ in visited]
    until_s = time.monotonic() + PATIENCE_S
    while len(told[0]) < turns or (time.monotonic() < until_s and not all(map(_is_met_again, told))):
        for mine, one in zip(told, visited, strict=True):
            mine.append(one(**COUNTED))
    return [min(mine, key=_rank) for mine in told]


def _rank(done: Outcome) -> tuple[bool, float]:
    """What has no number comes first: it is what the test is to see."""
    return (_is_contended(done), cost(done)) if done.status == "ok" else (False, 0.0)


def _is_met_again(told: Sequence[Outcome]) -> bool:
    (is_contended, least), (both, second) = sorted(map(_rank, told))[:2]
    return not is_contended and not both and second <= 1.02 * least


_widths = [0.0]
"""Independent additions a second around a sample: the most that these tests have seen comes first."""


def _is_contended(done: Outcome) -> bool:
    width = max((_width(sample.witness) for sample in done.samples), default=0.0)
    _widths[0] = max(_widths[0], width)
    return 0 < width < 0.93 * _widths[0]


def _width(seen: Witness) -> float:
    """Before and after a batch; 0 where it is unknown."""
    return min(seen.width_before_hz or 0.0, seen.width_hz or 0.0)


def visits(abi: str, probe: str, points: Iterable[Mapping[str, Value]], root: Path = ROOT) -> list[Outcome]:
    """One visit of one sample at each point, all from one start of the executable. The first counts its work."""
    asked = [{**point, **(COUNTED if place else {})} for place, point in enumerate(points)]
    lines = [" ".join([*options(1), *(f"{name}={value}" for name, value in one.items())]) for one in asked]
    done = subprocess.run([executable(abi, probe, root), "--visits"], input="\n".join([*lines, ""]).encode(),
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, f"{probe}: status {done.returncode}, {done.stderr.decode()}"
    streams = done.stdout.split(b'{"k":"visit"')[1:]
    assert len(streams) == len(lines)
    return [outcome(tuple(find_lines(b'{"k":"visit"' + stream))) for stream in streams]


def all_points(probe: Probe) -> list[dict[str, Value]]:
    """Every combination of the values and choices that a probe lists, ranges by their first value."""
    axes = [[(axis.name, value) for value in axis.choices or axis.values or (axis.start,)] for axis in probe.parameters]
    return [dict(point) for point in itertools.product(*axes)]


def asked_of(abi: str, points: Iterable[dict[str, Value]]) -> list[dict[str, Value]]:
    """Returns all points; of an ABI that differs from another by its C library alone, points that have each value of
    each axis."""
    if not abi.endswith("-musl"):
        return list(points)
    seen: set[tuple[str, Value]] = set()
    few = []
    for point in points:
        if not seen.issuperset(point.items()):
            few.append(point)
            seen.update(point.items())
    return few


def cost(done: Outcome) -> float:
    """The least time of one operation of the body, in ns: no interruption makes a batch shorter."""
    assert done.status == "ok", done.reason
    best = min(time / (sample.iterations * (k + 1)) for sample in done.samples for k, time in enumerate(sample.body))
    return best / (done.work.operations or 1)


def need_cpus_at_a_time(abi: str) -> None:
    """Skips the test if the host of a virtual machine does not run two of its CPUs at a time. A line then takes
    milliseconds to the other CPU and back, and work on one CPU delays none on the other."""
    done = visit(abi, "memory.ping_pong", method="flag")
    if median(sample.body[-1] / sample.iterations for sample in done.samples) > AT_A_TIME_NS:
        pytest.skip("the host of this machine does not run two of its CPUs at a time")


def control_cost(done: Outcome) -> float:
    assert done.status == "ok", done.reason
    controlled = [sample for sample in done.samples if sample.control]
    pairs = [(sample.control_iterations or sample.iterations, sample.control or ()) for sample in controlled]
    best = min(time / (n * (k + 1)) for n, control in pairs for k, time in enumerate(control))
    return best / (done.work.operations or 1)


def build_broken(tree: Path, abi: Abi, compiler: str, breaks: Iterable[tuple[str, str, str]]) -> None:
    """Builds probes in a tree of their own, each with one line changed: (file under probes/, old text, new text)."""
    for name in ("Makefile", "probes/probes.mk", "probes/libraries.toml"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(ROOT / "probes/runtime", tree / "probes/runtime")
    shutil.copytree(ROOT / "abis", tree / "abis")
    if (ROOT / "build/libraries").is_dir():
        (tree / "build").mkdir(exist_ok=True)
        (tree / "build/libraries").symlink_to(ROOT / "build/libraries")
    for name, old, new in breaks:
        changed = tree / "probes" / name
        source = (changed if changed.exists() else ROOT / "probes" / name).read_text(encoding="utf-8")
        assert old in source, f"{name} no longer says {old!r}"
        folder = (tree / "probes" / name).parent
        folder.mkdir(exist_ok=True)
        for header in (ROOT / "probes" / name).parent.glob("*.h"):
            if not (folder / header.name).exists():
                shutil.copy2(header, folder)
        changed.write_text(source.replace(old, new), encoding="utf-8")
    runtime_objects.lend(tree, abi.name)
    build_abi(tree, abi, compiler)
