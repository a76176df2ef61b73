# SPDX-License-Identifier: Apache-2.0
"""ABIs by name: finds and reads their files, lists the missing requirements of each on this machine, and opens the
targets that run them.

The user's own files lie in $XDG_CONFIG_HOME/tollmeter/abis (~/.config) or in ./abis."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.extras import install_line
from tollmeter.files import mistake, read_regular, untrusted
from tollmeter.model import Abi, Clock, Failure
from tollmeter.notices import once
from tollmeter.protocol import clean
from tollmeter.root import typed, user_folder
from tollmeter.targets import Lack
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.cpu_features import cpu_lack
from tollmeter.targets.local import needs_loader
from tollmeter.targets.target import Target
from tollmeter.targets.ways import CLOCKS, LOCAL, NATIVE, clock_of, lack, open_target
from tollmeter.toolchain.accepting import CHOICES, READERS
from tollmeter.toolchain.build import ANY_CPU, find_compiler, outside_make
from tollmeter.toolchain.elf_machines import elf_machine

_MOST_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9._/,=+:@-]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_TRIAL = "int main(void) { return 0; }"
_TRIAL_S = 20
_UNASKED = "stands in this folder, and is used only where it is asked for"


class Standing(NamedTuple):
    """The state of an ABI on this machine. target: the target that runs it, or None. missing: its missing requirements;
    mend: the command that installs them."""

    name: str
    summary: str
    compiler: str | None
    target: str | None
    clock: Clock | None
    missing: str | None
    mend: str | None


# ---- files ----------------------------------------------------------------------------------------------------------


def folders(root: Path) -> list[Path]:
    """Returns the folders of ABI files: the checkout's, the user's own, and last the current folder, which is not
    trusted."""
    own = user_folder("XDG_CONFIG_HOME", ".config") / "abis"
    return list(dict.fromkeys(folder.resolve() for folder in (root / "abis", own, Path("abis"))))


def known_abis(root: Path, named: Collection[str] = ()) -> dict[str, Abi]:
    """Returns all ABIs; from the current folder only the named ones. An unreadable file does not hide the others."""
    return _read_files(root, named)[0]


def refused_abis(root: Path, named: Collection[str] = ()) -> dict[str, str]:
    """Returns the sentence for each unreadable file of `known_abis`, by the ABI's name."""
    return _read_files(root, named)[1]


def _read_files(root: Path, named: Collection[str]) -> tuple[dict[str, Abi], dict[str, str]]:
    abis: dict[str, Abi] = {}
    refused: dict[str, str] = {}
    folder_of: dict[str, Path] = {}
    searched = folders(root)
    for path in (path for folder in searched for path in sorted(folder.glob("*.toml"))):
        name, is_foreign = path.stem, path.parent not in searched[:2]
        if is_foreign and name not in named:
            continue
        if name in folder_of:
            refused[name] = f"{name}.toml stands in {folder_of[name]} and in {path.parent}: rename one of them"
            abis.pop(name, None)
            continue
        folder_of[name] = path.parent
        try:
            abi = read_abi(path)
            if is_foreign and (complaint := untrusted(path)):
                raise Failure(complaint)
            abis[name] = abi
        except Failure as failure:
            refused[name] = failure.sentence
    return abis, refused


