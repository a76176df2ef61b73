# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run without scrolling: the answer, how much it is worth, and nothing that it cannot carry."""

from __future__ import annotations

import fcntl
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.example_runs import with_index, with_run
from support.rendered import printed, words
from tollmeter.findings import carried
from tollmeter.judgement.verdict import unanswered, without_interception
from tollmeter.library.derive import open_run
from tollmeter.model import Claim, Finding, Results, RunVerdict, State, Study, Surroundings, Uncompared
from tollmeter.report import markdown, page, run_verdict, shown, tables, tolls
from tollmeter.report.numbers import of_level, of_row
from tollmeter.store.journal import NAME as JOURNAL

SCREEN_AND_A_HALF = 36


def test_it_fits_on_a_screen_and_a_half_and_all_of_it_does_not() -> None:
    results = with_run(example_runs.small(), verdict="busy", points=300, converged=100, contended_share=0.5)
    assert len(printed(results).splitlines()) < SCREEN_AND_A_HALF
    assert len(printed(results, whole=True).splitlines()) > len(printed(results).splitlines())


def test_the_first_screen_fits_with_long_findings_and_contended_numbers() -> None:
    results = example_runs.small()
    long = [msgspec.structs.replace(finding(f"memory.rule_{number}"), claim="as long as a claim can be " * 4)
            for number in range(9)]  # fmt: skip
    both = tuple(State(state=name, share=0.5, median=9.0, low=8.0, high=10.0) for name in ("uncontended", "contended"))
    entry = next(toll for toll in results.index.tolls if toll.typical)
    tolls = tuple(msgspec.structs.replace(toll, states=both) if toll is entry else toll for toll in results.index.tolls)
    index = msgspec.structs.replace(results.index, findings=tuple(long), tolls=tolls)
    text = printed(msgspec.structs.replace(results, index=index))
    assert len(text.splitlines()) <= SCREEN_AND_A_HALF
    assert "contended" not in text and "and 6 more" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_too_wide_and_no_number_is_broken(width: int) -> None:
    text = printed(example_runs.small(), width)
    assert max(map(len, text.splitlines())) <= width
    for toll in shown.best_known(example_runs.small()):
        figure = tables.of_toll(toll)
        assert re.search(rf"{re.escape(figure.number)} +{figure.unit}\b", text), (figure, text)
    for level in example_runs.small().index.hierarchy:
        assert re.search(rf"^  {level.level} .* ns ", text, re.MULTILINE)


@pytest.mark.parametrize("width", range(50, 101))
def test_a_number_stands_on_one_line_with_its_unit(width: int) -> None:
    assert not re.search(r"\d\n\s*(s|ns|µs|GiB|GHz|%|points)\b", printed(example_runs.small(), width))


def test_the_answer_and_the_verdict_are_the_first_lines() -> None:
    text = printed(with_run(example_runs.small(), verdict="busy", points=10, converged=6, contended_share=0.51))
    lines = text.splitlines()
    assert lines[0].startswith("A load takes 0.976 ns from L1d and 112 ns from memory")
    told = [
        place for place, line in enumerate(lines) if line.startswith("busy: 6 of 10 points within 3 %, core contended")
    ]
    assert told and told[0] < lines.index("")


@pytest.mark.parametrize(
    ("verdict", "shared", "told"),
    [
        ("quiet", 0.43, "quiet, but the core was contended 43 % of the time: 6 of 10 points within 3 %"),
        ("quiet", 0.2, "quiet: 6 of 10 points within 3 %, core contended 20 % of the time"),
        ("quiet", None, "quiet: 6 of 10 points within 3 %"),
        ("busy", 0.43, "busy: 6 of 10 points within 3 %, core contended 43 % of the time"),
    ],
)
def test_a_run_is_not_called_quiet_alone_whose_core_was_shared(verdict: str, shared: float | None, told: str) -> None:
    """It is by the rule while points enough settle, and read oddly beside a share of 43 %."""
    results = with_run(example_runs.small(), verdict=verdict, points=10, converged=6, contended_share=shared)
    assert told in words(results)
    page = run_verdict.verdict_meaning(results)
    assert ("the core was contended 43 % of the time" in page) == (verdict == "quiet" and shared == 0.43)
    assert results.index.run.verdict == verdict


