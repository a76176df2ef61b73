# SPDX-License-Identifier: Apache-2.0
"""How far a heap of tests is, told past whoever holds back what pytest says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MANY = "import pytest\n@pytest.mark.parametrize('one', range(4))\ndef test_one(one): assert one != 1\n"
START = "import sys, pytest, progress\nprogress.EVERY_S = 0\nsys.exit(pytest.main(sys.argv[1:]))\n"


def told(tmp_path: Path, listens: bool) -> list[str]:
    (tmp_path / "test_many.py").write_text(MANY)
    (tmp_path / "conftest.py").write_text("from progress import register as pytest_configure\n")
    reader, writer = os.pipe()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PROGRESS_FD": str(writer)}
    if not listens:
        del environment["PROGRESS_FD"]
    words = [sys.executable, "-c", START, "-q", "-p", "no:cacheprovider", "test_many.py"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, pass_fds=[writer], capture_output=True, check=False)
    os.close(writer)
    assert done.returncode == 1, done.stderr
    with os.fdopen(reader) as pipe:
        return pipe.read().splitlines()


def test_lines_go_where_somebody_listens(tmp_path: Path) -> None:
    lines = told(tmp_path, listens=True)
    assert [line.partition(" s")[0].rpartition(",")[0] for line in lines] == [
        "test_many.py: 1 of 4 tests",
        "test_many.py: 2 of 4 tests, 1 failed",
        "test_many.py: 3 of 4 tests, 1 failed",
        "test_many.py: 4 of 4 tests, 1 failed",
    ]
    assert told(tmp_path, listens=False) == []
