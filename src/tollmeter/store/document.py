# SPDX-License-Identifier: Apache-2.0
"""The index as a document, as `toll show RUN --format json` prints it: its reader, and its schema.

Types and closed sets are the records' own (model/). Conditions that neither they nor a JSON Schema can express are in
`complaints`: that an estimate lies within its interval, and that a gap has its reason.

    python -m tollmeter.store.document > docs/show.schema.json"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from tollmeter.model import INDEX_FORMAT, Failure, Index, Inference, Toll

TITLE = "toll show RUN --format json"
_NUMBERS = ["median", "low", "high", "minimum", "visits", "samples", "discarded"]
_SENTENCE = {"type": "string", "minLength": 1}
_RULES: dict[str, dict[str, Any]] = {
    "Index": {"properties": {"format": {"const": INDEX_FORMAT}}},
    "Row": {
        "if": {"properties": {"status": {"const": "ok"}}},
        "then": {"required": _NUMBERS, "properties": {"median": {"type": "number"}}},
        "else": {"properties": {"reason": _SENTENCE}},
    },
    "Inference": {"if": {"properties": {"value": {"type": "null"}}}, "then": {"properties": {"reason": _SENTENCE}}},
    "Claim": {
        "if": {"properties": {"verdict": {"const": "cannot tell"}}},
        "then": {"properties": {"reason": _SENTENCE}},
    },
}
_RULES["Toll"] = _RULES["Inference"]


def read_document(document: bytes | str) -> Index:
    """Returns the index in a document. Raises Failure (5) if it has another format, or contradicts itself."""
    try:
        index = msgspec.json.decode(document, type=Index)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as wrong:
        raise Failure(f"not an index of a run: {wrong}", exit_code=5) from None
    if index.format != INDEX_FORMAT:
        raise Failure(f"an index of format {index.format}, and this Tollmeter reads {INDEX_FORMAT}", exit_code=5)
    for complaint in complaints(index):
        raise Failure(f"not an index of a run: {complaint}", exit_code=5)
    return index


def complaints(index: Index) -> Iterator[str]:
    """Yields the contradictions between fields of an index. The types of its fields are correct already."""
    for row in index.rows:
        at = f"{row.probe} {row.metric}"
        yield from _out_of_order(at, row.low, row.median, row.high)
        for state in row.states:
            yield from _out_of_order(f"{at}, {state.state}", state.low, state.median, state.high)
        if (row.status == "ok") != (row.median is not None) or not (row.status == "ok" or row.reason):
            yield f"{at} is {row.status}, its median {row.median} and its reason {row.reason}"
    for level in index.hierarchy:
        yield from _out_of_order(f"size of {level.level}", level.size_low, level.size_bytes, level.size_high)
        yield from _out_of_order(f"latency of {level.level}", level.latency_low, level.latency_ns, level.latency_high)
    named: list[tuple[str, Inference | Toll]] = [(inference.name, inference) for inference in index.inferred]
    for name, line in [*named, *((toll.toll, toll) for toll in index.tolls)]:
        yield from _out_of_order(name, line.low, line.value, line.high)
        if line.value is None and not line.reason:
            yield f"{name} has neither a value nor a reason"
    for claim in index.study.claims if index.study else ():
        yield from _out_of_order(claim.what, claim.low, claim.here, claim.high)
        if claim.verdict == "cannot tell" and not claim.reason:
            yield f"{claim.what} has neither a value nor a reason"


def _out_of_order(what: str, *ends: float | None) -> Iterator[str]:
    """Yields an error unless the values that exist ascend from low to estimate to high."""
    there = [end for end in ends if end is not None]
    if any(not left <= right for left, right in pairwise(there)):
        yield f"{what} is not within its interval: {there}"


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the printed document: every field of every record, with defaults."""
    document = msgspec.json.schema(Index)
    for name, record in document["$defs"].items():
        rules = dict(_RULES.get(name, {}))
        closer = rules.pop("properties", {})
        fields = {
            field: {key: described for key, described in kind.items() if key != "default"} | closer.get(field, {})
            for field, kind in record["properties"].items()
        }
        if "description" in record:
            record["description"] = " ".join(record["description"].split())
        record |= {"properties": fields, "required": list(fields), **rules}
    index = document["$defs"].pop("Index")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **index,
        "title": TITLE,
        "$defs": document["$defs"],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n")
