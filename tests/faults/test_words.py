# SPDX-License-Identifier: Apache-2.0
"""Words that once did something else than they said: a plan that measured, a name that meant another, 400 digits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_probes import tree
from support.waiting import LONG_S
from tollmeter.cli.main import main
from tollmeter.library import places
from tollmeter.store.journal import NAME

LONG = "9" * 400


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tree(tmp_path / "checkout", loop="good")
    monkeypatch.chdir(root)
    for name, path in (("ROOT", root), ("RUNS", root / "runs"), ("SUITES", root / "suites")):
        monkeypatch.setattr(places, name, path)
    return root


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "--resume", ""], "--resume"),
        (["run", "--abi", ""], "--abi"),
        (["run", "--target="], "--target"),
        (["run", "--abi", ","], "name is missing"),
        (["run", ""], "empty"),
        (["show", ""], "empty"),
        (["run", "--cpus", "1-0"], "1-0"),
        (["run", "--cpus", ""], "--cpus"),
        (["run", "--target", "local:foo"], "local:foo"),
        (["run", "--out", ""], "--out"),
        (["run", "--out", "/"], "folder of its own"),
        (["run", "--budget", LONG], "--budget 999"),
        (["run", "--budget", f"{LONG}h"], "days"),
        (["run", "--precision", f"{LONG}%"], "--precision 999"),
    ],
)
@pytest.mark.usefixtures("root")
def test_what_means_nothing_is_a_short_line_and_measures_nothing(
    words: list[str], named: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capfd.readouterr().err
    assert named in said
    assert said.count("\n") == 1
    assert len(said) < 300
    assert not list(Path().glob("**/journal.jsonl"))


@pytest.mark.parametrize(
    "words", [["run", "--out", "x"], ["show"], ["fleet", "report"], ["time", "-n", "1", "true"], ["import"]]
)
def test_a_word_that_is_not_utf_8_is_a_short_line(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*words, os.fsdecode(b"a\xff")]) == 2
    assert "a\ufffd is not UTF-8" in capfd.readouterr().err


def test_a_dry_run_of_resume_prints_the_remaining_plan_and_measures_nothing(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--out", "mine", "--quiet", "--budget", "60s"]) == 0
    before = (root / "mine" / NAME).read_bytes()
    capfd.readouterr()
    assert main(["run", "--resume", "mine", "--dry-run"]) == 0
    told = capfd.readouterr()
    assert "kernel.loop" in told.out
    assert "done already" in told.err
    assert (root / "mine" / NAME).read_bytes() == before


@pytest.mark.parametrize("name", [NAME, "run.toml", "index.sqlite"])
def test_a_pipe_in_a_run_is_not_waited_for(root: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--out", "mine", "--quiet", "--budget", "60s"]) == 0
    (root / "mine" / name).unlink()
    os.mkfifo(root / "mine" / name)
    code = 0 if name == "index.sqlite" else 5
    assert main(["show", "mine", "--format", "json"]) == code
    assert main(["show", "mine"]) == code
    assert "Traceback" not in capfd.readouterr().err


def test_a_report_is_not_written_through_a_link(root: Path) -> None:
    assert main(["run", "--out", "mine", "--quiet", "--budget", "60s"]) == 0
    (root / "precious").write_text("precious")
    (root / "mine/report.html").unlink()
    (root / "mine/report.html").symlink_to(root / "precious")
    (root / f"mine/.report.html.{os.getpid()}").symlink_to(root / "precious")
    (root / "mine/.rows.csv.half").symlink_to(root / "precious")
    assert main(["report", "mine"]) == 0
    assert main(["export", "mine", "--out", "mine/rows.csv"]) == 0
    assert (root / "precious").read_text() == "precious"
    assert not (root / "mine/report.html").is_symlink()


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


def test_a_version_for_a_closed_standard_output_is_a_line() -> None:
    words = ["sh", "-c", f"{sys.executable} -m tollmeter --version >&-"]
    told = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LONG_S)
    assert (told.returncode, told.stderr.count("\n")) == (5, 1)


@pytest.mark.usefixtures("root")
def test_a_name_in_capitals_is_near_the_probe_that_it_spells(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "KERNEL.LOOP", "--dry-run"]) == 2
    assert "did you mean kernel.loop" in capfd.readouterr().err


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
