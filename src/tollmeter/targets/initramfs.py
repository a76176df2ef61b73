# SPDX-License-Identifier: Apache-2.0
"""The first file system of a Linux guest: a `newc` cpio archive in memory. Pure.

The kernel's documentation defines the format, "initramfs buffer format": a header of thirteen 8-digit hexadecimal
numbers after a magic, the name with its terminating zero, the content; name and content padded to four bytes."""

from __future__ import annotations

from collections.abc import Mapping

_MAGIC = b"070701"
_FOLDER, _PROGRAM = 0o040755, 0o100755
_LAST = "TRAILER!!!"


def archive(programs: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    """Executables by their absolute path, with every folder on the way to one, and others that are to be there."""
    needed = {parent for path in programs for parent in _parents(path)} | {folder.strip("/") for folder in folders}
    parts = [_entry(number, folder, _FOLDER, b"") for number, folder in enumerate(sorted(needed), 1)]
    for number, (path, content) in enumerate(sorted(programs.items()), len(parts) + 1):
        parts.append(_entry(number, path.strip("/"), _PROGRAM, content))
    return b"".join([*parts, _entry(0, _LAST, 0, b"")])


def _parents(path: str) -> list[str]:
    steps = path.strip("/").split("/")[:-1]
    return ["/".join(steps[: count + 1]) for count in range(len(steps))]


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    spelled = name.encode() + b"\0"
    links, nobody = 1, 0
    numbers = (inode, mode, nobody, nobody, links, 0, len(content), 0, 0, 0, 0, len(spelled), 0)
    header = _MAGIC + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + spelled) + _padded(content)


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 4)
