# SPDX-License-Identifier: Apache-2.0
"""`toll bill` of real programs: tests/faults/crossing.c crosses boundaries a known number of times."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tollmeter
from tollmeter.bill.crossings import Crossings, Runner, Way, crossings, of_process
from tollmeter.library import places
from tollmeter.model import Abi
from tollmeter.report.charts import charts
from tollmeter.targets.timer import Words
from tollmeter.toolchain.workload_build import bill_runner

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def runner(own_abi: Abi) -> Runner:
    return Runner(bill_runner(places.ROOT, own_abi))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, own_compiler: str) -> str:
    made = tmp_path_factory.mktemp("crossing") / "crossing"
    source = HERE / "crossing.c"
    subprocess.run([*own_compiler.split(), "-O2", "-static", source, "-o", made], check=True)
    return f"{made}"


def counted(runner: Runner, way: Way, program: str, mode: str, times: int) -> Crossings:
    """Skips the test where the system does not permit this way to count, with the reason."""
    made = crossings(runner, way, Words(program, (program, mode, str(times))))
    if made.reason:
        pytest.skip(made.reason)
    assert (made.error, made.status) == (0, 0)
    return made


def by_name(made: Crossings) -> Counter[str]:
    names: Counter[str] = Counter()
    for call in made.calls:
        names[call.name] += call.count
    return names


def test_a_kernel_that_times_page_faults_takes_less_for_them_than_the_loop_that_makes_them(runner: Runner) -> None:
    made = crossings(runner, "kernel", Words("-stores-4096", ("stores",)))
    if made.reason:
        pytest.skip(made.reason)
    if not made.events.get("store_fault_ns"):
        pytest.skip("this kernel counts page faults, and does not time them")
    assert 4096 <= made.events["store_faults"] < 4200
    assert 0.3 * made.loop_ns < made.events["store_fault_ns"] < 1.2 * made.loop_ns


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        ("notified", "forks"),
        *(("kernel", mode) for mode in ("bytes", "forks", "pings", "pings_on_one", "maps", "stats")),
    ],
)
def test_calls_are_counted_as_strace_counts_them(runner: Runner, program: str, way: Way, mode: str) -> None:
    """In all processes of the command. strace has no exit_group, since it does not return."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    words = ["strace", "-f", "-c", "-U", "calls,name", program, mode, "50"]
    table = subprocess.run(words, check=True, capture_output=True, text=True).stderr.splitlines()
    theirs = {line.split()[1]: int(line.split()[0]) for line in table if line.split()[:1] and line.split()[0].isdigit()}
    ours = by_name(counted(runner, way, program, mode, 50))
    assert ours.pop("exit_group") >= 1
    assert ours == {name: count for name, count in theirs.items() if name not in ("total", "exit_group")}


def test_time_between_switches_is_the_cpu_time(runner: Runner, program: str) -> None:
    made = counted(runner, "kernel", program, "forks", 20)
    assert 0.8 * made.cpu_ns < made.on_cpu_ns < 1.5 * made.cpu_ns


def test_a_hand_over_is_two_calls_of_futex_or_more(runner: Runner, program: str) -> None:
    names = by_name(counted(runner, "kernel", program, "hands", 500))
    assert names["futex"] >= 2 * 500
    assert names["futex"] < 5 * 500


def test_calls_that_wait_are_those_in_which_a_thread_is_switched_out(runner: Runner, program: str) -> None:
    """On one CPU an end waits in its read, or its write wakes the other, which takes the CPU at once."""
    made = counted(runner, "kernel", program, "pings_on_one", 500)
    switched = sum(call.switched for call in made.calls if call.name in ("read", "write"))
    assert 900 <= switched <= 1100
    clocks = counted(runner, "kernel", program, "clocks", 500).calls
    # Other programs may take the CPU inside of a call.
    assert sum(call.switched for call in clocks if call.count == 500) < 50


def test_a_question_that_was_asked_before_is_a_repeat(runner: Runner, program: str) -> None:
    made = counted(runner, "kernel", program, "stats", 50)
    (stats,) = [call for call in made.calls if call.name in ("newfstatat", "stat", "statx") and call.count >= 50]
    assert stats.repeats == 49
    assert not any(call.repeats for call in made.calls if call is not stats)


def test_events_are_counted_and_windows_are_timed_in_the_kernel(runner: Runner, program: str) -> None:
    made = counted(runner, "kernel", program, "forks", 5)
    assert (made.events["forks"], made.events["execs"], made.events["exits"]) == (5, 6, 6)
    assert all(call.ns > 0 for call in made.calls if call.count > 4)
    assert sum(call.ns for call in made.calls) < made.wall_ns * (os.cpu_count() or 1)


def test_time_in_which_a_call_waits_is_not_its_cost(runner: Runner, program: str) -> None:
    """wait4 lasts as long as the child, which sleeps for 300 ms."""
    made = counted(runner, "kernel", program, "waits", 300)
    waited = sum(call.ns for call in made.calls if call.name == "wait4")
    assert waited < made.wall_ns / 2 and made.wall_ns > 250e6


