# SPDX-License-Identifier: Apache-2.0
"""Recorded runs of one quiet machine, whose clock fell by 3 % meanwhile: the same points come out the same."""

from __future__ import annotations

import importlib.util
import lzma
import shutil
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import tollmeter
from tollmeter.experiment.runs_differ import USUAL
from tollmeter.root import ROOT
from tollmeter.store.request import read_request, write_request

RECORDED = sorted((ROOT / "tests/recordings/repeated").iterdir())


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The script that judges repeated runs, of any folder."""
    spec = importlib.util.spec_from_file_location("tomorrow", ROOT / "bench/tomorrow.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tollmeter.Run]:
    return [opened(recorded, tmp_path_factory.mktemp("run")) for recorded in RECORDED]


def opened(recorded: Path, folder: Path) -> tollmeter.Run:
    """As on a machine without a history."""
    shutil.copy(recorded / "run.toml", folder)
    with lzma.open(recorded / "journal.jsonl.xz") as packed:
        (folder / "journal.jsonl").write_bytes(packed.read())
    write_request(folder, msgspec.structs.replace(read_request(folder), runs_sd=USUAL))
    return tollmeter.open(folder)


def test_intervals_hold_and_nothing_changed(bench: ModuleType, runs: list[tollmeter.Run]) -> None:
    """In ns and with visits of one layout as independent ones, 78 % held, and one pair in ten was disjoint. A history
    makes less of what changed: one row in one of these runs is 4 % less than in the others."""
    found = bench.judged(runs)
    held, parted, changed = (part / whole for part, whole in found[1:])
    assert held >= 0.93
    assert parted <= 0.03
    assert changed <= 0.02
    assert found.half < 0.03, "and not by intervals that hold anything"


def test_what_the_clock_moved_is_no_change(runs: list[tollmeter.Run]) -> None:
    """An L1 load takes four cycles, and 3 % more ns in the last run."""
    clocks = [run.machine.core_clock_hz or 0.0 for run in runs]
    assert clocks[0] > 1.02 * clocks[-1]
    found = tollmeter.compare(runs[0], runs[-1])
    (load,) = [
        one for one in found.changes if one.old.probe == "memory.latency" and one.old.parameters["size"] == 16384
    ]
    assert load.new.median is not None
    assert load.old.median is not None
    assert load.new.median > 1.02 * load.old.median
    assert load.verdict in ("same", "cannot tell")
