# SPDX-License-Identifier: Apache-2.0
"""Prepares probes of ABIs for measuring: builds the requested probes that are not built, and runs their descriptions.
Files in build/ besides a build's results in build/ABI:

    ABI.target    for an ABI that this machine runs only with help: the target of its visits unless another is
                  requested; the first one in the ABI's file that this machine has, even if its probes were described
                  on another
    ABI.gap       why an ABI that was not named could not be built; it is tried again after packages were installed"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tollmeter.extras import install_line
from tollmeter.files import write_whole
from tollmeter.model import Abi, Failure
from tollmeter.notices import Counting, notify, once
from tollmeter.targets import Lack
from tollmeter.targets.cpu_features import cpu_lack
from tollmeter.targets.local import X32_LOADER, is_loader_for
from tollmeter.targets.target import Target
from tollmeter.targets.ways import LOCAL, NATIVE, for_abi, lack
from tollmeter.toolchain import brought_compilers, proven
from tollmeter.toolchain.abis import known_abis, make_beside, open_here, refused_abis
from tollmeter.toolchain.accepting import check_description
from tollmeter.toolchain.build import Task, build_several, find_compiler

_DPKG = Path("/var/lib/dpkg/status")
_MOST_NAMED = 6

ProbesByAbi = Mapping[str, Collection[str]]
"""Probes by ABI."""


class NoCompiler(Failure):
    """An error: no compiler on this machine compiles for an ABI."""

    def __init__(self, abi: str, missing: Lack) -> None:
        super().__init__(in_one_sentence({abi: missing}), 5)
        self.abi, self.missing = abi, missing


def in_one_sentence(lacks: Mapping[str, Lack]) -> str:
    """Returns why these ABIs cannot be built, and one line that installs the packages that they lack."""
    reasons: dict[str, list[str]] = {}
    for abi, missing in lacks.items():
        reasons.setdefault(missing.reason, []).append(abi)
    causes = [f"{', '.join(abis)}: {reason}" for reason, abis in reasons.items()]
    packages = dict.fromkeys(package for missing in lacks.values() for package in missing.packages)
    mends = [install_line(packages)] if packages else []
    mends += dict.fromkeys(missing.otherwise for missing in lacks.values() if not missing.packages)
    return f"{'; '.join(causes)}: {'; '.join(mends)}"


def make_ready(
    root: Path, requested: ProbesByAbi, targets: Sequence[str] = (), unnamed: Collection[str] = ()
) -> dict[str, Failure]:
    """Builds and describes the requested probes, and returns by name why an ABI is missing. targets: tried before those
    in the ABI's file. unnamed: ABIs that the user has not named, which run on this machine or not at all."""
    named = requested.keys() - set(unnamed)
    known, refused = known_abis(root, named), refused_abis(root, named)
    gaps = {name: Failure(refused[name]) for name in requested if name in refused}
    abis = {name: known[name] for name in requested if name in known and name not in gaps}
    # An ABI that only this CPU could run is not compiled if the CPU lacks one of its features.
    only_here = [abi for abi in abis.values() if not targets and (abi.name in unnamed or abi.runs == (NATIVE,))]
    lacks = {abi.name: sentence for abi in only_here if (sentence := cpu_lack(abi))}
    gaps |= {name: Failure(f"{name}: {sentence}", 5) for name, sentence in lacks.items()}
    abis = {name: abi for name, abi in abis.items() if name not in lacks}
    compilers = _compilers(root, [abi for abi in abis.values() if lacking(root, abi, requested[abi.name])])
    tasks = []
    for name, compiler in compilers.items():
        if isinstance(compiler, Lack):
            gaps[name] = NoCompiler(name, compiler)
        else:
            tasks.append(Task(abis[name], compiler, requested[name]))
    if any(is_loader_for(task.abi) for task in tasks):
        make_beside(root, X32_LOADER)
    gaps |= _built(root, tasks)
    for name in abis.keys() - gaps.keys() - set(unnamed):
        try:
            _choose_target(root, abis[name], requested[name], targets)
        except Failure as failure:
            gaps[name] = Failure(f"{name}: {failure.sentence}", failure.exit_code)
    _remember(root, compilers)
    return gaps


def not_ready(root: Path, requested: ProbesByAbi) -> dict[str, Failure]:
    """Returns why an ABI is not available without a build, by its name."""
    known, refused = known_abis(root, requested.keys()), refused_abis(root, requested.keys())
    gaps = {name: Failure(refused[name]) for name in requested if name in refused}
    for name, probes in requested.items():
        if name not in gaps and (name not in known or lacking(root, known[name], probes)):
            gaps[name] = Failure(f"{name}: not all of its probes are built, and a dry run builds nothing", 5)
    return gaps


def lacking(root: Path, abi: Abi, probes: Collection[str]) -> bool:
    """Returns whether a probe is not built yet, or a built probe's source was deleted."""
    return bool(proven.forgotten(root, abi)) or not proven.up_to_date_probes(root, abi).issuperset(probes)


# ---- building -------------------------------------------------------------------------------------------------------


