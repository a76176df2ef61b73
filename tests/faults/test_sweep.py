# SPDX-License-Identifier: Apache-2.0
"""A knob made of a file is back at its first value whatever ends a sweep: its end, a command that fails, a signal, or
SIGKILL, after which the next start restores it. Over restarts of a modelled machine each value is measured once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import in_time
from tollmeter.cli.main import main
from tollmeter.exit_codes import INCOMPLETE
from tollmeter.library import sweeping
from tollmeter.library.derive import open_run
from tollmeter.library.sweeping import Knob, abandoned, check_knob, conducted, new_sweep, over_restarts
from tollmeter.model import Failure
from tollmeter.store import sweeps
from tollmeter.store.sweeps import SweepState, load_sweep, sweep_lock_file, unrestored

KILLS = 5
"""Each starts Python twice. With KILLS=50 in the environment it is the long form of this test."""
VALUES = ("first", "2", "3", "4")
DRIVER = """
import sys, time
from pathlib import Path
from tollmeter.library.sweeping import Knob, conducted, new_sweep
knob = Knob("k", "sleep 0.02; echo {} > knob", "cat knob")
def measure(value, name):
    print(value, flush=True)
    time.sleep(0.05)
    return ""
conducted(new_sweep(knob, sys.argv[1:], [], 1, Path.cwd()), Path("sweep.json"), measure, lambda: False)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "knob").write_text("first\n")
    return tmp_path


def knob_of(folder: Path) -> str:
    return (folder / "knob").read_text().strip()


def sweep_of(folder: Path, set_: str = "echo {} > knob", verify: str = "cat knob") -> SweepState:
    return new_sweep(Knob("k", set_, verify), VALUES, ["words"], 1, folder)


@contextlib.contextmanager
def driven(folder: Path, program: str = DRIVER) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", program, *VALUES]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


# ---- killed ---------------------------------------------------------------------------------------------------------


