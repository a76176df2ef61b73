# SPDX-License-Identifier: Apache-2.0
"""Evaluates the marks of a visit, which the other end of a serial line stamped: which marks arrived, and the visit's
times by the clock of that end, called the line's time.

A sample makes two marks with nothing between them: the empty test. Then it makes a mark before its first batch and a
mark after each batch, of the body and of the control if there is one (probes/runtime/sample.c). The target records its
own time of each. A stamp is late by an unknown delay, so no batch is timed by its two stamps: all stamps of a visit
together give the rate of the target's clock (below)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any, NamedTuple

import msgspec

from tollmeter.model import Failure, Marks
from tollmeter.protocol.framing import Damaged, RecordLine, find_lines, joined, sealed

MARK = 0x80
_MOST_MARKS = 1 << 40
_MOST_LOST = 63
"""Highest number of successive lost marks that is distinguished from a byte that arrives late."""
_MOST_NS = 1 << 63
_MOST_ERROR = 0.01
"""Highest relative deviation between the rates of a visit's halves and its whole. In 187 visits below this limit, on
busy machines, the rate was at most 0.6 % off."""
_RATES = ("control_hz", "control_before_hz", "width_hz", "width_before_hz", "width_between_hz")
"""Fields of a witness that are rates per second."""


class NotTimed(Failure):
    """An error: the stamps do not give the rate of the target's clock. is_stopped: the visit was interrupted."""

    def __init__(self, sentence: str, is_stopped: bool) -> None:
        super().__init__(sentence, exit_code=5)
        self.is_stopped = is_stopped


class Stamp(NamedTuple):
    byte: int
    ns: int


def arrived(stamps: Sequence[Stamp], made: int) -> tuple[dict[int, int], int]:
    """Returns the time of arrival in ns by a mark's number, and the number of marks that arrived twice, of which the
    first counts. A missing mark was lost; any other byte was inserted. made: number of marks that the visit reports.

    Numbers only increase, so that a byte is the next mark with this number modulo 128, if it is not far ahead. If the
    following byte is the expected one, the byte is foreign."""
    marks = [stamp for stamp in stamps if stamp.byte >= MARK]
    ns: dict[int, int] = {}
    due, doubled = 0, 0
    for stamp, following in zip_longest(marks, marks[1:]):
        ahead = (stamp.byte - due) % MARK
        if ahead == MARK - 1 and due - 1 in ns:
            doubled += 1
        elif (
            due + ahead < made
            and ahead <= _MOST_LOST
            and not (ahead and following and (following.byte - due) % MARK == 0)
        ):
            ns[due + ahead] = stamp.ns
            due += ahead + 1
    return ns, doubled


def retimed(stream: bytes, stamps: Sequence[Stamp], line: str) -> bytes:
    """Returns a visit's stream in the line's time; the target's own times are stored as `own`, and those of each mark
    as `marked` and `stamped`. A visit without samples is unchanged. Raises NotTimed without a rate, Damaged for an
    unreadable record."""
    lines = list(find_lines(stream))
    if lines[-1].kind != "end" or not any(record_line.kind == "sample" for record_line in lines):
        return stream
    records = [_payload(record_line) for record_line in lines]
    samples = [record for record in records if record["k"] == "sample"]
    made = max(_first_mark(record_line) + len(_marked(record_line)) for record_line in samples)
    ns, doubled = arrived(stamps, made)
    by_line = _rate(samples, ns, made, line, is_stopped=bool(records[-1].get("stopped")))
    timed = [_timed(record, ns, by_line.value, line) for record in records[:-1]]
    firsts = [_first_mark(sample) for sample in samples]
    empty = [ns[first + 1] - ns[first] for first in firsts if {first, first + 1} <= ns.keys()]
    marks = Marks(
        came=len(ns), lost=made - len(ns), doubled=doubled, inserted=len(stamps) - len(ns) - doubled,
        empty_ns=median(empty) if empty else None, own_ratio=1 / by_line.value, ratio_error=by_line.error,
    )  # fmt: skip
    timed.append(msgspec.to_builtins(marks))
    end = {**records[-1], "records": len(timed)}
    return joined(sealed(record, number) for number, record in enumerate([*timed, end]))


def _payload(line: RecordLine) -> dict[str, Any]:
    try:
        payload: dict[str, Any] = msgspec.json.decode(line.text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"record {line.number}, {line.kind}: it is not JSON that can be read") from error
    return {key: value for key, value in payload.items() if key not in ("n", "c")}


def _first_mark(sample: Mapping[str, Any]) -> int:
    mark = sample.get("mark", 0)
    if not isinstance(mark, int) or not 0 <= mark < _MOST_MARKS:
        raise Damaged(f"a sample's `mark` is {mark!r}: expected 0 to {_MOST_MARKS - 1}")
    return mark


