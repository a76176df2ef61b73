# SPDX-License-Identifier: Apache-2.0
"""Calls make for one ABI, and reads what it made and which probes failed, which stop no others. Recipes of probes.mk
end with `echo $@`."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from tollmeter import commands
from tollmeter.distribution import install_line
from tollmeter.model import Abi, Failure
from tollmeter.protocol import clean

_ERROR = re.compile(r"^(?:(\S+?:\d+):)?.*?(?:error: |undefined reference to )(.*)$", re.MULTILINE)
_RUNTIME = "runtime"

# A linker takes 35 MB in pieces, and half its time to have them cleared page by page: huge pages are cleared at once.
# With another C library the output is not read.
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
    "EM_SPARC": "sparc",
    "EM_SPARCV9": "sparc64",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390x",
}


class Ran(NamedTuple):
    """made: the files that were made now. broken: a sentence for each probe that does not build."""

    made: frozenset[str]
    broken: dict[str, str]


def count(root: Path, abi: Abi, compiler: str, goals: Sequence[str]) -> int:
    """How many files `make` would make now. Raises Failure where make cannot be started."""
    with _started([*_words(abi, compiler, goals), "--dry-run"], root, commands.DEVNULL) as process:
        return sum("&& echo build/" in line for line in process.stdout or ())


def make(root: Path, abi: Abi, compiler: str, goals: Sequence[str], report: Callable[[], None] = lambda: None) -> Ran:
    """report: called for each file. Raises Failure if make does not start, or a step of no single probe fails."""
    made: set[str] = set()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        with _started(_words(abi, compiler, goals), root, output) as process:
            for line in process.stdout or ():
                if line.startswith("build/"):
                    made.add(line.strip())
                    report()
        if process.returncode < 0:
            raise Failure(f"make for {abi.name} was ended by signal {-process.returncode}", 1)
        return Ran(frozenset(made), _broken(abi, output) if process.returncode else {})


@contextmanager
def _started(words: Sequence[str], root: Path, output: IO[str] | int) -> Iterator[commands.Popen[str]]:
    """It is ended where what reads it is."""
    try:
        process = commands.start(
            "checkout",
            words,
            cwd=root,
            stdout=commands.PIPE,
            stderr=output,
            env={"GLIBC_TUNABLES": _HUGE_PAGES, **outside_make(), "LC_ALL": "C"},  # in one language, since it is read
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failure(f"make cannot be started: {error.strerror}. {install_line(['make'])}", 5) from error
    with process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def _broken(abi: Abi, output: IO[str]) -> dict[str, str]:
    output.seek(0)
    text = output.read()
    sys.stderr.write(text)
    broken = broken_probes(abi.name, text)
    if not broken or any(probe.startswith(f"{_RUNTIME}.") for probe in broken):
        raise Failure(f"{abi.name} does not build: see the errors of the compiler above", 1)
    return broken


def broken_probes(abi: str, text: str) -> dict[str, str]:
    """For each probe its first error in the output of make and the compiler, which is grouped by target."""
    target = rf"build/{re.escape(abi)}/(?:obj/)?(\w+)[./](\w+)"
    failed = re.compile(rf"^make[^\n]*\*\*\* \[[^\]\n]*{target}[^\]\n]*\]", re.MULTILINE)
    broken: dict[str, str] = {}
    before = 0
    for failure in failed.finditer(text):
        complaint = _ERROR.search(text, before, failure.start())
        words = ": ".join(filter(None, complaint.groups())) if complaint else "make reports no reason"
        broken.setdefault(f"{failure[1]}.{failure[2]}", f"it does not build: {clean(words)[:_LONGEST]}")
        before = failure.end()
    return broken


def _words(abi: Abi, compiler: str, goals: Sequence[str]) -> list[str]:
    variables = {
        "ABI": abi.name,
        "CC": compiler,
        "ABI_FLAGS": " ".join(abi.flags),
        "ARCH": _ARCHITECTURES.get(str(abi.elf.get("machine", "")), platform.machine()),
    }
    options = ["--no-print-directory", "--keep-going", "--output-sync=target", f"--jobs={os.cpu_count() or 1}"]
    return ["make", *options, *(f"{name}={value}" for name, value in variables.items()), *goals]


def outside_make() -> dict[str, str]:
    """A make that started this process has options of its own, which mean nothing to another."""
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
