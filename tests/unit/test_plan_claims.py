# SPDX-License-Identifier: Apache-2.0
"""A claim about what its probe does not have is refused before a run; one whose row is not planned is named."""

from __future__ import annotations

from typing import Any

import pytest

from support.fake_catalog import KIB, MACHINE, PROBES, catalog
from tollmeter.catalog import indexed
from tollmeter.library.places import suites
from tollmeter.model import Bend, Failure, Published, RowOf, Select, Suite
from tollmeter.plan import make_plan
from tollmeter.plan.claims import check_claims, rows_of, unplanned_claims
from tollmeter.root import ROOT

KNOWN = {probe.probe: probe for probe in PROBES}


BOTH = (Select(probe="*", abi=("native", "ia32")),)


def suite_of(*published: Published, select: tuple[Select, ...] = BOTH) -> Suite:
    return Suite(name="mine", question="?", select=select, source="A paper", published=published)


def claim(**more: Any) -> Published:
    return Published(what="Saturation", figure="8", value=8.0, **more)


CHAINS = RowOf(probe="memory.parallel", metric="cost", parameters={"chains": 8, "pages": "huge"})
REFUSED = [
    (RowOf(probe="memory.parallel", metric="hops"), "memory.parallel has no metric 'hops'; it has cost"),
    (RowOf(probe="memory.parallel", parameters={"chain": 8}),
     "memory.parallel has no parameter 'chain'; it has chains, pages"),
    (RowOf(probe="kernel.enter", parameters={"way": "old"}), "kernel.enter has no parameter 'way'; it has none"),
    (RowOf(probe="memory.parallel", parameters={"pages": "giant"}),
     "pages of memory.parallel has no value 'giant'; it has small, huge"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "sentence"), REFUSED)
def test_a_claim_about_what_its_probe_does_not_have_is_refused(row: RowOf, sentence: str) -> None:
    for made in (
        claim(row=row), claim(row=CHAINS, over=row), claim(order=(CHAINS, row)), claim(bend=Bend(level="L1d", rate=row))
    ):  # fmt: skip
        with pytest.raises(Failure) as told:
            check_claims(suite_of(made), KNOWN)
        assert (told.value.sentence, told.value.exit_code) == (f"mine: claim 'Saturation': {sentence}", 2)


def test_a_claim_about_a_meaning_or_about_a_probe_that_is_not_built_is_accepted() -> None:
    check_claims(suite_of(claim(row=RowOf(means="entry")), claim(row=RowOf(probe="other.probe", metric="hops"))), KNOWN)
    check_claims(suite_of(claim(row=CHAINS)), KNOWN)


def test_the_claims_of_all_suites_name_what_their_probes_have() -> None:
    probes = indexed(ROOT)
    rows = [row for suite in suites().values() for claim in suite.published for row in rows_of(claim) if row.probe]
    assert len(rows) > 100 and {row.probe for row in rows} <= probes.keys()
    for suite in suites().values():
        check_claims(suite, probes)


PLANNED = [
    CHAINS, RowOf(probe="memory.parallel", abi="ia32"), RowOf(means="entry", abi="native"),
    RowOf(probe="memory.latency", parameters={"size": 20 * KIB, "pages": "small"}),
]  # fmt: skip
UNPLANNED = [
    RowOf(probe="memory.parallel", parameters={"chains": 16}), RowOf(probe="memory.parallel", abi="arm-soft"),
    RowOf(means="trap"), RowOf(probe="memory.parallel", target="board:*"),
    RowOf(probe="memory.parallel", metric="hops"),
]  # fmt: skip


def test_claims_without_a_planned_row_are_found_with_the_row() -> None:
    published = (
        *(claim(row=row) for row in PLANNED), *(claim(row=CHAINS, over=row) for row in UNPLANNED),
        claim(missing="No board is here."),
    )  # fmt: skip
    plan = make_plan(suite_of(*published), catalog(), MACHINE, budget_seconds=1000, seed=1)
    assert 20 * KIB not in {point.values().get("size") for point in plan.points()}
    assert [row for _, row in unplanned_claims(plan)] == UNPLANNED
    left_out = (Select(probe="kernel.enter"), Select(probe="memory.latency"))
    plan = make_plan(suite_of(claim(row=CHAINS), select=left_out), catalog(), MACHINE, budget_seconds=1000, seed=1)
    assert [row for _, row in unplanned_claims(plan)] == [CHAINS]
