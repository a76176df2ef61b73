# SPDX-License-Identifier: Apache-2.0
"""Files in untrusted folders: nothing is written through a link, and no device or pipe is read, since it might never
end."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO


def open_regular(path: Path, mode: str = "rb", *, follow: bool = True) -> IO[bytes]:
    """mode: rb, r+b or ab. follow: a link at the end of the path. Raises OSError where it is no file, with its name."""
    ways = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT}
    links = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, ways[mode] | os.O_CLOEXEC | os.O_NONBLOCK | links, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        return os.fdopen(descriptor, mode, buffering=0 if mode == "r+b" else -1)
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The whole file. Raises OSError where it is none, or larger."""
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes >> 10} KiB", str(path))
    return content


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Writes the file whole or not at all, under an unpredictable name until then. content: bytes or their pieces.
    Replaces a link, not its target. Raises OSError, also in place of a device or a pipe."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EEXIST, "something that is not a file is in its place", str(path))
    descriptor, half = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o666 & ~_umask())
            file.writelines([content] if isinstance(content, bytes) else content)
        os.replace(half, path)  # noqa: PTH105  its name is a text
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half)  # noqa: PTH108
        raise


def _umask() -> int:
    """What the person lets others do: it can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(text: str) -> str:
    """The text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.")[:60] or "run"
