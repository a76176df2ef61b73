# SPDX-License-Identifier: Apache-2.0
"""The manual page and the completions have every verb and option, and the programs that read them accept them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tollmeter.cli.main import VERBS, app

ROOT = Path(__file__).resolve().parents[2]
COMPLETE = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _toll; printf "%s\n" "${COMPREPLY[@]}"'
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


@pytest.mark.parametrize("name", CHECKERS)
def test_a_shell_can_read_its_completions(made: Path, name: str) -> None:
    if not shutil.which(CHECKERS[name][0]):
        pytest.skip(f"{CHECKERS[name][0]} is not installed")
    subprocess.run([*CHECKERS[name], made / name], check=True)


def completed(made: Path, *words: str) -> list[str]:
    told = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", made / "toll.bash", *words], capture_output=True, text=True, check=True
    )
    return told.stdout.split()


def test_bash_completes_verbs_options_suites_and_probes(made: Path) -> None:
    assert completed(made, "toll", "sel") == ["selftest"]
    assert set(VERBS) <= set(completed(made, "toll", ""))
    assert completed(made, "toll", "run", "--bud") == ["--budget"]
    assert completed(made, "toll", "run", "kernel.enter_s") == ["kernel.enter_syscall"]
    assert completed(made, "toll", "run", "lmb") == ["lmbench"]
    assert completed(made, "toll", "list", "ab") == ["abis"]
    for verb, words in options().items():
        assert set(words) <= set(completed(made, "toll", verb, "--")), verb


@pytest.mark.parametrize("name", ["_toll", "toll.fish"])
def test_other_shells_have_every_option_of_each_verb(made: Path, name: str) -> None:
    lines = (made / name).read_text(encoding="utf-8").splitlines()
    for verb, words in options().items():
        of_verb = [line for line in lines if line.lstrip().startswith(f"{verb}) ") or f"from {verb}'" in line]
        assert of_verb or not words
        for word in words:
            assert any(word in line or f"-l {word[2:]} " in line for line in of_verb), (verb, word)
