# SPDX-License-Identifier: Apache-2.0
"""A study takes over what the default run of the last hour measured, says so, and takes nothing that differs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_probes import sha256, tree, worked_in
from tollmeter.cli.main import main
from tollmeter.library import resume
from tollmeter.store.journal import NAME, read_journal

STUDY = """
question = "Does it hold here?"
source = "A paper, 1999"
[[select]]
probe = "kernel.*"
[[published]]
what = "an entry"
figure = "1 ns"
value = 1
unit = "ns"
row = { means = "entry" }
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A checkout of fakes with a study, whose default run has just ended."""
    made = tree(tmp_path / "checkout", enter="good", other="good")
    (made / "suites" / "study.toml").write_text(STUDY)
    with worked_in(made):
        assert main(["run", "--quiet", "--seed", "1", "--budget", "60s"]) in (0, 1)
        yield made


def studied(root: Path, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[set[str], str, dict[str, object]]:
    """Probes whose visits were taken over, what was said, and the run in the study's JSON."""
    capfd.readouterr()
    main(["run", "study", "--seed", "2", "--budget", "60s", "--out", "studied", "--format", "json", *words])
    sys.stdout.flush()
    told = capfd.readouterr()
    before = {(o.point.probe, o.at_ns, o.seed) for o in read_journal(_default(root)).outcomes}
    after = {(o.point.probe, o.at_ns, o.seed) for o in read_journal(root / "studied").outcomes}
    return {probe for probe, _, _ in before & after}, told.err, json.loads(told.out)["run"]


def _default(root: Path) -> Path:
    return next(path for path in (root / "runs").iterdir() if (path / NAME).exists() and path.name != "LAST")


def test_visits_of_the_same_points_are_reused_and_reported(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken, said, run = studied(root, capfd)
    assert taken == {"kernel.enter", "kernel.other"}
    assert "Reused from" in said and "Reused from" in str(run["reused"])
    visits = [outcome.visit for outcome in read_journal(root / "studied").outcomes]
    assert len(set(visits)) == len(visits)


def test_another_executable_or_an_old_run_is_not_taken(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    abi = next((root / "build").iterdir())
    changed = abi / "kernel.enter"
    changed.write_text(changed.read_text() + "# another\n")
    made = json.loads((abi / "manifest.json").read_text())
    made["kernel.enter"]["sha256"] = sha256(changed)
    (abi / "manifest.json").write_text(json.dumps(made))
    assert studied(root, capfd)[0] == {"kernel.other"}
    long_ago = time.time() - resume.MOST_AGE_S - 60
    os.utime(_default(root) / NAME, (long_ago, long_ago))
    assert list(resume._recent()) == []


def test_another_priority_is_another_measurement(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    taken, said, run = studied(root, capfd, "--priority", "normal")
    assert (taken, run["reused"]) == (set(), "") and "taken over" not in said
