# SPDX-License-Identifier: Apache-2.0
"""Marks stamped at the other end of a line: which came, and the visit in the line's time."""

from __future__ import annotations

import random
import zlib
from typing import Any

import msgspec
import pytest

from tollmeter.model import Outcome
from tollmeter.protocol import Damaged, NotTimed, Stamp, outcome, retimed
from tollmeter.protocol.framing import seal
from tollmeter.protocol.line_marks import MARK, arrived

EMPTY_NS, BATCH_NS, SKEW = 1000, 5_000_000, 1.25
"""The target's own clock is a quarter fast."""


def stamps_of(count: int) -> list[Stamp]:
    return [Stamp(MARK | number % MARK, 1_000_000 * number) for number in range(count)]


def test_all_that_came_is_there_by_its_number_past_the_256th_too() -> None:
    assert arrived(stamps_of(300), 300) == ({number: 1_000_000 * number for number in range(300)}, 0)


def test_lost_doubled_and_inserted_bytes_are_distinguished_and_affect_no_other() -> None:
    stamps = stamps_of(40)
    line = [*stamps[:7], *stamps[8:20], Stamp(stamps[19].byte, stamps[19].ns + 5), *stamps[20:30],
            Stamp(ord("x"), 1), *stamps[30:]]  # fmt: skip
    assert len(line) == 39 + 1 + 1
    assert arrived(line, 40) == ({number: 1_000_000 * number for number in range(40) if number != 7}, 1)


