# SPDX-License-Identifier: Apache-2.0
"""The index of the probes answers without a build, and says what the built probes say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fake_probes import tree
from tollmeter import catalog
from tollmeter.cli.main import main
from tollmeter.model import Failure
from tollmeter.protocol import description
from tollmeter.toolchain.build import probe_names

ROOT = Path(__file__).resolve().parents[2]


def test_every_probe_of_the_sources_is_in_the_index_and_no_other() -> None:
    assert catalog.indexed(ROOT).keys() == probe_names(ROOT / "probes"), "make index"


def test_the_index_says_what_built_probes_say(own_abi_name: str) -> None:
    described = list((ROOT / "build" / own_abi_name).glob("*.describe"))
    if not described:
        pytest.skip("nothing is built")
    index, sources = catalog.indexed(ROOT), probe_names(ROOT / "probes")
    built = {}
    for path in described:
        family, name = path.stem.split(".")
        newest = max(one.stat().st_mtime for one in (ROOT / "probes" / family).glob(f"{name}.*"))
        if path.stem in sources and path.stat().st_mtime > newest:
            built[path.stem], _ = description(path.read_bytes())
    assert not [name for name, probe in built.items() if probe != index[name]], "make index"


@pytest.fixture
def here(tmp_path: Path, checkout: Callable[[Path], Path]) -> Path:
    """Sources of two probes without an index, and nothing built."""
    (tmp_path / "probes/kernel").mkdir(parents=True)
    for name in ("loop", "getrandom"):
        (tmp_path / f"probes/kernel/{name}.c").touch()
    return checkout(tmp_path)


def test_a_fresh_clone_lists_its_probes_and_builds_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(ROOT / "probes/index.jsonl", here / "probes")
    assert main(["list", "probes", "--format", "json"]) == 0
    told = capsys.readouterr()
    rows = {row["probe"]: row for row in json.loads(told.out)}
    assert rows["kernel.loop"]["metrics"] == "loops turn" and "builds it" in rows["kernel.getrandom"]["question"]
    assert not told.err and not (here / "build").exists()


def test_a_probe_that_the_index_lacks_is_described_by_its_build(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(here, loop="good")
    assert main(["list", "probes", "kernel.*", "--format", "json"]) == 0
    rows = {row["probe"]: row for row in json.loads(capsys.readouterr().out)}
    (path,) = (here / "build").glob("*/kernel.loop.describe")
    built, _ = description(path.read_bytes())
    assert (rows["kernel.loop"]["question"], rows["kernel.loop"]["abis"]) == (built.question, path.parent.name)
    assert main(["list", "probes", "kernel.loop"]) == 0
    assert built.question in capsys.readouterr().out
    path.write_text("damaged")
    assert main(["list", "probes", "kernel.loop"]) == 0
    assert "not described yet" in capsys.readouterr().out


def test_a_probe_is_described_with_what_it_takes_and_measures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "probes/memory").mkdir()
    (here / "probes/memory/latency.c").touch()
    shutil.copy(ROOT / "probes/index.jsonl", here / "probes")
    assert main(["list", "probes", "memory.latency"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("size", "huge", "load", "ns"))
    assert main(["list", "probes", "memory.*"]) == 0
    assert main(["list", "probes", "memory.latncy"]) == 2
    assert "memory.latency" in capsys.readouterr().err
    assert main(["list", "suites", "memory.latency"]) == 2


def test_a_damaged_index_is_one_sentence(here: Path) -> None:
    (here / "probes/index.jsonl").write_text("{")
    with pytest.raises(Failure, match="make index"):
        catalog.indexed(here)
