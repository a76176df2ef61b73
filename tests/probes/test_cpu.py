# SPDX-License-Identifier: Apache-2.0
"""Probes of the instruction side: right answers, none where the work is broken, and the code that they write."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from pathlib import Path

import capstone
import pytest

from probes.visiting import executable, visit
from tollmeter.model import Value
from tollmeter.protocol import outcome
from tollmeter.toolchain.disassemble import instructions

ROOT = Path(__file__).resolve().parents[2]
X86_64 = platform.machine() == "x86_64"
PR_SET_MDWE, MDWE_REFUSE_EXEC_GAIN, LACKS = 65, 1, 77
POINTS: tuple[tuple[str, dict[str, Value]], ...] = (
    ("branch", {}),
    ("indirect", {"targets": 16, "order": "cycle"}),
    ("indirect", {"targets": 1024, "order": "random"}),
    ("jumps", {"jumps": 64, "spacing": 16}),
    ("jumps", {"jumps": 4096, "spacing": 64}),
    *(("fetch", {"size": 8192, "code": code}) for code in ("moves", "nops", "jumps")),
    ("itlb", {"pages": 80}),
    *(
        ("forward", {"load": load})
        for load in ("same", "narrow", "inside", "wide", "partial", "line", "page", "alias", "apart")
    ),
    *(("window", {"fillers": 33, "filler": filler, "size": 65536}) for filler in ("mix", "add", "load", "store")),
)
BREAKS = [
    ("cpu/branch.c", "add $1, %0\\n", "nop\\n"),
    ("cpu/branch.c", "add %0, %0, #1\\n", "nop\\n"),
    ("cpu/code.h", "b->entry(passes, argument);", "b->entry(passes > 1 ? passes - 1 : 1, argument);"),
    ("cpu/indirect.c", "first + calls; i++)", "first + calls; i += 2)"),
    ("cpu/jumps.c", "", ""),
    ("cpu/fetch.c", "", ""),
    ("cpu/forward.c", "for (; steps; steps--)", "for (; steps > 1; steps--)"),
    ("cpu/itlb.c", "", ""),
    ("cpu/window.c", "    code_follow(c, i);\n", "    if (i) code_follow(c, i);\n"),
]


@pytest.mark.parametrize(("name", "where"), POINTS)
def test_a_probe_has_a_right_answer_or_a_reason(abi: str, name: str, where: dict[str, Value]) -> None:
    done = visit(abi, f"cpu.{name}", samples=1, **where)
    if done.status == "unsupported":
        assert "unsupported here" in str(done.reason) and abi != "x86_64"
    else:
        assert done.status == "ok", done


@pytest.mark.parametrize("name", sorted({name for name, _ in POINTS}))
def test_broken_work_has_no_number(broken: Path, own_abi_name: str, name: str) -> None:
    where = next(where for other, where in POINTS if other == name)
    done = visit(own_abi_name, f"cpu.{name}", root=broken, samples=1, **where)
    if done.status == "unsupported":
        pytest.skip(str(done.reason))
    assert done.status == "wrong_answer", done


@pytest.mark.skipif(not X86_64, reason="only code that is written for this machine is made executable")
def test_a_system_that_refuses_written_code_has_a_reason() -> None:
    def deny() -> None:
        if ctypes.CDLL(None).prctl(PR_SET_MDWE, MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
            os._exit(LACKS)

    words = [executable("x86_64", "cpu.jumps"), "--samples=1", "jumps=64"]
    done = subprocess.run(words, preexec_fn=deny, capture_output=True, check=False)
    if done.returncode == LACKS:
        pytest.skip("this kernel cannot deny a process memory of that kind")
    told = outcome(done.stdout)
    assert told.status == "unsupported" and "refuses to execute memory" in str(told.reason)


@pytest.mark.parametrize(("name", "where"), POINTS[:3])
def test_body_and_control_execute_as_many_instructions(own_abi_name: str, name: str, where: dict[str, Value]) -> None:
    counts = visit(own_abi_name, f"cpu.{name}", samples=1, **where).counted
    if counts is None or counts.instructions is None or counts.control_instructions is None:
        pytest.skip("instructions are not counted here")
    body, control = (second - first for first, second in (counts.instructions, counts.control_instructions))
    assert body == control


@pytest.mark.skipif(not X86_64, reason="reads x86-64's instructions")
def test_the_branches_that_are_timed_are_branches() -> None:
    code = instructions(executable("x86_64", "cpu.branch"), "branch")
    ways = ["je", "add", "jmp", "nop", "nop"]
    found = [place for place in range(len(code)) if [one.mnemonic for one in code[place : place + 5]] == ways]
    assert len(found) == 2
    calls = instructions(executable("x86_64", "cpu.indirect"), "call_listed")
    assert sum(one.mnemonic == "call" and "[" in one.operands for one in calls) == 1
    assert sum(one.mnemonic == "je" for one in calls) >= 10


@pytest.mark.skipif(not X86_64, reason="reads x86-64's instructions")
@pytest.mark.parametrize(
    ("name", "stored", "loaded"), [("same", "[", "["), ("inside", "[", "+ 1]"), ("wide", "[", "[")]
)
def test_a_step_stores_and_loads_by_two_registers(name: str, stored: str, loaded: str) -> None:
    code = instructions(executable("x86_64", "cpu.forward"), f"steps_{name}")
    ends = [one for one in code if one.target is not None and code[0].address < one.target <= one.address]
    assert len(ends) == 1
    touching = [
        one.operands for one in code if "[" in one.operands and ends[0].target <= one.address <= ends[0].address
    ]
    assert len(touching) == 2 and touching[0].split(",")[0].count("[") and stored in touching[0]
    assert loaded in touching[1].split(",")[1]
    registers = [operands.split("[")[1].split("]")[0].split(" ")[0] for operands in touching]
    assert registers[0] != registers[1]


@pytest.mark.skipif(not X86_64, reason="reads x86-64's instructions")
def test_a_written_chain_is_the_jumps_that_were_asked_for(own_compiler: str, tmp_path: Path) -> None:
    source, program = ROOT / "tests/probes/written_code.c", tmp_path / "written"
    folders = [f"-I{ROOT / folder}" for folder in ("probes", "probes/runtime")]
    subprocess.run([*own_compiler.split(), "-O1", "-D_GNU_SOURCE", *folders, source, "-o", program], check=True)
    written = subprocess.run([program], capture_output=True, check=True).stdout
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)

    def read(start: int, count: int) -> list[str]:
        return [f"{one.mnemonic} {one.op_str}".strip() for one in reader.disasm(written[start:], start, count)]

    assert read(0, 3) == ["xor eax, eax", "xor edx, edx", "jmp 0xa0"]
    blocks = [read(64 + 32 * place, 2) for place in (3, 2, 1, 0)]
    assert [block[0] for block in blocks] == ["add rax, 1", "add rdx, 1", "add rax, 1", "add rdx, 1"]
    assert [block[1] for block in blocks] == ["jmp 0x80", "jmp 0x60", "jmp 0x40", "jmp 0x10"]
    assert read(16, 4) == ["dec rdi", "jne 0xa0", "add rax, rdx", "ret"]
