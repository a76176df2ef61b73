# SPDX-License-Identifier: Apache-2.0
"""Executables of a release, for machines without a compiler: prebuilt/ABI.tar.xz, which holds FAMILY.NAME, and before
them

    manifest.json   {"FAMILY.NAME": {"made_from": "...", "sha256": "...", "size_bytes": N}, ...}, as of a build

They take the place of a build where the sources are the same, byte for byte: a changed source is compiled. A file that
is not what the manifest states is not used. Each executable repeats the C library's code, so that one archive is a
fifteenth of their size; probes are unpacked when a command first needs them, into the user's build folder."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tollmeter.files import tar_of, write_whole, xz_of
from tollmeter.model import Abi, Failure
from tollmeter.notices import notify, once
from tollmeter.toolchain import proven
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.accepting import accepted
from tollmeter.toolchain.build import locked
from tollmeter.toolchain.ready import ProbesByAbi

FOLDER = "prebuilt"
ENDING = ".tar.xz"
_PRESET = 6
"""Compression preset of xz: preset 9 takes four times as long, for the same size."""
_UNREADABLE = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, msgspec.MsgspecError)
_Stated = dict[str, str | int]
"""The manifest's data on one executable."""


def keep(root: Path, abi: Abi, folder: Path) -> int:
    """Packs the build of these sources for a release. Returns the number of probes."""
    build_folder = root / "build" / abi.name
    built = sorted(proven.up_to_date_probes(root, abi) & {path.name for path in build_folder.iterdir()})
    executables = {probe: (build_folder / probe).read_bytes() for probe in built}
    whole = proven.digests(root, abi, built).whole
    manifest = {
        probe: {proven.MADE_FROM: whole[probe], **proven.fingerprint(content)} for probe, content in executables.items()
    }
    files = {proven.MANIFEST: msgspec.json.encode(manifest), **executables}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{abi.name}{ENDING}", xz_of(tar_of(files), _PRESET))
    return len(built)


def take(root: Path, requested: ProbesByAbi) -> None:
    """Unpacks the requested probes of a release to the paths of a build."""
    known = known_abis(root) if (root / FOLDER).is_dir() else {}
    for abi in (known[name] for name in requested.keys() & known.keys()):
        lacking = set(requested[abi.name]) - proven.up_to_date_probes(root, abi)
        path = root / FOLDER / f"{abi.name}{ENDING}"
        if lacking and path.is_file():
            _take(root, abi, path, lacking)


def _take(root: Path, abi: Abi, path: Path, lacking: set[str]) -> None:
    accepted_probes: list[str] = []
    try:
        with tarfile.open(path, "r|xz") as archive:
            files = _files(archive)
            manifest = msgspec.json.decode(next(files, ("", b""))[1], type=dict[str, _Stated])
            now = proven.digests(root, abi, lacking).whole
            wanted = {
                probe: manifest[probe] for probe in now if now[probe] == manifest.get(probe, {}).get(proven.MADE_FROM)
            }
            if not wanted:
                return
            with once(), locked(root, abi):
                sources = proven.begin(root, abi, wanted)
                try:
                    accepted_probes.extend(_unpacked(root, abi, files, wanted))
                finally:
                    if accepted_probes:
                        # A release has no objects, so no source of theirs is recorded.
                        proven.finish(root, abi, sources._replace(shared={}), accepted_probes, {})
    except _UNREADABLE as error:
        notify(f"{path} is not used: {error}")


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        if file := archive.extractfile(member):
            yield member.name, file.read()


def _unpacked(root: Path, abi: Abi, files: Iterator[tuple[str, bytes]], wanted: Mapping[str, _Stated]) -> Iterator[str]:
    """Writes the requested files that match the manifest, and yields their names."""
    left = dict(wanted)
    for probe, content in files:
        if probe in left and _is_put(root / "build" / abi.name / probe, content, left.pop(probe), root, abi):
            yield probe
        if not left:
            return
    raise EOFError(f"it ends without {' '.join(left)}")


def _is_put(target: Path, content: bytes, stated: _Stated, root: Path, abi: Abi) -> bool:
    """Writes an executable, and returns whether it matches the manifest and passes the checks of a build. Otherwise
    reports and removes it."""
    if proven.fingerprint(content).items() - stated.items():
        failure: Failure | None = Failure("it is not what its manifest states", 5)
    else:
        write_whole(target, content)
        target.chmod(0o755)
        failure = accepted(root, target, abi)
    if failure:
        target.unlink(missing_ok=True)
        notify(f"{FOLDER}/{abi.name}{ENDING}: {target.name} is not used: {failure.sentence}")
    return not failure
