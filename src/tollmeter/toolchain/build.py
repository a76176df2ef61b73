# SPDX-License-Identifier: Apache-2.0
"""Reads abis/*.toml, drives make, and proves that each executable is what its ABI file promises.

What stands in build/ABI/ afterwards:
    FAMILY.NAME            the executable
    FAMILY.NAME.describe   the exact stream of `FAMILY.NAME --describe`, where this machine can run the ABI
    manifest.json          {"FAMILY.NAME": {"sha256": "...", "size_bytes": N}, ...}
    broken.json            {"FAMILY.NAME": "why it is left out", ...}
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.files import read_regular
from tollmeter.model import Abi, Failure
from tollmeter.protocol import clean
from tollmeter.toolchain import elf, zig
from tollmeter.toolchain.accepting import accept, write
from tollmeter.toolchain.distribution import install_line
from tollmeter.toolchain.making import make

BROKEN = "broken.json"
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
    """An ABI that cannot be built here: why, the Debian packages that would mend it, and else what would."""

    abi: str
    reason: str
    packages: tuple[str, ...]
    otherwise: str = ""

    @property
    def mend(self) -> str:
        return install_line(self.packages) if self.packages else self.otherwise


class Made(NamedTuple):
    """An ABI that was built: how many probes, and whether this machine runs them. broken: why others are left out.
    anew: those that were linked now, and not before."""

    abi: str
    compiler: str
    probes: int
    runs: bool
    broken: Mapping[str, str] = {}
    anew: Sequence[str] = ()


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
    compilers = ((one,) if isinstance(one, str) else one for one in abi.compiler)
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
    """The ABIs that are built unasked: those that run natively on a CPU (as `uname -m` names it), or the general one
    where no file names it. The one that bears the CPU's own name comes first.
    """
    known = sorted((abi for abi in abis if not abi.asked_only), key=lambda abi: (abi.name != machine, abi.name))
    named = [abi for abi in known if machine in abi.runs_on]
    return named or [abi for abi in known if ANY_CPU in abi.runs_on]


# ---- compilers --------------------------------------------------------------------------------------------------


def compiler_words(compiler: str | tuple[str, ...]) -> tuple[str, ...]:
    """A compiler's command."""
    return zig.command((compiler,) if isinstance(compiler, str) else compiler)


def find_compiler(abi: Abi) -> str | Gap:
    """The first of the ABI's compilers that passes the trial, or why none does, and what mends it."""
    known = [compiler_words(one) for one in abi.compiler if not zig.is_named(one) or zig.is_installed()]
    reason = f"no {' '.join(compiler_words(abi.compiler[0]))}"
    otherwise = f"install it, or name another compiler in {abi.name}.toml"
    if zig.is_named(abi.compiler[0]):
        reason, otherwise = f"{zig.WORD} is not installed", zig.MEND
    for words in known:
        trouble = _trial(words, abi.flags)
        if trouble is None:
            return " ".join(words)
        if trouble:
            reason = f"{' '.join(words)}: {trouble}"
    if refused := _refused(abi, known):
        return Gap(abi.name, refused, (), f"mend its flags in {abi.name}.toml")
    return Gap(abi.name, reason, abi.packages, otherwise)


def _refused(abi: Abi, known: list[tuple[str, ...]]) -> str | None:
    """What the compiler that the file names first says of the flags alone: no package mends that."""
    first = compiler_words(abi.compiler[0])
    complaint = _complaint([*first, *abi.flags, *_NOTHING], "") if first in known else None
    return f"{' '.join(first)}: {complaint}" if complaint else None


def _trial(compiler: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """None where C and C++ compile; else the compiler's first complaint, empty where there is no such compiler."""
    with tempfile.TemporaryDirectory() as scratch:
        c_words = ["-x", "c", "-", "-static", "-no-pie", "-o", f"{scratch}/trial", "-pthread", "-lm"]
        cxx_words = ["-x", "c++", "-", "-c", "-std=c++20", "-nostdinc++", "-o", f"{scratch}/trial.o"]
        complaint = _complaint([*compiler, *flags, *c_words], _TRIAL_C)
        return _complaint([*compiler, *flags, *cxx_words], _TRIAL_CXX) if complaint is None else complaint


def _complaint(words: list[str], source: str) -> str | None:
    # Messages in one language, since one of their lines is looked for.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, input=source, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return ""
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "it fails and says nothing")


# ---- making -----------------------------------------------------------------------------------------------------

_ABIS_AT_ONCE = 2
"""While the last probes of one are linked and proved, which keeps one CPU busy, the next one's are compiled."""

Tell = Callable[[str, int, int], None]
"""Is told, every now and then while it builds: for which ABI, how many files are made, of how many."""


def _silently(abi: str, made: int, files: int) -> None:
    """For whoever does not want to be told."""


