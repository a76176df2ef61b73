# SPDX-License-Identifier: Apache-2.0
"""Every process is started in one place, which starts nothing that is in a run's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tollmeter import commands
from tollmeter.model import Failure


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "program"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho started")
    path.chmod(0o755)
    return path


def test_what_is_asked_for_is_started(program: Path) -> None:
    assert commands.run("checkout", [program], capture_output=True, text=True).stdout == "started\n"
    with commands.start("typed", ["sh", "-c", "exit 3"]) as process:
        assert process.wait() == 3


@pytest.mark.parametrize("words", [["PROGRAM"], ["sh", "PROGRAM"]])
def test_nothing_in_a_runs_folder_is_started(program: Path, words: list[str]) -> None:
    (program.parent / "journal.jsonl").write_text("")
    command = [str(program) if word == "PROGRAM" else word for word in words]
    for act in (commands.run, commands.start):
        with pytest.raises(Failure, match=r"in a run's folder \(file\)") as caught:
            act("file", command)
        assert caught.value.exit_code == 5


def test_a_word_that_is_no_path_is_only_a_word() -> None:
    long = "/" + "x" * 300 + "\udcff"
    assert commands.run("file", ["true", long, "/" * 5000, os.devnull]).returncode == 0
