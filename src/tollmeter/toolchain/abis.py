# SPDX-License-Identifier: Apache-2.0
"""ABIs that a person names: finds their files, says what each lacks here, builds and describes their probes.

A person's own file stands beside ours: in $XDG_CONFIG_HOME/tollmeter/abis (~/.config) or in ./abis. What stands in
build/ besides what `build` leaves there, for an ABI that this machine runs only with help:

    NAME.target    where its visits run unless another place is asked for: the first that its file names and this
                   machine has, whatever its probes described themselves on
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tollmeter.counting import Counting
from tollmeter.model import Abi, Clock, Failure
from tollmeter.root import typed, user_folder
from tollmeter.targets import Target
from tollmeter.targets.ways import LOCAL, NATIVE, clock_of, for_abi, lack, open_target
from tollmeter.toolchain import libraries, zig
from tollmeter.toolchain.accepting import check_description
from tollmeter.toolchain.build import ANY_CPU, Gap, broken_of, build_abi, find_compiler, probe_names, read_abi
from tollmeter.toolchain.distribution import install_line

_TRIAL = "int main(void) { return 0; }"
_TRIAL_S = 20
_UNASKED = "stands in this folder, and is used only where it is asked for"


class Found(NamedTuple):
    """refused: the sentence for each file that cannot be read, by the ABI's name."""

    abis: dict[str, Abi]
    refused: dict[str, str]


class Standing(NamedTuple):
    """An ABI on this machine. target: what runs it, None where nothing does. missing: why not more; mend: the line."""

    name: str
    summary: str
    compiler: str | None
    target: str | None
    clock: Clock | None
    missing: str | None
    mend: str | None


# ---- files ----------------------------------------------------------------------------------------------------------


def folders(root: Path) -> list[Path]:
    """Where ABI files may stand: the checkout's and the person's own, and last the folder in which the person is, which
    may be from elsewhere."""
    own = user_folder("XDG_CONFIG_HOME", ".config") / "abis"
    return list(dict.fromkeys(folder.resolve() for folder in (root / "abis", own, Path("abis"))))


def find(root: Path, asked: Collection[str] = ()) -> Found:
    """All ABIs; of the folder in which the person is those that were asked for by name. A file that cannot be read
    keeps no other from being found."""
    abis: dict[str, Abi] = {}
    refused: dict[str, str] = {}
    seen: dict[str, Path] = {}
    for path in (path for folder in folders(root) for path in sorted(folder.glob("*.toml"))):
        name = path.stem
        if _is_foreign(path, root) and name not in asked:
            continue
        if name in seen:
            refused[name] = f"{name}.toml stands in {seen[name]} and in {path.parent}: rename one of them"
            abis.pop(name, None)
            continue
        seen[name] = path.parent
        try:
            abis[name] = read_abi(path)
        except Failure as failure:
            refused[name] = failure.sentence
    return Found(abis, refused)


def _is_foreign(path: Path, root: Path) -> bool:
    return path.parent not in folders(root)[:2]


# ---- what is there, and what is missing -----------------------------------------------------------------------------


def survey(root: Path, machine: str) -> list[Standing]:
    """Every ABI: whether it builds here, what runs it, by which clock, and the line that mends what is missing."""
    found = find(root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(lambda abi: _standing(abi, machine), found.abis.values()))
    foreign = {path.stem for path in Path("abis").resolve().glob("*.toml") if _is_foreign(path, root)}
    told += [
        Standing(name, "", None, None, None, _UNASKED, typed("run", "--abi", name)) for name in foreign - {*found.abis}
    ]
    ill = [Standing(name, "", None, None, None, sentence, None) for name, sentence in found.refused.items()]
    return sorted([*told, *ill])


def _standing(abi: Abi, machine: str) -> Standing:
    compiler = find_compiler(abi)
    target, lacks, packages = None, [], []
    if isinstance(compiler, Gap):
        lacks, packages = [compiler.reason], list(compiler.packages)
    for way in abi.runs:
        missing = lack_of(way, abi, machine, None if isinstance(compiler, Gap) else compiler)
        if missing is None:
            target = LOCAL if way == NATIVE else way
            break
        if way != NATIVE or machine in abi.runs_on:
            lacks.append(missing[0])
        packages += missing[1]
    lines = [compiler.mend] if isinstance(compiler, Gap) and not compiler.packages else []
    lines += [install_line(packages)] if packages else []
    return Standing(
        abi.name, abi.summary, None if isinstance(compiler, Gap) else compiler, target,
        clock_of(target) if target else None, "; ".join(lacks) or None, " && ".join(lines).replace("`", "") or None,
    )  # fmt: skip


def lack_of(way: str, abi: Abi, machine: str, compiler: str | None) -> tuple[str, tuple[str, ...]] | None:
    """Why a way does not lead there, and the packages that open it."""
    if way != NATIVE:
        missing = lack(way)
        return (missing.reason, missing.packages) if missing else None
    if machine not in abi.runs_on and ANY_CPU not in abi.runs_on:
        return f"a {machine} CPU does not run it", ()
    if compiler and not _kernel_runs(compiler.split(), abi.flags):
        return "this kernel does not run it", ()
    return None


def _kernel_runs(compiler: Sequence[str], flags: Sequence[str]) -> bool:
    """Compiles a program that does nothing, and starts it: no file tells which formats a kernel takes."""
    with tempfile.TemporaryDirectory() as scratch:
        program = f"{scratch}/trial"
        words = [*compiler, *flags, "-x", "c", "-", "-static", "-no-pie", "-o", program]
        try:
            subprocess.run(words, input=_TRIAL, text=True, capture_output=True, check=True, timeout=_TRIAL_S)
            return subprocess.run([program], check=False, timeout=_TRIAL_S).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False


