# SPDX-License-Identifier: Apache-2.0
"""Checks of an executable before it measures: it has its ABI, describes itself, and uses known units and meanings."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tollmeter import commands
from tollmeter.files import write_whole
from tollmeter.model import UNITS, Abi, Failure, Value
from tollmeter.model.description_rules import DESCRIPTION_RULES
from tollmeter.protocol import Damaged, clean, description, find_lines
from tollmeter.targets.cpu_features import cpu_lack
from tollmeter.targets.local import native_command
from tollmeter.toolchain.elf_machines import elf_machine

if TYPE_CHECKING:  # most starts read no machine code, and do without these libraries
    from elftools.elf.elffile import ELFFile

    from tollmeter.toolchain.disassemble import Instruction

DESCRIBE_SECONDS = 20
MEANINGS_PAGE, MEANINGS_HEADING = "docs/add-a-probe.md", "\n## What a metric means\n"


def accepted(root: Path, path: Path, abi: Abi) -> Failure | None:
    """Verifies one executable, and stores its description if this machine runs the ABI. Returns a failure if it
    violates its ABI file or does not describe itself as a probe must."""
    try:
        prove_elf(path, abi)
        prove_floats(path, abi)
        kept = path.with_name(f"{path.name}.describe")
        if not kept.exists():
            stream = None if cpu_lack(abi) else _describe(path)
            if stream is not None:
                check_description(root, path, abi, stream)
                write_whole(kept, stream)
    except Failure as failure:
        return failure
    return None


def check_description(root: Path, path: Path, abi: Abi, stream: bytes) -> None:
    """Raises Failure (1) if a description is of another probe, has an unknown unit or meaning, or breaks a rule of
    descriptions."""
    try:
        probe, build = description(stream)
    except Damaged as error:
        reason = _unknown_unit(stream) or f"it does not describe itself: {error}"
        raise Failure(f"{abi.name}/{path.name}: {reason}", 1) from error
    if (probe.probe, build.abi) != (path.name, abi.name):
        raise Failure(f"{abi.name}/{path.name} calls itself {probe.probe} for {build.abi}", 1)
    known = meanings(root)
    for metric in probe.metrics:
        if metric.means is not None and known and metric.means not in known:
            raise Failure(
                f"{probe.probe}: {metric.name} has the meaning {metric.means!r}, which {MEANINGS_PAGE} does not "
                "name: add it there with the analysis that reads it, or leave it out",
                1,
            )
    faults = [fault for rule in DESCRIPTION_RULES for fault in rule(probe)]
    if faults:
        raise Failure(f"{probe.probe}: {'; '.join(faults)}", 1)


def _unknown_unit(stream: bytes) -> str:
    """Returns the metric of a description whose unit no record can have; empty if that is not why it is damaged."""
    with contextlib.suppress(Damaged, ValueError, TypeError, KeyError):
        for line in find_lines(stream):
            for metric in json.loads(line.text)["metrics"] if line.kind == "probe" else ():
                name, unit = clean(metric["name"]), clean(metric["unit"])
                if unit not in UNITS:
                    return f"{name} has the unit {unit!r}; units are {' '.join(UNITS)}"
    return ""


def meanings(root: Path) -> frozenset[str]:
    """Returns the meanings that a metric may have, from the first column of the document's table of meanings. A
    cell `a` `b-…` `c-…` means a, and a's ending after b- and after c-. Empty without the document, as in a wheel, which
    contains only our probes."""
    page = root / MEANINGS_PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, _, section = text.partition(MEANINGS_HEADING)
    names: set[str] = set()
    for row in re.findall(r"^\| ((?:`[^`]+`[, ]*)+) \|", section.partition("\n## ")[0], re.MULTILINE):
        words = re.findall(r"`([^`]+)`", row)
        ending = words[0].partition("-")[2]
        names |= {word.replace("…", ending) for word in words}
    return frozenset(names)


def _describe(path: Path) -> bytes | None:
    """Returns the description that an executable prints; None if the kernel does not know its format."""
    name = f"{path.parent.name}/{path.name}"
    try:
        done: commands.CompletedProcess[bytes] = commands.run(
            "checkout", [*native_command(path), "--describe"], capture_output=True, timeout=DESCRIBE_SECONDS
        )
    except commands.TimeoutExpired as error:
        raise Failure(f"{name} --describe does not end", 1) from error
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            return None
        raise Failure(f"{name} cannot be started: {error.strerror}", 5) from error
    if done.returncode != 0:
        message = clean(done.stderr.decode(errors="replace").strip())
        raise Failure(f"{name} {message or f'--describe ends with status {done.returncode}'}", 1)
    return done.stdout


# ---- the ELF file ----------------------------------------------------------------------------------------------------

# Addenda to, and Errata in, the ABI for the Arm Architecture, "Build attributes": the values of Tag_FP_arch.
_FP_ARCH = {1: "VFPv1", 2: "VFPv2", 3: "VFPv3", 4: "VFPv3-D16", 5: "VFPv4", 6: "VFPv4-D16", 7: "FPv8", 8: "FPv8"}


def _arm_attribute(elf: ELFFile, tag: str) -> int:
    """Returns a number of the file scope of .ARM.attributes; 0 if it is absent, as the specification says."""
    from elftools.elf.sections import ARMAttributesSection

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


CHOICES: dict[str, tuple[Value, ...]] = {
    "class": (32, 64), "order": ("little", "big"), "fp_arch": (0, *_FP_ARCH.values()),
}  # fmt: skip
"""Possible values of those keys of an ABI file's [elf] that have few."""

