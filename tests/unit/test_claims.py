# SPDX-License-Identifier: Apache-2.0
"""Verdicts on the claims of all studies: on planted machines where a claim must hold, and where it must not."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import exp, inf, log
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from support.builders import metric, outcome, probe, row, sample
from support.example_runs import derived, empty, with_index, with_rows
from tollmeter.catalog import read_suite
from tollmeter.library.places import suites
from tollmeter.model import (
    Cache,
    Claim,
    Failure,
    Fall,
    Lengths,
    Level,
    Point,
    Published,
    Results,
    Row,
    RowOf,
    State,
    Suite,
)
from tollmeter.numbers.rows import rows
from tollmeter.plan.points import UNCLAIMED, claim_rank, on_machine
from tollmeter.studies.study import INSTRUCTIONS, MIXED, PREFETCH, bounds, judge_interval, study

SPREAD = 0.002
MEANS = {"own-vector": "planted.vectors", "control-loop": "planted.loop"}
PROBES = {
    name: probe(metric("cost", means=means), metric("together"), metric("load"), name=name)
    for means, name in MEANS.items()
}
ALL = {(suite.name, claim.what): claim for suite in suites().values() for claim in suite.published}
CLAIMING = {key: claim for key, claim in ALL.items() if claim.relation not in ("", "shown") or claim.value is not None}
MEASURED = {
    key: claim for key, claim in CLAIMING.items()
    if (claim.row or claim.order or claim.bend) and claim.relation != "shown"
}  # fmt: skip


def planted(wanted: RowOf, value: float, unit: str = "ns", **more: Any) -> Row:
    """What a machine measures that is asked for just this."""
    abi = wanted.abi if wanted.abi not in (None, "native") else "x86_64"
    target = (wanted.target or "local").replace("*", "board")
    return row(value, SPREAD, of=wanted.probe or MEANS[wanted.means or ""], name=wanted.metric or "cost", unit=unit,
               abi=abi, target=target, parameters=wanted.parameters, **more)  # fmt: skip


def rows_for(claim: Published, value: float) -> list[Row]:
    if claim.order:
        return [planted(wanted, 10.0 * value**place) for place, wanted in enumerate(claim.order)]
    if claim.row is None:
        return []
    if claim.unit == "turns":
        loop = planted(RowOf(means="control-loop", abi=claim.row.abi), 1e9, "op/s")
        return [planted(claim.row, value), loop]
    if claim.over is None:
        return [planted(claim.row, value, claim.unit)]
    return [planted(claim.row, 50.0 * value), planted(claim.over, 50.0)]


def machine(claim: Published, value: float) -> Results:
    suite = Suite(name="paper", question="?", source="s", published=(claim,))
    results = msgspec.structs.replace(with_rows(empty(), rows_for(claim, value)), suite=suite, probes=PROBES)
    results = derived(results)
    found = msgspec.structs.replace(results.index.machine, architecture="x86_64")
    index = msgspec.structs.replace(results.index, machine=found)
    if claim.bend:
        index = bent(index, claim, value)
    return msgspec.structs.replace(results, index=index)


def bent(index: Any, claim: Published, value: float) -> Any:
    """With a cache of 32 KiB whose curve, or the rate over it, bends at a multiple of its size."""
    assert claim.bend
    size = 32768 * value
    level = Level(level=claim.bend.level, size_bytes=size, size_low=size * 0.97,
                  size_high=size * 1.03, os_size_bytes=32768, latency_ns=1, latency_cycles=4,
                  read_bytes_per_second=1, parallelism=1)  # fmt: skip
    if claim.bend.rate is None:
        return msgspec.structs.replace(index, hierarchy=(level,))
    caches = (Cache(level=1, kind="instruction", size_bytes=1), Cache(level=1, kind="data", size_bytes=32768))
    index = msgspec.structs.replace(index, machine=msgspec.structs.replace(index.machine, caches=caches))
    rate = planted(claim.bend.rate, 1.0, "flop/s")
    fall = Fall(after_n=1, by_n=2, after_bytes=int(size * 0.9), by_bytes=int(size * 1.1), slower=2, lost_ns=1,
                least_ns=2, cause="memory")  # fmt: skip
    found = Lengths(probe=rate.probe, abi=rate.abi, target=rate.target, clock=rate.clock, metric=rate.metric,
                    parameters=rate.parameters, first_n=1, last_n=9, usual_ns=1, falls=(fall,))  # fmt: skip
    return msgspec.structs.replace(index, rows=(rate,), lengths=(found,))


def judged(results: Results) -> Claim:
    found = study(results)
    assert found is not None
    return found.claims[0]


def verdict(claim: Published, value: float) -> str:
    return judged(machine(claim, value)).verdict


# ---- every claim of the five studies ------------------------------------------------------------------------------


def right(claim: Published) -> float:
    value = claim.value
    fixed = {"more": 1.5, "less": 0.7, "ordering": 1.3, "same": 1.0, "crossing": 1.0}
    if claim.relation in fixed:
        return fixed[claim.relation]
    assert value is not None
    return {"at least": value * 1.3, "at most": value * 0.9 + 0.01}.get(claim.relation, value)


def wrong(claim: Published) -> tuple[float, ...]:
    value = 1.0 if claim.value is None else claim.value
    several: dict[str, tuple[float, ...]] = {
        "more": (0.7,), "less": (1.5,), "ordering": (0.8,), "same": (1.9, 0.55), "crossing": (5.0, 0.2),
        "at least": (value * 0.7,), "at most": (value * 1.5 + 0.5,),
        "change": (1 + 1.7 * (value - 1), 2 - value, 1.0),
    }  # fmt: skip
    return several.get(claim.relation, (value * 4, value / 4))


@pytest.mark.parametrize("key", MEASURED, ids=str)
def test_each_claim_holds_where_it_must_and_nowhere_else(key: tuple[str, str]) -> None:
    claim = MEASURED[key]
    assert verdict(claim, right(claim)) == "holds"
    for value in wrong(claim):
        assert verdict(claim, value) in ("same direction", "does not hold")


def test_a_size_that_depends_on_a_cache_is_requested_where_a_claim_needs_it() -> None:
    """A sweep has it on some machines and not on others."""
    for suite in suites().values():
        named = [one for claim in suite.published for one in (claim.row, claim.over, *claim.order) if one]
        for wanted in named:
            if "x" in (size := str(wanted.parameters.get("size", ""))):
                selected = [one for one in suite.select if fnmatchcase(wanted.probe or "", one.probe)]
                assert any(size in listed(one.parameters.get("size")) for one in selected), wanted


def listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def test_a_claim_without_a_row_cannot_be_judged() -> None:
    for key in CLAIMING.keys() - MEASURED.keys():
        found = judged(machine(CLAIMING[key], 1.0))
        assert found.verdict == "cannot tell" and found.reason, key


HAND: dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "eabi-2007": {
        "FIR, every": ((10, 9, 11.5), (1580, 44, 4.1, 0.9)),
        "Dot product with trapped": ((1.0, 0.95, 1.05), (1.9, 0.55, 1.3)),
        "Dot product from the library, N = 4096": ((1.0, 1.04, 0.95), (1.26, 1.8, 0.7)),
        "FIR by FPA": ((10, 8.5), (2, 175)),
        "FIR by FPU": ((10, 9.5, 11.3), (6.6, 1.0)),
        "Dot product by trapped FPU": ((1.0, 0.97), (1.9, 0.55)),
        "Dot product from the library: where": ((1.0, 1.4), (4, 0.1)),
    },
    "x32-2013": {
        "Reconstruction of 1000 events: physical": ((0.80, 0.78, 0.82), (0.674, 0.95, 1.2)),
        "Reconstruction of 1000 events: elapsed": ((0.98, 0.975), (0.55, 1.02, 1.0)),
        "Analysis of 10000 events: physical": ((0.79, 0.8), (0.5, 0.98)),
        "Analysis of 10000 events: elapsed": ((1.015,), (0.985, 1.15)),
        "mcf, x32 against x86-64": ((0.714, 0.7), (0.6, 0.45, 1.4, 0.97)),
        "mcf, x32 against ia32": ((1.02, 0.99), (1.4, 0.7)),
        "crafty: 64-bit integers, x32 against x86-64": ((0.971, 0.9615), (0.7, 1.03)),
        "crafty: 64-bit integers, x32 against ia32": ((0.714, 0.794), (0.5, 0.97, 1.4)),
        "64-bit integers, ia32": ((1.36, 1.25), (1.02, 3.0)),
        "omnetpp": ((0.62, 0.66), (0.9, 0.3, 1.38)),
        "dealII": ((0.9, 0.89), (0.82, 0.99, 1.1)),
        "malloc maps": ((33554432,), (16777216, 536450)),
        "The same on ia32": ((16777216,), (536450, 33554432)),
        "The same on x32": ((16777216,), (536450, 33554432)),
        "sbrk": ((0.01,), (0.99, 0.5)),
    },
    "rtems-2005": {
        "ipalign in the driver, against": ((1.5, 1.4, 1.6), (1.08, 2.2, 0.67)),
        "The receiver's busy time": ((1.6, 1.4, 1.8), (1.0, 2.4)),
        "On a CPU that traps: ipalign": ((1.5,), (1.12, 3)),
        "Patches in the stack and a memcpy by 16 bits, against ipalign": ((1.0, 1.02), (0.927, 1.2)),
        "Patches in the stack and a memcpy by 16 bits, against the one": ((1.5, 1.4), (1.0, 2.0)),
    },
    "speed-limits-2013": {
        "B: data abort": ((93.5, 110), (14, 944)),
        "B1: data abort": ((67.5, 69.4), (5, 400)),
        "B2: data abort": ((73, 77.5), (10, 500)),
        "C: SWI": ((90.1, 136), (2, 300)),
        "D: is this": ((398,), (40, 4000)),
        "D: the same, the object": ((959,), (90, 9000)),
        "The earlier": ((1.1, 1.3), (0.9, 1.0)),
        "Practical limit": ((93.5, 300), (30, 2.5)),
        "Finding the abort": ((1.28, 1.42), (1.01, 0.9)),
        "B against B1": ((1.38, 1.58), (2.8, 1.02, 0.8)),
        "C against B1": ((1.33, 1.96), (0.8, 1.0)),
        "C against B:": ((0.96, 1.24), (0.36, 2.0)),
        "Upper limit": ((67.5, 300), (30, 2.5)),
        "Reading the abort": ((1.2, 2), (0.97, 1.02)),
        "D: the object in another address space": ((2.4, 1.6), (0.9,)),
    },
    "cortex-a9-2009": {
        "Knee of the first": ((1.0, 0.9), (2.0, 0.25)),
        "Knee of the second": ((1.0, 1.1), (2.0, 0.25)),
        "Read bandwidth from memory, 2": ((2.0, 1.9), (1.03, 1.5)),
        "Read bandwidth from the first cache, 2": ((2.0, 1.95, 1.8), (1.03, 1.5, 4)),
        "Read bandwidth from memory, 4": ((2.0, 2.1), (1.0, 3.9)),
        "Read bandwidth from the first cache, 4": ((4, 3.7), (2, 1.1)),
        "STREAM": ((1.9, 1.8), (1.0, 1.4)),
        "Memory latency, 2": ((1.0, 1.05), (1.9, 0.55, 1.3)),
        "Memory latency, 4": ((1.2, 1.15), (1.0, 2.0, 0.8)),
        "Strides of 16": ((0.3, 0.55), (1.1, 1.0, 0.9)),
        "Memory latency while another CPU": ((1.0, 1.15), (2.0, 1.4)),
        "Loads at once from the second": ((4, 3.5), (24, 1.2)),
        "Loads at once from memory": ((2, 2.3), (14.7, 1.0)),
        "Switch among 24": ((1.4, 3.0), (1.0, 0.9)),
        "Peak of the switch": ((1.0, 1.19, 0.9), (5.0, 1.25)),
        "A dirty line from the other core, against memory": ((0.5, 0.4), (1.2, 0.97)),
        "A dirty line from the other core, against a clean": ((1.3,), (0.8,)),
        "Copy of": ((1.0, 1.08), (1.4, 0.7)),
    },
}
PLANTED = [
    (suite, what, value, good) for suite, claims in HAND.items() for what, ends in claims.items()
    for good, values in zip((True, False), ends, strict=True) for value in values
]  # fmt: skip


def test_enough_is_planted_by_hand() -> None:
    goods = [good for *_, good in PLANTED]
    assert goods.count(True) >= 40 and goods.count(False) >= 40
    for suite, what in MEASURED:
        told = {good for name, start, _, good in PLANTED if name == suite and what.startswith(start)}
        assert told == {True, False}, (suite, what)


@pytest.mark.parametrize(("suite", "what", "value", "good"), PLANTED)
def test_values_that_a_reader_would_call_right_hold_and_wrong_ones_do_not(
    suite: str, what: str, value: float, good: bool
) -> None:
    found = [claim for (name, text), claim in ALL.items() if name == suite and text.startswith(what)]
    assert len(found) == 1, f"{suite}: {what!r} begins {len(found)} claims: lengthen it in HAND"
    (claim,) = found
    assert (verdict(claim, value) == "holds") is good


# ---- machines near the edge -----------------------------------------------------------------------------------------

NEAR = 0.03
NOISES = (0.003, 0.04)
"""Of a visit's cost: a quiet machine, and one on which other programs run."""
EDGED = [key for key, claim in MEASURED.items() if claim.row and claim.unit in ("ratio", "turns")][::3][:15]