def test_bytes_are_of_their_size_class(runner: Runner, program: str) -> None:
    small, large = (counted(runner, "kernel", program, mode, 8192) for mode in ("bytes", "blocks"))
    assert sum(call.bytes for call in small.calls if call.name == "write" and call.size == 1) == 8192
    assert sum(call.bytes for call in large.calls if call.name == "write" and call.size == 3) == 8192


def test_a_user_namespace_is_counted_by_notification_and_says_why(runner: Runner, program: str) -> None:
    """Its root has no capability over the kernel: BPF is refused, and the bill names what it takes."""
    namespace = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace may be made here")
    answers = []
    for way in ("kernel", "notified"):
        words = [*namespace, runner.path, way, "1", program, program, "bytes", "100"]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    assert "CAP_BPF" in answers[0]["reason"]
    assert answers[1]["reason"] == ""
    assert sum(call["count"] for call in answers[1]["calls"] if call["name"] == "read") == 100


def toll(*words: str, verb: str = "bill") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tollmeter", verb, *words], check=False, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def tried(program: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A kept bill of two commands, and its JSON."""
    folder = tmp_path_factory.mktemp("bill") / "kept"
    words = ["--format", "json", "--budget", "2s", "--save", f"{folder}", "--try", f"{program} blocks 100000"]
    done = toll(*words, "--", program, "bytes", "100000")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_the_advice_holds_when_it_is_tried(tried: tuple[Path, list[dict[str, Any]]]) -> None:
    first, second = tried[1]
    (advice,) = [saving for saving in first["savings"] if "4 KiB" in saving["what"]]
    assert advice["after"] < 100 and advice["before"] >= 200_000
    assert second["saved"]["low"] > 0 and advice["least_ns"] < 1.5 * second["saved"]["high"]
    assert first["bill"]["kernel_ns"] <= first["bill"]["cpu"]["value"]


def test_a_saved_bill_is_a_run_that_every_verb_reads(tried: tuple[Path, list[dict[str, Any]]]) -> None:
    made = tollmeter.open(tried[0])
    row = made.row("command.bill", "crossings", command=tried[1][0]["bill"]["command"], item="write")
    assert row.median == 100_000
    assert made.results.index.run.surroundings, "what else ran is part of a bill's verdict"
    shown = toll(f"{tried[0]}", verb="show").stdout
    assert shown.count("the program's own") == 2 and "CPU time, " in shown
    (chart,) = [one for one in charts(made.results) if one.name == "bill"]
    by_command = Counter[str]()
    for datum in chart.drawing.data:
        by_command[datum["label"]] += datum["share"]
    whole = [row for row in made.rows if row.parameters["item"] == "in all" and row.metric == "cpu"]
    cpu = {row.parameters["command"]: row.median for row in whole}
    assert by_command == {command: pytest.approx((ns or 0.0) / 1e6) for command, ns in cpu.items()}


def bill_of_running(program: str, act: str, times: int, duration: str) -> Any:
    with subprocess.Popen([program, act, str(times)]) as running:
        time.sleep(0.2)
        done = toll("--pid", str(running.pid), "--for", duration, "--format", "json")
        running.kill()
    if done.returncode == 5 and "CAP_BPF" in done.stderr:
        pytest.skip(done.stderr.strip())
    (made,) = json.loads(done.stdout)
    return made["bill"]


def test_a_running_process_is_counted_for_a_time(program: str) -> None:
    bill = bill_of_running(program, "bytes", 1_000_000_000, "1s")
    assert {"read", "write"} <= {item["name"] for item in bill["items"]} and bill["crossings"] > 100


def test_calls_of_a_running_process_are_counted_exactly(runner: Runner, program: str) -> None:
    """The shell waits for a line, then becomes a program that reads and writes 1000 times each."""
    shell = ["sh", "-c", 'read go; exec "$0" bytes 1000', program]
    with subprocess.Popen(shell, stdin=subprocess.PIPE) as running, ThreadPoolExecutor() as pool:
        counting = pool.submit(of_process, runner, running.pid, 2.0)
        time.sleep(1.0)
        running.communicate(b"\n")
        made = counting.result()
    if made.reason:
        pytest.skip(made.reason)
    names = by_name(made)
    assert (names["read"], names["write"], names["execve"]) == (1000, 1000, 1)


def test_children_of_a_running_process_are_part_of_its_cpu_time(program: str) -> None:
    """Most of what a process that starts programs takes is theirs."""
    bill = bill_of_running(program, "vforks", 1_000_000, "1s")
    assert bill["items"] and not bill["capped"]


@pytest.mark.parametrize(
    ("words", "code"),
    [([], 2), (["--", "no-such-program"], 2), (["--", "false"], 1), (["--pid", "999999999"], 2),
     (["--way", "sideways", "--", "true"], 2), (["--pid", "1", "--", "true"], 2)],
)  # fmt: skip
def test_bad_input_is_one_line_and_a_code(words: list[str], code: int) -> None:
    done = toll(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
