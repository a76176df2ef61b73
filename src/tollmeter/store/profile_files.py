# SPDX-License-Identifier: Apache-2.0
"""The profiles of a run, what was modelled of it, and how far apart its loads lie, beside its journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from tollmeter.files import read_regular, write_whole
from tollmeter.model import Distances, Failure, Modelled, Profile, Record
from tollmeter.protocol import clean

KEPT = "profiles.json"
_NAMES: dict[type[Record], str] = {Profile: KEPT, Modelled: "modelled.json", Distances: "distances.json"}
_MOST_BYTES = 64 << 20
T = TypeVar("T", bound=Record)


def keep(folder: Path, form: type[T], records: Iterable[T]) -> None:
    write_whole(folder / _NAMES[form], msgspec.json.encode(tuple(records)))


def kept(folder: Path, form: type[T]) -> tuple[T, ...]:
    """None were taken: empty. Raises Failure (5) where the file is damaged."""
    path = folder / _NAMES[form]
    try:
        records = clean(msgspec.json.decode(read_regular(path, _MOST_BYTES)))
        return tuple(msgspec.convert(records, list[form]))  # type: ignore[valid-type]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", 5) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", 5) from error
