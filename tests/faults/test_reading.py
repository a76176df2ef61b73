# SPDX-License-Identifier: Apache-2.0
"""What is only read starts no process and makes no connection: what a run names is used only if it is typed too.

Random run.toml are tests/storm/run_files.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from storm import readers
from storm.run_files import checkout, started
from tollmeter.cli.main import main
from tollmeter.store.request import read_request, write_request


@pytest.fixture
def root(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Path]:
    """A checkout of fakes with one run."""
    with checkout(tmp_path) as root:
        capfd.readouterr()
        yield root


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("targets", ("ssh:host.invalid",), ["--target", "ssh:host.invalid"]),
        ("peer", "host.invalid", ["--peer", "host.invalid"]),
        ("folder", "/tmp", ["--folder", "/tmp"]),
    ],
)
def test_a_place_that_a_run_names_is_used_only_if_it_is_typed_too(
    root: Path, capfd: pytest.CaptureFixture[str], field: str, value: object, words: list[str]
) -> None:
    request = read_request(root / "mine")
    write_request(root / "mine", msgspec.structs.replace(request, **{field: value}))
    started.clear()
    for more in ([], ["--dry-run"], [words[0], "local" if field == "targets" else "/dev"]):
        assert main(["run", "--resume", "mine", *more]) == 2
        assert " ".join(words) in capfd.readouterr().err
    assert started == []
    assert main(["run", "--resume", "mine", "--dry-run", *words]) in (0, 1, 5)


def test_the_machine_is_compared_before_anything_is_started(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    journal = root / "mine/journal.jsonl"
    named = f'"host":"{os.uname().nodename}"'.encode()
    data = journal.read_bytes()
    assert named in data
    journal.write_bytes(readers.sealed(data.replace(named, b'"host":"another"')))
    started.clear()
    assert main(["run", "--resume", "mine"]) == 5
    assert "another machine" in capfd.readouterr().err
    assert started == []


SUITE = """
question = "?"
[[workload]]
name = "evil"
what = "?"
start = ["sh", "-c", "echo x"]
verify = "x"
build = [["touch", "{ran}"]]
"""


def test_a_suite_file_with_commands_is_trusted_once_and_by_its_content(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = root / "ev.toml"
    path.write_text(SUITE.format(ran=root / "ran"))
    assert main(["run", str(path), "--dry-run"]) in (0, 6)
    assert not (root / "ran").exists()
    capfd.readouterr()
    assert main(["run", str(path), "--quiet"]) == 2
    assert f"--trust {path}" in capfd.readouterr().err
    assert not (root / "ran").exists()
    assert main(["run", str(path), "--quiet", "--trust", str(path)]) != 2
    assert main(["run", str(path), "--quiet"]) != 2
    path.write_text(path.read_text() + "\n")
    assert main(["run", str(path), "--quiet"]) == 2


def test_an_abi_file_of_the_current_folder_is_trusted_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    (here / "abis").mkdir(parents=True)
    shutil.copy(next((root / "abis").glob("*.toml")), here / "abis/mine.toml")
    monkeypatch.chdir(here)
    assert main(["run", "--abi", "mine", "--quiet"]) == 2
    assert "--trust" in capfd.readouterr().err
    started.clear()
    assert main(["run", "--abi", "mine", "--quiet", "--trust", "abis/mine.toml"]) == 5
    assert "no-such-compiler" in capfd.readouterr().err
