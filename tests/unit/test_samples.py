# SPDX-License-Identifier: Apache-2.0
"""Samples are kept as columns and come back as they were, alone or together with thousands of others."""

from __future__ import annotations

import random

import pytest

from support.builders import outcome, probe, quiet
from tollmeter.experiment.taken import Taken
from tollmeter.model import Columns, Outcome, Sample, Samples, Witness
from tollmeter.numbers.readings import Reading, readings

MOST = 2**63 - 1


def any_sample(chance: random.Random) -> Sample:
    """Of all that a record may hold, what the system does not tell too."""
    most = chance.choice((1, 100, 40_000, 10**10, MOST))
    maybe = [chance.choice((None, 0, chance.randrange(most + 1))) for _ in range(6)]
    witness = Witness(
        involuntary=maybe[0], voluntary=maybe[1], minor_faults=maybe[2], major_faults=maybe[3], steal_ticks=maybe[4],
        delay_ns=maybe[5], cpu_before=chance.randrange(-1, 300), cpu_after=-1, frequency_khz=chance.randrange(most + 1),
        control_hz=chance.random() * 4e9, width_between_hz=chance.choice((0.0, 1e300)),
    )  # fmt: skip
    times = [chance.randrange(most + 1) for _ in range(5)]
    return Sample(
        iterations=times[0], body=(times[1], times[2]), control=chance.choice((None, (times[3], times[4]))),
        lanes=chance.choice(((), ((3, 4), (most, 5)))), witness=witness, control_iterations=chance.randrange(most + 1),
        at_ns=chance.randrange(most + 1),
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 13, 300])
def test_what_goes_in_comes_out(count: int) -> None:
    """Three hundred are packed."""
    chance = random.Random(count)
    samples = tuple(any_sample(chance) for _ in range(count))
    kept = Samples.of(samples)
    assert kept == samples and samples == kept and len(kept) == count
    assert kept[-1:] == samples[-1:]
    assert not count or (kept[0], kept[-1]) == (samples[0], samples[-1])
    with pytest.raises(IndexError):
        kept[count]


@pytest.mark.parametrize("most", [2**7, 2**15, 2**31])
def test_the_first_number_that_a_width_does_not_hold_keeps_its_sign(most: int) -> None:
    several = [Sample(iterations=count, body=(1, 2)) for count in (most - 1, most)]
    assert [sample.iterations for sample in Samples.of(several)] == [most - 1, most]


def test_packed_columns_take_few_bytes() -> None:
    chance = random.Random(1)
    witnesses = [quiet(delay_ns=chance.randrange(100), control_hz=chance.random()) for _ in range(1000)]
    kept = Samples.of([Sample(iterations=10**6 + i, body=(i, 2 * i), witness=w) for i, w in enumerate(witnesses)])
    names = ("iterations", "body_n", "delay_ns", "control_n", "cpu_before", "control_hz")
    assert {name: kept.column(name).strides[0] for name in names} == {
        "iterations": 4, "body_n": 2, "delay_ns": 1, "control_n": 0, "cpu_before": 0, "control_hz": 8,
    }  # fmt: skip


def test_a_block_takes_visits_until_it_is_read_and_separates_them() -> None:
    chance, columns = random.Random(7), Columns()
    visits = [tuple(any_sample(chance) for _ in range(count)) for count in (3, 0, 2)]
    kept = [columns.add(samples, [one.witness for one in samples]) for samples in visits]
    assert columns.is_open()
    assert list(map(tuple, kept)) == visits
    assert not columns.is_open()


def test_evidence_is_missing_only_where_no_sample_has_it() -> None:
    columns = Columns()
    told = [[Witness(delay_ns=5)], [Witness(delay_ns=5), Witness(involuntary=0)], [Witness(involuntary=None)]]
    visits = [columns.add([Sample(iterations=1, body=(1, 2))] * len(seen), seen) for seen in told]
    assert [visit.lacks("delay_ns") for visit in visits] == [False, True, True]
    assert [visit.lacks("delay_ns", "involuntary") for visit in visits] == [False, False, True]
    assert not Samples.of(()).lacks("delay_ns")


def several() -> list[Outcome]:
    chance = random.Random(3)

    def one() -> Sample:
        took = chance.randrange(100_000, 110_000)
        rates = [chance.choice((4e9, 4e9, 4e9, 3e9)) for _ in range(2)]
        wide = chance.choice((4, 4, 4, 2.4))
        widths = [wide * rate for rate in rates]
        seen = quiet(
            delay_ns=chance.choice((0, 0, 0, 10**6)), control_before_hz=rates[0], control_hz=rates[1],
            width_before_hz=widths[0], width_between_hz=chance.choice((0.0, wide * 4e9, 1e10)), width_hz=widths[1],
        )  # fmt: skip
        return Sample(iterations=1000, body=(took, 2 * took), control=(took // 9, took // 4), witness=seen)

    return [outcome([one() for _ in range(chance.choice((0, 1, 12)))], visit=visit) for visit in range(20)]


def said(read: Reading) -> list[object]:
    arrays = read.iterations, read.body, read.control_iterations, read.control, read.states
    return [read.clock_hz, read.workers, read.discarded, *(None if one is None else one.tolist() for one in arrays)]


def test_visits_say_together_what_each_says_alone() -> None:
    visits = several()
    probes = [probe(switches=visit.visit % 3 == 0) for visit in visits]
    widths = [0.0 if visit.visit % 7 == 0 else 4.0 for visit in visits]
    together = [said(read) for read in readings(visits, probes, widths)]
    assert together == [
        said(readings(*([one] for one in each))[0]) for each in zip(visits, probes, widths, strict=True)
    ]
    states = {state for read in together for state in read[-1]}  # type: ignore[attr-defined]
    assert states == {"uncontended", "contended", "unknown"} and any(read[2] for read in together)


def test_a_table_has_the_samples_of_its_visits_in_their_order() -> None:
    """Those that stand one behind the other in a block, and those that do not."""
    columns = Columns()
    visits = [columns.add([Sample(iterations=i, body=(1, 2))] * 2, [Witness()] * 2) for i in range(5)]
    chosen = [visits[3], visits[0], visits[1], Samples.of([Sample(iterations=9, body=(1, 2))]), visits[2]]
    assert Taken(chosen).column("iterations").tolist() == [3, 3, 0, 0, 1, 1, 9, 2, 2]
