# SPDX-License-Identifier: Apache-2.0
"""The protocol's reader: whole streams are read, and everything else is refused with a reason, never guessed."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.probe_streams import VISIT, samples, visit_record, visit_records, whole
from tollmeter.model import Failure, Outcome, Sample, Witness, Work
from tollmeter.protocol import (
    LONGEST_LINE,
    Damaged,
    Outcomes,
    closed,
    description,
    head,
    outcome,
    read_line,
    refused,
    seal,
    sealed,
)


def forged(body: bytes) -> bytes:
    """A line with a true checksum around any bytes."""
    return b'%s,"c":"%08x"}' % (body, zlib.crc32(body))


def test_a_line_is_sealed_as_the_protocol_says() -> None:
    text = sealed({"k": "skip", "reason": "no such gate"}, 4).text
    assert text == forged(b'{"k":"skip","reason":"no such gate","n":4')
    assert zlib.crc32(text[: text.index(b',"c":')]) == int(text[-10:-2], 16)


def test_a_visit_is_read_whole() -> None:
    told = outcome(whole())
    assert (told.visit, told.round, told.status, told.reason, told.cpus) == (3, 1, "ok", None, (1,))
    assert told.point == VISIT.point
    assert told.controls == (4.1e9, 4.1e9)
    assert told.work == Work(bytes=64, operations=2)
    assert told.gauges == {"entries": 64}
    second = Witness(involuntary=1, control_hz=4.1e9)
    assert told.samples[1] == Sample(iterations=100, body=(1001, 2000), control=(10, 20), witness=second)


def test_unknown_keys_and_kinds_are_passed_over() -> None:
    records = [{**record, "added_later": {"x": 1}} for record in visit_records()]
    assert outcome(seal([*records, {"k": "hunch", "value": 1}])) == outcome(whole())


@pytest.mark.parametrize("noise", [b"U-Boot 2021\r\n", b"\x00\xff\xfe\n", b'{"k":"sample","i":0,', b"\n\n", b"{}\n"])
def test_noise_between_and_before_records_is_passed_over(noise: bytes) -> None:
    lines = whole().splitlines(keepends=True)
    assert outcome(noise + noise.join(lines)) == outcome(whole())


def test_noise_after_a_record_on_its_line_is_passed_over() -> None:
    assert outcome(whole().replace(b"}\n", b"}\r\x00 [  1.0] usb\n")) == outcome(whole())


@given(st.data())
def test_a_stream_cut_anywhere_is_never_a_shorter_one(data: st.DataObject) -> None:
    stream = whole()
    cut = data.draw(st.integers(0, len(stream) - 2))
    with pytest.raises(Damaged):
        outcome(stream[:cut])
    told = outcome(closed(stream[:cut], VISIT, 1))
    assert (told.status, told.samples, told.point) == ("infrastructure", (), VISIT.point)
    assert told.reason


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    stream = bytearray(whole())
    at = data.draw(st.integers(0, len(stream) - 2))
    stream[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Damaged):
        outcome(bytes(stream))


@pytest.mark.parametrize("order", [[0, 2, 1], [0, 1, 1, 2], [1, 2], [0, 2]])
def test_lost_doubled_and_swapped_records_are_refused(order: list[int]) -> None:
    lines = whole().splitlines(keepends=True)
    shuffled = b"".join([lines[i] for i in order] + lines[3:])
    with pytest.raises(Damaged):
        outcome(shuffled)


@pytest.mark.parametrize(
    "records",
    [
        [],
        visit_records()[1:],
        [*visit_records(), visit_record()],
        [visit_record(), *samples(2)[:1], *samples(2)[2:]],
        [visit_record(), *samples(2)[:3]],
        [visit_record(), *samples(2)[1:]],
        [visit_record(), samples(1)[0], {**samples(1)[1], "i": 1}],
        [visit_record(), {"k": "fail", "status": "ok", "reason": "all well"}],
        [visit_record(), {"k": "fail", "status": "gone", "reason": "?"}],
        [{**visit_record(), "visit": -1}],
        [{**visit_record(), "parameters": {"size": 1.5}}],
        [{**visit_record(), "parameters": [1]}],
        [visit_record(), {"k": "sample", "i": 0, "iterations": 0, "body": [1, 2]}, samples(1)[1]],
        [visit_record(), {"k": "sample", "i": 0, "iterations": 1, "body": [-1, 2]}, samples(1)[1]],
        [visit_record(), {"k": "sample", "i": 0, "iterations": 1, "body": [1, 10**30]}, samples(1)[1]],
        [visit_record(), {"k": "sample", "i": 0, "iterations": 1, "body": [1, 2, 3]}, samples(1)[1]],
        [visit_record(), {"k": "control", "adds": 0, "ns": 0}, *samples(1)],
    ],
)
def test_records_that_make_no_visit_are_refused(records: list[dict[str, object]]) -> None:
    with pytest.raises(Damaged):
        outcome(seal(records))


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        ({"i": 0, "iterations": 1, "body": [1, 10**30]}, f"body[1] holds {10**30}, which no such record can hold"),
        ({"i": 0, "iterations": "many", "body": [1, 2]}, "iterations holds 'many', which no such record can hold"),
        ({"i": 0, "iterations": "m" * 50, "body": [1, 2]}, "iterations holds what no such record can hold"),
        ({"i": 0, "iterations": 1, "body": [1, -2]}, "body[1] holds -2, which no such record can hold"),
        ({"i": 0, "iterations": 1}, "it lacks body"),
    ],
)
def test_an_absurd_sample_is_refused_in_plain_words(sample: dict[str, object], sentence: str) -> None:
    with pytest.raises(Damaged) as refused:
        outcome(seal([visit_record(), {"k": "sample", **sample}, samples(1)[1]]))
    assert refused.value.sentence == f"record 1, sample: {sentence}"


@pytest.mark.parametrize(
    "body",
    [
        b'{"k":"visit","parameters":' + b"[" * 30000 + b"]" * 30000 + b',"n":0',
        b'{"k":"visit","parameters":' + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b',"n":0',
        b'{"k":"visit","visit":NaN,"n":0',
        b'{"k":"visit","visit":1e999,"n":0',
        b'{"k":"visit","visit":' + b"9" * 6000 + b',"n":0',
        b'{"k":"visit","probe":"\x01\x02","n":0',
        b'{"k":"visit","probe":"\xff\xfe","n":0',
        b'{"k":"visit","probe":"\\ud800","n":0',
        b'{"k":"visit","probe":}}}},"n":0',
    ],
)
def test_hostile_payloads_under_a_true_checksum_are_refused(body: bytes) -> None:
    end = sealed({"k": "end", "records": 1}, 1).text
    with pytest.raises(Damaged):
        outcome(forged(body) + b"\n" + end)


def test_a_line_over_the_limit_is_refused_and_one_at_the_limit_is_read() -> None:
    def line(length: int) -> bytes:
        return forged(
            b'{"k":"skip","reason":"' + b"x" * (length - len(forged(b'{"k":"skip","reason":"","n":0'))) + b'","n":0'
        )

    assert read_line(line(LONGEST_LINE - 1)).kind == "skip"
    with pytest.raises(Damaged):
        read_line(line(LONGEST_LINE))


def test_an_end_that_counts_otherwise_is_refused() -> None:
    lines = whole().splitlines(keepends=True)
    end = sealed({"k": "end", "records": len(lines)}, len(lines) - 1).text
    with pytest.raises(Damaged):
        outcome(b"".join(lines[:-1]) + end)


def test_what_follows_the_end_is_refused() -> None:
    with pytest.raises(Damaged):
        outcome(whole() + whole())


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes_close_to_a_failed_visit(noise: bytes) -> None:
    told = outcome(closed(noise, VISIT, 1, ("failed", "killed by signal 11")))
    assert (told.status, told.reason, told.point, told.visit) == ("failed", "killed by signal 11", VISIT.point, 3)


def test_text_loses_what_could_move_a_cursor_or_turn_the_writing() -> None:
    told = outcome(seal([visit_record(), {"k": "skip", "reason": "a\x1b[2Jb\u202e\u061cc\nd\u009be"}]))
    assert told.status == "unsupported"
    assert told.reason == "a\ufffd[2Jb\ufffd\ufffdc\ufffdd\ufffde"


def test_a_skip_has_no_number_even_after_samples() -> None:
    told = outcome(seal([*visit_records(), {"k": "skip", "reason": "no huge pages"}]))
    assert (told.status, told.samples, told.gauges) == ("unsupported", (), {})


def test_a_stream_that_says_nothing_failed() -> None:
    assert outcome(seal([visit_record()])).status == "failed"


@pytest.mark.parametrize(
    "records",
    [
        visit_records(),
        [*visit_records(), {"k": "skip", "reason": "no huge pages"}],
        [visit_record(), *samples(2)[:3], {"k": "fail", "status": "timeout", "reason": "too slow"}],
        [*visit_records(), {"k": "count", "iterations": 4, "calls": [4, 8]}],
        [*visit_records(), {"k": "marks", "came": 4, "own_ratio": 1.5}],
        [*visit_records(), {"k": "later", "than": "this version"}],
    ],
)
def test_a_stream_is_read_at_once_as_record_by_record(records: list[dict[str, object]]) -> None:
    stream = seal(records)
    assert Outcomes().of_text(stream) == outcome(stream)


def stopped(count: int) -> Outcome:
    records = [visit_record(), *samples(count)]
    lines = [sealed(record, number) for number, record in enumerate(records)]
    end = sealed({"k": "end", "records": len(lines), "stopped": True}, len(lines))
    return outcome([*lines, end])


def test_a_visit_stopped_early_counts_for_what_it_measured() -> None:
    assert (stopped(1).status, len(stopped(1).samples)) == ("ok", 1)
    assert stopped(0).status == "interrupted"


def test_closing_keeps_what_came_in_order() -> None:
    lines = whole().splitlines(keepends=True)
    stream = closed(b"".join(lines[:5]), VISIT, 1, ("timeout", "no answer within 900 ms"))
    assert stream.startswith(b"".join(lines[:5]))
    assert outcome(stream).status == "timeout"


def test_closing_a_whole_stream_changes_nothing() -> None:
    assert closed(b"hello\n" + whole() + b"bye\n", VISIT, 1) == whole()


def test_a_bad_exit_outweighs_a_good_stream_but_not_its_own_reason() -> None:
    trouble = ("failed", "exit status 3")
    assert outcome(closed(whole(), VISIT, 1, trouble)).reason == "exit status 3"
    late = seal([*visit_records(), {"k": "fail", "status": "timeout", "reason": "deadline"}])
    assert closed(late, VISIT, 1, trouble) == late


def test_an_answer_to_another_question_is_refused() -> None:
    asked = msgspec.structs.replace(VISIT, id=4)
    told = outcome(closed(whole(), asked, 1))
    assert (told.visit, told.status, told.samples) == (4, "infrastructure", ())


def test_a_refused_visit_is_a_stream() -> None:
    told = outcome(refused(VISIT, 1, "infrastructure", "the line dropped"))
    assert (told.status, told.reason, told.point, told.cpus) == (
        "infrastructure",
        "the line dropped",
        VISIT.point,
        (1,),
    )


PROBE = {
    "k": "probe",
    "protocol": 1,
    "probe": "kernel.loop",
    "revision": 1,
    "question": "How fast is a plain loop?",
    "metrics": [{"name": "turn", "unit": "ns", "better": "less", "summary": "one turn"}],
}
BUILD = {"k": "build", "probe": "kernel.loop", "abi": "x86_64", "compiler": "gcc 12", "flags": "-O2"}


def test_a_description_is_read() -> None:
    probe, build = description(seal([PROBE, BUILD]))
    assert (probe.probe, probe.metrics[0].source, build.flags) == ("kernel.loop", "body", "-O2")


@pytest.mark.parametrize("records", [[], [PROBE], [BUILD], [PROBE, PROBE, BUILD], [PROBE, {**BUILD, "probe": "a.b"}]])
def test_what_does_not_describe_one_probe_is_refused(records: list[dict[str, object]]) -> None:
    with pytest.raises(Damaged):
        description(seal(records))


def test_a_newer_protocol_is_refused_as_newer_not_as_damaged() -> None:
    with pytest.raises(Failure) as caught:
        description(seal([{**PROBE, "protocol": 2}, BUILD]))
    assert caught.value.exit_code == 2


def test_the_core_clock_is_the_measured_one() -> None:
    machine = {
        "k": "machine",
        "host": "h\x07",
        "cpu": "c",
        "kernel": "k",
        "hypervisor": None,
        "cpus": 2,
        "memory_bytes": 9,
    }
    control = {"k": "control", "when": "before", "adds": 4100, "ns": 1000}
    told = head(seal([machine, {"k": "clock", "cost_ns": 20}, control]))
    assert told.machine
    assert told.clock
    assert (told.machine.core_clock_hz, told.machine.host, told.clock.cost_ns) == (4.1e9, "h\ufffd", 20)


AT_ONCE = """
import sys, threading
import msgspec
from tollmeter.protocol import Damaged, reading

def ask(form, gate):
    gate.wait()
    try:
        reading._payload(reading.Line("probe", 0, b'{"inner": {}}'), form)
    except Damaged:
        pass

sys.setswitchinterval(1e-6)
for _ in range(20):
    fields = {f"field{n}": "int | None" for n in range(50)}
    inner = type(msgspec.Struct)("Inner", (msgspec.Struct,), {"__annotations__": fields})
    form = type(msgspec.Struct)("Form", (msgspec.Struct,), {"__annotations__": {"inner": inner, **fields}})
    gate = threading.Barrier(4)
    asking = [threading.Thread(target=ask, args=(form, gate)) for _ in range(4)]
    [one.start() for one in asking]
    [one.join() for one in asking]
"""


def test_threads_may_ask_for_a_form_that_was_never_read(root: Path) -> None:
    """As a build does, which reads the descriptions of many probes at once: they met in what was half learnt."""
    done = subprocess.run([sys.executable, "-c", AT_ONCE], env={"PYTHONPATH": f"{root}/src"}, check=False)
    assert done.returncode == 0