# ---- making ready ---------------------------------------------------------------------------------------------------


def make_ready(
    root: Path, names: Iterable[str], targets: Sequence[str], say: Callable[[str], None]
) -> dict[str, Failure]:
    """Builds and describes the probes of ABIs, and tells why one cannot be, by its name.

    targets: asked for, to be tried before the ABI's own ways. One ABI that fails keeps no other from being made.
    """
    names = list(names)
    found = find(root, names)
    gaps: dict[str, Failure] = {}
    for name in names:
        if name in found.refused:
            gaps[name] = Failure(found.refused[name])
        elif name in found.abis:
            try:
                _make(root, found.abis[name], targets, say)
            except Failure as failure:
                gaps[name] = Failure(f"{name}: {failure.sentence}", failure.exit_code)
    return gaps


def _make(root: Path, abi: Abi, targets: Sequence[str], say: Callable[[str], None]) -> None:
    """Raises Failure where it cannot be built, or nothing runs it."""
    chosen = root / "build" / f"{abi.name}.target"
    if not is_fresh(root, abi.name) and (_built(root, abi, say) or chosen.exists()):
        chosen.write_text(f"{_describe(root, abi, targets)}\n", encoding="utf-8")
    usual = next((way for way in abi.runs if way != NATIVE and lack(way) is None), None)
    if usual and chosen.exists():
        chosen.write_text(f"{usual}\n", encoding="utf-8")


def _built(root: Path, abi: Abi, say: Callable[[str], None]) -> bool:
    """Builds it. True where this machine did not run its probes, so that they have yet to describe themselves."""
    compiler = find_compiler(abi)
    if isinstance(compiler, Gap) and zig.can_bring(abi.compiler):
        say(f"installing {zig.WORD} for {abi.name}: 100 MB to download, 400 MB here, and a C library to compile, once")
        zig.install(root)
        compiler = find_compiler(abi)
    if isinstance(compiler, Gap):
        raise Failure(f"{compiler.reason}: {compiler.mend}", 5)
    say(f"building the probes for {abi.name}")
    with Counting("files made") as count:
        made = build_abi(root, abi, compiler, count)
    for probe, sentence in made.broken.items():
        say(f"left out {probe} for {abi.name}: {sentence}")
    return not made.runs


def is_fresh(root: Path, name: str) -> bool:
    """Every probe is described, and nothing that it is made from is younger than the manifest."""
    folder = root / "build" / name
    manifest = folder / "manifest.json"
    if not manifest.is_file() or not all((folder / f"{probe}.describe").is_file() for probe in _whole(root, folder)):
        return False
    sources = [*(root / "probes").rglob("*"), *(f for place in folders(root) for f in place.glob("*.toml"))]
    deciding = (root / "src/tollmeter/toolchain" / name for name in ("build.py", "accepting.py"))
    sources += [root / "Makefile", *deciding, *libraries.changes(root)]
    return all(source.stat().st_mtime < manifest.stat().st_mtime for source in sources if source.is_file())


def _whole(root: Path, folder: Path) -> list[str]:
    """The probes that a folder of build/ has, or should have."""
    return sorted(probe_names(root / "probes") - broken_of(folder).keys())


def _describe(root: Path, abi: Abi, targets: Sequence[str]) -> str:
    """Asks every probe that has not told of itself, on the first target that can be opened. Returns that one's name."""
    folder = root / "build" / abi.name
    waiting = [folder / probe for probe in _whole(root, folder) if not (folder / f"{probe}.describe").is_file()]
    name, target = _first_open(root, abi, targets)
    try:
        if waiting:
            target.prepare([str(path) for path in waiting])
        for path in waiting:
            stream = target.describe(str(path))
            check_description(root, path, abi, stream)
            path.with_name(f"{path.name}.describe").write_bytes(stream)
    finally:
        target.close()
    return name


def _first_open(root: Path, abi: Abi, targets: Sequence[str]) -> tuple[str, Target]:
    """Raises Failure with what each way lacks."""
    complaints: list[str] = []
    asked = [for_abi(target, abi) for target in targets if target != LOCAL]
    for name in (*asked, *(way for way in abi.runs if way != NATIVE)):
        missing = lack(name)
        if missing is None:
            return name, open_here(root, name)
        complaints.append(f"{missing.reason}: {install_line(missing.packages)}")
    raise Failure("; ".join(complaints) or "this kernel does not run it, and its file names no other way", 5)


def open_here(root: Path, target: str, also: Sequence[str] = ()) -> Target:
    """A target with what it needs from build/emulator, and what else is to be made there. Raises Failure where that
    cannot be made, or the target opened."""
    emulator = root / "build/emulator"
    for need in (*needs(target), *also):
        done = subprocess.run(
            ["make", "-s", "--no-print-directory", f"build/emulator/{need}"],
            cwd=root, capture_output=True, text=True, check=False, env=_outside_make(),
        )  # fmt: skip
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["make says nothing"])[0]
            raise Failure(f"build/emulator/{need} cannot be made: {said}", 5)
    return open_target(target, emulator)


def needs(target: str) -> tuple[str, ...]:
    """The files of build/emulator that a target needs."""
    from tollmeter.targets.qemu_system import BOARDS

    if target.startswith("qemu-user:"):
        return ("count.so",)
    return (BOARDS[target].ours,) if target in BOARDS else ()


def _outside_make() -> dict[str, str]:
    """A make that started this process has options of its own, which mean nothing to another."""
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
