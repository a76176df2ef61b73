# SPDX-License-Identifier: Apache-2.0
"""A study's own answer: two profiles of each place side by side, its ways out, its break-even; in words and drawn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support import example_runs, study_run
from support.rendered import of_blocks
from support.snapshots import approve, approve_variations
from tollmeter.model import Published, Results, Suite
from tollmeter.report.charts import Chart, charts, points
from tollmeter.report.headline import headline
from tollmeter.report.programs import answer_blocks, published_shares
from tollmeter.studies.choices import pairs
from tollmeter.studies.study import study


def suite_of(results: Results) -> Suite:
    assert results.suite is not None
    return results.suite


def chart(name: str, results: Results | None = None) -> Chart | None:
    return next((one for one in charts(results or study_run.study()) if one.name.startswith(name)), None)


STUDY = study_run.study()
GUEST: dict[str, Any] = {"abi": "mipsel", "target": "guest:malta", "clock": "virtual"}
HERE = [row for row in STUDY.index.rows if row.abi == "x86_64"]
NEAR = [row for row in STUDY.index.rows if row.parameters.get("copy") != "libc" or "copy" in row.probe]
RUNS = {
    "a fixed cost has the digits of a difference, which here is lost in the intervals": [
        *NEAR, study_run.frame("shifted", "libc", study_run.COPIED / 2 - 1)
    ],
    "a guest's break-even is in virtual time, and an emulator that counts no kernel has none": [
        study_run.trap(30, abi="mipsel", target="qemu-user:mipsel", clock="instructions"),
        study_run.trap(160, **GUEST), study_run.mended(40, **GUEST), *study_run.frames(**GUEST), *STUDY.index.rows,
    ],
    "the way out for this machine's own ABI stands first": [
        *(msgspec.structs.replace(row, abi="ia32") for row in HERE), *HERE
    ],
    "a checksum by words gains more than any copy": [
        *STUDY.index.rows, study_run.frame("shifted", "words_else_bytes", 1000.0, checksum="words")
    ],
    "no rows": [],
}  # fmt: skip


def said(results: Results) -> str:
    shares = [
        table for pair in pairs(results, suite_of(results)) for table in published_shares(suite_of(results), pair)
    ]
    return of_blocks([headline(results), *shares, *answer_blocks(results, suite_of(results))])


def test_the_answer_of_a_study() -> None:
    """Profiles of each place side by side, ways out by their gain, and what avoiding a trap may cost."""
    approve("alignment", said(STUDY))
    texts = {title: said(example_runs.with_rows(STUDY, rows)) for title, rows in RUNS.items()}
    approve_variations("alignment-variations", said(STUDY), texts)


def test_a_function_s_share_of_two_profiles_is_a_claim() -> None:
    results = study_run.study()
    memcpy = Published(what="?", figure="?", value=2.2, unit="ratio", relation="about", share="memcpy")
    suite = msgspec.structs.replace(suite_of(results), published=(memcpy,))
    claims = study(msgspec.structs.replace(results, suite=suite))
    assert claims
    (claim,) = claims.claims
    assert claim.here == pytest.approx(55 / 41) and claim.verdict == "same direction"


def test_the_break_even_s_lines_cross_where_its_sentence_says() -> None:
    drawn = chart("break-even")
    assert drawn is not None
    each, once = (
        {float(d["x"]): float(d["y"]) for d in points(drawn) if d["series"] == name} for name in ("each", "once")
    )
    assert set(once.values()) == {100.0}
    cheaper = [x for x in each if each[x] < once[x]]
    dearer = [x for x in each if each[x] > once[x]]
    assert max(cheaper) < 100 / study_run.TRAP < min(dearer)
    assert "from 2 of the misaligned accesses on" in drawn.caption


def test_each_configuration_is_a_bar_of_its_functions_that_is_whole() -> None:
    drawn = chart("profiles")
    assert drawn is not None
    parts = points(drawn)
    bars = {str(d["label"]) for d in parts}
    assert len(bars) == 2 and not any("mipsel" in bar for bar in bars)
    for bar in bars:
        assert sum(float(d["y"]) for d in parts if d["label"] == bar) == pytest.approx(100, abs=0.1)
    copied = [float(d["y"]) for d in parts if d["series"] == "copy_words_else_bytes"]
    assert copied == [55.0, 41.0]
    assert drawn.caption.startswith("From patches to ipalign: copy_words_else_bytes 55 → 41 %")


def test_without_a_profile_or_a_trap_neither_is_drawn() -> None:
    results = study_run.study()
    bare = example_runs.with_index(results, profiles=())
    assert chart("profiles", bare) is None
    rows = tuple(row for row in results.index.rows if row.probe != "alignment.access")
    bare = example_runs.with_index(results, rows=rows)
    assert chart("break-even", bare) is None
