# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels for guests: downloaded once through apt, never installed.

apt uses its own folders inside the cache, and the architecture as an option: the system's packages, lists and
architectures are unchanged, and root is not needed. Signatures are checked against the system's keys."""

from __future__ import annotations

import fcntl
import lzma
import os
import re
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.root import user_folder

_APT_S = 300
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SOURCES = "sources.list"


class KernelChoice(NamedTuple):
    """The kernel package of an architecture. package: the metapackage that depends on the newest kernel. device_tree:
    the file's name, or None. installer: suffix of the installer's package names of that kernel; empty if there are
    none."""

    architecture: str
    package: str
    device_tree: str | None
    installer: str = ""


def cache_folder() -> Path:
    """Returns the folder of downloads: $XDG_CACHE_HOME/tollmeter, or ~/.cache/tollmeter."""
    return user_folder("XDG_CACHE_HOME", ".cache")


def cached(choice: KernelChoice) -> Path | None:
    """Returns the kernel's image if it was downloaded before, with its device tree beside it; else None."""
    image = cache_folder() / "kernels" / choice.package / "image"
    files = (image, image.with_name(choice.device_tree)) if choice.device_tree else (image,)
    return image if all(path.is_file() for path in files) else None


def fetched_kernel(choice: KernelChoice) -> Path:
    """Returns the kernel's image as `cached` does, downloaded if missing. Raises Failure if it is not available."""
    if image := cached(choice):
        return image
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with (cache_folder() / "lock").open("w") as lock:  # concurrent runs download one after the other
            fcntl.flock(lock, fcntl.LOCK_EX)
            if cached(choice) is None:
                _download(choice, cache_folder() / "kernels" / choice.package)
                shutil.rmtree(cache_folder() / f"apt-{choice.architecture}", ignore_errors=True)
    except (OSError, tarfile.TarError, lzma.LZMAError, struct.error) as error:
        raise Failure(f"the kernel of {choice.package} cannot be kept in {cache_folder()}: {error}", 5) from error
    image = cached(choice)
    if image is None:
        raise Failure(f"{choice.package} holds no kernel of the kind that this guest needs", 5)
    return image


# ---- apt ----------------------------------------------------------------------------------------------------------


def _download(choice: KernelChoice, folder: Path) -> None:
    """Downloads a kernel from the installer's package if there is one: an identical kernel in an eighth of the
    bytes."""
    state = cache_folder() / f"apt-{choice.architecture}"
    complaint = ""
    for way in (_of_installer, _of_system) if choice.installer else (_of_system,):
        package = way(choice, state)
        if package is None:
            complaint = f"apt knows no {choice.package}: is there a network?"
            continue
        with tempfile.TemporaryDirectory(dir=state) as scratch:
            done = _apt(choice, state, ["apt-get", "download", package], Path(scratch))
            packages = [*Path(scratch).glob("*.deb"), *Path(scratch).glob("*.udeb")]
            if done.returncode == 0 and packages:
                _unpack(packages[0], choice, folder)
                return
        last = next((line for line in reversed(done.stderr.strip().splitlines()) if line), "it says nothing")
        complaint = f"apt-get cannot download {package}: {last}"
    raise Failure(f"{complaint} (for {choice.architecture})", 5)


def _of_installer(choice: KernelChoice, state: Path) -> str | None:
    """Returns the newest kernel package of Debian's installer; None without one. These packages are in the component
    main/debian-installer, which the system's sources do not name."""
    (state / _SOURCES).unlink(missing_ok=True)
    printed = _apt(choice, state, ["apt-get", "update", "--print-uris"]).stdout
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    places = re.findall(r"'(\S+)/dists/(\S+)/InRelease'", printed)
    lines = [f"deb {signed}{address} {release} main/debian-installer\n" for address, release in places]
    (state / _SOURCES).write_text("".join(lines), encoding="utf-8")
    _apt(choice, state, ["apt-get", "update"])
    names = _apt(choice, state, ["apt-cache", "pkgnames", "kernel-image-"]).stdout.split()
    return newest(name for name in names if name.endswith(choice.installer))


