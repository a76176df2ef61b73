# SPDX-License-Identifier: Apache-2.0
"""Marks stamped at the other end of a line: which came, and the visit in their times."""

from __future__ import annotations

import random
import zlib
from typing import Any

import msgspec
import pytest

from tollmeter.model import Marks, Outcome
from tollmeter.protocol import Damaged, Stamp, outcome, retimed
from tollmeter.protocol.framing import seal
from tollmeter.protocol.marks import MARK, arrived

EMPTY_NS, BATCH_NS, SKEW = 1000, 5_000_000, 1.25
"""The target's own clock is a quarter fast."""


def stamps_of(count: int) -> list[Stamp]:
    return [Stamp(MARK | number % MARK, 1_000_000 * number) for number in range(count)]


def test_all_that_came_is_there_by_its_number_past_the_256th_too() -> None:
    came = arrived(stamps_of(300), 300)
    assert came.ns == {number: 1_000_000 * number for number in range(300)}
    assert came[1:] == (0, 0, 0)


def test_a_lost_a_doubled_and_a_foreign_byte_are_told_apart_and_harm_no_other() -> None:
    stamps = stamps_of(40)
    line = [*stamps[:7], *stamps[8:20], Stamp(stamps[19].byte, stamps[19].ns + 5), *stamps[20:30],
            Stamp(ord("x"), 1), *stamps[30:]]  # fmt: skip
    came = arrived(line, 40)
    assert (came.lost, came.doubled, came.inserted) == (1, 1, 1)
    assert 7 not in came.ns and came.ns == {number: 1_000_000 * number for number in range(40) if number != 7}


@pytest.mark.parametrize("seed", range(20))
def test_any_faults_are_counted_and_no_stamp_is_another_marks(seed: int) -> None:
    rng = random.Random(seed)
    line: list[Stamp] = []
    for stamp in stamps_of(200):
        line += [stamp] * rng.choices((0, 1, 2), (1, 18, 1))[0]
        line += [Stamp(rng.randrange(128), 0)] * (rng.random() < 0.05)
    came = arrived(line, 200)
    assert came.lost == 200 - len({stamp.ns for stamp in line if stamp.byte >= MARK})
    assert came.ns == {stamp.ns // 1_000_000: stamp.ns for stamp in line if stamp.byte >= MARK}
    assert len(line) == len(came.ns) + came.doubled + came.inserted


# ---- visits ---------------------------------------------------------------------------------------------------------


def visit(samples: int, controlled: bool = True) -> tuple[bytes, list[Stamp]]:
    """A visit's stream, and the stamps of its marks: the longer batch is the first one in each second sample."""
    head = {"k": "visit", "visit": 3, "round": 0, "probe": "any.probe", "revision": 1, "abi": "x86_64",
            "target": "local+pty", "parameters": {}}  # fmt: skip
    records: list[dict[str, Any]] = [head, {"k": "clock", "source": "monotonic_raw", "kind": "hardware"}]
    stamps: list[Stamp] = []
    now = 0

    def mark(after_ns: int) -> None:
        nonlocal now
        now += after_ns
        stamps.append(Stamp(MARK | len(stamps) % MARK, now))

    for number in range(samples):
        own = [round(BATCH_NS * SKEW), round(2 * BATCH_NS * SKEW)]
        record = {"k": "sample", "i": number, "iterations": 1000, "body": own, "mark": len(stamps)}
        records.append(record | ({"control": own, "control_iterations": 1000} if controlled else {}))
        records.append({"k": "witness", "i": number, "voluntary": number})
        mark(0)
        mark(EMPTY_NS)
        for _ in range(1 + controlled):
            mark(77_000)
            for turn in range(2):
                mark(BATCH_NS << ((turn + number) & 1))
    return seal(records), stamps


def told(stream: bytes, stamps: list[Stamp]) -> Outcome:
    return outcome(retimed(stream, stamps, "pty"))


@pytest.mark.parametrize("controlled", [True, False])
def test_a_visit_is_told_in_the_lines_times_and_its_own_stand_beside(controlled: bool) -> None:
    back = told(*visit(4, controlled))
    assert (back.status, back.clock.kind, back.clock.source, back.clock.cost_ns) == ("ok", "external", "pty", EMPTY_NS)
    assert [one.body for one in back.samples] == [(BATCH_NS, 2 * BATCH_NS)] * 4
    assert {one.control for one in back.samples} == {(BATCH_NS, 2 * BATCH_NS) if controlled else None}
    marks = 4 * (8 if controlled else 5)
    assert back.marks == Marks(came=marks, empty_ns=EMPTY_NS, own_ratio=SKEW)


def test_a_sample_that_lost_a_mark_goes_with_its_witness_and_the_rest_stays() -> None:
    stream, stamps = visit(4)
    del stamps[8 + 3]
    back = told(stream, stamps)
    assert [one.witness.voluntary for one in back.samples] == [0, 2, 3]
    assert back.marks and back.marks.lost == 1


def test_a_silent_line_is_no_number_but_a_reason() -> None:
    back = told(visit(2)[0], [])
    assert (back.status, back.reason) == ("infrastructure", "nothing came over pty: of 16 marks each was lost")


def test_a_visit_without_samples_is_as_it_was() -> None:
    head = {"k": "visit", "visit": 3, "round": 0, "probe": "any.probe", "abi": "x86_64", "target": "local+pty"}
    stream = seal([head, {"k": "skip", "reason": "no such thing here"}])
    assert retimed(stream, [], "pty") == stream


@pytest.mark.parametrize(
    "told", [b'{"k":"other","x":}', b'{"k":"other","x":"\xe5"}', b'{"k":"other","x":' + b"[" * 9000]
)
def test_a_record_that_nobody_reads_and_that_is_no_json_is_refused(told: bytes) -> None:
    lines = visit(1)[0].splitlines()
    stream = [*lines[:-1], sealed_text(told, len(lines) - 1), seal([{"k": "x"}] * len(lines)).splitlines()[-1]]
    assert outcome(b"\n".join(stream)).samples
    with pytest.raises(Damaged, match="other: it is not JSON"):
        retimed(b"\n".join(stream), [], "pty")


@pytest.mark.parametrize("mark", ["many", -1, 2**64 - 1, None, [1]])
def test_a_sample_that_counts_its_marks_by_nothing_is_refused(mark: object) -> None:
    records = [msgspec.json.decode(line) for line in visit(1)[0].splitlines()[:-1]]
    records = [{**record, "mark": mark} if record["k"] == "sample" else record for record in records]
    with pytest.raises(Damaged, match="counts no marks"):
        retimed(seal([{key: told for key, told in one.items() if key not in "nc"} for one in records]), [], "pty")


def sealed_text(told: bytes, number: int) -> bytes:
    """A line whose checksum holds, whatever it says."""
    text = told.removesuffix(b"}") + b',"n":%d' % number
    return text + b',"c":"%08x"}' % zlib.crc32(text)
