# SPDX-License-Identifier: Apache-2.0
"""Tables of a command's CPU time: a line for each kind of crossing, for a new bill or a stored one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tollmeter.model import Charge, Probe, Row
from tollmeter.numbers.meanings import BILLED, meaning
from tollmeter.report.blocks import Column, Figure, Line, Table
from tollmeter.report.numbers import count, percent, size, time
from tollmeter.report.timed import COMMAND, IN_ALL, ITEM, TOLL

OWN = "the program's own, the loader's, or unattributed"
_SHOWN = 12
"""Charges on one screen; all others are one line."""
_LEAST_SHARE = 0.005


class SavedBill(NamedTuple):
    """The bill of a command in a run folder: its CPU time in ns, 0 for a bill without times, and its charges."""

    command: str
    cpu_ns: float
    charges: tuple[Charge, ...]


def saved_bills(rows: Iterable[Row], probes: Mapping[str, Probe]) -> list[SavedBill]:
    """Returns every bill of a run, each with its most expensive charge first; empty for a run without bills."""
    by_command: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in (row for row in rows if {COMMAND, ITEM} <= row.parameters.keys()):
        of_item = by_command[str(row.parameters[COMMAND])][str(row.parameters[ITEM])]
        of_item[BILLED if meaning(row, probes) == BILLED else row.metric] = row.median or 0.0
    bills = []
    for command, items in by_command.items():
        cpu_ns, toll_ns = (items.pop(item, {}).get(BILLED, 0.0) for item in (IN_ALL, TOLL))
        charges = sorted(_charges(items, toll_ns), key=lambda charge: (-(charge.ns or 0.0), -charge.count))
        bills.append(SavedBill(command, cpu_ns, tuple(charges)))
    return bills


def _charges(items: Mapping[str, Mapping[str, float]], toll_ns: float) -> Iterator[Charge]:
    for name, values in items.items():
        count, ns = round(values.get("crossings", 0.0)), values.get(BILLED)
        if count:
            yield Charge(name, count, ns, min(count * toll_ns, ns or 0.0))


def bill_table(charges: Sequence[Charge], cpu_ns: float, title: str = "call") -> Table:
    """Returns the table of a bill: the largest charges, one line for all others, and the remaining CPU time."""

    def share(ns: float | None) -> float:
        return min(1.0, (ns or 0.0) / cpu_ns)

    def line(charge: Charge) -> Line:
        each = time(charge.each_ns) if charge.ns is not None else Figure("not timed")
        boundary = percent(charge.boundary_ns / charge.ns) if charge.ns else ""
        moved = str(size(charge.bytes / charge.count)) if charge.bytes else ""
        parts = percent(share(charge.ns)) if charge.ns is not None else "", boundary, moved
        bound = f"{charge.bound} " if charge.bound in ("at least", "at most") and charge.ns is not None else ""
        note = f"{bound}{_failed(charge)}".strip()
        return Line((charge.name, count(charge.count), each, time(charge.ns), *parts), note)

    shown = [charge for charge in charges if share(charge.ns) >= _LEAST_SHARE or charge.ns is None][:_SHOWN]
    others = [charge for charge in charges if charge not in shown]
    spent, number = sum(charge.ns or 0.0 for charge in others), sum(charge.count for charge in others)
    lines = [line(charge) for charge in shown]
    if others:
        lines.append(Line((f"{len(others)} others", count(number), "", time(spent), percent(share(spent)), "", "")))
    rest = max(0.0, cpu_ns - sum(charge.ns or 0.0 for charge in charges))
    lines.append(Line((OWN, "", "", time(rest), percent(share(rest)), "", "")))
    columns = (
        Column(title), Column("count", right=True), Column("each", right=True), Column("CPU", right=True),
        Column("share", right=True), Column("boundary", right=True, spare=1), Column("bytes each", right=True, spare=2),
    )  # fmt: skip
    return Table(columns, lines)


def count_table(charges: Sequence[Charge], title: str = "call") -> Table:
    """Returns the table of a bill without times."""
    others = charges[_SHOWN:]
    lines = [
        Line(
            (charge.name, count(charge.count), str(size(charge.bytes / charge.count)) if charge.bytes else ""),
            _failed(charge),
        )
        for charge in charges[:_SHOWN]
    ]
    lines += [Line((f"{len(others)} others", count(sum(charge.count for charge in others)), ""))] if others else []
    return Table((Column(title), Column("count", right=True), Column("bytes each", right=True)), lines)


def _failed(charge: Charge) -> str:
    return f"{count(charge.errors)} failed" if charge.errors else ""


def bill_tables(rows: Iterable[Row], probes: Mapping[str, Probe]) -> list[Table]:
    return [
        bill_table(bill.charges, bill.cpu_ns, bill.command) if bill.cpu_ns else count_table(bill.charges, bill.command)
        for bill in saved_bills(rows, probes)
    ]


def bill_sentence(rows: Iterable[Row], probes: Mapping[str, Probe]) -> str:
    """Returns the CPU time of each command, and its most expensive charge; empty without a bill."""
    sentences = []
    for bill in (bill for bill in saved_bills(rows, probes) if bill.cpu_ns):
        shares = (
            f", {percent(min(1.0, (most.ns or 0.0) / bill.cpu_ns))} of it {most.name}" for most in bill.charges[:1]
        )
        sentences.append(f"{bill.command} takes {time(bill.cpu_ns)} of CPU time{''.join(shares)}")
    return f"{'; '.join(sentences)}." if sentences else ""
