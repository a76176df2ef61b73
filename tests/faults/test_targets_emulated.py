# SPDX-License-Identifier: Apache-2.0
"""Emulators: a count that is exact, a guest that never boots, and no emulator that outlives its host."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median

import msgspec
import pytest

from support import runtime_objects, target_stands
from support.waiting import LONG_S, in_time
from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import head, outcome
from tollmeter.targets import debian_kernel, qemu_system
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.child import leashed
from tollmeter.targets.qemu_system import Guest
from tollmeter.targets.qemu_user import QemuUser
from tollmeter.toolchain.abis import read_abi, read_abis
from tollmeter.toolchain.build import build_abi, find_compiler

ARCHITECTURES = {
    abi.name: way.partition(":")[2]
    for abi in read_abis(target_stands.ROOT / "abis").values()
    for way in abi.runs
    if way.startswith("qemu-user:")
}
"""Every ABI that an emulator of one process runs, and its CPU as QEMU names it."""
ONE_OF_EACH = ("aarch64", "arm-soft", "arm-v4t", "ia32", "loongarch64", "mipsel", "ppc64le", "riscv32", "riscv64",
               "s390x", "sparc64", "x86_64")  # fmt: skip
"""One ABI for each of these CPUs. For each further one the runtime would be compiled, which takes 5 s."""
TIMES, SAME = 5, 0.005
SOFT = "float.dot"
LENGTHS = """
struct packet { void *next; unsigned short whole, part; } packet = {0, 60, 54};
__attribute__((noipa)) void without(struct packet *of, unsigned long header) {
  of->part -= header;
  of->whole -= header;
}
__attribute__((noipa)) void with(struct packet *of, unsigned long header) {
  of->part += header;
  of->whole += header;
}
int main(void) {
  without(&packet, 14);
  if (packet.whole != 46 || packet.part != 40) return 1;
  with(&packet, 20);
  return packet.whole != 66 || packet.part != 60;
}
"""


def visit(target: str, abi: str = "x86_64", probe: str = "kernel.enter") -> Visit:
    point = Point(probe=probe, abi=abi, target=target)
    return Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=20000)


# ---- counting -----------------------------------------------------------------------------------------------------


def built(tree: Path, abi: str) -> Path:
    """Its folder of executables; a test of an ABI that this machine has no compiler for is skipped."""
    read = read_abi(target_stands.ROOT / f"abis/{abi}.toml")
    compiler = find_compiler(read)
    if not isinstance(compiler, str):
        pytest.skip(compiler.reason)
    runtime_objects.lend(tree, abi)
    build_abi(tree, read, compiler)
    runtime_objects.keep(tree, abi)
    return tree / "build" / abi


@pytest.mark.parametrize("abi", ARCHITECTURES)
def test_an_emulator_computes_what_the_compiler_meant(abi: str, tmp_path: Path) -> None:
    """Two neighbours of 16 bits, which a compiler may join to one vector operation: lengths of a packet are such."""
    target_stands.need(f"qemu-{ARCHITECTURES[abi]}")
    read = read_abi(target_stands.ROOT / f"abis/{abi}.toml")
    compiler = find_compiler(read)
    if not isinstance(compiler, str):
        pytest.skip(compiler.reason)
    (tmp_path / "lengths.c").write_text(LENGTHS)
    words = [*compiler.split(), *read.flags, "-O2", "-static", "-o", "lengths", "lengths.c"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=LONG_S)
    assert (
        subprocess.run([f"qemu-{ARCHITECTURES[abi]}", tmp_path / "lengths"], check=False, timeout=LONG_S).returncode
        == 0
    )


def test_a_count_is_tested_on_every_cpu() -> None:
    assert {ARCHITECTURES[abi] for abi in ONE_OF_EACH} == {*ARCHITECTURES.values()}


@pytest.mark.parametrize("abi", ONE_OF_EACH)
def test_counting_twice_gives_the_same_and_an_iteration_is_a_whole_number(abi: str, tree: Path) -> None:
    """On every CPU, whatever its order of bytes. The body is a loop that does nothing else."""
    target_stands.need(f"qemu-{ARCHITECTURES[abi]}")
    executable = str(built(tree, abi) / "kernel.loop")
    target = QemuUser(ARCHITECTURES[abi], target_stands.emulator_file("count.so"))
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


def test_counting_a_library_twice_gives_the_same(tree: Path) -> None:
    """Of soft floating point, whose instructions depend on the values: the same seed, the same values."""
    target_stands.need("qemu-arm")
    shutil.copytree(target_stands.ROOT / "probes/float", tree / "probes/float")
    executable = str(built(tree, "arm-soft") / SOFT)
    target = QemuUser("arm", target_stands.emulator_file("count.so"))
    values = (("n", 16), ("precision", "double"), ("way", "emulated"))
    point = Point(probe=SOFT, abi="arm-soft", target=target.name, parameters=values)
    asked = msgspec.structs.replace(visit(target.name), point=point)
    counts = [[taken.body for taken in outcome(target.run(executable, asked, 1)).samples] for _ in range(3)]
    assert counts[0] and counts[0] == counts[1] == counts[2]
    other = msgspec.structs.replace(asked, seed=asked.seed + 1)
    assert [taken.body for taken in outcome(target.run(executable, other, 1)).samples] != counts[0]


# ---- guests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def guest() -> Guest:
    target_stands.need("qemu-system-x86_64", "gcc")
    return Guest("guest:x32", target_stands.emulator_file("init.x86_64").parent)


def test_a_guest_that_never_boots_is_named_and_not_tried_for_each_visit(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu_system, "BOOT_S", 0.3)
    executable = str(target_stands.rogue(tmp_path, "gcc", "good"))
    back = outcome(guest.run(executable, visit(guest.name), 1))
    assert back.status == "infrastructure"
    assert "did not boot" in (back.reason or "")
    monkeypatch.setattr(guest, "_boot", None)
    assert all(outcome(guest.run(executable, visit(guest.name), 1)).status == "infrastructure" for _ in range(20))
    assert not emulators(guest.scratch.name)
    guest.close()


def hanging_kernel() -> bytes:
    """A kernel for x86 that jumps to itself at once ("The Linux/x86 Boot Protocol": a header, then code)."""
    image = bytearray(64 * 1024)
    image[0x1F1] = 1  # sectors of real-mode code
    image[0x1FE:0x202] = b"\x55\xaa\xeb\xfe"
    image[0x202:0x208] = b"HdrS\x06\x02"
    image[0x211] = 1  # the rest is loaded high
    image[0x22C:0x230] = (0x7FFFFFFF).to_bytes(4, "little")
    return bytes(image)


def test_a_kernel_that_hangs_is_ended_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target_stands.need("qemu-system-x86_64", "gcc")
    kernel = tmp_path / "tollmeter/kernels/linux-image-amd64/image"
    kernel.parent.mkdir(parents=True)
    kernel.write_bytes(hanging_kernel())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(qemu_system, "BOOT_S", 2.0)
    target = Guest("guest:x32", target_stands.emulator_file("init.x86_64").parent)
    back = outcome(target.run(str(target_stands.rogue(tmp_path, "gcc", "good")), visit(target.name), 1))
    assert (back.status, "did not boot: no end within" in (back.reason or "")) == ("infrastructure", True)
    assert not emulators(target.scratch.name)
    target.close()
    # The same within a budget that leaves less time: too short, and no fault of the target.
    monkeypatch.setattr(qemu_system, "BOOT_S", 60.0)
    target = Guest("guest:x32", target_stands.emulator_file("init.x86_64").parent)
    hurried = msgspec.structs.replace(visit(target.name), wall_ms=1500)
    back = outcome(target.run(str(target_stands.rogue(tmp_path, "gcc", "good")), hurried, 1))
    assert (back.status, "did not boot: no end within" in (back.reason or "")) == ("timeout", True)
    target.close()


def test_a_kernel_that_cannot_be_had_is_named(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    kernel = BOARDS["guest:x32"].kernel
    assert kernel
    with pytest.raises(Failure) as caught:
        debian_kernel.fetched_kernel(kernel)
    assert caught.value.exit_code == 5
    assert "apt" in caught.value.sentence
    guest.close()


@pytest.mark.parametrize(
    ("name", "abi", "same"),
    [("guest:x32", "x86_64", SAME), ("guest:vexpress-a9", "arm-soft", SAME), ("guest:malta", "mipsel", 4 * SAME)],
)
def test_virtual_time_repeats(name: str, abi: str, same: float, tree: Path) -> None:
    """However short the samples that are asked for: the timer's interrupts fall into each alike. In guest:malta, whose
    instructions take 32 ns, they take 32 times as large a share."""
    target_stands.need(BOARDS[name].emulator)
    executable = str(built(tree, abi) / "kernel.loop")
    target = Guest(name, target_stands.emulator_file(BOARDS[name].ours).parent)
    target.prepare([executable])
    told = [outcome(target.run(executable, visit(name, abi, "kernel.loop"), 1)) for _ in range(TIMES)]
    target.close()
    assert {back.status for back in told} == {"ok"}, told[0].reason
    costs = [middle(back) for back in told]
    assert max(costs) / min(costs) - 1 <= same, costs


def middle(told: Outcome) -> float:
    """The median cost of an iteration."""
    return median((taken.body[1] - taken.body[0]) / taken.iterations for taken in told.samples)


# ---- orphans ------------------------------------------------------------------------------------------------------

HOST = """
import sys, time
from pathlib import Path
from tollmeter.targets import qemu_system
qemu_system.BOOT_S = float(sys.argv[4])
guest = qemu_system.Guest(sys.argv[3], Path(sys.argv[1]))
print(guest.scratch.name, flush=True)
guest.prepare([sys.argv[2]])
print("booted", flush=True)
time.sleep(60)
"""


GUEST, BOARD = ("guest:x32", "gcc"), ("bare:vexpress-a9", "arm-linux-gnueabi-gcc-12")


@pytest.mark.parametrize(
    ("moment", "name", "compiler"),
    [("at once", *BOARD), ("while it boots", *GUEST), ("while it boots", *BOARD), ("while it sleeps", *BOARD)],
)
def test_no_emulator_outlives_a_host_that_is_killed(moment: str, name: str, compiler: str, tmp_path: Path) -> None:
    target_stands.need(BOARDS[name].emulator, compiler)
    folder = target_stands.emulator_file(BOARDS[name].ours).parent
    words = [
        sys.executable,
        "-c",
        HOST,
        str(folder),
        str(target_stands.rogue(tmp_path, compiler, "good")),
        name,
        str(LONG_S),
    ]
    environment = {
        "PYTHONPATH": str(target_stands.ROOT / "src"),
        "PATH": "/usr/bin:/bin:/usr/sbin",
        "HOME": str(Path.home()),
    }
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as host:
        assert host.stdout
        scratch = host.stdout.readline().strip()
        if moment == "while it boots":
            assert in_time(lambda: emulators(scratch))
        elif moment == "while it sleeps":
            assert host.stdout.readline() == "booted\n"
            assert emulators(scratch)
        host.send_signal(signal.SIGKILL)
    assert in_time(lambda: not emulators(scratch))
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


def test_a_file_beside_a_probe_appears_whole(tmp_path: Path) -> None:
    """Another process that opens a half-written plugin fails."""
    (tmp_path / "cc").write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -o ]; do shift; done\n'
        'echo half > "$2"; ls build/emulator/*.so > seen; echo whole > "$2"\n'
    )
    (tmp_path / "cc").chmod(0o755)
    shutil.copytree(target_stands.ROOT / "emulator", tmp_path / "emulator")
    command = ["make", "-s", "-f", "emulator/emulator.mk", "build/emulator/count.so", f"CC={tmp_path / 'cc'}"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "seen").read_text() == ""
    assert [file.read_text() for file in (tmp_path / "build/emulator").iterdir()] == ["whole\n"]