# The keys of an ABI file's [elf], and where in the file each is read. cpu_arch: the architecture that the code needs.
# fp_arch: the floating-point instructions that it may use, 0 for none. arm_isa: 0 where it is Thumb alone. vfp_args: 1
# where arguments travel in floating-point registers.
READERS: dict[str, Callable[[ELFFile], Value]] = {
    "class": lambda elf: int(elf.elfclass),
    "machine": lambda elf: str(elf["e_machine"]),
    "order": lambda elf: "little" if elf.little_endian else "big",
    "flags": lambda elf: int(elf["e_flags"]),
    "fp_arch": lambda elf: _FP_ARCH.get(number := _arm_attribute(elf, "TAG_FP_ARCH"), number),
    "cpu_arch": lambda elf: _arm_attribute(elf, "TAG_CPU_ARCH"),
    "arm_isa": lambda elf: _arm_attribute(elf, "TAG_ARM_ISA_USE"),
    "vfp_args": lambda elf: _arm_attribute(elf, "TAG_ABI_VFP_ARGS"),
}


def prove_elf(path: Path, abi: Abi) -> None:
    """Raises Failure if an executable breaks a promise of its ABI file, or needs a loader or a shared library."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            trouble = _broken_promise(ELFFile(file), abi)
    except (OSError, ELFError) as error:
        raise Failure(f"{path.name} is not an executable that can be read back: {error}", 1) from error
    if trouble:
        raise Failure(f"{path.parent.name}/{path.name} {trouble}", 1)


def _broken_promise(elf: ELFFile, abi: Abi) -> str | None:
    for key, promised in abi.elf.items():
        actual = READERS[key](elf)
        if actual != promised:
            return f"says {key} {actual} in its ELF file, where {abi.name}.toml promises {promised}"
    kinds = {segment["p_type"] for segment in elf.iter_segments()}
    if "PT_INTERP" in kinds or "PT_DYNAMIC" in kinds:
        return "is not static: it needs a loader, which the measured machine may not have"
    if elf["e_type"] != "ET_EXEC":
        return f"is {elf['e_type']}, not an executable at fixed addresses"
    return None


def loaded_part(content: bytes) -> bytes:
    """Returns an executable without sections that are never loaded: symbols, debugging information and the section
    table. The parts that the kernel maps are unchanged, except for the file header's fields on that table."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(content))
    kept = bytearray(content[: max(segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments())])
    offset, offset_bytes, count = (0x28, 8, 0x3C) if elf.elfclass == 64 else (0x20, 4, 0x30)
    kept[offset : offset + offset_bytes] = bytes(offset_bytes)
    kept[count : count + 4] = bytes(4)
    return bytes(kept)


