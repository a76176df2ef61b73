# SPDX-License-Identifier: Apache-2.0
"""One visit under an emulator whose plugin passes each address to a model of a cache (emulator/misses.c)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import CacheModel, Failure
from tollmeter.targets.child import Ended
from tollmeter.targets.profiling_visit import beside_counter
from tollmeter.targets.temporary_folder import scratch

MISSES = "misses.so"
"""Of build/emulator."""

_LIMIT_S = 60.0


class ModelledMisses(NamedTuple):
    """Of the timed part: lines that were fetched, and how often the cache was flushed."""

    ended: Ended
    misses: int
    flushes: int


def model_misses(target: str, command: Sequence[str], ms: int, cache: CacheModel, emulator: Path) -> ModelledMisses:
    """Runs one visit under the plugin. emulator: build/emulator, with its plugins. Raises Failure where the folder has
    none, or the plugin reported nothing."""
    kind, _, place = target.partition(":")
    if kind != "qemu-user":
        raise Failure(f"{target} does not report addresses: qemu-user does", 6)
    held = scratch("toll-misses-")
    try:
        output = held.path / "told"
        shape = f"bytes={cache.bytes},line={cache.line},ways={cache.ways}"
        plugin = f"{emulator / MISSES},gate={held.path / 'page'},told={output},{shape}"
        ended = beside_counter(place, command, f"{ms}+misses", held.path / "page", plugin, limit_s=_LIMIT_S)
        numbers = output.read_text(encoding="ascii").split() if output.is_file() else []
        if len(numbers) != 3:
            raise Failure(f"the model of a cache under {target} told nothing", 6)
        return ModelledMisses(ended, int(numbers[1]), int(numbers[2]))
    finally:
        held.close()
