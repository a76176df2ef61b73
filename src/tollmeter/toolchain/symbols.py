# SPDX-License-Identifier: Apache-2.0
"""Resolves an address to its function, by the symbol table, and to the functions inlined there, by the DWARF of our own
code (-g1). Kernel addresses are resolved by /proc/kallsyms."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry, RangeEntry
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

FUNCTION, FILE = 2, 4
"""Symbol types STT_FUNC and STT_FILE."""
UNDEFINED = 0
_WIDE, _NARROW = "IBBHQQ", "IIIBBH"


class Symbol(NamedTuple):
    """A symbol. section: index of its section, UNDEFINED for none. source: the file that a local symbol was compiled
    from; empty for a global one."""

    name: str
    kind: int
    is_local: bool
    section: int
    value: int
    size_bytes: int
    source: str = ""


def symbols(elf: ELFFile) -> Iterator[Symbol]:
    """Yields the symbols in the table's order; none if the file was stripped."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    names = table.stringtable.data()
    order, source = "<" if elf.little_endian else ">", ""
    for fields in struct.iter_unpack(order + (_WIDE if elf.elfclass == 64 else _NARROW), table.data()):
        if elf.elfclass == 64:
            at, info, _, section, value, size = fields
        else:
            at, value, size, info, _, section = fields
        name = names[at : names.index(b"\0", at)].decode(errors="replace")
        kind, is_local = info & 15, info >> 4 == 0
        source = name if kind == FILE else source
        yield Symbol(name, kind, is_local, section, value, size, source if is_local else "")


UNKNOWN = "(no symbol)"


class Span(NamedTuple):
    """Addresses of one function, or of one inlined copy; depth: number of functions around it."""

    begin: int
    end: int
    name: str
    depth: int = 0


LineHits = Callable[[str, int], int]
"""Returns the number of samples from a line to the end of its function. Arguments: the file's name without folders, and
the line."""


class Symbols:
    """The functions of an executable. Reads the file once, and its inlined functions and lines on demand, since DWARF
    lines take a second."""

    def __init__(self, path: Path) -> None:
        self._elf = ELFFile(BytesIO(path.read_bytes()))
        self._functions = _functions(self._elf)
        self._begins = [span.begin for span in self._functions]

    @cached_property
    def _units(self) -> list[tuple[DWARFInfo, CompileUnit]]:
        dwarf = self._elf.get_dwarf_info() if self._elf.has_dwarf_info() else None
        return [(dwarf, unit) for unit in dwarf.iter_CUs()] if dwarf else []

    @cached_property
    def _inlined(self) -> list[Span]:
        return sorted(span for dwarf, unit in self._units for span in _inside(dwarf, unit, unit.get_top_DIE(), 0))

    @cached_property
    def _lines(self) -> list[tuple[int, str, int]]:
        return sorted(line for dwarf, unit in self._units for line in _lines(dwarf, unit))

    @cached_property
    def _declared(self) -> set[tuple[str, int]]:
        """Returns the file name and the line of each function that was compiled or inlined."""
        declared = set()
        for dwarf, unit in self._units:
            files = _files(dwarf, unit)
            for die in unit.get_top_DIE().iter_children():
                file, line = (die.attributes.get(f"DW_AT_decl_{part}") for part in ("file", "line"))
                if die.tag == "DW_TAG_subprogram" and file and line:
                    declared.add((files.get(file.value, ""), line.value))
        return declared

    def line_hits(self, addresses: Iterable[tuple[int, int]]) -> LineHits:
        """Returns a function that counts samples by line. addresses: each address with its number of samples."""
        hits: Counter[tuple[str, int]] = Counter()
        for address, count in addresses:
            if place := self.line(address):
                hits[place] += count
        return partial(hits_from, hits, self._declared)

    def line(self, address: int) -> tuple[str, int] | None:
        """Returns file and line of an address; None if unknown."""
        place = bisect_right(self._lines, (address, "￿", 0)) - 1
        return self._lines[place][1:] if place >= 0 and self._lines[place][1] else None

    def function(self, address: int) -> str:
        """Returns the function of an address, by its symbol."""
        place = bisect_right(self._begins, address) - 1
        span = self._functions[place] if place >= 0 else None
        return span.name if span and address < span.end else UNKNOWN

    def inlined(self, address: int) -> str | None:
        """Returns the innermost function that was inlined at an address; None if it is the symbol's own."""
        around = [span for span in self._inlined if span.begin <= address < span.end]
        return max(around, key=lambda span: span.depth).name if around else None


