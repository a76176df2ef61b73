# SPDX-License-Identifier: Apache-2.0
"""How complete a bill is: for real programs, the share of their CPU time that `toll bill` finds in the kernel, beside
the share of the samples of `perf record -e cpu-clock` in the kernel.

    .venv/bin/python bench/programs.py [TURNS]

Each line has the CPU time of the program, without and under the profile; both shares, that of the profile with its
95 % interval; and their ratio, whose goal is 0.90 to 1.00. It needs root and perf; a program that is not installed
is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tollmeter.bill.billed import billed, here
from tollmeter.bill.items import Bill
from tollmeter.root import ROOT
from tollmeter.targets.timer import Words

FILES, ROWS = 100, 4000
BILLS, BUDGET_S = 3, 1.5
SAMPLES_HZ, LEAST_SAMPLES, MOST_PROFILES = 9_973, 12_000, 30
"""Sampling rate: a prime, so that it is no multiple of the kernel's tick, at which processes are switched. Fewest
samples, and most profiles."""
EXEC, FORK = re.compile(r"COMM exec: (.*):(\d+)/"), re.compile(r"FORK\((\d+):\d+\):\((\d+):")
SAMPLE = re.compile(r" *(\d+) +([0-9a-f]+) *")
KERNEL = 1 << 63
"""First address of the kernel on x86-64 and AArch64."""


class Program(NamedTuple):
    """A program to bill. needs: the executable that must be installed."""

    name: str
    needs: str
    words: tuple[str, ...]


def programs(folder: Path) -> Iterator[Program]:
    (folder / "Makefile").write_text(f"all: {' '.join(f'{i}.o' for i in range(FILES))}\n")
    for i in range(FILES):
        (folder / f"{i}.c").write_text(f'#include <stdio.h>\nvoid f{i}(void) {{ puts("{i}"); }}\n')
    rows = (f"begin; insert into t values ({i}, hex(randomblob(100))); commit;" for i in range(ROWS // 20))
    asked = "select count(*), sum(length(b)) from t where a % 7 = 1;" * (ROWS // 20)
    script = folder / "load.sql"
    script.write_text(f"drop table if exists t; create table t(a, b);\n{' '.join(rows)}\n{asked}\n")
    yield Program("git status", "git", ("git", "-C", f"{ROOT}", "status", "--short"))
    yield Program("python start", sys.executable, (sys.executable, "-I", "-c", "import json, asyncio"))
    yield Program(f"make {FILES} files", "make", ("make", "-B", "-s", "-C", f"{folder}", "all"))
    yield Program(
        "tar of a tree", "tar", ("tar", "-cf", f"{folder / 'tree.tar'}", "-C", f"{ROOT}", "src", "docs", "probes")
    )
    yield Program("sqlite", "sqlite3", ("sqlite3", f"{folder / 'load.db'}", f".read {script}"))


def profiled(words: tuple[str, ...], folder: Path) -> tuple[int, int]:
    """Returns the number of samples in the kernel, and of all, of one run and its children. Whole CPUs are sampled: a
    profile of one process sets a timer at each switch, which made a database's CPU time 1.5 times as long."""
    data = folder / "perf.data"
    record = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", f"{SAMPLES_HZ}", "-o", f"{data}", "--", *words]
    subprocess.run(record, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    script = ["perf", "script", "-i", f"{data}", "--show-task-events", "-F", "pid,ip"]
    told = subprocess.run(script, capture_output=True, check=True, text=True)
    return samples_of(Path(words[0]).name, told.stdout)


def samples_of(name: str, told: str) -> tuple[int, int]:
    """Returns samples in the kernel, and of all, of the first process that executes `name`, and of its descendants.
    told: by perf script, in order of time."""
    family: set[str] = set()
    inside = total = 0
    for line in told.splitlines():
        if (started := EXEC.search(line)) and not family and started[1] == name[:15]:
            family = {started[2]}
        elif (forked := FORK.search(line)) and forked[2] in family:
            family.add(forked[1])
        elif (sample := SAMPLE.fullmatch(line)) and sample[1] in family:
            total += 1
            inside += int(sample[2], 16) >= KERNEL
    return inside, total


def line_of(program: Program, folder: Path) -> str:
    """Returns the line of a program. Bills and profiles alternate, since other activity changes the share of the
    kernel. The scheduler charges a thread with the interrupt that wakes it, before the switch, and a profile does not;
    this time is left out here."""
    words = Words(shutil.which(program.words[0]) or program.words[0], program.words)
    cpu_ns = kernel_ns = 0.0
    inside = total = runs = 0
    for turn in range(1, BILLS + 1):
        (made,) = billed(here(), [words], BUDGET_S)
        assert isinstance(made.bill, Bill)
        before_ns = median(max(0, run.cpu_ns - run.on_cpu_ns) for run in made.counted)
        cpu_ns, kernel_ns = cpu_ns + (made.bill.cpu.value - before_ns) / BILLS, kernel_ns + made.bill.kernel_ns / BILLS
        while runs * BILLS < turn * MOST_PROFILES and total * BILLS < turn * LEAST_SAMPLES:
            one, of = profiled(program.words, folder)
            inside, total, runs = inside + one, total + of, runs + 1
    share, profile = kernel_ns / cpu_ns, inside / max(1, total)
    around = 1.96 * sqrt(profile * (1 - profile) / max(1, total))
    both = f"CPU {cpu_ns / 1e6:7.1f} ms, profiled {1e3 * total / runs / SAMPLES_HZ:7.1f} ms"
    shares = f"bill {share:5.3f}  profile {profile:5.3f} ±{around:5.3f}  ratio {share / max(1e-9, profile):4.2f}"
    return f"{program.name:15} {both}  {shares}"


def main(turns: int) -> None:
    if os.geteuid() or not shutil.which("perf"):
        raise SystemExit("needs root, and perf (Debian: linux-perf)")
    with tempfile.TemporaryDirectory() as name:
        for _ in range(turns):
            for program in programs(Path(name)):
                if shutil.which(program.needs):
                    print(line_of(program, Path(name)), flush=True)
                else:
                    print(f"{program.name:15} {program.needs} is not installed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
