# SPDX-License-Identifier: Apache-2.0
"""Reads the layout of a C header's own types from DWARF, which each ABI's compiler writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

HOLDING = {"DW_TAG_structure_type": "struct ", "DW_TAG_union_type": "union "}
_NAMED = {**HOLDING, "DW_TAG_enumeration_type": "enum ", "DW_TAG_typedef": ""}
SYSTEM = "\n".join(f"#include <{header}>" for header in ("signal.h", "sys/epoll.h", "sys/stat.h", "time.h"))
SYSTEM_TYPES = ("struct epoll_event", "struct sigaction", "struct stat", "struct timespec")


def including(header: Path) -> str:
    """Returns a C file that includes a header: a file, else a system header."""
    return f'#include "{header.resolve()}"\n' if header.is_file() else f"#include <{header}>\n"


def read_types(path: Path) -> dict[str, dict[str, str]]:
    """Returns the facts of each named type of an object file, by the type's name. The facts of a field are its offset
    and, in parentheses, its size in bytes; those of a bit-field are byte:bit and its bits."""
    with path.open("rb") as file:
        units = list(ELFFile(file).get_dwarf_info().iter_CUs())
        return {name: dict(_facts(name, _bare(die))) for unit in units for name, die in _types(unit)}


def types_named(types: Collection[str], kind: str) -> list[str]:
    """Returns the types that a name may mean: `stat` is `struct stat`, or a type of that name."""
    return [name for name in types if kind in (name, name.partition(" ")[2])]


def declared_in(path: Path, header: Path) -> set[str]:
    """Returns the names of the types that the header itself declares, without those of included headers; of a type with
    two names, the structure's own."""
    with path.open("rb") as file:
        return {
            name
            for unit in ELFFile(file).get_dwarf_info().iter_CUs()
            for name, die in _types(unit)
            if _file_of(unit, die) == header.name and (die.tag != "DW_TAG_typedef" or not _is_named(_bare(die)))
        }


def _types(unit: CompileUnit) -> Iterator[tuple[str, DIE]]:
    """Yields each type that has a name and a size, with its name."""
    for die in unit.get_top_DIE().iter_children():
        if str(die.tag) in _NAMED and "DW_AT_name" in die.attributes and "DW_AT_declaration" not in die.attributes:
            yield f"{_NAMED[str(die.tag)]}{_text(die)}", die


def _facts(name: str, die: DIE | None) -> Iterator[tuple[str, str]]:
    if die is None or (size := _size(die)) is None:
        return
    nameless = die.tag in HOLDING and not _is_named(die)
    yield f"size of {name}{f', a {HOLDING[str(die.tag)].strip()}' if nameless else ''}", str(size)
    if die.tag in HOLDING:
        for member, place in _members(die, 0):
            yield f"{name}.{member}", place


def _is_named(die: DIE | None) -> bool:
    return die is not None and die.tag in HOLDING and "DW_AT_name" in die.attributes


def _members(holder: DIE, base_bits: int) -> Iterator[tuple[str, str]]:
    """Yields the members of a structure or union, including the members of unnamed inner ones."""
    for die in holder.iter_children():
        if die.tag != "DW_TAG_member":
            continue
        at_bits, kind = base_bits + _offset_bits(die), _bare(die)
        if "DW_AT_name" not in die.attributes:
            if kind is not None and kind.tag in HOLDING:
                yield from _members(kind, at_bits)
        elif "DW_AT_bit_size" in die.attributes:
            yield _text(die), f"{at_bits // 8}:{at_bits % 8} ({die.attributes['DW_AT_bit_size'].value} bits)"
        else:
            size = _size(kind) if kind is not None else None
            yield _text(die), f"{at_bits // 8} ({'?' if size is None else size})"


def _offset_bits(member: DIE) -> int:
    bits, begin = (member.attributes.get(f"DW_AT_data_{kind}") for kind in ("bit_offset", "member_location"))
    return int(bits.value) if bits else 8 * int(begin.value) if begin else 0


def _bare(die: DIE) -> DIE | None:
    """Returns a type without typedefs and qualifiers; for a member, its type. None: void."""
    aliases = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_atomic_type", "DW_TAG_member")
    while die.tag in aliases:
        if "DW_AT_type" not in die.attributes:
            return None
        die = die.get_DIE_from_attribute("DW_AT_type")
    return die


def _size(die: DIE) -> int | None:
    """Returns the size in bytes; 0 for an array without a length. None if the type is incomplete."""
    if die.tag != "DW_TAG_array_type":
        size = die.attributes.get("DW_AT_byte_size")
        return int(size.value) if size else None
    element = _bare(die.get_DIE_from_attribute("DW_AT_type"))
    size_bytes = _size(element) if element is not None else None
    for span in die.iter_children():
        last, count = (span.attributes.get(f"DW_AT_{name}") for name in ("upper_bound", "count"))
        length = count.value if count else last.value + 1 if last else 0
        size_bytes = None if size_bytes is None else size_bytes * length
    return size_bytes


def _text(die: DIE) -> str:
    return str(die.attributes["DW_AT_name"].value.decode(errors="replace"))


def _file_of(unit: CompileUnit, die: DIE) -> str:
    """Returns the name, without its folder, of the file that declares a type."""
    program = unit.dwarfinfo.line_program_for_CU(unit)
    number = die.attributes.get("DW_AT_decl_file")
    if program is None or number is None:
        return ""
    first = 0 if program["version"] >= 5 else 1  # files are numbered from 1 before DWARF 5
    return str(program["file_entry"][number.value - first].name.decode(errors="replace").rpartition("/")[2])
