# SPDX-License-Identifier: Apache-2.0
"""Reads abis/*.toml, drives make, and proves that each executable is what its ABI file promises."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import resource
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.distribution import install_line
from tollmeter.files import read_regular
from tollmeter.model import Abi, Failure
from tollmeter.notices import notify
from tollmeter.protocol import clean
from tollmeter.toolchain import elf, musl, proven, zig
from tollmeter.toolchain.accepting import accept
from tollmeter.toolchain.making import count, make

ANY_CPU = "*"
_MOST_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_PROBE = re.compile(r"[a-z]+\.[a-z0-9_]+")
_WORD = re.compile(r"[A-Za-z0-9._/,=+:@-]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")

# What a compiler must be able to do before make is asked to: the C library and the kernel's headers are there, for
# C and for C++ without its library, and a static link finds its archives.
_TRIAL_C = """
#include <asm/unistd.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
int main(void) { return 0; }
"""
_NOTHING = ("-x", "c", "-", "-fsyntax-only")
_TRIAL_CXX = """
#include <stdint.h>
#include <stdlib.h>
struct object { virtual uint64_t call() = 0; };
"""


class Gap(NamedTuple):
    """An ABI that cannot be built here: the reason, the Debian packages that would help, or else what would."""

    abi: str
    reason: str
    packages: tuple[str, ...]
    otherwise: str = ""

    @property
    def mend(self) -> str:
        return install_line(self.packages) if self.packages else self.otherwise


class BuildResult(NamedTuple):
    """What was built for an ABI. anew: the probes that were linked now. broken: those that are left out, and why."""

    abi: str
    anew: Sequence[str] = ()
    broken: Mapping[str, str] = {}


# ---- ABI files --------------------------------------------------------------------------------------------------


def read_abi(path: Path) -> Abi:
    """One ABI file. Raises Failure with a sentence for what it cannot mean."""
    if not _NAME.fullmatch(path.stem):
        raise Failure(f"{path.name!r} is no name of an ABI: letters, digits and . _ + - are meant")
    try:
        table = clean(tomllib.loads(read_regular(path, _MOST_BYTES).decode()))
        abi = msgspec.convert({**table, "name": path.stem}, Abi)
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path.name} is no ABI file: {clean(str(error))[:200]}") from error
    unknown = sorted(set(abi.elf) - set(elf.READERS))
    if unknown:
        raise Failure(f"{path.name}: [elf] has no key {unknown[0]}; it may say {', '.join(elf.READERS)}")
    _check_words(path.name, abi)
    return abi


def _check_words(name: str, abi: Abi) -> None:
    """make hands them to a shell, and apt-get takes a name that begins with a dash for an option."""
    compilers = ((compiler,) if isinstance(compiler, str) else compiler for compiler in abi.compiler)
    for word in chain(*compilers, abi.compiler_cxx, abi.flags):
        if not _WORD.fullmatch(word):
            raise Failure(
                f"{name}: {word!r} is no word of a command; a compiler or flag has letters, digits, . _ / , = + : @ -"
            )
    for package in abi.packages:
        if not _PACKAGE.fullmatch(package):
            raise Failure(f"{name}: {package!r} is no name of a Debian package")


def read_abis(folder: Path) -> dict[str, Abi]:
    """All ABI files of a folder, by name."""
    return {path.stem: read_abi(path) for path in sorted(folder.glob("*.toml"))}


def for_cpu(abis: Iterable[Abi], machine: str) -> list[Abi]:
    """ABIs that are built unasked: those native to a CPU (as in `uname -m`), its namesake first, or the general one."""
    known = sorted((abi for abi in abis if not abi.asked_only), key=lambda abi: (abi.name != machine, abi.name))
    named = [abi for abi in known if machine in abi.runs_on]
    return named or [abi for abi in known if ANY_CPU in abi.runs_on]


# ---- compilers --------------------------------------------------------------------------------------------------


def compiler_words(compiler: str | tuple[str, ...]) -> tuple[str, ...]:
    """A compiler's command."""
    words = (compiler,) if isinstance(compiler, str) else compiler
    return musl.command(words) if musl.is_named(words) else zig.command(words)


