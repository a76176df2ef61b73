# SPDX-License-Identifier: Apache-2.0
"""A bundle: measured with a shell alone, and made a run of its journal. Judges no time."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tracemalloc
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from storm.uses import numbers
from support import machine_trees
from support.waiting import LONG_S, in_time
from tollmeter.catalog import indexed
from tollmeter.cli.main import main
from tollmeter.library import places
from tollmeter.library.bundling import imported
from tollmeter.library.prepare import machine_of
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Select, Suite
from tollmeter.plan import make_plan
from tollmeter.plan.portable import plan_text
from tollmeter.store.journal import read_journal
from tollmeter.targets import Lack
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.debian_kernel import cached
from tollmeter.targets.qemu_system import archive
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import find_compiler

pytestmark = pytest.mark.usefixtures("own_runs")
PROBES = ("kernel.loop", "kernel.function_call")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "t.sh"
    assert main(["bundle", *PROBES, "--precision", "0.5%", "-o", str(out)]) == 0
    return out


def started(bundle: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
    return subprocess.run(
        ["sh", bundle, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def measured(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that one run of the bundle left."""
    folder = tmp_path_factory.mktemp("there")
    done = started(bundle, folder, "--budget", "2", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "Rows" in done.stdout and "L1d" not in done.stdout
    return folder / "toll-run"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an archive."""
    out = tmp_path_factory.mktemp("archive") / "t.tar.gz"
    assert main(["bundle", *PROBES, "kernel.signal_self", "kernel.call_object", "-o", str(out)]) == 0
    subprocess.run(["tar", "xzf", out, "-C", out.parent], check=True)
    return out.parent / "t"


@pytest.fixture(scope="module")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's static one, which is downloaded and not installed."""
    folder = tmp_path_factory.mktemp("busybox")
    with contextlib.suppress(OSError):
        subprocess.run(["apt-get", "download", "busybox-static"], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], capture_output=True, check=False)
    for path in (*folder.glob("bin/busybox"), *folder.glob("usr/bin/busybox")):
        return path
    pytest.skip("Debian's busybox-static cannot be downloaded here")


