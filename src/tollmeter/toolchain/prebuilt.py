# SPDX-License-Identifier: Apache-2.0
"""Executables that a release brings, for machines without a compiler: prebuilt/ABI/FAMILY.NAME, and beside them

    manifest.json   {"sources": "SHA-256 of what they were built from", "probes": {"FAMILY.NAME": {"sha256": "..."}}}

They take the place of a build where the sources are the same, byte for byte: a changed source is compiled. A file that
is not what the manifest states is not used."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from tollmeter.files import read_regular
from tollmeter.model import Abi, Failure, Record
from tollmeter.notices import notify, once
from tollmeter.toolchain import proven
from tollmeter.toolchain.abis import find
from tollmeter.toolchain.accepting import accepted, write
from tollmeter.toolchain.build import locked
from tollmeter.toolchain.ready import ProbesByAbi

FOLDER = "prebuilt"
_MOST_BYTES = 1 << 20


class _Manifest(Record, frozen=True):
    sources: str
    probes: dict[str, dict[str, str | int]]


def keep(root: Path, abi: Abi, folder: Path) -> int:
    """Copies what a build of these sources left, to be brought by a release. Returns how many probes that is."""
    built = proven.known(root, abi) & {path.name for path in (root / "build" / abi.name).iterdir()}
    folder.mkdir(parents=True)
    for probe in sorted(built):
        shutil.copy2(root / "build" / abi.name / probe, folder / probe)
    manifest = _Manifest(_digest(root, abi), {probe: proven.fingerprint(folder / probe) for probe in sorted(built)})
    write(folder / proven.MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return len(built)


def take(root: Path, requested: ProbesByAbi) -> None:
    """Puts those of the probes that are to be built, and that were brought, where a build would leave them."""
    known = find(root).abis if (root / FOLDER).is_dir() else {}
    for abi in (known[name] for name in requested.keys() & known.keys()):
        lacking = set(requested[abi.name]) - proven.known(root, abi)
        brought = _manifest(root / FOLDER / abi.name) if lacking else None
        if not brought or not lacking & brought.probes.keys() or brought.sources != _digest(root, abi):
            continue
        with once(), locked(root, abi):
            proven.begin(root, abi)
            taken = [probe for probe in sorted(lacking & brought.probes.keys()) if _is_taken(root, abi, probe, brought)]
            if taken:
                proven.finish(root, abi, taken, {})


def _is_taken(root: Path, abi: Abi, probe: str, brought: _Manifest) -> bool:
    source, target = root / FOLDER / abi.name / probe, root / "build" / abi.name / probe
    try:
        if proven.fingerprint(source) != brought.probes[probe]:
            raise Failure("it is not what its manifest states", 5)
        write(target, source.read_bytes())
        target.chmod(0o755)
        failure = accepted(root, target, abi)
    except OSError as error:
        failure = Failure(str(error.strerror), 5)
    except Failure as refused:
        failure = refused
    if failure:
        target.unlink(missing_ok=True)
        notify(f"{source} is not used: {failure.sentence}")
    return not failure


def _manifest(folder: Path) -> _Manifest | None:
    try:
        return msgspec.json.decode(read_regular(folder / proven.MANIFEST, _MOST_BYTES), type=_Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def _digest(root: Path, abi: Abi) -> str:
    """Of every file that a build for the ABI reads here, by its path."""
    files = [root / "Makefile", root / "abis" / f"{abi.name}.toml"]
    files += sorted(path for path in (root / "probes").rglob("*") if path.is_file())
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
