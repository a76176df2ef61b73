# SPDX-License-Identifier: Apache-2.0
"""Rows over many runs: what is in one series, when it changed and what differed then, and what other programs get."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.builders import row, run_info
from support.fake_catalog import MACHINE
from tollmeter.cli.main import main
from tollmeter.judgement.compare import SAME_INSTRUCTIONS
from tollmeter.judgement.row_series import RowSeries, row_series
from tollmeter.library.derive import open_index
from tollmeter.library.run_history import read_history, youngest_runs
from tollmeter.model import EventRate, Failure, Index, Level, Machine, Row, Toll
from tollmeter.report.history import _change_text
from tollmeter.store.index import index_fingerprint, load_excerpt, save_index
from tollmeter.store.journal import NAME as JOURNAL

RECORDED = Path(__file__).resolve().parents[1] / "recordings/format-2"
OTHER_KERNEL = msgspec.structs.replace(MACHINE, kernel="k2")


def keep(place: Path, number: int, rows: Sequence[Row], machine: Machine = MACHINE, **more: Any) -> None:
    """A run folder with an index of its own, and the journal of a recorded run."""
    folder = place / f"run-{number:02}"
    folder.mkdir(parents=True)
    shutil.copy(RECORDED / JOURNAL, folder)
    (folder / "run.toml").write_text("")
    run = run_info(id=str(number), started=f"2026-01-{number + 1:02}T12:00:00+00:00", folder=str(folder))
    save_index(folder, index_fingerprint(folder), Index(format=3, run=run, machine=machine, rows=tuple(rows), **more))


def series(place: Path, *words: str) -> list[RowSeries]:
    return row_series(read_history(youngest_runs([place], 100), words or ["any.probe"]).readings)


def test_the_youngest_runs_are_read_and_one_that_is_named_twice_once(tmp_path: Path, said: list[str]) -> None:
    for number, age in enumerate((3, 1, 2)):
        keep(tmp_path, number, [row(10.0)])
        os.utime(tmp_path / f"run-{number:02}" / JOURNAL, (1e9 - age, 1e9 - age))
    (tmp_path / "LAST").symlink_to("run-01")
    assert [folder.name for folder in youngest_runs([tmp_path, tmp_path / "run-01"], 9)] == [
        "run-00",
        "run-02",
        "run-01",
    ]
    assert said == []
    assert [folder.name for folder in youngest_runs([tmp_path], 2)] == ["run-02", "run-01"]
    assert "--last 3" in said[0]


def test_a_change_has_a_date_and_the_differences_of_its_runs(tmp_path: Path) -> None:
    for number in range(12):
        keep(tmp_path, number, [row(10.0 + 2 * (number >= 7))], OTHER_KERNEL if number >= 7 else MACHINE)
    (found,) = series(tmp_path)
    (step,) = found.steps
    assert found.readings[step.place].source.name == "run-07"
    assert step.change.verdict == "slower" and step.change.ratio.value == pytest.approx(1.2, rel=0.01)
    assert step.differences == ("kernel k to k2",)


@pytest.mark.parametrize(("instructions", "same"), [(50.0, True), (60.0, False)])
def test_a_change_with_as_many_instructions_says_that_the_machine_moved(
    tmp_path: Path, instructions: float, same: bool
) -> None:
    for number in range(12):
        is_later = number >= 6
        value = instructions if is_later else 50.0
        rate = EventRate(source="pmu", value=value, low=value, high=value, visits=3)
        keep(tmp_path, number, [row(10.0 + 2 * is_later, counters={"instructions": rate})])
    ((found,), (step,)) = (all_series := series(tmp_path)), all_series[0].steps
    assert step.change.same_instructions is same
    assert (SAME_INSTRUCTIONS in _change_text(found, step)) is same


@pytest.mark.parametrize("fact", ["microcode", "governor", "vulnerability_spectre_v2"])
def test_every_fact_of_the_machine_may_be_what_differs(tmp_path: Path, fact: str) -> None:
    for number in range(12):
        facts = {fact: "b" if number >= 6 else "a", "load_average": str(number)}
        keep(tmp_path, number, [row(10.0 + 2 * (number >= 6))], msgspec.structs.replace(MACHINE, facts=facts))
    ((step,),) = [one.steps for one in series(tmp_path)]
    assert len(step.differences) == 1 and step.differences[0].endswith("a to b")


@pytest.mark.parametrize("other", [{"host": "x"}, {"cpu": "x"}, {"hypervisor": "x"}, {"facts": {"cpu_family": "25"}}])
def test_machines_are_never_in_one_series(tmp_path: Path, other: dict[str, Any]) -> None:
    elsewhere = msgspec.structs.replace(MACHINE, **other)
    for number in range(10):
        keep(tmp_path, number, [row(10.0 + 5 * (number >= 5))], elsewhere if number >= 5 else MACHINE)
    assert [(len(one.readings), one.steps) for one in series(tmp_path)] == [(5, ()), (5, ())]


@pytest.mark.parametrize("other", [{"state": "contended"}, {"revision": 2}, {"clock": "external"}, {"unit": "cycle"}])
def test_states_of_the_core_revisions_clocks_and_units_are_never_in_one_series(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    mine = row(10.0, state="uncontended")
    for number in range(10):
        keep(tmp_path, number, [msgspec.structs.replace(mine, **(other if number % 2 else {}))])
    assert [len(one.readings) for one in series(tmp_path)] == [5, 5]


def test_what_follows_the_clock_of_the_core_does_not_change_with_it(tmp_path: Path) -> None:
    for number in range(12):
        clock_hz = 4e9 if number < 6 else 3e9
        cost = 10.0 * 4e9 / clock_hz
        keep(
            tmp_path, number, [row(cost, clock_hz=clock_hz), row(20.0 + 5 * (number >= 6), name="b", clock_hz=clock_hz)]
        )
    follows, slower = series(tmp_path)
    assert follows.in_cycles and not follows.steps
    assert slower.steps[0].change.verdict == "faster", "25 ns at 3 GHz are fewer cycles than 20 ns at 4 GHz"


def test_what_may_follow_the_clock_changes_only_where_both_views_have_it(tmp_path: Path) -> None:
    for number in range(12):
        machine = msgspec.structs.replace(MACHINE, core_clock_hz=4e9 if number < 6 else 3e9)
        keep(
            tmp_path, number, [row(10.0 * (4 / 3) ** (number >= 6)), row(10.0 * 2 ** (number >= 6), name="b")], machine
        )
    assert [len(one.steps) for one in series(tmp_path)] == [0, 1]


def test_rows_without_an_interval_are_left_out_and_counted(tmp_path: Path) -> None:
    for number in range(6):
        keep(tmp_path, number, [row(10.0, layouts=1) if number < 2 else row(10.0)])
    (found,) = series(tmp_path)
    assert (len(found.readings), found.left_out) == (4, 2)


def test_rows_are_selected_as_for_a_run(tmp_path: Path) -> None:
    rows = [row(10.0, parameters={"size": size, "kind": kind}) for size in (16384, 32768) for kind in ("a", "b")]
    keep(tmp_path, 0, [*rows, row(1.0, of="other.probe")])
    assert len(series(tmp_path, "*")) == 5
    assert len(series(tmp_path, "any.*", "size=16KiB")) == 2
    assert len(series(tmp_path, "size=16384,32KiB", "any.probe", "kind=b")) == 2
    assert len(series(tmp_path, "any.probe", "kind=a", "size=16KiB", "other.probe")) == 2


@pytest.mark.parametrize(
    ("words", "near"),
    [(["any.prob"], "any.probe"), (["any.probe", "siz=1"], "size"), (["any.probe", "size=1"], "16384")],
)
def test_a_row_that_no_run_has_is_refused_with_the_nearest_names(tmp_path: Path, words: list[str], near: str) -> None:
    keep(tmp_path, 0, [row(10.0, parameters={"size": 16384})])
    with pytest.raises(Failure, match=near) as failed:
        series(tmp_path, *words)
    assert failed.value.exit_code == 2


def test_a_damaged_run_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        keep(tmp_path, number, [row(10.0)])
    (tmp_path / "run-01" / JOURNAL).write_text("damage")
    assert main(["history", "any.probe", "--folders", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "run-01" in said.err and "run-01" not in said.out and "run-02" in said.out


def test_no_run_no_readable_run_and_no_interval_have_codes_of_their_own(tmp_path: Path) -> None:
    assert main(["history", "--folders", str(tmp_path)]) == 2
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / JOURNAL).write_text("damage")
    assert main(["history", "--folders", str(tmp_path)]) == 5
    keep(tmp_path, 0, [row(None, status="unstable")])
    assert main(["history", "any.probe", "--folders", str(tmp_path)]) == 6


def test_one_run_has_no_change_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, 0, [row(10.0)])
    assert main(["history", "any.probe", "--folders", str(tmp_path)]) == 0
    assert "one point has no change" in capsys.readouterr().out


def toll_of(one: Row) -> Toll:
    return Toll(
        toll="enter the kernel", probe=one.probe, metric=one.metric, abi=one.abi, target=one.target,
        parameters=one.parameters, value=one.median, low=one.low, high=one.high,
    )  # fmt: skip


def level_of(latency_ns: float) -> Level:
    return Level(
        level="L2", size_bytes=1e6, size_low=9e5, size_high=1.1e6, os_size_bytes=None, latency_ns=latency_ns,
        latency_low=latency_ns * 0.98, latency_high=latency_ns * 1.02, latency_cycles=None, parallelism=None,
        read_bytes_per_second=None,
    )  # fmt: skip


def test_the_overview_also_has_what_did_not_change_and_people_ask_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said only that 0 series changed."""
    for number in range(3):
        same = row(7.0, of="any.other")
        keep(tmp_path, number, [same], hierarchy=(level_of(4.0),), tolls=(toll_of(same),))
    assert main(["history", "--folders", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "L2 latency" in out and "4.00 ns" in out and "0 of" in out


def test_the_overview_has_the_tolls_and_levels_that_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(10):
        changed, same = row(10.0 + 5 * (number >= 5)), row(7.0, of="any.other")
        more = {"hierarchy": (level_of(4.0 * (1 + number // 5)),), "tolls": (toll_of(changed), toll_of(same))}
        system = OTHER_KERNEL if number >= 5 else MACHINE
        keep(tmp_path, number, [changed, same, row(3.0 * 2**number, of="not.listed")], system, **more)
    assert main(["history", "--folders", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "enter the kernel" in out and "L2 latency" in out and "2026-01-06" in out
    assert out.index("L2 latency") < out.index("L2 size"), "what changed is first"
    assert "not.listed" not in out and "2 of 4 series changed" in out
    assert out.count("kernel k to k2") == 1, "what differs for all changes of a day is said once"


def test_other_programs_get_a_line_a_run(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for number in range(8):
        keep(tmp_path, number, [row(10.0 + 5 * (number >= 4), state="uncontended")])
    words = ["history", "any.probe", "--folders", str(tmp_path), "--format"]
    assert main([*words, "csv"]) == 0
    lines = [*csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode()))]
    assert [line["run"] for line in lines if line["ratio"]] == ["run-04"]
    assert main([*words, "json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert len(told) == 8 and told[4]["ratio"] == pytest.approx(1.5) and told[4]["verdict"] == "slower"
    assert main([*words, "md"]) == 0
    assert capsysbinary.readouterr().out.decode().count("\n") == 10


def test_the_schedule_names_both_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--schedule"]) == 0
    out = capsys.readouterr().out
    assert out.count(" run --quiet") == 2 and "OnCalendar=" in out and out.count(" history\n") >= 2


def test_a_recorded_run_gives_the_same_rows_from_its_index_and_derived(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    shutil.copytree(RECORDED, folder)
    derived = read_history([folder], [])
    kept = read_history([folder], [])
    assert load_excerpt(folder, None) is not None
    assert [one.row for one in kept.readings] == [one.row for one in derived.readings] != []
    assert kept.labels == derived.labels
    probe = open_index(folder).rows[0].probe
    (folder / "index.sqlite").unlink()
    assert read_history([folder], [probe]).labels == {}
    assert [one.row for one in read_history([folder], [probe]).readings] == [
        one for one in open_index(folder).rows if one.probe == probe
    ]
