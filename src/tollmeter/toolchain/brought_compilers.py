# SPDX-License-Identifier: Apache-2.0
"""Compilers that are downloaded when an ABI names them. An ABI file names each by a word.

ziglang       a compiler with its C library from PyPI, for ABIs without an installed compiler. It is large, so it is
              brought from its own lock file
musl-sparc    a C library for SPARC V8, for which Debian has a compiler alone: musl, which is brought as a library of
              probes is (probes/libraries.toml) and compiled once"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tollmeter import extras
from tollmeter.extras import Extra
from tollmeter.model import Failure
from tollmeter.root import ROOT, typed
from tollmeter.toolchain import libraries

Words = str | Sequence[str]
"""An alternative compiler in an ABI file: its name, or its words."""

ZIG, MUSL = "ziglang", "musl-sparc"
ZIG_EXTRA = Extra("requirements/zig.lock", ZIG, "compiling with zig")
MUSL_COMPILER = "sparc64-linux-gnu-gcc-12"
MUSL_SPECS = "sparc/gcc.specs"
"""File of build/emulator that the build of musl makes."""
MUSL_MEND = typed("run", "--abi", "sparc-v8")


def is_compiler_named(word: str, compiler: Words) -> bool:
    """Returns whether a compiler command is the compiler that `word` names."""
    return (compiler if isinstance(compiler, str) else compiler[0]) == word


def compiler_command(compiler: Words) -> tuple[str, ...]:
    """Returns the command for the words of a compiler in an ABI file."""
    words = (compiler,) if isinstance(compiler, str) else tuple(compiler)
    if words[0] == MUSL:
        return (str(ROOT / "emulator/musl_sparc/cc"), *words[1:])
    return (sys.executable, "-m", "ziglang", "cc", *words[1:]) if words[0] == ZIG else words


def is_brought(compiler: Words) -> bool:
    """Returns whether a compiler can be used now; one that Tollmeter downloads is first downloaded when an ABI needs
    it."""
    if is_compiler_named(ZIG, compiler):
        return extras.is_installed(ZIG_EXTRA)
    return not is_compiler_named(MUSL, compiler) or musl_lack() is None


def can_install_zig(compilers: Iterable[Words]) -> bool:
    """Returns whether one of the compilers is ziglang, which is missing and may be installed."""
    is_wanted = any(is_compiler_named(ZIG, compiler) for compiler in compilers)
    return is_wanted and extras.may_install() and not extras.is_installed(ZIG_EXTRA)


def install_zig(root: Path) -> None:
    """Installs the compiler ziglang into Tollmeter's Python environment. Raises Failure with pip's error."""
    extras.install_extra(root, ZIG_EXTRA)


def musl_lack() -> str | None:
    """Returns why no program can be compiled with musl for SPARC here; None if it can."""
    if shutil.which(MUSL_COMPILER) is None:
        return f"no {MUSL_COMPILER}"
    return None if (ROOT / "build/emulator" / MUSL_SPECS).is_file() else "musl is not compiled for it"


def can_make_musl(compilers: Iterable[Words]) -> bool:
    """Returns whether one of the compilers lacks only the C library, which can be made."""
    is_wanted = any(is_compiler_named(MUSL, compiler) for compiler in compilers)
    return is_wanted and shutil.which(MUSL_COMPILER) is not None and musl_lack() is not None


def bring_musl(root: Path) -> None:
    """Downloads the source of musl. Raises Failure (5) if it is not available."""
    library = libraries.known_libraries(root).get("musl")
    if library is None:
        raise Failure("probes/libraries.toml has no musl", 5)
    libraries.install_library(root, "musl", library)
