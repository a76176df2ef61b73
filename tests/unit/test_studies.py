# SPDX-License-Identifier: Apache-2.0
"""Whether what a study published holds here: a number by a factor of two, a ratio by its direction, or why neither."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from books import derived, empty, healthy, with_rows
from made import metric, probe, row
from tollmeter.judgement.studies import study
from tollmeter.model import Book, Claim, Inference, Published, Row, RowOf, Select, Suite
from tollmeter.store.document import read, schema
from tollmeter.store.index import NAME, load, save

ENTRY = probe(metric("trip", means="entry"), name="any.entry")
YES = Inference(name="kept", kind="write_back", value=True, low=None, high=None, unit=None)
UNKNOWN = Inference(
    name="line", kind="line", value=None, low=None, high=None, unit="B", system="64 B", reason="nothing was timed"
)
OLD, NEW = RowOf(probe="any.entry", parameters={"way": "old"}), RowOf(probe="any.entry", parameters={"way": "new"})


def entry(way: str, median: float | None, spread: float = 0.01, **more: Any) -> Row:
    return row(median, spread, of="any.entry", name="trip", parameters={"way": way}, **more)


def book(rows: list[Row], *published: Published) -> Book:
    suite = Suite(name="old-paper", question="?", select=(Select(probe="*"),), source="A paper", published=published)
    bare = msgspec.structs.replace(with_rows(empty(), rows), probes={ENTRY.probe: ENTRY}, suite=suite)
    return derived(bare)


def claim(value: float | None, unit: str = "ns", **more: Any) -> Published:
    return Published(what="entry", figure="as published", value=value, unit=unit, **{"row": NEW, **more})


def judged(rows: list[Row], published: Published) -> Claim:
    found = study(book(rows, published))
    assert found is not None
    (only,) = found.claims
    return only


@pytest.mark.parametrize(("published", "verdict"), [(100.0, "holds"), (200.0, "holds"), (210.0, "does not hold"),
                                                    (51.0, "holds"), (45.0, "does not hold")])  # fmt: skip
def test_a_number_holds_within_a_factor_of_two(published: float, verdict: str) -> None:
    told = judged([entry("new", 100.0)], claim(published))
    assert (told.verdict, told.here, told.unit, told.reason) == (verdict, 100.0, "ns", None)


@pytest.mark.parametrize(
    ("here", "spread", "published", "verdict"),
    [(1.1, 0.01, 10.0, "holds"), (0.9, 0.01, 10.0, "does not hold"), (0.9, 0.01, 0.5, "holds"),
     (1.1, 0.2, 1.2, "cannot tell"), (1.0, 0.01, 10.0, "does not hold"), (1.9, 0.01, 1.0, "holds"),
     (2.2, 0.01, 1.0, "does not hold")],
)  # fmt: skip
def test_a_ratio_holds_by_its_direction(here: float, spread: float, published: float, verdict: str) -> None:
    rows = [entry("new", 100.0 * here, spread), entry("old", 100.0, spread)]
    told = judged(rows, claim(published, "ratio", over=OLD))
    assert told.verdict == verdict
    assert told.low is not None and told.high is not None and told.low < here < told.high
    assert bool(told.reason) == (verdict == "cannot tell")


def test_what_cannot_be_told_says_why() -> None:
    gap = judged([entry("new", None, status="failed")], claim(100.0))
    assert (gap.verdict, gap.here) == ("cannot tell", None)
    assert "because" in (gap.reason or "")
    for told in (judged([entry("new", 100.0)], claim(None)), judged([entry("new", 100.0)], claim(100.0, "B"))):
        assert told.verdict == "cannot tell" and told.reason and told.here == 100.0
    assert judged([], claim(1.0, row=None, missing="No board is here.")).reason == "No board is here."


def test_of_several_rows_the_middle_stands_and_the_ends_of_all() -> None:
    rows = [entry(way, 100.0 * place) for place, way in enumerate(("a", "b", "c"), start=1)]
    told = judged(rows, claim(560.0, row=RowOf(probe="any.entry")))
    assert (told.here, told.low, told.high, told.verdict) == (200.0, 99.0, pytest.approx(303.0), "holds")


def test_a_run_of_no_study_has_none() -> None:
    assert study(empty()) is None
    assert study(book([])) is None


def test_claims_inferences_and_tolls_are_kept_in_the_index_beside_the_run(tmp_path: Path) -> None:
    whole = msgspec.structs.replace(healthy(("x86_64",), visits=4).index, format=2)
    told = study(book([entry("new", 100.0)], claim(100.0), claim(None)))
    index = msgspec.structs.replace(whole, inferred=(*whole.inferred, YES, UNKNOWN), study=told)
    assert index.tolls and index.study
    save(tmp_path, "abc", index)
    assert load(tmp_path, "abc") == index


def test_a_kept_index_that_says_what_cannot_be_is_made_anew(tmp_path: Path) -> None:
    index = msgspec.structs.replace(healthy(("x86_64",), visits=4).index, format=2)
    save(tmp_path, "abc", index)
    with sqlite3.connect(tmp_path / NAME) as db:
        db.execute("UPDATE tolls SET low = high * 2")
    db.close()
    assert load(tmp_path, "abc") is None


def test_the_claims_are_in_the_document_and_keep_to_the_schema() -> None:
    of = book([entry("new", 100.0)], claim(100.0), claim(None))
    index = msgspec.structs.replace(of.index, format=2, study=study(of))
    printed = json.loads(msgspec.json.encode(index))
    jsonschema.validate(printed, schema())
    assert read(json.dumps(printed)) == index
    printed["study"]["claims"][1]["reason"] = None
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, schema())


def test_a_count_of_instructions_is_held_against_no_time() -> None:
    told = judged([entry("new", 100.0, clock="virtual")], claim(100.0))
    assert (told.verdict, told.here) == ("cannot tell", 100.0)
    ratio = judged(
        [entry("new", 100.0, clock="virtual"), entry("old", 50.0, clock="virtual")], claim(2.0, "ratio", over=OLD)
    )
    assert ratio.verdict == "holds"
