# SPDX-License-Identifier: Apache-2.0
"""How this machine starts an executable: by itself, or by the loader of x32 where the kernel does not know that ABI.

x32 is 64-bit mode with 32-bit pointers, which every x86-64 CPU runs; only its system calls and exec need the kernel.
The loader (emulator/x32_loader) makes the native calls in their place. It needs Syscall User Dispatch, Linux 5.11."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from functools import lru_cache
from pathlib import Path

from tollmeter.model import Abi
from tollmeter.root import ROOT

NAME = "x32-loader"
LOADER = ROOT / "build/emulator" / NAME
_X32_GETPID = 0x40000000 + 39
_PR_SET_SYSCALL_USER_DISPATCH, _OFF = 59, 0
_ELF_32, _ELF_32_BITS, _X86_64 = 1, 32, 62


def command(executable: str | Path) -> list[str]:
    """The words that start it here."""
    return [str(LOADER), str(executable)] if is_loaded(str(executable)) else [str(executable)]


def is_for(abi: Abi) -> bool:
    """Whether the loader starts executables of an ABI here."""
    return _is_x32(abi) and serves_x32()


def is_run_here(abi: Abi) -> bool:
    """Whether this CPU runs it, and the kernel or the loader starts it."""
    return platform.machine() in abi.runs_on and (not _is_x32(abi) or has_x32() or serves_x32())


def _is_x32(abi: Abi) -> bool:
    return abi.elf.get("class") == _ELF_32_BITS and abi.elf.get("machine") == "EM_X86_64"


@lru_cache(maxsize=1024)
def is_loaded(executable: str) -> bool:
    """Whether the kernel does not start it, and the loader does."""
    try:
        with Path(executable).open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    is_x32 = head[:4] == b"\x7fELF" and head[4] == _ELF_32 and struct.unpack_from("<H", head, 18) == (_X86_64,)
    return is_x32 and serves_x32()


@lru_cache(maxsize=1)
def has_x32() -> bool:
    """Whether this kernel runs x32 by itself."""
    is_x86 = platform.machine() == "x86_64"
    return is_x86 and ctypes.CDLL(None).syscall(ctypes.c_long(_X32_GETPID)) == os.getpid()


@lru_cache(maxsize=1)
def serves_x32() -> bool:
    """Whether this kernel has no x32, and has what the loader needs."""
    if platform.machine() != "x86_64" or has_x32():
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_SYSCALL_USER_DISPATCH, _OFF, 0, 0, 0) == 0)