def test_a_number_without_a_printed_interval_is_not_counted_as_known() -> None:
    results = example_runs.small()
    short = [msgspec.structs.replace(toll, visits=2) for toll in results.index.tolls]
    bare = example_runs.with_index(results, tolls=tuple(short), hierarchy=())
    assert shown.narrow(example_runs.with_index(results, hierarchy=()))[0] > 0
    assert shown.narrow(bare) == shown.with_interval(bare) == (0, len(shown.best_known(results)))


def test_a_run_without_a_record_of_its_surroundings_does_not_say_that_it_has_no_problem() -> None:
    calm = example_runs.with_index(example_runs.small(), findings=())
    quiet = with_run(calm, verdict="quiet", surroundings=Surroundings(others=0.0))
    unknown = with_run(calm, verdict="unknown", surroundings=None)
    unrecorded = "which other programs ran was not recorded"
    assert [unrecorded in words(results) for results in (quiet, unknown)] == [False, True]
    assert ["No problem found" in words(results) for results in (quiet, unknown)] == [True, False]


def test_beside_a_busy_sibling_the_first_screen_says_how_much_of_it_is_known_and_what_helps() -> None:
    results = with_run(
        example_runs.small(), verdict="busy", points=300, converged=2, contended_share=0.83, enough_s=300.0,
        surroundings=Surroundings(others=0.01),
    )  # fmt: skip
    known, of = shown.narrow(results)
    assert 0 < known <= of and of >= len(shown.best_known(results)) + len(results.index.hierarchy)
    text = words(results)
    assert f"busy: {known} of {of} numbers shown within 5 %, core contended 83 % of the time" in text
    assert "--budget 5m lets most points converge; fewer probes do too" in text
    wide = [msgspec.structs.replace(toll, low=(toll.value or 0) / 2) for toll in results.index.tolls]
    wider = msgspec.structs.replace(results, index=msgspec.structs.replace(results.index, tolls=tuple(wide)))
    assert shown.narrow(wider)[0] < known
    beside_others = with_run(results, surroundings=Surroundings(others=0.5))
    assert "when the other programs have ended, or with --budget 5m" in words(beside_others)
    short = with_run(results, contended_share=0.2, enough_s=None)
    assert "with fewer probes" in words(short), "nobody can make other guests of a machine quiet"


def test_a_run_that_another_process_measures_is_not_called_interrupted(tmp_path: Path) -> None:
    """Its journal says no more than that it has not ended; who holds it tells."""
    results = with_run(
        example_runs.small(), verdict="interrupted", status="measuring", folder=str(tmp_path), unanswered="x"
    )
    with (tmp_path / JOURNAL).open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        text = printed(results, 200, whole=True)
        assert "measuring now: " in text and "show --follow" in run_verdict.next_step(results).command
        assert "interrupted" not in text and "cut off" not in text and "not answered" not in text
    text = printed(results, 200, whole=True)
    assert "interrupted: " in text and "cut off" in text and "--resume" in run_verdict.next_step(results).command


@pytest.mark.parametrize(("end", "is_told"), [("settled", True), ("interrupted", False)])
def test_a_run_that_ended_after_it_was_read_was_not_stopped(tmp_path: Path, end: str, *, is_told: bool) -> None:
    """As one that ends while `toll compare` reads another."""
    results = with_run(example_runs.small(), verdict="interrupted", status="measuring", folder=str(tmp_path))
    (tmp_path / JOURNAL).write_text(f'{{"k":"run","status":"{end}"}}\n')
    assert ("measuring now: " in printed(results, 200)) == is_told


def test_in_markdown_the_verdict_stands_before_all_numbers() -> None:
    text = markdown.render(with_run(example_runs.small(), verdict="busy", points=10, converged=3))
    assert text.index("Busy: 3 of 10 points") < text.index("## ") and text.count("3 of 10 points") == 1
    assert text.index("Busy: ") < text.index("| Memory |")


