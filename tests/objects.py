# SPDX-License-Identifier: Apache-2.0
"""The runtime's objects, compiled once for all trees that a test builds: of 3 s that a small tree takes, 2 are theirs.

They are lent with their times and with the command that made them, so that make compiles anew what a test changed, and
all of them where it asks for another compiler or flag."""

from __future__ import annotations

import atexit
import fcntl
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_KEPT = Path(tempfile.mkdtemp(prefix="toll-objects-"))
atexit.register(shutil.rmtree, _KEPT, ignore_errors=True)


def lend(tree: Path, abi: str) -> None:
    """Those of this worker's earlier trees, or else of the checkout; none where neither has them all."""
    to, checkout = tree / "build" / abi / "obj", ROOT / "build" / abi / "obj"
    if _is_whole(_KEPT / abi):
        _copy(_KEPT / abi, to)
    elif _is_whole(checkout):
        with (ROOT / f"build/{abi}.lock").open("a") as nobody_builds:
            fcntl.flock(nobody_builds, fcntl.LOCK_SH)
            _copy(checkout, to)


def keep(tree: Path, abi: str) -> None:
    """What a tree was built with, for the next."""
    made = tree / "build" / abi / "obj"
    if _is_whole(made) and not _is_whole(_KEPT / abi):
        _copy(made, _KEPT / abi)


def _is_whole(made: Path) -> bool:
    wanted = {f"{source.name}.o" for source in (ROOT / "probes/runtime").glob("*.c")}
    return (made / "command").is_file() and wanted <= {path.name for path in (made / "runtime").glob("*.o")}


def _copy(made: Path, to: Path) -> None:
    shutil.copytree(made / "runtime", to / "runtime", dirs_exist_ok=True)
    shutil.copy2(made / "command", to)
