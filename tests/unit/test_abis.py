# SPDX-License-Identifier: Apache-2.0
"""ABI files: ours and a person's own, what each lacks here, and what cannot be meant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from machines import catalog
from tollmeter import abis
from tollmeter.cli import places
from tollmeter.model import Failure
from tollmeter.targets import ways

MINE = """
summary = "mine"
compiler = ["{compiler}"]
flags = ["-O1"]
packages = ["my-compiler"]
runs_on = ["x86_64", "aarch64"]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person's own ABI files; the person stands somewhere else."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = tmp_path / "tollmeter/abis"
    folder.mkdir(parents=True)
    return folder


def test_a_persons_own_file_is_found_beside_ours(root: Path, own: Path) -> None:
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    found = abis.find(root)
    assert found.abis["mine"].summary == "mine"
    assert {"x86_64", "arm-soft", "s390x"} <= set(found.abis)
    assert not found.refused


def test_a_file_that_means_nothing_is_named_and_keeps_no_other_away(root: Path, own: Path) -> None:
    (own / "typo.toml").write_text(MINE.format(compiler="gcc") + 'colour = "red"\n')
    (own / "attribute.toml").write_text(MINE.format(compiler="gcc") + "[elf]\nshape = 3\n")
    (own / "x86_64.toml").write_text(MINE.format(compiler="gcc"))
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    found = abis.find(root)
    assert set(found.refused) == {"typo", "attribute", "x86_64"}
    assert "colour" in found.refused["typo"]
    assert "shape" in found.refused["attribute"]
    assert str(own) in found.refused["x86_64"]
    assert "mine" in found.abis and "typo" not in found.abis


def test_an_abi_that_fails_keeps_no_other_from_being_made(tree: Path, own: Path) -> None:
    (own / "typo.toml").write_text("colour = 1\n")
    (own / "absent.toml").write_text(MINE.format(compiler="no-such-compiler"))
    (own / "mine.toml").write_text(MINE.format(compiler="gcc"))
    said: list[str] = []
    failures = abis.make_ready(tree, ["typo", "absent", "mine"], [], said.append)
    assert set(failures) == {"typo", "absent"}
    assert failures["typo"].exit_code == 2
    assert "apt-get install my-compiler" in failures["absent"].sentence
    assert (tree / "build/mine/kernel.loop.describe").is_file()
    said.clear()
    assert abis.make_ready(tree, ["mine"], [], said.append) == {}
    assert not said, "nothing has changed, and it was made again"


def test_what_is_missing_is_said_with_its_mend(root: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "absent.toml").write_text(MINE.format(compiler="no-such-compiler"))
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "qemu" in name else real(name, **more))
    told = {one.name: one for one in abis.survey(root, "x86_64")}
    assert (told["absent"].compiler, told["absent"].apt) == (None, "apt-get install my-compiler")
    assert (told["s390x"].target, told["s390x"].clock) == (None, None)
    assert "qemu-user" in (told["s390x"].apt or "")
    assert "qemu-s390x" in (told["s390x"].missing or "")


def test_each_kind_of_place_has_its_own_clock() -> None:
    names = ("local", "qemu-user:arm", "guest:x32", "bare:vexpress-a9", "ssh:board")
    assert [ways.clock_of(name) for name in names] == ["hardware", "instructions", "virtual", "virtual", "hardware"]


@pytest.mark.parametrize(
    "name", ["", "lokal", "guest:atari", "bare:x32", "qemu", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:"]
)
def test_a_name_that_is_no_targets_is_refused_as_usage(name: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        ways.open_target(name, tmp_path)
    assert caught.value.exit_code == 2


def test_an_emulator_that_is_named_alone_is_the_abis_own(root: Path) -> None:
    known = abis.find(root).abis
    assert ways.for_abi("qemu-user", known["arm-hard"]) == "qemu-user:arm"
    assert ways.for_abi("guest", known["arm-hard"]) == "guest:vexpress-a9"
    assert ways.for_abi("bare", known["arm-hard"]) == "bare:vexpress-a9"
    assert ways.for_abi("ssh:board", known["arm-hard"]) == "ssh:board"
    with pytest.raises(Failure):
        ways.for_abi("guest", known["s390x"])


def test_a_target_leaves_out_what_nobody_named_and_it_does_not_run() -> None:
    loaded = catalog(abis=("x86_64", "arm-hard"))
    placed = places._placed(loaded, ["bare", "qemu-user"], ["arm-hard"])
    assert placed.abis == ("arm-hard",)
    assert {(key[1], made.target, made.also) for key, made in placed.executables.items()} == {
        ("arm-hard", "bare:vexpress-a9", ("qemu-user:arm",))
    }
    for named in ([], ["x86_64"]):
        with pytest.raises(Failure, match="x86_64: its file names no bare"):
            places._placed(loaded, ["bare"], named)
