# SPDX-License-Identifier: Apache-2.0
"""Runs of every format that was ever written open, for ever, and say what they said."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from support.example_runs import with_index
from support.recordings import copied
from support.rendered import printed
from tollmeter.library.derive import open_index, open_run, timed_command
from tollmeter.model import Results
from tollmeter.protocol import Outcomes
from tollmeter.report.run_verdict import next_step
from tollmeter.store.request import read_request, write_request

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests/recordings"
SCHEMA = json.loads((ROOT / "docs/show.schema.json").read_text())
FORMATS = sorted(path.name for path in RECORDINGS.glob("format-*"))


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, since opening a run keeps an index in it."""
    return copied(request.param, tmp_path / request.param)


@pytest.mark.parametrize("folder", FORMATS, indirect=True)
def test_a_recording_opens_and_prints_the_interface(folder: Path) -> None:
    jsonschema.validate(json.loads(msgspec.json.encode(open_run(folder).index)), SCHEMA)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_run(copied("format-1", tmp_path / "run"))


def test_format_1_says_what_it_said(results: Results) -> None:
    machine, run = results.index.machine, results.index.run
    assert (machine.cpu, machine.cpus, machine.caches[0].size_bytes) == ("AMD EPYC", 2, 49152)
    assert (run.id, run.seed, run.status, run.tollmeter) == ("format-1", 4711, "interrupted", "0.1.0")
    assert len(results.outcomes) == 12
    assert sum(len(outcome.samples) for outcome in results.outcomes) == 77
    first = results.outcomes[0].samples[0]
    assert (first.iterations > 0, first.body[1] > first.body[0] > 0) == (True, True)
    statuses = {(row.probe, str(row.parameters)): row.status for row in results.index.rows}
    assert statuses["kernel.enter_gate", "{'gate': 'vdso'}"] == "unsupported"
    assert list(statuses.values()).count("ok") >= 4
    assert {build.abi for build in results.builds} == {"x86_64"}
    assert all(len(build.sha256) == 64 for build in results.builds)


def test_format_2_says_what_it_said(tmp_path: Path) -> None:
    """What format 1 had no words for: the layout, its process, the core's width, the time lost, the control's own n."""
    told = open_run(copied("format-2", tmp_path / "run"))
    request = read_request(RECORDINGS / "format-2")
    assert (told.index.machine.host, told.index.run.id, told.index.run.status) == ("guest", "format-2", "interrupted")
    assert (request.format, request.precision, request.priority) == (2, 0.03, "real-time")
    assert request.widths["local"]["x86_64"] == pytest.approx(3.988, abs=0.001)
    good = [outcome for outcome in told.outcomes if outcome.status == "ok"]
    assert (len(told.outcomes), len(good), sum(len(outcome.samples) for outcome in good)) == (18, 17, 204)
    assert {(outcome.priority, outcome.stays, outcome.pinned) for outcome in good} == {("real-time", True, True)}
    assert len({(outcome.point, outcome.seed) for outcome in good}) == 7, "visits of one layout came from one process"
    first = good[0].samples[0]
    assert (first.at_ns > 0, first.control_iterations > 0, first.witness.delay_ns is not None) == (True, True, True)
    assert 3.5 < first.witness.width_hz / first.witness.control_hz < 4.5
    rows = {(row.probe, str(row.parameters), row.metric): row for row in told.index.rows}
    assert rows["kernel.enter_gate", "{'gate': 'vdso'}", "round_trip"].status == "unsupported"
    entry = rows["kernel.enter_gate", "{'gate': 'ordinary'}", "round_trip"]
    assert (entry.state, entry.converged, entry.visits, entry.median) == (
        "uncontended",
        False,
        4,
        pytest.approx(115.5, rel=0.02),
    )


def test_an_index_is_kept_and_equal(tmp_path: Path) -> None:
    folder = copied("format-1", tmp_path / "run")
    derived = open_index(folder)
    assert (folder / "index.sqlite").is_file()
    assert open_index(folder) == derived


def test_what_to_type_again_is_what_was_typed(tmp_path: Path) -> None:
    folder = copied("format-1", tmp_path / "run")
    words = "kernel.loop kernel.enter_gate memory.latency size=4096,65536 pages=small"
    assert timed_command(read_request(folder)) == f"./toll run {words} --seed 4711 --budget 6s"


def test_what_to_type_next_keeps_what_was_asked_for(tmp_path: Path) -> None:
    """A longer run without its ABIs would be another: x32 is made ready only where it is named."""
    folder = copied("format-1", tmp_path / "run")
    request = read_request(folder)
    suite = msgspec.structs.replace(request.suite, name="x32-2013")
    asked = msgspec.structs.replace(request, abis=("x86_64", "x32"), words=("x32-2013",), suite=suite)
    write_request(folder, asked)
    results = open_run(folder)
    run = msgspec.structs.replace(results.index.run, verdict="too short", seconds=100)
    results = with_index(results, run=run)
    assert next_step(results).command == "./toll run x32-2013 --abi x86_64,x32 --budget 5m"


def test_a_kept_answer_is_shown_without_its_visits_which_are_read_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("format-2", tmp_path / "run")
    first, read = open_run(folder), list[object]()
    shown = printed(first)
    visit = Outcomes.of_text
    monkeypatch.setattr(Outcomes, "of_text", lambda self, text: read.append(text) or visit(self, text))
    again = open_run(folder)
    assert printed(again) == shown and not read
    assert list(again.outcomes) == list(first.outcomes) and len(again.outcomes) == len(first.outcomes)
    assert again.outcomes[0] == first.outcomes[0] and len(read) == len(first.outcomes)
