# SPDX-License-Identifier: Apache-2.0
"""Emulators: a count that is exact, a guest that never boots, and no emulator that outlives its host."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stands
from tollmeter.build import build_abi, read_abi
from tollmeter.model import Failure, Point, Visit
from tollmeter.protocol import head, outcome
from tollmeter.targets import debian_kernel, qemu_system
from tollmeter.targets.leash import leashed
from tollmeter.targets.qemu_system import BOARDS, Guest
from tollmeter.targets.qemu_user import QemuUser

COMPILERS = {"arm-soft": "arm-linux-gnueabi-gcc-12", "s390x": "s390x-linux-gnu-gcc-12"}
ARCHITECTURES = {"arm-soft": "arm", "s390x": "s390x"}


def visit(target: str, abi: str = "x86_64", probe: str = "kernel.enter") -> Visit:
    point = Point(probe=probe, abi=abi, target=target)
    return Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=20000)


# ---- counting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abi", COMPILERS)
def test_counting_twice_gives_the_same_and_an_iteration_is_a_whole_number(abi: str, tree: Path, root: Path) -> None:
    """On a little-endian and a big-endian CPU. The body is a loop that does nothing else."""
    stands.need(COMPILERS[abi], f"qemu-{ARCHITECTURES[abi]}")
    build_abi(tree, read_abi(root / f"abis/{abi}.toml"), COMPILERS[abi])
    executable = str(tree / f"build/{abi}/kernel.loop")
    target = QemuUser(ARCHITECTURES[abi], stands.emulator_file("count.so"))
    asked = visit(target.name, abi, "kernel.loop")
    first, second = (target.run(executable, asked, 1) for _ in range(2))
    assert first == second
    back = outcome(first)
    assert (back.status, back.clock.kind) == ("ok", "instructions")
    for taken in back.samples:
        count = (taken.body[1] - taken.body[0]) / taken.iterations
        assert count == int(count) >= 1
        assert (taken.witness.cpu_before, taken.witness.minor_faults) == (-1, 0)
    told = head(target.machine(executable)).machine
    assert told
    assert (told.core_clock_hz, told.caches) == (None, ())


# ---- guests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def guest() -> Guest:
    stands.need("qemu-system-x86_64", "gcc")
    return Guest("guest:x32", stands.emulator_file("init.x86_64").parent)


def test_a_guest_that_never_boots_is_named_and_not_tried_for_each_visit(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu_system, "BOOT_S", 0.3)
    executable = str(stands.rogue(tmp_path, "gcc", "good"))
    back = outcome(guest.run(executable, visit(guest.name), 1))
    assert back.status == "infrastructure"
    assert "did not boot" in (back.reason or "")
    began = time.monotonic()
    assert all(outcome(guest.run(executable, visit(guest.name), 1)).status == "infrastructure" for _ in range(20))
    assert time.monotonic() - began < 3
    assert not emulators(guest.scratch.name)
    guest.close()


def test_a_kernel_that_cannot_be_had_is_named(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = BOARDS["guest:x32"].kernel
    assert kernel
    with pytest.raises(Failure) as caught:
        debian_kernel.fetched(kernel)
    assert caught.value.exit_code == 5
    assert "apt" in caught.value.sentence
    guest.close()


def test_a_kernel_that_refuses_an_abi_is_a_gap(guest: Guest, tmp_path: Path) -> None:
    stands.need("arm-linux-gnueabi-gcc-12")
    back = outcome(guest.run(str(stands.rogue(tmp_path, "arm-linux-gnueabi-gcc-12", "good")), visit(guest.name), 1))
    assert back.status == "unsupported"
    guest.close()


# ---- orphans ------------------------------------------------------------------------------------------------------

HOST = """
import sys, time
from pathlib import Path
from tollmeter.targets.qemu_system import Guest
guest = Guest(sys.argv[3], Path(sys.argv[1]))
print(guest.scratch.name, flush=True)
guest.prepare([sys.argv[2]])
print("booted", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("name", "compiler"), [("guest:x32", "gcc"), ("bare:vexpress-a9", "arm-linux-gnueabi-gcc-12")])
@pytest.mark.parametrize("moment", ["at once", "while it boots", "while it sleeps"])
def test_no_emulator_outlives_a_host_that_is_killed(moment: str, name: str, compiler: str, tmp_path: Path) -> None:
    stands.need(BOARDS[name].emulator, compiler)
    folder = stands.emulator_file(BOARDS[name].ours).parent
    words = [sys.executable, "-c", HOST, str(folder), str(stands.rogue(tmp_path, compiler, "good")), name]
    environment = {"PYTHONPATH": str(stands.ROOT / "src"), "PATH": "/usr/bin:/bin:/usr/sbin", "HOME": str(Path.home())}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as host:
        assert host.stdout
        scratch = host.stdout.readline().strip()
        if moment == "while it boots":
            limit = time.monotonic() + 20
            while not emulators(scratch) and time.monotonic() < limit:
                time.sleep(0.01)
            assert emulators(scratch)
        elif moment == "while it sleeps":
            assert host.stdout.readline() == "booted\n"
            assert emulators(scratch)
        host.send_signal(signal.SIGKILL)
    limit = time.monotonic() + 5
    while emulators(scratch) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not emulators(scratch)
    shutil.rmtree(Path("/tmp") / scratch, ignore_errors=True)


def emulators(scratch: str) -> list[str]:
    """Command lines that name a guest's folder, but for those of hosts."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if re.search(r"qemu-system|setpriv", line.split("\0")[0]) and scratch in line:
                found.append(line)
    return found


def test_what_is_started_for_a_parent_that_is_gone_does_not_start() -> None:
    """The request to die with a parent is worth nothing if that died before it: the number tells."""
    words = leashed(["echo", "started"])
    words[words.index("-c") + 2] = "1"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode != 0) == ("", True)
    assert (
        subprocess.run(leashed(["echo", "started"]), capture_output=True, text=True, check=True).stdout == "started\n"
    )
