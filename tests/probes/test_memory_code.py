# SPDX-License-Identifier: Apache-2.0
"""What the compiler made of the memory's loops: as wide as their names say, in registers, and there at all."""

from __future__ import annotations

import platform
import re
from itertools import pairwise

import pytest

from probes.visiting import executable
from tollmeter.toolchain.disassemble import Instruction, instructions

X86 = platform.machine() in ("x86_64", "i686")
pytestmark = pytest.mark.skipif(not X86, reason="reads x86's instructions")

WIDTHS = {"sse2": "xmm", "avx2": "ymm", "avx512": "zmm"}


def loops(abi: str, probe: str, symbol: str) -> list[list[Instruction]]:
    """The innermost loops of a function: backward jumps with what they jump over, less those around others."""
    code = instructions(executable(abi, f"memory.{probe}"), symbol)
    ends = [(i.target, i.address) for i in code if i.target is not None and code[0].address <= i.target <= i.address]
    inner = [(a, b) for a, b in ends if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in ends)]
    return [[i for i in code if first <= i.address <= last] for first, last in inner]


def longest(abi: str, probe: str, symbol: str) -> list[Instruction]:
    return max(loops(abi, probe, symbol), key=len)


def touching_memory(code: list[Instruction]) -> list[Instruction]:
    return [i for i in code if "[" in i.operands and i.mnemonic != "lea" and not i.mnemonic.startswith("prefetch")]


def stores(code: list[Instruction]) -> list[Instruction]:
    return [i for i in touching_memory(code) if "[" in i.operands.split(",")[0] and i.mnemonic not in ("cmp", "test")]


def loads(code: list[Instruction]) -> list[Instruction]:
    return [i for i in touching_memory(code) if i not in stores(code)]


def on_stack(code: list[Instruction]) -> list[Instruction]:
    return [i for i in touching_memory(code) if re.search(r"\[[er][sb]p", i.operands)]


@pytest.mark.parametrize("kernel", WIDTHS)
def test_a_vector_read_loads_eight_whole_vectors_a_turn(abi: str, kernel: str) -> None:
    turn = longest(abi, "read_bandwidth", f"read_{kernel}")
    assert len(loads(turn)) == 8 and not stores(turn)
    assert all(WIDTHS[kernel] in i.operands for i in loads(turn))


def test_the_prefetching_read_differs_by_its_prefetches_alone(abi: str) -> None:
    turn = longest(abi, "read_bandwidth", "read_avx2_prefetch")
    assert len(loads(turn)) == 8 and sum(i.mnemonic.startswith("prefetch") for i in turn) == 4


@pytest.mark.parametrize("kernel", WIDTHS)
@pytest.mark.parametrize(("past", "mnemonics"), [("", ("mov",)), ("_nt", ("movntdq", "vmovntdq"))])
def test_a_vector_write_stores_whole_vectors(abi: str, kernel: str, past: str, mnemonics: tuple[str, ...]) -> None:
    turn = longest(abi, "write_bandwidth", f"write_{kernel}{past}")
    assert len(stores(turn)) == 4 and not loads(turn)
    for i in stores(turn):
        assert WIDTHS[kernel] in i.operands
        assert i.mnemonic in mnemonics if past else "nt" not in i.mnemonic


@pytest.mark.parametrize("kernel", WIDTHS)
@pytest.mark.parametrize(("past", "hint"), [("", False), ("_nt", True)])
def test_a_vector_copy_loads_and_stores_as_much(abi: str, kernel: str, past: str, hint: bool) -> None:
    turn = longest(abi, "copy_bandwidth", f"copy_{kernel}{past}")
    assert len(stores(turn)) == len(loads(turn)) == 8
    assert all(WIDTHS[kernel] in i.operands for i in stores(turn) + loads(turn))
    assert all(("movnt" in i.mnemonic) == hint for i in stores(turn))


@pytest.mark.parametrize(
    ("operation", "loaded", "stored"), [("read", 16, 0), ("write", 0, 8), ("copy", 8, 8), ("update", 8, 8)]
)
def test_a_portable_kernel_goes_word_by_word(abi: str, operation: str, loaded: int, stored: int) -> None:
    """The same for every ABI, so no vectors and nothing kept on the stack."""
    turn = longest(abi, f"{operation}_bandwidth", f"{operation}_portable")
    read_back = [i for i in stores(turn) if i.mnemonic in ("add", "inc")]
    assert (len(loads(turn)) + len(read_back), len(stores(turn))) == (loaded, stored)
    assert not any(re.search("[xyz]mm", i.operands) for i in turn)
    assert not [i for i in on_stack(turn) if i.mnemonic not in ("sub", "dec", "add")]


def test_the_chase_is_loads_that_each_take_the_address_before(abi: str) -> None:
    turn = longest(abi, "latency", "load")
    steps = [i for i in turn if re.fullmatch(r"(\w+), (?:[dq]word ptr )?\[(\w+)\]", i.operands) and i.mnemonic == "mov"]
    assert len(steps) == 32
    for one, next_one in pairwise(steps):
        assert f"[{one.operands.split(',')[0]}]" in next_one.operands


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_few_chains_stay_in_registers(abi: str, chains: int) -> None:
    (turn,) = [loop for loop in loops(abi, "parallelism", f"follow_{chains}") if len(loads(loop)) >= chains][:1]
    walked = [i for i in loads(turn) if i not in on_stack(turn)]
    assert len(walked) == chains and not stores(turn)


def test_the_clock_adds_in_a_chain(abi: str) -> None:
    turn = longest(abi, "clock", "add")
    adds = [i for i in turn if i.mnemonic == "add" and not i.operands.split(", ")[1].startswith(("0x", "1", "-"))]
    assert len(adds) >= 64
    assert len({i.operands for i in adds[:64]}) == 1, "each addition needs the one before"


@pytest.mark.parametrize("kernel", ["copy", "scale", "add", "triad"])
def test_stream_has_a_loop_of_each_width(abi: str, kernel: str) -> None:
    for name, register in (("base", "xmm"), ("avx2", "ymm"), ("avx512", "zmm")):
        for past, hint in (("", False), ("_nt", True)):
            stored = stores(longest(abi, "stream", f"{kernel}_{name}{past}"))
            assert len(stored) == 4
            assert all(register in i.operands and ("movnt" in i.mnemonic) == hint for i in stored)


@pytest.mark.parametrize(("mix", "changed"), [("mix_3_1", 4), ("mix_2_1", 6)])
def test_a_mix_touches_twelve_lines_and_writes_its_share(own_abi_name: str, mix: str, changed: int) -> None:
    """Without a division or a branch for a line, which take as long as a load from a cache."""
    turn = longest(own_abi_name, "scaling", mix)
    on_lines = [i for i in turn if i not in on_stack(turn)]
    assert len(loads(on_lines)) == 12 and len(stores(on_lines)) == changed
    assert not any("div" in i.mnemonic for i in turn)
    assert sum(i.mnemonic.startswith("j") for i in turn) == 1


def test_the_traffic_beside_a_load_has_no_division(own_abi_name: str) -> None:
    """A division for a line takes as long as the line, and is then the rate of the traffic."""
    made = instructions(executable(own_abi_name, "memory.loaded_latency"), "make_traffic")
    assert any("movnti" in i.mnemonic for i in made)
    assert not any("div" in i.mnemonic for i in made)


def test_non_temporal_traffic_is_of_non_temporal_stores(own_abi_name: str) -> None:
    used = {i.mnemonic for i in instructions(executable(own_abi_name, "memory.numa_bandwidth"), "move_lines")}
    assert {"movnti", "sfence"} <= used
