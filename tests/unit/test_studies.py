# SPDX-License-Identifier: Apache-2.0
"""Whether what a study published holds here, or why that cannot be judged; what is printed of it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from support.builders import metric, probe, row
from support.example_runs import empty, healthy, of_probes, with_index
from tollmeter.model import Claim, Inference, Published, Results, Row, RowOf, Select, Suite
from tollmeter.report import studies as words
from tollmeter.report.blocks import Table
from tollmeter.report.headline import headline
from tollmeter.store.document import read_document, schema
from tollmeter.store.index import NAME, index_fingerprint, load_index, save_index
from tollmeter.studies.claim_rows import measured_claim, timed_by
from tollmeter.studies.matching_rows import HOSTED, NOT_TOGETHER
from tollmeter.studies.study import NO_NUMBER, study

ENTRY = probe(metric("trip", means="entry"), metric("exits", unit="count", means="guest-exits"), name="any.entry")
YES = Inference(name="kept", kind="write_back", value=True, low=None, high=None, unit=None)
UNKNOWN = Inference(
    name="line", kind="line", value=None, low=None, high=None, unit="B", system="64 B", reason="nothing was timed"
)
OLD, NEW = RowOf(probe="any.entry", parameters={"way": "old"}), RowOf(probe="any.entry", parameters={"way": "new"})


def entry(way: str, median: float | None, spread: float = 0.01, **more: Any) -> Row:
    return row(median, spread, of="any.entry", name="trip", parameters={"way": way}, **more)


def results(rows: list[Row], *published: Published) -> Results:
    suite = Suite(name="old-paper", question="?", select=(Select(probe="*"),), source="A paper", published=published)
    return of_probes(rows, ENTRY, suite=suite)


def claim(value: float | None, unit: str = "ns", **more: Any) -> Published:
    return Published(figure="as published", value=value, unit=unit, **{"what": "entry", "row": NEW, **more})


def judged(rows: list[Row], published: Published) -> Claim:
    found = study(results(rows, published))
    assert found is not None
    (only,) = found.claims
    return only


@pytest.mark.parametrize(("published", "verdict"), [(100.0, "holds"), (120.0, "holds"), (140.0, "does not hold"),
                                                    (85.0, "holds"), (75.0, "does not hold")])  # fmt: skip
def test_a_number_without_a_relation_is_about_right_within_a_quarter(published: float, verdict: str) -> None:
    told = judged([entry("new", 100.0)], claim(published))
    assert (told.verdict, told.here, told.unit, told.reason) == (verdict, 100.0, "ns", None)


@pytest.mark.parametrize(
    ("here", "spread", "published", "verdict"),
    [(10.4, 0.01, 10.0, "holds"), (0.9, 0.01, 10.0, "does not hold"), (0.3, 0.01, 0.5, "same direction"),
     (1.1, 0.2, 1.2, "cannot tell"), (1.0, 0.01, 10.0, "does not hold"), (1.9, 0.01, 1.0, "does not hold"),
     (1.01, 0.01, 1.0, "holds"), (1329.0, 0.01, 10.0, "same direction")],
)  # fmt: skip
def test_a_ratio_without_a_relation_is_about_right_or_the_same(
    here: float, spread: float, published: float, verdict: str
) -> None:
    rows = [entry("new", 100.0 * here, spread), entry("old", 100.0, spread)]
    told = judged(rows, claim(published, "ratio", over=OLD))
    assert told.verdict == verdict
    assert told.low is not None and told.high is not None and told.low < here < told.high
    assert bool(told.reason) == (verdict == "cannot tell")
    effect = pytest.approx((here - 1) / (published - 1)) if verdict == "same direction" else None
    assert told.times == effect


def test_what_cannot_be_told_says_why() -> None:
    gap = judged([entry("new", None, status="failed")], claim(100.0))
    assert (gap.verdict, gap.here) == ("cannot tell", None)
    assert "because" in (gap.reason or "")
    for told in (judged([entry("new", 100.0)], claim(None)), judged([entry("new", 100.0)], claim(100.0, "B"))):
        assert told.verdict == "cannot tell" and told.reason and told.here == 100.0
    assert judged([], claim(1.0, row=None, missing="No board is here.")).reason == "No board is here."


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [(RowOf(probe="any.entry", parameters={"way": "none"}), "any.entry way=none"),
     (RowOf(probe="any.entry", metric="exits", abi="x86_64", parameters={"way": "new"}),
      "any.entry exits way=new for x86_64"),
     (RowOf(probe="any.entry", abi="x32", parameters={"way": "new"}), "any.entry for x32"),
     (RowOf(probe="other.probe", parameters={"way": "new"}), "other.probe"), (RowOf(means="trap"), "trap")],
)  # fmt: skip
def test_a_row_that_this_run_lacks_is_named_as_far_as_no_other_row_matches(wanted: RowOf, lacking: str) -> None:
    told = judged([entry("new", 100.0)], claim(100.0, row=wanted))
    assert told.reason == f"This run has no row of {lacking}."


def test_of_several_rows_the_middle_stands_and_the_ends_of_all() -> None:
    rows = [entry(way, 100.0 * place) for place, way in enumerate(("a", "b", "c"), start=1)]
    told = judged(rows, claim(300.0, row=RowOf(probe="any.entry")))
    assert (told.here, told.low, told.high, told.verdict) == (200.0, 99.0, pytest.approx(303.0), "cannot tell")


IN_GUEST: dict[str, Any] = {"target": "guest:x", "clock": "virtual"}


def test_a_guest_s_rows_and_this_machine_s_are_never_in_one_answer() -> None:
    here = [entry("new", 200.0), entry("old", 100.0)]
    there = [entry("new", 900.0, **IN_GUEST), entry("old", 100.0, **IN_GUEST)]
    told = judged([*there, *here], claim(2.0, "ratio", over=OLD))
    assert (told.here, told.high is not None and told.high < 3) == (pytest.approx(2.0), True)
    apart = judged([here[0], there[1]], claim(2.0, "ratio", over=OLD))
    assert (apart.here, apart.reason) == (None, NOT_TOGETHER)
    assert judged([*there, here[1]], claim(9.0, "ratio", over=OLD)).here == pytest.approx(9.0)


@pytest.mark.parametrize("about", ["caches", "time"])
def test_a_claim_about_caches_or_time_is_not_answered_where_there_are_none(about: str) -> None:
    there = [entry("new", 900.0, **IN_GUEST), entry("old", 100.0, **IN_GUEST)]
    told = judged(there, claim(9.0, "ratio", over=OLD, about=about))
    assert (told.verdict, told.here) == ("cannot tell", None)
    assert "guest:x" in (told.reason or "")
    here = [entry("new", 200.0), entry("old", 100.0)]
    assert judged([*there, *here], claim(2.0, "ratio", over=OLD, about=about)).here == pytest.approx(2.0)


@pytest.mark.parametrize(("unit", "said"), [("ns", "In virtual time of guest:x. Boot it."),
                                            ("B", "Counted by the kernel of guest:x."),
                                            ("fault", "Counted by the kernel of guest:x.")])  # fmt: skip
def test_what_a_guest_s_kernel_counts_is_no_virtual_time(unit: str, said: str) -> None:
    of = results([entry("new", 9.0, unit=unit, **IN_GUEST)], claim(9.0, unit))
    assert of.suite
    of = msgspec.structs.replace(of, suite=msgspec.structs.replace(of.suite, mend="Boot it."))
    assert timed_by(of, measured_claim(of, of.suite.published[0])) == said  # type: ignore[union-attr]
    on_hardware = results([entry("new", 9.0, unit=unit)], claim(9.0, unit))
    assert timed_by(on_hardware, measured_claim(on_hardware, claim(9.0, unit))) == ""


def test_a_run_of_no_study_has_none() -> None:
    assert study(empty()) is None
    assert study(results([])) is None


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("journal.jsonl", "run.toml"):
        (tmp_path / name).touch()
    return tmp_path


def test_claims_inferences_and_tolls_are_kept_in_the_index_beside_the_run(run: Path) -> None:
    whole = msgspec.structs.replace(healthy(("x86_64",), visits=4).index, format=3)
    told = study(results([entry("new", 100.0)], claim(100.0), claim(None)))
    index = msgspec.structs.replace(whole, inferred=(*whole.inferred, YES, UNKNOWN), study=told)
    assert index.tolls and index.study
    save_index(run, index_fingerprint(run), index)
    assert load_index(run) == index


def test_a_kept_index_that_says_what_cannot_be_is_made_anew(run: Path) -> None:
    index = msgspec.structs.replace(healthy(("x86_64",), visits=4).index, format=3)
    save_index(run, index_fingerprint(run), index)
    with sqlite3.connect(run / NAME) as db:
        db.execute("UPDATE tolls SET low = high * 2")
    db.close()
    assert load_index(run) is None


def test_the_claims_are_in_the_document_and_keep_to_the_schema() -> None:
    of = results([entry("new", 100.0)], claim(100.0), claim(None))
    index = msgspec.structs.replace(of.index, format=3, study=study(of))
    printed = json.loads(msgspec.json.encode(index))
    jsonschema.validate(printed, schema())
    assert read_document(json.dumps(printed)) == index
    printed["study"]["claims"][1]["reason"] = None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, schema())


def test_a_count_of_instructions_is_held_against_no_time() -> None:
    told = judged([entry("new", 100.0, clock="virtual")], claim(100.0))
    assert (told.verdict, told.here) == ("cannot tell", 100.0)
    ratio = judged(
        [entry("new", 100.0, clock="virtual"), entry("old", 50.0, clock="virtual")], claim(2.0, "ratio", over=OLD)
    )
    assert (ratio.verdict, ratio.here) == ("cannot tell", pytest.approx(2.0))


def test_a_count_answers_where_the_study_says_that_it_will_do_and_nowhere_else() -> None:
    rows = [entry("new", 150.0, clock="instructions"), entry("old", 100.0, clock="instructions")]
    told = judged(rows, claim(1.4, "ratio", over=OLD, about="instructions"))
    assert (told.verdict, told.here) == ("holds", pytest.approx(1.5))
    assert judged(rows, claim(1.4, "ratio", over=OLD)).here is None


LOOP = probe(metric("loops", unit="op/s", means="control-loop"), name="any.loop")


def in_turns(rows: list[Row], value: float) -> Claim:
    """A published time in turns of the control loop, beside an entry."""
    held = results(rows, claim(value, "turns"))
    told = study(msgspec.structs.replace(held, probes={ENTRY.probe: ENTRY, LOOP.probe: LOOP}))
    assert told is not None
    return told.claims[0]


@pytest.mark.parametrize(
    ("published", "verdict"), [(100.0, "holds"), (450.0, "does not hold"), (30.0, "does not hold")]
)
def test_times_of_two_machines_are_compared_in_turns_of_the_control_loop(published: float, verdict: str) -> None:
    """50 ns beside two billion turns a second are a hundred turns, at whatever clock that was."""
    loop = row(2e9, of="any.loop", name="loops", unit="op/s")
    told = in_turns([entry("new", 50.0), loop], published)
    assert (told.verdict, told.unit) == (verdict, "turns")
    assert told.here == pytest.approx(100.0) and told.low is not None and told.low < 100 < (told.high or 0)


def test_turns_want_a_control_loop_of_the_same_place() -> None:
    elsewhere = row(2e9, of="any.loop", name="loops", unit="op/s", target="ssh:board")
    for rows in ([entry("new", 50.0)], [entry("new", 50.0), elsewhere]):
        told = in_turns(rows, 100.0)
        assert told.verdict == "cannot tell" and "control loop" in (told.reason or "")


def test_what_rests_on_two_visits_has_no_verdict() -> None:
    thin = [msgspec.structs.replace(entry("new", 100.0), visits=2)]
    told = judged(thin, claim(100.0))
    assert told.verdict == "cannot tell" and "fewer than 3 visits" in (told.reason or "")


def test_what_was_visited_too_seldom_elsewhere_takes_no_verdict_from_a_place_that_answers() -> None:
    here = [entry("new", 200.0), entry("old", 100.0)]
    there = [msgspec.structs.replace(one, visits=1, **IN_GUEST) for one in here]
    assert judged([*here, *there], claim(2.0, "ratio", over=OLD)).verdict == "holds"


def test_a_reason_that_many_figures_share_stands_once_above() -> None:
    gap = [claim(1.0, row=RowOf(probe="not.here"), missing="No board is here.", what=f"figure {n}") for n in range(4)]
    made = results([entry("new", 100.0)], *gap)
    assert told_of(made, gap) == (["4 figures: No board is here."], ["above"] * 4, [])
    told = with_index(made, study=study(made))
    assert headline(told).endswith("Of 4 published figures: 4 cannot be judged here.")


TRIP, TRIP_BEFORE = (msgspec.structs.replace(one, metric="trip") for one in (NEW, OLD))


def hosted(exits: float) -> list[Row]:
    """A guest's entry in two ways, and how often each turn of it left the guest for its host."""
    ways = [entry("new", 100.0), entry("old", 50.0)]
    return ways + [row(exits, of="any.entry", name="exits", unit="count", parameters=one.parameters) for one in ways]


