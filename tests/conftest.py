# SPDX-License-Identifier: Apache-2.0
"""What tests of several kinds share: the checkout, and a small tree of its own that a test may break."""

from __future__ import annotations

import atexit
import gc
import os
import platform
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from support import runtime_objects
from tollmeter import notices
from tollmeter.library import places
from tollmeter.model import Abi
from tollmeter.targets import Lack
from tollmeter.toolchain.abis import for_cpu, read_abis
from tollmeter.toolchain.build import build_abi, find_compiler

ROOT = Path(__file__).resolve().parents[1]
SMALL = "kernel.loop"

# Tests run as whoever starts them, which may be root: none of them installs a package on the machine.
os.environ["TOLL_INSTALL"] = "no"
# A run of a test does not wait for one that somebody measures with, and does not keep them waiting.
os.environ["TOLL_LOCK"] = tempfile.mkdtemp(prefix="toll-lock-")
atexit.register(shutil.rmtree, os.environ["TOLL_LOCK"], ignore_errors=True)
# Nor do threads of numpy, which wait for each other in loops, share the CPUs with the workers: `toll` has none either.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Nor do they depend on where they are started: on a terminal that can do little, or in the background, where Ctrl-C is
# ignored by a process and by all that it starts.
os.environ["TERM"] = "xterm-256color"
signal.signal(signal.SIGINT, signal.default_int_handler)
# A test's inputs are judged by what comes of them, and never by how long a busy machine takes.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """The collected tests stay as long as the process, and garbage is not looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout. Nothing is changed in it."""
    return ROOT


@pytest.fixture
def own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of one test's runs, which are kept in it for as long as the test lasts."""
    monkeypatch.setattr(places, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """A function that makes a folder the checkout for as long as a test lasts, with its runs."""

    def made(folder: Path) -> Path:
        monkeypatch.setattr(places, "ROOT", folder)
        monkeypatch.setattr(places, "RUNS", folder / "runs")
        return folder

    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences for the user, in the order in which they come."""
    sentences: list[str] = []
    monkeypatch.setattr(notices, "_listeners", [sentences.append])
    return sentences


@pytest.fixture(scope="session")
def own_abi() -> Abi:
    """The first ABI of this CPU that the machine's compilers can build."""
    for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine()):
        if not isinstance(find_compiler(abi), Lack):
            return abi
    pytest.fail("no ABI can be built here")


@pytest.fixture(scope="session")
def own_compiler(own_abi: Abi) -> str:
    compiler = find_compiler(own_abi)
    assert isinstance(compiler, str)
    return compiler


@pytest.fixture(scope="session")
def _built_tree(tmp_path_factory: pytest.TempPathFactory, own_abi: Abi, own_compiler: str) -> Path:
    tree = tmp_path_factory.mktemp("tree with blanks") / "toll meter"
    (tree / "probes/kernel").mkdir(parents=True)
    (tree / "requirements").mkdir()
    shutil.copytree(ROOT / "abis", tree / "abis", ignore=shutil.ignore_patterns("*.toml"))
    for name in ("toll", "Makefile", "requirements/run.lock", "probes/probes.mk", "probes/kernel/loop.c"):
        shutil.copy2(ROOT / name, tree / name)
    shutil.copy2(ROOT / f"abis/{own_abi.name}.toml", tree / "abis")
    shutil.copytree(ROOT / "probes/runtime", tree / "probes/runtime")
    runtime_objects.lend(tree, own_abi.name)
    build_abi(tree, own_abi, own_compiler)
    return tree


@pytest.fixture
def tree(_built_tree: Path, tmp_path: Path) -> Path:
    """A checkout with one probe and one ABI, built, for one test alone. Its path has blanks."""
    copy = tmp_path / "toll meter"
    shutil.copytree(_built_tree, copy)
    return copy


@pytest.fixture(scope="session")
def own_abi_name(own_abi: Abi) -> str:
    return own_abi.name
