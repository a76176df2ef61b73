# SPDX-License-Identifier: Apache-2.0
"""Calls make for one ABI, and reads from what it says which probes it could not build: one of them stops no other."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tollmeter.model import Abi, Failure
from tollmeter.protocol import clean
from tollmeter.toolchain.distribution import install_line

_LOOKED_AT_EVERY_S = 0.2
_ERROR = re.compile(r"^(?:(\S+?:\d+):)?.*?(?:error: |undefined reference to )(.*)$", re.MULTILINE)
_RUNTIME = "runtime"

# A linker takes 35 MB in pieces, and half its time to have them cleared page by page: huge pages are cleared at once.
# Of another C library nobody reads this.
_HUGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
_LONGEST = 200

# Which NAME.ARCH.S belong to an ELF machine.
_ARCHITECTURES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i386",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "arm",
    "EM_RISCV": "riscv64",
    "EM_MIPS": "mips",
    "EM_SPARCV9": "sparc64",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390x",
}


def make(
    root: Path, abi: Abi, compiler: str, goal: str = "all", watch: Callable[[float], None] = lambda _: None
) -> dict[str, str]:
    """Gives a sentence for each probe that does not build. watch: called every now and then with the time at which make
    began. Raises Failure where make cannot be started, or what fails is not one probe's.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            with subprocess.Popen(
                _words(abi, compiler, goal), cwd=root, stdout=subprocess.DEVNULL, stderr=said, env=_environment()
            ) as process:
                status = _awaited(process, watch)
        except OSError as error:
            raise Failure(f"make cannot be started: {error.strerror}. {install_line(['make'])}", 5) from error
        return _broken(abi, goal, said) if status != 0 else {}


def _broken(abi: Abi, goal: str, said: IO[str]) -> dict[str, str]:
    said.seek(0)
    text = said.read()
    sys.stderr.write(text)
    found = broken_probes(abi.name, text)
    if not found or any(probe.startswith(f"{_RUNTIME}.") for probe in found):
        raise Failure(f"{goal} does not build for {abi.name}: what the compiler said stands above", 1)
    return found


def broken_probes(abi: str, said: str) -> dict[str, str]:
    """From what make and the compiler said, one target's words together: each probe's own first complaint."""
    target = rf"build/{re.escape(abi)}/(?:obj/)?(\w+)[./](\w+)"
    failed = re.compile(rf"^make[^\n]*\*\*\* \[[^\]\n]*{target}[^\]\n]*\]", re.MULTILINE)
    found: dict[str, str] = {}
    before = 0
    for one in failed.finditer(said):
        complaint = _ERROR.search(said, before, one.start())
        words = ": ".join(filter(None, complaint.groups())) if complaint else "make tells no more"
        found.setdefault(f"{one[1]}.{one[2]}", f"it does not build: {clean(words)[:_LONGEST]}")
        before = one.end()
    return found


def _words(abi: Abi, compiler: str, goal: str) -> list[str]:
    variables = {
        "ABI": abi.name,
        "CC": compiler,
        "ABI_FLAGS": " ".join(abi.flags),
        "ARCH": _ARCHITECTURES.get(str(abi.elf.get("machine", "")), platform.machine()),
    }
    options = ["--no-print-directory", "--keep-going", "--output-sync=target", f"--jobs={os.cpu_count() or 1}"]
    return ["make", *options, *(f"{name}={value}" for name, value in variables.items()), goal]


def _environment() -> dict[str, str]:
    """In one language, since it is read. A make that started this one has options of its own, which mean nothing."""
    kept = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return {"GLIBC_TUNABLES": _HUGE_PAGES, **kept, "LC_ALL": "C"}


def _awaited(process: subprocess.Popen[bytes], watch: Callable[[float], None]) -> int:
    began = time.time()
    while True:
        try:
            return process.wait(_LOOKED_AT_EVERY_S)
        except subprocess.TimeoutExpired:
            watch(began)
