# SPDX-License-Identifier: Apache-2.0
"""One visit under an emulator whose plugin tells how far apart a program's loads of the same line lie
(emulator/distances.c)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Failure
from tollmeter.targets.child import Ended
from tollmeter.targets.held import scratch
from tollmeter.targets.profiling_visit import beside_counter

DISTANCES = "distances.so"
"""Of build/emulator."""

LINE_BYTES = 64
ONE_IN = 2
"""Lines of which one is looked at. Of the 512 lines of a first cache 64 would be too few: what lies near its size would
be told by chance (docs/decisions/0024)."""

_LIMIT_S = 60.0


class Apart(NamedTuple):
    """lines: by size in bytes, how many loads a prefetcher would have foreseen, and how many others, of all that was
    timed."""

    ended: Ended
    loads: tuple[tuple[float, int, int], ...]


def apart(target: str, command: Sequence[str], ms: int, emulator: Path) -> Apart:
    """emulator: build/emulator, with its plugins. Raises Failure where the place has none, or told nothing."""
    kind, _, place = target.partition(":")
    if kind != "qemu-user":
        raise Failure(f"{target} does not report addresses: qemu-user does", 6)
    deadline = f"--deadline-ms={1000 * _LIMIT_S:.0f}"
    held = scratch("toll-distances-")
    try:
        told = held.path / "told"
        plugin = f"{emulator / DISTANCES},gate={held.path / 'page'},told={told},one_in={ONE_IN}"
        ended = beside_counter(
            place, [*command, deadline], f"{ms}+distances", held.path / "page", plugin, limit_s=_LIMIT_S
        )
        lines = told.read_text(encoding="ascii").splitlines() if told.is_file() else []
        return Apart(ended, tuple(_loads(line) for line in lines))
    finally:
        held.close()


def _loads(line: str) -> tuple[float, int, int]:
    lines, foreseen, others = line.split()
    return LINE_BYTES * float(lines), int(foreseen), int(others)
