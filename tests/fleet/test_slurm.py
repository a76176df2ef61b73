# SPDX-License-Identifier: Apache-2.0
"""`toll fleet submit`, `status` and `collect` with a real Slurm of a controller and three nodes. Judges no time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.cluster import Cluster, running
from support.waiting import in_time
from tollmeter.store.journal import read_journal

pytestmark = pytest.mark.fleet
NODES = ("node1", "node2", "node3")
PROBES = ("kernel.loop", "kernel.function_call")
SOON = ("--budget", "2s", "--precision", "20%")
LONG = ("memory.latency", "--budget", "10m", "--precision", "0.1%")


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


def all_measured(cluster: Cluster, folder: Path) -> bool:
    assert in_time(lambda: set(states(cluster, folder).values()) == {"measured"}), cluster.told()
    return True


def test_every_node_is_measured_once_and_its_run_has_its_name(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "shared by all"
    submitted(cluster, folder, *SOON)
    assert all_measured(cluster, folder)
    code, rows = told(cluster, "collect", folder)
    assert code == 0
    runs = {node: read_journal(Path(row["run"])) for node, row in rows.items()}
    assert {node: run.head.machine.host for node, run in runs.items() if run.head.machine} == {n: n for n in NODES}
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*")}
    assert told(cluster, "collect", folder)[0] == 0
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/*")}


def visited(folder: Path, node: str) -> bool:
    """Whether the node's journal has a visit. LONG has so many points that it does not end by itself."""
    return any(b'"k":"sample"' in path.read_bytes() for path in folder.glob(f"journals/{node}/*/journal.jsonl"))