def test_what_to_do_next_can_be_typed() -> None:
    results = with_run(example_runs.small(), verdict="busy", suite="memory.latency+kernel.switch")
    typed = "./toll run memory.latency kernel.switch size=4096 --abi ia32"
    results = msgspec.structs.replace(results, request={"anew": typed})
    assert run_verdict.next_step(results).command == typed
    assert f"Next  {typed}\n" in printed(results)


def test_a_budget_that_was_spent_in_vain_is_not_advised_again() -> None:
    """A guest may take most of it to boot."""
    results = with_run(example_runs.small(), verdict="too short", unanswered="x", seconds=14, status="budget")
    results = msgspec.structs.replace(results, request={"anew": "./toll run x32-2013", "budget_seconds": 60})
    assert run_verdict.next_step(results).command == "./toll run x32-2013 --budget 2m"


def test_the_budget_that_the_plan_named_is_the_one_that_is_advised() -> None:
    results = with_run(example_runs.small(), verdict="too short", unanswered="x", seconds=26, status="budget")
    asked = {"anew": "./toll run", "budget_seconds": 30, "planned_s": 180}
    assert run_verdict.next_step(msgspec.structs.replace(results, request=asked)).command == "./toll run --budget 3m"


def refused(reason: str) -> Results:
    """A run of which no row has a number."""
    results = with_run(example_runs.small(), verdict="too short", unanswered="no row has a number", folder="runs/one")
    rows = [msgspec.structs.replace(row, status="unsupported", reason=reason, median=None, parameters={"arcs": 9})
            for row in results.index.rows]  # fmt: skip
    return example_runs.with_rows(results, rows)


def test_more_memory_than_there_is_wants_smaller_sizes_and_no_longer_run() -> None:
    said = run_verdict.next_step(refused("needs 900 MiB of memory, and 300 MiB are left to take"))
    assert "smaller values of arcs" in said.when and "more memory" in said.when
    assert not said.command


def test_no_longer_run_is_advised_where_it_would_not_help() -> None:
    assert run_verdict.next_step(refused("the command failed")).command == "./toll show runs/one --all"


def test_no_longer_run_is_advised_where_all_has_converged() -> None:
    lacking = "none of the study's 2 figures could be held against what was measured"
    results = with_run(example_runs.small(), verdict="quiet", unanswered=lacking, status="settled", folder="runs/one")
    assert run_verdict.next_step(results).command == "./toll show runs/one --all"


def test_why_there_is_no_answer_is_said_with_what_to_do() -> None:
    results = with_run(example_runs.small(), verdict="too short", unanswered="most numbers rest on fewer than 3 visits")
    text = words(results)
    assert "This run did not produce the requested numbers: most numbers rest on fewer than 3 visits." in text
    assert re.search(r"Next \S+ run (default )?--budget \d+s", text)


def test_what_rests_on_too_little_says_so_in_table_and_sentence() -> None:
    results = example_runs.small()
    text = words(example_runs.with_entry(results, visits=2, samples=4))
    assert re.search(r"system call ~ 1\d\d ns \(4 samples\)", text)
    assert "a system call takes about 1" in text
    assert "(4 samples)" not in printed(results)


def test_headline_and_table_say_the_same_with_the_same_doubt() -> None:
    results = example_runs.small()
    text = words(example_runs.with_entry(results, low=114.0, median=130.0, high=187.0))
    assert "a system call takes 114 to 187 ns" in text and "system call 114 to 187 ns" in text
    far = results.index.hierarchy[-1]
    assert f"{of_level(far).number} {of_level(far).unit} from memory" in words(results)


def test_a_level_of_few_visits_has_no_interval() -> None:
    results = example_runs.small()
    few = {"few_samples": 6, "latency_low": None, "latency_high": None, "read_low": None, "read_high": None}
    thin = tuple(msgspec.structs.replace(level, **few) for level in results.index.hierarchy)
    text = printed(with_index(results, hierarchy=thin))
    memory = [line for line in text.splitlines() if re.match(r"  (L\d|memory)", line)]
    assert len(memory) == 4 and all("(6 samples)" in line and "±" not in line for line in memory)
    assert "takes about" in text.splitlines()[0]
    assert "484 GB/s" in printed(results) and all(re.search(r" ~ \d\d0? GB/s", line) for line in memory)
    cycles = [re.search(r"samples\) +([\d.,]+)", line) for line in memory]
    assert all(found and len(found[1].strip("0").replace(".", "")) <= 2 for found in cycles)


