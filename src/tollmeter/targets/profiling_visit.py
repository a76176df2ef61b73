# SPDX-License-Identifier: Apache-2.0
"""Makes one visit that is profiled instead of sampled: here by perf's CPU clock or a signal, under a user-mode emulator
by executed instructions."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import CacheModel, Failure
from tollmeter.targets.child import Child, Ended, leashed
from tollmeter.targets.local import native_command
from tollmeter.targets.qemu_user import emulator_here
from tollmeter.targets.temporary_folder import scratch

DISTANCES, MISSES = "distances.so", "misses.so"
"""Plugins in build/emulator that record the address of each access."""
LINE_BYTES = 64
ONE_IN = 2
"""Ratio of all cache lines to the observed ones. One in eight of the 512 lines of a first cache would be too few:
counts near its size would be random (docs/decisions/0024)."""
BESIDE_S, _TIMES = 30.0, 6
"""Limit of a profiled visit: these seconds, and this many times the requested time."""
_PAGE_BYTES, _LIMIT_S = 65536, 60.0

_until_s = [inf]


@contextlib.contextmanager
def ending_at(until_s: float) -> Iterator[None]:
    """Ends every process of this module at a time, while the block runs. until_s: monotonic seconds."""
    before, _until_s[0] = _until_s[0], until_s
    try:
        yield
    finally:
        _until_s[0] = before


def _finished(child: Child, limit_s: float) -> Ended:
    return child.finish(max(0.0, min(limit_s, _until_s[0] - time.monotonic())))


class ProfileRequest(NamedTuple):
    """A request for a profile. by_signal: without the kernel's sampler."""

    ms: int
    by_signal: bool = False

    def word(self) -> str:
        return f"{self.ms},signal" if self.by_signal else str(self.ms)


def profiled(target: str, command: Sequence[str], request: ProfileRequest, emulator: Path) -> Ended:
    """Makes a profiled visit and returns how it ended. Under an emulator, `written` has the executions by address,
    which `executions` reads. emulator: the folder build/emulator, with plugins. Raises Failure (6) if the target has no
    sampler, OSError if the visit is not started."""
    kind, _, place = target.partition(":")
    limit_s = BESIDE_S + _TIMES * request.ms / 1000
    if kind == "local":
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TOLL_PROFILE": request.word()}
        child = Child([*native_command(command[0]), *command[1:]], environment)
        return _finished(child, limit_s)
    if kind != "qemu-user":
        raise Failure(f"{target} has no sampler: only local and qemu-user have one", 6)
    return beside_counter(
        place, command, request.word(), plugin=f"{emulator}/profile.so", output="hits", limit_s=limit_s
    )


def executions(written: str) -> dict[int, int]:
    """Returns the executions by address that a profile's plugin wrote."""
    counted: Counter[int] = Counter()
    for line in written.splitlines():  # a block that was translated twice has two lines
        address, count = map(int, line.split())
        counted[address] += count
    return counted


def beside_counter(
    place: str, command: Sequence[str], request: str, *, plugin: str, output: str, limit_s: float
) -> Ended:
    """Runs a visit under the counter and a plugin that observes while the counter's gate is open. plugin: its path in
    build/emulator, and its arguments. output: the argument that names its file. Raises Failure."""
    program = emulator_here(place)
    held = scratch("toll-profile-")
    try:
        page, written = held.path / "page", held.path / "written"
        page.write_bytes(bytes(_PAGE_BYTES))
        counter = Path(plugin.partition(",")[0]).with_name("count.so")
        options = ["-plugin", f"{counter},counter={page}", "-plugin", f"{plugin},gate={page},{output}={written}"]
        options += ["-E", f"TOLL_CLOCK=instructions:{page}", "-E", f"TOLL_PROFILE={request}"]
        ended = _finished(Child(leashed([*program, *options, *command])), limit_s)
        return ended._replace(written=written.read_text(encoding="ascii")) if written.is_file() else ended
    finally:
        held.close()


# ---- addresses -------------------------------------------------------------------------------------------------------


def measure_distances(target: str, command: Sequence[str], ms: int, emulator: Path) -> Ended:
    """Makes a visit and returns how it ended; `written` has the stack distances of its loads (emulator/distances.c).
    ms: requested time. Raises Failure as `_observed`."""
    command = [*command, f"--deadline-ms={1000 * _LIMIT_S:.0f}"]
    return _observed(target, command, f"{ms}+distances", f"{emulator / DISTANCES},one_in={ONE_IN}")


def loads_of(written: str) -> Iterator[tuple[float, int, int]]:
    """Yields stack distances in bytes, each with the number of timed loads that a prefetcher could predict, and of the
    others."""
    for held, foreseen, others in (line.split() for line in written.splitlines()):
        yield LINE_BYTES * float(held), int(foreseen), int(others)


def model_misses(target: str, command: Sequence[str], ms: int, cache: CacheModel, emulator: Path) -> Ended:
    """Makes a visit and returns how it ended; `written` has the accesses, misses and flushes of a cache model
    (emulator/misses.c). ms: requested time. Raises Failure as `_observed`, and for empty output."""
    shape = f"bytes={cache.bytes},line={cache.line},ways={cache.ways}"
    visit = _observed(target, command, f"{ms}+misses", f"{emulator / MISSES},{shape}")
    if len(visit.written.split()) != 3:
        raise Failure(f"the model of a cache under {target} printed nothing", 6)
    return visit


def _observed(target: str, command: Sequence[str], request: str, plugin: str) -> Ended:
    """Returns the result of `beside_counter`. Raises Failure (6) if the target reports no addresses."""
    kind, _, place = target.partition(":")
    if kind != "qemu-user":
        raise Failure(f"{target} does not report addresses: qemu-user does", 6)
    return beside_counter(place, command, request, plugin=plugin, output="report", limit_s=_LIMIT_S)
