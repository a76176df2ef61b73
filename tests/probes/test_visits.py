# SPDX-License-Identifier: Apache-2.0
"""Lines of standard input become visits, wherever they come from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

import pytest

from probes.visiting import executable, visit
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


def test_each_abi_reads_the_width_that_the_cpus_own_abi_reads(abi: str, own_abi_name: str) -> None:
    """A width loop of fewer chains than the core has units reads full width beside a busy sibling. Both executables run
    in turns, until each has met an uncontended core."""
    widest, least = 0.0, 1.0
    for turn in range(40):
        if widest > 0.9 * least:
            return
        seen = [sample.witness for sample in visit((own_abi_name, abi)[turn % 2], "kernel.loop", samples=9).samples]
        width = median((one.width_hz or 0) / (one.control_hz or 1) for one in seen)
        widest, least = (max(widest, width), least) if turn % 2 else (widest, max(least, width))
    raise AssertionError((widest, least))
