# SPDX-License-Identifier: Apache-2.0
"""The command that installs what is missing, for this system's distribution.

ABI files and targets name Debian's packages, which are tested. Other distributions' names for them are listed here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence

_LINES = {
    "apt-get": "apt-get update && apt-get install --no-install-recommends",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S --needed",
}
"""By the program that identifies the distribution. The lists of a fresh Debian are empty: they are read first."""

_NAMES: dict[str, tuple[str, str, str]] = {
    "make": ("make", "make", "make"),
    "gcc": ("gcc", "gcc", "gcc"),
    "g++": ("gcc-c++", "g++", "gcc"),
    "libc6-dev": ("glibc-devel glibc-static", "musl-dev linux-headers", "glibc linux-api-headers"),
    "libc6-dev-i386": ("glibc-devel.i686 glibc-static.i686", "", "lib32-glibc"),
    "lib32gcc-dev": ("libgcc.i686", "", "lib32-gcc-libs"),
    "musl-tools": ("musl-gcc musl-libc-static", "", "musl"),
    "openssh-client": ("openssh-clients", "openssh-client", "openssh"),
    "qemu-system-arm": ("qemu-system-arm", "qemu-system-arm", "qemu-system-arm"),
    "qemu-system-x86": ("qemu-system-x86", "qemu-system-x86_64", "qemu-system-x86"),
    "qemu-user": ("qemu-user", "", "qemu-user"),
}
"""Debian's name, less its version: what dnf, apk and pacman call that, empty where there is no one such package."""


def install_line(packages: Iterable[str]) -> str:
    """The command, as root, for Debian's packages, between backticks; those without a name here follow it."""
    wanted = list(dict.fromkeys(packages))
    manager = next((program for program in _LINES if shutil.which(program)), None)
    if manager is None or manager == "apt-get":
        typed = f"`{_LINES['apt-get']} {' '.join(wanted)}`"
        return typed if manager else f"on Debian, {typed}"
    names = {package: _called(package, manager) for package in wanted}
    known = list(dict.fromkeys(word for name in names.values() for word in name.split()))
    unknown = [package for package, name in names.items() if not name]
    line = [f"`{_LINES[manager]} {' '.join(known)}`"] if known else []
    return "; ".join([*line, *_nameless(unknown)])


def _called(package: str, manager: str) -> str:
    """A package's name here. Debian's compilers carry their version in theirs."""
    others: Sequence[str] = _NAMES.get(re.sub(r"-\d+(?=-|$)", "", package), ("", "", ""))
    return others[[*_LINES][1:].index(manager)]


def _nameless(packages: Sequence[str]) -> list[str]:
    return [f"and what Debian calls {' '.join(packages)}, if it is to be had here"] if packages else []