def find_compiler(abi: Abi) -> str | Gap:
    """The first of the ABI's compilers that passes the trial, or why none does, and what would help."""
    known = [compiler_words(compiler) for compiler in abi.compiler if _is_brought(compiler)]
    reason = f"no {' '.join(compiler_words(abi.compiler[0]))}"
    otherwise = f"install it, or name another compiler in {abi.name}.toml"
    if zig.is_named(abi.compiler[0]):
        reason, otherwise = f"{zig.WORD} is not installed", zig.MEND
    if musl.can_make(abi.compiler):
        return Gap(abi.name, musl.lack() or "", (), musl.MEND)
    for words in known:
        trouble = _trial(words, abi.flags)
        if trouble is None:
            return " ".join(words)
        if trouble:
            reason = f"{' '.join(words)}: {trouble}"
    if refused := _refused(abi, known):
        return Gap(abi.name, refused, (), f"mend its flags in {abi.name}.toml")
    return Gap(abi.name, reason, abi.packages, otherwise)


def _is_brought(compiler: str | tuple[str, ...]) -> bool:
    """False for one that is brought when an ABI is asked for, and was not."""
    return zig.is_installed() if zig.is_named(compiler) else not musl.is_named(compiler) or musl.lack() is None


def compiler_of(abi: Abi) -> str:
    """As find_compiler. Raises Failure (5) where there is none."""
    compiler = find_compiler(abi)
    if isinstance(compiler, Gap):
        raise Failure(f"{compiler.reason}: {compiler.mend}", 5)
    return compiler


def _refused(abi: Abi, known: list[tuple[str, ...]]) -> str | None:
    """The complaint of the compiler that the file names first about the flags alone: no package changes that."""
    first = compiler_words(abi.compiler[0])
    complaint = _complaint([*first, *abi.flags, *_NOTHING], "") if first in known else None
    return f"{' '.join(first)}: {complaint}" if complaint else None


def _trial(compiler: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """None where C and C++ compile; else the compiler's first complaint, empty where there is no such compiler."""
    # To nowhere: a host that is killed meanwhile leaves no file behind.
    c_words = ["-x", "c", "-", "-static", "-no-pie", "-o", "/dev/null", "-pthread", "-lm"]
    cxx_words = ["-x", "c++", "-", "-c", "-std=c++20", "-nostdinc++", "-o", "/dev/null"]
    complaint = _complaint([*compiler, *flags, *c_words], _TRIAL_C)
    return _complaint([*compiler, *flags, *cxx_words], _TRIAL_CXX) if complaint is None else complaint


def _complaint(words: list[str], source: str) -> str | None:
    # Messages in one language, since one of their lines is looked for.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        # zig writes the object of standard input to `-.o` in its folder, whatever the output is called.
        with tempfile.TemporaryDirectory(prefix="toll-") as folder:
            done = commands.run(
                "file", words, input=source, capture_output=True, text=True, env=environment, cwd=folder
            )
    except OSError:
        return ""
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "it fails and says nothing")


# ---- making -----------------------------------------------------------------------------------------------------

_FILES_EACH = 16
_ABIS_AT_ONCE = 2
"""While the last probes of one are linked and proved, which keeps one CPU busy, the next one's are compiled."""


class Task(NamedTuple):
    """An ABI, the compiler found for it, and the probes that it is wanted for."""

    abi: Abi
    compiler: str
    probes: Collection[str]


def build_several(root: Path, tasks: Sequence[Task], report: Callable[[int, int], None]) -> list[BuildResult | Failure]:
    """The result of each build, or its failure. report: called with the number of files that are made, and of all."""
    numbers, turn = itertools.count(1), Lock()

    def one_more() -> None:
        with turn:
            report(next(numbers), total)

    def built(task: Task) -> BuildResult | Failure:
        try:
            return build_abi(root, *task, one_more)
        except Failure as failure:
            return failure

    with ThreadPoolExecutor(_ABIS_AT_ONCE) as pool:
        total = sum(pool.map(lambda task: count(root, task.abi, task.compiler, _goals(task.abi, task.probes)), tasks))
        return list(pool.map(built, tasks))


