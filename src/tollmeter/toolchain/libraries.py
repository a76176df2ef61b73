# SPDX-License-Identifier: Apache-2.0
"""Third-party libraries of probes and workloads: Debian packages and sources in Debian's archive. They are downloaded
when a probe that needs them is selected, and never installed. The libraries of probes are listed in
probes/libraries.toml.

    build/libraries/NAME         the unpacked library, or a link to the user's own folder
    build/libraries/NAME.from    the checksum of the download, or that folder; empty after the library was removed

Root is not needed: apt reports the address of a package by the system's lists, or by our own lists if these do not
contain it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tollmeter import commands
from tollmeter.model import Failure, Record
from tollmeter.notices import once
from tollmeter.targets.debian_kernel import own_lists, run_apt

APT_HELPER = "/usr/lib/apt/apt-helper"
_MISSING = "there is no apt here to bring it with"
_NAMED = re.compile(r'^ *\.library = "(.*)",$', re.MULTILINE)


class Library(Record, frozen=True, forbid_unknown_fields=True):
    """A library. package, version: Debian's. archive: name of a source archive that is downloaded in place of the
    package. sha256: checksum of the download. holds: path of a file that every edition has. variable: environment
    variable that names the user's own folder. beside: names of further libraries that it needs. abis: the only
    supported ABIs; empty for all."""

    summary: str
    package: str
    sha256: str
    version: str = ""
    archive: str = ""
    holds: str = ""
    variable: str = ""
    beside: tuple[str, ...] = msgspec.field(default=(), name="with")
    abis: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.archive or f"{self.package} {self.version}"


def known_libraries(root: Path) -> dict[str, Library]:
    """Returns the libraries by name; empty if the file does not exist. Raises Failure if it cannot be read."""
    path = root / "probes/libraries.toml"
    try:
        if not path.exists():
            return {}
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Library])
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise Failure(f"{path.name} cannot be read: {error}", 5) from error


def named_by(folder: Path, probes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns for each probe the libraries that its source, or an included header of its family, names."""
    libraries: dict[str, tuple[str, ...]] = dict.fromkeys(probes, ())
    by_header = {(header.parent.name, header.name): _named_in(_text(header)) for header in folder.glob("*/*.h")}
    naming = {header: names for header, names in by_header.items() if names}
    for source in folder.glob("*/*.c*"):
        if (probe := f"{source.parent.name}.{source.stem}") in libraries:
            text, family = _text(source), source.parent.name
            included = [names for (of, name), names in naming.items() if of == family and f'#include "{name}"' in text]
            libraries[probe] = (*_named_in(text), *(name for names in included for name in names))
    return libraries


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _named_in(text: str) -> list[str]:
    return [name for words in _NAMED.findall(text) for name in words.split()] if ".library" in text else []


def missing_libraries(root: Path, names: Iterable[str], abis: Iterable[str]) -> list[str]:
    """Returns the names of those libraries, and of libraries that they need, that are missing for any of the ABIs.
    Raises Failure for an unknown name."""
    libraries = known_libraries(root)
    fitting = _fitting(libraries, names, set(abis))
    return [name for name in fitting if not _is_there(folder_of(root, name), libraries[name])]


def _fitting(libraries: dict[str, Library], names: Iterable[str], abis: set[str]) -> Iterator[str]:
    for needed in dict.fromkeys(needed for name in names for needed in _closure(libraries, name)):
        if not libraries[needed].abis or abis.intersection(libraries[needed].abis):
            yield needed


def _closure(libraries: dict[str, Library], name: str) -> Iterator[str]:
    if name not in libraries:
        raise Failure(f"probes/libraries.toml has no {name!r}, which a probe asks for", 5)
    yield name
    for other in libraries[name].beside:
        yield from _closure(libraries, other)


def folder_of(root: Path, name: str) -> Path:
    return root / "build/libraries" / name


def origins(root: Path, names: Iterable[str], abi: str) -> set[Path]:
    """Returns the path of the file NAME.from of each library of a probe that is used for this ABI. Raises Failure for
    an unknown name."""
    return {_from(folder_of(root, name)) for name in _fitting(known_libraries(root), names, {abi})}