def edges(claim: Published) -> tuple[float, float]:
    """True values on both sides of one end of the range in which a claim holds."""
    low, high = bounds(claim) or (0.0, 0.0)
    end = high if low == -inf else low
    return end * (1 - NEAR), end * (1 + NEAR)


def visited(made: Row, noise: float, random: Random) -> Row:
    """The row as nine visits tell it that scatter by noise: what the analysis makes of them."""
    cost, described = random.uniform(40, 400), probe(metric("cost"))
    visits = [
        outcome([sample(of_visit * exp(random.gauss(0, noise / 3))) for _ in range(8)], visit=number, seed=number)
        for number in range(9) for of_visit in [cost * exp(random.gauss(0, noise))]
    ]  # fmt: skip
    (seen,) = rows(visits, {described.probe: described})
    assert made.median and seen.median and seen.low and seen.high
    scale = made.median / cost
    return msgspec.structs.replace(made, median=seen.median * scale, low=seen.low * scale, high=seen.high * scale,
                                   visits=seen.visits, layouts=seen.layouts)  # fmt: skip


def test_of_sixty_machines_near_an_edge_one_verdict_at_most_is_wrong() -> None:
    random, verdicts = Random("machines near the edges of claims"), []
    for key in EDGED:
        claim = ALL[key]
        for true in edges(claim):
            exact = judge_interval(claim, true, true, true).verdict
            for noise in NOISES:
                results = machine(claim, true)
                told = [visited(each, noise, random) for each in rows_for(claim, true)]
                found = judged(with_index(results, rows=tuple(told))).verdict
                verdicts.append((noise, found == exact, found not in ("cannot tell", exact)))
    assert len(verdicts) == 60
    assert sum(wrong for *_, wrong in verdicts) <= 1
    quiet = [right for noise, right, _ in verdicts if noise == NOISES[0]]
    assert sum(quiet) >= len(quiet) / 2, "no verdict at all would never be wrong"


