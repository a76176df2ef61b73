# SPDX-License-Identifier: Apache-2.0
"""Reads an executable back and holds it against what its ABI file promises."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import ARMAttributesSection

from tollmeter.model import Failure, Value

# Addenda to, and Errata in, the ABI for the Arm Architecture, "Build attributes": the values of Tag_FP_arch.
_FP_ARCH = {1: "VFPv1", 2: "VFPv2", 3: "VFPv3", 4: "VFPv3-D16", 5: "VFPv4", 6: "VFPv4-D16", 7: "FPv8", 8: "FPv8"}


def _arm_attribute(elf: ELFFile, tag: str) -> int:
    """A number of the file scope of .ARM.attributes; an absent one is 0 by that specification."""
    section = elf.get_section_by_name(".ARM.attributes")
    if not isinstance(section, ARMAttributesSection):
        return 0
    values = (
        int(attribute.value)
        for subsection in section.iter_subsections()
        for scope in subsection.iter_subsubsections("TAG_FILE")
        for attribute in scope.iter_attributes(tag)
    )
    return next(values, 0)


def _fp_arch(elf: ELFFile) -> Value:
    """The floating-point instructions that the code may use: 0 for none."""
    number = _arm_attribute(elf, "TAG_FP_ARCH")
    return _FP_ARCH.get(number, number)


# The keys of an ABI file's [elf], and where in the file each is read. cpu_arch: the architecture that the code needs.
# arm_isa: 0 where it is Thumb alone. vfp_args: 1 where arguments travel in floating-point registers.
READERS: dict[str, Callable[[ELFFile], Value]] = {
    "class": lambda elf: int(elf.elfclass),
    "machine": lambda elf: str(elf["e_machine"]),
    "order": lambda elf: "little" if elf.little_endian else "big",
    "flags": lambda elf: int(elf["e_flags"]),
    "fp_arch": _fp_arch,
    "cpu_arch": lambda elf: _arm_attribute(elf, "TAG_CPU_ARCH"),
    "arm_isa": lambda elf: _arm_attribute(elf, "TAG_ARM_ISA_USE"),
    "vfp_args": lambda elf: _arm_attribute(elf, "TAG_ABI_VFP_ARGS"),
}


def prove(path: Path, promises: Mapping[str, Value]) -> None:
    """Raises Failure where an executable breaks a promise of its ABI file, or needs a loader or a shared library."""
    try:
        with path.open("rb") as file:
            trouble = _broken_promise(ELFFile(file), promises)
    except (OSError, ELFError) as error:
        raise Failure(f"{path.name} is no executable that can be read back: {error}", 1) from error
    if trouble:
        raise Failure(f"{path.parent.name}/{path.name} {trouble}", 1)


def _broken_promise(elf: ELFFile, promises: Mapping[str, Value]) -> str | None:
    for key, promised in promises.items():
        actual = READERS[key](elf)
        if actual != promised:
            return f"says {key} {actual} in its ELF file, where its ABI file promises {promised}"
    kinds = {segment["p_type"] for segment in elf.iter_segments()}
    if "PT_INTERP" in kinds or "PT_DYNAMIC" in kinds:
        return "is not static: it needs a loader, which the measured machine may not have"
    if elf["e_type"] != "ET_EXEC":
        return f"is {elf['e_type']}, not an executable at fixed addresses"
    return None


def loaded_part(content: bytes) -> bytes:
    """An executable without what is never loaded: symbols, debugging information and the table of sections. All that
    the kernel maps stays as it is, but for the numbers of that table in the file's header."""
    elf = ELFFile(io.BytesIO(content))
    kept = bytearray(content[: max(segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments())])
    offset, offset_bytes, count = (0x28, 8, 0x3C) if elf.elfclass == 64 else (0x20, 4, 0x30)
    kept[offset : offset + offset_bytes] = bytes(offset_bytes)
    kept[count : count + 4] = bytes(4)
    return bytes(kept)