def install_library(root: Path, name: str, library: Library) -> None:
    """Links the user's own library, or downloads and unpacks it, if it is missing. Raises Failure (5) if it is not
    available or is not the pinned file: then an earlier one is removed too, and its probes are built without it."""
    folder = folder_of(root, name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if _is_there(folder, library):
                return
            # A library of another origin is removed first, so that no build uses it.
            if folder.is_symlink():
                folder.unlink()
            shutil.rmtree(folder, ignore_errors=True)
            if _from(folder).is_file() and _from(folder).stat().st_size:
                _from(folder).write_text("", encoding="utf-8")
            own = _own(library)
            if own is None:
                with once():
                    _fetch(library, folder)
            elif (own / library.holds).is_file():
                folder.symlink_to(own)
            else:
                raise Failure(f"{library.variable}={own} holds no {library.holds}: expected {library.summary}", 5)
            _from(folder).write_text(_origin(library), encoding="utf-8")
    except OSError as error:
        raise Failure(f"{library.title} cannot be kept in {folder}: {error}", 5) from error


def _from(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.from")


def _is_there(folder: Path, library: Library) -> bool:
    origin = _from(folder)
    same = origin.is_file() and origin.read_text(encoding="utf-8") == _origin(library)
    return same and (folder / library.holds).exists()


def _origin(library: Library) -> str:
    return str(_own(library) or library.sha256)


def _own(library: Library) -> Path | None:
    path = os.environ.get(library.variable) if library.variable else None
    return Path(path).resolve() if path else None


# ---- fetching -----------------------------------------------------------------------------------------------------


def _fetch(library: Library, folder: Path) -> None:
    """Fetches a library completely or not at all."""
    if os.environ.get("TOLL_INSTALL") == "no":
        otherwise = f": {library.variable}=DIR names a copy of your own" if library.variable else ""
        raise Failure(f"{library.title} is not installed, and TOLL_INSTALL=no forbids downloading it{otherwise}", 5)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        packed, tree = scratch / "packed", scratch / "tree"
        _download(library, _address(library, scratch), packed)
        tree.mkdir()
        unpacked = _unpack(library, packed, tree)
        if not (unpacked / library.holds).exists():
            raise Failure(f"{library.title} holds no {library.holds}", 5)
        unpacked.rename(folder)


def _download(library: Library, address: str, packed: Path) -> None:
    words = [APT_HELPER, "-o", "APT::Sandbox::User=", "download-file", address, f"{packed}", f"SHA256:{library.sha256}"]
    done = run_apt(words, packed.parent, _MISSING)
    if done.returncode != 0 or not packed.is_file():
        raise Failure(f"{library.title} cannot be fetched: {_first_error(done.stderr)}", 5)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    if digest != library.sha256:
        raise Failure(f"{library.title} is not the file that is pinned: its SHA-256 is {digest}", 5)


def _unpack(library: Library, packed: Path, tree: Path) -> Path:
    """Returns the folder of the unpacked library: for a source, the one folder in its archive."""
    if not library.archive:
        done = commands.run("checkout", ["dpkg-deb", "-x", packed, tree], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"{library.title} cannot be unpacked: {_first_error(done.stderr)}", 5)
        return tree
    try:
        with tarfile.open(packed) as held:
            for member in held:
                _extract(held, member, tree)
    except tarfile.TarError as error:
        raise Failure(f"{library.title} cannot be unpacked: {error}", 5) from error
    return next(iter(tree.iterdir()), tree)


def _extract(held: tarfile.TarFile, member: tarfile.TarInfo, tree: Path) -> None:
    """Writes files and folders below tree, and nothing else, since a link may point outside. `filter="data"` needs
    Python 3.11.4."""
    name = PurePosixPath(member.name)
    content = held.extractfile(member) if member.isreg() else None
    if name.is_absolute() or ".." in name.parts or not (content or member.isdir()):
        raise tarfile.ExtractError(f"{member.name} is not a file or a folder below the archive's own folder")
    if content is None:
        (tree / name).mkdir(parents=True, exist_ok=True)
        return
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    with content, (tree / name).open("wb") as file:
        shutil.copyfileobj(content, file)


# ---- apt ----------------------------------------------------------------------------------------------------------


def _address(library: Library, scratch: Path) -> str:
    """Returns the address of a package by the system's lists; by our own list if these do not contain the package."""
    address, output = _looked_up(library, scratch, [])
    if address is None:
        own = own_lists(scratch / "apt")
        run_apt(["apt-get", "-q", *own, "update"], scratch, _MISSING)
        address, output = _looked_up(library, scratch, own)
    if address is None:
        raise Failure(f"Debian's {library.package} {library.version} cannot be installed here: {output}", 5)
    return address


def _looked_up(library: Library, scratch: Path, options: Sequence[str]) -> tuple[str | None, str]:
    """Returns the address, or apt's error. A source archive is at the location of the packages that are built from
    it."""
    exact = f"{library.package}={library.version}" if library.version else library.package
    done = run_apt(["apt-get", "-q", *options, "download", "--print-uris", exact], scratch, _MISSING)
    match = re.search(r"^'([^']+)/([^/']+)'", done.stdout, re.MULTILINE)
    return f"{match[1]}/{library.archive or match[2]}" if match else None, _first_error(done.stderr)


def _first_error(text: str) -> str:
    """Returns the first error of the output, or else its last line."""
    lines = [line for line in text.strip().splitlines() if line]
    errors = [line for line in lines if line.startswith("E: ")]
    return (errors or lines[-1:] or ["it says nothing"])[0]