# ---- the rule -----------------------------------------------------------------------------------------------------


def claim(relation: str, value: float | None = None, **more: Any) -> Published:
    old, new = (RowOf(probe="any.entry", parameters={"way": way}) for way in ("old", "new"))
    given = {"what": "w", "figure": "f", "unit": "ratio", "row": new, "over": old, **more}
    return msgspec.convert({**msgspec.to_builtins(given), "relation": relation, "value": value}, Published)


def of_interval(made: Published, low: float, high: float) -> Claim:
    assert made.row and made.over
    rows = [planted(made.row, (low * high) ** 0.5), planted(made.over, 1.0)]
    exact = [msgspec.structs.replace(rows[0], low=low, high=high), msgspec.structs.replace(rows[1], low=1.0, high=1.0)]
    return judged(msgspec.structs.replace(
        with_rows(empty(), exact), suite=Suite(name="paper", question="?", published=(made,))
    ))  # fmt: skip


@pytest.mark.parametrize(("made", "low", "high", "verdict"), [
    (claim("same", 1.0), 0.95, 1.05, "holds"), (claim("same", 1.0), 1.1, 2.1, "does not hold"),
    (claim("same", 1.0), 0.95, 1.2, "cannot tell"), (claim("at most", 1.2), 1.1, 1.19, "holds"),
    (claim("at most", 1.2), 1.1, 1.3, "cannot tell"), (claim("about", 10.0), 9, 11, "holds"),
    (claim("about", 10.0), 9, 30, "cannot tell"), (claim("about", 10.0), 20, 30, "same direction"),
    (claim("about", 2.0), 1.02, 1.04, "does not hold"), (claim("change", 0.98), 0.54, 0.56, "same direction"),
    (claim("change", 0.8), 0.7, 1.4, "cannot tell"), (claim("about", 1.5), 1.15, 1.33, "cannot tell"),
    (claim("about", 1.5), 1.15, 1.19, "same direction"), (claim("about", 2.0), 1.4, 2.3, "cannot tell"),
    (claim("about", 10.0), 1.2, 30, "cannot tell"), (claim("about", 10.0), 0.5, 2.0, "does not hold"),
    (claim("about", 2.0), 1.3, 50.0, "cannot tell"),
    (claim("change", 0.714), 0.872, 0.946, "cannot tell"), (claim("change", 0.714), 0.872, 0.92, "same direction"),
    (claim("change", 0.714), 0.94, 0.99, "does not hold"),
    (claim("change", 0.714), 0.87, 1.01, "cannot tell"), (claim("change", 0.62), 0.83, 0.84, "same direction"),
    (claim("more"), 1.04, 4.0, "holds"), (claim("more"), 1.01, 4.0, "cannot tell"),
    (claim("more"), 0.98, 1.02, "does not hold"),
    (claim("more"), 0.9, 4.0, "cannot tell"), (claim("less"), 1.0, 1.0, "does not hold"),
])  # fmt: skip
def test_a_claim_holds_where_the_whole_interval_satisfies_it_and_fails_where_no_part_does(
    made: Published, low: float, high: float, verdict: str
) -> None:
    found = of_interval(made, low, high)
    assert found.verdict == verdict
    assert bool(found.reason) == (verdict == "cannot tell")


