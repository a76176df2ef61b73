# SPDX-License-Identifier: Apache-2.0
"""A compiler with its C library from PyPI, for ABIs without an installed compiler: the package `ziglang`, called by
that word in an ABI file. It is large, so it is brought from its own lock file when an ABI names it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tollmeter import extras
from tollmeter.extras import Extra

WORD = "ziglang"
EXTRA = Extra("requirements-zig.lock", WORD, "compiling with zig")
MEND = EXTRA.mend


def is_named(compiler: str | Sequence[str]) -> bool:
    """By an alternative of an ABI file."""
    return (compiler if isinstance(compiler, str) else compiler[0]) == WORD


def command(words: Sequence[str]) -> tuple[str, ...]:
    """The command that words of an ABI file mean."""
    return (sys.executable, "-m", "ziglang", "cc", *words[1:]) if is_named(words) else tuple(words)


def is_installed() -> bool:
    return extras.is_installed(EXTRA)


def can_install(compilers: Iterable[str | Sequence[str]]) -> bool:
    """Whether an installation would give one of them."""
    return extras.may_install() and any(map(is_named, compilers)) and not is_installed()


def install(root: Path) -> None:
    """Installs it into the environment that Tollmeter runs in. Raises Failure with pip's error."""
    extras.install(root, EXTRA)
