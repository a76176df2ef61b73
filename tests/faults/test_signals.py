# SPDX-License-Identifier: Apache-2.0
"""Signals at any moment, and standard streams that are closed, full or read by nobody: the run is kept, its code is the
right one, and nothing but records reaches the journal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.bare_debian import program
from support.fake_probes import awaited, toll, tree
from support.waiting import LONG_S
from tollmeter.library import places
from tollmeter.store.journal import NAME, read_journal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "checkout", enter="good")


def test_nothing_is_said_into_the_journal_where_standard_error_is_closed(root: Path) -> None:
    tree(root, enter="interruptible")
    process = toll(root, "run", "--out", "mine", preexec_fn=lambda: os.close(2))
    awaited(root, "*.listens", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert b"toll:" not in (root / "mine" / NAME).read_bytes()
    assert [told.status for told in read_journal(root / "mine").outcomes] == ["ok"]


def test_a_probe_that_is_stopped_before_it_listens_is_interrupted_and_no_failure(root: Path) -> None:
    tree(root, enter="hang")
    process = toll(root, "run", "--out", "mine", "--quiet")
    awaited(root, "*.listens", process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert {told.status for told in read_journal(root / "mine").outcomes} == {"interrupted"}


def test_a_run_that_is_interrupted_and_then_fails_says_why_and_counts_as_interrupted(root: Path) -> None:
    tree(root, enter="interruptible")
    process = toll(root, "run", "--out", "mine", "--quiet")
    awaited(root, "*.listens", process)
    shutil.rmtree(root / "mine")
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, said
    assert "interrupted: cannot write to" in said


@pytest.mark.parametrize(
    ("stream", "path", "code"), [("stdout", "/dev/full", 5), ("stderr", "/dev/full", 0), ("stdout", None, 5)]
)
def test_a_lost_stream_costs_no_run(root: Path, stream: str, path: str | None, code: int) -> None:
    if path is None:
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(path, os.O_WRONLY)
    process = toll(root, "run", "--out", "mine", "--budget", "60s", **{stream: writer})
    os.close(writer)
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == code, said
    assert (root / "mine/report.html").is_file()
    assert {told.status for told in read_journal(root / "mine").outcomes} == {"ok"}
    if stream == "stdout":
        assert "show mine" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_ends_it_with_a_word(root: Path, number: signal.Signals) -> None:
    """Of Python's own start no program can tell."""
    for moment_s in (0.0, 0.05, 0.3):
        (root / "holds-signals").unlink(missing_ok=True)
        process = toll(root, "run", "--out", "mine", "--quiet")
        awaited(root, "holds-signals", process)
        time.sleep(moment_s)
        process.send_signal(number)
        _, said = process.communicate(timeout=LONG_S)
        assert process.returncode == 130, said
        assert "Traceback" not in said
        assert "toll: " in said


REPORTING = """
import os, signal, sys
from tollmeter.report import page
whole = page.write_page
def write_page(*words):
    os.kill(os.getpid(), signal.SIGTERM)
    whole(*words)
page.write_page = write_page
"""


def test_a_signal_while_the_report_is_written_leaves_the_report(root: Path) -> None:
    (root / "sitecustomize.py").write_text(REPORTING)
    environment = {**os.environ, "PYTHONPATH": f"{root}:{Path(__file__).parents[2] / 'src'}", "COLUMNS": "100"}
    process = toll(root, "run", "--out", "mine", "--quiet", "--budget", "60s", env=environment)
    out, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, said
    assert "system call" in out
    assert (root / "mine/report.html").is_file()


def test_what_cannot_be_printed_is_no_success(root: Path) -> None:
    process = toll(root, "list", "suites", preexec_fn=lambda: os.close(1))
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 5
    assert said.count("\n") == 1
    assert "standard output" in said


def test_a_ctrl_c_that_ends_a_command_of_the_launcher_ends_it_with_a_word(tmp_path: Path) -> None:
    program(tmp_path / "readlink", "#!/bin/sh\nkill -s INT 0\n")
    done = subprocess.run(
        ["sh", places.ROOT / "toll", "list", "suites"], stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "\ntoll: interrupted\n")


def test_the_launcher_hands_signals_on_and_closed_descriptors_do_not_matter() -> None:
    launcher = places.ROOT / "toll"
    for moment_s in (0.005, 0.05, 0.12):
        process = subprocess.Popen(
            ["sh", launcher, "list", "suites"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(moment_s)
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=LONG_S)
        assert process.returncode in (0, 130, -signal.SIGTERM), said
        assert out or process.returncode
        assert "Traceback" not in said
    ended = subprocess.run(
        ["sh", launcher, "list", "suites"], stdout=subprocess.PIPE, check=False, preexec_fn=lambda: os.close(2)
    )
    assert ended.returncode == 0
    assert b"default" in ended.stdout


# ---- a process of its own, for what concerns the process -------------------------------------------------------

NO_TIME = """
import sys, time
def told(): raise OverflowError("timestamp too large to convert to C _PyTime_t")
time.time = told
from tollmeter.__main__ import main
sys.exit(main())
"""


def test_a_clock_in_the_year_2600_is_a_line() -> None:
    words = [sys.executable, "-c", NO_TIME, "list"]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONG_S)
    assert told.returncode == 5
    assert "clock" in told.stderr and "2262" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize(("to", "code"), [("/dev/full", 5), ("/dev/null", 0)])
def test_a_version_that_cannot_be_printed_is_a_line(to: str, code: int) -> None:
    with Path(to).open("w") as out:
        words = [sys.executable, "-m", "tollmeter", "--version"]
        told = subprocess.run(words, check=False, stdout=out, stderr=subprocess.PIPE, text=True, timeout=LONG_S)
    assert (told.returncode, told.stderr.count("\n")) == (code, int(code != 0))


def test_too_little_private_memory_is_a_line() -> None:
    words = ["sh", "-c", f"ulimit -d 100000; exec {sys.executable} -m tollmeter list suites"]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONG_S)
    assert (told.returncode, told.stderr.count("\n")) == (5, 1)
    assert "ulimit -d" in told.stderr


TWICE = """
import os, signal, sys
from tollmeter import starting
starting.hold_signals()
from tollmeter.cli import main as cli, show
def shown():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
show.list_ = shown
sys.exit(cli.main(["list"]))
"""
LATE = """
import os, signal, threading, time
from tollmeter import starting
starting.hold_signals()
with starting.hearing_signals():
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os.kill(os.getpid(), signal.SIGHUP)
time.sleep(0.1)
"""


@pytest.mark.parametrize(("script", "code", "said"), [(TWICE, 130, "toll: interrupted\n"), (LATE, 0, "")])
def test_a_second_signal_while_the_first_is_answered_ends_as_the_first(script: str, code: int, said: str) -> None:
    words = [sys.executable, "-c", script]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONG_S)
    assert (told.returncode, told.stderr) == (code, said)
