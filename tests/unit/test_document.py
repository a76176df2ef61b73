# SPDX-License-Identifier: Apache-2.0
"""What `toll show --format json` prints is what the schema says, and what cannot be is refused by reader and schema."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from support.example_runs import healthy
from support.recordings import copied
from tollmeter.library.derive import open_index
from tollmeter.model import Failure
from tollmeter.store.document import complaints, read_document, schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)
WHOLE = msgspec.structs.replace(healthy(("x86_64",), visits=4).index, format=3)
Document = dict[str, Any]


@pytest.fixture
def document() -> Document:
    return copy.deepcopy(json.loads(msgspec.json.encode(WHOLE)))


def refused(document: Document) -> None:
    with pytest.raises(Failure):
        read_document(json.dumps(document))


def refused_by_both(document: Document) -> None:
    refused(document)
    assert not CHECK.is_valid(document)


def test_the_schema_in_the_documents_is_that_of_the_records() -> None:
    kept = json.loads((ROOT / "docs/show.schema.json").read_text())
    assert kept == SCHEMA, "docs/show.schema.json is not what the records say: `make schema` renews it"


def test_what_is_printed_is_read_back_equal_and_keeps_to_the_schema(document: Document) -> None:
    assert WHOLE.inferred and WHOLE.tolls and not list(complaints(WHOLE))
    assert read_document(json.dumps(document)) == WHOLE
    CHECK.validate(document)


def test_a_recorded_run_keeps_to_the_schema(tmp_path: Path) -> None:
    folder = copied("format-1", tmp_path / "run")
    printed = json.loads(msgspec.json.encode(open_index(folder)))
    CHECK.validate(printed)
    assert (printed["format"], printed["run"]["verdict"]) == (3, "interrupted")
    assert printed["tolls"] and read_document(json.dumps(printed)).rows


def test_every_field_is_required(document: Document) -> None:
    del document["rows"][0]["converged"]
    assert not CHECK.is_valid(document)


WRONG: dict[str, Callable[[Document], None]] = {
    "a string for a number in a row": lambda it: it["rows"][0].update(median="1.0"),
    "a string for a number of the run": lambda it: it["run"].update(seconds="60"),
    "a string for an inferred number": lambda it: it["inferred"][0].update(value="64"),
    "a string for a toll": lambda it: it["tolls"][0].update(value="64"),
    "an unknown status": lambda it: it["rows"][0].update(status="fine"),
    "an unknown unit": lambda it: it["rows"][0].update(unit="furlong"),
    "an unknown verdict": lambda it: it["run"].update(verdict="good"),
    "an unknown kind of inference": lambda it: it["inferred"][0].update(kind="guess"),
    "a share beyond the whole": lambda it: it["run"].update(timed_share=1.2),
    "a run that took less than nothing": lambda it: it["run"].update(seconds=-1),
    "a probe of no family": lambda it: it["rows"][0].update(probe="latency"),
    "a finding without evidence": lambda it: it["findings"][0].update(evidence=[]),
    "no table of tolls": lambda it: it.pop("tolls") and it.update(tolls=None),
    "another format": lambda it: it.update(format=1),
    "a number where there is none": lambda it: it["rows"][0].update(median=None),
    "a gap without a reason": lambda it: it["rows"][0].update(status="failed", median=None, reason=None),
    "a toll that is a gap without a reason": lambda it: it["tolls"][0].update(value=None, reason=None),
    "what cannot be told, without a reason": lambda it: it["inferred"][0].update(value=None, reason=None),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_by_reader_and_schema(change: Callable[[Document], None], document: Document) -> None:
    change(document)
    refused_by_both(document)


ORDER: dict[str, Callable[[Document], None]] = {
    "low above high in a row": lambda it: it["rows"][0].update(low=9.0, median=5.0, high=1.0),
    "a median below its interval": lambda it: it["rows"][0].update(low=5.0, median=1.0, high=9.0),
    "a state": lambda it: it["rows"][0].update(
        states=[{"state": "uncontended", "share": 1, "median": 5.0, "low": 9.0, "high": 10.0}]
    ),
    "a level's size": lambda it: it["hierarchy"][0].update(size_low=9e9),
    "an inference": lambda it: it["inferred"][0].update(low=9e99, high=1.0),
    "a toll": lambda it: it["tolls"][0].update(high=0.0),
}


@pytest.mark.parametrize("change", ORDER.values(), ids=ORDER)
def test_an_estimate_outside_of_its_interval_is_refused(change: Callable[[Document], None], document: Document) -> None:
    change(document)
    refused(document)
