# SPDX-License-Identifier: Apache-2.0
"""`toll compare`: two runs of one machine hardly differ, a planted change is named with its size, and what cannot be
compared is said."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

from support import example_runs
from support.builders import row
from support.recordings import copied
from support.rendered import of_blocks
from support.snapshots import approve_variations
from tollmeter.cli.main import main
from tollmeter.judgement.compare import (
    TOO_WIDE,
    Change,
    compare,
    curves,
    moved,
    of_rows,
    visits_to_decide,
)
from tollmeter.library import places
from tollmeter.model import Results, Unit
from tollmeter.numbers.rows import row_key
from tollmeter.numbers.stats import Estimate
from tollmeter.report.blocks import Table
from tollmeter.report.ci_formats import annotated, as_markdown, cases
from tollmeter.report.compared import blocks
from tollmeter.report.compared_rows import Compared, Naming, curve_in_words, direction
from tollmeter.store.journal import NAME as JOURNAL


@functools.cache
def healthy() -> Results:
    return example_runs.healthy(("x86_64",), visits=4, samples=2)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one quiet machine."""
    runs = tmp_path_factory.mktemp("checkout") / "runs"
    for place, name in enumerate(("01", "13", "21")):
        folder = copied(f"repeated/{name}", runs / f"r{name}")
        os.utime(folder / JOURNAL, (1e9 + place, 1e9 + place))
    (runs / places.LAST).symlink_to("r21")
    return runs


@pytest.fixture
def runs(recorded: Path, checkout: Callable[[Path], Path]) -> Path:
    return checkout(recorded.parent) / "runs"


def of(old: Results, new: Results, **more: bool) -> Compared:
    return Compared((old, new), ("old", "new"), (compare(old.index, new.index),), **more)


@pytest.mark.usefixtures("runs")
def test_two_runs_of_one_machine_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "r01", "r21", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in told["runs"]] == ["old", "new"]
    (found,) = told["comparisons"]
    verdicts = [change["verdict"] for change in found["changes"]]
    assert len(verdicts) > 10 and sum(one in ("slower", "faster") for one in verdicts) <= 1
    assert all(change["reason"] for change in found["changes"] if change["verdict"] == "cannot tell")