@pytest.mark.parametrize("seed", range(20))
def test_any_faults_are_counted_and_no_stamp_is_another_marks(seed: int) -> None:
    rng = random.Random(seed)
    line: list[Stamp] = []
    for stamp in stamps_of(200):
        line += [stamp] * rng.choices((0, 1, 2), (1, 18, 1))[0]
        line += [Stamp(rng.randrange(128), 0)] * (rng.random() < 0.05)
    made = [stamp for stamp in line if stamp.byte >= MARK]
    ns, doubled = arrived(line, 200)
    assert ns == {stamp.ns // 1_000_000: stamp.ns for stamp in made}
    assert doubled == len(made) - len(ns)


# ---- visits ---------------------------------------------------------------------------------------------------------


def visit(samples: int, controlled: bool = True, late_ns: int = 0) -> tuple[bytes, list[Stamp]]:
    """A visit's stream, and the stamps of its marks: the longer batch is the first one in each second sample. Every
    third mark comes up to late_ns late."""
    head = {"k": "visit", "visit": 3, "round": 0, "probe": "any.probe", "revision": 1, "abi": "x86_64",
            "target": "local+pty", "parameters": {}}  # fmt: skip
    clock = {"k": "clock", "source": "monotonic_raw", "kind": "hardware", "resolution_ns": 40, "cost_ns": 30}
    records: list[dict[str, Any]] = [head, clock, {"k": "control", "adds": 4 * BATCH_NS, "ns": round(BATCH_NS * SKEW)}]
    stamps: list[Stamp] = []
    now, rng = 0, random.Random(samples)

    def mark(after_ns: int) -> int:
        """The target's own time of it."""
        nonlocal now
        now += after_ns
        late = rng.randrange(late_ns + 1) if len(stamps) % 3 == 0 else 0
        stamps.append(Stamp(MARK | len(stamps) % MARK, max(now + late, stamps[-1].ns if stamps else 0)))
        return round(now * SKEW)

    for number in range(samples):
        own = [round(BATCH_NS * SKEW), round(2 * BATCH_NS * SKEW)]
        first = len(stamps)
        marked = [mark(0), mark(EMPTY_NS)]
        for _ in range(1 + controlled):
            marked.append(mark(77_000))
            marked += [mark(BATCH_NS << ((turn + number) & 1)) for turn in range(2)]
        record = {"k": "sample", "i": number, "iterations": 1000, "body": own, "mark": first, "marked": marked}
        records.append(record | ({"control": own, "control_iterations": 1000} if controlled else {}))
        records.append({"k": "witness", "i": number, "voluntary": number, "control_hz": 4e9 / SKEW})
    return seal(records), stamps


def told(stream: bytes, stamps: list[Stamp]) -> Outcome:
    return outcome(retimed(stream, stamps, "pty"))


@pytest.mark.parametrize("controlled", [True, False])
def test_a_visit_is_timed_by_the_lines_clock(controlled: bool) -> None:
    """Its samples, and the rates of its control loops."""
    back = told(*visit(4, controlled))
    assert (back.status, back.clock.kind, back.clock.source, back.clock.cost_ns) == ("ok", "external", "pty", 30)
    assert [one.body for one in back.samples] == [(BATCH_NS, 2 * BATCH_NS)] * 4
    assert {one.control for one in back.samples} == {(BATCH_NS, 2 * BATCH_NS) if controlled else None}
    assert back.controls == (4e9,)
    assert [one.witness.control_hz for one in back.samples] == pytest.approx([4e9] * 4)
    assert back.marks and (back.marks.came, back.marks.empty_ns) == (4 * (8 if controlled else 5), EMPTY_NS)
    assert back.marks.own_ratio == pytest.approx(SKEW)


def test_both_times_of_each_mark_and_the_targets_own_stand_beside() -> None:
    stream, stamps = visit(3)
    del stamps[9]
    samples = [msgspec.json.decode(line) for line in retimed(stream, stamps, "pty").splitlines() if b'"sample"' in line]
    assert [one["own"]["body"][0] for one in samples] == [round(BATCH_NS * SKEW)] * 3
    assert samples[1]["stamped"][1] is None
    assert samples[2]["stamped"] == pytest.approx([ns / SKEW for ns in samples[2]["marked"]])


def test_late_marks_move_no_time() -> None:
    back = told(*visit(8, late_ns=BATCH_NS))
    assert [one.body for one in back.samples] == [(BATCH_NS, 2 * BATCH_NS)] * 8
    assert back.marks and back.marks.own_ratio == pytest.approx(SKEW)


def test_a_lost_mark_takes_no_sample_away() -> None:
    stream, stamps = visit(4)
    del stamps[8 + 3]
    back = told(stream, stamps)
    assert [one.body for one in back.samples] == [(BATCH_NS, 2 * BATCH_NS)] * 4
    assert back.marks and back.marks.lost == 1


def test_a_line_with_too_few_marks_gives_a_reason_and_no_number() -> None:
    stream, stamps = visit(4)
    with pytest.raises(NotTimed, match="all 32 were lost"):
        told(stream, [])
    with pytest.raises(NotTimed, match="27 of 32 marks"):
        told(stream, stamps[:5])


def test_stamps_of_which_the_halves_disagree_make_no_number() -> None:
    """All marks of the second half wait for the last one, as behind a probe that kept their CPU."""
    stream, stamps = visit(8)
    half = len(stamps) // 2
    waiting = [stamp._replace(ns=stamps[-1].ns) for stamp in stamps[half:]]
    with pytest.raises(NotTimed, match=r"too few of 64 marks") as caught:
        told(stream, [*stamps[:half], *waiting])
    assert not caught.value.is_stopped


def test_a_visit_without_samples_is_as_it_was() -> None:
    head = {"k": "visit", "visit": 3, "round": 0, "probe": "any.probe", "abi": "x86_64", "target": "local+pty"}
    stream = seal([head, {"k": "skip", "reason": "no such thing here"}])
    assert retimed(stream, [], "pty") == stream


@pytest.mark.parametrize(
    "told", [b'{"k":"other","x":}', b'{"k":"other","x":"\xe5"}', b'{"k":"other","x":' + b"[" * 9000]
)
def test_an_unknown_record_that_is_not_json_is_refused(told: bytes) -> None:
    whole, stamps = visit(2)
    lines = whole.splitlines()
    stream = [*lines[:-1], sealed_text(told, len(lines) - 1), seal([{"k": "x"}] * len(lines)).splitlines()[-1]]
    assert outcome(b"\n".join(stream)).samples
    with pytest.raises(Damaged, match="other: it is not JSON"):
        retimed(b"\n".join(stream), stamps, "pty")


@pytest.mark.parametrize("mark", ["many", -1, 2**64 - 1, None, [1]])
def test_a_sample_that_counts_its_marks_by_nothing_is_refused(mark: object) -> None:
    with pytest.raises(Damaged, match=r"`mark` is .*: expected 0 to"):
        retimed(with_samples(mark=mark), [], "pty")


@pytest.mark.parametrize("marked", ["now", [-1], [2**64 - 1], [1.5], None, [[1]]])
def test_a_sample_without_its_times_of_marks_is_refused(marked: object) -> None:
    with pytest.raises(Damaged, match="times of its marks"):
        retimed(with_samples(marked=marked), [], "pty")


def with_samples(**changes: object) -> bytes:
    records = [msgspec.json.decode(line) for line in visit(1)[0].splitlines()[:-1]]
    records = [{**record, **changes} if record["k"] == "sample" else record for record in records]
    return seal([{key: told for key, told in one.items() if key not in "nc"} for one in records])


def sealed_text(told: bytes, number: int) -> bytes:
    """A line whose checksum holds, whatever it says."""
    text = told.removesuffix(b"}") + b',"n":%d' % number
    return text + b',"c":"%08x"}' % zlib.crc32(text)
