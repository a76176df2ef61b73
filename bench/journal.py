# SPDX-License-Identifier: Apache-2.0
"""The cost of reading a journal, and a run folder of any size for this: it repeats the visits of a recorded run, each
with a number, a round and a time of its own, and every record with a new checksum.

    bench/journal.py                      CPU time and memory of each verb that reads 20 MB
    bench/journal.py RUN                  the same of a run
    bench/journal.py RUN OUT MEGABYTES    makes a larger run of a run
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tollmeter.protocol import RecordLine
from tollmeter.store.index import NAME as INDEX
from tollmeter.store.journal import NAME, streams

RECORDED = Path(__file__).resolve().parents[1] / "tests/recordings/format-2"
VERBS = (
    ["show"], ["show", "--all"], ["show", "--format", "json"], ["report"], ["export"], ["export", "--what", "samples"],
)  # fmt: skip
LATER_NS = 10**13
SEALED = b',"c":"00000000"}'
MEGABYTE = 1 << 20


def later(line: RecordLine, number: int, turn: int, rounds: int, rng: random.Random) -> bytes:
    """Returns a record of a later visit with other sample times, since equal copies contradict themselves."""
    if (turn == 0 and line.kind != "visit") or line.kind not in ("visit", "sample", "witness"):
        return line.text + b"\n"
    told = msgspec.json.decode(line.text)
    told.pop("c")
    if line.kind == "visit":
        told["visit"], told["round"] = number, told["round"] + turn * rounds
    if "at_ns" in told:  # a visit that was never begun has none
        told["at_ns"] += turn * LATER_NS
    for batches in {"body", "control"} & told.keys():
        told[batches] = [int(ns * rng.uniform(0.99, 1.0)) for ns in told[batches]]
    for rate in {"control_hz", "width_hz", "width_between_hz"} & told.keys():
        told[rate] = int(told[rate] * rng.uniform(0.999, 1.0))
    body = msgspec.json.encode(told)[:-1]
    return b'%s,"c":"%08x"}\n' % (body, zlib.crc32(body))


def grown(visits: Iterable[tuple[RecordLine, ...]], size: int) -> Iterator[bytes]:
    """Yields streams of visits until they have this size in bytes. Only the first visit of a point has a count of
    work."""
    kept, made, turn, number, rng = list(visits), 0, 0, 0, random.Random(1)
    rounds = 1 + max(msgspec.json.decode(lines[0].text)["round"] for lines in kept)
    while made < size:
        for lines in kept:
            stream = b"".join(later(line, number, turn, rounds, rng) for line in lines)
            yield stream
            made, number = made + len(stream), number + 1
            if made >= size:
                return
        kept, turn = [lines for lines in kept if not any(line.kind == "count" for line in lines)], turn + 1


def make(run: Path, out: Path, size: int) -> None:
    """Writes a run folder whose journal has this size in bytes."""
    every = [stream.lines for stream in streams(run)]
    # What the end of a run cuts short stands at its end.
    visits = [lines for lines in every if lines[0].kind == "visit" and not any(line.kind == "fail" for line in lines)]
    out.mkdir(parents=True)
    request = (run / "run.toml").read_text(encoding="utf-8")
    asked = re.sub("(?m)^(planned_s|budget_seconds) = .*", "", request)
    (out / "run.toml").write_text(f"budget_seconds = 1e9\n{asked}", encoding="utf-8")
    with (out / NAME).open("wb") as file:
        file.write(b"".join(line.text + b"\n" for line in every[0]))
        file.writelines(grown(visits, size))


def figures(run: Path) -> None:
    """Prints the cost of each verb: first without a stored index, as after an upgrade; then with it."""
    size = (run / NAME).stat().st_size / MEGABYTE
    for verb in VERBS:
        for kept in ("derived", "kept"):
            if kept == "derived":
                (run / INDEX).unlink(missing_ok=True)
            with Path(os.devnull).open("wb") as nowhere:
                process = subprocess.Popen([sys.executable, "-m", "tollmeter", verb[0], run, *verb[1:]], stdout=nowhere)
                _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu_s, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
            print(f"{size:6.0f} MB  {' '.join(verb):30} {kept:8} {cpu_s:6.1f} s of CPU {peak:6.0f} MB", flush=True)


def main(words: list[str]) -> None:
    if len(words) == 3:
        make(Path(words[0]), Path(words[1]), int(words[2]) * MEGABYTE)
        return
    with tempfile.TemporaryDirectory() as scratch:
        if not words:
            make(RECORDED, Path(scratch, "run"), 20 * MEGABYTE)
        figures(Path(words[0]) if words else Path(scratch, "run"))


if __name__ == "__main__":
    main(sys.argv[1:])