def test_a_rate_or_a_parallelism_that_is_missing_says_why() -> None:
    results = example_runs.small()
    lost = {"read_bytes_per_second": None, "parallelism": None, "read_missing": "the budget ended",
            "parallelism_missing": "no memory"}  # fmt: skip
    levels = tuple(msgspec.structs.replace(level, **lost) if level.level in ("L2", "L3") else level
                   for level in results.index.hierarchy)  # fmt: skip
    told = with_index(results, hierarchy=levels)
    for text in (page.render(told), words(told, whole=True), markdown.render(told)):
        assert "No read bandwidth of L2, L3: the budget ended." in text
        assert "No parallelism of L2, L3: no memory." in text
    assert "No read bandwidth" not in page.render(results)


def test_a_run_without_a_number_is_called_neither_short_nor_anything() -> None:
    results = example_runs.small()
    rows = [
        msgspec.structs.replace(row, status="unsupported", reason="no peer", median=None) for row in results.index.rows
    ]
    bare = with_run(example_runs.with_rows(results, rows), verdict="too short", unanswered="no row has a number")
    for text in (printed(bare), page.render(bare)):
        assert "too short" not in text
        assert "did not produce the requested numbers: no row has a number" in " ".join(text.split())


def test_why_the_half_of_what_was_requested_has_no_number_is_said() -> None:
    results = example_runs.small()
    lost = {"status": "unsupported", "reason": "this CPU has no avx512f", "median": None}
    rows = [msgspec.structs.replace(row, **(lost if at % 2 else {})) for at, row in enumerate(results.index.rows)]
    assert "rows: this CPU has no avx512f" in words(example_runs.with_rows(results, rows))


def test_no_line_of_the_page_s_first_words_ends_between_number_and_unit() -> None:
    text = page.render(with_run(example_runs.small(), verdict="busy", points=300, converged=100))
    assert "112\N{NO-BREAK SPACE}ns from memory" in text and "within 3\N{NO-BREAK SPACE}%" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_cache_without_a_size_names_the_level_that_it_was_not_resolved_from(width: int) -> None:
    results = example_runs.small()
    merged = tuple(
        msgspec.structs.replace(level, size_bytes=None, size_low=None, size_high=None, not_apart_from="L3")
        if level.level == "L2"
        else level
        for level in results.index.hierarchy
    )
    found = with_index(results, hierarchy=merged)
    assert "not resolved from L3" in words(found, width)
    assert "not resolved from L3" in markdown.render(found)
    assert "told apart" not in printed(results, width)


def test_a_walk_whose_levels_are_not_resolved_says_so() -> None:
    results = example_runs.small()
    flat = with_index(results, hierarchy=())
    assert "No memory table:" in printed(flat) and "No memory table:" not in printed(results)
    assert re.search(r"A load takes .*ns in \d+ KiB, .*ns in \d+ MiB\.", words(flat))
    assert "No memory table:" not in printed(example_runs.empty())


def test_a_row_of_two_states_is_two_numbers() -> None:
    row = next(row for row in example_runs.small().index.rows if row.probe == "kernel.enter_syscall")
    first, second = (State(state=name, share=0.5, median=at, low=at, high=at) for name, at in
                     (("first", 14.0), ("second", 137.0)))  # type: ignore[arg-type]  # fmt: skip
    assert str(of_row(msgspec.structs.replace(row, state="second", states=(second, first)))) == "14 or 140 ns"
    assert " or " not in str(of_row(msgspec.structs.replace(row, state="uncontended", states=(first, second))))


# ---- what a run carries -----------------------------------------------------------------------------------------


def finding(name: str) -> Finding:
    return Finding(
        name=name, severity="note", claim="c", evidence=example_runs.small().index.findings[0].evidence[:1], remedy="r"
    )