def build_all(root: Path, machine: str, tell: Tell = _silently) -> tuple[list[Made], list[Gap]]:
    """Builds every probe for every ABI of this CPU that can be built here. One that does not compile, is not what its
    ABI file promises or does not describe itself is left out with a sentence. Raises Failure where none is left.
    """
    abis = for_cpu(read_abis(root / "abis").values(), machine)
    with ThreadPoolExecutor(_ABIS_AT_ONCE) as pool:
        compilers = list(pool.map(find_compiler, abis))
        several = [(abi, one) for abi, one in zip(abis, compilers, strict=True) if not isinstance(one, Gap)]
        made = list(pool.map(lambda pair: build_abi(root, pair[0], pair[1], tell), several))
    return made, [one for one in compilers if isinstance(one, Gap)]


def build_abi(root: Path, abi: Abi, compiler: str, tell: Tell = _silently) -> Made:
    """Builds every probe for one ABI, and leaves what stands above in build/NAME. Raises Failure where none is left."""
    with _alone(root / "build" / f"{abi.name}.lock"):
        return _build_abi(root, abi, compiler, tell)


def build_layout(root: Path, abi: Abi, compiler: str) -> Path:
    """Compiles abis/layout.c for one ABI, and nothing else. Returns the object file."""
    folder = root / "build" / abi.name
    with _alone(root / "build" / f"{abi.name}.lock"):
        make(root, abi, compiler, f"build/{abi.name}/layout.o")
    return folder / "layout.o"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two builds of one ABI at once would each take away what the other made."""
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build_abi(root: Path, abi: Abi, compiler: str, tell: Tell) -> Made:
    folder = root / "build" / abi.name
    probes, started = sorted(probe_names(root / "probes")), time.time()
    broken = make(
        root, abi, compiler, watch=lambda began: tell(abi.name, _files_made(folder, probes, began), 2 * len(probes))
    )
    _drop_forgotten(folder, [probe for probe in probes if probe not in broken])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = [probe for probe in probes if probe not in broken]
        told = dict(zip(built, pool.map(lambda probe: _accepted(root, folder / probe, abi), built), strict=True))
    broken |= {probe: answer.sentence for probe, answer in told.items() if isinstance(answer, Failure)}
    accepted = [probe for probe in built if probe not in broken]
    if not accepted:
        probe, sentence = next(iter(broken.items()))
        raise Failure(f"no probe is left for {abi.name}: {probe}: {sentence}", 1)
    _leave(folder, accepted, broken)
    anew = _linked(folder, accepted, started)
    return Made(abi.name, compiler, len(accepted), all(told[probe] for probe in accepted), broken, anew)


def _accepted(root: Path, path: Path, abi: Abi) -> bool | Failure:
    try:
        return accept(root, path, abi)
    except Failure as failure:
        return failure


def _leave(folder: Path, accepted: Sequence[str], broken: Mapping[str, str]) -> None:
    """A probe that is left out leaves nothing that could be measured."""
    manifest = {probe: fingerprint(folder / probe) for probe in accepted}
    for probe in broken:
        (folder / probe).unlink(missing_ok=True)
        (folder / f"{probe}.describe").unlink(missing_ok=True)
    for name, content in (("manifest.json", manifest), (BROKEN, broken)):
        write(folder / name, msgspec.json.format(msgspec.json.encode(content)))


def broken_of(folder: Path) -> dict[str, str]:
    """The probes that a folder of build/ holds none of, and why."""
    try:
        return msgspec.json.decode((folder / BROKEN).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def probe_names(folder: Path) -> set[str]:
    """Every probe that the sources hold: probes/FAMILY/NAME.c or .cc is FAMILY.NAME. make hands these to a shell too.

    Raises Failure (2) for a name that is none."""
    sources = [*folder.glob("*/*.c"), *folder.glob("*/*.cc")]
    names = {f"{source.parent.name}.{source.stem}" for source in sources if source.parent.name != "runtime"}
    for name in names:
        if not _PROBE.fullmatch(name):
            raise Failure(f"probes/ holds a file for {name!r}, which is no name of a probe: FAMILY.NAME is meant")
    return names


def _linked(folder: Path, probes: Iterable[str], began: float) -> list[str]:
    """Whose executables are younger than that."""
    found = {probe: folder / probe for probe in probes}
    return [probe for probe, path in found.items() if path.is_file() and path.stat().st_mtime >= began]


def _files_made(folder: Path, probes: Sequence[str], began: float) -> int:
    """Of two for each probe, compiled and linked: all are compiled first, and that is most of the time."""
    objects = (folder.joinpath("obj", *probe.split(".")).glob("*.o") for probe in probes)
    compiled = sum(any(path.stat().st_mtime >= began for path in found) for found in objects)
    return compiled + len(_linked(folder, probes, began))


def _drop_forgotten(folder: Path, probes: list[str]) -> None:
    """Removes executables and descriptions whose source is gone."""
    kept = {
        *probes,
        *(f"{probe}.describe" for probe in probes),
        "libtoll.a",
        "libsoft.a",
        "layout.o",
        "manifest.json",
        BROKEN,
    }
    for path in folder.iterdir():
        if path.is_file() and path.name not in kept:
            path.unlink()


def fingerprint(path: Path) -> dict[str, str | int]:
    """Of an executable, as the manifest has it."""
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
