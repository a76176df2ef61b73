# SPDX-License-Identifier: Apache-2.0
"""Installs the Debian packages that named ABIs and targets lack, as root, with apt, unless TOLL_INSTALL=no. If a
package remains missing, the code that needs it reports it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tollmeter import commands
from tollmeter.model import Abi, Failure
from tollmeter.notices import once
from tollmeter.targets import Lack
from tollmeter.targets.ways import NATIVE, for_abi, lack
from tollmeter.toolchain.abis import known_abis, lack_of, needs
from tollmeter.toolchain.build import find_compiler
from tollmeter.toolchain.ready import ProbesByAbi, in_one_sentence, lacking

_MADE_FOR = {
    "init.x86_64": "x86_64",
    "init.arm": "arm-soft",
    "init.mipsel": "mipsel",
    "bare.arm": "arm-soft",
    "bare.sparc": "sparc-v8",
}
"""ABI whose compiler makes a file of build/emulator, by the file's name."""


def install_compilers(root: Path, abis: Iterable[Abi]) -> None:
    """Installs all packages of this CPU's ABI files, if permitted."""
    _install(root, [package for abi in abis for package in (*abi.packages, "make")])


def install_for(root: Path, requested: ProbesByAbi, targets: Sequence[str], machine: str) -> None:
    """Installs the Debian packages that ABIs need to be built and run here, if permitted.

    Whether a kernel runs an ABI is only known after a compiler is installed; packages that this reveals are installed
    afterwards."""
    known = known_abis(root, requested)
    requested_abis = [(abi, probes) for name, probes in requested.items() if (abi := known.get(name))]
    tried: set[str] = set()
    while packages := [package for package in _missing(root, requested_abis, targets, machine) if package not in tried]:
        if not _install(root, packages):
            return
        tried.update(packages)


def brought(root: Path, known: Mapping[str, Abi]) -> dict[str, str]:
    """Returns the compilers of the ABIs; installs missing ones. Raises Failure (5) with the command that would install
    them."""
    compilers = {name: find_compiler(abi) for name, abi in known.items()}
    lacks = _lacks(compilers)
    if _install(root, [package for missing in lacks.values() for package in missing.packages]):
        compilers.update({name: find_compiler(known[name]) for name in lacks})
    if lacks := _lacks(compilers):
        raise Failure(in_one_sentence(lacks), 5)
    return {name: compiler for name, compiler in compilers.items() if isinstance(compiler, str)}


def _lacks(compilers: Mapping[str, str | Lack]) -> dict[str, Lack]:
    return {name: compiler for name, compiler in compilers.items() if isinstance(compiler, Lack)}


def missing_anywhere(root: Path) -> list[str]:
    """Returns the Debian packages that are missing for any ABI on any target, including targets over ssh."""
    known = known_abis(root).values()
    ways = sorted({way for abi in known for way in abi.runs if way != NATIVE})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compilers = list(pool.map(find_compiler, known))
    lacks = [
        *(compiler for compiler in compilers if isinstance(compiler, Lack)),
        *filter(None, map(lack, [*ways, "ssh:any"])),
    ]
    packages = [package for missing in lacks for package in missing.packages]
    return list(dict.fromkeys(packages))


def _missing(
    root: Path, requested_abis: Sequence[tuple[Abi, Collection[str]]], targets: Sequence[str], machine: str
) -> list[str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        missing = pool.map(
            lambda pair: _missing_for(root, pair[0], not lacking(root, *pair), targets, machine), requested_abis
        )
    return list(dict.fromkeys(package for packages in missing for package in packages))


def _missing_for(root: Path, abi: Abi, ready: bool, targets: Sequence[str], machine: str) -> list[str]:
    """Returns the missing packages of an ABI. ready: whether its probes are built; no compiler is then searched, which
    would compile a program each time."""
    compiler = "" if ready else find_compiler(abi)
    packages = [*compiler.packages] if isinstance(compiler, Lack) else []
    ways: list[str] = []
    if targets:
        for target in targets:  # those that run the ABI
            with contextlib.suppress(Failure):
                ways.append(for_abi(target, abi))
    elif ready:
        chosen = root / "build" / f"{abi.name}.target"
        ways = [chosen.read_text(encoding="utf-8").strip()] if chosen.is_file() else []
    else:
        # The first target in the ABI's file, unless this machine has one that runs the ABI.
        known = None if isinstance(compiler, Lack) else compiler
        if not any(lack_of(way, abi, machine, known) is None for way in abi.runs):
            ways = [way for way in abi.runs if way != NATIVE][:1]
    return packages + [package for way in ways for package in _missing_at(root, way)]


def _missing_at(root: Path, way: str) -> list[str]:
    try:
        missing = lack(way)
    except Failure:
        return []
    packages = list(missing.packages) if missing else []
    unmade = [need for need in needs(way) if not (root / "build/emulator" / need).is_file()]
    makers = [abi for need in unmade if (abi := known_abis(root).get(_MADE_FOR.get(need, "")))]
    lacks = [compiler for compiler in map(find_compiler, makers) if isinstance(compiler, Lack)]
    return packages + [package for missing in lacks for package in missing.packages]


# ---- installing ----------------------------------------------------------------------------------------------------


def _install(root: Path, packages: Iterable[str]) -> bool:
    """Installs the packages with apt, if this is root and TOLL_INSTALL permits it. Returns whether it tried; the caller
    checks whether they are now present."""
    missing = list(dict.fromkeys(packages))
    is_allowed = os.geteuid() == 0 and os.environ.get("TOLL_INSTALL") != "no" and shutil.which("apt-get") is not None
    return bool(missing) and is_allowed and _launch(root, missing)


@once()
def _launch(root: Path, packages: Sequence[str]) -> bool:
    """Installs packages with the launcher `toll --install`, which may record its actions. Returns whether there is a
    launcher: a wheel has none."""
    if not os.access(root, os.W_OK):
        return False
    try:
        with commands.start(
            "checkout", [root / "toll", "--install", *packages], stdin=commands.DEVNULL, stdout=commands.DEVNULL
        ) as launcher:
            try:
                launcher.wait()
            except KeyboardInterrupt:
                # The signal reaches the launcher too, which ends as soon as no package is half installed.
                launcher.wait()
                raise
    except OSError:
        return False
    return True
