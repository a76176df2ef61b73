# SPDX-License-Identifier: Apache-2.0
"""Finds an ABI's compiler, runs make, and verifies each executable against its ABI file."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import platform
import re
import resource
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import IO, NamedTuple

from tollmeter import commands
from tollmeter.extras import install_line
from tollmeter.model import Abi, Failure
from tollmeter.notices import notify
from tollmeter.protocol import clean
from tollmeter.targets import Lack
from tollmeter.toolchain import brought_compilers, proven
from tollmeter.toolchain.accepting import accepted
from tollmeter.toolchain.brought_compilers import MUSL_MEND, ZIG, ZIG_EXTRA, compiler_command, is_brought
from tollmeter.toolchain.elf_machines import elf_machine

ANY_CPU = "*"
_PROBE = re.compile(r"[a-z]+\.[a-z0-9_]+")

# Trial sources, compiled before make is started: they show whether the C library and the kernel's headers are
# installed, for C and for C++ without its library, and whether a static link finds its archives.
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


# ---- compilers --------------------------------------------------------------------------------------------------


def find_compiler(abi: Abi) -> str | Lack:
    """Returns the first of the ABI's compilers that passes the trial; or why there is none, and a remedy."""
    first = compiler_command(abi.compiler[0])
    known = [compiler_command(compiler) for compiler in abi.compiler if is_brought(compiler)]
    reason, otherwise = f"no {' '.join(first)}", f"install it, or name another compiler in {abi.name}.toml"
    if brought_compilers.is_compiler_named(ZIG, abi.compiler[0]):
        reason, otherwise = f"{ZIG} is not installed", ZIG_EXTRA.mend
    if brought_compilers.can_make_musl(abi.compiler):
        return Lack(brought_compilers.musl_lack() or "", (), MUSL_MEND)
    for words in known:
        trouble = _trial(words, abi.flags)
        if trouble is None:
            return " ".join(words)
        if trouble:
            reason = f"{' '.join(words)}: {trouble}"
    # If the first compiler of the ABI's file rejects the flags themselves, no package helps.
    if first in known and (complaint := _complaint([*first, *abi.flags, *_NOTHING], "")):
        return Lack(f"{' '.join(first)}: {complaint}", (), f"mend its flags in {abi.name}.toml")
    return Lack(reason, abi.packages, otherwise)


def compiler_of(abi: Abi) -> str:
    """Returns the result of find_compiler. Raises Failure (5) without a compiler."""
    compiler = find_compiler(abi)
    if isinstance(compiler, Lack):
        raise Failure(f"{compiler.reason}: {compiler.mend}", 5)
    return compiler


