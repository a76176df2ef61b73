# SPDX-License-Identifier: Apache-2.0
"""Compares Tollmeter with other programs, interleaved in one session, and writes docs/benchmarks.md.

    make bench                  installs those programs that Debian and PyPI have (TOLL_INSTALL=no: uses installed ones)
    PEERS=DIR make bench        also uses the programs in that folder, such as those of lmbench
    ROUNDS=10                   runs of each program
    KEPT=FILE                   appends each round to FILE; the page is of all rounds in it

In each round every program runs once; the programs of a comparison run in random order. A ratio is of two values of
one round."""

from __future__ import annotations

import json
import math
import os
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import mean, median, median_low, stdev
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/benchmarks.md"
ROUNDS = int(os.environ.get("ROUNDS", "10"))
PACKAGES = ("linux-perf", "mbw", "rt-tests", "hyperfine")
OF_PYPI = "pyperf"
ENVIRONMENT = ROOT / "build/peers"
OURS, ASKED = "toll", ("--budget", "3s", "--precision", "1%")
WANTED = 0.02
NEAR = (0.97, 1.03)
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""The 97.5 % quantile of Student's distribution, by the number of values."""
ONE_CPU = ("taskset", "-c", str(max(os.sched_getaffinity(0))))
HUGE = (*ONE_CPU, "env", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1")
"""Makes malloc request huge pages, as our rows of bandwidth do."""
LMBENCH = (*ONE_CPU, "env", "ENOUGH=10000")
"""Sets the time of a measurement in microseconds, which lmbench would otherwise determine for 40 s at each start."""
WALK = (*LMBENCH, "lat_mem_rd", "-N", "1", "-t", "64", "64")
"""One measurement of each of 70 sizes takes 15 s; lmbench's usual 11 take over two minutes."""
TIMES_MS = {"us": 1e-3, "ms": 1.0, "sec": 1e3}
CYCLICTEST = ("cyclictest", "-t1", "-a", ONE_CPU[2], "-i1000", "-l2000", "-q", "-N", "-h", "200000")


class Peer(NamedTuple):
    """A program to compare with. words: its command; {out} is a file that it writes. pattern: finds its number in the
    last matching line; with a second group, the number's unit of time, or the number of occurrences of a value. unit:
    factor from the number to the comparison's unit."""

    name: str
    words: tuple[str, ...]
    pattern: str
    unit: float = 1.0


class Comparison(NamedTuple):
    """A comparison. ours: the words of `toll`, whose result contains the metric; words that begin with `time` write
    hyperfine's JSON."""

    title: str
    unit: str
    ours: tuple[str, ...]
    metric: str
    peers: tuple[Peer, ...]


_HYPERFINE = r'"median": ([\d.e-]+)'
COMPARISONS = (
    Comparison(
        "system call getppid", "ns", ("run", "kernel.enter_syscall", "call=getppid"), "round_trip",
        (
            Peer(
                "perf bench", (*ONE_CPU, "perf", "bench", "syscall", "basic", "-l", "3000000"),
                r"([\d.]+) usecs/op", 1e3,
            ),
            Peer("lmbench", (*LMBENCH, "lat_syscall", "null"), r"Simple syscall: ([\d.]+) microseconds", 1e3),
        ),
    ),
    Comparison(
        "round trip by a pipe, one CPU", "ns",
        ("run", "kernel.call_object", "channel=pipe", "placement=one_cpu", "map=other"), "round_trip",
        (
            Peer("perf bench", (*ONE_CPU, "perf", "bench", "sched", "pipe", "-l", "200000"), r"([\d.]+) usecs/op", 1e3),
            Peer("lmbench", (*LMBENCH, "lat_pipe", "-N", "3"), r"Pipe latency: ([\d.]+) microseconds", 1e3),
        ),
    ),
    Comparison(
        "switch to another process", "ns",
        ("run", "kernel.switch", "processes=2", "footprint=0", "rings=1"), "switch",
        (Peer("lmbench", (*LMBENCH, "lat_ctx", "-s", "0", "2"), r"^2 ([\d.]+)", 1e3),),
    ),
    *(
        Comparison(
            f"load from {where}", "ns", ("run", "memory.latency", "pages=small", f"size={size}"), "load",
            (Peer("lmbench", WALK, rf"^{printed} ([\d.]+)"),),
        )
        for where, size, printed in (
            ("16 KiB (L1)", "16KiB", "0.01562"), ("128 KiB (L2)", "128KiB", "0.12500"), ("64 MiB", "64MiB", "64.00000"),
        )
    ),
    Comparison(
        "memcpy of 128 MiB", "GB/s", ("run", "memory.copy_bandwidth", "kernel=libc", "size=256MiB"), "copy",
        (
            Peer("mbw", (*HUGE, "mbw", "-t0", "-n", "10", "128"), r"AVG.*Copy: ([\d.]+) MiB/s", 1.048576e-3),
            Peer(
                "perf bench",
                (*HUGE, "perf", "bench", "-f", "simple", "mem", "memcpy", "-s", "128MB", "-l", "10", "-f", "default"),
                r"^ *([\d.]+)$", 1e-9,
            ),
            Peer("lmbench", (*HUGE, "ENOUGH=10000", "bw_mem", "128m", "bcopy"), r"^[\d.]+ ([\d.]+)", 1e-3),
        ),
    ),
    *(
        Comparison(
            f"lateness of a timer of 1 ms, {what}", "ns", ("run", "kernel.timer", "interval=1000", f"slack={slack}"),
            "late", (Peer("cyclictest", (*CYCLICTEST, "--default-system", priority), r"^(\d+) (\d+)$"),),
        )
        for what, slack, priority in (
            ("slack of 50 us", "usual", "--policy=other"), ("no slack", "least", "-p50"),
        )
    ),
    Comparison(
        "command `true`", "ms", ("time", "-N", "--runs", "100", "/usr/bin/true"), "median",
        (
            Peer(
                "hyperfine", ("hyperfine", "-N", "-r", "100", "--export-json", "{out}", "/usr/bin/true"),
                _HYPERFINE, 1e3,
            ),
            Peer(
                "pyperf",
                (f"{ENVIRONMENT}/bin/python", "-m", "pyperf", "command", "-p3", "-n5", "-o", "{out}", "/usr/bin/true"),
                r"command: Mean \+- std dev: ([\d.]+) (us|ms|sec)",
            ),
        ),
    ),
)  # fmt: skip


class Ran(NamedTuple):
    """One run of one program: its number, or None if it failed; and its duration."""

    value: float | None
    seconds: float


# ---- running --------------------------------------------------------------------------------------------------------


def run_ours(comparison: Comparison, folder: Path) -> Ran:
    """Runs Tollmeter as a user would, and returns its number."""
    out = folder / "out.json"
    shutil.rmtree(folder / "run", ignore_errors=True)
    words: list[str | Path] = [ROOT / "toll", *comparison.ours, "--beside", "--out", folder / "run"]
    is_time = comparison.ours[0] == "time"
    words += ["--export-json", out] if is_time else [*ASKED, "--quiet", "--format", "json"]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    try:
        if is_time:
            return Ran(json.loads(out.read_text())["results"][0]["median"] * 1e3, seconds)
        rows = json.loads(done.stdout)["rows"]
        (value,) = [row["median"] for row in rows if row["metric"] == comparison.metric][:1]
        return Ran(value and value * (1e-9 if comparison.unit == "GB/s" else 1), seconds)
    except (OSError, ValueError, LookupError):
        return Ran(None, seconds)


def run_peer(peer: Peer, folder: Path, ran: dict[tuple[str, ...], tuple[str, float]]) -> Ran:
    """Runs a program, and returns its number, from its output or the file that it writes. ran: output and duration of
    the commands of this round."""
    if peer.words not in ran:
        out = folder / "peer.json"
        out.unlink(missing_ok=True)
        began = time.monotonic()
        words = [word.format(out=out) for word in peer.words]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
        written = out.read_text(errors="replace") if out.exists() else ""
        text = done.stdout + done.stderr + written if done.returncode == 0 else ""
        ran[peer.words] = text, time.monotonic() - began
    text, seconds = ran[peer.words]
    return Ran(number_of(peer, text), seconds)


def number_of(peer: Peer, text: str) -> float | None:
    """Returns the number in a program's output, in the unit of the comparison; None without one."""
    found = re.findall(peer.pattern, text, re.MULTILINE)
    if not found:
        return None
    if isinstance(found[-1], str):
        return float(found[-1]) * peer.unit
    if found[-1][1] in TIMES_MS:
        return float(found[-1][0]) * TIMES_MS[found[-1][1]] * peer.unit
    return float(median_low(chain.from_iterable([float(value)] * int(count) for value, count in found))) * peer.unit


def environment() -> dict[str, str]:
    """Returns the environment with the programs of PEERS first in the path."""
    folder = os.environ.get("PEERS", "")
    places = [folder, f"{folder}/bin"] if folder else []
    return {**os.environ, "PATH": os.pathsep.join([*places, os.environ["PATH"]])}


def is_here(peer: Peer) -> bool:
    """Returns whether the program is installed: the first word after those that pin it to a CPU and set variables."""
    words = peer.words[len(ONE_CPU) :] if peer.words[: len(ONE_CPU)] == ONE_CPU else peer.words
    program = next(word for word in words if word != "env" and "=" not in word)
    return shutil.which(program, path=environment()["PATH"]) is not None


def install() -> None:
    """Installs the programs that Debian and PyPI have, unless TOLL_INSTALL=no. The page names the missing ones."""
    if os.environ.get("TOLL_INSTALL") == "no":
        return
    subprocess.run([ROOT / "toll", "--install", *PACKAGES], check=False)
    if not (ENVIRONMENT / "bin/pyperf").exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=False)
        subprocess.run([ENVIRONMENT / "bin/python", "-m", "pip", "install", "-q", OF_PYPI], check=False)


