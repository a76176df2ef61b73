# SPDX-License-Identifier: Apache-2.0
"""ABI files from elsewhere: nothing in them means anything to a shell, and none is used that nobody asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tollmeter.files import trust
from tollmeter.model import Failure
from tollmeter.toolchain.abis import known_abis, read_abi, refused_abis, survey_abis

SPY = 'summary = "s"\ncompiler = [["{compiler}"]]\nflags = {flags}\nruns_on = ["x86_64"]\n'


@pytest.mark.parametrize("mark", [">x", "|", "&", ";touch", "$(touch)", "a b", "`", "(", "<", "*", "~", "\n"])
def test_no_word_of_an_abi_file_means_anything_to_a_shell(tmp_path: Path, mark: str) -> None:
    for table in (SPY.format(compiler="gcc", flags=[f"-O2{mark}"]), SPY.format(compiler=repr(mark)[1:-1], flags=[])):
        (tmp_path / "mine.toml").write_text(table)
        with pytest.raises(Failure, match="not a valid word of a command"):
            read_abi(tmp_path / "mine.toml")


@pytest.mark.parametrize("name", ["a;touch x", "a b", "-o", "$(id)", "a|b"])
def test_nor_does_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.toml").write_text(SPY.format(compiler="gcc", flags=[]))
    with pytest.raises(Failure, match="not a valid ABI name"):
        read_abi(tmp_path / f"{name}.toml")


def test_a_package_is_no_option_of_apt(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SPY.format(compiler="gcc", flags=[]) + 'packages = ["-oAPT::x=1"]\n')
    with pytest.raises(Failure, match="not a valid Debian package name"):
        read_abi(tmp_path / "mine.toml")


def test_an_abi_of_the_folder_one_stands_in_is_used_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "abis").mkdir()
    ran = tmp_path / "ran"
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {ran}\n")
    spy.chmod(0o755)
    (tmp_path / "abis/spied.toml").write_text(SPY.format(compiler=spy, flags=[]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    told = {one.name: one for one in survey_abis(tmp_path / "none", "x86_64")}
    assert not ran.exists()
    assert told["spied"].mend == "./toll run --abi spied"
    assert "spied" not in known_abis(tmp_path / "none")
    assert "--trust" in refused_abis(tmp_path / "none", ["spied"])["spied"]
    trust([tmp_path / "abis/spied.toml"])
    assert "spied" in known_abis(tmp_path / "none", ["spied"])


def test_an_abi_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(Failure, match="not a file"):
        read_abi(tmp_path / "pipe.toml")