def _of_system(choice: KernelChoice, state: Path) -> str | None:
    """Returns the newest kernel package on which the metapackage depends, by the system's own sources; None without
    one."""
    (state / _SOURCES).unlink(missing_ok=True)
    _apt(choice, state, ["apt-get", "update"])
    return newest(_apt(choice, state, ["apt-cache", "depends", choice.package]).stdout.split())


def newest(names: Iterable[str]) -> str | None:
    """Returns the kernel package of the highest version among these words; None if no word is one."""
    kernels = [name for name in names if re.match(r"(linux|kernel)-image-\d", name)]
    return max(kernels, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default=None)


def _apt(
    choice: KernelChoice, state: Path, words: Sequence[str], folder: Path | None = None
) -> commands.CompletedProcess[str]:
    settings = {"APT::Architecture": choice.architecture, "APT::Architectures::": choice.architecture}
    lists = own_lists(state)
    if (state / _SOURCES).is_file():
        settings |= {"Dir::Etc::sourcelist": str(state / _SOURCES), "Dir::Etc::sourceparts": "-"}
    missing = "guests run Debian's kernels, and there is no apt here to download one"
    return run_apt([words[0], "-q", *_options_of(settings), *lists, *words[1:]], folder, missing)


def own_lists(state: Path) -> list[str]:
    """Returns apt's options for our own lists in a folder: the system's lists and packages are unchanged."""
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    return _options_of({
        "APT::Sandbox::User": "", "Dir::State": state, "Dir::State::status": state / "status", "Dir::Cache": state,
        "Acquire::Languages": "none",
    })  # fmt: skip


def _options_of(settings: Mapping[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def run_apt(words: Sequence[str], folder: Path | None, missing: str) -> commands.CompletedProcess[str]:
    """Runs apt in a folder. Raises Failure (5) if it does not answer. missing: the sentence if apt is not installed."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return commands.run(
            "checkout", words, capture_output=True, text=True, timeout=_APT_S, cwd=folder, env=environment
        )
    except FileNotFoundError as error:
        raise Failure(missing, 5) from error
    except commands.TimeoutExpired as error:
        raise Failure(f"apt does not answer within {_APT_S} s", 5) from error


# ---- the package -----------------------------------------------------------------------------------------------------


def _unpack(package: Path, choice: KernelChoice, folder: Path) -> None:
    """Extracts two files from the package by their names. No file is extracted to a path that the package names."""
    folder.mkdir(parents=True, exist_ok=True)
    with commands.start("checkout", ["dpkg", "--fsys-tarfile", package], stdout=commands.PIPE) as packed:
        assert packed.stdout
        with tarfile.open(fileobj=packed.stdout, mode="r|") as members:
            for member in members:
                name = Path(member.name)
                content = members.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                if name.parent.name == "boot" and name.name.startswith("vmlinuz"):
                    path, taken = folder / "image", _loadable(content.read())
                elif choice.device_tree == name.name:
                    path, taken = folder / name.name, content.read()
                else:
                    continue
                half = path.with_name(f"{path.name}.half")
                half.write_bytes(taken)
                half.replace(path)


def _loadable(image: bytes) -> bytes:
    """Returns an x86 kernel without its own unpacker, which would take seconds under an emulator; other kernels
    unchanged.

    Linux's documentation, "The Linux/x86 Boot Protocol": setup_sects at 0x1f1, "HdrS" at 0x202, payload_offset and
    payload_length at 0x248. The payload is an ELF executable that an emulator can load (by its PVH note)."""
    if image[0x202:0x206] != b"HdrS":
        return image
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = ((image[0x1F1] or 4) + 1) * 512 + offset
    packed = image[begin : begin + length]
    if not packed.startswith(b"\xfd7zXZ"):
        return image
    unpacked = lzma.LZMADecompressor().decompress(packed)
    return unpacked if unpacked.startswith(b"\x7fELF") else image
