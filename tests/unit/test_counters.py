# SPDX-License-Identifier: Apache-2.0
"""Events beside samples: recorded groups become events of one operation, and equal instructions on both sides of a
change say that the machine moved."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.builders import metric, outcome, probe, row, sample
from support.probe_streams import VISIT, samples, visit_record
from tollmeter.judgement.compare import SAME_INSTRUCTIONS, Comparison, of_rows
from tollmeter.judgement.gate import decide, of_change
from tollmeter.library.options import counters_named
from tollmeter.model import Counted, EventCounts, EventRate, Failure, Outcome, Row, Work
from tollmeter.numbers.events import event_rates, missing_between, same_instructions, without_silent
from tollmeter.numbers.rows import row_key, rows
from tollmeter.protocol import Damaged, seal
from tollmeter.protocol import outcome as read
from tollmeter.protocol.visits import words
from tollmeter.report.compared import cause_sentence
from tollmeter.report.compared_rows import Compared, full_name
from tollmeter.report.gated import Gated, sentences

GROUP = {"k": "counters", "events": ["cycles", "instructions"], "by": "user", "kernel": True}


def stream(*counts: Any, counters: dict[str, Any] | None = None) -> bytes:
    """A visit of as many samples as counts: of each event [n, 2n], None where it was not counted all the time."""
    taken = samples(len(counts))
    for place, of_sample in enumerate(counts):
        taken[2 * place] |= {"counts": of_sample, "control_counts": [[50, 60]] * len(of_sample)} if of_sample else {}
    return seal([visit_record(), counters or GROUP, *taken])


def test_a_recorded_group_is_a_slope_over_both_batches() -> None:
    one, odd = [[1400, 2400], [5040, 10040]], [[9400, 99400], [5040, 90040]]
    events = read(stream(one, one, odd)).events
    assert events is not None
    assert events.body == {"cycles": 10.0, "instructions": 50.0}
    assert (events.samples, events.partial, events.by, events.kernel) == (3, 0, "user", True)


def test_a_sample_that_was_counted_for_a_part_of_the_time_is_left_out_and_reported() -> None:
    events = read(stream([[1400, 2400], [5040, 10040]], None)).events
    assert events is not None
    assert (events.samples, events.partial) == (1, 1)
    assert events.body["cycles"] == 10.0


def test_a_sample_with_other_events_than_its_visit_names_is_damaged() -> None:
    with pytest.raises(Damaged, match="other events"):
        read(stream([[1, 2]]))


def counted(instructions: float, *, visit: int = 0, by: str = "user", kernel: bool = True, **more: Any) -> Outcome:
    events = EventCounts(by=by, kernel=kernel, body={"instructions": instructions}, control={"instructions": 2.0})
    return outcome([sample(10)] * 5, visit=visit, seed=visit % 3 + 1, events=events, **more)


def test_an_operation_has_the_median_of_its_visits_and_both_ends() -> None:
    visits = [counted(each, visit=place, work=Work(operations=2)) for place, each in enumerate((20.0, 22.0, 30.0))]
    made = rows(visits, {"any.probe": probe()})[0].counters["instructions"]
    assert made == EventRate(source="pmu", value=11.0, low=10.0, high=15.0, visits=3)
    difference = event_rates(visits, metric(source="difference"))["instructions"]
    assert difference.value == 10.0
    assert event_rates(visits, metric(source="companions")) == {}


def test_instructions_are_those_of_the_traced_copy_where_no_counter_counted_them() -> None:
    traced = outcome([sample(10)], counted=Counted(iterations=4, instructions=(40, 60)))
    assert event_rates([traced], metric())["instructions"] == EventRate(
        source="trace", value=5.0, low=5.0, high=5.0, visits=1
    )
    assert event_rates([traced, counted(20)], metric())["instructions"].source == "pmu"


def test_an_event_of_the_pmu_that_never_counts_is_dropped_and_an_account_of_0_is_kept() -> None:
    nothing = EventRate(source="pmu", value=0.0, low=0.0, high=0.0, visits=3)
    some = msgspec.structs.replace(nothing, high=0.2)
    account = msgspec.structs.replace(nothing, source="account")
    several = [
        row(1.0, counters={"stalled-cycles-backend": nothing, "branch-misses": nothing, "page-faults": account}),
        row(2.0, counters={"branch-misses": some}),
    ]
    assert [{*each.counters} for each in without_silent(several)] == [
        {"branch-misses", "page-faults"}, {"branch-misses"},
    ]  # fmt: skip


def rate(value: float, spread: float = 0.0, source: Any = "pmu") -> dict[str, EventRate]:
    low, high = value * (1 - spread), value * (1 + spread)
    return {"instructions": EventRate(source=source, value=value, low=low, high=high, visits=3)}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (rate(100), rate(100), True),
        (rate(100, 0.004), rate(100.5, 0.004), True),
        (rate(100), rate(100.5), False),
        (rate(100, 0.2), rate(105, 0.2), False),
        (rate(100), rate(100, source="trace"), False),
        (rate(100), {}, False),
    ],
    ids=["equal", "their visits overlap", "disjoint", "more than 1 % apart", "counted otherwise", "not counted"],
)
def test_instructions_are_the_same_only_where_both_counts_say_so(old: Any, new: Any, same: bool) -> None:
    assert same_instructions(old, new, 0.01) is same


def changed(old: dict[str, EventRate], new: dict[str, EventRate]) -> Comparison:
    several: list[Row] = [row(ns, 0.002, clock_hz=4e9, counters=counters) for ns, counters in ((10, old), (13, new))]
    before, after = ({row_key(each): each} for each in several)
    return of_rows(before, after, 1.0, 0.01)


def gated(comparison: Comparison) -> Gated:
    judged = [of_change(change, full_name(change.old), 0.05) for change in comparison.changes]
    return Gated(Compared((), (), (comparison,)), decide(judged), (), (), ())


def test_a_change_with_equal_instructions_is_the_machines_and_one_with_more_is_the_codes() -> None:
    comparisons = changed(rate(100), rate(100)), changed(rate(100), rate(130))
    moved, code = (comparison.changes[0] for comparison in comparisons)
    assert (moved.verdict, moved.cause, moved.same_instructions) == ("slower", "machine", True)
    assert (code.verdict, code.cause, code.same_instructions) == ("slower", "code", False)
    said, unsaid = (cause_sentence(comparison, "new") for comparison in comparisons)
    assert SAME_INSTRUCTIONS in said
    assert unsaid == ""
    gate, silent = ("\n".join(sentences(gated(comparison))) for comparison in comparisons)
    assert SAME_INSTRUCTIONS in gate and SAME_INSTRUCTIONS not in silent


def test_a_visit_is_asked_to_count_nothing_only_where_that_was_typed() -> None:
    silent = msgspec.structs.replace(VISIT, counters=False)
    assert {*words(silent)} - {*words(VISIT)} == {"--counters=off"}
    with pytest.raises(Failure, match="counters"):
        counters_named("of")


def test_misses_of_a_walk_bound_the_size_of_a_cache() -> None:
    walk = [
        row(1.0, parameters={"size": size}, counters={"LLC-load-misses": EventRate(
            source="pmu", value=misses, low=misses, high=misses, visits=3)})
        for size, misses in ((1, 0.0), (2, 0.05), (3, 0.5), (4, 0.95), (5, 1.0))
    ]  # fmt: skip
    assert missing_between(walk, "LLC-load-misses") == (2, 4)
    assert missing_between(walk, "L1-dcache-load-misses") is None
    assert missing_between(walk[:3], "LLC-load-misses") is None
