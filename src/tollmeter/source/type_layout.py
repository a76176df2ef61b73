# SPDX-License-Identifier: Apache-2.0
"""The type layouts of ABIs, read from the object file that each ABI's own compiler made of abis/layout.c."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tollmeter.model import Failure

Breaks = Literal["", "file", "code"]

_NUMBER_NAME, _NUMBER_SIZE = 60, 64
_BYTES_NAME, _BYTES_SIZE = 48, 64
_SHOWN_BYTES = {"uint64_t": 8}
_CONTAINER = re.compile(
    r"[{.]|struct|union|event|bit-fields|0x|1\.0|char is signed|size of (time_t|off_t|long double|wchar_t)$"
)


class Fact(NamedTuple):
    """One fact about a type: its value under each ABI, in the requested order, and the consequence of a difference.

    `file`: a wire format or a file stores the type as it is in memory; `code`: only code depends on the number."""

    name: str
    values: tuple[str, ...]
    breaks: Breaks


def read_layout(path: Path) -> dict[str, str]:
    """Returns all facts of one object file by name: numbers in decimal, bytes in hexadecimal in memory order.

    Raises Failure (2) if it contains no facts."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            sections: dict[str, bytes] = {}
            for name in (".toll.layout", ".toll.bytes", ".toll.double"):
                section = elf.get_section_by_name(name)
                if section is None:
                    raise ELFError(f"it has no section {name}")
                sections[name] = bytes(section.data())
    except ELFError as error:
        raise Failure(f"{path.name} is not an object file: {error}") from error
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    double = {"double 1.0": sections[".toll.double"].hex()}
    facts: dict[str, str] = {}
    for record in _records(sections[".toll.layout"], _NUMBER_SIZE):
        facts[_name(record[:_NUMBER_NAME])] = str(int.from_bytes(record[_NUMBER_NAME:], order))
    for record in _records(sections[".toll.bytes"], _BYTES_SIZE):
        name = _name(record[:_BYTES_NAME])
        facts[name] = record[_BYTES_NAME:][: _SHOWN_BYTES.get(name.split()[0], 4)].hex()
    return facts | double


def layout_table(layouts: Mapping[str, Mapping[str, str]]) -> tuple[Fact, ...]:
    """Returns the facts of several ABIs side by side, in the order of the first."""
    facts = []
    for name in dict.fromkeys(name for layout in layouts.values() for name in layout):
        values = tuple(layout.get(name, "") for layout in layouts.values())
        differing: Breaks = "file" if _CONTAINER.search(name) else "code"
        facts.append(Fact(name, values, differing if len(set(values)) > 1 else ""))
    return tuple(facts)


def differing_first(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    return tuple(sorted(facts, key=lambda fact: not fact.breaks))


def double_order(raw: str) -> str:
    """Returns the byte order of 1.0: little, big, or mixed, as in ARM's old floating-point accelerator (high word
    first)."""
    names = {"000000000000f03f": "little", "3ff0000000000000": "big", "0000f03f00000000": "mixed"}
    return names.get(raw, "unknown")


def _records(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data) - size + 1, size)]


def _name(field: bytes) -> str:
    return field.rstrip(b"\0").decode("ascii", errors="replace")
