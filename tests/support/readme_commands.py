# SPDX-License-Identifier: Apache-2.0
"""Runs every command of README.md in a checkout, each in its default budget: `python tests/support/readme_commands.py
CHECKOUT`.

Prints a table with the time, the exit code and the first line of the answer of each. Exit status 1 if a command ends
with a traceback or a nonzero code, or if a run prints no number with a unit. The checkout is changed: give it a fresh
clone."""

from __future__ import annotations

import json
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

COMMAND = re.compile(r"`(\./toll [^`]+)`")
NUMBER = re.compile(r"\d ?(ns|µs|ms|s|min|[kMGT]?B/s|[kMG]?/s|[MG]FLOPS|instructions|turns|×|%)( |$)", re.MULTILINE)
ENDLESS = ("./toll serve", "./toll show LAST --follow")
TWO = "runs/one runs/other"
PLACES = {
    "show DIR": "show runs/LAST",
    "A B": TWO,
    "compare LAST~1 LAST": f"compare {TWO}",
    "--base RUN --new LAST": "--base runs/one --new runs/other",
    "'OLD COMMAND' -- 'NEW COMMAND'": "'sleep 0.01' -- 'sleep 0.01'",
    "run --resume LAST": "run --resume runs/one",
    "import toll-run": "import FOLDER/toll-run",
    "FILES -o site": "FOLDER/published -o FOLDER/site",
    "-o FILE": "-o FOLDER/published",
    "DATASET": "FOLDER/dataset",
    "--dataset DIR": "--dataset FOLDER/dataset",
    "-o t.sh": "-o FOLDER/t.sh",
    "--budget 8h --limits limits.toml": "--budget 20s --limits FOLDER/limits.toml",
    "/mnt/disk": "FOLDER",
    "DIR": "FOLDER",
}
"""Replacements for a run, file or folder of the reader's."""
ELSEWHERE = {"HOST": "needs another host", "/dev/tty": "needs a serial port", "fleet submit": "needs Slurm",
             "fleet collect": "needs Slurm", "fleet report": "needs two machines"}  # fmt: skip
OF_BOTH = "./toll run memory.read_bandwidth kernel=portable size=16384,65536,262144,1048576 --budget 30s --out runs/"
CAST = "long of(const char *bytes) { return *(const long *)(bytes + 1); }\n"
FOR_LONG_S, LONGEST_S = 5.0, 1500.0


class Line(NamedTuple):
    """The result of a command. first: the first line that it printed. fault: why it failed; empty if it did not."""

    command: str
    seconds: float
    code: int
    first: str
    fault: str


def commands(readme: str) -> Iterator[str]:
    """Yields each command once, in the order of the page."""
    yield from dict.fromkeys(found.strip() for found in COMMAND.findall(readme))


def typed(command: str, checkout: Path, folder: Path) -> Line:
    for word, place in {**PLACES, "FOLDER": f"{folder}"}.items():
        command = command.replace(word, place)
    words = shlex.split(command)
    began = time.monotonic()
    with subprocess.Popen(words, cwd=checkout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace") as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=FOR_LONG_S if command in ENDLESS else LONGEST_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    shown = [line.strip() for line in (out or err).splitlines() if line.strip()]
    fault = fault_of(command, process.returncode, out, err)
    return Line(command, time.monotonic() - began, process.returncode, shown[0] if shown else "", fault)


def prepare(checkout: Path, folder: Path) -> None:
    """Writes the files that commands need: a program of one file with one cast, two runs with common charts, the run of
    a bundle, and a limit that every system keeps."""
    (folder / "limits.toml").write_text(
        '[[rows]]\nrow = "kernel.timer late_worst *"\nat_most = "60 s"', encoding="utf-8"
    )
    (folder / "cast.c").write_text(CAST, encoding="utf-8")
    how = [{"directory": f"{folder}", "file": "cast.c", "arguments": ["gcc", "-c", "cast.c"]}]
    (folder / "compile_commands.json").write_text(json.dumps(how), encoding="utf-8")
    for name in ("one", "other"):
        subprocess.run(shlex.split(OF_BOTH + name), cwd=checkout, check=True, capture_output=True)
    bundle = ["./toll", "bundle", "kernel.enter_syscall", "--abi", platform.machine(), "-o", f"{folder}/bundle.sh"]
    subprocess.run(bundle, cwd=checkout, check=True, capture_output=True)
    subprocess.run(["sh", "bundle.sh"], cwd=folder, check=True, capture_output=True)


def fault_of(command: str, code: int, out: str, err: str) -> str:
    if "Traceback" in out + err:
        return "a traceback"
    if code != 0 and not (command in ENDLESS and code == 130):
        return f"ended with {code}: {err.strip().splitlines()[-1] if err.strip() else 'no word of why'}"
    measures = command.startswith("./toll run") and "--dry-run" not in command
    return "no number on its screen" if measures and not NUMBER.search(out) else ""


def main(checkout: Path) -> int:
    """Returns the exit code."""
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(checkout, Path(folder))
        for command in commands((checkout / "README.md").read_text(encoding="utf-8")):
            why = next((why for word, why in ELSEWHERE.items() if word in command), "")
            if why:
                print(f"       -     {command}: not tried, {why}", flush=True)
                continue
            line = typed(command, checkout, Path(folder))
            faults += bool(line.fault)
            print(f"{line.seconds:6.1f} s  {line.code:3}  {command}\n               {line.first}", flush=True)
            if line.fault:
                print(f"               FAILED: {line.fault}", flush=True)
    print(f"{faults} commands of README.md gave no answer")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
