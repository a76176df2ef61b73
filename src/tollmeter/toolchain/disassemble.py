# SPDX-License-Identifier: Apache-2.0
"""Decodes the machine code of an executable, for claims about code rather than source.

If several files have a static function of one name, the name refers to the function in the probe's own file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import capstone
from elftools.elf.elffile import ELFFile

from tollmeter.model import Failure
from tollmeter.toolchain.elf_machines import elf_machine
from tollmeter.toolchain.symbols import FUNCTION, Symbol, symbols

_DATA, _CODE = "$d", ("$a", "$t", "$x")
"""Mapping symbols of ARM ABIs: the beginnings of constants, and of code, inside a function."""


class Instruction(NamedTuple):
    """One instruction as text. target: destination of a jump, else None; code: its bytes; called: destination of a
    call, 0 for an indirect one, None for none; enters: whether it enters the kernel, as a system call or a
    breakpoint does; leads_to: name of the function at either destination, if `code_from` finds one."""

    address: int
    mnemonic: str
    operands: str
    target: int | None
    code: bytes = b""
    called: int | None = None
    enters: bool = False
    leads_to: str = ""


def elf_machine_of(path: Path) -> str:
    """Returns the ELF name of the machine."""
    with path.open("rb") as file:
        return str(ELFFile(file)["e_machine"])


def functions(path: Path) -> tuple[Symbol, ...]:
    """Returns every function in the symbol table that has code."""
    with path.open("rb") as file:
        return tuple(_functions(ELFFile(file)))


def instructions(path: Path, symbol: str, after_ud2: int = 0) -> tuple[Instruction, ...]:
    """Returns the instructions of one function in order. If several functions have this name, it is the one in the
    probe's own file, as loop.c for kernel.loop. after_ud2: number of bytes after each undefined instruction of x86 that
    are data for its trap handler. Raises Failure unless there is exactly one such function."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        candidates = [function for function in _functions(elf) if function.name == symbol]
        stem = path.name.partition(".")[2]
        meant = [function for function in candidates if len(candidates) == 1 or Path(function.source).stem == stem]
        if len(meant) != 1:
            raise Failure(
                f"{path.name} has {len(candidates)} functions {symbol}, of which {len(meant)} can be meant", 1
            )
        return tuple(_decode(elf, meant[0], after_ud2))


def code_from(path: Path, name: str, most: int = 4) -> dict[str, tuple[Instruction, ...]]:
    """Returns by name the instructions of a function of the probe's own file, and of the functions of this file that it
    calls, directly or not, nearest first. name: as in the source, which C++ extends to a longer symbol. most: highest
    number of functions. Raises Failure as `instructions` does."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        every = tuple(_functions(elf))
        stem = path.name.partition(".")[2]
        own_functions = {function.value: function for function in every if Path(function.source).stem == stem}
        first = [
            instruction
            for instruction in own_functions.values()
            if instruction.name == name or f"{len(name)}{name}" in instruction.name
        ]
        if len(first) != 1:
            raise Failure(f"{path.name} has {len(first)} functions {name} of its own file", 1)
        named = {function.value: function.name for function in every}
        found, left = dict[Symbol, tuple[Instruction, ...]](), first
        while left and len(found) < most:
            code = found[left[0]] = tuple(_decode(elf, left[0], 0))
            called = (
                own_functions[to]
                for instruction in code
                for to in (instruction.called, instruction.target)
                if to in own_functions
            )  # a tail call is a jump
            left = list(dict.fromkeys(instruction for instruction in (*left[1:], *called) if instruction not in found))
        return {
            function.name: tuple(
                instruction._replace(leads_to=named.get(instruction.called or instruction.target or 0, ""))
                for instruction in code
            )
            for function, code in found.items()
        }


def _functions(elf: ELFFile) -> Iterator[Symbol]:
    return (symbol for symbol in symbols(elf) if symbol.kind == FUNCTION and symbol.size_bytes)


def _decode(elf: ELFFile, function: Symbol, after_ud2: int) -> Iterator[Instruction]:
    # The address of ARM's shorter code has its lowest bit set.
    is_thumb = bool(function.value & 1) and elf["e_machine"] == "EM_ARM"
    start = function.value - is_thumb
    code, data = _code(elf, function._replace(value=start)), _data_in(elf, start, function.size_bytes)
    decoder = _decoder(elf, is_thumb)
    at = 0
    while at < len(code):
        for instruction in decoder.disasm(code[at:], start + at):
            at = instruction.address - start + instruction.size
            if instruction.address not in data:
                groups = instruction.groups if instruction.id else ()
                leads = (
                    _target(instruction.op_str) if {capstone.CS_GRP_JUMP, capstone.CS_GRP_CALL} & {*groups} else None
                )
                yield Instruction(
                    instruction.address, instruction.mnemonic, instruction.op_str,
                    leads if capstone.CS_GRP_JUMP in groups else None, bytes(instruction.bytes),
                    leads or 0 if capstone.CS_GRP_CALL in groups else None, capstone.CS_GRP_INT in groups,
                )  # fmt: skip
            if instruction.mnemonic == "ud2" and after_ud2:
                at += after_ud2
                break


def _target(operands: str) -> int | None:
    """Returns the destination of a jump or call: its text ends with the address, unless it is indirect; then None."""
    last = operands.rpartition(",")[2].strip().lstrip("#")
    return int(last, 16) if re.fullmatch(r"0x[0-9a-f]+", last) else None


def _decoder(elf: ELFFile, is_thumb: bool) -> capstone.Cs:
    machine = elf_machine(elf["e_machine"])
    if not machine.decoder:
        raise Failure(f"the code of {elf['e_machine']} cannot be read here: capstone does not decode it", 1)
    architecture, *modes = machine.decoder
    mode = sum(getattr(capstone, f"CS_MODE_{name}") for name in modes)
    mode |= capstone.CS_MODE_BIG_ENDIAN if machine.two_orders and not elf.little_endian else 0
    decoder = capstone.Cs(getattr(capstone, f"CS_ARCH_{architecture}"), capstone.CS_MODE_THUMB if is_thumb else mode)
    decoder.detail = decoder.skipdata = True  # unknown instructions are yielded as bytes, and decoding continues
    return decoder


def _data_in(elf: ELFFile, start: int, size_bytes: int) -> frozenset[int]:
    """Returns the addresses in a function that hold constants."""
    if elf["e_machine"] not in ("EM_ARM", "EM_AARCH64"):
        return frozenset()
    end = start + size_bytes
    marks = sorted((mark.value, mark.name[:2]) for mark in symbols(elf) if mark.name[:2] in (_DATA, *_CODE))
    inside = [(at, kind) for at, kind in marks if start <= at < end]
    ends = [*(at for at, _ in inside[1:]), end]
    data = [(begin, until) for (begin, kind), until in zip(inside, ends, strict=False) if kind == _DATA]
    return frozenset(address for begin, until in data for address in range(begin, until))


def _code(elf: ELFFile, function: Symbol) -> bytes:
    for section in elf.iter_sections():
        start = section["sh_addr"]
        if section["sh_type"] == "SHT_PROGBITS" and start <= function.value < start + section["sh_size"]:
            offset = function.value - start
            return bytes(section.data()[offset : offset + function.size_bytes])
    raise Failure(f"{function.name} has no code in the file", 1)
