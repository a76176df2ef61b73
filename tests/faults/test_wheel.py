# SPDX-License-Identifier: Apache-2.0
"""A wheel in a fresh environment, without the checkout: it builds its probes at the first start, and measures."""

from __future__ import annotations

import csv
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tollmeter.model import Abi
from tollmeter.report import page
from tollmeter.toolchain import prebuilt

ROOT = Path(__file__).resolve().parents[2]


BROUGHT = "v" * (page.LEAST_BYTES + 1)
"""In place of the script that draws the charts of a page."""
MEASURED = (0, 1)
"""A loud neighbour may leave a run of seconds too short to answer, which is 1."""


def checked(*words: str | Path, codes: tuple[int, ...] = (0,), **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode in codes, done.stderr
    return done


class Installed(NamedTuple):
    """environment: one for all tests. home: where one test's caches, configuration and data are. more: variables."""

    environment: Path
    home: Path
    more: tuple[tuple[str, str], ...] = ()

    def toll(self, *words: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        own = {f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return checked(
            self.environment / "bin/toll",
            *words,
            codes=codes,
            cwd=self.home,
            env={**os.environ, **own, **dict(self.more)},
        )


@pytest.fixture(scope="module")
def wheel(_built_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of sources alone."""
    return packed(_whole(_built_tree, tmp_path_factory.mktemp("wheel") / "toll meter"))


def _whole(built: Path, tree: Path) -> Path:
    """The small tree, with what a wheel takes from the checkout."""
    shutil.copytree(built, tree)
    for name in ("src", "suites", "emulator", "packaging", "requirements", "licenses"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "THIRD-PARTY.md"):
        shutil.copy2(ROOT / name, tree)
    return tree


def packed(tree: Path, **environment: str) -> Path:
    words = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tree.parent)
    checked(*words, cwd=tree, env={**os.environ, **environment})
    shutil.rmtree(tree)
    (built,) = tree.parent.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def _environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("environment"))


def into(environment: Path) -> tuple[str | Path, ...]:
    """pip from outside, since to install it takes longer than what it then installs."""
    return (sys.executable, "-m", "tollmeter.installer", "--python", environment / "bin/python", "install", "-q")


def installed(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel. It sees the packages that the wheel depends on and no checkout."""
    checked(sys.executable, "-m", "venv", "--without-pip", folder / "fresh")
    checked(*into(folder / "fresh"), "--no-compile", "--no-index", "--no-deps", wheel)
    (site,) = folder.glob("fresh/lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "fresh"


@pytest.fixture
def fresh(_environment: Path, tmp_path: Path) -> Installed:
    """Not started yet: its caches are empty."""
    return Installed(_environment, tmp_path)


def test_a_wheel_builds_its_probes_once_and_measures(fresh: Installed) -> None:
    assert "kernel.loop" in fresh.toll("list", "probes").stdout
    first, second = fresh.toll("run", "kernel.loop", "--dry-run"), fresh.toll("run", "kernel.loop", "--dry-run")
    assert "built kernel.loop for" in first.stderr and "built" not in second.stderr
    assert second.stdout == first.stdout
    soon = ("--budget", "20s", "--precision", "20%")
    told = fresh.toll("run", "kernel.loop", *soon, "--quiet", "--format", "csv", codes=MEASURED)
    rows = list(csv.DictReader(told.stdout.splitlines()))
    assert rows and all(row["status"] in ("ok", "unstable") for row in rows)
    (run,) = (path for path in (fresh.home / "data/tollmeter/runs").glob("*/") if path.name != "LAST")
    assert "vega" in (run / "report.html").read_text()
    assert "Next  toll " in fresh.toll("show", codes=MEASURED).stdout
    (source,) = fresh.environment.rglob("_sources/probes/kernel/loop.c")
    source.write_text(f"{source.read_text()}\n")
    assert "built kernel.loop for" in fresh.toll("run", "kernel.loop", "--dry-run").stderr, "an upgrade"


def test_a_wheel_with_probes_measures_without_a_compiler(tree: Path, own_abi: Abi, tmp_path: Path) -> None:
    tree = _whole(tree, tmp_path / "packed/toll meter")
    folder = tree / prebuilt.FOLDER
    prebuilt.keep(tree, own_abi, folder)
    (folder / "vega.js").write_text(BROUGHT)
    brought = str(folder / f"{own_abi.name}{prebuilt.ENDING}")
    wheel = packed(tree, TOLL_PREBUILT=brought, TOLL_PLATFORM=f"linux_{platform.machine()}")
    assert wheel.name.endswith(f"py3-none-linux_{platform.machine()}.whl")
    alone = Installed(installed(wheel, tmp_path / "environment"), tmp_path, (("PATH", str(tmp_path / "empty")),))
    told = alone.toll("list", "probes")
    assert "kernel.loop" in told.stdout and not told.stderr
    soon = ("--budget", "20s", "--precision", "20%", "--quiet", "--format", "csv")
    rows = list(csv.DictReader(alone.toll("run", "kernel.loop", *soon, codes=MEASURED).stdout.splitlines()))
    assert rows and all(row["status"] in ("ok", "unstable") for row in rows)
    (opened,) = (tmp_path / "data/tollmeter/runs").glob("*-*/report.html")
    assert BROUGHT in opened.read_text(), "a page needs nothing that is fetched"


def test_the_same_tree_makes_the_same_wheel(tree: Path, tmp_path: Path) -> None:
    """In folders of other names, from files of other times."""
    trees = [_whole(tree, tmp_path / name / "tree") for name in ("first", "second")]
    for path in trees[1].rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    first, second = (packed(tree, SOURCE_DATE_EPOCH="1700000000").read_bytes() for tree in trees)
    assert first == second


def test_a_wheel_has_the_licences_of_what_it_brings_and_the_marker_of_a_typed_package(fresh: Installed) -> None:
    """PEP 561: without it a type checker takes every name of the package for Any."""
    (folder,) = fresh.environment.glob("lib/python3*/site-packages/tollmeter-*.dist-info/licenses")
    assert {path.name for path in folder.rglob("*")} >= {"LICENSE", "THIRD-PARTY.md", "LGPL-2.1-or-later.txt"}
    (marker,) = fresh.environment.glob("lib/python3*/site-packages/tollmeter/py.typed")
    assert marker.is_file()


def test_what_only_reads_builds_nothing(fresh: Installed) -> None:
    fresh.toll("--help")
    assert "kernel.loop" in fresh.toll("list", "probes").stdout
    assert "default" in fresh.toll("list", "suites").stdout
    assert not list(fresh.home.glob("cache/tollmeter/*/build/*/kernel.loop"))


def test_the_lowest_versions_that_the_wheel_asks_for_read_a_run(wheel: Path, tmp_path: Path) -> None:
    """pip takes them wherever another package of the same environment holds them."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = [re.sub(r">=([^,]+).*", r"==\1", one) for one in asked]
    assert all("==" in one for one in lowest), "each dependency has a lowest version"
    checked(sys.executable, "-m", "venv", "--without-pip", tmp_path / "low")
    checked(*into(tmp_path / "low"), "--no-compile", *lowest, wheel)
    run = Path(shutil.copytree(ROOT / "tests/recordings/format-2", tmp_path / "run"))
    for words in (["--version"], ["list", "suites"], ["show", run], ["report", run, "--out", tmp_path / "page.html"]):
        checked(tmp_path / "low/bin/toll", *words, cwd=tmp_path, env={**os.environ, "HOME": f"{tmp_path}"})
    assert "vega" in (tmp_path / "page.html").read_text()
