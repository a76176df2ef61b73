# SPDX-License-Identifier: Apache-2.0
"""Installation on request: the command for Debian's packages on this system's distribution, and large Python packages
that few runs need. Each Python package has its own lock file, and is installed by its hash.

ABI files and targets name Debian's packages, which are tested. Other distributions' names for them are listed here."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.root import ROOT

_PIP = ("-m", "tollmeter.installer", "install", "--require-hashes", "-r")
_QUIETLY = ("-q", "--no-input", "--disable-pip-version-check", "--no-compile")
_LASTS_S = 900
"""Seconds after which an installation is ended."""


class Extra(NamedTuple):
    """An optional Python package. lock: its lock file in the checkout; module: the imported module; wants: the feature
    that needs it."""

    lock: str
    module: str
    wants: str

    @property
    def mend(self) -> str:
        """Returns the command that installs the package, to be typed in the checkout or in the wheel's source
        folder."""
        return f"`{shlex.join([sys.executable, *_PIP, self.lock])}`"


CHARTS = Extra("requirements/charts.lock", "vl_convert", "drawing charts into files")
SERIAL = Extra("requirements/serial.lock", "serial", "a serial line")
PARQUET = Extra("requirements/parquet.lock", "duckdb", "writing Parquet")


def is_installed(extra: Extra) -> bool:
    importlib.invalidate_caches()
    return importlib.util.find_spec(extra.module) is not None


def may_install() -> bool:
    """Returns whether this is Tollmeter's own environment, and no variable forbids installing."""
    return os.environ.get("TOLL_INSTALL") != "no" and sys.prefix != sys.base_prefix


def bring(root: Path, extra: Extra) -> None:
    """Installs a package if it is missing. root: folder of the lock files. Raises Failure (5)."""
    if is_installed(extra):
        return
    if not may_install():
        raise Failure(f"{extra.wants} needs the Python package {extra.module}: {extra.mend}", 5)
    sys.stderr.write(f"toll: {extra.wants} needs the Python package {extra.module}: installing it\n")
    install_extra(root, extra)


def install_extra(root: Path, extra: Extra) -> None:
    """Installs a package completely or not at all: one that pip leaves half installed could be imported. Raises Failure
    (5)."""
    site = Path(sysconfig.get_path("platlib"))
    try:
        with tempfile.TemporaryDirectory(dir=site) as scratch:
            for entry in fetched(root, extra, scratch).iterdir():
                shutil.rmtree(site / entry.name, ignore_errors=True)
                entry.rename(site / entry.name)
    except OSError as error:
        raise Failure(f"{extra.module} cannot be installed: {error}", 5) from error


def fetched(root: Path, extra: Extra, scratch: str) -> Path:
    """Downloads the package to a folder below scratch, and returns it. pip receives no Ctrl-C. Raises Failure (5) with
    pip's error."""
    folder = Path(scratch, "package")
    words = [sys.executable, "-I", *_PIP, extra.lock, *_QUIETLY, "--target", str(folder)]
    try:
        done = commands.run(
            "checkout", words, cwd=root, capture_output=True, text=True, timeout=_LASTS_S, start_new_session=True,
            env={**os.environ, "TMPDIR": scratch},
        )  # fmt: skip
    except (OSError, commands.TimeoutExpired) as error:
        raise Failure(f"{extra.module} cannot be installed: {error}", 5) from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["pip prints no error"]
        reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        raise Failure(f"{extra.module} cannot be installed: {reason.removeprefix('ERROR: ')}", 5)
    return folder


def chart_script(folder: Path) -> Path:
    """Returns the path of the script that draws the charts of a page: in a release that contains it, else in this
    folder, where the script may not exist yet."""
    brought = folder.parent / "prebuilt/vega.js"
    return brought if brought.is_file() else folder / f"vega-{version(ROOT, CHARTS)}.js"


@contextlib.contextmanager
def chart_script_made() -> Iterator[commands.Popen[bytes] | None]:
    """Starts a process that makes the chart script while the caller's block runs, and yields it; None if the script is
    stored already. The process has its own session and gets one signal, from this process: a second signal would
    interrupt its clean-up."""
    if _is_script_kept():
        yield None
        return
    words = [sys.executable, "-I", "-m", "tollmeter.report.page"]
    making = commands.start("checkout", words, stderr=commands.DEVNULL, start_new_session=True)
    try:
        yield making
    finally:
        making.send_signal(signal.SIGINT)
        making.wait()


def _is_script_kept() -> bool:
    """Returns whether the chart script is stored; True also without the lock file, by which it would be downloaded."""
    try:
        return chart_script(ROOT / "build").is_file()
    except FileNotFoundError:
        return True


def version(root: Path, extra: Extra) -> str:
    """Returns the version of the package in its lock file, whether it is installed or not."""
    pin = re.match(r"[^=]+==(\S+)", (root / extra.lock).read_text(encoding="utf-8"))
    return pin[1] if pin else "of no version"


# ---- packages of the distribution ------------------------------------------------------------------------------------

_LINES = {
    "apt-get": "apt-get update && apt-get install --no-install-recommends",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S --needed",
}
"""Command that installs packages, by the program that identifies the distribution. The package lists of a fresh Debian
are empty, so they are updated first."""

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
"""Names of a Debian package, without its version, for dnf, apk and pacman; empty if they have no single such
package."""
_NAMELESS = ("", "", "")
_APT_LISTS, _ANSWERS_S = Path("/var/lib/apt/lists"), 20


@cache
def _packages_of_release() -> frozenset[str]:
    """Returns the packages of this Debian release by apt's lists; empty if there are none, as in a fresh Debian."""
    if not any(_APT_LISTS.glob("*_Packages*")):
        return frozenset()
    try:
        done = commands.run("checkout", ["apt-cache", "pkgnames"], capture_output=True, text=True, timeout=_ANSWERS_S)
    except (OSError, commands.TimeoutExpired):
        return frozenset()
    return frozenset(done.stdout.split())


def install_line(packages: Iterable[str]) -> str:
    """Returns the command, as root, for Debian's packages, between backticks; packages that this Debian release lacks,
    or that have no name on another distribution, follow it."""
    debian_names = list(dict.fromkeys(packages))
    manager = next((program for program in _LINES if shutil.which(program)), None)
    if manager is None:
        return f"on Debian, `{_LINES['apt-get']} {' '.join(debian_names)}`"
    if manager == "apt-get":
        listed = _packages_of_release()
        absent = [name for name in debian_names if listed and name not in listed]
        wanted = " ".join(name for name in debian_names if name not in absent)
        line = [f"`{_LINES[manager]} {wanted}`"] if wanted else []
        return "; ".join([*line, *([f"this Debian release has no {', '.join(absent)}"] if absent else [])])
    # Debian's compilers carry their version in their names.
    column = [*_LINES][1:].index(manager)
    names = {package: _NAMES.get(re.sub(r"-\d+(?=-|$)", "", package), _NAMELESS)[column] for package in debian_names}
    known = dict.fromkeys(word for name in names.values() for word in name.split())
    unknown = [package for package, name in names.items() if not name]
    line = [f"`{_LINES[manager]} {' '.join(known)}`"] if known else []
    line += [f"and what Debian calls {' '.join(unknown)}, if it is available here"] if unknown else []
    return "; ".join(line)