RECORDINGS = Path(__file__).parents[1] / "recordings"
SHARED, CACHE = finding("machine.core_is_shared"), finding("memory.cache_disagrees")
PROBLEM = msgspec.structs.replace(SHARED, severity="warning")


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [("quiet", [SHARED, CACHE]), ("busy", [SHARED]), ("too short", []), ("interrupted", [SHARED, CACHE])],
)
def test_a_run_carries_what_it_has_seen_enough_of(verdict: RunVerdict, kept: list[Finding]) -> None:
    found = carried(verdict, [SHARED, CACHE], [SHARED, CACHE])
    assert list(found.findings) == kept
    assert set(found.withheld) == {SHARED.name, CACHE.name} - {one.name for one in kept}


def test_a_run_behind_a_filter_carries_what_it_found_of_memory_and_nothing_of_the_kernel() -> None:
    call = finding("kernel.clock_is_slow")
    found = carried("quiet", [CACHE, call], [CACHE, call], intercepted=True)
    assert (found.findings, found.withheld) == ((CACHE,), (call.name,))
    filtered = Surroundings(seccomp_filters=1)
    results = with_run(example_runs.small(), verdict="held back", surroundings=filtered)
    assert run_verdict.why_withheld(results) == "its system calls were filtered or traced"
    assert "seccomp" in run_verdict.next_step(results).when and "nice" not in run_verdict.next_step(results).when
    assert without_interception(results.index.run, results.index.rows) != "held back"
    nice = msgspec.structs.replace(results.index.run, surroundings=msgspec.structs.replace(filtered, nice=5))
    assert without_interception(nice, results.index.rows) == "held back"


