# SPDX-License-Identifier: Apache-2.0
"""Libraries that single probes are compiled with (probes/libraries.toml): Debian's packages, brought into
build/libraries/NAME when such a probe is selected, and never installed. `ready` in there says that all of it came.

Nobody need be root: apt downloads a package by the system's lists, or by lists of our own where it has none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tollmeter.model import Failure, Record

READY = "ready"
_APT_S = 300


class Library(Record, frozen=True, forbid_unknown_fields=True):
    """package and version: of Debian. sha256: of the package. beside: what else is brought. abis: for which alone;
    empty for all.
    """

    summary: str
    package: str
    version: str
    sha256: str
    beside: tuple[str, ...] = msgspec.field(default=(), name="with")
    abis: tuple[str, ...] = ()


def known(root: Path) -> dict[str, Library]:
    """By name; none where there is no such file. Raises Failure where it cannot be read."""
    path = root / "probes/libraries.toml"
    try:
        if not path.exists():
            return {}
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Library])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Failure(f"{path.name} cannot be read: {error}", 5) from error


def missing(root: Path, names: Iterable[str], abis: Iterable[str]) -> list[str]:
    """Which of these, and of what they are used with, are not there yet for any of the ABIs. Raises Failure."""
    libraries, wanted = known(root), set(abis)
    chosen = dict.fromkeys(one for name in names for one in _closure(libraries, name))
    fitting = (name for name in chosen if not libraries[name].abis or wanted.intersection(libraries[name].abis))
    return [name for name in fitting if not (root / "build/libraries" / name / READY).is_file()]


def _closure(libraries: dict[str, Library], name: str) -> Iterator[str]:
    if name not in libraries:
        raise Failure(f"probes/libraries.toml has no {name!r}, which a probe asks for", 5)
    yield name
    for other in libraries[name].beside:
        yield from _closure(libraries, other)


def bring(root: Path, name: str) -> None:
    """Downloads and unpacks one. Raises Failure (5) where it cannot be had or may not be, or is not what is
    pinned.
    """
    library, folder = known(root)[name], root / "build/libraries" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as held, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fcntl.flock(held, fcntl.LOCK_EX)
        if (folder / READY).is_file():
            return
        if os.environ.get("TOLL_INSTALL") == "no":
            raise Failure(f"{library.package} is not here, and TOLL_INSTALL=no forbids to bring it", 5)
        try:
            packed = _downloaded(library, Path(scratch), folder.parent)
            _prove(packed, library)
            _unpack(packed, Path(scratch) / "whole")
            shutil.rmtree(folder, ignore_errors=True)
            (Path(scratch) / "whole").rename(folder)
            (folder / READY).touch()
        except OSError as error:
            raise Failure(f"{library.package} cannot be kept in {folder}: {error}", 5) from error


def _prove(packed: Path, library: Library) -> None:
    found = hashlib.sha256(packed.read_bytes()).hexdigest()
    if found != library.sha256:
        raise Failure(f"{packed.name} is not the file that is pinned: its SHA-256 is {found}", 5)


def _unpack(packed: Path, folder: Path) -> None:
    folder.mkdir()
    done = subprocess.run(["dpkg-deb", "-x", packed, folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{packed.name} cannot be unpacked: {_last_line(done.stderr)}", 5)


# ---- apt --------------------------------------------------------------------------------------------------------


def _downloaded(library: Library, scratch: Path, state: Path) -> Path:
    """By the system's lists; where these do not know the version, by our own."""
    found, said = _tried(library, scratch, [])
    if found is None:
        own = _own_lists(state / "apt")
        _apt(["apt-get", *own, "update"], scratch)
        found, said = _tried(library, scratch, own)
        shutil.rmtree(state / "apt", ignore_errors=True)
    if found is None:
        raise Failure(f"Debian's {library.package} {library.version} cannot be had here: {said}", 5)
    return found


def _own_lists(state: Path) -> list[str]:
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    settings = {"Dir::State": state, "Dir::State::status": state / "status", "Dir::Cache": state,
                "APT::Sandbox::User": "", "Acquire::Languages": "none"}  # fmt: skip
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _tried(library: Library, scratch: Path, options: Sequence[str]) -> tuple[Path | None, str]:
    """What was downloaded, or what apt says."""
    exact = f"{library.package}={library.version}"
    done = _apt(["apt-get", *options, "download", exact], scratch)
    return next(iter(scratch.glob("*.deb")), None), _last_line(done.stderr)


def _apt(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            [words[0], "-q", *words[1:]],
            capture_output=True, text=True, check=False, timeout=_APT_S, cwd=folder, env=environment,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise Failure("there is no apt here to bring it with", 5) from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"apt does not answer within {_APT_S} s", 5) from error


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line]
    return lines[-1] if lines else "it says nothing"
