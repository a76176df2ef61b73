# SPDX-License-Identifier: Apache-2.0
"""Whatever came back from a target, made into one whole stream that a journal can hold.

What came in order is kept as it came. Where the stream was cut, or the process ended badly, the host closes it with a
`fail` and an `end` that carry on the numbering.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tollmeter.model import Outcome, Status, Visit
from tollmeter.protocol.framing import Damaged, Line, check_order, find_lines, joined, seal, sealed
from tollmeter.protocol.reading import outcome

Trouble = tuple[Status, str]


def closed(raw: bytes, visit: Visit, revision: int, trouble: Trouble | None = None) -> bytes:
    """One whole stream for the visit that was asked, from all that its process printed.

    trouble: how the process ended, where that was not well. A stream that itself says why it failed outweighs it.
    """
    found = list(find_lines(raw))
    try:
        told = _told(found, visit)
    except Damaged as error:
        return _cut(_in_order(found), visit, revision, trouble or ("infrastructure", error.sentence))
    if trouble and told.status == "ok":
        return _cut(found, visit, revision, trouble)
    return joined(found)


def refused(visit: Visit, revision: int, status: Status, reason: str) -> bytes:
    """A stream for a visit whose process printed nothing that could be kept."""
    told = {"k": "skip"} if status == "unsupported" else {"k": "fail", "status": status}
    return seal([_visit_record(visit, revision), {**told, "reason": reason}])


def _in_order(found: Iterable[Line]) -> list[Line]:
    """The records from the first on, up to `end` or to the first gap."""
    lines: list[Line] = []
    for line in found:
        if line.number != len(lines):
            break
        lines.append(line)
        if line.kind == "end":
            break
    return lines


def _told(lines: Sequence[Line], visit: Visit) -> Outcome:
    told = outcome(lines)
    if told.visit != visit.id or told.round != visit.round or not _same_place(told, visit):
        raise Damaged(f"it answered for visit {told.visit} at another point than the one that was asked")
    return told


def _same_place(told: Outcome, visit: Visit) -> bool:
    asked = visit.point
    place = (told.point.probe, told.point.abi, told.point.target, told.point.values())
    return place == (asked.probe, asked.abi, asked.target, asked.values())


def _cut(lines: Sequence[Line], visit: Visit, revision: int, trouble: Trouble) -> bytes:
    kept = [line for line in lines if line.kind != "end"]
    fail = sealed({"k": "fail", "status": trouble[0], "reason": trouble[1]}, len(kept))
    stream = [*kept, fail, sealed({"k": "end", "records": len(kept) + 1}, len(kept) + 1)]
    try:
        check_order(stream)
        _told(stream, visit)
    except Damaged:
        return refused(visit, revision, *trouble)
    return joined(stream)


def _visit_record(visit: Visit, revision: int) -> dict[str, Any]:
    point = visit.point
    return {
        "k": "visit",
        "visit": visit.id,
        "round": visit.round,
        "probe": point.probe,
        "revision": revision,
        "abi": point.abi,
        "target": point.target,
        "parameters": point.values(),
        "cpus": visit.cpus,
        "seed": visit.seed,
        "samples": visit.samples,
        "sample_ns": visit.sample_ns,
    }
