# SPDX-License-Identifier: Apache-2.0
"""What the machine code of an executable really does, where a claim rests on code and not on source.

    uses(path, "copy_avx512", lambda i: "zmm" in i.operands)     the kernel is as wide as its name says
    has_loop(path, "enter")                                      the compiler did not delete the loop

A symbol is a function of the probe's own file where another file has a static function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import capstone
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tollmeter.model import Failure

_MACHINES = {
    "EM_X86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "EM_386": (capstone.CS_ARCH_X86, capstone.CS_MODE_32),
    "EM_AARCH64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    "EM_ARM": (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM),
}


class Function(NamedTuple):
    """Where a function's code lies. source: the file it was compiled from, empty for a global one."""

    name: str
    source: str
    address: int
    size_bytes: int


class Instruction(NamedTuple):
    """One instruction as text; target: where a jump leads, else None."""

    address: int
    mnemonic: str
    operands: str
    target: int | None


def functions(path: Path) -> tuple[Function, ...]:
    """Every function that the symbol table knows and that has code."""
    with path.open("rb") as file:
        return tuple(_functions(ELFFile(file)))


def instructions(path: Path, symbol: str) -> tuple[Instruction, ...]:
    """The code of one function in order. Raises Failure where there is no such function, or no telling which."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        function = _choose(path, symbol, [one for one in _functions(elf) if one.name == symbol])
        return tuple(_decode(elf, function))


def uses(path: Path, symbol: str, predicate: Callable[[Instruction], bool]) -> bool:
    """Whether any instruction of a function is of a kind."""
    return any(map(predicate, instructions(path, symbol)))


def has_loop(path: Path, symbol: str) -> bool:
    """Whether a function jumps backwards inside itself."""
    code = instructions(path, symbol)
    return any(i.target is not None and code[0].address <= i.target <= i.address for i in code)


def _functions(elf: ELFFile) -> Iterator[Function]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    source = ""
    for symbol in table.iter_symbols():
        kind, binding = symbol["st_info"]["type"], symbol["st_info"]["bind"]
        if kind == "STT_FILE":
            source = symbol.name
        elif kind == "STT_FUNC" and symbol["st_size"]:
            owner = source if binding == "STB_LOCAL" else ""
            yield Function(symbol.name, owner, symbol["st_value"], symbol["st_size"])


def _choose(path: Path, symbol: str, found: list[Function]) -> Function:
    """The only one of its name, or the one that the probe's own file holds: of kernel.loop, loop.c."""
    stem = path.name.partition(".")[2]
    own = [one for one in found if Path(one.source).stem == stem] if len(found) > 1 else found
    if len(own) != 1:
        raise Failure(f"{path.name} has {len(found)} functions {symbol}, of which {len(own)} can be meant", 1)
    return own[0]


def _decode(elf: ELFFile, function: Function) -> Iterator[Instruction]:
    machine = elf["e_machine"]
    if machine not in _MACHINES:
        raise Failure(f"the code of {machine} cannot be read here", 1)
    decoder = capstone.Cs(*_MACHINES[machine])
    decoder.detail = True
    for one in decoder.disasm(_code(elf, function), function.address):
        jumps = one.group(capstone.CS_GRP_JUMP)
        yield Instruction(one.address, one.mnemonic, one.op_str, _target(one.op_str) if jumps else None)


def _code(elf: ELFFile, function: Function) -> bytes:
    for section in elf.iter_sections():
        start = section["sh_addr"]
        if section["sh_type"] == "SHT_PROGBITS" and start <= function.address < start + section["sh_size"]:
            offset = function.address - start
            return bytes(section.data()[offset : offset + function.size_bytes])
    raise Failure(f"{function.name} has no code in the file", 1)


def _target(operands: str) -> int | None:
    """The address that a jump's text ends with; None for a jump through a register."""
    last = operands.rpartition(",")[2].strip().lstrip("#")
    return int(last, 16) if last.startswith("0x") else None
