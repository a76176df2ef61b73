# SPDX-License-Identifier: Apache-2.0
"""Whether the CPU itself can run a guest here, through /dev/kvm: then its time is the hardware's.

The device alone is not sufficient. A hypervisor may provide it without the CPU's own virtualization (`vmx` or `svm`
among the CPU's flags): each instruction of the guest's kernel is then emulated, on one such machine (Linux 6.18,
`nested_pvm`) so slowly that Debian's kernel had not printed its first line after 40 s."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

DEVICE = Path("/dev/kvm")
_CPU = Path("/proc/cpuinfo")
_HARDWARE = {"vmx", "svm"}


def lack(architecture: str) -> str:
    """Why a guest of an architecture, as `uname -m` names it, has no hardware's time here; empty where it has."""
    if architecture != platform.machine():
        return f"this CPU is no {architecture}"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} cannot be opened" if DEVICE.exists() else f"there is no {DEVICE}"
    if not _HARDWARE & _flags():
        return f"{DEVICE} is there, but the CPU's own virtualization (vmx, svm) is not"
    return ""


def _flags() -> set[str]:
    """The flags of the first CPU. Only x86 kernels name them so; guests of other CPUs are emulated."""
    for line in _CPU.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def pin_threads(process: int, cpu: int) -> None:
    """A guest's CPU is a thread of its emulator, and the system would move that about."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            os.sched_setaffinity(int(thread.name), {cpu})
