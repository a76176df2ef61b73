# SPDX-License-Identifier: Apache-2.0
"""Folders of recorded runs, whose journals may be kept as journal.jsonl.xz, as in tests/recordings."""

from __future__ import annotations

import atexit
import lzma
import shutil
import tempfile
from functools import cache
from pathlib import Path

PACKED = "journal.jsonl.xz"


def run_folders(folder: Path) -> list[Path]:
    """Returns the runs in a folder, in the order of their names; those with a packed journal as temporary copies."""
    return [_unpacked(path.parent) for path in sorted(folder.glob("*/run.toml"))]


@cache
def _unpacked(run: Path) -> Path:
    if not (run / PACKED).exists() or (run / "journal.jsonl").exists():
        return run
    copy = Path(tempfile.mkdtemp(prefix="toll-")) / run.name
    atexit.register(shutil.rmtree, copy.parent)
    shutil.copytree(run, copy)
    with lzma.open(copy / PACKED) as packed, (copy / "journal.jsonl").open("wb") as journal:
        shutil.copyfileobj(packed, journal)
    return copy
