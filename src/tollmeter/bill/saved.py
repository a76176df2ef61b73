# SPDX-License-Identifier: Apache-2.0
"""Stores a bill as a run folder, which every verb that reads a run can read.

A clean run of a command is a visit of its item IN_ALL, and each item of a counted run is a visit of that item. The
values are gauges, as in `toll time`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tollmeter import protocol
from tollmeter.bill.billed import Billed
from tollmeter.bill.items import Bill, Counts, items
from tollmeter.library import places
from tollmeter.library.prepare import machine_of, sealed_head
from tollmeter.library.timed import base_of_commands
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Metric, Parameter, Point, Probe, Suite, Visit
from tollmeter.numbers.meanings import BILLED
from tollmeter.report.timed import COMMAND, IN_ALL, ITEM, TOLL
from tollmeter.store.journal import Journal, Session
from tollmeter.store.request import Request
from tollmeter.targets.ways import LOCAL
from tollmeter.version import VERSION

_PROBE = "command.bill"
_QUESTION = "What does a command pay for crossing boundaries?"
_METRICS = (
    Metric(name="cpu", unit="ns", better="less", summary="CPU time in one run", source="gauge", means=BILLED),
    Metric(name="crossings", unit="count", better="less", summary="crossings in one run", source="gauge"),
)
Gauges = Mapping[str, float | None]


def save_bills(
    several: Sequence[Billed], folder: Path, words: Sequence[str], session: Session, target: str = LOCAL
) -> None:
    """Stores bills as a run folder. words: words of the command line. session: duration and surroundings of measuring.
    target: target on which the commands ran. Raises Failure if the folder cannot be written."""
    base = base_of_commands()
    if target != LOCAL:
        machine, reading = machine_of(places.made_ready([], [target], ProbeRequest([])), [target])
        base = base._replace(machine=machine, clock=reading)
    is_timed = any(isinstance(billed.bill, Bill) for billed in several)
    values = [visited for billed in several for visited in _values(billed)]
    probe = Probe(
        probe=_PROBE, question=_QUESTION, revision=1, metrics=_METRICS if is_timed else _METRICS[1:],
        parameters=(
            Parameter(name=COMMAND, kind="choice", summary="what is run", choices=_names(values, 0)),
            Parameter(name=ITEM, kind="choice", summary="kind of crossing", choices=_names(values, 1)),
        ),
        switches=True, faults=True,
    )  # fmt: skip
    build = msgspec.structs.replace(base.build, probe=_PROBE)
    request = Request(
        id=folder.resolve().name, suite=Suite(name="bill", question=_QUESTION), seed=1, budget_seconds=session.seconds,
        started=datetime.now(UTC).isoformat(timespec="seconds"), tollmeter=VERSION, words=tuple(words),
    )  # fmt: skip
    clock = {"k": "clock", **msgspec.to_builtins(base.clock)}
    with Journal.create(folder, request, sealed_head(base.machine, base.clock, [probe], [build])) as journal:
        for place, (command, item, number, gauges) in enumerate(values):
            point = Point(probe=_PROBE, abi=base.abi, target=target, parameters=((COMMAND, command), (ITEM, item)))
            visit = Visit(
                id=place, point=point, round=number, cpus=(), samples=1, sample_ns=0, seed=place + 1, deadline_ms=0
            )
            records = [{"k": "gauge", "metric": name, "value": value} for name, value in gauges.items() if value]
            journal.append(protocol.reported(visit, probe.revision, [clock, *records], at_ns=place + 1))
        journal.note(session)


def _names(values: Sequence[tuple[str, str, int, Gauges]], place: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value[place]) for value in values))


def _values(billed: Billed) -> Iterator[tuple[str, str, int, Gauges]]:
    """Yields command, item, number of the run, and its values."""
    bill = billed.bill
    if isinstance(bill, Counts):
        yield bill.command, IN_ALL, 0, {"crossings": bill.crossings}
        yield from ((bill.command, item.name, 0, {"crossings": item.count}) for item in bill.items)
        return
    for number, run in enumerate(billed.clean):
        yield bill.command, IN_ALL, number, {"cpu": run.cpu_ns, "crossings": bill.crossings}
    yield bill.command, TOLL, 0, {"cpu": bill.calibration.toll_ns, "crossings": 1}
    for number, (counted, trial) in enumerate(zip(billed.counted, billed.trials, strict=False)):
        for item in items(counted, billed.clean, trial, bill.way):
            yield bill.command, item.name, number, {"cpu": item.ns, "crossings": item.count}
