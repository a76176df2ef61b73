# SPDX-License-Identifier: Apache-2.0
"""Where a signal met the program, in each ABI that an emulator runs: the address lies in the loop that is timed."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support import runtime_objects, target_stands
from support.waiting import LONG_S
from tollmeter.toolchain import abis, build
from tollmeter.toolchain.symbols import Symbols

ROOT = Path(__file__).parents[2]
PROBE = "kernel.loop"


@pytest.mark.parametrize("name", ["aarch64", "arm-soft", "mipsel", "ppc64le", "riscv64", "s390x", "sparc64"])
def test_a_signal_s_profile_is_of_the_loop(tree: Path, name: str) -> None:
    """On ppc64le, s390x and sparc64 each address was 0."""
    abi = abis.read_abi(ROOT / f"abis/{name}.toml")
    emulator = next(way.replace("qemu-user:", "qemu-") for way in abi.runs if way.startswith("qemu-user:"))
    target_stands.need(str(abi.compiler[0]), emulator)
    runtime_objects.lend(tree, name)
    build.run_make(tree, abi, str(abi.compiler[0]), [f"build/{name}/{PROBE}"])
    runtime_objects.keep(tree, name)
    program = tree / "build" / name / PROBE
    done = subprocess.run(
        [emulator, program], capture_output=True, check=True, timeout=LONG_S,
        env={**os.environ, "TOLL_PROFILE": "200,signal"},
    )  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    hits = Counter({address: n for one in records if one["k"] == "profile" for address, n in one["hits"]})
    ((most, _),) = hits.most_common(1)
    assert Symbols(program).function(most) == "loop", hits
