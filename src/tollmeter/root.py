# SPDX-License-Identifier: Apache-2.0
"""The folders of probes, ABI files, suites and builds: the checkout, or a folder of the user.

For a wheel, which is often read-only, the user's folder has links to its sources, and build/ beside them."""

from __future__ import annotations

import contextlib
import os
import shlex
import zlib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "_sources"
"""Folder in the wheel to which pyproject.toml maps the folders beside src/ of the checkout."""

IS_CHECKOUT = not _SHIPPED.is_dir()


def user_folder(variable: str, at_home: str) -> Path:
    """Returns the user's folder for Tollmeter: in the folder that the XDG variable names, or else in the folder at_home
    of the home. If the home cannot be written, as in many containers, returns a folder in a substitute for the home."""
    if named := os.environ.get(variable):
        return Path(named) / "tollmeter"
    home = Path.home()
    if not (os.path.exists(home / at_home / "tollmeter") or may_write(home / at_home)):  # noqa: PTH110
        home = _substitute_home()
    return home / at_home / "tollmeter"


def have_home() -> None:
    """Sets HOME for a user id that has neither HOME nor an entry in /etc/passwd: libraries need it when they are
    imported."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = str(_substitute_home())


def _substitute_home() -> Path:
    """Returns a temporary folder of this user; never another user's, whose ABI files could name programs to start."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp") / f"tollmeter-{os.geteuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            return folder
    return Path("/nonexistent")


def may_write(folder: Path) -> bool:
    """Returns whether this user may write to the folder, or create it. Path.exists raises in a folder that may not be
    searched."""
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if os.path.exists(parent))  # noqa: PTH110
    return os.access(nearest, os.W_OK)


def _linked() -> Path:
    """Returns the folder of links for this installation, created if it does not exist."""
    root = user_folder("XDG_CACHE_HOME", ".cache") / f"{zlib.crc32(str(_SHIPPED).encode()):08x}"
    root.mkdir(parents=True, exist_ok=True)
    for source in _SHIPPED.iterdir():
        with contextlib.suppress(FileExistsError):
            (root / source.name).symlink_to(source)
    return root


have_home()

COMMAND = os.environ.get("TOLL_COMMAND", "./toll") if IS_CHECKOUT else "toll"
"""The command as the user types it, which ./toll passes on: a checkout adds nothing to PATH."""


def typed(*words: str) -> str:
    """Returns a command of Tollmeter, quoted for a shell."""
    return shlex.join([COMMAND, *words])


ROOT = _PACKAGE.parents[1] if IS_CHECKOUT else _linked()
