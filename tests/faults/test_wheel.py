# SPDX-License-Identifier: Apache-2.0
"""A wheel in a fresh environment, without the checkout: it builds its probes at the first start, and measures."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def checked(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def fresh(tree: Path, tmp_path: Path) -> Path:
    """An environment with a wheel of the small tree. It sees the packages that the wheel depends on and no checkout."""
    for name in ("src", "suites", "emulator"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", *(path.name for path in ROOT.glob("requirements-*.lock"))):
        shutil.copy2(ROOT / name, tree)
    checked(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=tree)
    checked(sys.executable, "-m", "venv", tmp_path / "fresh")
    (wheel,) = tmp_path.glob("*.whl")
    checked(tmp_path / "fresh/bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel)
    shutil.rmtree(tree)
    (site,) = tmp_path.glob("fresh/lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return tmp_path / "fresh"


def toll(fresh: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {f"XDG_{kind}_HOME": str(fresh / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    return checked(fresh / "bin/toll", *words, cwd=fresh, env={**os.environ, **own})


def test_a_wheel_builds_its_probes_once_and_measures(fresh: Path) -> None:
    first, second = toll(fresh, "list", "probes"), toll(fresh, "list", "probes")
    assert "kernel.loop" in first.stdout
    assert "built 1 probes" in first.stderr
    assert (second.stdout, second.stderr) == (first.stdout, "")
    told = toll(fresh, "run", "kernel.loop", "--budget", "2s", "--quiet", "--format", "csv")
    rows = list(csv.DictReader(told.stdout.splitlines()))
    assert rows and all(row["status"] == "ok" for row in rows)
    (run,) = (path for path in (fresh / "data/tollmeter/runs").glob("*/") if path.name != "LAST")
    assert "vega" in (run / "report.html").read_text()
    assert "Next  toll " in toll(fresh, "show").stdout


def test_an_upgrade_is_built_again(fresh: Path) -> None:
    toll(fresh, "list", "probes")
    (source,) = fresh.rglob("_sources/probes/kernel/loop.c")
    source.touch()
    assert "built 1 probes" in toll(fresh, "list", "probes").stderr
    assert not toll(fresh, "list", "probes").stderr


def test_what_only_reads_builds_nothing(fresh: Path) -> None:
    toll(fresh, "--help")
    assert "default" in toll(fresh, "list", "suites").stdout
    assert not list(fresh.glob("cache/tollmeter/*/build/*/kernel.loop"))
