# SPDX-License-Identifier: Apache-2.0
"""A short one of each storm of `make faults`, and the lies of the self-test that need no machine to themselves."""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storm import command_lines, denials, journals, readers, run_files
from storm.ended import Ended, Hung, Pulse, Tally, awake, ended, ill, waited, within
from storm.uses import HOST, RUN, numbers
from tollmeter.library.lies import HONEST, IN_PROBES
from tollmeter.root import ROOT
from tollmeter.store.journal import opening


@pytest.mark.parametrize("storm", [journals, command_lines, denials, readers, run_files])
def test_nothing_goes_wrong_in_a_short_storm(storm: object) -> None:
    count = {journals: 22, command_lines: 5, denials: 2, readers: 300, run_files: 40}[storm]  # type: ignore[index]
    tally = storm.storm(random.randrange(10**6), count)  # type: ignore[attr-defined]
    assert tally.count >= count
    assert tally.complaints == []


@pytest.mark.parametrize(
    ("probe", "parameters", "call"),
    [
        ("kernel.call_object", "channel=futex placement=one_cpu", "futex"),
        ("kernel.call_object", "channel=shared_memory placement=one_cpu", "sched_yield"),
        ("kernel.supervise_fault", "by=kernel", "madvise"),
        ("kernel.disk_file", "act=create size=0", "close"),
    ],
)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls by their numbers there")
def test_what_a_denied_call_once_made_another_number_or_a_hang_is_a_sentence(
    probe: str, parameters: str, call: str
) -> None:
    for error in denials.ERRORS:
        assert denials.deny_probe(denials.Denial(probe, parameters, call), error) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls by their numbers there")
def test_what_no_python_survives_is_no_complaint_of_ours() -> None:
    assert not denials.python_starts("mmap", denials.ERRORS[0])
    assert denials.python_starts("prlimit64", denials.ERRORS[0])
    assert denials.deny_host(denials.Denial(HOST, "", "mmap"), denials.ERRORS[0]) is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls by their numbers there")
@pytest.mark.parametrize("error", denials.ERRORS)
def test_a_run_without_uname_measures_and_names_its_kernel(tmp_path: Path, error: int) -> None:
    """numpy and uuid ask for it when they are imported."""
    words = [str(ROOT / RUN[0]), *RUN[1:], "--out", str(tmp_path / "run")]
    told = ended(words, 60, preexec_fn=denials.denying(numbers()["uname"], error))
    assert told.code in (0, 1), told.said
    machine = opening(tmp_path / "run").machine
    here = os.uname()
    assert machine is not None
    assert (machine.host, machine.kernel) == (here.nodename, f"{here.sysname} {here.release}")
    assert machine.architecture == here.machine


def test_a_storm_complains_of_what_is_wrong() -> None:
    assert ill(Ended(None, b"", b""), {0}) == "it hung"
    assert "traceback" in (ill(Ended(1, b"", b"Traceback (most recent call last):\nKeyError: 1"), {0, 1}) or "")
    assert "code 3" in (ill(Ended(3, b"", b""), {0}) or "")
    assert ill(Ended(0, b"", b""), {0}) is None
    tally = Tally("things")
    tally.one("a", None)
    tally.one("b", "it hung")
    assert tally.figures() == "2 things, 1 wrong"


_STOPPED = """
import subprocess, sys
from storm.ended import within
sys.exit(within(2, lambda: subprocess.call(["sh", "-c", "kill -STOP $PPID; sleep 2.5; kill -CONT $PPID"])))
"""


def test_what_hangs_is_ended_and_what_was_stopped_with_the_machine_is_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert waited(process, 1) is None
    with pytest.raises(Hung):
        within(1, lambda: time.sleep(60) or 0)
    assert within(1, lambda: 7) == 7
    assert ended([sys.executable, "-c", _STOPPED], cwd=ROOT / "tests").code == 0


_STILL = """
import subprocess
from storm.ended import Pulse
with Pulse() as pulse:
    subprocess.call(["sh", "-c", "kill -STOP $PPID; sleep 2.5; kill -CONT $PPID; sleep 0.1"])
print(pulse.stood_s)
"""


def test_a_machine_that_stood_still_is_known_by_it() -> None:
    told = ended([sys.executable, "-c", _STILL], cwd=ROOT / "tests")
    assert told.code == 0 and float(told.out) > 2
    with Pulse() as pulse:
        time.sleep(0.1)
    assert pulse.stood_s < float(told.out)


def test_a_trial_beside_which_the_machine_stood_still_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pulses = iter([5.0, 0.1])
    monkeypatch.setattr(Pulse, "__exit__", lambda self, *_: setattr(self, "stood_s", next(pulses)))
    complaints = iter(["code 6", "code 5"])
    assert awake(lambda: next(complaints)) == "code 5"


def test_every_lie_can_still_be_planted() -> None:
    assert len(IN_PROBES) + 2 == 21
    assert len({lie.probe for lie in IN_PROBES}) == len(IN_PROBES)
    for lie in IN_PROBES:
        text = (ROOT / "probes" / lie.of).read_text()
        for words, instead in lie.changes:
            assert words in text, f"{lie.name}: {words}"
            text = text.replace(words, instead)
        assert not (ROOT / "probes" / lie.probe.replace(".", "/")).with_suffix(".c").exists()
    assert all((ROOT / "probes" / of).is_file() for of in HONEST)
