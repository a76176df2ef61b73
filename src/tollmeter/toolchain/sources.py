# SPDX-License-Identifier: Apache-2.0
"""Sources of others that probes are built with: fetched from Debian's archive where such a probe is asked for.

What is needed stands beside the probes, probes/FAMILY/NAME/source.toml; where it was found, in build/sources/NAME.path,
which the makefile beside it reads. apt fetches it, from the archive that this machine has its packages from, and keeps
it there; that needs no right of root.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tollmeter.model import Failure, Record
from tollmeter.toolchain.build import probe_names

APT_HELPER = "/usr/lib/apt/apt-helper"
_LASTS_S = 120


class Source(Record, frozen=True, forbid_unknown_fields=True):
    """probes: the glob of those built with it. variable: of the environment, names a folder of one's own. holds: a
    file that every such folder has. beside: a binary package that lies beside the archive.
    """

    name: str
    summary: str
    probes: str
    variable: str
    holds: str
    beside: str
    archive: str
    sha256: str


def wanted(root: Path, patterns: Iterable[str]) -> list[Source]:
    """The sources of all probes that one of the globs names."""
    names = [name for name in probe_names(root / "probes") if any(fnmatchcase(name, one) for one in patterns)]
    known = map(_read, sorted((root / "probes").glob("*/*/source.toml")))
    return [source for source in known if any(fnmatchcase(name, source.probes) for name in names)]


def _read(path: Path) -> Source:
    return msgspec.convert({"name": path.parent.name, **tomllib.loads(path.read_text(encoding="utf-8"))}, Source)


def bring(root: Path, source: Source) -> bool:
    """Finds it, or fetches it. Returns whether probes have to be built anew. Raises Failure (5) where it cannot be had:
    what was built with an earlier one is then built without.
    """
    told = root / "build/sources" / f"{source.name}.path"
    before = told.read_text(encoding="utf-8") if told.is_file() else ""
    try:
        found = f"{_found(root, source)}\n"
    except Failure:
        if before and not (Path(before.strip()) / source.holds).is_file():
            told.unlink()
        raise
    if found != before:
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(found, encoding="utf-8")
    return found != before


def _found(root: Path, source: Source) -> Path:
    own = os.environ.get(source.variable)
    folder = Path(own).resolve() if own else root / "build/sources" / source.name
    if (folder / source.holds).is_file():
        return _plain(folder, source)
    if own:
        raise Failure(f"{source.variable}={own} holds no {source.holds}: {source.summary} is meant", 5)
    if os.environ.get("TOLL_INSTALL") == "no":
        raise Failure(f"{source.name} is not here, and may not be fetched: {source.variable}=DIR names its source", 5)
    _fetch(source, folder)
    return folder


def _plain(folder: Path, source: Source) -> Path:
    """make takes no other names of files."""
    if re.search(r"[^\w./+@-]", str(folder)):
        raise Failure(f"{source.variable}={folder}: make takes no blank and no sign of the shell in a path", 5)
    return folder


# ---- fetching -----------------------------------------------------------------------------------------------------


def _fetch(source: Source, folder: Path) -> None:
    """Whole or not at all. Raises Failure (5)."""
    if not shutil.which("apt-get") or not Path(APT_HELPER).exists():
        raise Failure(f"{source.name} comes from Debian's archive, and there is no apt here: {source.variable}=DIR", 5)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        archive = Path(scratch) / "archive"
        _run(source, [APT_HELPER, "download-file", _address(source), str(archive), f"SHA256:{source.sha256}"])
        _unpack(source, archive, Path(scratch) / "tree")
        (made,) = (Path(scratch) / "tree").iterdir()
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _address(source: Source) -> str:
    """Of the archive, which lies where the binary packages made of it lie."""
    asked = ["apt-get", "download", "--print-uris", source.beside]
    told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_LASTS_S)
    if told.returncode != 0 and os.geteuid() == 0:
        _run(source, ["apt-get", "update", "-q"])
        told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_LASTS_S)
    found = re.search(r"^'([^']+)/[^/']+'", told.stdout, re.MULTILINE)
    if found is None:
        raise Failure(f"apt knows no {source.beside}, beside which {source.archive} lies: apt-get update", 5)
    return f"{found[1]}/{source.archive}"


def _run(source: Source, words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LASTS_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{source.archive} cannot be fetched: {error}", 5) from error
    if done.returncode != 0:
        said = [line for line in done.stderr.strip().splitlines() if line.startswith("E:")] or ["apt does not say why"]
        raise Failure(f"{source.archive} cannot be fetched: {said[0].removeprefix('E: ')}", 5)


def _unpack(source: Source, archive: Path, tree: Path) -> None:
    if hashlib.sha256(archive.read_bytes()).hexdigest() != source.sha256:
        raise Failure(f"{source.archive} has another checksum than the one it is known by, and is not used", 5)
    try:
        with tarfile.open(archive) as held:
            held.extractall(tree, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise Failure(f"{source.archive} cannot be unpacked: {error}", 5) from error
    if not [*tree.glob(f"*/{source.holds}")]:
        raise Failure(f"{source.archive} holds no {source.holds}", 5)