def test_its_journal_becomes_a_run_with_numbers(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(measured / "journal.jsonl"), "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    main(["show", str(tmp_path / "run"), "--format", "json"])
    index = json.loads(capsys.readouterr().out)
    assert {row["probe"] for row in index["rows"] if row["median"]} == set(PROBES)
    assert index["run"]["seed"] == 7


def test_it_leaves_nothing_but_its_journal(measured: Path) -> None:
    assert [path.name for path in measured.parent.iterdir()] == [measured.name]
    assert [path.name for path in measured.iterdir()] == ["journal.jsonl"]


def test_it_prints_the_licences_of_what_it_contains(bundle: Path, unpacked: Path, tmp_path: Path) -> None:
    for file in (bundle, unpacked / "run.sh"):
        printed = started(file, tmp_path, "--licences").stdout
        assert all(name in printed for name in ("Apache License", "GCC Runtime Library", "Rich Felker", "GNU LESSER"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("harm", ["altered", "cut"])
def test_one_that_was_altered_or_cut_says_so(bundle: Path, tmp_path: Path, harm: str) -> None:
    content = bytearray(bundle.read_bytes())
    content[-1000] ^= 1
    harmed = tmp_path / "t.sh"
    harmed.write_bytes(content if harm == "altered" else content[:-1000])
    done = started(harmed, tmp_path)
    assert done.returncode == 2
    assert "altered" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.sh"]


def test_a_failed_write_has_its_own_exit_status(bundle: Path, tmp_path: Path) -> None:
    assert started(bundle, tmp_path, "--budget", "1", "--out", "/proc/nothing").returncode == 5
    assert started(bundle, tmp_path, "--bugdet", "1").returncode == 2
    (tmp_path / "out").mkdir()
    (tmp_path / "out/journal.jsonl").write_text("kept")
    assert started(bundle, tmp_path, "--budget", "1", "--out", "out").returncode == 5
    assert (tmp_path / "out/journal.jsonl").read_text() == "kept"


def test_an_interrupted_one_keeps_what_it_measured(bundle: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    words = ["sh", str(bundle), "--budget", "600", "--out", str(tmp_path / "out")]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        journal = tmp_path / "out/journal.jsonl"
        in_time(lambda: journal.exists() and b'{"k":"sample"' in journal.read_bytes())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    folder, capture = imported(tmp_path / "out", tmp_path / "run")
    assert capture.visits
    assert read_journal(folder).session.status == "interrupted"


def test_a_capture_with_noise_and_a_torn_end_is_imported(measured: Path, tmp_path: Path) -> None:
    lines = (measured / "journal.jsonl").read_bytes().split(b"\n")
    noisy = b"\r\n".join(b"[  1.2] noise " + line for line in lines[: len(lines) // 2])
    torn = tmp_path / "capture"
    torn.write_bytes(b"U-Boot 2023\r\n" + noisy[:-100])
    folder, capture = imported(torn, tmp_path / "run")
    assert 0 < capture.visits < imported(measured, tmp_path / "whole")[1].visits
    assert read_journal(folder).session.status == "interrupted"
    assert not read_journal(folder).damage


def test_a_hostile_archive_is_read_and_never_extracted(measured: Path, tmp_path: Path) -> None:
    journal = (measured / "journal.jsonl").read_bytes()
    hostile = tmp_path / "a.tar"
    with tarfile.open(hostile, "w") as file:
        for name, kind in (("journal.jsonl", tarfile.SYMTYPE), ("../../escaped/journal.jsonl", tarfile.REGTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, "/etc/passwd", len(journal) * (kind == tarfile.REGTYPE)
            file.addfile(entry, io.BytesIO(journal))
    before = {path.name for path in tmp_path.parent.iterdir()}
    assert imported(hostile, tmp_path / "run")[1].visits
    assert {path.name for path in tmp_path.parent.iterdir()} == before
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"journal.jsonl", "run.toml"}


@pytest.mark.parametrize("content", [b"", b"nothing\n", b'{"k":"machine"}\n'])
def test_what_is_no_journal_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(Failure):
        imported(tmp_path / "file", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_its_points_are_those_that_this_machine_would_plan(tmp_path: Path) -> None:
    out = tmp_path / "all.sh"
    words = ["memory.latency", "memory.read_bandwidth", "size=1KiB..64KiB,0.5xL2,4xLAST", "kernel=portable"]
    assert main(["bundle", *words, "-o", str(out)]) == 0
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    command = ["sh", str(out), "--budget", "100000", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        in_time((tmp_path / "out/journal.jsonl").exists)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    visited = {outcome.point for outcome in read_journal(imported(tmp_path / "out", tmp_path / "run")[0]).outcomes}
    sizes = ("1KiB..64KiB", "0.5xL2", "4xLAST")
    suite = Suite(name="both", question="", select=(
        Select(probe="memory.latency"),
        Select(probe="memory.read_bandwidth", parameters={"size": sizes, "kernel": "portable"}),
    ))  # fmt: skip
    catalog = places.made_ready([], [], ProbeRequest(suite.select))
    plan = make_plan(suite, catalog, machine_of(catalog, ())[0], budget_seconds=1e6, seed=1, all_points=True)
    assert visited == set(plan.points())


@pytest.mark.parametrize(
    ("made", "cpus", "homes"),
    [
        (machine_trees.XEON, [*range(15, 0, -1)], {0, 1}),  # 8 to 15 and 0 to 7 are threads of eight cores
        (machine_trees.HYBRID, [11, 9, 7, 5, 3, 1, 13, 12, 15, 10, 8, 6, 4, 2, 0], {0}),
        (machine_trees.SPARSE, [*range(7, 0, -1)], {0, 8, 252, 900}),
    ],
    ids=["threads", "kinds", "nodes"],
)
def test_workers_are_on_distinct_and_fast_cores_and_every_memory_node_is_measured(
    made: machine_trees.Made, cpus: list[int], homes: set[int], tmp_path: Path
) -> None:
    probes = ("kernel.call_object", "memory.numa_latency")
    assert main(["bundle", probes[0], "channel=pipe", probes[1], "-o", str(tmp_path / "t.tar.gz")]) == 0
    subprocess.run(["tar", "xzf", tmp_path / "t.tar.gz", "-C", tmp_path], check=True)
    root = made.write(tmp_path / "machine")
    (runner,) = (tmp_path / "t").glob("*/toll-runner")
    for probe in probes:
        real = (runner.parent / probe).rename(tmp_path / probe)
        (runner.parent / probe).write_text(f'#!/bin/sh\nTOLL_SYSTEM_ROOT={root} exec {real} "$@"\n')
        (runner.parent / probe).chmod(0o755)
    subprocess.run(
        [runner, tmp_path / "t", "--budget", "2", "--out", tmp_path / "out"], capture_output=True, check=True
    )
    outcomes = read_journal(imported(tmp_path / "out", tmp_path / "run")[0]).outcomes
    given = {outcome.cpus for outcome in outcomes if outcome.point.probe == probes[0] and outcome.cpus}
    assert given == {tuple(cpus)}
    assert {outcome.point.values()["home"] for outcome in outcomes if outcome.point.probe == probes[1]} == homes


@pytest.mark.parametrize("budget_s", [3000, 8], ids=["all", "some"])
def test_a_bundle_visits_all_pairs_of_cpus_twice_or_says_how_many_it_left_out(budget_s: int, tmp_path: Path) -> None:
    """105 pairs of 15 of 16 CPUs, some of each relation first. The second process that visits ends early in one case,
    and with the budget in the other. Their visits are a fake's: two workers that wait for each other in loops take
    seconds for each of 315 visits if the host of a virtual machine does not run both CPUs at a time."""
    assert main(["bundle", "memory.ping_pong", "method=flag", "-o", str(tmp_path / "t.tar.gz")]) == 0
    subprocess.run(["tar", "xzf", tmp_path / "t.tar.gz", "-C", tmp_path], check=True)
    root, (runner,) = machine_trees.XEON.write(tmp_path / "machine"), (tmp_path / "t").glob("*/toll-runner")
    probe = runner.with_name("memory.ping_pong")
    real = probe.rename(tmp_path / "real")
    described = msgspec.to_builtins(indexed(places.ROOT)["memory.ping_pong"])
    probe.with_name("memory.ping_pong.json").write_text(json.dumps({"describe": described}))
    fake = f"{sys.executable} -I {Path(__file__).with_name('fake_probe.py')} {probe} --visits"
    odd = "sleep 8" if budget_s == 8 else f"{fake} | head -n 300 && exit 1"
    probe.write_text(
        f'#!/bin/sh\nexport TOLL_SYSTEM_ROOT={root}\n[ "$1" = --visits ] || exec {real} "$@"\n'
        f"echo >> {tmp_path}/starts\n[ $(wc -l < {tmp_path}/starts) = 2 ] && {odd}\nexec {fake}\n"
    )
    probe.chmod(0o755)
    words = [runner, tmp_path / "t", "--budget", str(budget_s), "--out", tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    outcomes = read_journal(imported(tmp_path / "out", tmp_path / "run")[0]).outcomes
    assert {outcome.status for outcome in outcomes} == {"ok"}
    first = [tuple(sorted(outcome.cpus)) for outcome in outcomes if outcome.round == 0]
    relations = {(a % 8 == b % 8, a % 2 == b % 2) for a, b in first}
    assert relations == {(True, True), (False, True), (False, False)}
    later = Counter(tuple(sorted(outcome.cpus)) for outcome in outcomes if outcome.round > 0)
    shares = Counter(later.values())
    said = re.findall(r"of 105 pairs of CPUs (\d+) were visited twice, (\d+) once; (\d+) were left out", done.stderr)
    assert said == [(f"{shares[2]}", f"{shares[1]}", f"{105 - len(later)}")] if budget_s == 8 else not said
    assert 0 < len(later) < 105 if budget_s == 8 else shares == {2: 105}


def test_a_value_that_a_parameter_does_not_have_is_refused(tmp_path: Path) -> None:
    assert main(["bundle", "memory.read_bandwidth", "kernel=fast", "-o", str(tmp_path / "t.sh")]) == 2
    assert not list(tmp_path.iterdir())


def test_every_suite_without_commands_of_this_machine_can_be_bundled() -> None:
    suites = [suite for suite in places.suites().values() if not suite.workload]
    catalog = places.made_ready([], [], ProbeRequest(tuple(select for suite in suites for select in suite.select)))
    abi = catalog.abis[0]
    for suite in suites:
        assert plan_text(suite, catalog, [abi], 60, 0.03).count("\nselect\t")


FEW_CALLS = (
    "read", "write", "open", "openat", "close", "mmap", "munmap", "mprotect", "brk", "fork", "clone", "execve", "wait4",
    "pipe", "pipe2", "dup2", "clock_gettime", "exit", "exit_group", "arch_prctl",
)  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
def test_a_kernel_with_twenty_calls_has_numbers_and_sentences(unpacked: Path, tmp_path: Path) -> None:
    forbidding = tmp_path / "forbidding"
    source = Path(__file__).parents[1] / "probes/forbidding.c"
    subprocess.run(["gcc", "-O2", "-o", forbidding, source], check=True)
    allowed = [str(numbers()[name]) for name in FEW_CALLS]
    (runner,) = unpacked.glob("*/toll-runner")
    words = [forbidding, "--only", *allowed, "--", runner, unpacked, "--out", "-", "--budget", "8"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0
    (tmp_path / "capture").write_bytes(done.stdout)
    outcomes = read_journal(imported(tmp_path / "capture", tmp_path / "run")[0]).outcomes
    well = {outcome.point.probe for outcome in outcomes if outcome.status == "ok"}
    ill = {outcome.point.probe for outcome in outcomes if outcome.status != "ok"}
    assert set(PROBES) <= well
    assert {"kernel.signal_self", "kernel.call_object"} <= ill
    assert all(outcome.reason for outcome in outcomes if outcome.status != "ok")


def test_a_header_of_an_archive_is_never_read_whole(tmp_path: Path) -> None:
    """A name of 64 MiB of zeros compresses to 64 KiB."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    with gzip.open(tmp_path / "t.tar.gz", "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(header.size))
    tracemalloc.start()
    try:
        with pytest.raises(Failure):
            imported(tmp_path / "t.tar.gz", tmp_path / "run")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_script_of_an_archive_measures_where_it_was_unpacked(unpacked: Path, tmp_path: Path) -> None:
    done = subprocess.run(["sh", unpacked / "run.sh", "--budget", "1"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    assert imported(tmp_path / "toll-run", tmp_path / "run")[1].visits


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
def test_it_runs_where_there_is_only_busybox(bundle: Path, busybox: Path, tmp_path: Path) -> None:
    for source, place in ((busybox, "bin/busybox"), (bundle, "t.sh")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(source, tmp_path / place)
    (tmp_path / "tmp").mkdir()
    words = ["chroot", tmp_path, "/bin/busybox", "sh", "/t.sh", "--budget", "2"]
    assert subprocess.run(words, capture_output=True, check=False, env={"PATH": "/bin:/usr/sbin"}).returncode == 0
    assert not list((tmp_path / "tmp").iterdir())
    assert imported(tmp_path / "toll-run", tmp_path / "run")[1].visits


def test_as_process_1_it_measures_prints_its_journal_and_turns_the_machine_off(
    bundle: Path, busybox: Path, tmp_path: Path
) -> None:
    board = BOARDS["guest:x32"]
    kernel, emulator = cached(board.kernel), shutil.which(board.emulator)
    if not kernel or not emulator or platform.machine() != "x86_64":
        pytest.skip("needs qemu-system-x86_64, and Debian's kernel in the cache of guests")
    shell = busybox.read_bytes()
    programs = {"/init": bundle.read_bytes(), "/bin/sh": shell, "/bin/busybox": shell}
    (tmp_path / "rd").write_bytes(archive(programs, ("/dev", "/tmp")))
    words = [emulator, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc", "-cpu",
             "max", "-m", "512", "-kernel", kernel, "-initrd", tmp_path / "rd", "-append",
             "console=ttyS0 quiet -- --budget 3", "-serial", f"file:{tmp_path}/serial"]  # fmt: skip
    assert subprocess.run(words, check=False, timeout=LONG_S).returncode == 0
    outcomes = read_journal(imported(tmp_path / "serial", tmp_path / "run")[0]).outcomes
    assert {outcome.point.probe for outcome in outcomes if outcome.status == "ok"} == set(PROBES)


@pytest.mark.parametrize(("abi", "emulator"), [("aarch64", "qemu-aarch64"), ("arm-soft", "qemu-arm")])
def test_the_runner_of_another_cpu_measures_under_an_emulator(abi: str, emulator: str, tmp_path: Path) -> None:
    known = known_abis(places.ROOT)[abi]
    command = shutil.which(emulator)
    if not command or isinstance(find_compiler(known), Lack):
        pytest.skip(f"needs {emulator} and the compiler of {abi}")
    out = tmp_path / "t.tar.gz"
    assert main(["bundle", *PROBES, "--abi", abi, "-o", str(out)]) == 0
    subprocess.run(["tar", "xzf", out, "-C", tmp_path], check=True)
    folder = tmp_path / "t" / abi
    for probe in PROBES:  # what the runner starts is a script, since this kernel starts no program of that CPU
        (folder / probe).rename(folder / f"own.{probe}")
        (folder / probe).write_text(f'#!/bin/sh\nexec {command} {folder}/own.{probe} "$@"\n')
        (folder / probe).chmod(0o755)
    words = [command, folder / "toll-runner", folder.parent, "--out", tmp_path / "out", "--budget", "3"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    outcomes = read_journal(imported(tmp_path / "out", tmp_path / "run")[0]).outcomes
    assert {outcome.point.probe for outcome in outcomes if outcome.status == "ok"} == set(PROBES)
    assert {outcome.point.abi for outcome in outcomes} == {abi}


def test_a_probe_that_cannot_describe_the_machine_does_not_stop_the_others(tmp_path: Path) -> None:
    """The runner asks the first executable that it finds; here it is one that says nothing."""
    assert main(["bundle", *PROBES, "-o", str(tmp_path / "t.tar.gz")]) == 0
    subprocess.run(["tar", "xzf", tmp_path / "t.tar.gz", "-C", tmp_path], check=True)
    (runner,) = (tmp_path / "t").glob("*/toll-runner")
    for probe in PROBES:
        (runner.parent / probe).write_text("#!/bin/sh\nexit 1\n")
    words = ["sh", tmp_path / "t/run.sh", "--budget", "1", "--out", tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LONG_S)
    assert done.returncode == 0 and "described as unknown" in done.stderr
    assert main(["import", str(tmp_path / "out"), "--out", str(tmp_path / "run")]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a namespace of processes")
def test_as_process_1_of_a_container_it_ends_and_keeps_its_journal(bundle: Path, tmp_path: Path) -> None:
    words = ["unshare", "--pid", "--fork", "--mount-proc", "sh", bundle, "--budget", "1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=LONG_S)
    assert done.returncode == 0
    assert imported(tmp_path / "toll-run", tmp_path / "run")[1].visits


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a sandbox of gVisor's without user namespaces")
def test_a_sandbox_of_gvisor_has_numbers(bundle: Path, tmp_path: Path) -> None:
    runsc = shutil.which("runsc")
    if not runsc:
        pytest.skip("needs Debian's package runsc")
    options = ["--network=none", "--rootless", "--ignore-cgroups", "--platform=ptrace"]
    words = [runsc, *options, "do", "sh", bundle, "--budget", "3", "--out", "-"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=LONG_S, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "capture").write_bytes(done.stdout)
    outcomes = read_journal(imported(tmp_path / "capture", tmp_path / "run")[0]).outcomes
    assert {outcome.point.probe for outcome in outcomes if outcome.status == "ok"} == set(PROBES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
def test_it_runs_with_toyboxs_tools(bundle: Path, tmp_path: Path) -> None:
    """Toybox in Debian has neither a shell nor xz."""
    programs = {name: shutil.which(name) for name in ("toybox", "dash", "xz")}
    if missing := [name for name, path in programs.items() if not path]:
        pytest.skip(f"needs {', '.join(missing)}")
    for path in programs.values():
        libraries = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for file in (str(path), *re.findall(r"/\S+", libraries)):
            (tmp_path / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, tmp_path / file[1:])
    for tool in ("tail", "head", "tar", "sha256sum", "uname", "mkdir", "rm", "sed"):
        (tmp_path / "usr/bin" / tool).symlink_to("toybox")
    for place in ("bin", "tmp"):
        (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / "bin/sh").symlink_to(str(programs["dash"]))
    shutil.copy(bundle, tmp_path / "t.sh")
    words = ["/usr/sbin/chroot", tmp_path, "/bin/sh", "/t.sh", "--budget", "2"]
    done = subprocess.run(words, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "tmp").iterdir())
    assert imported(tmp_path / "toll-run", tmp_path / "run")[1].visits