Round = dict[str, dict[str, Ran]]
"""Results by title of the comparison and name of the program."""


def one_round(folder: Path) -> Round:
    """Runs each program once, in random order within each comparison. A command that serves several rows runs once."""
    ran: dict[tuple[str, ...], tuple[str, float]] = {}
    done: Round = {}
    for comparison in COMPARISONS:
        peers = {peer.name: peer for peer in comparison.peers if is_here(peer)}
        names = random.sample([OURS, *peers], len(peers) + 1) if peers else []
        done[comparison.title] = {
            name: run_ours(comparison, folder) if name == OURS else run_peer(peers[name], folder, ran) for name in names
        }
    return done


def kept() -> list[Round]:
    """Returns the rounds in the file KEPT."""
    file = Path(os.environ.get("KEPT", os.devnull))
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [
        {title: {name: Ran(*ran) for name, ran in programs.items()} for title, programs in json.loads(line).items()}
        for line in lines
    ]


def measure() -> list[Round]:
    """Returns the rounds in KEPT and ROUNDS new ones."""
    rounds = kept()
    with tempfile.TemporaryDirectory() as folder, Path(os.environ.get("KEPT", os.devnull)).open("a") as file:
        for turn in range(ROUNDS):
            rounds.append(one_round(Path(folder)))
            file.write(json.dumps(rounds[-1]) + "\n")
            file.flush()
            print(f"round {turn + 1} of {ROUNDS}", file=sys.stderr)
    return rounds


