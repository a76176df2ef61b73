# SPDX-License-Identifier: Apache-2.0
"""Converts a visit to the words that an executable reads, and its answer to one complete stream: a stream that was cut,
or whose process failed, gets a `fail` and an `end` record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tollmeter.model import Outcome, Status, Visit
from tollmeter.model.topology import RELATION
from tollmeter.protocol.framing import Damaged, RecordLine, check_order, find_lines, joined, seal, sealed
from tollmeter.protocol.reading import outcome

Trouble = tuple[Status, str]


def words(visit: Visit) -> tuple[str, ...]:
    """Returns the words of a visit, for the command line or for a line of standard input."""
    options = (
        f"--visit={visit.id}",
        f"--round={visit.round}",
        f"--target={visit.point.target}",
        f"--cpus={','.join(map(str, visit.cpus))}",
        f"--samples={visit.samples}",
        f"--sample-ns={visit.sample_ns}",
        f"--seed={visit.seed}",
        f"--deadline-ms={visit.deadline_ms}",
        f"--iterations={visit.iterations}",
        f"--control-iterations={visit.control_iterations}",
        f"--priority={visit.priority}",
    )
    optional = [f"--marks={visit.marks}"] if visit.marks else []
    if visit.wall_ms:
        optional.append(f"--left-ms={visit.wall_ms}")
    if visit.folder:
        optional.append(f"--folder={quote(visit.folder, errors='surrogateescape')}")
    if not visit.counters:
        optional.append("--counters=off")
    if visit.peer:
        optional.append(f"--peer={visit.peer}")
    if visit.full_width:
        optional.append(f"--full-width={round(1000 * visit.full_width)}")
        optional.append(f"--wait-ms={visit.wait_ms}")
        optional += [f"--also={','.join(map(str, visit.also))}"] if visit.also else []
    parameters = (
        f"--{name}={value}" if name == RELATION else f"{name}={value}" for name, value in visit.point.parameters
    )
    return (*options, *optional, *parameters)


def closed(raw: bytes, visit: Visit, revision: int, trouble: Trouble | None = None) -> bytes:
    """Returns one complete stream for the requested visit. trouble: how the process failed; a failure record of the
    probe takes precedence."""
    lines = list(find_lines(raw))
    try:
        answer = _answered(lines, visit)
    except Damaged as error:
        return _cut(_in_order(lines), visit, revision, trouble or ("infrastructure", error.sentence))
    if trouble and answer.status == "ok":
        return _cut(lines, visit, revision, trouble)
    return joined(lines)


def refused(visit: Visit, revision: int, status: Status, reason: str) -> bytes:
    """Returns a stream for a visit whose process printed no usable record."""
    record = {"k": "skip"} if status == "unsupported" else {"k": "fail", "status": status}
    return reported(visit, revision, [{**record, "reason": reason}])


def reported(visit: Visit, revision: int, records: Iterable[Mapping[str, Any]], **fields: Any) -> bytes:
    """Returns the stream of a visit for which the host makes the records. fields: further fields of its first
    record."""
    point = visit.point
    record = {
        "k": "visit", "visit": visit.id, "round": visit.round, "probe": point.probe, "revision": revision,
        "abi": point.abi, "target": point.target, "parameters": point.values(), "cpus": visit.cpus, "seed": visit.seed,
        "samples": visit.samples, "sample_ns": visit.sample_ns,
    }  # fmt: skip
    return seal([{**record, **fields}, *records])


def _in_order(given: Iterable[RecordLine]) -> list[RecordLine]:
    """Returns the records from the first on, up to `end` or to the first gap."""
    lines: list[RecordLine] = []
    for line in given:
        if line.number != len(lines):
            break
        lines.append(line)
        if line.kind == "end":
            break
    return lines


def _answered(lines: Sequence[RecordLine], visit: Visit) -> Outcome:
    answer = outcome(lines)
    requested, point = visit.point, answer.point
    place = (point.probe, point.abi, point.target, point.values())
    is_of_visit = (answer.visit, answer.round) == (visit.id, visit.round)
    if not is_of_visit or place != (requested.probe, requested.abi, requested.target, requested.values()):
        raise Damaged(f"it answered for visit {answer.visit} at another point than the one that was asked")
    return answer


def _cut(lines: Sequence[RecordLine], visit: Visit, revision: int, trouble: Trouble) -> bytes:
    kept = [line for line in lines if line.kind != "end"]
    fail = sealed({"k": "fail", "status": trouble[0], "reason": trouble[1]}, len(kept))
    stream = [*kept, fail, sealed({"k": "end", "records": len(kept) + 1}, len(kept) + 1)]
    try:
        check_order(stream)
        _answered(stream, visit)
    except Damaged:
        return refused(visit, revision, *trouble)
    return joined(stream)