def test_a_killed_sweep_is_restored_at_the_next_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At random in any of its steps. The last kill is while the second value is measured, for certain."""
    kills, chance, left = int(os.environ.get("KILLS", KILLS)), random.Random(), 0
    for kill in range(kills):
        is_last = kill == kills - 1
        with driven(
            folder, DRIVER.replace("0.05", "0.05 if value == 'first' else 60") if is_last else DRIVER
        ) as process:
            assert process.stdout
            for _ in range(2 if is_last else chance.randrange(1, 8)):
                process.stdout.readline()
            time.sleep(chance.uniform(0, 0.08))
            process.kill()
            process.wait()
        left += knob_of(folder) != "first"
        assert main(["sweep", "--restore"]) == 0
        assert knob_of(folder) == "first" and unrestored() is None
    assert left
    with capsys.disabled():
        print(f"{left} of {kills} kills left another value" if kills > KILLS else "", end="")


def test_a_command_that_outlives_the_sweep_does_not_turn_the_knob_after_it_was_restored(folder: Path) -> None:
    late = DRIVER.replace("sleep 0.02; echo", "touch setting; sleep 0.5; echo")
    with driven(folder, late) as process:
        assert process.stdout
        process.stdout.readline()
        (folder / "setting").unlink()
        assert in_time((folder / "setting").exists)
        process.kill()
        process.wait()
        assert main(["sweep", "--restore"]) == 0
        time.sleep(0.6)
    assert knob_of(folder) == "first"


def test_a_sweep_beside_a_sweep_is_refused(folder: Path) -> None:
    with driven(folder) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(Failure, match=f"process {process.pid}") as refused:
            conducted(sweep_of(folder), folder / "other.json", lambda *_: "", lambda: False)
        assert refused.value.exit_code == 5
        assert process.wait() == 0 and knob_of(folder) == "first"


def test_an_error_of_the_caller_is_not_an_error_of_the_lock_file() -> None:
    with pytest.raises(FileNotFoundError, match="unrelated"), sweep_lock_file():
        Path("/nonexistent/unrelated").read_bytes()


def test_a_lock_file_that_cannot_be_opened_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/self/fdinfo")
    with pytest.raises(Failure, match=r"\.lock cannot be written"), sweep_lock_file():
        pass


def test_other_verbs_say_what_a_killed_sweep_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with driven(folder) as process:
        assert process.stdout
        process.stdout.readline()
        sweeps.warn_of_killed()
        assert not capsys.readouterr().err
        process.kill()
        process.wait()
    notices: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "notify", notices.append)
        sweeps.warn_of_killed()
    assert "sweep --restore" in notices[0]


def test_what_restores_a_knob_is_not_taken_from_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.keep_unrestored(
        sweeps.Unrestored(variable="k", value="1", set="true", verify="", cwd="/", folder="", process=1, began="0")
    )
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Failure, match="another user"):
        unrestored()


# ---- ended otherwise ------------------------------------------------------------------------------------------------


def test_each_value_is_measured_where_it_is_set_and_the_first_is_back(folder: Path) -> None:
    seen: list[str] = []

    def measure(value: str, name: str) -> str:
        seen.append(knob_of(folder))
        assert value == seen[-1] and name.endswith(f"-{value}")
        return ""

    end = conducted(sweep_of(folder), folder / "sweep.json", measure, lambda: False)
    assert seen == list(end.order) and seen[::2] == ["first"] * 4 and sorted(seen[1::2]) == ["2", "3", "4"]
    assert end.is_done and not end.unrestored and knob_of(folder) == "first"
    assert load_sweep(folder / "sweep.json") == end and unrestored() is None


@pytest.mark.parametrize(
    ("set_", "verify", "reason"),
    [
        ("test {} != 3 && echo {} > knob", "cat knob", "--set ended with exit status 1"),
        ("test {} != 3 && echo {k} > knob || { echo no 3 >&2; exit 7; }", "", "exit status 7: no 3"),
        ("test {} = 3 || echo {} > knob", "cat knob", "printed first, and not 3"),
        ("echo {} > knob", "test {} != 3", "--verify ended with exit status 1"),
        ("test {} != 3 && echo {} > knob || kill -9 $$", "cat knob", "signal 9"),
    ],
)
def test_a_value_that_cannot_be_set_is_left_out_and_the_others_are_measured(
    folder: Path, set_: str, verify: str, reason: str
) -> None:
    end = conducted(sweep_of(folder, set_, verify), folder / "sweep.json", lambda *_: "", lambda: False)
    reasons = {step.value: step.reason for step in end.steps}
    assert reason in reasons.pop("3") and not any(reasons.values())
    assert not end.unrestored and knob_of(folder) == "first"


def test_a_value_that_is_turned_back_during_the_run_is_not_measured(folder: Path) -> None:
    def measure(value: str, _: str) -> str:
        if value == "3":
            (folder / "knob").write_text("first")
        return ""

    end = conducted(sweep_of(folder), folder / "sweep.json", measure, lambda: False)
    (step,) = (step for step in end.steps if step.value == "3")
    assert step.reason.startswith("after the run --verify printed first") and not step.run


def test_an_error_and_a_stop_restore_it_too(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        conducted(sweep_of(folder), folder / "sweep.json", _interrupted, lambda: False)
    assert knob_of(folder) == "first" and unrestored() is None
    steps = iter([False, False, True])
    end = conducted(sweep_of(folder), folder / "s.json", lambda *_: "", lambda: next(steps, True))
    assert len(end.steps) == 1 and knob_of(folder) == "first"


def _interrupted(value: str, _: str) -> str:
    if value != "first":
        raise KeyboardInterrupt
    return ""


@pytest.mark.parametrize(("set_", "verify"), [("exit 3; echo {}", ""), ("test {}", "cat knob; echo other")])
def test_where_the_first_value_cannot_be_set_no_other_is_tried(folder: Path, set_: str, verify: str) -> None:
    """Such as a file of the system that an ordinary user may not write: nothing is left to restore."""
    with pytest.raises(Failure, match="cannot be set to first") as refused:
        conducted(sweep_of(folder, set_, verify), folder / "sweep.json", _interrupted, lambda: False)
    assert refused.value.exit_code == 1 and unrestored() is None


def test_a_first_value_that_cannot_be_restored_is_said_and_tried_again(folder: Path) -> None:
    def broken(_: str, __: str) -> str:
        (folder / "no").touch()
        return ""

    set_ = "test ! -e no && echo {} > knob"
    end = conducted(sweep_of(folder, set_, ""), folder / "sweep.json", broken, lambda: False)
    assert "exit status 1" in end.unrestored and unrestored()
    assert main(["sweep", "--restore"]) == 5
    (folder / "no").unlink()
    (folder / "knob").write_text("by hand")
    assert main(["sweep", "--restore"]) == 0
    assert knob_of(folder) == "first" and unrestored() is None


# ---- over restarts --------------------------------------------------------------------------------------------------


class Machine:
    """Starts with the value that is in the file `next`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.boots, self.seen = folder, 0, list[str]()
        (folder / "next").write_text("first")
        self.restart()
        patch.setattr(sweeping, "boot", lambda: f"boot {self.boots}")

    def restart(self) -> None:
        self.boots += 1
        (self.folder / "knob").write_text((self.folder / "next").read_text())

    def measure(self, value: str, _: str) -> str:
        assert knob_of(self.folder) == value
        self.seen.append(value)
        return ""

    def until_done(self, sweep: SweepState, measure: sweeping.Measure | None = None) -> SweepState:
        for _ in range(30):
            try:
                return over_restarts(sweep, self.folder / "state", measure or self.measure, lambda: False)
            except Failure as failure:
                if failure.exit_code != INCOMPLETE:
                    raise
            except SystemExit:
                pass  # a crash
            self.restart()
        raise AssertionError("it never ends")


