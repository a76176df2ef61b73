# SPDX-License-Identifier: Apache-2.0
"""Where runs are kept and found, and what is built of an ABI that nobody describes any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tollmeter import root as tollmeter_root
from tollmeter import saying
from tollmeter.library import places
from tollmeter.model import Abi, Failure
from tollmeter.store.journal import NAME as JOURNAL


@pytest.fixture
def shared(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that the person may only read, as a file system says that is mounted so."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(places, "ROOT", tree)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(tree) and real(path, mode))
    monkeypatch.setattr(places, "RUNS", places._runs())
    return tree


def test_runs_of_a_checkout_are_in_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ROOT", tree)
    assert places._runs() == tree / "runs"


def test_runs_of_somebody_else_s_checkout_are_the_person_s(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(saying, "_listeners", [said.append])
    folder = places.new_folder("default")
    assert folder.parent == tmp_path / "data/tollmeter/runs"
    (line,) = said
    assert str(folder.parent) in line
    (shared / "runs/theirs").mkdir(parents=True)
    (shared / "runs/theirs" / JOURNAL).touch()
    assert places.find_run("theirs") == shared / "runs/theirs"
    folder.mkdir(parents=True)
    (folder / JOURNAL).touch()
    places.remember(folder)
    assert (folder.parent / places.LAST).resolve() == folder


@pytest.mark.usefixtures("shared")
def test_a_wheel_s_runs_are_the_person_s_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tollmeter_root, "IS_CHECKOUT", False)
    assert places._runs() == tmp_path / "data/tollmeter/runs"
    places.new_folder("default")
    assert not capsys.readouterr().err


def test_an_abi_whose_file_is_gone_is_a_sentence(
    tree: Path, own_abi: Abi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(places, "ROOT", tree)
    monkeypatch.chdir(tmp_path)
    (tree / f"abis/{own_abi.name}.toml").unlink()
    with pytest.raises(Failure, match="its file is gone"):
        places.made_ready([], ["local"])
