# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels for guests: downloaded once through apt, never installed.

apt gets folders of its own inside the cache, and is told which architecture it is to think of: the system's packages,
lists and architectures stay as they are, and nobody need be root. Signatures are checked against the system's keys.
"""

from __future__ import annotations

import fcntl
import lzma
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Failure

_APT_S = 300


class Wanted(NamedTuple):
    """package: the metapackage that depends on the newest kernel. device_tree: the file's name, or None."""

    architecture: str
    package: str
    device_tree: str | None


class Kernel(NamedTuple):
    """What an emulator is given. device_tree is None where the machine describes itself."""

    image: Path
    device_tree: Path | None


def cache_folder() -> Path:
    """Where downloads are kept: $XDG_CACHE_HOME/tollmeter, or ~/.cache/tollmeter."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tollmeter"


def cached(wanted: Wanted) -> Kernel | None:
    """The kernel, where it was downloaded before."""
    folder = cache_folder() / "kernels" / wanted.package
    tree = folder / wanted.device_tree if wanted.device_tree else None
    kernel = Kernel(folder / "image", tree)
    return kernel if kernel.image.is_file() and (tree is None or tree.is_file()) else None


def fetched(wanted: Wanted) -> Kernel:
    """The kernel, downloaded where it is missing. Raises Failure where it cannot be had."""
    kernel = cached(wanted)
    if kernel:
        return kernel
    try:
        with _alone(cache_folder()):
            kernel = cached(wanted)
            if kernel is None:
                _download(wanted, cache_folder() / "kernels" / wanted.package)
                shutil.rmtree(cache_folder() / f"apt-{wanted.architecture}", ignore_errors=True)
    except (OSError, tarfile.TarError, lzma.LZMAError, struct.error) as error:
        raise Failure(f"the kernel of {wanted.package} cannot be kept in {cache_folder()}: {error}", 5) from error
    kernel = cached(wanted)
    if kernel is None:
        raise Failure(f"{wanted.package} holds no kernel of the kind that this guest needs", 5)
    return kernel


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two runs at once download one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---- apt ----------------------------------------------------------------------------------------------------------


def _download(wanted: Wanted, folder: Path) -> None:
    state = cache_folder() / f"apt-{wanted.architecture}"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    _apt(wanted, state, ["apt-get", "update"])
    package = _newest(_apt(wanted, state, ["apt-cache", "depends", wanted.package]).stdout)
    if package is None:
        raise Failure(f"apt knows no {wanted.package} for {wanted.architecture}: is there a network?", 5)
    with tempfile.TemporaryDirectory(dir=state) as scratch:
        done = _apt(wanted, state, ["apt-get", "download", package], Path(scratch))
        found = list(Path(scratch).glob("*.deb"))
        if done.returncode != 0 or not found:
            raise Failure(f"apt-get cannot download {package}: {_last_line(done.stderr)}", 5)
        _unpack(found[0], wanted, folder)


def _apt(
    wanted: Wanted, state: Path, words: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    settings = {
        "APT::Architecture": wanted.architecture,
        "APT::Architectures::": wanted.architecture,
        "APT::Sandbox::User": "",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(state),
        "Acquire::Languages": "none",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            [words[0], "-q", *options, *words[1:]],
            capture_output=True, text=True, check=False, timeout=_APT_S, cwd=folder, env=environment,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise Failure("guests run Debian's kernels, and there is no apt here to download one", 5) from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"apt does not answer within {_APT_S} s", 5) from error


def _newest(depends: str) -> str | None:
    words = (line.split() for line in depends.splitlines())
    return next((line[1] for line in words if len(line) == 2 and line[1].startswith("linux-image-")), None)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line]
    return lines[-1] if lines else "it says nothing"


# ---- the package -----------------------------------------------------------------------------------------------------


def _unpack(package: Path, wanted: Wanted, folder: Path) -> None:
    """Takes two files out of the package by their names. Nothing is extracted to a path that it names."""
    folder.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["dpkg", "--fsys-tarfile", package], stdout=subprocess.PIPE) as packed:
        assert packed.stdout
        with tarfile.open(fileobj=packed.stdout, mode="r|") as members:
            for member in members:
                name = Path(member.name)
                content = members.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                if name.parent.name == "boot" and name.name.startswith("vmlinuz-"):
                    _keep(folder / "image", _loadable(content.read()))
                elif wanted.device_tree == name.name:
                    _keep(folder / name.name, content.read())


def _keep(path: Path, content: bytes) -> None:
    half = path.with_name(f"{path.name}.half")
    half.write_bytes(content)
    half.replace(path)


def _loadable(image: bytes) -> bytes:
    """An x86 kernel without its own unpacker, which would take seconds under an emulator; others as they are.

    Linux's documentation, "The Linux/x86 Boot Protocol": setup_sects at 0x1f1, "HdrS" at 0x202, payload_offset and
    payload_length at 0x248. What is packed there is an ELF executable that an emulator can load (by its PVH note).
    """
    if image[0x202:0x206] != b"HdrS":
        return image
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = ((image[0x1F1] or 4) + 1) * 512 + offset
    packed = image[begin : begin + length]
    if not packed.startswith(b"\xfd7zXZ"):
        return image
    unpacked = lzma.LZMADecompressor().decompress(packed)
    return unpacked if unpacked.startswith(b"\x7fELF") else image
