# SPDX-License-Identifier: Apache-2.0
"""A control group below the root limits memory or CPU time: each row has a number, or a sentence with the limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.planted_conditions import sound, surrounded
from tollmeter.conduct import Watch
from tollmeter.findings import all_findings

GROUPS = Path("/sys/fs/cgroup")
LIMIT_BYTES = 256 << 20
LIMITS = ((GROUPS, "memory.max"), (GROUPS / "memory", "memory.limit_in_bytes"))
"""Of each version of control groups: the folder of the outermost, and the file of a limit."""
SUITE = """
question = "Does it fit?"
[[select]]
probe = "memory.latency"
parameters = { size = [16384, 536870912], pages = "small" }
"""


def limited(outer: Path, name: str) -> bool:
    """Makes a group without a limit of its own, inside one that has. Whether the system has such groups there."""
    try:
        (outer / "inner").mkdir(parents=True)
        with (outer / name).open("r+") as limit:
            limit.write(str(LIMIT_BYTES))
    except OSError:
        return False
    return True


@pytest.fixture
def group() -> Iterator[Path]:
    for folder, name in LIMITS:
        outer = folder / f"toll-test-{os.getpid()}"
        found = limited(outer, name)
        if found:
            yield outer / "inner"
        for made in (outer / "inner", outer):
            if made.is_dir():
                made.rmdir()
        if found:
            return
    pytest.skip("no control group with a limit of memory can be made here: root and a writable hierarchy are needed")


def run_in(folders: Sequence[Path], words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    enter = "".join(f'echo $$ >"{folder}/cgroup.procs" && ' for folder in folders)
    inside = ["sh", "-c", f'{enter}exec "$@"', "sh", *map(str, words), "--format", "json", "--quiet"]
    return subprocess.run(inside, capture_output=True, text=True, check=False)


@pytest.fixture
def slow_group(group: Path) -> Iterator[list[Path]]:
    """The group and, where CPU time has groups of its own, one of these: three quarters of a CPU."""
    own = GROUPS / "cpu" / group.parent.name
    if (group.parent / "cpu.max").exists():
        (group.parent / "cpu.max").write_text("75000 100000")
        yield [group]
        return
    if not own.parent.is_dir():
        pytest.skip("no control group with a limit of CPU time can be made here")
    own.mkdir()
    (own / "cpu.cfs_quota_us").write_text("75000")
    yield [group, own]
    own.rmdir()


def test_the_default_suite_is_measured_in_256_mib_and_nothing_is_killed(
    slow_group: list[Path], root: Path, tmp_path: Path
) -> None:
    """Resident processes of a quarter of the machine's memory ended the run by SIGKILL after 8 s."""
    words = [root / "toll", "run", "--budget", "10s", "--precision", "20%", "--out", tmp_path / "run"]
    done = run_in(slow_group, words)
    assert done.returncode in (0, 1), done
    rows = json.loads(done.stdout)["rows"]
    assert not [row for row in rows if row["status"] == "failed" or "kill" in (row["reason"] or "")]


TELL = """
import json, subprocess, sys
from tollmeter.conduct import Watch
from tollmeter.library.known_before import known_conditions
from tollmeter.protocol import head
machine = head(subprocess.run([sys.argv[1], "--machine"], capture_output=True, check=True).stdout).machine
print(json.dumps([one.name for one in known_conditions(Watch([0]).seen(), machine, calls=True)]))
"""
"""The conditions that a run would tell of before it begins."""


def conditions(folders: Sequence[Path], root: Path, *before: str) -> set[str]:
    enter = "".join(f'echo $$ >"{folder}/cgroup.procs" && ' for folder in folders)
    probe = root / "build/x86_64/kernel.loop"
    words = [*before, sys.executable, "-c", TELL, probe]
    inside = ["sh", "-c", f'{enter}exec "$@"', "sh", *map(str, words)]
    return set(json.loads(subprocess.run(inside, capture_output=True, text=True, check=True).stdout))


def test_a_run_tells_of_its_limits_before_it_begins(slow_group: list[Path], root: Path) -> None:
    own = conditions([], root)
    inside = conditions(slow_group, root)
    assert {"machine.cpu_time_is_limited", "machine.memory_is_limited"} <= inside - own


def test_a_run_tells_of_one_cpu_and_of_a_small_share_before_it_begins(slow_group: list[Path], root: Path) -> None:
    own = conditions([], root)
    if len(os.sched_getaffinity(0)) > 1:
        cpu = str(min(os.sched_getaffinity(0)))
        assert "machine.cpus_are_withheld" in conditions([], root, "taskset", "-c", cpu) - own
    group = slow_group[-1]
    share = next(path for path in (group / "cpu.weight", group / "cpu.shares") if path.exists())
    share.write_text("2")
    assert "machine.group_has_a_small_share" in conditions([group], root) - own


def swapped_pages() -> int:
    found = [line.split()[1] for line in Path("/proc/vmstat").read_text().splitlines() if line.startswith("pswpout ")]
    return int(found[0])


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[None]:
    """64 MiB of swap, which is all that there is."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 1 or not shutil.which("mkswap"):
        pytest.skip("needs mkswap, and a system without swap of its own")
    file = tmp_path / "swap"
    file.write_bytes(bytes(64 << 20))
    file.chmod(0o600)
    if any(
        subprocess.run(words, capture_output=True, check=False).returncode
        for words in (["mkswap", file], ["swapon", file])
    ):
        pytest.skip("no swap can be added here: root and a file system that allows it are needed")
    yield
    subprocess.run(["swapoff", file], check=True)


@pytest.mark.usefixtures("swap")
def test_no_probe_of_the_default_suite_swaps(group: Path, root: Path, tmp_path: Path) -> None:
    """What the group's limit does not hold goes to swap, and is not killed. The kernel may write out a few pages of the
    host tool that nothing touches any more: five were seen."""
    idle = 256
    words = [root / "toll", "run", "--budget", "10s", "--precision", "20%", "--out", tmp_path / "run"]
    before = swapped_pages()
    done = run_in([group], words)
    assert done.returncode in (0, 1), done
    assert swapped_pages() - before < idle
    run_in([group], ["python3", "-c", "len(bytes(b'1') * (280 << 20))"])
    assert swapped_pages() - before > idle


@pytest.mark.usefixtures("swap")
def test_real_swapping_is_found(group: Path) -> None:
    watch = Watch([0])
    run_in([group], ["python3", "-c", "len(bytes(b'1') * (280 << 20))"])
    results = surrounded(paging=watch.seen().paging)(sound(1))
    assert "machine.memory_is_short" in {finding.name for finding in all_findings(results)}


def test_a_buffer_beyond_the_limit_of_an_outer_group_names_it(group: Path, root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    words = [root / "toll", "run", tmp_path / "mine.toml", "--budget", "15s", "--precision", "20%"]
    done = run_in([group], [*words, "--out", tmp_path / "run"])
    rows = json.loads(done.stdout)["rows"]
    small, large = ([row for row in rows if row["parameters"]["size"] == size] for size in (16384, 536870912))
    assert small and all(row["status"] == "ok" for row in small)
    assert large and all("of the 256 MiB that control group" in row["reason"] for row in large), large
    assert all(f"/{group.parent.name} may use" in row["reason"] for row in large)