def cancelled(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Every job has ended, and the nodes wait for others."""
    cluster.ask("scancel", "--name", json.loads((folder / "fleet.json").read_text())["name"])
    assert in_time(lambda: cluster.states() == ["idle"] * 3), cluster.told()
    return told(cluster, "collect", folder)[1]


def test_a_node_that_dies_is_named_and_the_requeued_job_counts_once(cluster: Cluster, tmp_path: Path) -> None:
    submitted(cluster, tmp_path, *SOON, "--nodes", "node[1-2]")
    assert in_time(lambda: visited(tmp_path, "node2")), cluster.told()
    with cluster.without_node("node2"):
        assert in_time(lambda: states(cluster, tmp_path) == {"node1": "measured", "node2": "waiting"})
        code, rows = told(cluster, "collect", tmp_path)
    assert code == 1 and rows["node1"]["run"] and not rows["node2"]["run"]
    assert "the node is down" in rows["node2"]["remarks"] and "before left" in rows["node2"]["remarks"]
    assert in_time(lambda: "down" not in " ".join(cluster.states()))
    assert in_time(lambda: states(cluster, tmp_path)["node2"] == "measured"), cluster.told()
    assert "2 attempts" in told(cluster, "collect", tmp_path)[1]["node2"]["remarks"]
    assert len(list(tmp_path.glob("journals/node2/*"))) == 2 and len(list((tmp_path / "runs").iterdir())) == 2
    cluster.ask("scontrol", "reconfigure")  # Slurm 22.05 may count the CPU of a node that died as taken until then


def test_a_restarted_controller_costs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    submitted(cluster, tmp_path, *SOON)
    assert in_time(lambda: all(visited(tmp_path, node) for node in NODES)), cluster.told()
    with cluster.without_controller():
        while_away = told(cluster, "status", tmp_path)[1]
    assert {row["state"] for row in while_away.values()} <= {"unknown", "measured"}
    assert all("squeue" in row["remarks"] for row in while_away.values() if row["state"] == "unknown")
    assert all_measured(cluster, tmp_path)


def test_what_a_stalled_node_measured_is_kept_and_the_others_are_collected(cluster: Cluster, tmp_path: Path) -> None:
    ended, stalled = tmp_path / "ended", tmp_path / "stalled"
    submitted(cluster, ended, *SOON, "--nodes", "node[1-2]")
    submitted(cluster, stalled, *LONG, "--nodes", "node3")
    assert in_time(lambda: visited(stalled, "node3")), cluster.told()
    cluster.stop_task("node3")
    assert all_measured(cluster, ended)
    assert states(cluster, stalled) == {"node3": "running"}
    assert told(cluster, "collect", stalled)[0] == 1
    row = cancelled(cluster, stalled)["node3"]
    assert (row["state"], row["run"]) == ("partial", "")
    assert "CANCELLED" in row["remarks"] and int(row["visits"]) > 0


def test_a_probe_that_fails_on_one_node_is_named_there(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.without_loopback("node2"):
        submitted(cluster, tmp_path, "kernel.connect", *SOON)
        assert all_measured(cluster, tmp_path)
    rows = told(cluster, "collect", tmp_path)[1]
    assert "kernel.connect" in rows["node2"]["remarks"]
    assert all("kernel." not in rows[node]["remarks"] for node in ("node1", "node3"))


def test_a_full_shared_disk_is_named_and_what_was_written_is_kept(cluster: Cluster, tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        folder = disk / "fleet"
        submitted(cluster, folder, *LONG)
        assert in_time(lambda: all(visited(folder, node) for node in NODES)), cluster.told()
        fill(disk)
        assert in_time(lambda: cluster.states() == ["idle"] * 3), cluster.told()
        code, rows = told(cluster, "collect", folder, "--out", str(tmp_path / "runs"))
    assert code == 1
    assert {row["state"] for row in rows.values()} == {"partial"}
    assert all("disk of the shared folder is full" in row["remarks"] for row in rows.values())
    assert all(int(row["visits"]) > 0 for row in rows.values())


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def fill(disk: Path) -> None:
    with (disk / "other").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_wrong_options_are_refused_with_slurms_sentence(cluster: Cluster, tmp_path: Path) -> None:
    for words, sentence in (
        (("--partition", "other"), "its partitions: main"),
        (("--partition", "other", "--nodes", "node1"), "invalid partition"),
        (("--nodes", "node[1-2],node9"), "node9"),
        (("--nodes", "4"), "3 of 3 nodes are up"),
        (("--", "--no-such-option"), "no-such-option"),
    ):
        done = cluster.toll("fleet", "submit", "kernel.loop", "-o", str(tmp_path / words[-1]), *words)
        assert sentence in done.stderr, (words, done.stderr)
        assert done.returncode == (0 if "node9" in sentence else 2)
    cluster.ask("scancel", "--user", "root")


def jobs(cluster: Cluster) -> set[str]:
    return set(cluster.ask("squeue", "-h", "-t", "all", "-o", "%i").stdout.split())


def test_print_submits_nothing(cluster: Cluster, tmp_path: Path) -> None:
    before = jobs(cluster)
    done = cluster.toll("fleet", "submit", *PROBES, "-o", str(tmp_path / "x"), "--dry-run", "--", "--qos=high")
    assert "#SBATCH --exclusive\n" in done.stdout and "#SBATCH --qos=high\n" in done.stdout
    assert jobs(cluster) == before and not list(tmp_path.iterdir())


SLOW = "node2"
LOADS = "walk_on(&((struct walk *)r->state)->cursor, r->iterations);"
PLANTED = "for (volatile uint64_t left = r->iterations * 50000; left; left--) {}"
"""Some 40 us a load, which no memory takes, however busy its machine is."""
LIMITS = """
[[rows]]
row = "memory.latency load *"
at_most = "5 us"
"""
_TOLL = """#!/bin/sh
# The nodes measure one after another, since they share the CPUs.
host=$(hostname) tree={root}
[ $host != {slow} ] || tree={planted}
mkdir -p {folder}/$host
cd {folder}/$host
export TOLL_LOCK={folder} TOLL_INSTALL=no HOME=$PWD
{python} -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from tollmeter.__main__ import main; sys.exit(main())' \\
  $tree/src "$@" >>output 2>&1
code=$?
echo $code >code
exit $code
"""


def linked(source: str, target: str) -> None:
    """An executable by another name, since a build replaces it. Make may write the other files in place."""
    (os.link if os.access(source, os.X_OK) else shutil.copy2)(source, target)


@pytest.fixture(scope="module")
def planted(root: Path, own_abi_name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose loads from memory take longer; its other executables are those that exist."""
    tree = tmp_path_factory.mktemp("planted")
    for name in ("src", "suites", "abis", "probes", "requirements"):
        shutil.copytree(root / name, tree / name)
    shutil.copytree(root / "build" / own_abi_name, tree / "build" / own_abi_name, copy_function=linked)
    for name in ("Makefile", "toll", "pyproject.toml"):
        shutil.copy2(root / name, tree / name)
    source = tree / "probes/memory/latency.c"
    assert LOADS in source.read_text()
    source.write_text(source.read_text().replace(LOADS, f"{LOADS}\n  {PLANTED}"))
    for made in (tree / "build" / own_abi_name).glob("memory.latency*"):
        made.unlink()
    return tree


def documented(root: Path, first: str) -> str:
    """The script of docs/fleet.md that begins with this line."""
    script = (root / "docs/fleet.md").read_text().partition(f"\n    {first}\n")[2].partition("\n\n")[0]
    assert script, f"docs/fleet.md no longer has {first!r}"
    return textwrap.dedent(f"    {first}\n{script}\n")


def test_the_documented_health_check_measures_each_node_and_drains_the_slow_one(
    tmp_path: Path, root: Path, planted: Path
) -> None:
    check, toll, limits = tmp_path / "toll-health", tmp_path / "toll", tmp_path / "limits.toml"
    given = {"root": root, "planted": planted, "slow": SLOW, "folder": tmp_path, "python": sys.executable}
    toll.write_text(_TOLL.format_map(given))
    limits.write_text(LIMITS)
    text = documented(root, "#!/bin/sh").replace("/opt/tollmeter", f"'{tmp_path}'")
    text = text.replace("/opt/site/limits.toml", f"'{limits}'").replace("--budget 45s", "--budget 12s")
    more = f"HealthCheckProgram={check}\nHealthCheckInterval=60\nHealthCheckNodeState=ANY\n"
    with running(NODES, more) as other:
        check.write_text(text.replace("/etc/slurm/slurm.conf", other.environment["SLURM_CONF"]))
        toll.chmod(0o755)
        check.chmod(0o755)
        assert in_time(lambda: "drained" in other.states()), other.told()
        assert in_time(lambda: all((tmp_path / node / "code").exists() for node in NODES))
        codes = {node: (tmp_path / node / "code").read_text().strip() for node in NODES}
        assert codes.pop(SLOW) == "3" and set(codes.values()) <= {"0", "1"}, codes
        assert f"{SLOW}|drained|toll: memory.latency load" in other.told() and "at most 5 us" in other.told()
        assert [line.split("|")[1] for line in other.told().splitlines()[1:4]] == ["idle", "drained", "idle"]


@pytest.mark.parametrize(("code", "dies"), [(0, False), (1, False), (3, True)])
def test_the_documented_check_of_nhc_dies_of_a_slow_node_alone(
    tmp_path: Path, root: Path, code: int, dies: bool
) -> None:
    """NHC gives a check its function `die`, and goes by the status that the check returns."""
    toll = tmp_path / "toll"
    toll.write_text(f"#!/bin/sh\necho \"$*\" >'{tmp_path}/asked'\necho toll: memory node 1: slow\nexit {code}\n")
    toll.chmod(0o755)
    check = documented(root, "# /etc/nhc/scripts/toll.nhc").replace("/opt/tollmeter", f"'{tmp_path}'")
    words = 'die() { echo "$2"; return "$1"; }\n' + check + "check_toll_health --budget 40s\n"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == ((1, "toll: memory node 1: slow\n") if dies else (0, ""))
    assert (tmp_path / "asked").read_text() == "health --budget 40s --format drain\n"


def test_nothing_is_left_of_a_cluster() -> None:
    with running(("node1",)) as other:
        spaces = [other.space(host) for host in ("controller", "node1")]
        folder = other.folder
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert not folder.exists() and not [space for space in spaces if space in listed]
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if str(folder).encode() in line]
    assert str(folder) not in Path("/proc/mounts").read_text()
