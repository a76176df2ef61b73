# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are full, closed, or closed by their reader: each command ends, with a line where it can, and a
run keeps what it measured."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from pathlib import Path

from storm.ended import Tally, ended, ill
from tollmeter.store.journal import NAME

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/recordings/format-2"
RUN = "run kernel.loop --budget 1s --beside --out {out}/mine"
COMMANDS = (
    "show {run}", "show {run} --all", "show {run} --format json", "show {run} --raw", "export {run} --what samples",
    "export {run} --format md", "report {run} --out {out}/page.html", "list", "list runs", "--version", "--help", RUN,
)  # fmt: skip
STREAMS = (
    ">/dev/full", ">&-", "2>&-", "2>/dev/full", "<&-", ">&- 2>&- <&-", ">/dev/full 2>&1", "| head -c 1",
    "| head -c 5000", "| :", "2>&1 | head -c 1", "| sleep 0.3",
)  # fmt: skip
CODES = {0, 1, 2, 5, 6}


def storm(seed: int, count: int) -> Tally:
    tally, every = Tally("closed and full streams"), [*itertools.product(COMMANDS, STREAMS)]
    for command, streams in random.Random(seed).sample(every, min(count, len(every))):
        with tempfile.TemporaryDirectory(prefix="toll-storm.") as name:
            tally.one(f"toll {command} {streams}", _wrong(Path(name), command, streams))
    return tally


def _wrong(folder: Path, command: str, streams: str) -> str | None:
    shutil.copytree(RECORDED, folder / "run")
    words = f"{ROOT}/toll {command.format(run=folder / 'run', out=folder)} {streams}; exit ${{PIPESTATUS[0]}}"
    told = ended(["bash", "-c", words])
    if wrong := ill(told, CODES):
        return wrong
    if told.code and "2>" not in streams and not told.said.strip():
        return f"code {told.code} without a word"
    is_kept = (folder / "mine" / NAME).is_file() and (folder / "mine/report.html").is_file()
    return "the run or its report is lost" if command == RUN and not is_kept else None
