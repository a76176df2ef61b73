# SPDX-License-Identifier: Apache-2.0
"""What a probe declares against what the system counted: each contradiction is a sentence, and each gap is none."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from tollmeter.experiment.evidence import sleeping
from tollmeter.experiment.taken import Taken
from tollmeter.model import ClockReading, Counted, Metric, Outcome, Point, Probe, Role, Sample, Value, Witness, Work
from tollmeter.numbers.counted import contradicted, remarks, unverified
from tollmeter.numbers.rows import rows

SIZE = 1 << 20
WALK, COPY = "latency-of-size", "copy-bandwidth-of-size"


def a_probe(means: str | None = None, source: Literal["body", "difference"] = "body", **more: Any) -> Probe:
    metric = Metric(name="some", unit="ns", better="less", summary="some", source=source, means=means)
    return Probe(probe="any.probe", question="?", revision=1, metrics=(metric,), **more)


def outcome(
    counted: Counted | None = None, work: Work = Work(), samples: tuple[Sample, ...] = (), **size: Value
) -> Outcome:
    point = Point(probe="any.probe", abi="x86_64", target="local", parameters=tuple(size.items()))
    return Outcome(
        visit=1, round=0, point=point, status="ok", clock=ClockReading(), work=work, counted=counted, samples=samples
    )


def why(counted: Counted, probe: Probe, work: Work = Work(), **size: Value) -> str:
    return contradicted([outcome(), outcome(counted, work, **size)], probe) or ""


CALLS = Counted(iterations=4, calls=(5, 9), instructions=(61, 105), control_calls=(0, 0), control_instructions=(18, 26))


def test_calls_of_an_operation_are_those_that_are_declared() -> None:
    assert not why(CALLS, a_probe(calls=1))
    assert not why(CALLS, a_probe()), "not told"
    assert "makes 1 system call, and the probe declares 2" in why(CALLS, a_probe(calls=2))
    assert "makes 0.1 system calls" in why(CALLS, a_probe(calls=1), Work(operations=10))
    assert not why(Counted(iterations=4), a_probe(calls=1)), "not counted"


@pytest.mark.parametrize(("times", "odd"), [(5.0, False), (0.2, False), (33.0, True), (0.03, True)])
def test_samples_cost_what_the_batches_beside_them_do(times: float, *, odd: bool) -> None:
    """A busy sibling takes a cache away, which makes a load five times as long."""
    sampled = Sample(iterations=1000, body=(round(100_000 * times), round(200_000 * times)))
    counted = Counted(ladder=((1000, 100_000, 130_000), (250, 25_000, 33_000)))
    assert ("batches beside them" in (contradicted([outcome(counted, samples=(sampled,))], a_probe()) or "")) is odd
    assert not contradicted([outcome(counted, samples=(sampled,))], a_probe(switches=True)), "waits as it comes"


def test_samples_of_other_visits_cost_it_too_where_the_counted_one_was_withheld() -> None:
    sampled = Sample(iterations=1000, body=(3_300_000, 6_600_000))
    counted = Counted(ladder=((1000, 100_000, 130_000), (250, 25_000, 33_000)))
    assert "batches beside them" in (contradicted([outcome(counted), outcome(samples=(sampled,))], a_probe()) or "")


def test_operations_are_executed() -> None:
    found = Counted(iterations=4, calls=(0, 0), instructions=(20, 28))
    assert not why(found, a_probe(), Work(operations=2))
    assert "executes 2 instructions" in why(found, a_probe(), Work(operations=3))
    call = Counted(iterations=4, calls=(4, 4), instructions=(174, 174))
    assert "executes 0 instructions" in why(call, a_probe())
    for means in ("guest-exits", "kernel-operation"):
        assert not why(call, a_probe(means)), "a batch is one call that runs a guest, or a loop of the kernel's"
    assert not why(found, a_probe(), Work(operations=64, flops=64)), "a vector has many"
    listing = Counted(iterations=4, calls=(12, 24), instructions=(280, 560))
    assert not why(listing, a_probe(enters=True), Work(operations=258)), "the kernel copies the names of a folder"


def test_an_instruction_moves_a_vector_each_way() -> None:
    found = Counted(iterations=4, calls=(0, 0), instructions=(20, 28))
    assert not why(found, a_probe(), Work(bytes=256))
    assert "declares 300 bytes" in why(found, a_probe(), Work(bytes=300))


def test_a_control_does_no_more_than_its_body() -> None:
    found = Counted(iterations=4, calls=(4, 8), instructions=(61, 105), control_instructions=(18, 98))
    assert "control makes 20 instructions" in why(found, a_probe(calls=1))
    assert not why(found, a_probe()), "a metric of the body alone has no use for it"
    renewed = Counted(iterations=32, calls=(0, 1), instructions=(343, 663), control_instructions=(349, 674))
    assert contradicted([outcome(renewed)], a_probe(source="difference")) is None, "its pages were used up once"
    half = Counted(iterations=4, calls=(4, 8), control_calls=(2, 4))
    assert "control makes 0.5 system calls" in why(half, a_probe(calls=1))
    assert not why(half, a_probe()), "how many calls are the body's is not told"


def test_a_turn_of_the_control_loop_is_two_instructions() -> None:
    twice = Counted(iterations=4, instructions=(20, 36))
    assert "executes 4" in why(twice, a_probe("control-loop"))
    assert not why(twice, a_probe())
    assert "executes 1" in why(Counted(iterations=4, instructions=(20, 24)), a_probe("control-loop"))
    slot = outcome(Counted(iterations=4, instructions=(20, 32)))
    on_mips = msgspec.structs.replace(slot, point=msgspec.structs.replace(slot.point, abi="mipsel"))
    assert "executes 3" in (contradicted([slot], a_probe("control-loop")) or "")
    assert not contradicted([on_mips], a_probe("control-loop")), "a delay slot"


def test_an_entry_is_one_call_with_little_around_it() -> None:
    assert not why(CALLS, a_probe("entry", calls=1))
    assert "an entry is one" in why(msgspec.structs.replace(CALLS, calls=(9, 17)), a_probe("entry"))
    many = msgspec.structs.replace(CALLS, instructions=(61, 305))
    unended = msgspec.structs.replace(CALLS, instructions=None, most_steps=1500)
    assert "around each entry" in why(many, a_probe("entry", calls=1))
    assert "around each entry" in why(unended, a_probe("entry", calls=1))


LONG = msgspec.structs.replace(CALLS, long_calls=(5000, 5001), long_instructions=(100, 1117))


@pytest.mark.parametrize(
    ("found", "calls", "part"),
    [
        (LONG, 1, None),
        (msgspec.structs.replace(LONG, long_calls=(5000, 5002)), 1, "5000 iterations makes 5002 system calls"),
        (msgspec.structs.replace(LONG, long_calls=(5000, 5003)), 0, None),
        (msgspec.structs.replace(LONG, long_calls=(5000, 2501)), 0, "makes 2501 system calls"),
        (msgspec.structs.replace(LONG, calls=(1, 1), long_calls=(5000, 31)), 0, None),
        (msgspec.structs.replace(LONG, long_instructions=(100, 567)), 1, "567 instructions, and short ones 11 an iter"),
        (Counted(calls=None, most_calls=2000, iterations=4), 1, "166.667 system calls"),
        (Counted(calls=None, most_calls=2000, iterations=4), 500, None),
    ],
)
def test_an_iteration_of_a_long_batch_is_one_of_a_short_one(found: Counted, calls: int, part: str | None) -> None:
    told = contradicted([outcome(found)], a_probe(calls=calls))
    assert (part in (told or "")) if part else told is None


def ladder(
    *of_long: float, of_short: tuple[float, ...] = (1.0,) * 5, from_iterations: int = 0, share: float = 1.0
) -> Counted:
    """Times of batches of 8000 to 31 iterations in some trials. of_long: how much longer 100 ns take in the longest
    batch of each trial; of_short: in the others. from_iterations: a batch of so many makes that share of its work."""
    lengths = [8000, 2000, 500, 125, 31]
    costs = {n: 100 * n * (share if n >= from_iterations > 0 else 1.0) for n in lengths}
    slower = {n: of_long if n == lengths[0] else of_short[: len(of_long)] for n in lengths}
    return Counted(calls=(0, 0), ladder=tuple((n, *(round(costs[n] * by) for by in slower[n])) for n in lengths))


@pytest.mark.parametrize("from_iterations", [300, 1000, 8000])
def test_half_of_the_work_of_long_batches_is_seen_beside_a_sibling_that_comes_and_goes(from_iterations: int) -> None:
    busy = ladder(1.0, 1.3, 0.95, 1.1, 1.0, from_iterations=from_iterations, share=0.5)
    assert "times as long as one of a long batch" in (contradicted([outcome(busy)], a_probe()) or "")


HONEST = (
    ladder(1.0, 1.0, 1.0, 1.0, 1.0),
    ladder(1.0, 1.3, 0.9, 1.1, 1.0),
    ladder(1.0),
    ladder(),
    ladder(0.3, 1.0, 1.0, 1.0, 1.0, of_short=(0.8, 1.0, 1.0, 1.0, 1.0)),
    ladder(1.0, 0.2, 0.2, 0.2, 0.2, of_short=(1.0, 0.2, 0.2, 0.2, 0.2)),
)


@pytest.mark.parametrize("honest", HONEST)
def test_honest_times_refuse_nothing_and_are_verified_as_far_as_they_agree(honest: Counted) -> None:
    assert contradicted([outcome(honest)], a_probe()) is None
    assert unverified([outcome(honest)], a_probe()) is None


def test_short_batches_that_a_neighbour_lengthens_are_no_contradiction() -> None:
    beside = ladder(1.0, 1.0, 1.0, 1.0, 1.0, of_short=(1.0, 1.0, 2.0, 2.0, 2.0))
    assert contradicted([outcome(beside)], a_probe()) is None
    assert "a short batch took 1.0 to 3.0 times as long as one of a long batch" in (
        unverified([outcome(beside)], a_probe()) or ""
    )


@pytest.mark.parametrize("of_long", [(1.0, 4.0, 1.0, 1.0, 5.0), (9.0, 1.0, 1.0, 1.0, 2.0)])
def test_half_of_the_work_is_seen_where_the_host_takes_the_cpu_in_some_long_batches(of_long: tuple[float, ...]) -> None:
    stolen = ladder(*of_long, from_iterations=1000, share=0.5)
    assert "2.0 times as long as one of a long batch" in (contradicted([outcome(stolen)], a_probe()) or "")


def test_what_could_not_be_counted_stands_beside_the_number() -> None:
    uncounted = Counted(buffer_bytes=SIZE)
    assert "no visit counted it" in (unverified([outcome()], a_probe()) or "")
    assert "does not let system calls" in (unverified([outcome(uncounted)], a_probe(calls=1)) or "")
    assert unverified([outcome(uncounted)], a_probe()) is None, "nothing that a count could contradict"
    assert unverified([outcome(CALLS)], a_probe(calls=1)) is None


@pytest.mark.parametrize(
    ("found", "declares", "part"),
    [
        (Counted(iterations=4, calls=(12, 24)), {}, "makes 3 system calls, which the probe does not declare"),
        (Counted(iterations=4, calls=(12, 24)), {"calls": 3}, None),
        (Counted(iterations=4, calls=(12, 24)), {"switches": True}, None),
        (Counted(iterations=4, calls=(12, 24)), {"enters": True}, None),
        (Counted(iterations=4, calls=(0, 0), left_open=24), {}, "24 descriptors open"),
        (Counted(iterations=4, calls=(0, 0), left_running=99), {}, "99 processes running"),
    ],
)
def test_what_is_done_and_not_declared_is_a_remark(found: Counted, declares: dict[str, Any], part: str | None) -> None:
    said = remarks([outcome(found), outcome()], a_probe(**declares), counts=True)
    assert len(said) == (part is not None)
    assert part is None or part in said[0]


def test_a_function_call_has_a_call_and_a_return() -> None:
    found = Counted(iterations=4, instructions=(20, 40), control_instructions=(18, 30))
    assert not why(found, a_probe("function-call"))
    none = msgspec.structs.replace(found, instructions=(18, 30))
    assert "neither calls nor returns" in why(none, a_probe("function-call"))
    assert not why(none, a_probe())


def test_a_control_with_a_boundary_makes_its_calls() -> None:
    assert not why(Counted(iterations=4, control_calls=(4, 8)), a_probe(control_calls=1))
    assert "control makes 0 system calls" in why(Counted(iterations=4, control_calls=(0, 0)), a_probe(control_calls=1))
    both = Counted(iterations=4, calls=(8, 16), control_calls=(4, 8))
    assert not why(both, a_probe(calls=2, control_calls=1)), "its own boundary, and not the body's"
    assert "declares 3 (.control_calls)" in why(both, a_probe(calls=2, control_calls=3))
    assert ".control_calls" in why(both, a_probe(calls=2)), "the field that is missing is named"


def test_a_count_refuses_the_point_where_its_visit_is_withheld() -> None:
    twice = msgspec.structs.replace(outcome(Counted(iterations=4, calls=(8, 16))), status="infrastructure", reason="x")
    batches = tuple(Sample(iterations=1000, body=(70_000, 140_000)) for _ in range(4))
    (made,) = rows([twice, outcome(samples=batches)], {"any.probe": a_probe(calls=1)})
    assert made.status == "unstable"
    assert "makes 2 system calls" in (made.reason or "")


@pytest.mark.parametrize(
    ("each", "part"),
    [(SIZE + 4096, None), (SIZE // 4, "goes through 262144 bytes"), (2 * SIZE, "goes through 2097152 bytes")],
)
def test_a_pass_enters_each_page_of_its_buffer(each: int, part: str | None) -> None:
    found = Counted(buffer_bytes=SIZE, entered=(5, 5 * each, 10 * each))
    told = why(found, a_probe(COPY), Work(bytes=SIZE / 2), size=SIZE)
    assert (part in told) if part else not told


def test_a_walk_has_a_cell_a_line_and_leads_to_many_pages() -> None:
    size = 64 << 20
    walk = Counted(chase_bytes=size, chase_stride=64, line_bytes=64, chase_pages=240)
    local = msgspec.structs.replace(walk, chase_pages=32)
    assert not why(walk, a_probe(WALK), size=size)
    assert "every 16 bytes" in why(msgspec.structs.replace(walk, chase_stride=16), a_probe(WALK), size=size)
    assert "lead to 32 pages" in why(local, a_probe(WALK), pages="small", size=size)
    assert not why(local, a_probe(WALK), pages="local", size=size)


@pytest.mark.parametrize(
    ("means", "counted", "part"),
    [
        (WALK, Counted(chase_bytes=SIZE), None),
        (WALK, Counted(chase_bytes=SIZE // 8, buffer_bytes=SIZE), "works on 131072 bytes"),
        (COPY, Counted(buffer_bytes=SIZE // 2), "works on 524288 bytes"),
        (WALK, Counted(chase_bytes=SIZE, chase_in_order=1.0), "order of its addresses"),
        (WALK, Counted(chase_bytes=1024, chase_in_order=0.75), "works on 1024 bytes"),
        ("latency-of-stride", Counted(chase_bytes=SIZE, chase_in_order=1.0), None),
    ],
)
def test_a_buffer_has_its_size_and_a_random_order(means: str, counted: Counted, part: str | None) -> None:
    told = why(counted, a_probe(means), size=SIZE)
    assert (part in told) if part else not told


def test_a_pass_counts_each_byte_once() -> None:
    whole = Counted(buffer_bytes=SIZE)
    assert not why(whole, a_probe(COPY), Work(bytes=SIZE / 2), size=SIZE)
    assert "declares 2.09715e+06" in why(whole, a_probe(COPY), Work(bytes=2 * SIZE), size=SIZE)


def slept(times: int | None, of: int = 16) -> Outcome:
    seen = [Witness(voluntary=times if i < of else 0) for i in range(16)]
    return outcome(samples=tuple(Sample(iterations=1, body=(1000, 2000), witness=one) for one in seen))


def asleep(told: Outcome, probe: Probe) -> str | None:
    return sleeping([told], probe, Taken([told.samples]).column("voluntary"))


def test_a_worker_that_sleeps_unannounced_has_no_number() -> None:
    assert "waited 3 times" in (asleep(slept(3), a_probe()) or "")
    assert asleep(slept(3), a_probe(switches=True)) is None
    gate = Role(name="companion", worker="process", pace="lockstep")
    assert asleep(slept(3), a_probe(roles=(gate,))) is None
    assert asleep(slept(3, of=7), a_probe()) is None, "seven samples of sixteen may be an accident"
    assert asleep(slept(None), a_probe()) is None, "not told"


def test_a_point_that_a_count_contradicts_has_no_number() -> None:
    (row,) = rows([slept(3)], {"any.probe": a_probe()})
    assert (row.status, row.median) == ("unstable", None)
    assert "waited" in (row.reason or "")
