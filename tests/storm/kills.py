# SPDX-License-Identifier: Apache-2.0
"""Random kills and signals over start-up, measuring and report: no visit is lost, nobody is left, the code is right."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from storm.ended import Tally, awake, marked, waited
from tollmeter.library.derive import open_index
from tollmeter.model import Failure
from tollmeter.store.journal import NAME, read_journal, streams

ROOT = Path(__file__).parents[2]
WORDS = ["run", "kernel.enter_syscall", "memory.latency", "size=4096", "--budget", "3s"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SEVEN, KILLS = 7, 4
"""Of so many, so many are kills, and the others signals."""
LOADED_S, LASTS_S = 0.02, 4.0
"""Before the one the launcher is not read yet, and dies of a signal as any program; after the other a run has ended."""
LOOKS, LOOK_S = 200, 0.05


def storm(seed: int, count: int) -> Tally:
    # Who is killed while he sets up leaves a compiler that ends by itself: what is asked here is about runs.
    subprocess.run([ROOT / "toll", "--set-up"], stderr=subprocess.DEVNULL, check=True)
    tally, chance = Tally("kills and signals"), random.Random(seed)
    for number in range(count):
        moment_s = chance.uniform(LOADED_S, LASTS_S)
        sent = signal.SIGKILL if number % SEVEN < KILLS else chance.choice(SIGNALS)
        what = f"{sent.name} after {moment_s:.3f} s (number {number})"
        tally.one(what, awake(functools.partial(_passing, moment_s, sent)))
    return tally


def _passing(moment_s: float, sent: signal.Signals) -> str | None:
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as passing:
        return _one(Path(passing), moment_s, sent)


def _one(passing: Path, moment_s: float, sent: signal.Signals) -> str | None:
    run = passing / "run"
    environment = {**os.environ, "TMPDIR": str(passing), "PATH": f"{os.environ['PATH']}:{passing}"}
    with (passing / "said").open("wb") as said:
        process = subprocess.Popen(
            [ROOT / "toll", *WORDS, "--out", run], stdout=subprocess.DEVNULL, stderr=said, env=environment,
            start_new_session=True,
        )  # fmt: skip
        time.sleep(moment_s)
        before = process.poll()
        if before is None:
            process.send_signal(sent)
        code = waited(process)
    if code is None:
        return "it hung"
    wrong = _code_is_wrong(code, sent, before, run) or _run_is_ill(run, code)
    if wrong:
        wrong += f", {(passing / 'said').read_bytes()[-200:]!r}"
    left = _left_behind(passing)
    return wrong or (f"left behind: {left}" if left else None) or _traceback(passing / "said")


def _code_is_wrong(code: int, sent: signal.Signals, before: int | None, run: Path) -> str | None:
    """A run that was over when the signal came ends as it would have: beside other work it may be too short, also for
    a single number."""
    right = {0} if before is not None else {0, -signal.SIGKILL} if sent == signal.SIGKILL else {0, 130}
    if code not in right and (run / NAME).exists():
        found = open_index(run)
        right |= {1} if found.run.unanswered else set()
        right |= set() if any(row.status == "ok" for row in found.rows) else {6}
    return None if code in right else f"code {code}"


def _run_is_ill(run: Path, code: int) -> str | None:
    """A journal that is there opens with every visit that stands whole in it; whoever was asked to end has reported."""
    if not (run / NAME).exists() or not (run / NAME).stat().st_size:
        return None
    try:
        whole = list(streams(run))
        visits = [stream for stream in whole if stream.lines[0].kind == "visit"]
        told = read_journal(run) if whole else None
    except Failure as failure:
        return failure.sentence
    if told and len(told.outcomes) != len(visits):
        return f"{len(visits)} visits stand there, and {len(told.outcomes)} are read"
    if told and any(outcome.status not in ("ok", "interrupted") for outcome in told.outcomes):
        return "a visit failed: " + ", ".join(str(outcome.reason) for outcome in told.outcomes if outcome.reason)
    return "no report" if code in (0, 130) and not (run / "report.html").is_file() else None


def _left_behind(passing: Path) -> list[str]:
    for _ in range(LOOKS):
        if not (found := marked(str(passing).encode())):
            return []
        time.sleep(LOOK_S)
    return list(found.values())


def _traceback(said: Path) -> str | None:
    return "a traceback" if b"Traceback" in said.read_bytes() else None
