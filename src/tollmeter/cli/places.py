# SPDX-License-Identifier: Apache-2.0
"""Where things are: the checkout, what it built, the suites, the runs."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from datetime import date
from pathlib import Path

from tollmeter import catalog
from tollmeter.catalog import Catalog
from tollmeter.model import Failure, Suite
from tollmeter.store.journal import NAME as JOURNAL

ROOT = Path(__file__).resolve().parents[3]
RUNS = ROOT / "runs"
SUITES = ROOT / "suites"
LAST = "LAST"


def built() -> Catalog:
    return catalog.load(ROOT / "build", platform.machine())


def suites() -> dict[str, Suite]:
    return catalog.suites(SUITES)


def new_folder(suite: str) -> Path:
    """runs/DATE-SUITE, or with the first free number behind it."""
    name = f"{date.today().isoformat()}-{_plain(suite)}"  # noqa: DTZ011  the person's own day
    numbered = (RUNS / (name if number == 1 else f"{name}-{number}") for number in range(1, 100_000))
    return next(folder for folder in numbered if not os.path.lexists(folder))


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.")[:60] or "run"


def find_run(name: str) -> Path:
    """A folder, a name under runs/, or LAST. Raises Failure (2) with the nearest names."""
    for folder in (Path(name), RUNS / name):
        if (folder / JOURNAL).exists():
            return shown(folder.resolve()) if name == LAST else folder
    known = run_names()
    if name == LAST or not known:
        raise Failure(f"no run is called {name!r}: there is none in {shown(RUNS)} yet")
    raise catalog.unknown("run", name, known)


def run_names() -> list[str]:
    """Runs of the checkout, the oldest first."""
    found = [path.parent for path in RUNS.glob(f"*/{JOURNAL}") if path.parent.name != LAST]
    return [folder.name for folder in sorted(found, key=lambda folder: ((folder / JOURNAL).stat().st_mtime, folder))]


def remember(folder: Path) -> None:
    """Makes runs/LAST point to a run, wherever that is. A checkout that cannot be written has no LAST."""
    link = RUNS / LAST
    with contextlib.suppress(OSError):
        RUNS.mkdir(exist_ok=True)
        half = RUNS / f".{LAST}.{os.getpid()}"
        half.symlink_to(
            os.path.relpath(folder.resolve(), RUNS) if RUNS in folder.resolve().parents else folder.resolve()
        )
        half.replace(link)


def shown(path: Path) -> Path:
    """As a person here would write it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