@pytest.mark.parametrize(("unit", "over"), [("ns", None), ("ratio", TRIP_BEFORE)])
def test_a_hypervisor_s_own_price_is_held_against_no_machine_s(unit: str, over: RowOf | None) -> None:
    own, of_host = (judged(hosted(exits), claim(2.0, unit, row=TRIP, over=over)) for exits in (0.01, 2.0))
    assert own.verdict != "cannot tell" and own.here == of_host.here
    assert of_host.verdict == "cannot tell" and HOSTED in (of_host.reason or "")


def test_a_shared_reason_stands_above_whatever_else_is_said_of_each() -> None:
    claims = [claim(100.0, row=TRIP, what=f"figure {n}", correction=f"Of another core {n}.") for n in range(3)]
    (common,), marks, remarks = told_of(results(hosted(2.0), *claims), claims)
    assert common.startswith("3 figures: ") and HOSTED in common
    assert remarks == [f"({n + 1}) As said above. Of another core {n}." for n in range(3)]
    assert marks == ["(1)", "(2)", "(3)"]


def test_a_remark_that_two_figures_share_stands_once() -> None:
    gaps = [claim(1.0, row=None, missing="No board is here.", what=f"figure {n}") for n in range(2)]
    told = told_of(results([entry("new", 100.0)], *gaps), gaps)
    assert told == ([], ["(1)", "(1)"], ["(1) No board is here."])


