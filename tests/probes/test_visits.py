# SPDX-License-Identifier: Apache-2.0
"""Lines of standard input become visits, wherever they come from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from probes.visiting import executable
from support.waiting import LONG_S

LINE = "--samples=1 --sample-ns=1000"


@pytest.mark.parametrize("how", ["--visits", "--stay"])
@pytest.mark.parametrize("lines", [1, 3])
def test_each_line_of_a_file_is_read_once(own_abi_name: str, tmp_path: Path, how: str, lines: int) -> None:
    """A file's offset is the children's, too: a visit's end would set it back, and all be read again without end."""
    asked = tmp_path / "asked"
    asked.write_text(f"{LINE} how=fork\n" * lines)
    with asked.open("rb") as file:
        probe = executable(own_abi_name, "kernel.process_create")
        done = subprocess.run([probe, how], stdin=file, capture_output=True, check=True, timeout=LONG_S)
    assert done.stdout.count(b'{"k":"visit"') == lines
