# SPDX-License-Identifier: Apache-2.0
"""Where probes, ABI files and suites are, and what is built of them: the checkout, or a folder of the person's own.

A wheel holds the sources beside the package, where often nobody may write. Its folder is one of links to them: what was
upgraded is younger than what was built, as in a checkout, and build/ stands beside it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import zlib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "_sources"
"""Where pyproject.toml puts into the wheel what stands beside src/ in the checkout."""

IS_CHECKOUT = not _SHIPPED.is_dir()


def _linked() -> Path:
    """The folder of links for this installation, made where it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "tollmeter" / f"{zlib.crc32(str(_SHIPPED).encode()):08x}"
    root.mkdir(parents=True, exist_ok=True)
    for source in _SHIPPED.iterdir():
        with contextlib.suppress(FileExistsError):
            (root / source.name).symlink_to(source)
    return root


COMMAND = os.environ.get("TOLL_COMMAND", "./toll") if IS_CHECKOUT else "toll"
"""What a person types here, as ./toll was started: a checkout puts nothing on the PATH."""


def typed(*words: str) -> str:
    """A command of Tollmeter that a shell reads as it is meant."""
    return shlex.join([COMMAND, *words])


ROOT = _PACKAGE.parents[1] if IS_CHECKOUT else _linked()
