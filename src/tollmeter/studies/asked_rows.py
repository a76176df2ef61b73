# SPDX-License-Identifier: Apache-2.0
"""Rows of a run that a study refers to, and why there are none."""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from tollmeter.model import Book, Row, RowOf
from tollmeter.model.topology import RELATION
from tollmeter.numbers.meanings import main_abi, metric_of

COUNTED, VIRTUAL = "instructions", "virtual"
NOT_TOGETHER = "No two of these rows were timed by one clock in one place."
_BLIND: dict[str, tuple[str, ...]] = {"": (COUNTED,), "instructions": ()}
"""Clocks that do not apply to what a claim is about; of the others, neither of an emulator's."""


def picked(book: Book, wanted: RowOf | None, about: str = "") -> list[Row]:
    """Rows with a number that match all that is asked; the ABI `native` is the machine's own. A study states times. A
    count of the program's instructions lacks the kernel's and the memory's share, so it is used only where the study
    accepts it. An emulator measures neither a cache nor the time of one machine."""
    blind = _BLIND.get(about, (COUNTED, VIRTUAL))
    rows = matching(book, wanted) if wanted is not None else []
    return [row for row in rows if row.status == "ok" and row.median is not None and row.clock not in blind]


def matching(book: Book, wanted: RowOf) -> list[Row]:
    """All rows that match, whatever their status and clock."""
    abi = main_abi(book.index.rows, book.index.machine.architecture) if wanted.abi == "native" else wanted.abi
    return [row for row in book.index.rows if (abi is None or row.abi == abi) and _matches(book, row, wanted)]


def _matches(book: Book, row: Row, wanted: RowOf) -> bool:
    metric = metric_of(row, book.probes)
    return (
        (wanted.probe is None or row.probe == wanted.probe)
        and (wanted.metric is None or row.metric == wanted.metric)
        and (wanted.target is None or fnmatchcase(row.target, wanted.target))
        and (wanted.means is None or (metric is not None and metric.means == wanted.means))
        and all(row.parameters.get(name) == value for name, value in wanted.parameters.items())
        and (RELATION not in row.parameters or RELATION in wanted.parameters)
    )


def own_reason(book: Book, wanted: RowOf) -> str:
    """Why a row of this run has no number, or one that does not answer; empty where the run has none. What is
    impossible at one length or size is impossible at another; another choice is independent of it."""
    choices = {name: value for name, value in wanted.parameters.items() if isinstance(value, str)}
    anywhere = msgspec.structs.replace(wanted, parameters=choices)
    same = matching(book, wanted) or [row for row in matching(book, anywhere) if row.status == "unsupported"]
    failed = next((row for row in same if row.status != "ok" and row.reason), None)
    if failed is not None:
        return f"{failed.probe} gave no number: {failed.reason}."
    counted = next((row for row in same if row.clock == COUNTED), None)
    if counted is not None:
        return (
            f"{counted.target} counts the program's own instructions: what its kernel does, and what memory costs, is "
            "not among them. A guest (--target guest) or a board times it."
        )
    virtual = next((row for row in same if row.clock == VIRTUAL), None)
    reason = f"In the virtual time of {virtual.target} there are no caches and no pipeline." if virtual else ""
    return reason and with_mend(reason, book)


def with_mend(reason: str, book: Book) -> str:
    return f"{reason} {book.suite.mend}" if book.suite and book.suite.mend else reason
