# SPDX-License-Identifier: Apache-2.0
"""An ABI is asked for by name, and its compiler or emulator is not there: who may installs it, and nothing else."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import runtime_objects
from support.bare_debian import asked, calls, fakes, program
from support.waiting import LONG_S, in_time
from tollmeter import extras
from tollmeter.cli import developing
from tollmeter.cli.main import main
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Select
from tollmeter.toolchain import packages

ABI = """
summary = "{name}"
compiler = ["{name}-cc"]
flags = ["-O1"]
packages = ["make", "{name}-compiler"]
runs_on = ["{machine}"]
runs = ["native", "{way}"]
"""
LOOP = ProbeRequest([Select(probe="kernel.loop")])
FETCH = ["install", "-y", "--no-install-recommends", "--download-only"]


@pytest.fixture
def debian(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout on a Debian with nothing installed, as root: with ABIs `red` and `blue` of this CPU, and `far`, whose
    CPU is another."""
    for name, value in fakes(tree, 0).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(extras, "_packages_of_release", frozenset)  # which has neither compiler
    for module in (places, developing):
        monkeypatch.setattr(module, "ROOT", tree)
    for name in ("red", "blue"):
        abi(tree, name, machine=platform.machine())
    abi(tree, "far", machine="pdp11")
    for name in ("red", "blue", "far"):
        program(tree / f"fakes/come/{name}-compiler", f"#!/bin/sh\ncp -p fakes/gcc fakes/{name}-cc\n")
    program(tree / "fakes/gcc", f'#!/bin/sh\nexec {shutil.which("gcc")} "$@"\n')
    monkeypatch.chdir(tree)
    for name in ("red", "blue"):
        runtime_objects.lend(tree, name)
    yield tree
    for name in ("red", "blue"):
        runtime_objects.keep(tree, name)


def abi(tree: Path, name: str, machine: str, way: str = "qemu-user:pdp11") -> None:
    (tree / f"abis/{name}.toml").write_text(ABI.format(name=name, machine=machine, way=way))


def installed(tree: Path) -> list[list[str]]:
    """What each call of apt-get fetched."""
    words = [asked(call) for call in calls(tree)]
    return [one[len(FETCH) :] for one in words if one[: len(FETCH)] == FETCH]


def test_what_abis_miss_is_installed_at_once_and_nothing_else(debian: Path, capfd: pytest.CaptureFixture[str]) -> None:
    catalog = places.made_ready(["red", "blue"], [], LOOP)
    assert installed(debian) == [["blue-compiler", "red-compiler"]]
    assert {"red", "blue"} <= set(catalog.abis)
    assert not catalog.gaps
    said = capfd.readouterr().err.splitlines()
    (installing,) = (line for line in said if "installing" in line)
    assert re.fullmatch(r"toll: installing them \.\.\. \d+ s", installing)


def test_neither_apt_nor_a_compiler_is_asked_where_all_is_ready(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places.made_ready(["red"], [], LOOP)
    before = calls(debian)
    monkeypatch.delattr(packages, "find_compiler")
    places.made_ready(["red"], [], LOOP)
    places.made_ready([], [], LOOP)
    assert calls(debian) == before


def test_an_emulator_comes_with_the_abi_that_needs_it(debian: Path) -> None:
    places.made_ready(["far"], [], LOOP)
    assert installed(debian) == [["far-compiler", "qemu-user"]]


def test_an_emulator_comes_after_a_compiler_that_shows_the_need(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tollmeter.toolchain.abis._kernel_runs", lambda *_: False)
    packages.install_for(debian, {"red": ["kernel.loop"]}, [], platform.machine())
    assert installed(debian) == [["red-compiler"], ["qemu-user"]]


def test_targets_bring_what_they_need(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    abi(debian, "red", machine=platform.machine(), way="guest:x32")
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: real(name, **more) if name == "apt-get" else None)
    packages.install_for(debian, {"red": ["kernel.loop"]}, ["guest", "ssh:somewhere", "local"], platform.machine())
    assert installed(debian) == [["openssh-client", "qemu-system-x86", "red-compiler"]]


@pytest.mark.parametrize("named", [["red", "blue"], []])
def test_without_root_one_line_names_all_that_the_abis_lack(
    debian: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fakes(debian, 1000)
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "make" else real(name, **more))
    for path in debian.glob("abis/*.toml"):  # of this CPU there are only these two
        path.write_text(path.read_text().replace('"make", ', "")) if path.stem in ("red", "blue") else path.unlink()
    with pytest.raises(Failure) as caught:
        places.made_ready(named, [], ProbeRequest([Select(probe="kernel.loop", abi=("red", "blue"))]))
    sentence = caught.value.sentence
    assert caught.value.exit_code == (5 if named else 6)
    assert sentence.count("apt-get install") == 1
    assert {"red-compiler", "blue-compiler", "make"} <= set(sentence.strip("`").split())
    assert (calls(debian), capfd.readouterr().err) == ([], "")


def test_tests_and_dry_runs_install_nothing(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--abi", "red", "--dry-run"]) == 5
    monkeypatch.setenv("TOLL_INSTALL", "no")
    assert main(["run", "--abi", "red"]) == 5
    assert calls(debian) == []
    assert len(capfd.readouterr().err.splitlines()) == 2


def test_an_abi_whose_packages_cannot_be_had_keeps_no_other_away(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APT_REFUSES", "red-compiler")
    catalog = places.made_ready(["red", "blue"], [], LOOP)
    assert "apt-get install --no-install-recommends make red-compiler" in catalog.gaps["red"]
    assert "blue" in catalog.abis
    assert not (debian / "fakes/red-cc").exists()


def test_a_layout_brings_compilers_and_no_emulators(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tollmeter.cli.developing.read_layout", lambda _: {"size of long": "8"})
    monkeypatch.setattr("tollmeter.cli.developing.build_layout", lambda *_: None)
    assert main(["layout", "--abi", "red,far"]) == 0
    assert installed(debian) == [["far-compiler", "red-compiler"]]
    monkeypatch.setenv("APT_REFUSES", "blue-compiler")
    assert main(["layout", "--abi", "red,blue"]) == 5


def test_all_that_any_abi_misses(debian: Path) -> None:
    missing = packages.missing_anywhere(debian)
    assert {"red-compiler", "blue-compiler", "far-compiler", "qemu-user"} <= set(missing)
    assert len(missing) == len(set(missing))


def test_a_ctrl_c_waits_for_packages_to_be_whole(debian: Path, root: Path) -> None:
    script = (
        "import sys, pathlib, tollmeter.toolchain.packages as one;"
        "one._install(pathlib.Path(sys.argv[1]), ['red-compiler'])"
    )
    environment = {**os.environ, "APT_LASTS": "1", "PYTHONPATH": str(root / "src")}
    words = [sys.executable, "-c", script, str(debian)]
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, process_group=0) as process:
        assert in_time((debian / "unpacking").exists)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=LONG_S)
        assert "red-compiler" in (debian / "there").read_text().split()
        assert process.stderr and b"KeyboardInterrupt" in process.stderr.read()
