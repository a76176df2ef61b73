# SPDX-License-Identifier: Apache-2.0
"""The results of earlier builds in build/ABI, and whether they match the sources.

    FAMILY.NAME            the executable
    FAMILY.NAME.describe   the exact stream of `FAMILY.NAME --describe`, where this machine can run the ABI
    manifest.json          {"FAMILY.NAME": {"sha256": "...", "size_bytes": N}, ...}
    broken.json            {"FAMILY.NAME": "why it is left out", ...}
    stamp                  this CPU and the ABI file; its time is when the first build of what these two name began

A source that is younger than the stamp makes all of it stale. The next build begins both lists anew with the probes
that it is asked for; make leaves the executables of all others in place, and finds them up to date later. A library
that came or went makes only the probes stale that are built with it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tollmeter.model import Abi
from tollmeter.toolchain import libraries
from tollmeter.toolchain.accepting import write

MANIFEST, BROKEN, STAMP = "manifest.json", "broken.json", "stamp"
_BEGUN = "stamp.begun"
_OTHER_FILES = {"libtoll.a", "libsoft.a", MANIFEST, BROKEN, STAMP, _BEGUN}
_FUTURE_S = 60
_JUDGES = ("build", "accepting", "proven")
"""The modules that decide how an executable is built and what it must be."""


def known(root: Path, abi: Abi) -> frozenset[str]:
    """The probes that another build would not change: they are built and checked, or left out for a reason."""
    if not _is_current(root, abi):
        return frozenset()
    folder = root / "build" / abi.name
    built = {probe: _time_of(folder / probe) for probe in _read(folder / MANIFEST)}
    built |= dict.fromkeys(_read(folder / BROKEN), _time_of(folder / BROKEN))
    return frozenset(built.keys() - _before_a_library(root, abi, built))


def begin(root: Path, abi: Abi) -> None:
    """Records the begin of a build. A source that is saved from now on is younger than the build's results."""
    folder = root / "build" / abi.name
    folder.mkdir(parents=True, exist_ok=True)
    _clamp_future_times(root, folder)
    if not _is_current(root, abi):
        # Another user of a shared checkout may have made either: a folder's writer may replace a file, not change it.
        for name in (STAMP, _BEGUN):
            (folder / name).unlink(missing_ok=True)
        (folder / _BEGUN).write_text(_stamp(abi), encoding="utf-8")


def finish(root: Path, abi: Abi, accepted: Iterable[str], broken: Mapping[str, str]) -> None:
    """Records the end of a build. A probe that is left out leaves no file that could be measured."""
    folder = root / "build" / abi.name
    is_new = not (folder / STAMP).exists()
    for probe in broken:
        (folder / probe).unlink(missing_ok=True)
        (folder / f"{probe}.describe").unlink(missing_ok=True)
    fingerprints = {probe: fingerprint((folder / probe).read_bytes()) for probe in accepted}
    for name, more, others in ((MANIFEST, fingerprints, broken), (BROKEN, broken, fingerprints)):
        kept = {} if is_new else {probe: value for probe, value in _read(folder / name).items() if probe not in others}
        write(folder / name, msgspec.json.format(msgspec.json.encode(dict(sorted({**kept, **more}.items())))))
    if is_new:
        (folder / _BEGUN).replace(folder / STAMP)


def drop_forgotten(folder: Path, probes: frozenset[str]) -> None:
    """Removes the results of deleted sources."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in _OTHER_FILES and path.name.removesuffix(".describe") not in probes:
            path.unlink()


def fingerprint(content: bytes) -> dict[str, str | int]:
    """Returns the fingerprint of an executable, in the form of the manifest."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


def _read(path: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.MsgspecError):
        return {}


def _stamp(abi: Abi) -> str:
    return f"{platform.machine()}\n{msgspec.json.encode(abi).decode()}\n"


def _is_current(root: Path, abi: Abi) -> bool:
    stamp = root / "build" / abi.name / STAMP
    try:
        began = stamp.stat().st_mtime
        if stamp.read_text(encoding="utf-8") != _stamp(abi):
            return False
    except (OSError, UnicodeDecodeError):
        return False
    return began < time.time() + _FUTURE_S and all(_time_of(path) < began for path in _sources(root))


def _before_a_library(root: Path, abi: Abi, built: Mapping[str, float]) -> Iterator[str]:
    """Yields the probes that were built before one of their libraries was added or removed."""
    last = max(map(_time_of, libraries.changes(root)), default=0.0)
    older = [probe for probe, time_s in built.items() if time_s < last]
    if not older:
        return
    for probe, names in libraries.named_by(root / "probes", older).items():
        if names and any(built[probe] < _time_of(path) for path in libraries.changes_for(root, names, abi.name)):
            yield probe


def _sources(root: Path) -> Iterator[Path]:
    """Yields the source files and folders: a folder's time is that of the last file that was added or removed."""
    yield root / "Makefile"
    yield root / "probes"
    yield from (root / "probes").rglob("*")
    yield from (Path(__file__).with_name(f"{name}.py") for name in _JUDGES)


def _time_of(path: Path) -> float:
    """Returns a file's time; 0 for a file that was removed concurrently, which its folder's time shows."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _clamp_future_times(root: Path, folder: Path) -> None:
    """Sets future file times to the present: after a clock went back, such sources would always be built, and such
    objects never."""
    latest = time.time() + _FUTURE_S
    with contextlib.suppress(OSError):
        for source in (*_sources(root), *libraries.changes(root)):
            if _time_of(source) > latest:
                os.utime(source)
        for path in folder.rglob("*"):
            if path.is_file() and _time_of(path) > latest:
                path.unlink()
