# SPDX-License-Identifier: Apache-2.0
"""The data on each kind of CPU that an ELF file can name, for builds and checks: one line for each machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tollmeter.model import Failure


class ElfMachine(NamedTuple):
    """A kind of CPU. sources: suffix of its assembly sources NAME.SOURCES.S, and the name of its compiler-rt builtins.
    decoder: capstone's names of the architecture and the mode; empty if capstone cannot decode it. two_orders: whether
    it runs code in both byte orders. arithmetic: additions, subtractions, multiplications and divisions of binary
    floating point, as capstone spells them; no moves, since an ABI may pass numbers in FPU registers that the body
    never computes with."""

    sources: str
    decoder: Sequence[str] = ()
    arithmetic: str = ""
    two_orders: bool = False


_X86 = r"v?(add|sub|mul|div|fn?m(add|sub)\d+)[sp][sd]|fi?(add|subr?|mul|divr?)p?"
_SPARC = r"f(s?mul|add|sub|div)[sd]"
_POWER = r"f(add|sub|mul|div|n?m(add|sub))s?|x[sv](add|sub|mul|div|n?m(add|sub)[am])[sd]p"

ELF_MACHINES = {
    "EM_X86_64": ElfMachine("x86_64", ("X86", "64"), _X86),
    "EM_386": ElfMachine("i386", ("X86", "32"), _X86),
    "EM_AARCH64": ElfMachine("aarch64", ("ARM64", "ARM"), r"f(add|sub|n?mul|div|mla|mls|n?m(add|sub))"),
    "EM_ARM": ElfMachine("arm", ("ARM", "ARM"), r"v(add|sub|n?mul|div|n?ml[as]|fn?m[as])\w*\.f(32|64)", True),
    "EM_MIPS": ElfMachine("mips", ("MIPS", "MIPS32"), r"(add|sub|mul|div|n?m(add|sub))\.[sd]", True),
    "EM_RISCV": ElfMachine("riscv64", ("RISCV", "RISCV64", "RISCVC"), r"f(add|sub|mul|div|n?m(add|sub))\.[sd]"),
    "EM_LOONGARCH": ElfMachine("loongarch64"),
    "EM_PPC64": ElfMachine("ppc64", ("PPC", "64"), _POWER, True),
    "EM_S390": ElfMachine("s390x", ("SYSZ",), r"(a|s|mee?|d)[de]br?|m[as][de]br?|[vw]f(a|s|m|d|ma|ms)[sd]b"),
    "EM_SPARC": ElfMachine("sparc", ("SPARC",), _SPARC, True),
    "EM_SPARCV9": ElfMachine("sparc64", ("SPARC", "V9"), _SPARC, True),
}


def elf_machine(name: str) -> ElfMachine:
    """Returns the data of a machine, by its name in elf.h. Raises Failure (2)."""
    if name not in ELF_MACHINES:
        raise Failure(
            f"no ELF machine {name} is known; known: {', '.join(ELF_MACHINES)}. A new one is a line of "
            "src/tollmeter/toolchain/elf_machines.py (docs/add-an-abi.md)"
        )
    return ELF_MACHINES[name]
