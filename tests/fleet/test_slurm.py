# SPDX-License-Identifier: Apache-2.0
"""`toll fleet submit`, `status` and `collect` with a real Slurm of a controller and three nodes. Judges no time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.cluster import Cluster, running
from tollmeter.store.journal import read
from waiting import in_time

pytestmark = pytest.mark.fleet
NODES = ("node1", "node2", "node3")
PROBES = ("kernel.loop", "kernel.function_call")
SOON = ("--budget", "2s", "--precision", "20%")
LONG = ("--budget", "10m", "--precision", "0.1%")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(NODES) as made:
        yield made


def submitted(cluster: Cluster, folder: Path, *words: str) -> None:
    done = cluster.toll("fleet", "submit", *PROBES, *words, "-o", str(folder))
    assert done.returncode == 0, done.stderr


def told(cluster: Cluster, verb: str, folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = cluster.toll("fleet", verb, str(folder), "--format", "json", *words)
    assert done.stdout, done.stderr
    return done.returncode, {row["node"]: row for row in json.loads(done.stdout)}


def states(cluster: Cluster, folder: Path) -> dict[str, str]:
    return {node: row["state"] for node, row in told(cluster, "status", folder)[1].items()}


def test_every_node_is_measured_once_and_its_run_has_its_name(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "shared by all"
    submitted(cluster, folder, *SOON)
    assert in_time(lambda: set(states(cluster, folder).values()) == {"measured"}), told(cluster, "status", folder)
    code, rows = told(cluster, "collect", folder)
    assert code == 0
    runs = {node: read(Path(row["run"])) for node, row in rows.items()}
    assert {node: run.head.machine.host for node, run in runs.items() if run.head.machine} == {n: n for n in NODES}
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*")}
    assert told(cluster, "collect", folder)[0] == 0
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*")}
