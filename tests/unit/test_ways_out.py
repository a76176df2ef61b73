# SPDX-License-Identifier: Apache-2.0
"""A study's own answer: two profiles of each place side by side, its ways out, its break-even; in words and drawn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support import example_runs, study_run
from tollmeter.model import Published, Results, Suite
from tollmeter.report.charts import Chart, charts, points
from tollmeter.report.headline import headline
from tollmeter.report.programs import answer_blocks, published, ways_out
from tollmeter.report.programs import ratio_in_words as in_words
from tollmeter.studies.choices import break_evens, pairs
from tollmeter.studies.study import study


def suite_of(results: Results) -> Suite:
    assert results.suite is not None
    return results.suite


def chart(name: str, results: Results | None = None) -> Chart | None:
    return next((one for one in charts(results or study_run.study()) if one.name.startswith(name)), None)


def test_two_profiles_stand_side_by_side_for_each_place_and_the_study_s_own_below() -> None:
    results = study_run.study()
    found = pairs(results, suite_of(results))
    assert [(one.left.abi, one.right.probe, one.gain) for one in found] == [
        ("x86_64", "alignment.receive_path_copy", study_run.HALVES / study_run.COPIED),
        ("mipsel", "alignment.receive_path_copy", study_run.HALVES / study_run.COPIED),
    ]
    (shares,) = published(suite_of(results), found[0])
    memcpy = next(line for line in shares.rows if line.cells[0] == "memcpy")
    assert memcpy.cells == ("memcpy", "43.4", "19.5", "55.0", "41.0"), "of the busy time, there as here"
    assert all("Idle" not in str(line.cells[0]) for line in shares.rows)
    said = [block for block in answer_blocks(results, suite_of(results)) if isinstance(block, str)]
    assert "copy_words_else_bytes 55 → 41 %" in said[0] and "ipalign 0 → 10 %" in said[0]
    assert "1.25 × the throughput" in said[0]


def test_a_function_s_share_of_two_profiles_is_a_claim() -> None:
    results = study_run.study()
    memcpy = Published(what="?", figure="?", value=2.2, unit="ratio", relation="about", share="memcpy")
    suite = msgspec.structs.replace(suite_of(results), published=(memcpy,))
    claims = study(msgspec.structs.replace(results, suite=suite))
    assert claims
    (claim,) = claims.claims
    assert claim.here == pytest.approx(55 / 41) and claim.verdict == "same direction"


def test_the_best_way_out_is_named_with_its_gain_and_what_it_takes() -> None:
    results = study_run.study()
    here, there = ways_out(results, suite_of(results))
    assert "receive two bytes later, and a memcpy for any alignment, 2.67 × the throughput" in here.sentence
    assert "as good by the count of instructions" in there.sentence and "mipsel" in there.place


def test_trapping_loses_from_as_many_accesses_as_what_avoids_them_costs() -> None:
    """Avoiding them takes 100 ns a frame: with traps of 80 ns the second is dearer."""
    results = study_run.study()
    (even,) = break_evens(results, suite_of(results))
    assert (even.each_ns, even.once_ns) == (study_run.TRAP, (study_run.COPIED - study_run.SHIFTED) / 2)
    assert "the latter is better from 2 of the misaligned accesses on" in in_words(even)
    assert in_words(even).endswith("and up to 1 it is not.")


def test_a_fixed_cost_has_the_digits_of_a_difference() -> None:
    """Each frame is known to 1 %: 1600 - 1500 ns is 78 to 122, and 1600 - 1599 is nothing that was seen."""
    results = study_run.study()
    (even,) = break_evens(results, suite_of(results))
    assert "in the driver 78 to 122 ns: the latter is better from 2 " in in_words(even)
    near = [row for row in results.index.rows if row.parameters.get("copy") != "libc" or "copy" in row.probe]
    alike = [*near, study_run.frame("shifted", "libc", study_run.COPIED / 2 - 1)]
    (even,) = break_evens(example_runs.with_rows(results, alike), suite_of(results))
    assert "in the driver less than 24 ns: the latter is better from the first " in in_words(even)


def test_a_guests_break_even_is_separate_and_in_virtual_time() -> None:
    """A user-mode emulator counts no kernel, which is most of a trap: it has none."""
    results = study_run.study()
    guest: dict[str, Any] = {"abi": "mipsel", "target": "guest:malta", "clock": "virtual"}
    counted = study_run.trap(30, abi="mipsel", target="qemu-user:mipsel", clock="instructions")
    there = [study_run.trap(160, **guest), study_run.mended(40, **guest), *study_run.frames(**guest)]
    rows = [counted, *there, *results.index.rows]
    here, trapped, fixed = break_evens(example_runs.with_rows(results, rows), suite_of(results))
    assert [even.place for even in (here, trapped, fixed)] == [("x86_64", "local"), *[("mipsel", "guest:malta")] * 2]
    assert in_words(trapped).startswith("One (alignment.access) costs 160 ns ±1 % in virtual time of guest:malta, and ")
    assert "better from 3 of the" in in_words(fixed) and "virtual" not in in_words(here)


def test_what_stands_first_is_the_way_out_for_this_machine_itself() -> None:
    results = study_run.study()
    rows = [row for row in results.index.rows if row.abi == "x86_64"]
    narrow = [msgspec.structs.replace(row, abi="ia32") for row in rows]
    best = "Best here: receive two bytes later, and a memcpy for any alignment, 2.67 × the throughput. It takes"
    assert headline(results).startswith(best)
    assert headline(example_runs.with_rows(results, [*narrow, *rows])).startswith(best)
    assert not headline(example_runs.with_rows(results, ()))


def test_a_checksum_is_a_way_out_too() -> None:
    """It was measured, and left out of the answer, that a checksum by words gains more than any copy."""
    results = study_run.study()
    summed = study_run.frame("shifted", "words_else_bytes", 1000.0, checksum="words")
    here, _ = ways_out(example_runs.with_rows(results, [*results.index.rows, summed]), suite_of(results))
    assert here.best.startswith("Best here: receive two bytes later, and a checksum by words, 4.00 × the throughput.")


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