def test_a_figure_without_a_published_number_says_why_it_is_inconclusive() -> None:
    picture = [claim(None)]
    assert told_of(results([entry("new", 100.0)], *picture), picture)[0] == [f"1 figure: {NO_NUMBER}"]


def suite_of(published: list[Published]) -> Suite:
    return Suite(name="old-paper", question="?", select=(Select(probe="*"),), published=tuple(published))


def told_of(made: Results, published: list[Published]) -> tuple[list[str], list[str], list[str]]:
    """Returns the sentences above the table of claims, the last cell of each of its lines, and the remarks below."""
    blocks = words.claim_blocks(made, suite_of(published))
    (place,) = (place for place, block in enumerate(blocks) if isinstance(block, Table))
    marks = [str(line.cells[-1]) for block in blocks if isinstance(block, Table) for line in block.rows]
    return list(map(str, blocks[:place])), marks, list(map(str, blocks[place + 1 :]))


def test_a_remark_stands_once_however_many_figures_lead_to_it() -> None:
    claims = [claim(9.0, missing="No probe yet."), claim(8.0, missing="Nor this."), claim(7.0, missing="No probe yet.")]
    of = results([], claims[0])
    _, marks, remarks = told_of(of, claims)
    assert [remark.partition(" ")[0] for remark in remarks] == sorted({*marks} - {""})
    shared = [msgspec.structs.replace(claims[0], what=name) for name in ("a", "b", "c")]
    assert told_of(of, shared)[2] == []