# ---- floating-point code ---------------------------------------------------------------------------------------------

# Whether the bodies of floating-point probes compute as their ABI file claims: read from the code, not from flags.
#
#     floats = "hard"    the compiler's operators are instructions of an FPU; bodies by a library or by traps have none
#     floats = "soft"    no body has one
#     floats = "fpa"     as soft, and the kernels in assembly have the old ARM accelerator's, and no other unit's
#
# A body is an instance of a kernel's template: its number type stands in the symbol (probes/float/ways.h).

_FAMILY = "float."
_BODY = re.compile(r"_ZN12_GLOBAL__N_1\d+[a-z_]+I(?P<number>[df]|\d[a-z]+I[df]E)E")
_TRAPPED = "I7trappedI"
_ACCELERATOR = re.compile(r"fpa_\w+_(single|double)")

_COPROCESSOR = range(0xC, 0xF)
_FPA = (1, 2)


def prove_floats(path: Path, abi: Abi) -> None:
    """Raises Failure with the probe, the function and the instruction that contradicts the ABI file."""
    if not abi.floats or not path.name.startswith(_FAMILY):
        return
    from tollmeter.toolchain.disassemble import functions

    names = [function.name for function in functions(path)]
    bodies = {name: match["number"] for name in names if (match := _BODY.match(name))}
    if not bodies:
        raise Failure(f"{path.parent.name}/{path.name} has no body that could be held to floats = {abi.floats!r}", 1)
    for name, number in bodies.items():
        _prove_body(path, name, abi.floats == "hard" and number in ("d", "f"))
    if abi.floats == "fpa":
        accelerated = [name for name in names if _ACCELERATOR.fullmatch(name)]
        # A probe with a trapped implementation also needs one of FPA instructions; other probes need none.
        if not accelerated and any(_TRAPPED in name for name in names):
            raise Failure(f"{path.parent.name}/{path.name} has no kernel of FPA instructions", 1)
        for name in accelerated:
            _prove_accelerated(path, name)


def _prove_body(path: Path, name: str, computes: bool) -> None:
    """Raises Failure unless a function has FPU instructions exactly if it must. computes: whether it must."""
    from tollmeter.toolchain.disassemble import elf_machine_of, instructions

    pattern = re.compile(elf_machine(elf_machine_of(path)).arithmetic)
    trapped = _TRAPPED in name
    code = instructions(path, name, after_ud2=trapped)
    computing = [instruction for instruction in code if pattern.fullmatch(instruction.mnemonic)]
    if computing and not computes:
        raise Failure(
            f"{path.parent.name}/{path.name}: {name} has {_text_of(computing[0])}, where no FPU may compute", 1
        )
    if computes and not computing:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has no instruction of floating-point arithmetic", 1)


def _prove_accelerated(path: Path, name: str) -> None:
    """Raises Failure unless a function has FPA instructions, and none of another coprocessor. Decodes the instructions
    itself, since no current disassembler knows those of FPA."""
    from tollmeter.toolchain.disassemble import instructions

    units: dict[int, Instruction] = {}
    for instruction in instructions(path, name):
        # ARM ARM A5.6: bits 27 to 24 are 110x or 1110, and bits 11 to 8 the unit.
        word = int.from_bytes(instruction.code, "little")
        if len(instruction.code) == 4 and (word >> 24 & 15) in _COPROCESSOR:
            units[word >> 8 & 15] = instruction
    other = [instruction for unit, instruction in units.items() if unit not in _FPA]
    if other:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has {_text_of(other[0])}, which is not FPA's", 1)
    if not units:
        raise Failure(f"{path.parent.name}/{path.name}: {name} has no FPA instruction", 1)


def _text_of(instruction: Instruction) -> str:
    return f"'{instruction.mnemonic} {instruction.operands}' at {instruction.address:#x}"
