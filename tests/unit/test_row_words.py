# SPDX-License-Identifier: Apache-2.0
"""Rows of a run by words: which rows every verb that reads takes, and that their numbers are those of the whole run."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from tollmeter.cli.main import main
from tollmeter.library import places
from tollmeter.library.derive import open_index, open_run
from tollmeter.library.places import runs_and_words
from tollmeter.library.row_words import selected_rows
from tollmeter.store.journal import NAME
from tollmeter.store.request import read_request, write_request

RECORDED = Path(__file__).resolve().parents[1] / "recordings/format-2"
LATENCY = "memory.latency"


@pytest.fixture
def run(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(RECORDED, own_runs / "r01")
    monkeypatch.chdir(own_runs)
    (own_runs / places.LAST).symlink_to("r01")
    return own_runs / "r01"


@pytest.mark.parametrize(
    ("words", "sizes"),
    [(["LAST", "memory.*"], {4096, 65536}), (["memory.latency", "size=64KiB"], {65536}), (["size=4096"], {4096})],
)
@pytest.mark.parametrize("verb", [["show", "--format", "csv"], ["export"], ["show", "--raw", "--format", "csv"]])
@pytest.mark.usefixtures("run")
def test_the_rows_and_samples_that_words_name(
    verb: list[str], words: list[str], sizes: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb[0], *words, *verb[1:]]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {line["probe"] for line in lines} == {LATENCY}
    assert {json.loads(line["parameters"])["size"] for line in lines} == sizes


def test_rows_are_those_of_the_last_run_that_has_some(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After `toll time` LAST was a run of commands, which has no row of a probe."""
    commands = shutil.copytree(run, run.with_name("r02"))
    request = read_request(run)
    suite = msgspec.structs.replace(request.suite, name="time", select=())
    (commands / "run.toml").unlink()
    write_request(commands, msgspec.structs.replace(request, id="r02", suite=suite))
    os.utime(run / NAME, (1, 1))
    (run.parent / places.LAST).unlink()
    (run.parent / places.LAST).symlink_to("r02")
    assert main(["show", "LAST", LATENCY, "--format", "csv"]) == 0
    told = capsys.readouterr()
    assert LATENCY in told.out and "r02 is younger" in told.err


def test_a_selected_row_has_the_number_that_it_has_among_all(run: Path) -> None:
    every = {(row.probe, row.metric, row.parameters.get("size")): row for row in open_index(run).rows}
    part = selected_rows(open_run(run), ["memory.*"])
    assert part.index.rows and all(
        row == every[row.probe, row.metric, row.parameters.get("size")] for row in part.index.rows
    )
    assert {visit.point.probe for visit in part.outcomes} == {LATENCY} == {*part.probes}


def test_samples_stand_below_the_question_without_what_they_share(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "LAST", LATENCY, "size=64KiB", "--raw"]) == 0
    question, same, head, *lines = capsys.readouterr().out.rstrip().split("\n")
    assert question.endswith(open_run(run).probes[LATENCY].question)
    assert "size 65536" in same
    assert "size" not in head.split() and "body_n_ns" in head.split()
    assert len({line.split()[head.split().index("at_ns")] for line in lines}) == len(lines) > 1


@pytest.mark.parametrize(
    ("words", "near"),
    [(["memory.latenc"], LATENCY), ([LATENCY, "siz=1"], "size"), ([LATENCY, "size=3"], "65536")],
)
@pytest.mark.usefixtures("run")
def test_a_word_that_names_no_row_is_refused_with_the_nearest(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("show", "report", "export"):
        assert main([verb, "LAST", *words]) == 2
        assert near in capsys.readouterr().err


@pytest.mark.usefixtures("run")
def test_a_word_behind_a_run_that_is_neither_run_nor_row_selects_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "LAST", "--explain", "nosuch"]) == 2
    told = capsys.readouterr().err
    assert "there is no probe 'nosuch' in this run" in told and "compare" not in told


def test_a_page_of_some_rows_does_not_replace_that_of_all(run: Path) -> None:
    assert main(["report", "LAST"]) == main(["report", "LAST", LATENCY]) == 0
    (part,) = run.glob(f"{LATENCY}-*.html")
    # What was requested of the whole run stands on both.
    questions = [probe.question for probe in open_run(run).probes.values()]
    counts = [[path.read_text().count(question) for question in questions] for path in (run / "report.html", part)]
    assert min(more - fewer for more, fewer in zip(*counts, strict=True)) == 0 < max(counts[0])
    assert sum(more > fewer for more, fewer in zip(*counts, strict=True)) == len(questions) - 1


def test_a_comparison_of_some_rows_keeps_the_verdicts_of_all(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = shutil.copytree(run, run.parent / "r02")
    (other / "run.toml").write_text((run / "run.toml").read_text().replace('"format-2"', '"another"'))
    changes = []
    for words in ([], [LATENCY]):
        assert main(["compare", "r01", "r02", *words, "--format", "json"]) == 0
        (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
        changes.append([change for change in comparison["changes"] if change["old"]["probe"] == LATENCY])
        assert bool(words) == (len(comparison["changes"]) == len(changes[-1]))
    assert changes[0] == changes[1] != []


def test_a_run_whose_name_is_that_of_a_probe_or_a_glob_is_a_run(run: Path) -> None:
    assert runs_and_words(["LAST", LATENCY]) == (["LAST"], [LATENCY])
    shutil.copytree(run, run.parent / LATENCY)
    assert runs_and_words([LATENCY, "size=1"]) == ([LATENCY], ["size=1"])
    for name in ("cpu=any", "a*b"):
        assert runs_and_words([name]) == ([], [name])
        shutil.copytree(run, run.parent / name)
        assert runs_and_words([name, "size=1"]) == ([name], ["size=1"])