def _trial(compiler: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """Returns None if C and C++ compile; else the compiler's first error, empty if the compiler does not exist."""
    # The output goes to /dev/null: a process that is killed leaves no file behind.
    c_words = ["-x", "c", "-", "-static", "-no-pie", "-o", "/dev/null", "-pthread", "-lm"]
    cxx_words = ["-x", "c++", "-", "-c", "-std=c++20", "-nostdinc++", "-o", "/dev/null"]
    complaint = _complaint([*compiler, *flags, *c_words], _TRIAL_C)
    return _complaint([*compiler, *flags, *cxx_words], _TRIAL_CXX) if complaint is None else complaint


def _complaint(words: list[str], source: str) -> str | None:
    # Messages in one language, since they are searched for the word "error".
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


# ---- building -----------------------------------------------------------------------------------------------------

_FILES_EACH = 16
"""File descriptors that the verification of one executable may need."""
_ABIS_AT_ONCE = 2
"""ABIs that are built concurrently: linking and verifying the last probes of one keeps one CPU busy, while another CPU
compiles the next."""


class Task(NamedTuple):
    """An ABI, its compiler, and the probes to build for it."""

    abi: Abi
    compiler: str
    probes: Collection[str]


def build_several(root: Path, tasks: Sequence[Task], report: Callable[[int, int], None]) -> list[list[str] | Failure]:
    """Returns the probes that each build linked now, or its failure. report: called with the number of completed
    files, and the total."""
    numbers, turn = itertools.count(1), Lock()

    def one_more() -> None:
        with turn:
            report(next(numbers), total)

    def built(task: Task) -> list[str] | Failure:
        try:
            return build_abi(root, *task, one_more)
        except Failure as failure:
            return failure

    with ThreadPoolExecutor(_ABIS_AT_ONCE) as pool:
        total = sum(pool.map(lambda task: _files_to_make(root, task), tasks))
        return list(pool.map(built, tasks))


def _files_to_make(root: Path, task: Task) -> int:
    """Returns how many files a build makes; 0 if it cannot begin, for a reason that the build itself states."""
    with contextlib.suppress(Failure), locked(root, task.abi):
        lacking = _lacking(root, task.abi, task.probes)
        options = proven.options_of(proven.begin(root, task.abi, lacking)) if lacking else []
        return _count(root, task.abi, task.compiler, [*options, *_goals(task.abi, lacking)]) if lacking else 0
    return 0


def _lacking(root: Path, abi: Abi, probes: Collection[str] | None) -> list[str]:
    every = probe_names(root / "probes")
    return sorted((every if probes is None else every.intersection(probes)) - proven.up_to_date_probes(root, abi))


def build_abi(
    root: Path,
    abi: Abi,
    compiler: str,
    probes: Collection[str] | None = None,
    report: Callable[[], None] = lambda: None,
) -> list[str]:
    """Builds and checks the named probes, or all, unless they are up to date. Returns the probes that were linked now.
    A failing probe is left out with a sentence. Raises Failure if none is left. report: called for each file that is
    made."""
    with locked(root, abi):
        proven.drop_forgotten(root, abi)
        lacking = _lacking(root, abi, probes)
        if not lacking:
            return []
        sources = proven.begin(root, abi, lacking)
        folder = root / "build" / abi.name
        words = [*proven.options_of(sources), *_goals(abi, lacking)]
        made, broken = run_make(root, abi, compiler, words, report)
        built = [probe for probe in lacking if probe not in broken]
        with ThreadPoolExecutor(_at_once()) as pool:
            verdicts = list(pool.map(lambda probe: accepted(root, folder / probe, abi), built))
        broken |= {probe: verdict.sentence for probe, verdict in zip(built, verdicts, strict=True) if verdict}
        good = [probe for probe in built if probe not in broken]
        if not good and not proven.up_to_date_probes(root, abi):
            probe, sentence = next(iter(broken.items()))
            raise Failure(f"no probe is left for {abi.name}: {probe}: {sentence}", 1)
        proven.finish(root, abi, sources, good, broken)
        return [probe for probe in good if f"build/{abi.name}/{probe}" in made]


def build_layout(root: Path, abi: Abi, compiler: str, path: Path) -> None:
    """Compiles abis/layout.c to an object file that is read and never linked or run. Raises Failure (1)."""
    _compile_for_reading(abi, compiler, ["-c", str(root / "abis/layout.c"), "-o", str(path)], "abis/layout.c")


def build_header(abi: Abi, compiler: str, source: str, path: Path) -> None:
    """Compiles a source that includes headers to a file whose DWARF contains all their types. It is linked, since DWARF
    readers know the relocations of few CPUs only; but not for the old ARM ABI, which the linker refuses. Raises
    Failure (2), since the header is the user's."""
    written = path.with_suffix(".c")
    written.write_text(source, encoding="utf-8")
    linked = ["-nostdlib", "-static", "-Wl,--entry=0", "-Wl,--unresolved-symbols=ignore-all"]
    dwarf = ["-gdwarf-5", "-fno-eliminate-unused-debug-types"]
    words = [*dwarf, *(["-c"] if _is_old_arm(abi) else linked), str(written), "-o", str(path)]
    _compile_for_reading(abi, compiler, words, source.split()[1].strip('<">'), exit_code=2)


def _compile_for_reading(abi: Abi, compiler: str, words: Sequence[str], what: str, exit_code: int = 1) -> None:
    """Compiles a file that Tollmeter reads and never runs. what: its name in the message. Raises Failure
    (exit_code)."""
    old = ["-mabi=apcs-gnu"] if _is_old_arm(abi) else []
    if complaint := _complaint([*compiler.split(), "-std=gnu11", "-D_GNU_SOURCE", *abi.flags, *old, *words], ""):
        # gcc's position is in our wrapper, which the user has not written.
        found = re.sub(r"^/\S+\.c:\d+:\d+: ", "", complaint)
        raise Failure(f"{what} cannot be compiled for {abi.name}: {found}", exit_code)


def _is_old_arm(abi: Abi) -> bool:
    return "-DTOLL_FPA" in abi.flags


@contextlib.contextmanager
def locked(root: Path, abi: Abi) -> Iterator[None]:
    """Locks the builds of an ABI: two concurrent builds would each remove the other's files."""
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


def _at_once() -> int:
    """Returns the number of executables that are verified at a time: one for each CPU, fewer if the limit on file
    descriptors is low."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    most = os.cpu_count() or 1
    return most if files == resource.RLIM_INFINITY else max(1, min(most, files // _FILES_EACH))


def _goals(abi: Abi, probes: Iterable[str]) -> list[str]:
    return [f"build/{abi.name}/{probe}" for probe in probes]


def probe_names(folder: Path) -> frozenset[str]:
    """Returns every probe of the sources: probes/FAMILY/NAME.c or .cc. Raises Failure (2) for a name unfit for make and
    a shell."""
    sources = [*folder.glob("*/*.c"), *folder.glob("*/*.cc")]
    names = frozenset(f"{source.parent.name}.{source.stem}" for source in sources if source.parent.name != "runtime")
    for name in names:
        if not _PROBE.fullmatch(name):
            raise Failure(f"probes/ holds a file for {name!r}, which is not a probe name: expected FAMILY.NAME")
    return names


# ---- make ------------------------------------------------------------------------------------------------------------

# make is called for one ABI. A probe that fails stops no others. Recipes of probes.mk end with `echo $@`.

_ERROR = re.compile(r"^(?:(\S+?:\d+):)?.*?(?:error: |undefined reference to )(.*)$", re.MULTILINE)
_RUNTIME = "runtime"

# A linker takes 35 MB in pieces, and half its time to have them cleared page by page: huge pages are cleared at once.
# With another C library the output is not read.
_HUGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
_LONGEST = 200


def _count(root: Path, abi: Abi, compiler: str, goals: Sequence[str]) -> int:
    """Returns how many files `make` would make now. Raises Failure if make cannot be started."""
    with _started([*_words(abi, compiler, goals), "--dry-run"], root, commands.DEVNULL) as process:
        return sum("&& echo build/" in line for line in process.stdout or ())


def run_make(
    root: Path, abi: Abi, compiler: str, goals: Sequence[str], report: Callable[[], None] = lambda: None
) -> tuple[set[str], dict[str, str]]:
    """Returns the files that were built now, and a sentence for each probe that does not build. report: called for each
    file. Raises Failure if make does not start, or if a step that is common to all probes fails."""
    made: set[str] = set()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        with _started(_words(abi, compiler, goals), root, output) as process:
            for line in process.stdout or ():
                if line.startswith("build/"):
                    made.add(line.strip())
                    report()
        if process.returncode < 0:
            raise Failure(f"make for {abi.name} was ended by signal {-process.returncode}", 1)
        return made, _broken(abi, output) if process.returncode else {}


@contextlib.contextmanager
def _started(words: Sequence[str], root: Path, output: IO[str] | int) -> Iterator[commands.Popen[str]]:
    """Starts make and yields its process, which is terminated if the reader of its output fails. output: receives
    standard error. Raises Failure (5) if make cannot be started."""
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
    """Returns for each probe its first error in the output of make and the compiler, which is grouped by target."""
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
        "ARCH": _sources_of(abi),
    }
    options = ["--no-print-directory", "--keep-going", "--output-sync=target", f"--jobs={os.cpu_count() or 1}"]
    return ["make", *options, *(f"{name}={value}" for name, value in variables.items()), *goals]


def _sources_of(abi: Abi) -> str:
    """Returns the suffix of an ABI's assembly sources and builtins, which is that of its ELF machine. If the ABI
    states no machine, returns this machine's suffix if the CPU runs the ABI, else none: the compiler's output is
    then unknown."""
    if "machine" in abi.elf:
        return elf_machine(str(abi.elf["machine"])).sources
    return platform.machine() if {ANY_CPU, platform.machine()}.intersection(abi.runs_on) else ""


def outside_make() -> dict[str, str]:
    """Returns the environment without the options of a make that started this process, which do not apply to another
    make."""
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
