# SPDX-License-Identifier: Apache-2.0
"""Code is read from the executable: a loop that is there and one that is not, and a function among its namesakes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tollmeter.model import Abi, Failure
from tollmeter.toolchain.disassemble import code_from, functions, instructions

OWN = """
int main(int count, char **words) { (void)words; return body(count); }
__attribute__((noipa)) static int body(int n) { return helper(n) + other(n); }
static int helper(int n) { volatile int sum = 0; for (int i = 0; i < n; i++) sum += i; return sum; }
"""
NOT_INLINED = "__attribute__((noipa)) static int helper(int);\n__attribute__((noipa)) static int body(int);\n"
FIRST = f"{NOT_INLINED}int other(int);\n{OWN}"
OTHER = "__attribute__((noipa)) static int helper(int n) { return n * 3; }\nint other(int n) { return helper(n); }\n"


@pytest.fixture
def executable(tmp_path: Path, own_abi: Abi, own_compiler: str) -> Path:
    """family.first, made of first.c and other.c, each with a static helper of its own."""
    (tmp_path / "first.c").write_text(FIRST)
    (tmp_path / "other.c").write_text(OTHER)
    path = tmp_path / "family.first"
    words = [*own_compiler.split(), *own_abi.flags, "-O2", "-static", "first.c", "other.c", "-o", path]
    subprocess.run(words, cwd=tmp_path, check=True)
    return path


def has_loop(path: Path, symbol: str) -> bool:
    """Whether a function jumps backwards inside itself."""
    code = instructions(path, symbol)
    return any(one.target is not None and code[0].address <= one.target <= one.address for one in code)


def test_a_loop_is_distinguished_from_straight_line_code(executable: Path) -> None:
    assert has_loop(executable, "helper")
    assert not has_loop(executable, "other")


def test_of_namesakes_the_probes_own_is_meant(executable: Path) -> None:
    sources = {one.source for one in functions(executable) if one.name == "helper"}
    assert sources == {"first.c", "other.c"}
    renamed = executable.rename(executable.with_name("family.other"))
    assert not has_loop(renamed, "helper")


def test_the_code_of_a_function_is_all_of_it_and_no_more(executable: Path) -> None:
    code = instructions(executable, "main")
    function = next(one for one in functions(executable) if one.name == "main")
    assert function.value == code[0].address
    assert code[-1].address < function.value + function.size_bytes


def test_the_code_that_a_function_of_the_own_file_calls_is_read_too(executable: Path) -> None:
    """And no other file's, whose name alone is known."""
    code = code_from(executable, "body")
    assert [*code] == ["body", "helper"]
    assert code["helper"][0].address == instructions(executable, "helper")[0].address, "that of the own file"
    assert {one.leads_to for one in code["body"] if one.leads_to} == {"helper", "other"}
    assert [*code_from(executable, "body", most=1)] == ["body"]
    with pytest.raises(Failure, match="0 functions other of its own file"):
        code_from(executable, "other")


@pytest.mark.parametrize("symbol", ["no_such_function", "helper"])
def test_what_cannot_be_meant_is_refused(executable: Path, symbol: str) -> None:
    renamed = executable.rename(executable.with_name("family.third"))
    with pytest.raises(Failure, match=symbol):
        instructions(renamed, symbol)
