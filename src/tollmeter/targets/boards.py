# SPDX-License-Identifier: Apache-2.0
"""The emulated machines of targets/qemu_system.py, and whether this CPU can run a guest directly, through /dev/kvm, so
that its time is the hardware's.

The device alone is not sufficient. A hypervisor may provide it without the CPU's own virtualization (`vmx` or `svm`
among the CPU's flags): each instruction of the guest's kernel is then emulated, on one such machine (Linux 6.18,
`nested_pvm`) so slowly that Debian's kernel had not printed its first line after 40 s."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Clock, Failure
from tollmeter.protocol import clean
from tollmeter.targets.debian_kernel import KernelChoice

KVM = Path("/dev/kvm")
_CPU = Path("/proc/cpuinfo")


class Board(NamedTuple):
    """An emulated machine: emulator, Debian package, QEMU's arguments, and its serial lines. ours: a file of
    build/emulator: process 1 under Debian's kernel, or the image that boots if `kernel` is None. abi: the default one;
    empty for this machine's own. cpu: the architecture whose own CPU can run it. shift: an instruction takes 2^shift ns
    of virtual time. has_console: the first serial line is the kernel's own; else the board's only line is the wire,
    which carries the command protocol. files_at: where the emulator puts the first file system, if the board has no
    boot loader that does."""

    emulator: str
    package: str
    words: tuple[str, ...]
    kernel: KernelChoice | None
    ours: str
    command_line: str
    abi: str = ""
    cpu: str = ""
    shift: int = 0
    has_console: bool = True
    files_at: int = 0


_ARM = "arm-hard"


def _bare_arm(machine: str) -> Board:
    """Returns an ARM board. Its second serial line is the wire, as in a guest: the first carries the supervisor's own
    messages."""
    words = ("-machine", machine, "-m", "1024")
    return Board("qemu-system-arm", "qemu-system-arm", words, None, "bare.arm", "wire=0x1000a000", _ARM)


def _bare_virt(abi: str, package: str, *cpu: str) -> Board:
    words = ("-machine", "virt", *cpu, "-m", "1024")
    return Board(f"qemu-system-{abi}", package, words, None, f"bare.{abi}", "clock=counted", abi, has_console=False)


BOARDS = {
    "guest:x32": Board(
        emulator="qemu-system-x86_64",
        package="qemu-system-x86",
        words=("-machine", "pc", "-cpu", "max", "-m", "1024"),
        kernel=KernelChoice("amd64", "linux-image-amd64", None, "-amd64-di"),
        ours="init.x86_64",
        command_line="console=ttyS0 wire=/dev/ttyS1 syscall.x32=y",
        cpu="x86_64",
    ),
    "guest:vexpress-a9": Board(
        emulator="qemu-system-arm",
        package="qemu-system-arm",
        words=("-machine", "vexpress-a9", "-m", "1024"),
        kernel=KernelChoice("armhf", "linux-image-armmp", "vexpress-v2p-ca9.dtb"),
        ours="init.arm",
        command_line="console=ttyAMA0 wire=/dev/ttyAMA1",
        abi=_ARM,
    ),
    # A 24Kc has no FPU: the kernel emulates the FPU's instructions (arch/mips/math-emu). The kernel finds the rate of
    # its timer by waiting for two seconds of the real-time clock, which therefore has to run on virtual time, and would
    # take 2^31 instructions at 1 ns each. In this emulator the CPU's `wait` was seen to miss the wire's interrupt.
    "guest:malta": Board(
        emulator="qemu-system-mipsel",
        package="qemu-system-mips",
        words=("-machine", "malta", "-cpu", "24Kc", "-m", "256", "-rtc", "clock=vm"),
        kernel=KernelChoice("mipsel", "linux-image-4kc-malta", None),
        ours="init.mipsel",
        command_line="console=ttyS0 wire=/dev/ttyS1 nowait",
        abi="mipsel",
        shift=5,
    ),
    # Its second UART belongs to the secure world, so that the wire is a card; QEMU names the second line serial1.
    "guest:virt": Board(
        emulator="qemu-system-aarch64",
        package="qemu-system-arm",
        words=("-machine", "virt", "-cpu", "cortex-a72", "-m", "1024", "-device", "pci-serial,chardev=serial1"),
        kernel=KernelChoice("arm64", "linux-image-arm64", None, "-arm64-di"),
        ours="init.aarch64",
        command_line="console=ttyAMA0 wire=/dev/ttyS0",
        abi="aarch64",
    ),
    "bare:vexpress-a9": _bare_arm("vexpress-a9"),
    "bare:realview-pbx-a9": _bare_arm("realview-pbx-a9"),
    "bare:virt-aarch64": _bare_virt("aarch64", "qemu-system-arm", "-cpu", "cortex-a72"),
    "bare:virt-riscv64": _bare_virt("riscv64", "qemu-system-misc"),
    "bare:leon3": Board(
        emulator="qemu-system-sparc",
        package="qemu-system-sparc",
        words=("-machine", "leon3_generic", "-m", "256"),
        kernel=None,
        ours="bare.sparc",
        command_line="",
        abi="sparc-v8",
        has_console=False,
        files_at=0x40400000,
    ),
}
"""Boards by target name. The Debian kernel for clouds boots faster, but does not support x32."""


def board_of(name: str) -> Board:
    """Returns the board of a name. Raises Failure with the known boards."""
    if name not in BOARDS:
        raise Failure(f"there is no guest or board {clean(name)!r}; known: {', '.join(BOARDS)}")
    return BOARDS[name]


def clock_here(name: str) -> Clock:
    """Returns the clock of a board on this machine."""
    board = BOARDS.get(name)
    return "hardware" if board and board.cpu == platform.machine() and has_kvm() else "virtual"


def has_kvm() -> bool:
    """Returns whether the device can be opened and the CPU supports virtualization. Only x86 kernels list the flags;
    guests of other CPUs are emulated."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return False
    flags = re.search(r"^flags.*:(.*)$", _CPU.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return flags is not None and not {"vmx", "svm"}.isdisjoint(flags[1].split())
