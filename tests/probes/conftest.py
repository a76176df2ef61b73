# SPDX-License-Identifier: Apache-2.0
"""The ABIs that this machine runs, and the probes that a test may break."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

import pytest

from tollmeter.toolchain.build import for_cpu, read_abis

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def _built() -> list[str]:
    """Those that were built and that the kernel starts: a description is only kept of such."""
    abis = [abi.name for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine())]
    return [abi for abi in abis if (ROOT / f"build/{abi}/kernel.loop.describe").is_file()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What two tolls of the machine are to each other is asked once where ABIs differ by their C library alone."""
    if "abi" not in metafunc.fixturenames:
        return
    abis = _built()
    if metafunc.definition.get_closest_marker("machine") and not hasattr(metafunc.module, "OF_THE_C_LIBRARY"):
        abis = [abi for abi in abis if not abi.endswith("-musl")] or abis
    metafunc.parametrize("abi", abis or [pytest.param("", marks=pytest.mark.xfail(reason="nothing is built"))])
