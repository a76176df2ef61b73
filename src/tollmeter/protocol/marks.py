# SPDX-License-Identifier: Apache-2.0
"""Marks of a visit that were stamped at the other end of a line: which of them came, and the visit in those times.

A sample makes a mark, does nothing, and makes another: the empty test. Then one before its first batch and one behind
each: the body's two, and the control's where there is one (probes/runtime/sample.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any, NamedTuple

import msgspec

from tollmeter.model import Marks
from tollmeter.protocol.framing import Damaged, Line, find_lines, joined, sealed

MARK = 0x80
_MOST_MARKS = 1 << 40
_MOST_LOST = 63
"""In a row, to be told from a byte that comes late."""
_EMPTY, _BODY, _CONTROL = (0, 1), (2, 3, 4), (5, 6, 7)
"""Places of a sample's marks."""


class Stamp(NamedTuple):
    byte: int
    ns: int


class Arrived(NamedTuple):
    """ns: by a mark's number; what is not there was lost."""

    ns: Mapping[int, int]
    lost: int
    doubled: int
    inserted: int


def arrived(stamps: Sequence[Stamp], made: int) -> Arrived:
    """made: marks that the visit says it made. A byte that came twice came when it came first.

    Numbers only grow, so that a byte is the next mark whose number modulo 128 it tells, if it is not far ahead, and if
    the byte behind it is not the one that was due in its place: then it is foreign.
    """
    marks = [stamp for stamp in stamps if stamp.byte >= MARK]
    ns: dict[int, int] = {}
    due, doubled = 0, 0
    for stamp, behind in zip_longest(marks, marks[1:]):
        ahead = (stamp.byte - due) % MARK
        if ahead == MARK - 1 and due - 1 in ns:
            doubled += 1
        elif due + ahead < made and ahead <= _MOST_LOST and not (ahead and behind and _is_due(behind, due)):
            ns[due + ahead] = stamp.ns
            due += ahead + 1
    return Arrived(ns, made - len(ns), doubled, len(stamps) - len(ns) - doubled)


def _is_due(stamp: Stamp, due: int) -> bool:
    return (stamp.byte - due) % MARK == 0


def retimed(stream: bytes, stamps: Sequence[Stamp], line: str) -> bytes:
    """A visit's whole stream in the times of the stamps; one that has no sample is as it was.

    A sample that lost a mark is left out; the target's own times stand beside as `own`. Without any sample left the
    visit failed, and says what came. Raises Damaged for a record that cannot be read.
    """
    lines = list(find_lines(stream))
    if lines[-1].kind != "end" or not any(one.kind == "sample" for one in lines):
        return stream
    records = [_payload(one) for one in lines if one.kind != "end"]
    came = arrived(stamps, max(_last_mark(record) for record in records if record["k"] == "sample") + 1)
    kept = _timed(records, came)
    told = _told(kept, came)
    timed = [{**_clock(record, told, line)} for record in kept]
    if not any(record["k"] == "sample" for record in timed):
        timed.append({"k": "fail", "status": "infrastructure", "reason": _silence(stamps, came, line)})
    timed.append({"k": "marks", **told})
    end = {**_payload(lines[-1]), "records": len(timed)}
    return joined(sealed(record, number) for number, record in enumerate([*timed, end]))


def _payload(line: Line) -> dict[str, Any]:
    try:
        payload: dict[str, Any] = msgspec.json.decode(line.text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"record {line.number}, {line.kind}: it is not JSON that can be read") from error
    return {key: value for key, value in payload.items() if key not in ("n", "c")}


def _last_mark(sample: Mapping[str, Any]) -> int:
    places = _CONTROL if sample.get("control") else _BODY
    return _first_mark(sample) + places[-1]


def _first_mark(sample: Mapping[str, Any]) -> int:
    mark = sample.get("mark", 0)
    if not isinstance(mark, int) or not 0 <= mark < _MOST_MARKS:
        raise Damaged("a sample that counts no marks")
    return mark


def _timed(records: Sequence[dict[str, Any]], came: Arrived) -> list[dict[str, Any]]:
    """A witness belongs to the sample before it, and goes with it."""
    kept: list[dict[str, Any]] = []
    done, whole = 0, True
    for record in records:
        if record["k"] == "sample":
            stamped = _sample(record, came.ns)
            whole = stamped is not None
            if stamped:
                kept.append({**stamped, "i": done})
                done += 1
        elif record["k"] == "witness":
            if whole:
                kept.append({**record, "i": done - 1})
        else:
            kept.append(record)
    return kept


def _sample(record: Mapping[str, Any], ns: Mapping[int, int]) -> dict[str, Any] | None:
    first, turned = _first_mark(record), record["i"] % 2 == 1
    own = {name: record[name] for name in ("body", "control") if record.get(name)}
    pairs: dict[str, Any] = {}
    for name, places in (("body", _BODY), ("control", _CONTROL)):
        if name not in own:
            continue
        at = [ns.get(first + place) for place in places]
        if any(stamp is None for stamp in at):
            return None
        took = [after - before for before, after in pairwise(at)]  # type: ignore[operator]
        pairs[name] = took[::-1] if turned else took
    empty = [ns.get(first + place) for place in _EMPTY]
    apart = {"empty": empty[1] - empty[0]} if None not in empty else {}  # type: ignore[operator]
    return {**record, **pairs, **apart, "own": own}


def _told(records: Sequence[Mapping[str, Any]], came: Arrived) -> dict[str, Any]:
    samples = [record for record in records if record["k"] == "sample"]
    empty = [record["empty"] for record in samples if "empty" in record]
    ratios = [sum(one["own"]["body"]) / sum(one["body"]) for one in samples if sum(one["body"]) > 0]
    counted = {"came": len(came.ns), "lost": came.lost, "doubled": came.doubled, "inserted": came.inserted}
    told = Marks(**counted, empty_ns=median(empty) if empty else None, own_ratio=median(ratios) if ratios else None)
    return dict(msgspec.to_builtins(told))


def _clock(record: dict[str, Any], told: Mapping[str, Any], line: str) -> dict[str, Any]:
    if record["k"] != "clock":
        return record
    empty = told["empty_ns"] or 0
    return {"k": "clock", "source": line, "kind": "external", "resolution_ns": empty, "cost_ns": empty}


def _silence(stamps: Sequence[Stamp], came: Arrived, line: str) -> str:
    if not stamps:
        return f"nothing came over {line}: of {came.lost} marks each was lost"
    return f"of {came.lost + len(came.ns)} marks {came.lost} were lost on {line}, some of each sample's"
