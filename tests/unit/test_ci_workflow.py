# SPDX-License-Identifier: Apache-2.0
"""The workflow of docs/ci.md: its steps are run for two pushes to the main branch. The second has a reference."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.waiting import LONG_S

SHORT = "kernel.loop --precision 20% --budget 3s"
NO_ANSWER = 1


def block(text: str, language: str) -> str:
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def steps(workflow: str) -> list[tuple[bool, str]]:
    """Of those that run something: whether the step wants a reference, and its command."""
    texts = re.split(r"^ +(?=- )", workflow, flags=re.MULTILINE)
    found = [(text, re.search(r"^\s*(?:- )?run: (.*)$", text, re.MULTILINE)) for text in texts]
    return [("hashFiles" in text, one[1]) for text, one in found if one]


def test_the_documented_workflow_gates_the_second_push(root: Path, tmp_path: Path) -> None:
    text = (root / "docs/ci.md").read_text()
    (tmp_path / "limits.toml").write_text(block(text, "toml"))
    (tmp_path / "toll").write_text(f"#!/bin/sh\nexec '{root}/toll' \"$@\"\n")
    (tmp_path / "toll").chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "TOLL_LOCK": str(tmp_path / "lock")}
    for push in range(2):
        for wants_reference, command in steps(block(text, "yaml")):
            if wants_reference and not (tmp_path / "base/journal.jsonl").exists():
                continue
            short = re.sub(r"'kernel\.\*' --budget 10m", SHORT, command)
            words = ["sh", "-ec", short]
            done = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=LONG_S
            )
            assert done.returncode in ((0, NO_ANSWER) if " run " in command else (0,)), (command, done.stderr)
        assert summary.exists() is (push == 1), "the first push has no reference"
        (tmp_path / "new").rename(tmp_path / f"new-{push}")