def runs_of(comparison: Comparison, rounds: Sequence[Round]) -> dict[str, list[Ran]]:
    """Returns by program its runs in the rounds in which all programs of the comparison ran; ours first."""
    found = [one.get(comparison.title, {}) for one in rounds]
    names = [name for name in (OURS, *(peer.name for peer in comparison.peers)) if any(name in one for one in found)]
    whole = [one for one in found if one.keys() >= {*names}]
    return {name: [one[name] for one in whole] for name in names}


# ---- what it comes to -----------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """The results of one program over all rounds. value: the median. best: the best value. spread: (most - least) /
    median. wanted_s: time until half an interval is 2 %. ratio: to ours, with its 95 % interval; None for ours."""

    name: str
    value: float
    best: float
    spread: float
    wanted_s: float
    failures: int
    ratio: tuple[float, float, float] | None


def summaries(runs: dict[str, list[Ran]], unit: str) -> list[Summary]:
    """Returns the summaries of the programs that have at least two numbers."""
    best = max if unit.endswith("/s") else min
    return [
        _summary(name, ran, runs[OURS], best)
        for name, ran in runs.items()
        if sum(one.value is not None for one in ran) >= 2
    ]


def _summary(name: str, ran: Sequence[Ran], ours: Sequence[Ran], best: Callable[[list[float]], float]) -> Summary:
    values = [one.value for one in ran if one.value]
    logs = [math.log(value) for value in values]
    needed = max(1, math.ceil((STUDENT[10] * stdev(logs) / WANTED) ** 2))
    spread = (max(values) - min(values)) / median(values)
    failures = sum(one.value is None for one in ran)
    ratio = None if name == OURS else ratio_of(ran, ours)
    wanted_s = needed * median(one.seconds for one in ran)
    return Summary(name, median(values), best(values), spread, wanted_s, failures, ratio)


def ratio_of(ran: Sequence[Ran], ours: Sequence[Ran]) -> tuple[float, float, float] | None:
    """Returns the geometric mean of the ratios of each round, and its 95 % interval; None for fewer than two."""
    logs = [
        math.log(one.value / other.value) for one, other in zip(ran, ours, strict=True) if one.value and other.value
    ]
    if len(logs) < 2:
        return None
    half = STUDENT.get(len(logs), 2.0) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half)


def behind(ours: Summary, peer: Summary) -> str:
    """Returns the properties in which ours is behind this program; empty if there are none."""
    lacks = []
    if not NEAR[0] <= peer.best / ours.best <= NEAR[1]:
        lacks.append("value differs")
    if ours.spread > peer.spread:
        lacks.append("spread")
    if ours.wanted_s > peer.wanted_s:
        lacks.append("time")
    if ours.failures > peer.failures:
        lacks.append("failures")
    return ", ".join(lacks)


# ---- the page -------------------------------------------------------------------------------------------------------


def rows(comparison: Comparison, runs: dict[str, list[Ran]]) -> Iterator[tuple[str, str]]:
    """Yields a line of the table for each program, and the properties in which ours is behind it."""
    found = {summary.name: summary for summary in summaries(runs, comparison.unit)}
    ours = found.pop(OURS, None)
    for peer in found.values() if ours else ():
        assert ours
        lacks = behind(ours, peer)
        ratio = "{:.3f} ({:.3f} to {:.3f})".format(*peer.ratio) if peer.ratio else "-"
        cells = [
            comparison.title, peer.name, lacks or "-", f"{ours.value:.4g} {comparison.unit}",
            f"{peer.value:.4g} {comparison.unit}", ratio, f"{peer.best / ours.best:.3f}", f"{ours.spread:.1%}",
            f"{peer.spread:.1%}",
            f"{ours.wanted_s:.0f} s", f"{peer.wanted_s:.0f} s", f"{ours.failures}", f"{peer.failures}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |", lacks


HEAD = """# Beside other programs

