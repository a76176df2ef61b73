# SPDX-License-Identifier: Apache-2.0
"""The whole way with the real probes of this checkout: suite, plan, visits, journal, index, page. Judges no time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tollmeter.cli.main import main
from tollmeter.library import places
from tollmeter.store.journal import read_journal

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("memory", "kernel", "float", "datamodel", "alignment")
SUITE = """
question = "Does it all work together?"
[[select]]
probe = "memory.latency"
parameters = { size = "1KiB..16KiB", pages = "small" }
[[select]]
probe = "memory.ping_pong"
""" + "".join(
    f'[[select]]\nprobe = "{probe}"\nabi = ["native", "ia32"]\nothers = "typical"\n'
    for probe in ("memory.clock", "kernel.loop", "float.dot", "datamodel.virtual_call", "alignment.copy")
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One run for all of the tests: its exit code, folder, and what it printed."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "mine.toml").write_text(SUITE)
    patch = pytest.MonkeyPatch()
    patch.setattr(places, "RUNS", folder / "runs")
    out, printed = sys.stdout, folder / "printed"
    with printed.open("w") as sys.stdout:
        words = ["--budget", "12s", "--precision", "20%", "--out", str(folder / "run"), "--quiet", "--format", "json"]
        code = main(["run", str(folder / "mine.toml"), *words])
    sys.stdout = out
    patch.undo()
    return code, folder / "run", json.loads(printed.read_text())


def test_it_ends_well_and_prints_the_interface(told: Any) -> None:
    code, folder, index = told
    assert code == bool(index["run"]["unanswered"])
    jsonschema.validate(index, json.loads((ROOT / "docs/show.schema.json").read_text()))
    assert (folder / "report.html").stat().st_size > 100_000


def test_every_family_has_rows_and_most_have_numbers(told: Any) -> None:
    _, _, index = told
    assert {row["probe"].split(".")[0] for row in index["rows"]} == set(FAMILIES)
    numbered = [row for row in index["rows"] if row["status"] == "ok"]
    assert len(numbered) > len(index["rows"]) / 2
    assert all(row["reason"] for row in index["rows"] if row["status"] != "ok")


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ("kernel.timer late_worst *", (3, "visit 0 ended the run: kernel.timer late_worst")),
        ("kernel.timer late *", (3, "toll: kernel.timer late interval=1000")),
        ("kernel.timer *", (2, "has another unit than kernel.timer to_4_us")),
        ("kernel.tmer *", (7, "no row with an interval matches 'kernel.tmer *'")),
    ],
)
@pytest.mark.usefixtures("own_runs")
def test_absolute_limits_hold_for_a_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], row: str, answer: tuple[int, str]
) -> None:
    code, sentence = answer
    (tmp_path / "limits.toml").write_text(f'[[rows]]\nrow = "{row}"\nat_most = "1 ns"')
    words = ["kernel.timer", "interval=1000", "slack=least", "--budget", "8s", "--precision", "90%"]
    out = ["--out", str(tmp_path / "run"), "--limits", str(tmp_path / "limits.toml")]
    ended = main(["run", *words, *out])
    said = capfd.readouterr()
    if ended == 1 and code != 2:
        assert "too short" in said.out, "graver than a limit: on a busy machine a visit may take all of the time"
        return
    assert ended == code
    assert sentence in said.err
    if code == 2:
        assert not (tmp_path / "run").exists(), "refused before anything is measured"
        return
    timed = [outcome for outcome in read_journal(tmp_path / "run").outcomes if outcome.samples]
    assert (len(timed) == 1) == ("late_worst" in row)


def test_the_machine_is_this_one(told: Any) -> None:
    _, _, index = told
    kernel = Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert kernel in index["machine"]["kernel"]
    assert index["machine"]["core_clock_hz"] > 1e8


def test_what_was_run_is_what_was_built(told: Any) -> None:
    _, folder, _ = told
    contents = read_journal(folder)
    manifests = {path.parent.name: json.loads(path.read_text()) for path in ROOT.glob("build/*/manifest.json")}
    assert contents.head.builds
    for build in contents.head.builds:
        assert manifests[build.abi][build.probe]["sha256"] == build.sha256


def test_single_workers_keep_to_the_cpu_that_their_visit_names(told: Any) -> None:
    """The highest one, or where that is contended another one of its kind; the record of the visit names it."""
    _, folder, index = told
    allowed = index["machine"]["allowed_cpus"]
    outcomes = read_journal(folder).outcomes
    timed = [outcome for outcome in outcomes if outcome.status == "ok"]
    assert timed[0].cpus[0] == max(allowed), "no width is known at first, by which a core is contended"
    for outcome in timed:
        assert outcome.cpus[0] in allowed
        alone = outcome.point.probe != "memory.ping_pong"
        assert not alone or all(sample.witness.cpu_after == outcome.cpus[0] for sample in outcome.samples)


@pytest.mark.usefixtures("own_runs")
def test_a_comparison_that_can_have_no_ratio_is_refused_before_it_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", "kernel.function_call", "--against", "kernel.loop", "--out", str(tmp_path / "run")])
    assert code == 2 and "none of its timed metrics" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("own_runs")
def test_points_against_each_other_without_a_ratio_end_with_1_and_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second is too short for 80 visits of 64 MiB on any machine."""
    options = ["--against", "size=32MiB", "--budget", "1s", "--quiet", "--beside"]
    code = main(["run", "memory.latency", "size=64MiB", "pages=small", *options, "--out", str(tmp_path / "run")])
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("This run did not produce the requested numbers: ")
    reason = {1: "of the 5 layouts that a ratio needs", 6: "no row has a number"}[code]
    assert reason in said.partition(".")[0], "a loaded machine makes no visit in a second"
