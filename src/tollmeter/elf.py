# SPDX-License-Identifier: Apache-2.0
"""Reads an executable back and holds it against what its ABI file promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tollmeter.model import Failure, Value

# The keys of an ABI file's [elf], and where in the header each is read.
READERS: dict[str, Callable[[ELFFile], Value]] = {
    "class": lambda elf: int(elf.elfclass),
    "machine": lambda elf: str(elf["e_machine"]),
    "order": lambda elf: "little" if elf.little_endian else "big",
    "flags": lambda elf: int(elf["e_flags"]),
}


def prove(path: Path, promises: Mapping[str, Value]) -> None:
    """Raises Failure where an executable is not what the ABI file says, or needs a loader or a shared library."""
    try:
        with path.open("rb") as file:
            trouble = _broken_promise(ELFFile(file), promises)
    except (OSError, ELFError) as error:
        raise Failure(f"{path.name} is no executable that can be read back: {error}", 1) from error
    if trouble:
        raise Failure(f"{path.parent.name}/{path.name} {trouble}", 1)


def _broken_promise(elf: ELFFile, promises: Mapping[str, Value]) -> str | None:
    for key, promised in promises.items():
        found = READERS[key](elf)
        if found != promised:
            return f"has {key} {found} in its ELF header, where its ABI file promises {promised}"
    kinds = {segment["p_type"] for segment in elf.iter_segments()}
    if "PT_INTERP" in kinds or "PT_DYNAMIC" in kinds:
        return "is not static: it needs a loader, which the measured machine may not have"
    if elf["e_type"] != "ET_EXEC":
        return f"is {elf['e_type']}, not an executable at fixed addresses"
    return None