`make bench` measures this table. Each program ran {rounds} times, in rounds of random order.

Rows in which Tollmeter is behind come first. *value differs* means that the ratio of the best values is outside {low}
to {high}: the two programs measure different quantities, or one of them is wrong.

Measured on {date}: {machine}.
The load average was {before} before and {after} afterwards, of {cpus} CPUs: this machine was shared. Other work slows
all programs, most of all those that do not discard disturbed samples.
"""
NOTES = """* *ours*, *peer's*: the median over all rounds of Tollmeter, and of the other program.
* *ratio*: the peer's value over ours in one round: the geometric mean over rounds, with its 95 % interval.
* *of the best*: the ratio of the best values of all rounds. Other work on the machine only makes a value worse.
* *spread*: (greatest - least) / median of all rounds.
* *time*: the time that a program needs, at its own duration and scatter, until half of a 95 % interval is 2 %.
* *failed*: rounds without a number. For Tollmeter these are rows that differ too much between visits, in 3 s.

Both sides of a comparison measure the same quantity:

* Bandwidth is measured on huge pages on both sides (`GLIBC_TUNABLES`), and over 128 MiB, since a copy of 32 MiB depends
  on the data of other guests in the last-level cache.
* `cyclictest` without `--default-system` writes 0 to `/dev/cpu_dma_latency`. Idle CPUs then poll, and a timer is 10 us
  earlier than in an ordinary program. At real-time priority `cyclictest` has no timer slack. Its value is the median of
  its histogram. It is 4 us below ours, in part because its second thread wakes every 10 ms: with `-M`, which lets that
  thread sleep, the first was 3 us later (one run). A C program of the same loop agrees with Tollmeter: 77.8 and 27.7 us
  beside 77.6 and 27.5.
