# SPDX-License-Identifier: Apache-2.0
"""A compiler with its C library from PyPI, for ABIs that no installed compiler makes: the package `ziglang`.

It is large and few need it, so that it is no part of the set-up: an ABI that names it brings it, from a lock file of
its own. In an ABI file it is called by one word, `ziglang`; more words follow, such as `-target`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tollmeter.model import Failure

WORD = "ziglang"
LOCK = "requirements-zig.lock"
_PIP = ("-m", "pip", "install", "--require-hashes", "-r", LOCK)
MEND = f".venv/bin/python {' '.join(_PIP)}"
"""To be typed in the checkout."""

_LASTS_S = 900


def is_named(compiler: str | Sequence[str]) -> bool:
    """By an alternative of an ABI file."""
    return (compiler if isinstance(compiler, str) else compiler[0]) == WORD


def command(words: Sequence[str]) -> tuple[str, ...]:
    """The command that words of an ABI file mean."""
    return (sys.executable, "-m", "ziglang", "cc", *words[1:]) if is_named(words) else tuple(words)


def is_installed() -> bool:
    importlib.invalidate_caches()
    return importlib.util.find_spec("ziglang") is not None


def can_bring(compilers: Iterable[str | Sequence[str]]) -> bool:
    """Whether an installation would give one of them: into an environment of Tollmeter's own, if nobody forbids it."""
    allowed = os.environ.get("TOLL_INSTALL") != "no" and sys.prefix != sys.base_prefix
    return allowed and any(map(is_named, compilers)) and not is_installed()


def install(root: Path) -> None:
    """Into the environment that Tollmeter runs in. Raises Failure with what pip says."""
    words = [sys.executable, *_PIP, "-q", "--no-input", "--disable-pip-version-check"]
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=_LASTS_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{WORD} cannot be installed: {error}", 5) from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["pip says nothing"]
        said = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        raise Failure(f"{WORD} cannot be installed: {said.removeprefix('ERROR: ')}", 5)
