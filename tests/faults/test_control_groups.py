# SPDX-License-Identifier: Apache-2.0
"""A control group below the root limits memory: each row has a number, or a sentence that names the limit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_a_buffer_beyond_the_limit_of_an_outer_group_names_it(group: Path, root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    words = [str(root / "toll"), "run", str(tmp_path / "mine.toml"), "--budget", "4s", "--precision", "20%",
             "--out", str(tmp_path / "run"), "--format", "json", "--quiet"]  # fmt: skip
    inside = ["sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh", *words]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)["rows"]
    small, large = ([row for row in rows if row["parameters"]["size"] == size] for size in (16384, 536870912))
    assert small and all(row["status"] == "ok" for row in small)
    assert large and all("of the 256 MiB that control group" in row["reason"] for row in large), large
    assert all(f"/{group.parent.name} may use" in row["reason"] for row in large)
