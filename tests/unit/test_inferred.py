# SPDX-License-Identifier: Apache-2.0
"""What is inferred stands once, in records: a number in its interval, a yes or no without one, or why neither."""

from __future__ import annotations

import msgspec

from support.builders import metric, probe, row
from support.example_runs import derived, empty, with_index, with_rows
from tollmeter.findings import all_findings
from tollmeter.model import Cache, Inference, Results, Row, Value

MEANINGS = ("line-pair-of-distance", "write-policy", "write-policy-baseline", "latency-of-stride",
            "bandwidth-of-instances", "translation-of-pages", "latency-of-traffic", "traffic-beside")  # fmt: skip
PROBES = {f"any.{means}": probe(metric(means=means), name=f"any.{means}") for means in MEANINGS}
LINES = tuple({"distance": distance} for distance in (16, 32, 48, 64, 96, 128))


def of(means: str, median: float, **parameters: Value) -> Row:
    return row(median, of=f"any.{means}", parameters=dict(parameters))


def results(*rows: Row, line_bytes: int = 64) -> Results:
    bare = msgspec.structs.replace(with_rows(empty(), rows), probes=PROBES)
    cache = Cache(level=1, kind="data", size_bytes=49152, line_bytes=line_bytes)
    machine = msgspec.structs.replace(bare.index.machine, caches=(cache,))
    return derived(with_index(bare, machine=machine))


def inferred(*rows: Row) -> dict[str, Inference]:
    return {one.kind: one for one in results(*rows).index.inferred}


def pairs() -> list[Row]:
    return [of("line-pair-of-distance", 0.5 if at["distance"] < 64 else 9.0, **at) for at in LINES]


def test_a_number_stands_in_its_interval_beside_the_systems_word() -> None:
    line = inferred(*pairs())["line"]
    assert (line.value, line.unit, line.system, line.reason) == (64.0, "B", "64 B", None)
    assert line.low is not None and line.high is not None and line.low <= 64 <= line.high


def test_a_property_that_was_not_resolved_has_a_reason_and_no_number() -> None:
    found = inferred(of("line-pair-of-distance", 1.0, distance=16), of("translation-of-pages", 1.0, count=8))
    for kind in ("line", "translations"):
        one = found[kind]
        assert (one.value, one.low, one.high) == (None, None, None) and one.reason


def test_a_yes_or_no_has_no_interval_and_what_it_was_judged_by_has_one() -> None:
    strides = [of("latency-of-stride", ns, order=order, stride=256, size=1 << 26)
               for order, ns in (("forward", 10.0), ("backward", 95.0), ("random", 100.0))]  # fmt: skip
    told = {(one.kind, one.parameters["direction"]): one for one in results(*strides).index.inferred}
    assert [told["prefetched", way].value for way in ("forward", "backward")] == [True, False]
    assert (told["prefetched", "forward"].low, told["prefetched", "forward"].unit) == (None, None)
    gain = told["prefetch_gain", "forward"]
    assert (gain.value, gain.unit, gain.parameters["stride"]) == (10.0, "ratio", 256)
    assert gain.low is not None and gain.low < 10


def test_a_load_curve_reports_both_ends_the_rise_and_the_knee() -> None:
    load = probe(metric("load", means="latency-of-traffic"), metric("beside", "B/s", means="traffic-beside"), name="l")
    rows = [one for delay, ns, rate in ((0, 300.0, 9e9), (64, 120.0, 6e9), (128, 100.0, 1e9))
            for one in (row(ns, of="l", name="load", parameters={"delay": delay, "mix": "read"}),
                        row(rate, of="l", name="beside", unit="B/s", parameters={"delay": delay, "mix": "read"}))
            ]  # fmt: skip
    bare = msgspec.structs.replace(with_rows(empty(), rows), probes={"l": load})
    told = {one.kind: one for one in derived(bare).index.inferred}
    ends = [told[kind].value for kind in ("idle_latency", "loaded_latency", "most_traffic")]
    assert ends == [100.0, 300.0, 9e9]
    assert told["latency_rise"].value == 3.0 and told["latency_knee"].unit == "B/s"
    assert told["latency_knee"].parameters == {"mix": "read"}


def test_findings_read_the_records_and_infer_nothing_again() -> None:
    other = results(*pairs(), line_bytes=128)
    assert [finding.name for finding in all_findings(other)] == ["memory.line_disagrees"]
    without = with_index(other, inferred=())
    assert not all_findings(without)


def test_nothing_is_inferred_of_what_was_not_measured() -> None:
    assert results().index.inferred == ()
