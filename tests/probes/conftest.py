# SPDX-License-Identifier: Apache-2.0
"""The ABIs that this machine runs, and the probes that a test may break."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

import pytest

from probes.visiting import build_broken
from tollmeter.model import Abi
from tollmeter.toolchain.abis import for_cpu, read_abis

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def broken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_abi: Abi, own_compiler: str
) -> Path:
    """A tree with all of the module's BREAKS at once: (file under probes/, old text, new text, ...)."""
    tree = tmp_path_factory.mktemp("broken")
    build_broken(tree, own_abi, own_compiler, [line[:3] for line in request.module.BREAKS])
    return tree


@functools.cache
def _built() -> list[str]:
    """Those that were built and that the kernel starts: a description is only kept of such."""
    abis = [abi.name for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine())]
    return [abi for abi in abis if (ROOT / f"build/{abi}/kernel.loop.describe").is_file()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What two tolls of the machine are to each other is asked once where ABIs differ by their C library alone, unless
    the mark says every_abi."""
    if "abi" not in metafunc.fixturenames:
        return
    abis = _built()
    mark = metafunc.definition.get_closest_marker("machine")
    if mark and not mark.kwargs.get("every_abi") and not hasattr(metafunc.module, "OF_THE_C_LIBRARY"):
        abis = [abi for abi in abis if not abi.endswith("-musl")] or abis
    metafunc.parametrize("abi", abis or [pytest.param("", marks=pytest.mark.xfail(reason="nothing is built"))])
