# SPDX-License-Identifier: Apache-2.0
"""One visit under an emulator whose plugin measures the stack distances of a program's loads (emulator/distances.c)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Failure
from tollmeter.targets.child import Ended
from tollmeter.targets.profiling_visit import beside_counter
from tollmeter.targets.temporary_folder import scratch

DISTANCES = "distances.so"
"""Of build/emulator."""

LINE_BYTES = 64
ONE_IN = 2
"""One line in this many is observed. Of the 512 lines of a first cache 64 would be too few: counts near its size would
be random (docs/decisions/0024)."""

_LIMIT_S = 60.0


class MeasuredDistances(NamedTuple):
    """lines: by size in bytes, how many loads a prefetcher would have foreseen, and how many others, of all that was
    timed."""

    ended: Ended
    loads: tuple[tuple[float, int, int], ...]


def measure_distances(target: str, command: Sequence[str], ms: int, emulator: Path) -> MeasuredDistances:
    """Runs one visit under the plugin. emulator: build/emulator, with its plugins. Raises Failure where the folder has
    none, or the plugin reported nothing."""
    kind, _, place = target.partition(":")
    if kind != "qemu-user":
        raise Failure(f"{target} does not report addresses: qemu-user does", 6)
    deadline = f"--deadline-ms={1000 * _LIMIT_S:.0f}"
    held = scratch("toll-distances-")
    try:
        output = held.path / "told"
        plugin = f"{emulator / DISTANCES},gate={held.path / 'page'},told={output},one_in={ONE_IN}"
        ended = beside_counter(
            place, [*command, deadline], f"{ms}+distances", held.path / "page", plugin, limit_s=_LIMIT_S
        )
        lines = output.read_text(encoding="ascii").splitlines() if output.is_file() else []
        return MeasuredDistances(ended, tuple(_loads(line) for line in lines))
    finally:
        held.close()


def _loads(line: str) -> tuple[float, int, int]:
    lines, foreseen, others = line.split()
    return LINE_BYTES * float(lines), int(foreseen), int(others)
