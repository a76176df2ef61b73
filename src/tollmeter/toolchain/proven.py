# SPDX-License-Identifier: Apache-2.0
"""The results of earlier builds in build/ABI, and whether they are of these sources, by content: times of files mean
nothing, since a checkout, a copy and a clock that goes back change them.

    FAMILY.NAME                 the executable
    FAMILY.NAME.describe        the exact stream of `FAMILY.NAME --describe`, where this machine can run the ABI
    manifest.json               {"FAMILY.NAME": {"made_from": "...", "sha256": "...", "size_bytes": N}, ...}; of a probe
                                that is left out {"made_from": "...", "why": "..."}
    obj/FAMILY/NAME/made_from   the digest of what the probe's own objects were made from
    obj/sources.json            {"probes/runtime/clock.c": "its digest", ...}: what the runtime's objects were made from

`made_from` is the digest of all that a build of the probe reads: this CPU's name, the ABI file, the shared sources, its
own sources, the libraries that it is built with, and the modules that accept it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter.files import write_whole
from tollmeter.model import Abi
from tollmeter.toolchain import libraries

MANIFEST = "manifest.json"
MADE_FROM = "made_from"
_SOURCES = "obj/sources.json"
_JUDGES = ("toolchain/build", "toolchain/accepting", "toolchain/proven", "model/description_rules")
"""Modules whose code decides how an executable is built and accepted."""
_RUNTIME = "probes/runtime/"
_OWN_SUFFIXES = (".c", ".cc", ".S", ".mk")
_READ_SUFFIXES = (*_OWN_SUFFIXES, ".h", ".ld")
Entries = dict[str, dict[str, Any]]


class Digests(NamedTuple):
    """Digests of sources. whole: by probe, of everything that its build reads; objects: the same without sources of the
    runtime, which its objects do not include. shared: by path, of each file that several probes read. stale: paths of
    shared files that changed since the runtime's objects were made."""

    whole: Mapping[str, str]
    objects: Mapping[str, str]
    shared: Mapping[str, str]
    stale: Collection[str] = ()


def up_to_date_probes(root: Path, abi: Abi) -> frozenset[str]:
    """Returns the probes that another build would not change: they are built and checked, or left out for a reason."""
    folder = root / "build" / abi.name
    known = _read(folder / MANIFEST).items()
    entries = {probe: entry for probe, entry in known if "why" in entry or (folder / probe).is_file()}
    now = digests(root, abi, entries).whole if entries else {}
    return frozenset(probe for probe, entry in entries.items() if probe in now and entry.get(MADE_FROM) == now[probe])


def begin(root: Path, abi: Abi, probes: Iterable[str]) -> Digests:
    """Removes the results of earlier builds of these probes, except for objects of the same sources. Returns the
    digests of the sources; a source that is changed later has another digest than the results of this build."""
    folder = root / "build" / abi.name
    now = digests(root, abi, probes)
    for probe, digest in now.objects.items():
        _remove(folder, probe)
        objects = _objects(folder, probe)
        if _text(objects / MADE_FROM) != digest:
            shutil.rmtree(objects, ignore_errors=True)
            objects.mkdir(parents=True)
            write_whole(objects / MADE_FROM, digest.encode())
    stored = _read_json(folder / _SOURCES, dict[str, str])
    stale = {path for path, digest in now.shared.items() if stored.get(path) != digest}
    _write(folder / _SOURCES, {path: digest for path, digest in now.shared.items() if path not in stale})
    return now._replace(stale=stale)


def finish(root: Path, abi: Abi, digests_begun: Digests, accepted: Iterable[str], broken: Mapping[str, str]) -> None:
    """Records the results of a build in the manifest, and removes the files of broken probes. digests_begun: the result
    of `begin`. accepted: probes that were built and accepted. broken: by probe, why it was left out."""
    folder = root / "build" / abi.name
    for probe in broken:
        _remove(folder, probe)
    made = {
        probe: {MADE_FROM: digests_begun.whole[probe], **fingerprint((folder / probe).read_bytes())}
        for probe in accepted
    }
    left_out = {probe: {MADE_FROM: digests_begun.whole[probe], "why": why} for probe, why in broken.items()}
    others = up_to_date_probes(root, abi) - made.keys() - left_out.keys()
    kept = {probe: entry for probe, entry in _read(folder / MANIFEST).items() if probe in others}
    _write(folder / MANIFEST, {**kept, **made, **left_out})
    _write(folder / _SOURCES, digests_begun.shared)


def options_of(digests_begun: Digests) -> list[str]:
    """Returns make's options for shared sources, by content and not by time: `-W` for each that changed, `-o` for each
    that did not."""
    return [word for path in digests_begun.shared for word in ("-W" if path in digests_begun.stale else "-o", path)]


