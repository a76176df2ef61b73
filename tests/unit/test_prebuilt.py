# SPDX-License-Identifier: Apache-2.0
"""Executables that a release brings measure on a machine without a compiler, and only for the sources they are of."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from tollmeter.files import tar_of, xz_of
from tollmeter.model import Abi
from tollmeter.toolchain import prebuilt, proven
from tollmeter.toolchain.abis import read_abi
from tollmeter.toolchain.build import build_abi
from tollmeter.toolchain.ready import NoCompiler, make_ready

PROBE = "kernel.loop"


@pytest.fixture(scope="module")
def _released(_built_tree: Path, own_abi: Abi, own_compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = Path(shutil.copytree(_built_tree, tmp_path_factory.mktemp("released") / "tree"))
    path = tree / "abis" / f"{own_abi.name}.toml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join('compiler = ["no-such-cc"]' if one.startswith("compiler =") else one for one in lines))
    abi = read_abi(path)
    build_abi(tree, abi, own_compiler)
    assert prebuilt.keep(tree, abi, tree / prebuilt.FOLDER) == 1
    shutil.rmtree(tree / "build")
    return tree


@pytest.fixture
def release(_released: Path, own_abi: Abi, tmp_path: Path) -> tuple[Path, Abi]:
    """What a release unpacks to, for one test alone, with an ABI whose compiler is not on this machine."""
    tree = Path(shutil.copytree(_released, tmp_path / "tree"))
    return tree, read_abi(tree / "abis" / f"{own_abi.name}.toml")


def gaps(tree: Path, abi: Abi) -> dict[str, type]:
    wanted = {abi.name: {PROBE}}
    prebuilt.take(tree, wanted)
    return {name: type(failure) for name, failure in make_ready(tree, wanted, unnamed=[abi.name]).items()}


def test_a_release_needs_no_compiler(release: tuple[Path, Abi]) -> None:
    tree, abi = release
    assert gaps(tree, abi) == {}
    made = tree / "build" / abi.name
    assert os.access(made / PROBE, os.X_OK) and (made / f"{PROBE}.describe").is_file()
    assert proven.up_to_date_probes(tree, abi) == {PROBE}
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


def packed(tree: Path, abi: Abi, **changed: bytes) -> Path:
    """The archive, with the contents of some of its files changed."""
    path = tree / prebuilt.FOLDER / f"{abi.name}{prebuilt.ENDING}"
    with tarfile.open(path) as archive:
        files = {name: file.read() for name in archive.getnames() if (file := archive.extractfile(name))}
    path.write_bytes(xz_of(tar_of({**files, **changed}), 0))
    return path


def test_an_executable_that_is_not_what_is_stated_is_named_and_not_used(
    release: tuple[Path, Abi], said: list[str]
) -> None:
    tree, abi = release
    packed(tree, abi, **{PROBE: b"another"})
    assert gaps(tree, abi) == {abi.name: NoCompiler}
    assert len(said) == 1 and f"{PROBE} is not used: " in said[0]
    assert not (tree / "build" / abi.name / PROBE).exists()


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_an_archive_that_was_cut_is_named_and_not_used(release: tuple[Path, Abi], said: list[str], kept: float) -> None:
    tree, abi = release
    path = tree / prebuilt.FOLDER / f"{abi.name}{prebuilt.ENDING}"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert gaps(tree, abi) == {abi.name: NoCompiler}
    assert len(said) == 1 and said[0].startswith(f"{path} is not used: ")


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"kernel.loop": 1}'])
def test_a_manifest_that_cannot_be_read_brings_nothing(
    release: tuple[Path, Abi], said: list[str], content: bytes
) -> None:
    tree, abi = release
    path = packed(tree, abi, **{proven.MANIFEST: content})
    assert gaps(tree, abi) == {abi.name: NoCompiler}
    assert len(said) == 1 and said[0].startswith(f"{path} is not used: ")


def test_the_same_executables_make_the_same_archive(release: tuple[Path, Abi]) -> None:
    tree, abi = release
    assert gaps(tree, abi) == {}
    (first, second) = (tree / name / f"{abi.name}{prebuilt.ENDING}" for name in (prebuilt.FOLDER, "again"))
    prebuilt.keep(tree, abi, second.parent)
    assert first.read_bytes() == second.read_bytes()