def hits_from(hits: Mapping[tuple[str, int], int], begins: Iterable[tuple[str, int]], file: str, line: int) -> int:
    """Returns the number of samples from a line to the end of its function. hits: samples of each line. begins: file
    and first line of each function."""
    end = min((begin for name, begin in begins if name == file and begin > line), default=1 << 32)
    return sum(count for (name, place), count in hits.items() if name == file and line <= place < end)


class KernelSymbols:
    """The running kernel's functions; none if kernel.kptr_restrict hides its addresses, which are then all 0."""

    def __init__(self, listed: Path = Path("/proc/kallsyms")) -> None:
        try:
            lines = listed.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        entries = (line.split(None, 3) for line in lines)
        named = {int(entry[0], 16): entry[2] for entry in entries if len(entry) > 2 and entry[1] in "tTwW"}
        self._functions = sorted((address, name) for address, name in named.items() if address)

    def function(self, address: int) -> str | None:
        """Returns the last function that begins before an address, since kallsyms has no lengths."""
        place = bisect_right(self._functions, (address, "\U0010ffff")) - 1
        return self._functions[place][1] if place >= 0 else None


def _functions(elf: ELFFile) -> list[Span]:
    """Returns one name for each address: the shortest, since libraries give one function many names. Linker marks have
    no length; an assembly function without a length extends to the next."""
    named: dict[int, Span] = {}
    for symbol in symbols(elf):
        if symbol.kind == FUNCTION and symbol.section != UNDEFINED:
            begin = symbol.value & ~1 if elf["e_machine"] == "EM_ARM" else symbol.value
            span = Span(begin, begin + symbol.size_bytes, symbol.name)
            known = named.setdefault(begin, span)
            if (-span.end, len(span.name), span.name) < (-known.end, len(known.name), known.name):
                named[begin] = span
    spans = sorted(named.values())
    # Code past the last section is the kernel's (its vDSO), and has no symbol here.
    code = (section for section in elf.iter_sections() if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)
    code_end = max((section["sh_addr"] + section["sh_size"] for section in code), default=0)
    nexts = [*(span.begin for span in spans[1:]), code_end]
    pairs = zip(spans, nexts, strict=True)
    return [span if span.end > span.begin else span._replace(end=after) for span, after in pairs]


# ---- DWARF ----------------------------------------------------------------------------------------------------------


def _inside(dwarf: DWARFInfo, unit: CompileUnit, die: DIE, depth: int) -> Iterator[Span]:
    inside = depth + (die.tag == "DW_TAG_inlined_subroutine")
    if inside > depth:
        name = _name(die)
        for begin, end in _ranges(dwarf, unit, die):
            yield Span(begin, end, name, inside)
    for child in die.iter_children():
        yield from _inside(dwarf, unit, child, inside)


def _name(die: DIE) -> str:
    for reference in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if reference in die.attributes:
            return _name(die.get_DIE_from_attribute(reference))
    named = die.attributes.get("DW_AT_name")
    return named.value.decode(errors="replace") if named else UNKNOWN


def _ranges(dwarf: DWARFInfo, unit: CompileUnit, die: DIE) -> Iterator[tuple[int, int]]:
    low, high, listed = (die.attributes.get(f"DW_AT_{name}") for name in ("low_pc", "high_pc", "ranges"))
    if low and high:
        yield low.value, high.value if high.form == "DW_FORM_addr" else low.value + high.value
    elif listed and (lists := dwarf.range_lists()):
        low_of_unit = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = low_of_unit.value if low_of_unit else 0
        for entry in lists.get_range_list_at_offset(listed.value, cu=unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            elif isinstance(entry, RangeEntry):
                start = 0 if entry.is_absolute else base
                yield start + entry.begin_offset, start + entry.end_offset


def _files(dwarf: DWARFInfo, unit: CompileUnit) -> dict[int, str]:
    """Returns the names of a unit's files, without their folders, by the numbers in its entries and lines."""
    program = dwarf.line_program_for_CU(unit)
    first = 0 if program and program["version"] >= 5 else 1  # files are numbered from 1 before DWARF 5
    named = program["file_entry"] if program else ()
    return {number: entry.name.decode(errors="replace").rpartition("/")[2] for number, entry in enumerate(named, first)}


def _lines(dwarf: DWARFInfo, unit: CompileUnit) -> Iterator[tuple[int, str, int]]:
    """Yields the beginning of each stretch of code, with its file's name and line; an empty name after the last of a
    sequence."""
    program = dwarf.line_program_for_CU(unit)
    files = _files(dwarf, unit)
    for entry in program.get_entries() if program else ():
        if entry.state:
            name = "" if entry.state.end_sequence else files.get(entry.state.file, "")
            yield entry.state.address, name, entry.state.line