@pytest.fixture
def machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(folder, monkeypatch)


NEXT = "printf %s {} > next"


def test_over_restarts_each_step_is_measured_once(machine: Machine) -> None:
    end = machine.until_done(sweep_of(machine.folder, NEXT))
    assert machine.seen == list(end.order) and machine.boots == len(end.order)
    assert not end.unrestored and knob_of(machine.folder) == "first"
    again = over_restarts(sweep_of(machine.folder, NEXT), machine.folder / "state", machine.measure, lambda: False)
    assert again == end and len(machine.seen) == len(end.order)


def test_before_the_restart_nothing_is_measured(machine: Machine) -> None:
    for _ in range(3):
        with pytest.raises(Failure, match="after a restart"):
            over_restarts(sweep_of(machine.folder, NEXT), machine.folder / "state", machine.measure, lambda: False)
    assert machine.seen == ["first"]


def test_a_value_that_the_machine_did_not_start_with_is_left_out(machine: Machine) -> None:
    end = machine.until_done(sweep_of(machine.folder, "test {} = 3 || printf %s {} > next"))
    reasons = {step.value: step.reason for step in end.steps}
    assert "and not 3" in reasons.pop("3") and not any(reasons.values())


def test_a_value_that_crashes_the_machine_is_left_out_after_two_starts(machine: Machine) -> None:
    def crashing(value: str, name: str) -> str:
        machine.measure(value, name)
        if value == "2":
            raise SystemExit
        return ""

    end = machine.until_done(sweep_of(machine.folder, NEXT), crashing)
    assert machine.seen.count("2") == 2
    assert "restarted 2 times" in next(step.reason for step in end.steps if step.value == "2")
    assert knob_of(machine.folder) == "first"


