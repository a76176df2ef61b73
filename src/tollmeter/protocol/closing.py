# SPDX-License-Identifier: Apache-2.0
"""Makes what came from a target one whole stream: a stream that was cut, or whose process ended badly, gets a `fail`
and an `end` record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tollmeter.model import Outcome, Status, Visit
from tollmeter.protocol.framing import Damaged, Line, check_order, find_lines, joined, seal, sealed
from tollmeter.protocol.reading import outcome

Trouble = tuple[Status, str]


def closed(raw: bytes, visit: Visit, revision: int, trouble: Trouble | None = None) -> bytes:
    """One whole stream for the requested visit. trouble: how the process failed; a failure record of its own outweighs
    that."""
    lines = list(find_lines(raw))
    try:
        answer = _answered(lines, visit)
    except Damaged as error:
        return _cut(_in_order(lines), visit, revision, trouble or ("infrastructure", error.sentence))
    if trouble and answer.status == "ok":
        return _cut(lines, visit, revision, trouble)
    return joined(lines)


def refused(visit: Visit, revision: int, status: Status, reason: str) -> bytes:
    """A stream for a visit whose process printed nothing that could be kept."""
    record = {"k": "skip"} if status == "unsupported" else {"k": "fail", "status": status}
    return reported(visit, revision, [{**record, "reason": reason}])


def reported(visit: Visit, revision: int, records: Iterable[Mapping[str, Any]], **fields: Any) -> bytes:
    """A stream for a visit that the host itself made. fields: more of its first record."""
    return seal([{**_visit_record(visit, revision), **fields}, *records])


def _in_order(given: Iterable[Line]) -> list[Line]:
    """The records from the first on, up to `end` or to the first gap."""
    lines: list[Line] = []
    for line in given:
        if line.number != len(lines):
            break
        lines.append(line)
        if line.kind == "end":
            break
    return lines


def _answered(lines: Sequence[Line], visit: Visit) -> Outcome:
    answer = outcome(lines)
    if answer.visit != visit.id or answer.round != visit.round or not _same_place(answer, visit):
        raise Damaged(f"it answered for visit {answer.visit} at another point than the one that was asked")
    return answer


def _same_place(answer: Outcome, visit: Visit) -> bool:
    asked = visit.point
    place = (answer.point.probe, answer.point.abi, answer.point.target, answer.point.values())
    return place == (asked.probe, asked.abi, asked.target, asked.values())


def _cut(lines: Sequence[Line], visit: Visit, revision: int, trouble: Trouble) -> bytes:
    kept = [line for line in lines if line.kind != "end"]
    fail = sealed({"k": "fail", "status": trouble[0], "reason": trouble[1]}, len(kept))
    stream = [*kept, fail, sealed({"k": "end", "records": len(kept) + 1}, len(kept) + 1)]
    try:
        check_order(stream)
        _answered(stream, visit)
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