def _compilers(root: Path, abis: Sequence[Abi]) -> dict[str, str | Lack]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compilers = dict(zip((abi.name for abi in abis), pool.map(find_compiler, abis), strict=True))
    for abi in abis:
        if isinstance(compilers[abi.name], Lack) and brought_compilers.can_install_zig(abi.compiler):
            size = "100 MB to fetch, 400 MB here, a C library to compile"
            notify(f"installing {brought_compilers.ZIG} for {abi.name} once: {size}")
            with once():
                brought_compilers.install_zig(root)
            compilers[abi.name] = find_compiler(abi)
        if isinstance(compilers[abi.name], Lack) and brought_compilers.can_make_musl(abi.compiler):
            notify(f"compiling musl for {abi.name} once: 1 MB to fetch")
            brought_compilers.bring_musl(root)
            make_beside(root, brought_compilers.MUSL_SPECS)
            compilers[abi.name] = find_compiler(abi)
    return (
        compilers if shutil.which("make") else {name: _without_make(compiler) for name, compiler in compilers.items()}
    )


def _without_make(compiler: str | Lack) -> Lack:
    missing = compiler if isinstance(compiler, Lack) else Lack("no make")
    return missing._replace(packages=(*missing.packages, "make"))


@once()
def _built(root: Path, tasks: Sequence[Task]) -> dict[str, Failure]:
    """Returns the failures, by ABI, and reports the builds in one line."""
    if not tasks:
        return {}
    began = time.monotonic()
    with Counting("files built") as count:
        done = build_several(root, tasks, count)
    by_abi = dict(zip((task.abi.name for task in tasks), done, strict=True))
    if sentence := build_sentence({name: result for name, result in by_abi.items() if isinstance(result, list)}):
        notify(f"{sentence}: {time.monotonic() - began:.0f} s")
    failed = {name: result for name, result in by_abi.items() if isinstance(result, Failure)}
    return {name: Failure(f"{name}: {failure.sentence}", failure.exit_code) for name, failure in failed.items()}


def build_sentence(made: ProbesByAbi) -> str:
    """Returns the list of built probes as a sentence; empty if none was built."""
    anew = dict.fromkeys(probe for probes in made.values() for probe in probes)
    what = ", ".join(anew) if len(anew) <= _MOST_NAMED else f"{len(anew)} probes"
    return f"built {what} for {', '.join(abi for abi, probes in made.items() if probes)}" if anew else ""


# ---- gaps -----------------------------------------------------------------------------------------------------------


def known_gap(root: Path, name: str) -> NoCompiler | None:
    """Returns why an ABI could not be built; None if it was not tried, or if packages were installed since."""
    kept = root / "build" / f"{name}.gap"
    try:
        if kept.stat().st_mtime < (_DPKG.stat().st_mtime if _DPKG.exists() else 0):
            return None
        return NoCompiler(name, msgspec.json.decode(kept.read_bytes(), type=Lack))
    except (OSError, ValueError):
        return None


def _remember(root: Path, compilers: Mapping[str, str | Lack]) -> None:
    """Stores why ABIs have no compiler. A reason that cannot be stored is determined again."""
    for name, compiler in compilers.items():
        kept = root / "build" / f"{name}.gap"
        with contextlib.suppress(OSError):
            if isinstance(compiler, Lack):
                kept.parent.mkdir(exist_ok=True)
                write_whole(kept, msgspec.json.encode(compiler))
            else:
                kept.unlink(missing_ok=True)


# ---- describing -----------------------------------------------------------------------------------------------------


def _choose_target(root: Path, abi: Abi, probes: Collection[str], targets: Sequence[str]) -> None:
    """Runs --describe of foreign-ABI probes on a target and records that target. Raises Failure if no target
    runs them."""
    chosen = root / "build" / f"{abi.name}.target"
    if is_loader_for(abi):
        chosen.unlink(missing_ok=True)
        return
    built = [path for probe in sorted(probes) if (path := root / "build" / abi.name / probe).is_file()]
    if waiting := [path for path in built if not path.with_name(f"{path.name}.describe").is_file()]:
        chosen.write_text(f"{_describe(root, abi, waiting, targets)}\n", encoding="utf-8")
    usual = next((way for way in abi.runs if way != NATIVE and lack(way) is None), None)
    if usual and chosen.exists() and chosen.read_text(encoding="utf-8").strip() != usual:
        chosen.write_text(f"{usual}\n", encoding="utf-8")


@once()
def _describe(root: Path, abi: Abi, waiting: Sequence[Path], targets: Sequence[str]) -> str:
    """Runs --describe of the waiting probes on the first target that opens, and stores the output. Returns the target's
    name."""
    name, target = _first_open(root, abi, targets)
    try:
        target.prepare([str(path) for path in waiting])
        for path in waiting:
            stream = target.describe(str(path))
            check_description(root, path, abi, stream)
            write_whole(path.with_name(f"{path.name}.describe"), stream)
    finally:
        target.close()
    return name


def _first_open(root: Path, abi: Abi, targets: Sequence[str]) -> tuple[str, Target]:
    """Returns the first target that opens. Raises Failure with the missing requirement of each."""
    complaints: list[str] = []
    named = [for_abi(target, abi) for target in targets if target != LOCAL]
    for name in (*named, *(way for way in abi.runs if way != NATIVE)):
        missing = lack(name)
        if missing is None:
            return name, open_here(root, name)
        complaints.append(f"{missing.reason}: {missing.mend}" if missing.mend else missing.reason)
    reason = f"{cpu_lack(abi) or 'this kernel does not run it'}, and {abi.name}.toml names no emulator"
    raise Failure("; ".join(complaints) or reason, 5)
