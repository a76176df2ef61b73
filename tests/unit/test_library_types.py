# SPDX-License-Identifier: Apache-2.0
"""A type checker sees the types of the library in a program that uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/library.md").read_text(encoding="utf-8"), re.DOTALL)
CLIENT = "from pathlib import Path\n\nfolder = Path('run')\n" + "\n".join(EXAMPLES)


def checked(tmp_path: Path, source: str) -> tuple[int, str]:
    """The exit code and output of mypy, which finds tollmeter as an installed package and not by this project's own
    settings."""
    client = tmp_path / "client.py"
    client.write_text(source, encoding="utf-8")
    words = ["--strict", "--disallow-any-expr", "--config-file=", f"--cache-dir={ROOT / 'build/tests/mypy-client'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, str(client)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_examples_of_the_page_pass_a_strict_type_check_without_any(tmp_path: Path) -> None:
    code, output = checked(tmp_path, CLIENT)
    assert code == 0, output


def test_a_misspelt_name_or_field_is_a_type_error(tmp_path: Path) -> None:
    wrong = "import tollmeter\nprint(tollmeter.opne('x'))\nprint(tollmeter.open('x').rows[0].mediam)\n"
    code, output = checked(tmp_path, wrong)
    assert code == 1
    assert output.count("[attr-defined]") == 2, output
