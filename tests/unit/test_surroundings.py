# SPDX-License-Identifier: Apache-2.0
"""What else goes on while a run measures: seen, written down, and said; and one run waits for another."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from support import example_runs
from support.builders import machine, outcome, probe, quiet, run_info, sample
from support.waiting import LONG_S, in_time
from tollmeter.conduct import strays, surroundings
from tollmeter.conduct.machine_lock import hold_machine_lock
from tollmeter.conduct.strays import end_strays
from tollmeter.conduct.surroundings import Watch
from tollmeter.experiment.evidence import unseen_share
from tollmeter.findings import all_findings, carried
from tollmeter.model import Index, Results, RunVerdict, Surroundings
from tollmeter.numbers.rows import rows
from tollmeter.targets import control_groups

CPU0 = "cpu{n} {user} 0 0 {idle} 0 0 0 0 0 0\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc and /sys/fs/cgroup of the test's own."""
    for module, name in ((surroundings, "PROC"), (control_groups, "PROC"), (control_groups, "CGROUPS")):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setattr(module, name, tmp_path / name)
    tell(tmp_path, 0, 0)
    return tmp_path


def takes(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A clock of this module that has gone on by this when it is read again. Other threads read the system's."""
    monotonic = itertools.chain((100.0,), itertools.repeat(100.0 + seconds)).__next__
    monkeypatch.setattr(surroundings, "time", SimpleNamespace(monotonic=monotonic))


def tell(system: Path, user_s: float, idle_s: float) -> None:
    """What CPUs 0 and 1 did since the system started; CPU 1 did nothing else than work."""
    ticks = os.sysconf("SC_CLK_TCK")
    lines = [CPU0.format(n=0, user=int(user_s * ticks), idle=int(idle_s * ticks)), CPU0.format(n=1, user=9**9, idle=0)]
    (system / "PROC/stat").write_text("cpu  1 2 3\n" + "".join(lines) + "intr 1\n")


def test_what_others_had_of_the_measured_cpus_is_a_share_of_their_time(system: Path) -> None:
    watch = Watch([0])
    tell(system, user_s=30, idle_s=70)
    seen = watch.seen()
    assert seen.others == pytest.approx(0.30, abs=0.01)
    assert (seen.quota, seen.throttled_s, seen.company) == (None, 0.0, False)


def test_an_unreadable_counter_is_unknown_and_not_zero(system: Path) -> None:
    (system / "PROC/stat").unlink()
    watch = Watch([0])
    assert watch.seen().others is None


def test_a_short_run_detects_interference_by_cpu_pressure(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "PROC/pressure").mkdir()
    waits = system / "PROC/pressure/cpu"
    waits.write_text("some avg10=9.00 avg60=9.00 avg300=9.00 total=5000000\nfull avg10=0 avg60=0 avg300=0 total=0\n")
    takes(monkeypatch, 0.2)
    watch = Watch([0])
    waits.write_text(waits.read_text().replace("5000000", "5150000"))
    seen = watch.seen()
    assert seen.others is None and seen.pressure == pytest.approx(0.75)
    index = example_runs.healthy().index
    run = msgspec.structs.replace(index.run, surroundings=seen)
    results = msgspec.structs.replace(example_runs.healthy(), index=msgspec.structs.replace(index, run=run))
    assert any(found.name == "machine.other_programs_work" for found in all_findings(results))


INTERRUPTS = """\
            CPU0       CPU2       CPU3
   1:          9          0          7   IO-APIC   1-edge      i8042
  24:       {disk}        100          0   PCI-MSI 512000-edge      nvme0q1
 LOC:       {tick}       5000       6000   Local timer interrupts
 ERR:          0
"""
VMSTAT = "nr_free_pages 81\npswpin {pages}\npswpout 3\nallocstall_dma 1\nallocstall_normal {pages}\nthp_split 5\n"


def test_interrupts_of_the_measured_cpus_are_counted_by_source(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU 2 is in the second column, since CPU 1 is offline; a line of one count is the whole machine's."""
    takes(monkeypatch, 2.0)
    file = system / "PROC/interrupts"
    file.write_text(INTERRUPTS.format(disk=1000, tick=100))
    watch = Watch([0, 2])
    file.write_text(INTERRUPTS.format(disk=9000, tick=600))
    assert watch.seen().interrupts == {"24 nvme0q1": 4000.0, "LOC": 250.0}
    only = Watch([2])
    file.write_text(INTERRUPTS.format(disk=99000, tick=900))
    assert only.seen().interrupts == {}


def test_swapped_pages_and_waits_for_memory_are_counted(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    takes(monkeypatch, 2.0)
    (system / "PROC/pressure").mkdir()
    waits, pages = system / "PROC/pressure/memory", system / "PROC/vmstat"
    some = "some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    waits.write_text(some.format(us=7))
    pages.write_text(VMSTAT.format(pages=10))
    watch = Watch([0])
    waits.write_text(some.format(us=500_007))
    pages.write_text(VMSTAT.format(pages=1010))
    seen = watch.seen()
    assert (seen.memory_pressure, seen.paging) == (0.25, {"pswpin": 1000, "allocstall": 1000})
    assert "memory_is_short" in named(seen)
    assert "memory_is_short" not in named(watch_of_calm(waits, some))


def watch_of_calm(waits: Path, some: str) -> Surroundings:
    """What a watch sees that begins now, and while which nothing is counted."""
    waits.write_text(some.format(us=500_007))
    return Watch([0]).seen()


@pytest.mark.parametrize("files", [{}, {"cpu.weight": "1"}, {"cpu.weight": "100", "cpu.idle": "1"}])
def test_the_least_share_of_any_group_around_counts(system: Path, files: dict[str, str]) -> None:
    (system / "PROC/self").mkdir()
    (system / "PROC/self/cgroup").write_text("4:cpu,cpuacct:/one\n0::/outer/inner\n")
    inner, one = system / "CGROUPS/outer/inner", system / "CGROUPS/cpu,cpuacct/one"
    for folder in (inner, one):
        folder.mkdir(parents=True)
    (one / "cpu.shares").write_text("1024\n")
    (inner / "cpu.weight").write_text("100\n")
    for name, text in files.items():
        (inner.parent / name).write_text(f"{text}\n")
    weight = Watch([0]).seen().weight
    assert weight == (1.0 if not files else 0.0 if "cpu.idle" in files else 0.01)


BURN = """
import time
while time.process_time() < 0.3:
    pass
print(flush=True)
input()
"""


def test_the_time_of_what_this_process_started_and_has_not_seen_end_is_its_own() -> None:
    before = surroundings._own_s(0.01)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-I", "-c", BURN], stdin=pipe, stdout=pipe) as child:
        assert child.stdout and child.stdin
        child.stdout.readline()
        living = surroundings._own_s(0.01)
        child.stdin.write(b"\n")
    assert 0.25 < living - before < 3
    assert 0.25 < surroundings._own_s(0.01) - before < 3


DAEMON = """
import os, time
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
print(flush=True)
time.sleep(20)
"""


@contextlib.contextmanager
def echoing(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process until its input ends. It has answered once: its environment cannot be read before it is under way."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process


@contextlib.contextmanager
def left_behind(environment: dict[str, str]) -> Iterator[None]:
    """A process in a session of its own, once it is under way. Those that started it have ended."""
    words = [sys.executable, "-I", "-c", DAEMON]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.wait()
        yield


def test_what_a_probe_left_behind_in_a_session_of_its_own_is_found_and_ended() -> None:
    mark = {"TOLL_PARENT": f"{os.getpid():010}"}
    others = {"TOLL_PARENT": f"{os.getpid() + 1:010}"}
    with left_behind(mark), left_behind(others), echoing(mark) as own:
        assert end_strays() == 1
        assert end_strays() == 0
        assert own.poll() is None


def test_nothing_that_is_older_or_elsewhere_is_ended_for_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier process of this number, or one in a container, may have left a mark that reads the same."""
    own = Path(f"/proc/{os.getpid()}")
    mark = {"TOLL_PARENT": f"{os.getpid():010}"}
    with left_behind(mark):
        for owner, name, other in (
            (strays, "_began", lambda asked: 2 if asked == own else 1),
            (Path, "readlink", lambda asked: asked),
            (os, "geteuid", lambda: 4711),
        ):
            with monkeypatch.context() as changed:
                changed.setattr(owner, name, other)
                assert end_strays() == 0
        assert end_strays() == 1


def test_a_quota_of_any_group_around_counts_and_the_time_that_it_cost(system: Path) -> None:
    (system / "PROC/self").mkdir()
    (system / "PROC/self/cgroup").write_text("0::/outer/inner\n")
    inner = system / "CGROUPS/outer/inner"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("50000 100000\n")
    (inner / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 1000000\n")
    watch = Watch([0])
    (inner / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 3500000\n")
    assert (watch.seen().quota, watch.seen().throttled_s) == (0.5, 2.5)
    (inner.parent / "cpu.stat").write_text("usage_usec 9\nthrottled_usec 6000000\n")
    assert watch.seen().throttled_s == 5.0


def test_the_least_limit_of_memory_of_any_group_around_counts(system: Path) -> None:
    (system / "PROC/self").mkdir()
    (system / "PROC/self/cgroup").write_text("3:cpu:/x\n2:memory:/job/step\n0::/outer/inner\n")
    assert control_groups.memory_bytes() == inf
    (system / "CGROUPS/memory/job/step").mkdir(parents=True)
    (system / "CGROUPS/memory/job/step/memory.limit_in_bytes").write_text(f"{(1 << 63) - 4096}\n")
    assert Watch([0]).seen().memory_limit is None, "what version 1 reports for no limit"
    for group, name, told in (
        ("memory/job/step", "memory.limit_in_bytes", 1 << 40),
        ("memory/job", "memory.limit_in_bytes", 1 << 28),
        ("outer/inner", "memory.max", "max"),
        ("outer", "memory.high", 1 << 29),
    ):
        (system / "CGROUPS" / group).mkdir(parents=True, exist_ok=True)
        (system / "CGROUPS" / group / name).write_text(f"{told}\n")
    assert control_groups.memory_bytes() == Watch([0]).seen().memory_limit == 1 << 28
    (system / "CGROUPS/outer/memory.max").write_text(f"{1 << 27}\n")
    assert control_groups.memory_bytes() == 1 << 27


def test_a_quota_of_the_cpus_own_hierarchy_counts_too(system: Path) -> None:
    """As systems have it that mount each controller by itself."""
    (system / "PROC/self").mkdir()
    (system / "PROC/self/cgroup").write_text("4:memory:/elsewhere\n1:cpu,cpuacct:/inner\n0::/\n")
    inner = system / "CGROUPS/cpu,cpuacct/inner"
    inner.mkdir(parents=True)
    for name, told in (("cpu.cfs_quota_us", 30_000), ("cpu.cfs_period_us", 100_000)):
        (inner / name).write_text(f"{told}\n")
    (inner.parent / "cpu.cfs_quota_us").write_text("-1\n")
    (inner / "cpu.stat").write_text("nr_periods 9\nthrottled_time 1000000000\n")
    watch = Watch([0])
    (inner / "cpu.stat").write_text("nr_periods 99\nthrottled_time 3500000000\n")
    assert (watch.seen().quota, watch.seen().throttled_s) == (0.3, 2.5)


@pytest.mark.parametrize(
    ("status", "filters", "traced"),
    [
        ("TracerPid:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n", 0, False),
        ("TracerPid:\t71\nSeccomp:\t2\nSeccomp_filters:\t3\n", 3, True),
        ("TracerPid:\t0\nSeccomp:\t2\n", 1, False),  # before Linux 5.9
        ("TracerPid:\t0\n", 0, False),  # a kernel without seccomp
    ],
)
def test_filters_and_a_tracer_are_read_from_the_status(system: Path, status: str, filters: int, traced: bool) -> None:
    (system / "PROC/self").mkdir()
    (system / "PROC/self/status").write_text(f"Name:\tpython\n{status}")
    seen = Watch([0]).seen()
    assert (seen.seccomp_filters, seen.traced, seen.unreadable) == (filters, traced, ())


def test_a_status_that_is_hidden_is_unknown_and_not_calm(system: Path) -> None:
    assert not (system / "PROC/self").exists()
    seen = Watch([0]).seen()
    assert (seen.seccomp_filters, seen.traced, seen.unreadable) == (None, None, ("/proc/self/status",))


HIDDEN = ("stat", "self/status", "self/cgroup")
REFUSED = {"getrusage": resource} | dict.fromkeys(("getpriority", "sched_getscheduler", "sched_getaffinity"), os)


@pytest.mark.parametrize("source", [*HIDDEN, *REFUSED])
def test_each_source_that_is_hidden_is_named_and_makes_no_run_calm(
    system: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc/stat under /dev/null made a run calm, and setpriority refused took its whole answer."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (system / "PROC/self").mkdir()
    (system / "PROC/self/status").write_text("TracerPid:\t0\nSeccomp:\t0\n")
    (system / "PROC/self/cgroup").write_text("0::/\n")
    (system / "PROC/pressure").mkdir()
    (system / "PROC/pressure/cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    assert Watch([0]).seen().unreadable == ()
    if source in HIDDEN:
        (system / "PROC" / source).write_text("")
    else:
        monkeypatch.setattr(REFUSED[source], source, refuse)
    seen = Watch([0]).seen()
    name = source if source in REFUSED else f"/proc/{source}"
    assert seen.unreadable == (name,)
    named = {one.name: one.claim for one in all_findings(results(seen, "kernel.any"))}
    assert name in named["machine.evidence_is_missing"]


SEEN = """
from tollmeter.conduct.surroundings import Watch
seen = Watch([0]).seen()
print(seen.seccomp_filters, seen.traced, flush=True)
"""
ALLOW_ALL = """
import ctypes, struct
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
no_new_privileges, seccomp, filter_mode, allow = 38, 22, 2, struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
libc.prctl(no_new_privileges, 1, 0, 0, 0)
assert libc.prctl(seccomp, filter_mode, ctypes.byref(Program(1, allow)), 0, 0) == 0
"""
TRACED = """
import ctypes, os, signal, subprocess
libc = ctypes.CDLL(None, use_errno=True)
trace_me, go_on = 0, 7
process = os.fork()
if not process:
    if libc.ptrace(trace_me, 0, 0, 0) < 0:
        os._exit(77)
    os.kill(os.getpid(), signal.SIGSTOP)
else:
    while os.WIFSTOPPED(status := os.waitpid(process, 0)[1]):
        signal_number = os.WSTOPSIG(status)
        libc.ptrace(go_on, process, 0, 0 if signal_number in (signal.SIGSTOP, signal.SIGTRAP) else signal_number)
    os._exit(os.waitstatus_to_exitcode(status))
"""
BESIDE_A_CHILD = "child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)"


def told_by(*lines: str) -> str:
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this system permits no tracer")
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_a_real_filter_and_a_real_tracer_are_seen() -> None:
    own = Watch([0]).seen()
    assert told_by(ALLOW_ALL, SEEN) == f"{(own.seccomp_filters or 0) + 1} {own.traced}"
    assert told_by(TRACED, SEEN) == f"{own.seccomp_filters} True"
    assert told_by(TRACED, BESIDE_A_CHILD, SEEN) == f"{own.seccomp_filters} False", "a tracer that follows no child"


# ---- what is said of it -------------------------------------------------------------------------------------------


def named(seen: Surroundings | None, **witnessed: object) -> set[str]:
    return {one.name.partition(".")[2] for one in all_findings(results(seen, "any.probe", **witnessed))}


def results(seen: Surroundings | None, name: str, **witnessed: object) -> Results:
    """Of a run of one probe of that name."""
    probes = {name: probe(name=name)}
    outcomes = [outcome([sample(10, witness=quiet(**witnessed))] * 3, name=name)]
    info = run_info(surroundings=seen, unseen_share=unseen_share(outcomes, probes))
    index = Index(format=3, run=info, machine=machine(), rows=rows(outcomes, probes))
    return Results(index=index, probes=probes, outcomes=tuple(outcomes))


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (Surroundings(others=0.5), "other_programs_work"),
        (Surroundings(nice=19), "run_is_held_back"),
        (Surroundings(policy="idle"), "run_is_held_back"),
        (Surroundings(nice=-20), "run_is_preferred"),
        (Surroundings(quota=0.5), "cpu_time_is_limited"),
        (Surroundings(quota=2.0, throttled_s=0.2), "cpu_time_is_limited"),
        (Surroundings(company=True), "another_run_measures"),
        (Surroundings(left_behind=2), "probe_leaves_processes"),
        (Surroundings(seccomp_filters=1), "system_calls_are_filtered"),
        (Surroundings(traced=True), "probes_are_traced"),
    ],
)
def test_each_has_a_finding_of_its_own(seen: Surroundings, name: str) -> None:
    assert named(seen) == {name}


@pytest.mark.parametrize("verdict", ["busy", "held back", "too short"])
@pytest.mark.parametrize("seen", [Surroundings(left_behind=99), Surroundings(quota=0.5), Surroundings(traced=True)])
def test_facts_are_withheld_from_no_run(seen: Surroundings, verdict: RunVerdict) -> None:
    (fact,) = all_findings(results(seen, "any.probe"))
    assert carried(verdict, [fact], []).findings == (fact,)


def test_a_quiet_machine_has_none() -> None:
    assert named(Surroundings(others=0.1)) == set()
    assert named(None) == set()
    assert named(Surroundings(seccomp_filters=0, traced=False)) == set()


@pytest.mark.parametrize("seen", [Surroundings(seccomp_filters=1), Surroundings(traced=True)])
def test_what_stands_before_system_calls_is_a_problem_where_these_were_timed(seen: Surroundings) -> None:
    for name, severity in (("any.probe", "note"), ("kernel.any", "warning")):
        (found,) = all_findings(results(seen, name))
        assert found.severity == severity


def test_a_file_that_is_hidden_is_missing_evidence_of_system_calls() -> None:
    hidden = Surroundings(unreadable=("/proc/self/status",))
    assert named(hidden) == set()
    (found,) = all_findings(results(hidden, "kernel.any"))
    assert found.name == "machine.evidence_is_missing" and "/proc/self/status" in found.claim


def test_missing_evidence_is_a_finding() -> None:
    assert named(None, major_faults=None) == {"evidence_is_missing"}


# ---- one run at a time --------------------------------------------------------------------------------------------


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setenv("TOLL_LOCK", str(tmp_path))
    return [].append


def never() -> bool:
    return False


def test_a_second_run_waits_for_the_first_and_says_so(tmp_path: Path, say: Callable[[str], None]) -> None:
    said: list[str] = []
    measured: list[str] = []

    def second() -> None:
        with hold_machine_lock(said.append, never) as company:
            measured.append("company" if company else "alone")

    with hold_machine_lock(say, never) as company:
        assert not company
        other = threading.Thread(target=second)
        other.start()
        assert in_time(lambda: said) and "waiting" in said[0]
        assert not measured
    other.join(LONG_S)
    assert measured == ["alone"]
    assert [path.name for path in tmp_path.iterdir()] == ["tollmeter.measuring"]


def test_one_that_is_told_not_to_wait_has_company(say: Callable[[str], None]) -> None:
    with hold_machine_lock(say, never), hold_machine_lock(say, never, beside=True) as company:
        assert company


def test_whoever_waits_can_be_stopped(say: Callable[[str], None]) -> None:
    with hold_machine_lock(say, never), hold_machine_lock(say, lambda: True) as company:
        assert company


@pytest.mark.usefixtures("say")
def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tollmeter.measuring").symlink_to(tmp_path / "elsewhere")
    said: list[str] = []
    with hold_machine_lock(said.append, never) as company:
        assert not company
    assert "no file for the machine's lock" in said[0]
    assert not (tmp_path / "elsewhere").exists()
