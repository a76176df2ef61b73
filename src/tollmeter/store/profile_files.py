# SPDX-License-Identifier: Apache-2.0
"""The profiles of a run, what was modelled of it, and how far apart its loads lie, beside its journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tollmeter.files import read_regular, write_whole
from tollmeter.model import Distances, Failure, Modelled, Profile, Record
from tollmeter.protocol import clean

KEPT, MODELLED, DISTANCES = "profiles.json", "modelled.json", "distances.json"
_MOST_BYTES = 64 << 20
T = TypeVar("T", bound=Record)


def keep(folder: Path, profiles: Iterable[Profile]) -> None:
    _keep(folder / KEPT, profiles)


def keep_modelled(folder: Path, modelled: Iterable[Modelled]) -> None:
    _keep(folder / MODELLED, modelled)


def keep_distances(folder: Path, distances: Iterable[Distances]) -> None:
    _keep(folder / DISTANCES, distances)


def _keep(path: Path, records: Iterable[Record]) -> None:
    write_whole(path, msgspec.json.encode(tuple(records)))


def kept(folder: Path) -> Sequence[Profile]:
    """None were taken: empty. Raises Failure (5) where the file is damaged."""
    return _kept(folder / KEPT, Profile)


def kept_modelled(folder: Path) -> Sequence[Modelled]:
    """Likewise."""
    return _kept(folder / MODELLED, Modelled)


def kept_distances(folder: Path) -> Sequence[Distances]:
    """Likewise."""
    return _kept(folder / DISTANCES, Distances)


def _kept(path: Path, form: type[T]) -> tuple[T, ...]:
    try:
        records = clean(msgspec.json.decode(read_regular(path, _MOST_BYTES)))
        return tuple(msgspec.convert(records, list[form]))  # type: ignore[valid-type]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", 5) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", 5) from error
