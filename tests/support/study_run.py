# SPDX-License-Identifier: Apache-2.0
"""A run of suite rtems-2005 made by hand: two profiles, the cost of each alternative, and the cost of a trap."""

from __future__ import annotations

from typing import Any

import msgspec

from support import example_runs
from support.builders import row
from tollmeter.catalog import read_suite
from tollmeter.library.places import SUITES
from tollmeter.model import Clock, Profile, Results, Row, Share, Value

PATH = "alignment.receive_path_"
HALVES, COPIED, SHIFTED, TRAP = 4000.0, 3200.0, 3000.0, 80.0
"""Costs in ns: a frame by each way with words-else-bytes, and a trap. A frame with libc's copy takes half."""
ALONE: dict[str, Value] = {"ends": "receiver"}


def profile(way: str, abi: str = "x86_64", target: str = "local", **hits: int) -> Profile:
    shares = tuple(Share(function=name, hits=count) for name, count in sorted(hits.items(), key=lambda one: -one[1]))
    values: dict[str, Value] = {"copy": "words_else_bytes", "checksum": "halfwords", "fault": "none", **ALONE}
    source = "perf's CPU clock" if target == "local" else "instructions"
    return Profile(probe=PATH + way, abi=abi, target=target, parameters=values, source=source, shares=shares)


def frame(way: str, copy: str, ns: float, checksum: str = "halfwords", **where: Any) -> Row:
    values: dict[str, Value] = {"copy": copy, "checksum": checksum, "fault": "none", **ALONE}
    return row(ns, of=PATH + way, name="frame", parameters=values, **where)


def frames(abi: str = "x86_64", target: str = "local", clock: Clock = "hardware") -> list[Row]:
    where = {"abi": abi, "target": target, "clock": clock}
    costs = {"halves": HALVES, "copy": COPIED, "shifted": SHIFTED}
    return [
        made
        for way, ns in costs.items()
        for made in (frame(way, "words_else_bytes", ns, **where), frame(way, "libc", ns / 2, **where))
    ]  # fmt: skip


def trap(ns: float = TRAP, **where: Any) -> Row:
    values: dict[str, Value] = {"width": 4, "offset": 1, "where": "in_line", "op": "trapped"}
    return row(ns, of="alignment.access", name="access", parameters=values, **where)


def mended(ns: float, **where: Any) -> Row:
    """Returns the row of a trap that the kernel handles and the program does not see."""
    return row(ns, of="alignment.fix_up", name="fix_up", parameters={"width": 4, "offset": 1}, **where)


def study() -> Results:
    """Returns the results of this machine, and of a MIPS whose instructions were counted."""
    results = example_runs.with_rows(
        example_runs.empty(), [*frames(), trap(), *frames("mipsel", "qemu-user:mipsel", "instructions")]
    )
    there = {"abi": "mipsel", "target": "qemu-user:mipsel"}
    profiles = (
        profile("halves", copy_words_else_bytes=550, sum_halfwords=250, tcp_input=200),
        profile("copy", copy_words_else_bytes=410, sum_halfwords=300, tcp_input=190, ipalign=100),
        profile("halves", **there, copy_words_else_bytes=700, tcp_input=300),
        profile("copy", **there, copy_words_else_bytes=400, tcp_input=500, ipalign=100),
    )
    index = msgspec.structs.replace(results.index, profiles=profiles)
    return msgspec.structs.replace(results, index=index, suite=read_suite(SUITES / "rtems-2005.toml"))
