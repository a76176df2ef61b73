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
from tollmeter.targets.ways import NATIVE, for_abi, lack
from tollmeter.toolchain.abis import find, lack_of, needs
from tollmeter.toolchain.build import Gap, find_compiler
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
    known = find(root, requested).abis
    asked = [(abi, probes) for name, probes in requested.items() if (abi := known.get(name))]
    tried: set[str] = set()
    while packages := [package for package in _missing(root, asked, targets, machine) if package not in tried]:
        if not _install(root, packages):
            return
        tried.update(packages)


def brought(root: Path, known: Mapping[str, Abi]) -> dict[str, str]:
    """Returns the compilers of the ABIs; installs missing ones. Raises Failure (5) with the command that would install
    them."""
    compilers = {name: find_compiler(abi) for name, abi in known.items()}
    gaps = [compiler for compiler in compilers.values() if isinstance(compiler, Gap)]
    if _install(root, [package for gap in gaps for package in gap.packages]):
        compilers.update({gap.abi: find_compiler(known[gap.abi]) for gap in gaps})
    if gaps := [compiler for compiler in compilers.values() if isinstance(compiler, Gap)]:
        raise Failure(in_one_sentence(gaps), 5)
    return {name: compiler for name, compiler in compilers.items() if isinstance(compiler, str)}


def missing_anywhere(root: Path) -> list[str]:
    """Returns the Debian packages that are missing for any ABI with any target, and for another machine."""
    known = find(root).abis.values()
    ways = sorted({way for abi in known for way in abi.runs if way != NATIVE})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compilers = list(pool.map(find_compiler, known))
    packages = [package for gap in compilers if isinstance(gap, Gap) for package in gap.packages]
    packages += [package for lacked in map(lack, [*ways, "ssh:any"]) if lacked for package in lacked.packages]
    return list(dict.fromkeys(packages))


def _missing(
    root: Path, asked: Sequence[tuple[Abi, Collection[str]]], targets: Sequence[str], machine: str
) -> list[str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        missing = pool.map(lambda pair: _missing_for(root, pair[0], not lacking(root, *pair), targets, machine), asked)
    return list(dict.fromkeys(package for packages in missing for package in packages))


def _missing_for(root: Path, abi: Abi, ready: bool, targets: Sequence[str], machine: str) -> list[str]:
    """Returns the missing packages of an ABI. For an ABI that is ready it does not search packages, since that would
    compile a program each time."""
    compiler = "" if ready else find_compiler(abi)
    packages = [*compiler.packages] if isinstance(compiler, Gap) else []
    ways: list[str] = []
    if targets:
        for target in targets:  # those that run the ABI
            with contextlib.suppress(Failure):
                ways.append(for_abi(target, abi))
    elif ready:
        chosen = root / "build" / f"{abi.name}.target"
        ways = [chosen.read_text(encoding="utf-8").strip()] if chosen.is_file() else []
    else:
        # The best of an ABI's ways, unless another is open already.
        known = None if isinstance(compiler, Gap) else compiler
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
    makers = [abi for need in unmade if (abi := find(root).abis.get(_MADE_FOR.get(need, "")))]
    gaps = [gap for gap in map(find_compiler, makers) if isinstance(gap, Gap)]
    return packages + [package for gap in gaps for package in gap.packages]


# ---- installing ----------------------------------------------------------------------------------------------------


def _install(root: Path, packages: Iterable[str]) -> bool:
    """Returns whether the installation was tried; the caller checks its result."""
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
                # It reaches the launcher too, which ends as soon as no package is left half installed.
                launcher.wait()
                raise
    except OSError:
        return False
    return True
