# SPDX-License-Identifier: Apache-2.0
"""`tollmeter.measure()` in a program: its signals, its threads, and values of Python's own types."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tollmeter
from support.fake_probes import awaited, tree, worked_in
from support.waiting import LONG_S
from tollmeter.store.journal import read_journal
from tollmeter.store.request import read_request

PROGRAM = """
import signal, sys
from pathlib import Path
from tollmeter.library import places
places.ROOT = Path(sys.argv[1])
places.RUNS, places.SUITES = places.ROOT / "runs", places.ROOT / "suites"
import tollmeter
before = signal.getsignal(signal.SIGINT)
try:
    tollmeter.measure(out=places.ROOT / "mine")
except KeyboardInterrupt as error:
    print("raised", signal.getsignal(signal.SIGINT) is before, str(places.ROOT / "mine") in str(error))
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with worked_in(tree(tmp_path / "checkout", enter="good")) as root:
        yield root


def signalled(root: Path, number: int) -> tuple[int, str]:
    """The exit code and output of a program that gets the signal in the middle of a visit."""
    tree(root, enter="interruptible")
    environment = {**os.environ, "PYTHONPATH": str(Path(tollmeter.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root)], stdout=subprocess.PIPE, text=True, env=environment
    )
    awaited(root, "*.listens", process)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=LONG_S)
    return process.returncode, printed


def test_a_ctrl_c_reaches_the_program_once_the_run_is_ended_and_kept(root: Path) -> None:
    assert signalled(root, signal.SIGINT) == (0, "raised True True\n")
    kept = read_journal(root / "mine")
    assert kept.session.status == "interrupted"
    assert len(kept.outcomes) == 1


def test_a_signal_to_terminate_has_the_programs_own_effect_once_the_run_is_kept(root: Path) -> None:
    assert signalled(root, signal.SIGTERM) == (-signal.SIGTERM, "")
    assert read_journal(root / "mine").session.status == "interrupted"


def test_a_run_can_be_measured_in_a_thread(root: Path) -> None:
    found: list[tollmeter.Run] = []
    thread = threading.Thread(
        target=lambda: found.append(tollmeter.measure("kernel.enter", budget="9s", out=root / "mine"))
    )
    thread.start()
    thread.join(LONG_S)
    (run,) = found
    assert run.row("kernel.enter").status == "ok"


def test_a_budget_is_seconds_too_and_lists_are_lists(root: Path) -> None:
    abi = platform.machine()
    run = tollmeter.measure("kernel.enter", budget=9, cpus=[0], abi=[abi], out=root / "mine")
    request = read_request(run.folder)
    assert (request.budget_seconds, request.cpus, request.abis) == (9, (0,), (abi,))
    assert {told.cpus for told in read_journal(run.folder).outcomes} == {(0,)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": 0}, {"budget": -1}, {"budget": float("nan")}, {"budget": [2]}, {"cpus": 1}, {"cpus": []},
        {"cpus": [-1]}, {"cpus": ["one"]}, {"precision": 0.02}, {"seed": -1}, {"seed": "seven"}, {"abi": 32},
        {"out": 7}, {"against": "size=4096", "priority": 1},
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(root: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(tollmeter.Failure) as caught:
        tollmeter.measure("kernel.enter", **wrong)
    assert caught.value.exit_code == 2
    assert [*wrong][-1] in caught.value.sentence
    assert not (root / "runs").exists()
