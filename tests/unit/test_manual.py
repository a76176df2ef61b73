# SPDX-License-Identifier: Apache-2.0
"""The manual page and the completions have every verb and option, and the programs that read them accept them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer._completion_classes import BashComplete
from typer.main import get_command

from tollmeter.cli.app import app
from tollmeter.cli.main import main
from tollmeter.cli.verbs import VERBS, help_text
from tollmeter.library import places
from tollmeter.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
CHECKERS = {"toll.bash": ("bash", "-n"), "_toll": ("zsh", "-n"), "toll.fish": ("fish", "--no-execute")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, ROOT / "packaging/manual.py", folder], check=True)
    return folder


def options() -> dict[str, list[str]]:
    """The long ones, by verb."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    return {
        name: [word for one in command.params for word in one.opts if word.startswith("--")]
        for name, command in commands.items()
    }


def test_the_page_has_every_verb_and_option_and_no_warning(made: Path) -> None:
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    words = ["man", "--warnings", "--no-hyphenation", "-l", made / "toll.1"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"MANWIDTH": "200", "PATH": "/usr/bin:/bin"}
    )
    assert not done.stderr
    assert list(VERBS) == [line.strip() for line in done.stdout.splitlines() if line.strip() in VERBS]
    shown = done.stdout.split()
    assert not [word for words in options().values() for word in words if word not in shown and f"{word}," not in shown]
    assert "interrupted" in shown


def test_out_is_o_in_every_verb() -> None:
    verbs = [*get_command(app).commands.values()]  # type: ignore[attr-defined]
    every = [*verbs, *(inner for verb in verbs for inner in getattr(verb, "commands", {}).values())]
    written = [set(option.opts) for verb in every for option in verb.params if "--out" in option.opts]
    assert len(written) > 10 and all("-o" in names for names in written)


@pytest.mark.parametrize("name", CHECKERS)
def test_a_shell_can_read_its_completions(made: Path, name: str) -> None:
    if not shutil.which(CHECKERS[name][0]):
        pytest.skip(f"{CHECKERS[name][0]} is not installed")
    subprocess.run([*CHECKERS[name], made / name], check=True)


def offered(*words: str) -> list[str]:
    """What the shells' completion gets for the last word."""
    command: Any = get_command(app)
    shell = BashComplete(command, {}, "toll", "_TOLL_COMPLETE")
    return [item.value for item in shell.get_completions([*words[:-1]], words[-1])]


def test_verbs_options_suites_probes_and_parameters_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "built", None)  # nothing is built for it
    assert offered("sel") == ["selftest"]
    assert set(VERBS) <= set(offered(""))
    assert offered("run", "--bud") == ["--budget"]
    assert offered("run", "kernel.enter_s") == ["kernel.enter_syscall"]
    assert offered("run", "memory.latency", "si") == ["size="]
    assert offered("run", "lmb") == ["lmbench"]
    assert offered("list", "ab") == ["abis"]
    for verb, words in options().items():
        assert set(words) <= set(offered(verb, "--")), verb


def test_bash_asks_the_command(made: Path, tmp_path: Path) -> None:
    launcher = tmp_path / "toll"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m tollmeter "$@"\n')
    launcher.chmod(0o755)
    line = 'source "$1"; COMP_WORDS=("$2" run kernel.enter_s); COMP_CWORD=2; _toll_completion "$2"'
    line += '; echo "${COMPREPLY[*]}"'
    told = subprocess.run(
        ["bash", "-c", line, "bash", made / "toll.bash", launcher], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["kernel.enter_syscall"]


def test_the_help_has_every_verb_whole_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("40", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        text = " ".join(help_text().split())
        assert all(f"{name} {verb.summary}" in text for name, verb in VERBS.items()), columns
    slow = "{'typer', 'msgspec', 'numpy', 'rich'}"
    imports = f"import sys, tollmeter.cli.main; print(sorted(sys.modules.keys() & {slow}))"
    told = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["help", "run"], ["version"], ["-h"], ["fleet", "--help"]])
def test_help_and_version_are_verbs_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    told = capsys.readouterr().out
    assert ("--precision" in told) is (words == ["help", "run"])
    assert VERSION in told or words != ["version"]