def forgotten(root: Path, abi: Abi) -> frozenset[str]:
    """Returns the probes of earlier builds whose sources were deleted."""
    folder = root / "build" / abi.name
    sources = {f"{path.parent.name}.{path.stem}" for path in (root / "probes").glob("*/*.c*")}
    return frozenset(_read(folder / MANIFEST).keys() - sources)


def drop_forgotten(root: Path, abi: Abi) -> None:
    """Removes the results of deleted sources."""
    folder, gone = root / "build" / abi.name, forgotten(root, abi)
    for probe in gone:
        _remove(folder, probe)
        shutil.rmtree(_objects(folder, probe), ignore_errors=True)
    if gone:
        kept = {probe: entry for probe, entry in _read(folder / MANIFEST).items() if probe not in gone}
        _write(folder / MANIFEST, kept)


def fingerprint(content: bytes) -> dict[str, str | int]:
    """Returns the fingerprint of an executable, in the form of the manifest."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


# ---- digests ---------------------------------------------------------------------------------------------------------


def digests(root: Path, abi: Abi, probes: Iterable[str]) -> Digests:
    """Returns the digests of the sources of these probes, without `stale`. A probe without a source has none."""
    by_path = {path: _digest([_content(root / path)]) for path in _paths(root)}
    sources_of_probes: dict[str, list[str]] = {}
    for path in by_path:
        sources_of_probes.setdefault(_owner(path), []).append(path)
    shared = {path: by_path[path] for path in sources_of_probes.pop("", ())}
    judges = [_digest([_content(Path(__file__).parents[1] / f"{name}.py")]) for name in _JUDGES]
    all_read = [platform.machine(), msgspec.json.encode(abi).decode(), *judges]
    headers = [f"{path} {digest}" for path, digest in shared.items() if not _is_of_runtime(path)]
    runtime = _digest([f"{path} {digest}" for path, digest in shared.items() if _is_of_runtime(path)])
    requested = sorted(sources_of_probes.keys() & set(probes))
    brought = _libraries(root, abi, requested)
    objects = {
        probe: _digest(
            [*all_read, *headers, *(f"{path} {by_path[path]}" for path in sources_of_probes[probe]), *brought[probe]]
        )
        for probe in requested
    }
    return Digests({probe: _digest([digest, runtime]) for probe, digest in objects.items()}, objects, shared)


def _paths(root: Path) -> list[str]:
    """Returns the files that a build reads, relative to the root: without backup and swap files of editors, and without
    the skeleton of a probe."""
    below = (
        f"{folder}/{name}".removeprefix(f"{root}/")
        for folder, _, names in os.walk(root / "probes")
        for name in names
        if folder != f"{root}/probes" and name.endswith(_READ_SUFFIXES) and not name.startswith(".")
    )
    return ["Makefile", "probes/probes.mk", *sorted(below)]


def _owner(path: str) -> str:
    """Returns the probe whose own source this is, `FAMILY.NAME`; empty for a file that several probes read."""
    parts = path.split("/")
    if len(parts) != 3 or path.startswith(_RUNTIME) or not path.endswith(_OWN_SUFFIXES):
        return ""
    return f"{parts[1]}.{parts[2].partition('.')[0]}"


def _is_of_runtime(path: str) -> bool:
    """Returns whether a file becomes an object of the runtime, and is in no object of a probe."""
    return path.startswith(_RUNTIME) and path.endswith((".c", ".S"))


def _libraries(root: Path, abi: Abi, probes: Sequence[str]) -> dict[str, list[str]]:
    """Returns for each probe the names and texts of the origin files of the libraries that it is built with."""
    named = libraries.named_by(root / "probes", probes)
    return {
        probe: [f"{path.name} {_text(path)}" for path in sorted(libraries.origins(root, names, abi.name))]
        if names
        else []
        for probe, names in named.items()
    }


def _digest(parts: Iterable[str | bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()


# ---- files -----------------------------------------------------------------------------------------------------------


def _objects(folder: Path, probe: str) -> Path:
    return folder / "obj" / probe.replace(".", "/", 1)


def _remove(folder: Path, probe: str) -> None:
    for name in (probe, f"{probe}.describe"):
        (folder / name).unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    """Returns a file's content; empty for a file that was removed concurrently."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _text(path: Path) -> str:
    return _content(path).decode(errors="replace")


def _read(path: Path) -> Entries:
    entries: Entries = _read_json(path, Entries)
    return entries


def _read_json(path: Path, kind: Any) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return {}


def _write(path: Path, entries: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.format(msgspec.json.encode(dict(sorted(entries.items())))))
