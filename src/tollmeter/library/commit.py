# SPDX-License-Identifier: Apache-2.0
"""The commit that these sources are of."""

from __future__ import annotations

from pathlib import Path

from tollmeter import commands
from tollmeter.root import IS_CHECKOUT, ROOT

_STATED = Path(__file__).resolve().parents[1] / "commit"
"""git writes it into an archive (.gitattributes); a wheel of that archive has it too."""
_UNWRITTEN = "$"


def commit() -> str | None:
    """Shortened, with `-dirty` where a checkout has changes; None where neither an archive nor git states it."""
    try:
        stated = _STATED.read_text(encoding="utf-8").strip()
        if not stated.startswith(_UNWRITTEN):
            return stated or None
        return _of_git() if IS_CHECKOUT and (ROOT / ".git").exists() else None
    except (OSError, UnicodeDecodeError):
        return None


def _of_git() -> str | None:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = commands.run("checkout", words, capture_output=True, text=True)
    return done.stdout.strip() or None