* `stress-ng --switch` is not compared: each "context switch" that it counts is two switches, one write and one read
  (`ru_nvcsw` and `ru_nivcsw` over its operations are 2.0). A hop of `kernel.switch` is one of each.
* A command is given by its path, since `hyperfine` would search `PATH` within the timed part. `hyperfine` also resets
  each signal there, 121 system calls, which `toll time` does not; `pyperf` starts the command from Python.
* `mbw` prints the mean of its ten copies. Tollmeter's value is a median without disturbed samples.
* The rows of lmbench need `PEERS`. `lat_mem_rd -t` walks small pages, as Tollmeter does, but visits every page before
  it returns to the first. Beyond the 96 pages of this core's first TLB each of its loads misses the TLB; of
  Tollmeter's loads only a part does: 4.8 ns beside 3.6 in 512 KiB. So L2 is read within 32 pages. `-N` is less than
  lmbench's default of 11, which takes over two minutes of each round.
"""
TITLES = (
    "what",
    "peer",
    "behind in",
    "ours",
    "peer's",
    "ratio",
    "of the best",
    "spread",
    "peer's",
    "time",
    "peer's",
    "failed",
    "peer's",
)


def page(measured: Sequence[tuple[Comparison, dict[str, list[Ran]]]], before: str) -> str:
    """Returns the whole page."""
    lines = [row for comparison, runs in measured for row in rows(comparison, runs)]
    lines.sort(key=lambda row: ("value" not in row[1], not row[1]))
    table = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|", *(line for line, _ in lines)]
    ran = {name for _, runs in measured for name, several in runs.items() if several}
    absent = sorted({peer.name for one in COMPARISONS for peer in one.peers} - ran)
    failed = [
        f"{name} ({comparison.title})"
        for comparison, runs in measured
        for name in {name for name, ran in runs.items() if ran}
        - {summary.name for summary in summaries(runs, comparison.unit)}
    ]
    notes = [f"Not installed here, and left out: {', '.join(absent)}.\n"] * bool(absent)
    notes += [_spreads(measured)]
    notes += [f"Fewer than two numbers: {', '.join(failed)}.\n"] * bool(failed)
    rounds = max((len(ran) for _, runs in measured for ran in runs.values()), default=0)
    return "\n".join([_head(before, rounds), *table, "", *notes, NOTES, _commands(measured)])


def _spreads(measured: Sequence[tuple[Comparison, dict[str, list[Ran]]]]) -> str:
    """Returns a sentence with the number of rows in which ours has at most half of lmbench's spread."""
    found = [{one.name: one.spread for one in summaries(runs, comparison.unit)} for comparison, runs in measured]
    shares = [spreads[OURS] / spreads["lmbench"] for spreads in found if spreads.keys() >= {OURS, "lmbench"}]
    half = sum(one <= 0.5 for one in shares)
    return f"Tollmeter has at most half of the spread of lmbench in {half} of {len(shares)} rows.\n"


def _head(before: str, rounds: int) -> str:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return HEAD.format(
        rounds=rounds, low=NEAR[0], high=NEAR[1], date=datetime.now(UTC).date(), before=before, after=_load(),
        machine=f"{cpu[1] if cpu else platform.machine()}, Linux {platform.release()}", cpus=os.cpu_count(),
    )  # fmt: skip


def _commands(measured: Sequence[tuple[Comparison, dict[str, list[Ran]]]]) -> str:
    lines = ["## Commands", "", "```sh"]
    for comparison, runs in measured:
        if not any(runs.get(peer.name) for peer in comparison.peers):
            continue
        options = () if comparison.ours[0] == "time" else ASKED
        lines += [f"# {comparison.title}", shlex.join(["./toll", *comparison.ours, *options])]
        named = {peer.name: peer for peer in comparison.peers if runs.get(peer.name)}
        lines += [shlex.join(peer.words).replace(f"{ENVIRONMENT}/bin/", "") for peer in named.values()]
    return "\n".join([*lines, "```", ""])


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def main() -> None:
    install()
    before = _load()
    rounds = measure()
    measured = [(comparison, runs_of(comparison, rounds)) for comparison in COMPARISONS]
    PAGE.write_text(page(measured, before), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
