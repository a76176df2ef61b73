# SPDX-License-Identifier: Apache-2.0
"""`toll gate`: a planted change fails a build, chance does not, and runs that cannot decide decide nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from math import log
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from support.builders import row
from support.recordings import copied
from tollmeter.cli.main import main
from tollmeter.judgement.compare import of_rows
from tollmeter.judgement.gate import Decision, GateRow, decide, of_change
from tollmeter.library import derive
from tollmeter.library.gating import gated
from tollmeter.library.limits import Limits, read_limits
from tollmeter.model import Failure, Index, Row
from tollmeter.numbers.rows import row_key
from tollmeter.report.ci_formats import Case, annotation, junit, ktap
from tollmeter.store.index import index_fingerprint, save_index


def judged(
    log_ratio: float, error: float = 0.01, freedom: float = 30, limit: float = 0.05, name: str = "row"
) -> GateRow:
    return GateRow(name=name, log_ratio=log_ratio, error=error, freedom=freedom, limit=limit)


def outcomes(decision: Decision) -> list[str]:
    return [one.outcome for one in decision.rows]


# ---- the decision ---------------------------------------------------------------------------------------------------


def test_a_row_fails_beyond_its_limit_and_not_within_it() -> None:
    decision = decide([judged(log(1.2)), judged(log(1.06)), judged(0.0), judged(log(0.5))])
    assert outcomes(decision) == ["slower", "inconclusive", "within", "within"]
    assert not decision.passes
    assert outcomes(decide([judged(log(1.2), limit=0.25)])) == ["within"]


def test_the_budget_is_one_for_the_whole_build() -> None:
    """A row that would fail alone, at one in 200, does not among 700."""
    near = judged(log(1.05) + 0.029)
    (alone,) = decide([near]).rows
    assert alone.outcome == "slower" and 0.001 < alone.p_value < 0.01
    among = decide([near, *(judged(0.0, name=str(number)) for number in range(700))])
    assert among.passes
    assert among.rows[0].p_value == alone.p_value


def test_chance_fails_one_build_in_a_hundred_at_most() -> None:
    """Every row is slower by exactly its limit, which is the worst that may pass."""
    chance = np.random.default_rng(1)
    limit = log(1.05)
    builds = [
        decide([judged(limit + 0.01 * float(error), freedom=5) for error in chance.standard_t(5, size=100)])
        for _ in range(300)
    ]
    assert sum(not one.passes for one in builds) <= 8, "3 of 300 are expected"


def test_few_layouts_have_long_tails() -> None:
    assert outcomes(decide([judged(log(1.12), freedom=30)])) == ["slower"]
    assert outcomes(decide([judged(log(1.12), freedom=2)])) == ["inconclusive"]


def test_what_a_row_shows_is_where_it_begins_to_fail() -> None:
    several = [judged(0.0, name=str(number)) for number in range(20)]
    least = decide(several).rows[0].least
    for factor, expected in ((0.999, True), (1.001, False)):
        changed = judged(log(1 + least * factor), name="0")
        assert decide([changed, *several[1:]]).passes is expected


def test_what_cannot_be_judged_takes_no_part() -> None:
    unknown = [msgspec.structs.replace(judged(-5.0), reason="no interval") for _ in range(9)]
    decision = decide([*unknown, judged(log(1.05) + 0.029)])
    assert outcomes(decision) == [*["inconclusive"] * 9, "slower"], "one row is judged, and not ten"


def of_rows_judged(old: Row, new: Row) -> GateRow:
    (change,) = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01).changes
    return of_change(change, "row", 0.05)


def test_a_rate_that_falls_is_slower() -> None:
    fallen = of_rows_judged(row(100.0, unit="B/s", layouts=20), row(50.0, unit="B/s", layouts=20))
    assert fallen.log_ratio == pytest.approx(log(2)) and decide([fallen]).rows[0].outcome == "slower"
    risen = of_rows_judged(row(50.0, unit="B/s", layouts=20), row(100.0, unit="B/s", layouts=20))
    assert decide([risen]).passes


@pytest.mark.parametrize("more", [{"layouts": 1}, {"visits": 2}, {"state": "contended"}])
def test_rows_of_too_little_or_another_state_are_not_judged(more: dict[str, object]) -> None:
    assert of_rows_judged(row(10.0), msgspec.structs.replace(row(20.0), **more)).reason
    assert not of_rows_judged(row(10.0), row(20.0)).reason


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_limits_are_by_globs_and_the_first_that_matches(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(
        'limit = "3%"\n[[rows]]\nrow = "kernel.disk*"\nlimit = "none"\n[[rows]]\nrow = "*size=4096*"\nlimit = "20%"\n'
    )
    limits = read_limits(None, file)
    assert limits.of("kernel.disk read") is None
    assert limits.of("memory.latency load size=4096 x86_64 local") == 0.2
    assert limits.of("kernel.enter_syscall") == 0.03
    assert read_limits("7%", file).of("kernel.enter_syscall") == 0.07, "what is typed holds"
    assert limits.unused(["kernel.disk read"]) == ["*size=4096*"]


@pytest.mark.parametrize(
    "text", ["limit = 5", 'limit = "much"', "what = 1", "[[rows]]\nrow = 1", 'rows = [{row = "a"}]', "limit ="]
)
def test_what_is_no_limit_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(text)
    with pytest.raises(Failure) as caught:
        read_limits(None, file)
    assert caught.value.exit_code == 2 and str(file) in caught.value.sentence


# ---- the verb -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    names = ("01", "13", "21")
    return [str(copied(f"repeated/{name}", tmp_path_factory.mktemp("run"), calm=True)) for name in names]


Change = Callable[[Index], Index]


@pytest.fixture
def changed(runs: list[str]) -> Iterator[Callable[[Change], None]]:
    """A function that changes the stored index of every run but the first; several changes add up."""
    others = [Path(run) for run in runs[1:]]
    before = [derive.open_run(run).index for run in others]

    def add(change: Change) -> None:
        for run in others:
            save_index(run, index_fingerprint(run), change(derive.open_run(run).index))

    yield add
    for run, own in zip(others, before, strict=True):
        save_index(run, index_fingerprint(run), own)


def three_times_as_slow(index: Index) -> Index:
    """Every row takes three times as long."""
    rows = ({name: 3 * (getattr(one, name) or 0) for name in ("median", "low", "high")} for one in index.rows)
    slower = (msgspec.structs.replace(one, **times) for one, times in zip(index.rows, rows, strict=True))
    return msgspec.structs.replace(index, rows=tuple(slower))


def of_machine(**fields: object) -> Change:
    return lambda index: msgspec.structs.replace(index, machine=msgspec.structs.replace(index.machine, **fields))


def busy(index: Index) -> Index:
    return msgspec.structs.replace(index, run=msgspec.structs.replace(index.run, verdict="busy"))


def with_microcode(index: Index) -> Index:
    return of_machine(facts={**index.machine.facts, "microcode": "0xffff"})(index)


def without_entry(index: Index) -> Index:
    return msgspec.structs.replace(index, rows=tuple(one for one in index.rows if one.probe != "kernel.enter_syscall"))


def test_runs_of_one_machine_pass(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for base in runs:
        for new in runs:
            if base != new:
                assert main(["gate", "--base", base, "--new", new, "--strict"]) == 0
    assert "shows a change from" in capsys.readouterr().out


def test_a_slow_build_fails_with_3(
    runs: list[str], capsys: pytest.CaptureFixture[str], changed: Callable[[Change], None]
) -> None:
    changed(three_times_as_slow)
    assert main(["gate", "--base", runs[0], "--new", runs[1]]) == 3
    said = capsys.readouterr()
    assert "slower by more than" in said.out and "slower by more than" in said.err
    assert main(["gate", "--base", runs[0], "--new", runs[1], "--format", "json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["passes"] is False
    slow = [one["judged"]["name"] for one in told["decision"]["rows"] if one["outcome"] == "slower"]
    assert slow
    for form, sign in (("junit", "<failure"), ("ktap", "not ok"), ("github", "::error")):
        assert main(["gate", "--base", runs[0], "--new", runs[1], "--format", form]) == 3
        assert capsys.readouterr().out.count(sign) == min(len(slow), 10 if form == "github" else len(slow))


def test_a_github_job_has_a_summary(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["gate", "--base", runs[0], "--new", runs[1], "--format", "github"]) == 0
    assert not capsys.readouterr().out and "No row of" in summary.read_text()
    summary.write_text("before\n")
    assert main(["compare", runs[0], runs[1], "--format", "github"]) == 0
    assert summary.read_text().startswith("before\n") and len(summary.read_text()) <= 60_007


@pytest.mark.parametrize(
    ("change", "said"),
    [(of_machine(kernel="Another"), "kernel"), (of_machine(cpu="Another"), "cpu"), (busy, "busy"),
     (with_microcode, "microcode")],
    ids=["kernel", "cpu", "verdict", "facts"],
)  # fmt: skip
def test_runs_without_evidence_on_the_code_are_inconclusive(
    runs: list[str], change: Change, said: str, capsys: pytest.CaptureFixture[str], changed: Callable[[Change], None]
) -> None:
    changed(three_times_as_slow)
    changed(change)
    words = ["gate", "--base", runs[0], "--new", runs[1]]
    assert main(words) == 0
    told = capsys.readouterr()
    assert "nconclusive" in told.out and said in told.out and not told.err
    assert main([*words, "--strict"]) == 4
    assert said in capsys.readouterr().err
    assert main([*words, "--format", "junit"]) == 0
    assert "<failure" not in capsys.readouterr().out


def test_rows_that_a_build_lost_are_named(
    runs: list[str], capsys: pytest.CaptureFixture[str], changed: Callable[[Change], None]
) -> None:
    changed(without_entry)
    words = ["gate", "--base", runs[0], "--new", runs[1]]
    assert main(words) == main([*words, "--strict"]) == 7
    said = capsys.readouterr()
    assert "1 row of the reference has no number" in " ".join(said.out.split())
    assert "kernel.enter_syscall round_trip" in said.err
    assert main([*words, "--ignore-missing"]) == 0
    assert not gated(runs[1], runs[0], read_limits(None, None)).missing
    not_judged = Limits(globs=(("kernel.*", None),))
    assert not gated(runs[0], runs[1], not_judged).missing


def test_where_no_row_is_judged_nothing_is_decided(runs: list[str], tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('[[rows]]\nrow = "*"\nlimit = "none"\n')
    words = ["gate", "--base", runs[0], "--new", runs[1], "--limits", str(file)]
    assert main(words) == 0
    assert main([*words, "--strict"]) == 4


def test_a_name_alone_makes_no_other_system(runs: list[str], changed: Callable[[Change], None]) -> None:
    """Machines of a cloud have a name each."""
    changed(of_machine(host="another"))
    assert not gated(runs[0], runs[1], read_limits(None, None)).unlike


@pytest.mark.parametrize(
    "words", [["--limit", "x"], ["--limits", "nowhere.toml"], ["--format", "csv"], ["--base", "nothing"]]
)
def test_bad_words_are_refused(runs: list[str], words: list[str]) -> None:
    assert main(["gate", "--base", runs[0], "--new", runs[1], *words]) == 2


# ---- what CI systems read -------------------------------------------------------------------------------------------

CASES = [
    Case('a <b> "c" #1', "a", "failed", "slower\nby 10 % & more"),
    Case("fine", "b", "passed"),
    Case("unsure", "b", "skipped", "too few visits"),
]


def test_junit_is_xml_with_a_case_a_row() -> None:
    (suite,) = ElementTree.fromstring(junit("a & b", CASES))
    assert suite.attrib == {"name": "a & b", "tests": "3", "failures": "1", "skipped": "1", "errors": "0"}
    assert [case.attrib["name"] for case in suite] == [case.name for case in CASES]
    assert [[child.tag for child in case] for case in suite] == [["failure"], [], ["skipped"]]


def test_ktap_numbers_its_lines() -> None:
    lines = ktap(CASES).splitlines()
    assert lines[:2] == ["KTAP version 1", "1..3"] and len(lines) == 5
    assert lines[2].startswith("not ok 1 ") and lines[2].count("#") == 1
    assert lines[3] == "ok 2 fine" and lines[4].startswith("ok 3 unsure # SKIP ")


def test_perl_s_reader_of_test_results_reads_ktap(tmp_path: Path) -> None:
    prove = shutil.which("prove")
    assert prove, "perl has it, which git needs"
    (tmp_path / "out").write_text(ktap(CASES), encoding="utf-8")
    ended = subprocess.run([prove, "-e", "cat", tmp_path / "out"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Tests: 3 Failed: 1" in ended.stdout and "1 skipped subtest: 1 okay" in ended.stdout
    assert "Failed test:  1" in ended.stdout and "Parse errors" not in ended.stdout


def test_an_annotation_is_one_line_whatever_it_says() -> None:
    assert annotation("error", "a,b:0", "100 %\nmore") == "::error title=a%2Cb%3A0::100 %25%0Amore\n"


def test_go_benchmarks_have_a_line_a_visit(runs: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs[0], runs[1], "--format", "benchfmt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("run: ")] == ["run: old", "run: new"]
    made = [line.split(" ") for line in lines if line.startswith("Benchmark")]
    assert all(len(words) == 4 and words[1] == "1" and float(words[2]) > 0 for words in made)
    assert {"ns/op"} <= {words[3] for words in made}
    assert len({words[0] for words in made}) >= 14 and len(made) > 28
