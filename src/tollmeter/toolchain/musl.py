# SPDX-License-Identifier: Apache-2.0
"""A C library for SPARC V8, for which Debian has a compiler alone: musl, which is brought as a library of probes is
(probes/libraries.toml) and compiled once. An ABI file calls compiler and library by the word `musl-sparc`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tollmeter.model import Failure
from tollmeter.root import ROOT, typed
from tollmeter.toolchain import libraries

WORD = "musl-sparc"
COMPILER = "sparc64-linux-gnu-gcc-12"
BESIDE = "sparc/gcc.specs"
"""What make makes of it in build/emulator."""
MEND = typed("run", "--abi", "sparc-v8")


def is_named(compiler: str | Sequence[str]) -> bool:
    """By an alternative of an ABI file."""
    return (compiler if isinstance(compiler, str) else compiler[0]) == WORD


def command(words: Sequence[str]) -> tuple[str, ...]:
    """The command that words of an ABI file mean."""
    return (str(ROOT / "emulator/musl_sparc/cc"), *words[1:])


def lack() -> str | None:
    """Why it does not compile here, or None. Without a compiler that is for packages to mend."""
    if shutil.which(COMPILER) is None:
        return f"no {COMPILER}"
    return None if (ROOT / "build/emulator" / BESIDE).is_file() else "musl is not compiled for it"


def can_make(compilers: Sequence[str | Sequence[str]]) -> bool:
    """Whether the library is all that one of them lacks."""
    return any(map(is_named, compilers)) and shutil.which(COMPILER) is not None and lack() is not None


def bring(root: Path) -> None:
    """Its source. Raises Failure (5) where it cannot be had."""
    library = libraries.known(root).get("musl")
    if library is None:
        raise Failure("probes/libraries.toml has no musl", 5)
    libraries.bring(root, "musl", library)
