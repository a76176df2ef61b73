# SPDX-License-Identifier: Apache-2.0
"""QEMU's `virt` boards of 64 bits and its LEON3 without an operating system, started by QEMU and by U-Boot."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import target_stands
from support.waiting import LONG_S
from tollmeter.model import Failure
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.qemu_system import _ALWAYS, _ENDED, _READY, Guest, Wire, archive
from tollmeter.toolchain import brought_compilers

CPUS = {"aarch64": "bare:virt-aarch64", "riscv64": "bare:virt-riscv64", "sparc": "bare:leon3"}
U_BOOT = {"aarch64": "qemu_arm64", "riscv64": "qemu-riscv64_smode"}
SIGILL, SIGBUS, SIGKILL, SIGSEGV = -4, -7, -9, -11


def need(cpu: str) -> Path:
    """The folder of the supervisor."""
    board = BOARDS[CPUS[cpu]]
    target_stands.need(board.emulator, brought_compilers.MUSL_COMPILER if cpu == "sparc" else f"{cpu}-linux-gnu-gcc-12")
    if cpu == "sparc":
        try:
            brought_compilers.bring_musl(target_stands.ROOT)
        except Failure as failure:
            pytest.skip(failure.sentence)
    return target_stands.emulator_file(board.ours).parent


def compiled(cpu: str, folder: Path) -> Path:
    made = folder / "supervised"
    source = target_stands.ROOT / "tests/faults/supervised.c"
    flags = ("-std=gnu11", "-O1", "-static", "-Wno-infinite-recursion")
    compiler = (
        brought_compilers.compiler_command(brought_compilers.MUSL) if cpu == "sparc" else (f"{cpu}-linux-gnu-gcc-12",)
    )
    subprocess.run([*compiler, *flags, str(source), "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="module", params=CPUS)
def board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guest, str]]:
    cpu = request.param
    target = Guest(CPUS[cpu], need(cpu))
    try:
        yield target, str(compiled(cpu, tmp_path_factory.mktemp(cpu)))
    finally:
        target.close()


@pytest.mark.parametrize(
    ("act", "status", "printed"),
    [
        ("caught", 0, "1 handled, 7"),
        ("alarmed", 0, "sum kept"),
        ("slept", 0, "2.500 s"),
        ("forked", 0, "-1, Function not implemented"),
        ("pages", SIGKILL, ""),
        ("null", SIGSEGV, ""),
        ("supervisor", SIGSEGV, ""),
        ("text", SIGSEGV, ""),
        ("nowhere", SIGSEGV, ""),
        ("unknown", SIGILL, ""),
        ("overflow", SIGSEGV, ""),
        ("deep", 0, "3, 820"),
        ("misaligned", 0, "0 wrong"),
        ("nothing that it knows, in more letters than a UART holds", 2 << 8, ""),
    ],
)
def test_what_a_program_does_has_the_end_that_linux_gives_it(
    board: tuple[Guest, str], act: str, status: int, printed: str
) -> None:
    """Twice, since the second must find nothing of the first."""
    target, program = board
    for _ in range(2):
        ended, output = target_stands.ended(target, program, act)
        assert (ended, output.decode().strip()) == (status >> 8 if status > 0 else status, printed)


def test_a_sparc_s_program_that_did_not_ask_gets_the_signal_of_a_misaligned_load(
    board: tuple[Guest, str],
) -> None:
    """Also after one that did."""
    target, program = board
    if target.name != CPUS["sparc"]:
        pytest.skip("this CPU loads from any address")
    assert target_stands.ended(target, program, "misaligned")[0] == 0
    assert target_stands.ended(target, program, "unmended")[0] == SIGBUS


@pytest.mark.parametrize(
    ("cpu", "command"),
    [
        ("aarch64", "booti {address} - ${{fdtcontroladdr}}"),
        ("riscv64", "go {address} timer_hz=10000000"),
    ],
)
def test_u_boot_starts_the_image_with_its_programs(cpu: str, command: str, tmp_path: Path) -> None:
    """The programs follow the supervisor in one file."""
    folder = need(cpu)
    loader = Path("/usr/lib/u-boot") / U_BOOT[cpu] / "u-boot.bin"
    if not loader.is_file():
        pytest.skip(f"no {loader} here: apt-get install u-boot-qemu")
    supervisor = (folder / f"bare.{cpu}").read_bytes()
    image = tmp_path / "toll.img"
    image.write_bytes(supervisor + archive({"/supervised": compiled(cpu, tmp_path).read_bytes()}))
    address = {"aarch64": "0x42000000", "riscv64": "0x84000000"}[cpu]
    board = BOARDS[CPUS[cpu]]
    started = ("-bios" if cpu == "aarch64" else "-kernel", str(loader))
    loaded = ("-device", f"loader,file={image},addr={address},force-raw=on")
    wire = Wire(
        [board.emulator, *_ALWAYS, *board.words, *started, *loaded, "-serial", "stdio"], tmp_path / "emulator", {}
    )
    try:
        wire.until(re.compile(rb"stop autoboot"), LONG_S)
        wire.send("")
        wire.until(re.compile(rb"=> "), LONG_S)
        wire.send(command.format(address=address))
        wire.until(_READY, LONG_S)
        wire.send("/supervised forked")
        output, mark = wire.until(_ENDED, LONG_S)
    finally:
        wire.end()
    assert (output.strip(), mark.group(2)) == (b"-1, Function not implemented", b"0")