@pytest.mark.usefixtures("runs")
def test_runs_before_the_last_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert places.find_run("LAST~1").name == "r13" and places.find_run("LAST~2").name == "r01"
    assert places.find_run("LAST~0").name == "r21"
    assert main(["compare", "LAST~2", "LAST~1", "LAST"]) == 0
    printed = capsys.readouterr().out
    assert "r13, 23 November" in printed and "r21: " in printed
    assert main(["show", "LAST~3"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["r01", "r01"], 2, "same run"),
        (["r01"], 2, "--by"),
        (["r01", "--by", "nonsense"], 2, "property"),
        (["r01", "r21", "--by", "abi"], 2, "compares the rows of one run"),
        (["r01", "--by", "abi"], 2, "same value"),
        (["r01", "r21", "--machines", "--by", "abi"], 2, "--machines"),
        (["r01", "r21", "--format", "xml"], 2, "format"),
        (["r01", "r21", "--least", "much"], 2, "--least"),
        (["r01", "another"], 2, "another"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_bad_words_are_refused(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("runs")
def test_runs_without_a_common_row_are_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "r01", str(copied("format-1", tmp_path / "other"))]) == 6
    assert "no row has a number in both" in capsys.readouterr().err


def test_a_journal_that_is_cut_off_is_compared_and_said(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = Path(shutil.copytree(runs / "r21", tmp_path / "cut"))
    whole = (cut / JOURNAL).read_bytes()
    (cut / JOURNAL).write_bytes(whole[: len(whole) * 9 // 10])
    assert main(["compare", "r01", str(cut)]) == 0
    assert "stopped before its end" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("runs")
def test_two_runs_have_one_page_and_more_machines_that_of_a_gallery(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--machines", "r01", "r21"]) == 0
    both = recorded / "r01" / "beside-r21.html"
    printed = capsys.readouterr().out
    assert f"Page  {both}" in printed
    as_compared = both.read_text()
    assert main(["report", "r01", "r21"]) == 0
    assert both.read_text() == as_compared
    assert main(["compare", "--machines", "r01", "r13", "r21"]) == 0
    page = recorded / "r01" / "machines.html"
    (data,) = re.findall(r'<script[^>]* id="data"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    assert [machine["name"].rpartition(", ")[2] for machine in json.loads(data)["machines"]] == ["r01", "r13", "r21"]
    assert "changed" in printed and "code" not in printed
    assert main(["compare", "r01", "r21", "--format", "html", "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert main(["compare", "r01", "r13", "r21", "--format", "html"]) == 2


@pytest.mark.usefixtures("runs")
def test_rows_of_one_run_are_compared_by_a_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "r21", "--by", "size", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["by"] == "size" and len(told["runs"]) == 1 + len(told["comparisons"])
    labels = [int(one["label"]) for one in told["runs"]]
    assert labels == sorted(labels)
    for label, one in zip(labels[1:], told["comparisons"], strict=True):
        for change in one["changes"]:
            assert change["old"]["parameters"]["size"] == labels[0] and change["new"]["parameters"]["size"] == label


def curve(factors: dict[int, float]) -> tuple[Change, ...]:
    sizes = [1 << place for place in range(12, 27)]
    old = [row(10.0, parameters={"size": size}) for size in sizes]
    new = [row(10.0 * factors.get(size, 1.0), parameters={"size": size}) for size in sizes]
    sides = [{row_key(one): one for one in side} for side in (old, new)]
    return of_rows(*sides, None, 0.01).changes


# ---- what is printed ------------------------------------------------------------------------------------------------


def of_changes(changes: tuple[Change, ...]) -> Compared:
    results = healthy()
    comparison = msgspec.structs.replace(compare(results.index, results.index), changes=changes)
    return Compared((results, results), ("old", "new"), (comparison,))


def with_machine(results: Results, facts: dict[str, str] | None = None, **changes: object) -> Results:
    machine = msgspec.structs.replace(results.index.machine, **changes)
    machine = machine if facts is None else msgspec.structs.replace(machine, facts=facts)
    return example_runs.with_index(results, machine=machine)


def inconclusive(low: float, high: float, reason: str = TOO_WIDE) -> Compared:
    one = row(10.0, 0.04)
    return of_changes((Change(one, one, Estimate(1.0, low, high), 1.0, "cannot tell", reason=reason),))


PRINTED = ("kernel.enter_syscall", "kernel.page_fault", "memory.line", "memory.read")
"""Probes of single rows, of a curve in time and of one of rates."""


@functools.cache
def comparisons() -> dict[str, Compared]:
    rows = healthy().index.rows
    old = example_runs.with_rows(healthy(), [one for one in rows if one.probe in PRINTED])
    mitigated = {"microcode": "0x1", "vulnerability_mds": "a"}
    slow = example_runs.slowed(old, 1.5)
    few = example_runs.with_rows(old, [one for one in old.index.rows if one.probe == "memory.line"])
    facts = {"microcode": "0x2", "vulnerability_mds": "a", "load_average": "9"}
    return {
        "the same run": of(old, old),
        "every time half as long again": of(old, slow),
        "and under another kernel": of(old, with_machine(slow, kernel="Linux 9.9")),
        "and with another microcode": of(with_machine(old, mitigated), with_machine(slow, facts)),
        "and with another mitigation": of(
            with_machine(old, mitigated), with_machine(slow, {**mitigated, "vulnerability_mds": "b"})
        ),
        "a fact that one lacks is no difference": of(with_machine(old, mitigated), with_machine(slow, {})),
        "a third run that lacks rows": Compared(
            (old, old, few), ("a", "b", "c"), (compare(old.index, old.index), compare(old.index, few.index))
        ),
        "rows of one curve are one sentence": of_changes(curve({1 << 20: 1.2, 1 << 21: 1.5, 1 << 14: 0.8})),
        "one change is no curve's": of_changes(curve({1 << 20: 1.2})),
        "an inconclusive row that differs by little": inconclusive(0.93, 1.06),
        "by more upwards": inconclusive(0.93, 1.12),
        "by more downwards": inconclusive(0.88, 1.06),
        "of one layout": inconclusive(0.99, 1.01, "visits of one memory layout"),
    }


def test_what_is_printed_of_two_runs() -> None:
    """As a table, and for programs of a CI: how many cases end in which way, and the first annotations."""

    def said(compared: Compared) -> str:
        results = Counter(case.result for case in cases(compared))
        lines = annotated(compared).splitlines()[:2]
        marks = (unquote(line.split("::")[1]).replace(" title=", ": ") for line in lines)
        return of_blocks([*blocks(compared, whole=False), f"cases: {dict(sorted(results.items()))}", *marks])

    texts = {title: said(compared) for title, compared in comparisons().items()}
    approve_variations("comparisons", texts["the same run"], texts)


def test_all_rows_are_printed_on_request() -> None:
    found = comparisons()["every time half as long again"]
    (whole,) = [one for one in blocks(found, whole=True) if isinstance(one, Table) and one.title == "Rows"]
    assert len(whole.rows) == len(found.comparisons[0].changes)


def test_a_boundary_has_moved_where_its_intervals_are_disjoint() -> None:
    levels = healthy().index.hierarchy
    second = next(level for level in levels if level.level == "L2")
    assert second.size_low is not None and second.size_high is not None and second.size_bytes is not None
    scale = second.size_low / second.size_high * 0.99
    smaller = msgspec.structs.replace(
        second, size_bytes=second.size_bytes * scale, size_low=second.size_low * scale,
        size_high=second.size_high * scale,
    )  # fmt: skip
    (found,) = moved(levels, [smaller])
    assert found.new.size_bytes == smaller.size_bytes
    assert not moved(levels, levels)
    overlapping = msgspec.structs.replace(second, size_low=second.size_low * scale)
    assert not moved(levels, [overlapping])
    changes = curve({1 << 19: 1.2, 1 << 20: 1.5})
    naming = Naming(of_changes(changes))
    said = curve_in_words(curves(changes)[0], naming, moved(levels, [smaller]))
    assert "L2 boundary moved from" in said
    said = curve_in_words(curves(curve({1 << 12: 1.2, 1 << 13: 1.5}))[0], naming, moved(levels, [smaller]))
    assert "L2" not in said, "4 KiB is far from it"


def test_two_machines_are_compared_in_time_and_not_in_cycles() -> None:
    old, new = (row(10.0, clock_hz=hz) for hz in (4e9, 2e9))
    sides = {row_key(old): old}, {row_key(new): new}
    (in_time,) = of_rows(*sides, 0.5, 0.01, machines=True).changes
    assert (in_time.verdict, in_time.cause) == ("same", None)
    (in_cycles,) = of_rows(*sides, 0.5, 0.01).changes
    assert in_cycles.verdict == "faster"


def test_a_wider_row_wants_more_visits_and_one_limited_by_its_runs_none() -> None:
    def wanted(spread: float, runs_sd: float) -> int | None:
        old, new = (msgspec.structs.replace(row(cost, spread), runs_sd=runs_sd) for cost in (10.0, 10.1))
        (change,) = of_rows({row_key(old): old}, {row_key(new): new}, None, 0.01).changes
        return visits_to_decide(change)

    narrow, wide = wanted(0.04, 0.005), wanted(0.08, 0.005)
    assert narrow and wide and wide > 3 * narrow > 15
    assert wanted(0.04, 0.015) is None, "runs differ by 3 %"


def test_markdown_fits_into_a_comment() -> None:
    old = example_runs.large()
    text = as_markdown(of(old, example_runs.slowed(old, 1.5)), whole=True)
    assert 20_000 < len(text) <= 60_000
    assert "rows are left out" in text and text.rstrip().endswith(".")


@pytest.mark.parametrize(
    ("unit", "ratio", "word"),
    [("ns", 0.9, "faster"), ("B/s", 1.1, "faster"), ("B", 0.9, "less"), ("fault", 1.1, "more")],
)
def test_memory_and_counts_are_less_or_more_and_times_faster_or_slower(unit: Unit, ratio: float, word: str) -> None:
    old, new = (row(value, unit=unit) for value in (1.0, ratio))
    is_good = (ratio < 1) == (unit != "B/s")
    change = Change(
        old=old, new=new, ratio=Estimate(value=ratio, low=ratio, high=ratio), adjusted=0.0,
        verdict="faster" if is_good else "slower", cause="code",
    )  # fmt: skip
    assert direction(change) == word