def _marked(sample: Mapping[str, Any]) -> Sequence[int]:
    """Returns the target's own time of each mark of a sample."""
    marked = sample.get("marked")
    if not isinstance(marked, list) or not all(isinstance(ns, int) and 0 <= ns < _MOST_NS for ns in marked):
        raise Damaged("a sample without the times of its marks")
    return marked


def _rate(
    samples: Sequence[Mapping[str, Any]], ns: Mapping[int, int], made: int, line: str, *, is_stopped: bool
) -> Rate:
    """Returns the rate of the two clocks: nanoseconds of the line's clock per nanosecond of the target's. ns: arrival
    of each mark, by its number; made: number of marks that the target sent; line: name of the line. Raises NotTimed."""
    moments = [
        (target_ns, ns[number])
        for sample in samples
        for number, target_ns in enumerate(_marked(sample), _first_mark(sample))
        if number in ns
    ]
    if not ns:
        raise NotTimed(f"no mark arrived over {line}: all {made} were lost", is_stopped)
    fitted = rate(moments)
    if fitted is None or fitted.value <= 0:
        raise NotTimed(
            f"{made - len(ns)} of {made} marks were lost on {line}: too few arrived to time a visit", is_stopped
        )
    if fitted.error > _MOST_ERROR:
        raise NotTimed(
            f"too few of {made} marks arrived over {line} without delay: the halves of the visit give rates of the two "
            f"clocks that are up to {100 * fitted.error:.0f} % off the whole's",
            is_stopped,
        )
    return fitted


def _timed(record: dict[str, Any], arrived_ns: Mapping[int, int], by: float, line: str) -> dict[str, Any]:
    """Returns a record in the time of the line's clock. by: nanoseconds of that clock per nanosecond of the
    target's."""
    if record["k"] == "clock":
        return {**record, "source": line, "kind": "external"}
    if record["k"] == "witness":
        return {**record, **{key: value / by for key, value in record.items() if key in _RATES and value}}
    if record["k"] == "control":
        return {**record, "ns": max(1, round(record["ns"] * by))}
    if record["k"] != "sample":
        return record
    own_times = {name: record[name] for name in ("body", "control") if record.get(name)}
    times = {name: [round(ns * by) for ns in pair] for name, pair in own_times.items()}
    if lanes := [[done, round(ns * by)] for done, ns in record.get("lanes", ())]:
        times["lanes"] = lanes
    first = _first_mark(record)
    stamped = [arrived_ns.get(number) for number in range(first, first + len(_marked(record)))]
    return {**record, **times, "own": own_times, "stamped": stamped}


# ---- the rate of one clock by another --------------------------------------------------------------------------------

# By moments that the second clock saw late, each by an unknown delay.
#
# A delay is never negative. So no moment lies below the line that joins the earliest ones: the edge, over their middle,
# of the lower convex hull. This is the line below all moments with the least sum of distances to them (Moon, Skelly
# and Towsley 1999 estimate the skew of two computers so, from one-way delays). A moment that came late, by however
# much, does not move it.

Moment = tuple[int, int]
"""Time of one event by the first clock, and by the second."""

_LEAST = 5
"""Fewest moments of each half."""


class Rate(NamedTuple):
    """The rate of two clocks. value: time of the second clock for one unit of the first. error: relative deviation of
    the rates of the first and the second half of the moments. It grows with the share of late moments, and with an
    unevenly running clock."""

    value: float
    error: float


def rate(moments: Sequence[Moment]) -> Rate | None:
    """Returns the rate of the second clock by the first; None for too few moments, or a stopped clock."""
    ordered = sorted(moments)
    half = len(ordered) // 2
    if half < _LEAST:
        return None
    overall, *halves = (_slope(part) for part in (ordered, ordered[:half], ordered[half:]))
    if not overall or None in halves:
        return None
    return Rate(overall, max(abs(each / overall - 1) for each in halves if each is not None))


def _slope(ordered: Sequence[Moment]) -> float | None:
    """Returns the slope of that edge of the lower convex hull which spans the mean time, by Andrew's monotone chain;
    None without one."""
    hull: list[Moment] = []
    for at, late in ordered:
        while len(hull) > 1:
            (first_at, first_late), (middle_at, middle_late) = hull[-2:]
            if (middle_at - first_at) * (late - first_late) > (middle_late - first_late) * (at - first_at):
                break
            hull.pop()
        hull.append((at, late))
    count, total = len(ordered), sum(at for at, _ in ordered)
    for (at, late), (next_at, next_late) in pairwise(hull):
        if next_at * count >= total and next_at > at:
            return (next_late - late) / (next_at - at)
    return None
