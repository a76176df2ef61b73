# SPDX-License-Identifier: Apache-2.0
"""Whether the bodies of floating-point probes compute as their ABI file claims: read from the code, not from flags.

    floats = "hard"    the compiler's operators are instructions of an FPU; bodies by a library or by traps have none
    floats = "soft"    no body has one
    floats = "fpa"     as soft, and the kernels in assembly have the old ARM accelerator's, and no other unit's

A body is an instance of a kernel's template: its number type stands in the symbol (probes/float/ways.h)."""

from __future__ import annotations

import re
from pathlib import Path

from tollmeter.model import Abi, Failure
from tollmeter.toolchain.disassemble import Instruction, functions, instructions, machine_of

_FAMILY = "float."
_BODY = re.compile(r"_ZN12_GLOBAL__N_1\d+[a-z_]+I(?P<number>[df]|\d[a-z]+I[df]E)E")
_TRAPPED = "I7trappedI"
_ACCELERATOR = re.compile(r"fpa_\w+_(single|double)")

# Additions, subtractions, multiplications and divisions of binary floating point, as capstone spells them. Moves are
# not among them: an ABI may pass numbers in registers of an FPU that the body itself never computes with.
_ARITHMETIC = {
    "EM_X86_64": r"v?(add|sub|mul|div|fn?m(add|sub)\d+)[sp][sd]|fi?(add|subr?|mul|divr?)p?",
    "EM_386": r"v?(add|sub|mul|div|fn?m(add|sub)\d+)[sp][sd]|fi?(add|subr?|mul|divr?)p?",
    "EM_AARCH64": r"f(add|sub|n?mul|div|mla|mls|n?m(add|sub))",
    "EM_ARM": r"v(add|sub|n?mul|div|n?ml[as]|fn?m[as])\w*\.f(32|64)",
    "EM_MIPS": r"(add|sub|mul|div|n?m(add|sub))\.[sd]",
    "EM_RISCV": r"f(add|sub|mul|div|n?m(add|sub))\.[sd]",
    "EM_PPC64": r"f(add|sub|mul|div|n?m(add|sub))s?|x[sv](add|sub|mul|div|n?m(add|sub)[am])[sd]p",
    "EM_S390": r"(a|s|mee?|d)[de]br?|m[as][de]br?|[vw]f(a|s|m|d|ma|ms)[sd]b",
    "EM_SPARCV9": r"f(s?mul|add|sub|div)[sd]",
}

_LOAD, _COPROCESSOR = range(0xC, 0xE), 0xE
_FPA = (1, 2)


def prove(path: Path, abi: Abi) -> None:
    """Raises Failure with the probe, the function and the instruction that is not what the ABI file claims."""
    if not abi.floats or not path.name.startswith(_FAMILY):
        return
    names = [function.name for function in functions(path)]
    bodies = {name: match["number"] for name in names if (match := _BODY.match(name))}
    if not bodies:
        raise Failure(f"{path.parent.name}/{path.name} has no body that could be held to floats = {abi.floats!r}", 1)
    for name, number in bodies.items():
        _prove_body(path, name, abi.floats == "hard" and number in ("d", "f"))
    if abi.floats == "fpa":
        accelerated = [name for name in names if _ACCELERATOR.fullmatch(name)]
        # Traps of the other kind: it goes the three ways, and not by the accelerator. One without ways needs none.
        if not accelerated and any(_TRAPPED in name for name in names):
            raise Failure(f"{path.parent.name}/{path.name} has no kernel of FPA instructions", 1)
        for name in accelerated:
            _prove_accelerated(path, name)


def _prove_body(path: Path, name: str, computes: bool) -> None:
    pattern = re.compile(_ARITHMETIC[machine_of(path)])
    trapped = _TRAPPED in name
    computing = [
        instruction
        for instruction in instructions(path, name, after_ud2=trapped)
        if pattern.fullmatch(instruction.mnemonic)
    ]
    if computing and not computes:
        raise Failure(
            f"{path.parent.name}/{path.name}: {name} has {_text_of(computing[0])}, where no FPU may compute", 1
        )
    if computes and not computing:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has no instruction of an FPU that computes", 1)


def _prove_accelerated(path: Path, name: str) -> None:
    """Reads the instructions' own bits, since no current disassembler decodes this accelerator's."""
    units = {
        unit: instruction for instruction in instructions(path, name) if (unit := _coprocessor(instruction)) is not None
    }
    other = [instruction for unit, instruction in units.items() if unit not in _FPA]
    if other:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has {_text_of(other[0])}, which is not FPA's", 1)
    if not units:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has no FPA instruction", 1)


def _coprocessor(instruction: Instruction) -> int | None:
    """ARM ARM A5.6: bits 27 to 24 are 110x or 1110, and bits 11 to 8 the unit."""
    word = int.from_bytes(instruction.code, "little")
    kind = word >> 24 & 15
    return word >> 8 & 15 if len(instruction.code) == 4 and (kind in _LOAD or kind == _COPROCESSOR) else None


def _text_of(instruction: Instruction) -> str:
    return f"'{instruction.mnemonic} {instruction.operands}' at {instruction.address:#x}"
