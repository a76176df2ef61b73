# SPDX-License-Identifier: Apache-2.0
"""The runtime's objects, compiled once for all trees that tests build: they take 2 of the 3 s of a small tree.

They are copied with the command that made them and the digests of their sources, so that a build compiles again what
has changed, and everything if it uses another compiler or flag. Those of an ABI that the checkout has not built are
stored for the next test, in any process and run: tests build for 20 foreign CPUs."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_KEPT = ROOT / "build/tests/objects"
_MADE_BY = ("command", "sources.json")


def lend(tree: Path, abi: str, of: str = "") -> None:
    """Copies objects to a tree: the checkout's, or else those that earlier trees stored; none if neither has all of
    them. of: an ABI with the same compiler and flags, whose objects are used."""
    of = of or abi
    to, checkout = tree / "build" / abi / "obj", ROOT / "build" / of / "obj"
    if _is_whole(checkout):
        with (ROOT / f"build/{of}.lock").open("a") as nobody_builds:
            fcntl.flock(nobody_builds, fcntl.LOCK_SH)
            _copy(checkout, to)
        return
    with _alone(of) as kept:
        if _is_whole(kept):
            _copy(kept, to)


def keep(tree: Path, abi: str) -> None:
    """Stores the objects of a built tree for the next one."""
    made = tree / "build" / abi / "obj"
    if not _is_whole(made) or _is_whole(ROOT / "build" / abi / "obj"):
        return
    with _alone(abi) as kept:
        if not _is_whole(kept) or _newest(made) > _newest(kept):
            aside = Path(tempfile.mkdtemp(dir=_KEPT))
            _copy(made, aside)
            shutil.rmtree(kept, ignore_errors=True)
            aside.rename(kept)


@contextmanager
def _alone(abi: str) -> Iterator[Path]:
    """Yields the folder of an ABI, locked against other processes."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / f"{abi}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _KEPT / abi


def _newest(made: Path) -> float:
    return max(path.stat().st_mtime for path in (made / "runtime").glob("*.o"))


def _is_whole(made: Path) -> bool:
    wanted = {f"{source.name}.o" for source in (ROOT / "probes/runtime").glob("*.c")}
    return all((made / name).is_file() for name in _MADE_BY) and wanted <= {
        path.name for path in (made / "runtime").glob("*.o")
    }


def _copy(made: Path, to: Path) -> None:
    shutil.copytree(made / "runtime", to / "runtime", dirs_exist_ok=True)
    for name in _MADE_BY:
        shutil.copy2(made / name, to)