@pytest.mark.parametrize(("made", "here", "times"), [
    (claim("about", 10.0), 1580.0, 1579 / 9), (claim("about", 10.0), 4.1, 3.1 / 9),
    (claim("change", 0.62), 0.86, 0.368), (claim("change", 1.2), 1.6, 3.0), (claim("about", 0.5), 0.05, 1.9),
    (claim("about", 2.0), 1.3, 0.3),
])  # fmt: skip
def test_the_size_of_an_effect_is_its_difference_from_one(made: Published, here: float, times: float) -> None:
    found = of_interval(made, here * 0.999, here * 1.001)
    assert (found.verdict, found.times) == ("same direction", pytest.approx(times, rel=0.01))


@pytest.mark.parametrize("width", [0.005, 0.02, 0.05, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("made", [claim("about", 2.0), claim("change", 0.8), claim("same", 1.0), claim("at most", 1.2)],
                         ids=["doubles", "-20 %", "the same", "at most"])  # fmt: skip
def test_noise_makes_a_verdict_inconclusive_and_not_wrong(made: Published, width: float) -> None:
    """True ratios all over and around the claim's own edges, measured with intervals that hold in 95 of 100: a verdict
    is that of an exact measurement, or inconclusive, in as many."""
    random = Random(f"{made.relation}{width}")
    wrong = tried = 0
    for _ in range(1500):
        true = exp(random.uniform(log(0.4), log(3.5)))
        here = true * exp(random.gauss(0, width / 1.96))
        found = judge_interval(made, here, here * exp(-width), here * exp(width)).verdict
        wrong += found not in ("cannot tell", judge_interval(made, true, true, true).verdict)
        tried += found != "cannot tell"
    assert wrong <= 0.05 * 1500
    assert tried > 0


def in_state(made: Row, state: str, *others: tuple[str, float]) -> Row:
    seen = tuple(State(state=name, share=0.5, median=cost, low=cost * 0.99, high=cost * 1.01) for name, cost in others)
    return msgspec.structs.replace(made, state=state, states=seen)  # type: ignore[arg-type]


def with_states(new: tuple[Any, ...], old: tuple[Any, ...]) -> Claim:
    made = claim("about", 2.0)
    assert made.row and made.over
    rows = [in_state(planted(made.row, 20.0), *new), in_state(planted(made.over, 10.0), *old)]
    return judged(msgspec.structs.replace(
        with_rows(empty(), rows), suite=Suite(name="paper", question="?", published=(made,))
    ))  # fmt: skip


def test_a_ratio_never_mixes_states_of_the_core() -> None:
    assert with_states(("uncontended",), ("uncontended",)).verdict == "holds"
    mixed = with_states(("all",), ("uncontended",))
    assert (mixed.verdict, mixed.reason) == ("cannot tell", MIXED)
    both = with_states(("all", ("all", 20.0)), ("uncontended", ("uncontended", 10.0), ("all", 19.0)))
    assert (both.verdict, both.here) == ("does not hold", pytest.approx(20 / 19))


def on_clock(made: Published, clock: str) -> Claim:
    assert made.row and made.over
    rows = [planted(made.row, 20.0, clock=clock), planted(made.over, 10.0, clock=clock)]
    return judged(msgspec.structs.replace(
        with_rows(empty(), rows), suite=Suite(name="paper", question="?", published=(made,))
    ))  # fmt: skip


def test_a_count_answers_no_claim_of_a_time() -> None:
    """Of a handler that contains the other it would hold by construction."""
    timed, counted = claim("about", 2.0), claim("about", 2.0, about="instructions")
    strict = claim("about", 2.0, about="instructions", requires=["own clock"])
    assert on_clock(timed, "hardware").verdict == on_clock(counted, "instructions").verdict == "holds"
    for made, clock in ((timed, "virtual"), (strict, "instructions")):
        found = on_clock(made, clock)
        assert (found.verdict, found.reason, found.here) == ("cannot tell", INSTRUCTIONS, pytest.approx(2.0))


def test_a_condition_that_is_not_met_is_stated_or_prevents_a_verdict() -> None:
    stated = on_clock(claim("about", 2.0, requires=["prefetch off"]), "hardware")
    assert (stated.verdict, stated.unmet) == ("holds", (PREFETCH,))
    assert on_clock(claim("about", 2.0, requires=["strict CPU"]), "hardware").verdict == "cannot tell"


def test_a_rate_that_falls_for_another_cause_refutes_the_cache() -> None:
    made = next(one for one in ALL.values() if one.bend and one.bend.rate)
    results = machine(made, 1.0)
    for cause, verdict in (("length", "does not hold"), ("unknown", "cannot tell")):
        fall = msgspec.structs.replace(results.index.lengths[0].falls[0], cause=cause)
        lengths = (msgspec.structs.replace(results.index.lengths[0], falls=(fall,)),)
        index = msgspec.structs.replace(results.index, lengths=lengths)
        found = judged(msgspec.structs.replace(results, index=index))
        assert found.verdict == verdict and found.reason


def test_the_tally_counts_what_the_source_printed_and_only_that() -> None:
    claims = (claim("about", 2.0), claim("about", 9.0), claim("about", 2.0, counted=False), claim("", None),
              claim("shown", 2.0), claim("same", 1.0, row=RowOf(probe="not.here")),
              claim("same", 1.0, row=None, missing="A setting that no program changes."))  # fmt: skip
    assert claims[0].row and claims[0].over
    rows = [planted(claims[0].row, 20.0), planted(claims[0].over, 10.0)]
    suite = Suite(name="paper", question="?", published=claims)
    found = study(msgspec.structs.replace(with_rows(empty(), rows), suite=suite))
    assert found and (found.tally.holds, found.tally.does_not_hold, found.tally.cannot_tell) == (1, 1, 1)


def test_the_rows_of_an_ordering_are_points_of_the_plan_as_a_claim_s_row_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('''
question = "?"
source = "A paper"
select = [{ probe = "any.entry" }]
published = [{ what = "a", figure = "b", relation = "ordering", order = [
  { probe = "any.entry", parameters = { size = "0.5xL1" } }, { probe = "any.entry", parameters = { size = 8 } } ] }]
''')  # fmt: skip
    caches = (Cache(level=1, kind="data", size_bytes=32768, line_bytes=64),)
    suite = on_machine(read_suite(file), msgspec.structs.replace(empty().index.machine, caches=caches))
    assert [wanted.parameters["size"] for wanted in suite.published[0].order] == [16384, 8]
    ranks = [
        claim_rank(suite, Point(probe="any.entry", abi="x86_64", target="local", parameters=(("size", size),)))
        for size in (16384, 8, 9)
    ]  # fmt: skip
    assert ranks == [0, 0, UNCLAIMED]


@pytest.mark.parametrize("keys", [
    'relation = "about"', 'relation = "ordering"', 'relation = "crossing"', 'relation = "nearly"', "tolerance = -1",
])  # fmt: skip
def test_a_claim_that_cannot_be_judged_as_written_is_refused(tmp_path: Path, keys: str) -> None:
    file = tmp_path / "mine.toml"
    claim = f'[[published]]\nwhat = "a"\nfigure = "b"\nrow = {{ probe = "any.entry" }}\n{keys}\n'
    file.write_text(f'question = "?"\nselect = [{{ probe = "any.entry" }}]\n{claim}')
    with pytest.raises(Failure, match="mine"):
        read_suite(file)
