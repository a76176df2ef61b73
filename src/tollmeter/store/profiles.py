# SPDX-License-Identifier: Apache-2.0
"""The profiles of a run, and what was modelled of it, beside its journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tollmeter.model import Failure, Modelled, Profile, Record

KEPT, MODELLED = "profiles.json", "modelled.json"
T = TypeVar("T", bound=Record)


def keep(folder: Path, profiles: Iterable[Profile]) -> None:
    _keep(folder / KEPT, profiles)


def keep_modelled(folder: Path, modelled: Iterable[Modelled]) -> None:
    _keep(folder / MODELLED, modelled)


def _keep(path: Path, records: Iterable[Record]) -> None:
    """Whole or not at all."""
    half = path.with_name(f".{path.name}.half")
    half.write_bytes(msgspec.json.encode(tuple(records)))
    half.replace(path)


def kept(folder: Path) -> Sequence[Profile]:
    """None were taken: empty. Raises Failure (5) where the file is damaged."""
    return _kept(folder / KEPT, Profile)


def kept_modelled(folder: Path) -> Sequence[Modelled]:
    """Likewise."""
    return _kept(folder / MODELLED, Modelled)


def _kept(path: Path, form: type[T]) -> tuple[T, ...]:
    try:
        return tuple(msgspec.json.decode(path.read_bytes(), type=list[form]))  # type: ignore[valid-type]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}", 5) from error
