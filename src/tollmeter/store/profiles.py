# SPDX-License-Identifier: Apache-2.0
"""The profiles of a run, beside its journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tollmeter.model import Failure, Profile

KEPT = "profiles.json"


def keep(folder: Path, profiles: Iterable[Profile]) -> None:
    """Whole or not at all."""
    half = folder / f".{KEPT}.half"
    half.write_bytes(msgspec.json.encode(tuple(profiles)))
    half.replace(folder / KEPT)


def kept(folder: Path) -> Sequence[Profile]:
    """None were taken: empty. Raises Failure (5) where the file is damaged."""
    try:
        return msgspec.json.decode((folder / KEPT).read_bytes(), type=tuple[Profile, ...])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise Failure(f"{folder / KEPT} cannot be read: {error}", 5) from error