def test_a_run_that_was_stopped_too_early_carries_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve visits, most rows of two. A run of a second told of its neighbours what 15 samples had seen."""
    monkeypatch.setattr("tollmeter.findings.all_findings", lambda _: [PROBLEM])
    told = open_run(Path(shutil.copytree(RECORDINGS / "format-1", tmp_path / "run")))
    assert (told.index.run.verdict, told.index.findings, told.index.withheld) == ("interrupted", (), (SHARED.name,))
    assert told.index.run.withheld_problems == 1


def test_what_only_thin_rows_say_is_withheld_and_named() -> None:
    assert carried("quiet", [CACHE], []) == ((), (CACHE.name,), 0)
    assert carried("quiet", [CACHE, SHARED], [PROBLEM]) == ((PROBLEM,), (CACHE.name,), 0)
    assert carried("too short", [CACHE, SHARED], [PROBLEM]) == ((), (CACHE.name, SHARED.name), 1)
    results = example_runs.small()
    held = with_index(results, withheld=(CACHE.name,))
    told = words(held)
    assert "1 finding withheld" in told and "cache disagrees" in told


def test_a_question_is_answered_unless_too_much_is_missing() -> None:
    rows, run = list(example_runs.small().index.rows), example_runs.small().index.run
    assert unanswered(run, rows, None) == ""
    unreached = [msgspec.structs.replace(row, status="interrupted") for row in rows[: len(rows) // 3]]
    assert f"{len(unreached)} of {len(rows)} rows were not reached" in unanswered(
        run, [*unreached, *rows[len(unreached) :]], None
    )
    impossible = [msgspec.structs.replace(row, status="unsupported") for row in unreached]
    assert unanswered(run, [*impossible, *rows[len(unreached) :]], None) == ""
    short = msgspec.structs.replace(run, verdict="too short")
    assert unanswered(short, rows, None) and unanswered(short, rows, None, shown=(2, 5))
    # The numbers of the first screen are measured first; the many others have a visit or two when they are known.
    assert unanswered(short, rows, None, shown=(3, 5)) == ""


def test_points_against_each_other_are_answered_where_most_have_a_ratio() -> None:
    rows, run = example_runs.small().index.rows, example_runs.small().index.run
    lacking = Uncompared(point="a", against="b", layouts=1, reason="1 of the 5 layouts that a ratio needs")
    alone = msgspec.structs.replace(run, uncompared=(lacking,), enough_s=40.0)
    assert unanswered(alone, rows, None) == "1 of the 5 layouts that a ratio needs; --budget 40s would do"
    assert unanswered(alone, rows, None, compared=3) == ""
    assert unanswered(alone, rows, None, compared=2).startswith("1 of 3 pairs have no ratio")
    assert "--budget" not in unanswered(msgspec.structs.replace(alone, enough_s=None), rows, None)
    results = msgspec.structs.replace(example_runs.small(), request={"anew": "./toll run a --against b"})
    told = with_run(results, unanswered="x", enough_s=40.0)
    assert run_verdict.next_step(told).command == "./toll run a --against b --budget 40s"


def test_a_study_is_answered_by_its_figures_whatever_beside_them_was_not_reached() -> None:
    rows, run = list(example_runs.small().index.rows), example_runs.small().index.run
    rows = [msgspec.structs.replace(rows[0], status="interrupted")] * len(rows) + rows
    claim = Claim(what="w", figure="2", value=2.0, here=None, low=None, high=None, unit="ns", verdict="cannot tell")
    holds = msgspec.structs.replace(claim, verdict="holds")
    assert unanswered(run, rows, Study(source="s", claims=(claim, holds, holds))) == ""
    assert "were not reached" in unanswered(run, rows, Study(source="s", claims=(claim, claim, holds)))
    short, known = msgspec.structs.replace(run, verdict="too short"), msgspec.structs.replace(holds, low=1.0, high=3.0)
    assert "fewer than" in unanswered(short, rows, Study(source="s", claims=(claim, holds, known)))
    assert unanswered(short, rows, Study(source="s", claims=(claim, known, known))) == ""


def test_a_study_without_a_verdict_is_not_answered() -> None:
    claim = Claim(what="w", figure="2", value=2.0, here=None, low=None, high=None, unit="ns", verdict="cannot tell")
    run, rows = example_runs.small().index.run, example_runs.small().index.rows
    assert "none of the study's 1 figures" in unanswered(run, rows, Study(source="s", claims=(claim,)))
    holds = msgspec.structs.replace(claim, verdict="holds")
    assert unanswered(run, rows, Study(source="s", claims=(claim, holds))) == ""
    worded = msgspec.structs.replace(claim, value=None)
    assert unanswered(run, rows, Study(source="s", claims=(worded,))) == ""


def test_the_best_known_lines_are_of_every_group() -> None:
    results = example_runs.small()
    chosen = shown.best_known(results)
    assert 6 <= len(chosen) <= 10
    assert {tolls.group_of(toll, results.probes) for toll in chosen} >= {"kernel", "other processes"}
    assert sum(len(tolls) for _, tolls in tolls.grouped(results)) == len(results.index.tolls)


@pytest.mark.parametrize("cheapest", ["anonymous_write", "huge_page", "shared_file"])
def test_every_run_shows_the_same_kind_of_a_toll_whatever_it_costs(cheapest: str) -> None:
    results = example_runs.small()
    known = next(toll for toll in results.index.tolls if toll.probe == "kernel.page_fault")
    kinds = sorted(("anonymous_write", "huge_page", "shared_file"), key=lambda kind: kind != cheapest)
    made = tuple(
        msgspec.structs.replace(known, parameters={"kind": kind}, value=9.0 + n) for n, kind in enumerate(kinds)
    )
    own = [toll for toll in shown.best_known(with_index(results, tolls=made)) if toll.probe == known.probe]
    assert [toll.parameters["kind"] for toll in own] == ["anonymous_write"]
    some = [toll for toll in results.index.tolls if toll.probe == "kernel.call_object"]
    pipe = msgspec.structs.replace(some[0], parameters={"channel": "pipe", "placement": "one_cpu"})
    futex = msgspec.structs.replace(some[0], parameters={"channel": "futex", "placement": "two_cpus"})
    assert shown.best_known(with_index(results, tolls=(futex, pipe))) == (pipe,), "where there is one CPU"
    other = with_index(results, tolls=tuple(toll for toll in made if toll.parameters["kind"] != "anonymous_write"))
    assert len(shown.best_known(other)) == 1


def test_a_longer_budget_is_advised_only_where_it_helps() -> None:
    some, all_of_them = (
        with_run(example_runs.healthy(), verdict="busy", points=10, converged=4, limited=n, enough_s=enough_s)
        for n, enough_s in ((5, 120.0), (6, None))
    )
    assert run_verdict.next_step(some).command.endswith("--budget 2m")
    assert "--budget" not in str(run_verdict.next_step(all_of_them))
    assert "6 limited by the variance between runs" in run_verdict.verdict(all_of_them)