def read_abi(path: Path) -> Abi:
    """Returns one ABI file. Raises Failure with a sentence for invalid content."""
    if not _NAME.fullmatch(path.stem):
        raise Failure(f"{path.name!r} is not a valid ABI name: use letters, digits and . _ + -")
    try:
        return _abi_of(path.name, read_regular(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path.name} is not a valid ABI file: {clean(mistake(error, Abi))}") from error


@cache
def _abi_of(file: str, content: bytes) -> Abi:
    """Returns the ABI of a file's content. Cached, since a command reads all files up to six times. Raises Failure, or
    ValueError for content that is no table of an ABI."""
    abi = msgspec.convert({**clean(tomllib.loads(content.decode())), "name": Path(file).stem}, Abi)
    if complaint := _complaint_of_elf(abi) or _complaint_of_runs(abi):
        raise Failure(f"{file}: {complaint}")
    # make hands words to a shell, and apt-get takes a name that begins with a dash for an option.
    compilers = ((compiler,) if isinstance(compiler, str) else compiler for compiler in abi.compiler)
    for word in chain(*compilers, abi.compiler_cxx, abi.flags):
        if not _WORD.fullmatch(word):
            fitting = "a compiler or flag has letters, digits, . _ / , = + : @ -"
            raise Failure(f"{file}: {word!r} is not a valid word of a command; {fitting}")
    for package in abi.packages:
        if not _PACKAGE.fullmatch(package):
            raise Failure(f"{file}: {package!r} is not a valid Debian package name")
    return abi


def _complaint_of_elf(abi: Abi) -> str | None:
    if unknown := sorted(set(abi.elf) - set(READERS)):
        return f"[elf] has no key {unknown[0]}; it may say {', '.join(READERS)}"
    for key, known in CHOICES.items():
        if (value := abi.elf.get(key, known[0])) not in known:
            return f"[elf] has {key} = {value!r}; known: {', '.join(map(str, known))}"
    try:
        machine = elf_machine(str(abi.elf["machine"])) if "machine" in abi.elf else None
    except Failure as failure:
        return failure.sentence
    if abi.floats and machine and not machine.arithmetic:
        return f"floats cannot be verified of {abi.elf['machine']}: leave it out"
    return None


def _complaint_of_runs(abi: Abi) -> str | None:
    of_any_name = tuple(f"{kind}:" for kind in CLOCKS if not any(board.startswith(f"{kind}:") for board in BOARDS))
    unknown = [way for way in abi.runs if way not in (NATIVE, *BOARDS) and not way.startswith(of_any_name)]
    known = f"{NATIVE}, qemu-user:ARCH, {', '.join(BOARDS)}, ssh:HOST, serial:PATH"
    return f"runs names {unknown[0]!r}; known: {known}" if unknown else None


def read_abis(folder: Path) -> dict[str, Abi]:
    """Returns all ABI files of a folder, by name."""
    return {path.stem: read_abi(path) for path in sorted(folder.glob("*.toml"))}


def for_cpu(abis: Iterable[Abi], machine: str) -> list[Abi]:
    """Returns the ABIs that are built by default: those native to a CPU (as in `uname -m`), the one of its name first,
    or the general one."""
    known = sorted((abi for abi in abis if not abi.asked_only), key=lambda abi: (abi.name != machine, abi.name))
    named = [abi for abi in known if machine in abi.runs_on]
    return named or [abi for abi in known if ANY_CPU in abi.runs_on]


# ---- what is there, and what is missing -----------------------------------------------------------------------------


def survey_abis(root: Path, machine: str) -> list[Standing]:
    """Returns for each ABI whether it builds on this machine, its target, its clock, and the command that installs
    missing packages."""
    known = known_abis(root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        standings = list(pool.map(lambda abi: _standing_of(abi, machine), known.values()))
    here = Path("abis").resolve()
    foreign = {path.stem for path in here.glob("*.toml")} if here not in folders(root)[:2] else set()
    standings += [
        Standing(name, "", None, None, None, _UNASKED, typed("run", "--abi", name)) for name in foreign - {*known}
    ]
    unreadable = [Standing(name, "", None, None, None, sentence, None) for name, sentence in refused_abis(root).items()]
    return sorted([*standings, *unreadable])


def _standing_of(abi: Abi, machine: str) -> Standing:
    """Returns the state of an ABI on this machine. machine: CPU as in `uname -m`."""
    found = find_compiler(abi)
    gap = found if isinstance(found, Lack) else None
    compiler = None if isinstance(found, Lack) else found
    target, lacks = _first_target(abi, machine, compiler)
    lacks = [gap, *lacks] if gap else lacks
    packages = [package for missing in lacks for package in missing.packages]
    mends = [gap.mend] if gap and not gap.packages else []
    mends += [install_line(packages)] if packages else []
    # Sentences quote a command with backquotes, between which a shell would execute it first.
    return Standing(
        abi.name, abi.summary, compiler, target, clock_of(target) if target else None,
        "; ".join(missing.reason for missing in lacks) or None, " && ".join(mends).replace("`", "") or None,
    )  # fmt: skip


def _first_target(abi: Abi, machine: str, compiler: str | None) -> tuple[str | None, list[Lack]]:
    """Returns the first of an ABI's targets that runs it here, or None; and why those before it do not, except the
    native target of another CPU's ABI."""
    lacks: list[Lack] = []
    for way in abi.runs:
        missing = lack_of(way, abi, machine, compiler)
        if missing is None:
            return LOCAL if way == NATIVE else way, lacks
        if way != NATIVE or machine in abi.runs_on:
            lacks.append(missing)
    return None, lacks


def lack_of(way: str, abi: Abi, machine: str, compiler: str | None) -> Lack | None:
    """Returns why a target does not run an ABI, with the packages that are missing; None if it does. way: name of the
    target in the ABI's file. machine: CPU as in `uname -m`."""
    if way != NATIVE:
        return lack(way)
    if machine not in abi.runs_on and ANY_CPU not in abi.runs_on:
        return Lack(f"a {machine} CPU does not run it")
    if sentence := cpu_lack(abi):
        return Lack(sentence)
    is_refused = compiler and not _kernel_runs(compiler.split(), abi.flags)
    return Lack("this kernel does not run it") if is_refused else None


def _kernel_runs(compiler: Sequence[str], flags: Sequence[str]) -> bool:
    """Returns whether the kernel starts executables of this format, by compiling and starting an empty program: no file
    lists the formats that a kernel accepts."""
    with tempfile.TemporaryDirectory() as scratch:
        program = f"{scratch}/trial"
        words = [*compiler, *flags, "-x", "c", "-", "-static", "-no-pie", "-o", program]
        try:
            commands.run("file", words, input=_TRIAL, text=True, capture_output=True, check=True, timeout=_TRIAL_S)
            if needs_loader(program):
                return True
            return commands.run("file", [program], timeout=_TRIAL_S).returncode == 0
        except (OSError, commands.SubprocessError):
            return False


# ---- opening ---------------------------------------------------------------------------------------------------------


def open_here(root: Path, target: str, also: Sequence[str] = ()) -> Target:
    """Returns the target, with its files in build/emulator. Raises Failure if the files cannot be made or the target
    cannot open."""
    for need in (*needs(target), *also):
        make_beside(root, need)
    return open_target(target, root / "build/emulator")


def make_beside(root: Path, need: str) -> None:
    """Makes a file of build/emulator if it is missing or stale. need: name of the file. Raises Failure (5)."""
    is_there = (root / "build/emulator" / need).exists()
    with contextlib.nullcontext() if is_there else once():
        done = commands.run(
            "checkout", ["make", "-s", "--no-print-directory", f"build/emulator/{need}"],
            cwd=root, capture_output=True, text=True, env=outside_make(),
        )  # fmt: skip
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["make says nothing"])[0]
        raise Failure(f"build/emulator/{need} cannot be made: {reason}", 5)


def needs(target: str) -> tuple[str, ...]:
    """Returns the files of build/emulator that a target needs."""
    if target.startswith("qemu-user:"):
        return ("count.so",)
    return (BOARDS[target].ours,) if target in BOARDS else ()
