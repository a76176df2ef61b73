# SPDX-License-Identifier: Apache-2.0
"""Files from outside the checkout whose commands may be started: ABI files of the current folder, and suites with
workloads. Each is trusted by its SHA-256, which `toll run --trust FILE` keeps in the user's state folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tollmeter.files import open_regular, read_regular
from tollmeter.model import Failure
from tollmeter.root import user_folder

_MOST_BYTES = 1 << 20


def trust(paths: Sequence[Path]) -> None:
    """From now on. Raises Failure: 2 where a file cannot be read, 5 where that cannot be kept."""
    if not paths:
        return
    lines = b"".join(f"{_digest(path)}  {path.resolve()}\n".encode(errors="replace") for path in paths)
    kept = _trust_file()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(kept, "ab", follow=False) as file:
            file.write(lines)
    except OSError as error:
        raise Failure(f"{kept} cannot be written: {error.strerror}", exit_code=5) from error


def complaint(path: Path) -> str | None:
    """Why commands of a file are not started, if so."""
    if _digest(path) in _known():
        return None
    return f"{path} names commands to start, and is not trusted: read it, and add `--trust {path}` to `toll run` once"


def _trust_file() -> Path:
    return user_folder("XDG_STATE_HOME", ".local/state") / "trusted"


def _known() -> set[str]:
    try:
        lines = read_regular(_trust_file(), _MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.partition(" ")[0] for line in lines}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_regular(path, _MOST_BYTES)).hexdigest()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
