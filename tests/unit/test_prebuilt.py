# SPDX-License-Identifier: Apache-2.0
"""Executables that a release brings measure on a machine without a compiler, and only for the sources they are of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tollmeter.model import Abi
from tollmeter.toolchain import prebuilt, proven
from tollmeter.toolchain.abis import read_abi
from tollmeter.toolchain.build import build_abi
from tollmeter.toolchain.ready import NoCompiler, make_ready

PROBE = "kernel.loop"


@pytest.fixture
def release(tree: Path, own_abi: Abi, own_compiler: str) -> tuple[Path, Abi]:
    """What a release unpacks to, with an ABI whose compiler is not on this machine."""
    path = tree / "abis" / f"{own_abi.name}.toml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join('compiler = ["no-such-cc"]' if one.startswith("compiler =") else one for one in lines))
    abi = read_abi(path)
    build_abi(tree, abi, own_compiler)
    assert prebuilt.keep(tree, abi, tree / prebuilt.FOLDER / abi.name) == 1
    shutil.rmtree(tree / "build")
    return tree, abi


def gaps(tree: Path, abi: Abi) -> dict[str, type]:
    wanted = {abi.name: {PROBE}}
    prebuilt.take(tree, wanted)
    return {name: type(failure) for name, failure in make_ready(tree, wanted, unasked=[abi.name]).items()}


def test_a_release_needs_no_compiler(release: tuple[Path, Abi]) -> None:
    tree, abi = release
    assert gaps(tree, abi) == {}
    made = tree / "build" / abi.name
    assert os.access(made / PROBE, os.X_OK) and (made / f"{PROBE}.describe").is_file()
    assert proven.known(tree, abi) == {PROBE}
    before = (made / PROBE).stat().st_mtime_ns
    assert gaps(tree, abi) == {}
    assert (made / PROBE).stat().st_mtime_ns == before


@pytest.mark.parametrize("changed", ["probes/kernel/loop.c", "probes/runtime/sample.c", "Makefile"])
def test_what_is_not_of_these_sources_is_not_used(release: tuple[Path, Abi], changed: str) -> None:
    tree, abi = release
    with (tree / changed).open("a") as file:
        file.write("\n")
    assert gaps(tree, abi) == {abi.name: NoCompiler}


def test_a_source_that_is_changed_later_is_compiled(release: tuple[Path, Abi]) -> None:
    tree, abi = release
    assert gaps(tree, abi) == {}
    with (tree / "probes/kernel/loop.c").open("a") as file:
        file.write("\n")
    assert gaps(tree, abi) == {abi.name: NoCompiler}


@pytest.mark.parametrize("damage", ["altered", "cut", "gone"])
def test_a_damaged_executable_is_named_and_not_used(
    release: tuple[Path, Abi], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, abi = release
    said: list[str] = []
    monkeypatch.setattr(prebuilt, "notify", said.append)
    path = tree / prebuilt.FOLDER / abi.name / PROBE
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[:-1] + (b"\1" if damage == "altered" else b""))
    assert gaps(tree, abi) == {abi.name: NoCompiler}
    assert len(said) == 1 and said[0].startswith(f"{path} is not used: ")
    assert not (tree / "build" / abi.name / PROBE).exists()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"sources": 1, "probes": {}}'])
def test_a_manifest_that_cannot_be_read_brings_nothing(release: tuple[Path, Abi], content: str) -> None:
    tree, abi = release
    (tree / prebuilt.FOLDER / abi.name / "manifest.json").write_text(content)
    assert gaps(tree, abi) == {abi.name: NoCompiler}
