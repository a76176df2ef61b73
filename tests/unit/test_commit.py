# SPDX-License-Identifier: Apache-2.0
"""`toll --version` states the commit, as git does in a checkout and as an archive of git does elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}
PACKAGE = "src/tollmeter"


def git(tree: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", tree, *words], check=True, capture_output=True, text=True, env={**os.environ, **AS}
    )
    return done.stdout.strip()


def version(tree: Path) -> str:
    words = [sys.executable, "-c", "import sys; from tollmeter.cli.main import main; sys.exit(main(['--version']))"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment, cwd=tree).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What git tracks of the package, in a repository of its own."""
    tree = tmp_path / "tree"
    for name in [".gitattributes", *git(ROOT, "ls-files", PACKAGE).splitlines()]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    return tree


def test_a_checkout_states_its_commit_and_whether_it_was_changed(checkout: Path) -> None:
    (checkout / ".git/info/exclude").write_text("__pycache__\n")
    commit = git(checkout, "rev-parse", "--short", "HEAD")
    assert version(checkout).endswith(f"(commit {commit})")
    with (checkout / PACKAGE / "version.py").open("a") as file:
        file.write("# changed\n")
    assert version(checkout).endswith(f"(commit {commit}-dirty)")


def test_an_archive_states_the_commit_that_it_is_of(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    commit = git(checkout, "rev-parse", "--short", "HEAD")
    git(checkout, "archive", "-o", str(tmp_path / "it.tar"), "HEAD")
    subprocess.run(["tar", "-xf", tmp_path / "it.tar", "-C", tmp_path / "archive"], check=True)
    assert version(tmp_path / "archive").endswith(f"(commit {commit})")


def test_sources_without_git_have_a_version_alone(checkout: Path) -> None:
    (checkout / ".git").rename(checkout.parent / "elsewhere")
    assert "commit" not in version(checkout)
