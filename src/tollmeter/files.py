# SPDX-License-Identifier: Apache-2.0
"""Files in untrusted folders: no write follows a link, and no device or pipe is read, since it might never end.
Commands that a file names are started only if the file is trusted."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import lzma
import os
import re
import secrets
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, get_args, get_origin, get_type_hints

from tollmeter.model import Failure
from tollmeter.root import user_folder

_MOST_TRUSTED_BYTES = 1 << 20


_SHOWN = 200
"""Characters of a mistake that are shown."""
_PLACE = r" - at `\$\.?([\w.\[\]]*)`"
"""The end of msgspec's messages: where in a document."""
_WAYS = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT}


def mistake(error: Exception, form: type) -> str:
    """Returns the message of an error in a file's content, shortened, with the known keys or values if one is unknown.
    form: the record that the file describes; its `name` is that of the file."""
    text = str(error)
    with contextlib.suppress(AttributeError, IndexError, KeyError, TypeError):  # a key may read like a place
        if match := re.fullmatch(rf"Object contains unknown field `(.*?)`(?:{_PLACE})?", text, re.DOTALL):
            place = match[2] or ""
            keys = (key for key in _form_at(form, place).__struct_fields__ if place or key != "name")
            return f"unknown key '{match[1][:_SHOWN]}'{place and f' in {place}'}; known: {', '.join(keys)}"
        if match := re.fullmatch(rf"Invalid enum value (.*?){_PLACE}", text, re.DOTALL):
            known = filter(None, get_args(_form_at(form, match[2])))
            return f"{match[2]} is {match[1][:_SHOWN]}; known: {', '.join(known)}"
    return text[:_SHOWN]


def _form_at(form: Any, place: str) -> Any:
    """Returns the type of a field of a record, or of an element if it is a container. place: as in msgspec's messages,
    for example `select[0].others`. Raises KeyError or TypeError if there is none."""
    for field in re.sub(r"\[.*?\]", "", place).split("."):
        form = get_type_hints(form)[field] if field else form
        while get_origin(form) not in (None, Literal):
            form = [one for one in get_args(form) if one not in (..., type(None))][-1]
    return form


def open_regular(path: Path, mode: str = "rb", *, follow: bool = True) -> IO[bytes]:
    """Opens a regular file. mode: rb, r+b or ab. follow: follow a link at the end of the path. Raises OSError with its
    name if it is not a regular file."""
    descriptor = _descriptor(path, mode, follow=follow)
    try:
        return os.fdopen(descriptor, mode, buffering=0 if mode == "r+b" else -1)
    except BaseException:
        os.close(descriptor)
        raise


def _descriptor(path: Path, mode: str, *, follow: bool = True) -> int:
    links = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, _WAYS[mode] | os.O_CLOEXEC | os.O_NONBLOCK | links, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        if mode == "rb":
            os.pread(descriptor, 1, 0)  # /proc/kmsg is regular, and has no bytes yet: a reader would get None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def first_bytes(path: Path, count: int) -> bytes:
    """Returns at most `count` bytes from the file's beginning, in a third of the time of a file object. Raises
    OSError."""
    descriptor = _descriptor(path, "rb")
    try:
        return os.read(descriptor, count)
    finally:
        os.close(descriptor)


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Reads the whole file. Raises OSError if it is not a regular file, or is larger."""
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes >> 10} KiB", str(path))
    return content


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Writes the file completely or not at all, under an unpredictable name until then. content: bytes or their pieces.
    Replaces a link, not its target. Raises OSError, also if the path is a device or a pipe."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EEXIST, "something that is not a file is in its place", str(path))
    half = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        with half.open("xb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
        half.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            half.unlink()
        raise


def own_folder(folder: Path, below: str = "") -> Path:
    """Creates folders below one that the user named, and returns the last. Raises OSError if one of them is a link: a
    folder from elsewhere may contain a link that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(None, below.split("/")):
        folder /= name
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise OSError(errno.EEXIST, f"{folder} is a link or a file, and nothing is written through it", str(folder))
    return folder


def plain_name(text: str) -> str:
    """Returns the text with a hyphen in place of characters that a file's name may not have here; `run` if empty."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.")[:60] or "run"


# ---- archives --------------------------------------------------------------------------------------------------------

_DICTIONARY_BYTES = 16 << 20
"""Memory for unpacking: the executables of an ABI resemble each other, and several of them fit into the dictionary."""


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """Returns a reproducible archive: it contains no time, owner or order of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name.endswith(".sh") or "/" in name else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def xz_of(content: bytes, preset: int) -> bytes:
    way = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": _DICTIONARY_BYTES}
    return lzma.compress(content, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=[way])


# ---- files whose commands may be started -----------------------------------------------------------------------------

# ABI files of the current folder, and suites with workloads. Each is trusted by its SHA-256, which
# `toll run --trust FILE` keeps in the user's state folder.


def trust(paths: Sequence[Path]) -> None:
    """Trusts these files from now on. Raises Failure: 2 if a file cannot be read, 5 if the trust cannot be stored."""
    if not paths:
        return
    lines = b"".join(f"{_digest(path)}  {path.resolve()}\n".encode(errors="replace") for path in paths)
    kept = _trust_file()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(kept, "ab", follow=False) as file:
            file.write(lines)
    except OSError as error:
        raise Failure(f"{kept} cannot be written: {error.strerror}", exit_code=5) from error


def untrusted(path: Path) -> str | None:
    """Returns why commands of a file are not started; None if they are trusted."""
    trusted = b""
    with contextlib.suppress(OSError):
        trusted = read_regular(_trust_file(), _MOST_TRUSTED_BYTES)
    if _digest(path) in {line.partition(" ")[0] for line in trusted.decode(errors="replace").splitlines()}:
        return None
    return f"{path} names commands to start, and is not trusted: read it, and add `--trust {path}` to `toll run` once"


def _trust_file() -> Path:
    return user_folder("XDG_STATE_HOME", ".local/state") / "trusted"


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MOST_TRUSTED_BYTES)).hexdigest()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