def test_a_file_of_another_sweep_is_refused_and_one_can_be_given_up(machine: Machine) -> None:
    state = machine.folder / "state"
    with pytest.raises(Failure, match="after a restart"):
        over_restarts(sweep_of(machine.folder, NEXT), state, machine.measure, lambda: False)
    with pytest.raises(Failure, match="another sweep") as refused:
        over_restarts(sweep_of(machine.folder, "true {}"), state, machine.measure, lambda: False)
    assert refused.value.exit_code == 2
    machine.restart()
    assert "after a restart is first" in abandoned(state) and not state.exists()
    machine.restart()
    assert knob_of(machine.folder) == "first"


# ---- words ----------------------------------------------------------------------------------------------------------

SET = ["--set", "echo {} > knob"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-L", "k", "1,2"], "--set is missing"),
        ([*SET], "expected one knob"),
        ([*SET, "-L", "k", "1,2", "-P", "j", "1", "2"], "expected one knob"),
        ([*SET, "-L", "k", "1"], "one value"),
        ([*SET, "-L", "k", "1,1"], "given twice"),
        ([*SET, "-L", "k", "1,,2"], "is empty"),
        ([*SET, "-P", "k", "3", "x"], "expected numbers"),
        (["--set", "echo 1 > knob", "-L", "k", "1,2"], "does not name the value"),
        (["--set", "no-such-program {}", "-L", "k", "1,2"], "no-such-program"),
        (["--set", "true {}", "--verify", "no-such-program", "-L", "k", "1,2"], "no-such-program"),
        ([*SET, "-L", "k", "1,2", "--reboots", "file"], "--reboots needs --verify"),
        ([*SET, "-L", "k", "1,2", "--format", "csv"], "format"),
        (["--restore", "--reboots", "nothing"], "no such file"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_knob_is_turned(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "knob").write_text("untouched")
    assert main(["sweep", *words, "kernel.loop"]) == 2
    assert said in capsys.readouterr().err
    assert knob_of(folder) == "untouched"


def test_a_value_may_be_named_by_its_variable() -> None:
    knob = Knob("k", "set {k} {} {other}")
    assert knob.filled(knob.set, "7") == "set 7 7 {other}"
    check_knob(Knob("k", "test {k}"), ["1", "2"])


def test_a_signal_while_a_value_is_set_is_answered(folder: Path) -> None:
    """As Ctrl-C, which the command gets too: the sweep ends, and the first value is back."""
    stoppable = DRIVER.replace("conducted(new", "with Stopping() as stopping: conducted(new")
    program = f"from tollmeter.conduct import Stopping\n{stoppable}".replace("False", "stopping.asked")
    with driven(folder, program) as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    done = load_sweep(folder / "sweep.json")
    assert done and not done.is_done and knob_of(folder) == "first" and unrestored() is None


# ---- with real runs --------------------------------------------------------------------------------------------------


def test_a_real_sweep_is_made_of_runs_that_other_verbs_open(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The only test that measures: what the command line gives to a run reaches it."""
    words = ["-L", "k", "first,2", "--verify", "cat knob", "kernel.loop", "--out", "swept", "--quiet"]
    options = [
        "--budget",
        "20s",
        "--precision",
        "20%",
        "--priority",
        "normal",
        "--seed",
        "5",
        "--beside",
        "--format",
        "json",
    ]
    code = main(["sweep", "--set", "echo {} > knob", *words, *options])
    printed = json.loads(capfd.readouterr().out)
    assert code == 0 and printed["restored"] and knob_of(folder) == "first"
    assert [value["runs"] for value in printed["values"]] == [["01-first", "03-first"], ["02-2"]]
    assert printed["values"][1]["rows"][0]["row"].startswith("kernel.loop loops")
    runs = [open_run(folder / "swept" / name) for name in ("01-first", "02-2")]
    assert [results.index.run.seed for results in runs] == [5, 5]
    assert (folder / "swept/sweep.html").is_file() and not (folder / "LAST").exists()
    assert main(["compare", "swept/01-first", "swept/02-2"]) == 0
