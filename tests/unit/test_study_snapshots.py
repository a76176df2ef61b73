# SPDX-License-Identifier: Apache-2.0
"""What a study prints of its published figures, for rows that answer them, gaps and emulators: approved texts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pytest

from support import builders
from support.example_runs import healthy, with_rows
from support.rendered import on_console
from support.snapshots import approve, approve_variations
from tollmeter.model import Published, Results, Row, RowOf, Select, Suite
from tollmeter.report.terminal import print_study

PLACE: dict[str, int | str] = {"n": 1024, "precision": "float"}
DOT, DOT_32 = (RowOf(probe="float.dot", abi=abi, parameters=PLACE) for abi in ("x86_64", "ia32"))
ENTRY = RowOf(means="entry", abi="native")
WAYS = {way: RowOf(probe="float.fir", abi="arm-soft", parameters={"n": 64, "way": way}) for way in ("fpu", "emulated")}
CLAIMS = (
    Published(what="system call", figure="1.84 M/s", row=ENTRY, correction="On 64-bit only."),
    Published(what="system call, of any place", figure="x", row=RowOf(means="entry"), missing="Not asked for."),
    Published(what="system call, of this place", figure="x", row=msgspec.structs.replace(ENTRY, target="loc*")),
    Published(what="system call, of a board", figure="x", row=msgspec.structs.replace(ENTRY, target="bare:*")),
    Published(what="system call on ARM", figure="x", row=RowOf(means="entry", abi="arm-soft"), correction="ARM only."),
    Published(what="what has no row", figure="x", correction="Of another board."),
    Published(what="dot product", figure="10", row=DOT),
    Published(what="speed-up", figure="10 times", row=DOT, over=DOT_32),
    Published(what="serial line", figure="418 k/s", missing="No serial line is measured yet."),
    Published(
        what="line to another CPU", figure="27 ns", row=RowOf(means="core-to-core", parameters={"method": "swap"})
    ),
    Published(what="page faults", figure="?", row=RowOf(means="price-of-fault", abi="native")),
    *(Published(what=f"filter by {way}", figure="3", row=row) for way, row in WAYS.items()),
)
ASKED: dict[str, Any] = {"name": "old-paper", "question": "Does it hold here?", "select": (Select(probe="*"),)}
SUITE = Suite(**ASKED, source="A paper, 1999", published=CLAIMS)


@cache
def here() -> Results:
    return healthy()


def changed(probe: str, **values: object) -> list[Row]:
    """The rows of a probe with other values."""
    return [msgspec.structs.replace(row, **values) for row in here().index.rows if row.probe == probe]  # type: ignore[arg-type]


def instead(probe: str, rows: Iterable[Row]) -> Results:
    return with_rows(here(), [*(row for row in here().index.rows if row.probe != probe), *rows])


def also(rows: Iterable[Row]) -> Results:
    return with_rows(here(), [*here().index.rows, *rows])


def gap(probe: str, metric: str, reason: str, **values: int | str) -> Row:
    row = builders.row(None, of=probe, name=metric, status="unsupported", abi="arm-soft", parameters=values)
    return msgspec.structs.replace(row, reason=reason)


STOPPED = {"status": "interrupted", "reason": "the run was stopped", "median": None}
COUNTED = {"clock": "instructions", "target": "qemu-user:arm", "abi": "arm-soft", "unit": "instruction"}


def runs() -> dict[str, Results]:
    guest = changed("float.dot", target="guest:x32", clock="virtual")
    return {
        "without a number, the row's own reason stands before the claim's": instead(
            "kernel.enter_syscall", changed("kernel.enter_syscall", **STOPPED)
        ),
        "without a row, the claim says why": instead("kernel.enter_syscall", []),
        "a count of instructions answers no claim of a time": instead(
            "kernel.enter_syscall", changed("kernel.enter_syscall", **COUNTED)
        ),
        "of one way unsupported, nothing is said of the other": also(
            [gap("float.fir", "rate", "no FPU", n=16, way="fpu")]
        ),
        "a note goes only where its row has a number": also([gap("kernel.enter_syscall", "round_trip", "no kernel")]),
        "a line to another CPU without a number": instead("memory.ping_pong", changed("memory.ping_pong", **STOPPED)),
        "rates of a guest stand behind those of this place": also(guest),
        "rates of a guest alone": instead("float.dot", guest),
        "a ratio is of one clock in one place": instead(
            "float.dot", [row for row in guest if row.abi == "x86_64"]
            + [msgspec.structs.replace(row, target="guest:arm") for row in guest if row.abi == "ia32"],
        ),
    }  # fmt: skip


def printed(results: Results, width: int = 100) -> str:
    return on_console(lambda console: print_study(results, SUITE, console), width)


def test_a_study_and_what_other_runs_make_of_it() -> None:
    approve("study", printed(here()))
    approve_variations("study-variations", printed(here()), {title: printed(run) for title, run in runs().items()})


@pytest.mark.parametrize("width", [80, 100])
def test_a_study_fits(width: int) -> None:
    assert max(map(len, printed(here(), width).splitlines())) <= width