def build_abi(
    root: Path,
    abi: Abi,
    compiler: str,
    probes: Collection[str] | None = None,
    report: Callable[[], None] = lambda: None,
) -> BuildResult:
    """Builds and checks the named probes, or all, if that is not done. A failing probe is left out with a sentence.
    Raises Failure where none is left. report: called for each file that is made."""
    every = probe_names(root / "probes")
    with locked(root, abi):
        wanted = sorted((every if probes is None else every.intersection(probes)) - proven.known(root, abi))
        if not wanted:
            return BuildResult(abi.name)
        proven.begin(root, abi)
        made = _made(root, Task(abi, compiler, wanted), report)
        proven.drop_forgotten(root / "build" / abi.name, every)
        return made


def build_layout(root: Path, abi: Abi, compiler: str, path: Path) -> None:
    """Compiles abis/layout.c to an object file that is read and never linked or run, as for the old ARM ABI. Raises
    Failure (1)."""
    old = ["-mabi=apcs-gnu"] if "-DTOLL_FPA" in abi.flags else []
    words = [*compiler.split(), "-std=gnu11", "-D_GNU_SOURCE", *abi.flags, *old, "-c", str(root / "abis/layout.c")]
    if complaint := _complaint([*words, "-o", str(path)], ""):
        raise Failure(f"abis/layout.c cannot be compiled for {abi.name}: {complaint}", 1)


@contextmanager
def locked(root: Path, abi: Abi) -> Iterator[None]:
    """Two builds of one ABI at once would each take away what the other made."""
    lock = root / "build" / f"{abi.name}.lock"
    try:
        lock.parent.mkdir(exist_ok=True)
        held = lock.open("w")
    except OSError as error:
        raise Failure(
            f"{root} cannot be written to ({error.strerror}), and does not hold what this needs for {abi.name}: "
            "its owner builds it with the same command", 5,
        ) from error  # fmt: skip
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"another process builds for {abi.name}; waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _made(root: Path, task: Task, report: Callable[[], None]) -> BuildResult:
    abi, folder = task.abi, root / "build" / task.abi.name
    ran = make(root, abi, task.compiler, _goals(abi, task.probes), report)
    built = [probe for probe in task.probes if probe not in ran.broken]
    with ThreadPoolExecutor(_at_once()) as pool:
        verdicts = dict(zip(built, pool.map(lambda probe: accepted(root, folder / probe, abi), built), strict=True))
    broken = ran.broken | {
        probe: verdict.sentence for probe, verdict in verdicts.items() if isinstance(verdict, Failure)
    }
    good = [probe for probe in built if probe not in broken]
    if not good:
        probe, sentence = next(iter(broken.items()))
        raise Failure(f"no probe is left for {abi.name}: {probe}: {sentence}", 1)
    proven.finish(root, abi, good, broken)
    return BuildResult(abi.name, [probe for probe in good if f"build/{abi.name}/{probe}" in ran.made], broken)


def _at_once() -> int:
    """Probes that are started at a time: with 16 file descriptors the second of two had none left for its pipes, and
    was left out of the build."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    most = os.cpu_count() or 1
    return most if files == resource.RLIM_INFINITY else max(1, min(most, files // _FILES_EACH))


def _goals(abi: Abi, probes: Iterable[str]) -> list[str]:
    return [f"build/{abi.name}/{probe}" for probe in probes]


def accepted(root: Path, path: Path, abi: Abi) -> Failure | None:
    """Why an executable is not, if so."""
    try:
        accept(root, path, abi)
    except Failure as failure:
        return failure
    return None


def probe_names(folder: Path) -> frozenset[str]:
    """Every probe in the sources: probes/FAMILY/NAME.c or .cc. Raises Failure (2) for a name unfit for make and a
    shell."""
    sources = [*folder.glob("*/*.c"), *folder.glob("*/*.cc")]
    names = frozenset(f"{source.parent.name}.{source.stem}" for source in sources if source.parent.name != "runtime")
    for name in names:
        if not _PROBE.fullmatch(name):
            raise Failure(f"probes/ holds a file for {name!r}, which is not a probe name: expected FAMILY.NAME")
    return names
