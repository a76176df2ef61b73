# SPDX-License-Identifier: Apache-2.0
"""What a machine's runs said, kept beside them: never more than a help, and never in the way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from machines import MACHINE
from tollmeter.model import Machine
from tollmeter.store import history
from tollmeter.store.history import NAME, Remembered, machine_key, recall, remember


def run(name: str, machine: Machine = MACHINE, median: float = 10.0) -> Remembered:
    return Remembered(
        run=name, machine=machine_key(machine), rows={"a.b x86_64": (median, 0.01)}, widths={"local": {"x86_64": 4.0}}
    )


def names(folder: Path, machine: Machine = MACHINE) -> list[str]:
    return [one.run for one in recall(folder, machine)]


def test_runs_are_recalled_as_they_were_oldest_first(tmp_path: Path) -> None:
    told = [run("a"), run("b", median=11.0)]
    for one in told:
        remember(tmp_path, one)
    assert recall(tmp_path, MACHINE) == told


@pytest.mark.parametrize("other", [{"host": "x"}, {"cpu": "x"}, {"kernel": "x"}])
def test_another_machine_or_kernel_says_nothing_of_this_one(tmp_path: Path, other: dict[str, str]) -> None:
    elsewhere = msgspec.structs.replace(MACHINE, **other)
    remember(tmp_path, run("here"))
    remember(tmp_path, run("there", elsewhere))
    assert (names(tmp_path), names(tmp_path, elsewhere)) == (["here"], ["there"])


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b'{"run": 1}', b"[" * 100_000, b"null"])
def test_a_damaged_line_costs_itself_alone(tmp_path: Path, damage: bytes) -> None:
    remember(tmp_path, run("a"))
    with (tmp_path / NAME).open("ab") as file:
        file.write(damage + b"\n")
    remember(tmp_path, run("b"))
    assert names(tmp_path) == ["a", "b"]


def test_a_line_that_was_cut_costs_itself_and_its_neighbour_at_most(tmp_path: Path) -> None:
    for name in "abc":
        remember(tmp_path, run(name))
    text = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(text[:-20])
    remember(tmp_path, run("d"))
    remember(tmp_path, run("e"))
    assert names(tmp_path) == ["a", "b", "e"]


def test_the_last_word_on_a_run_stands_and_the_last_forty_runs_count(tmp_path: Path) -> None:
    remember(tmp_path, run("first"))
    for number in range(45):
        remember(tmp_path, run(f"r{number}"))
    remember(tmp_path, run("r44", median=99.0))
    found = recall(tmp_path, MACHINE)
    assert [one.run for one in found] == [f"r{number}" for number in range(5, 45)]
    assert found[-1].rows["a.b x86_64"][0] == 99.0


def test_a_file_that_grew_beyond_reason_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(tmp_path, run("a"))
    monkeypatch.setattr(history, "_MOST_BYTES", (tmp_path / NAME).stat().st_size)
    assert names(tmp_path) == ["a"]
    remember(tmp_path, run("b"))
    assert names(tmp_path) == []


def test_no_history_is_none_and_a_folder_that_cannot_be_written_is_borne(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    remember(tmp_path / "missing", run("a"))
    assert not (tmp_path / "missing").exists()
    (tmp_path / NAME).mkdir()
    remember(tmp_path, run("a"))
    assert names(tmp_path) == []
