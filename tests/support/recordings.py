# SPDX-License-Identifier: Apache-2.0
"""Copies of recorded runs, which a test may open: opening a run keeps an index in it, and a test may put another
there."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import msgspec

from tollmeter.model import Results, Surroundings
from tollmeter.store.index import index_fingerprint, save_index
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.store.journal import Journal, read_journal

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


def copied(name: str, to: Path, *, calm: bool = False) -> Path:
    """Returns a folder with the recording of a name, its journal unpacked. calm: with evidence that nothing filtered or
    traced its system calls, without which no run is quiet and which is younger than some recordings."""
    shutil.copytree(RECORDINGS / name, to, dirs_exist_ok=True)
    if (packed := to / f"{JOURNAL}.xz").exists():
        (to / JOURNAL).write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()
    if calm:
        last = read_journal(to).session
        surroundings = Surroundings(others=0.0, seccomp_filters=0, traced=False)
        with Journal.resume(to) as journal:
            journal.note(msgspec.structs.replace(last, surroundings=surroundings))
    return to


def with_index_of(results: Results, to: Path) -> str:
    """Returns the path of a recorded run whose stored index is the one of these results."""
    save_index(copied("format-2", to), index_fingerprint(to), results.index)
    return str(to)
