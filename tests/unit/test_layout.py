# SPDX-License-Identifier: Apache-2.0
"""Layouts as the compilers of this machine make them, and the differences between them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tollmeter.model import Failure
from tollmeter.root import ROOT
from tollmeter.source.header_layout import declared_in, including, read_types, types_named
from tollmeter.source.type_layout import differing_first, double_order, layout_table, read_layout
from tollmeter.toolchain import abis
from tollmeter.toolchain.build import build_header, compiler_of

SOURCE = Path(__file__).parents[2] / "abis" / "layout.c"


def compiled(folder: Path, name: str, compiler: str, *flags: str) -> dict[str, str]:
    path = folder / f"{name}.o"
    subprocess.run([compiler, *flags, "-std=gnu11", "-c", str(SOURCE), "-o", str(path)], check=True)
    return read_layout(path)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return compiled(tmp_path_factory.mktemp("layout"), "native", "cc")


def test_the_compiler_says_what_this_process_sees(native: dict[str, str]) -> None:
    for label, kind in {"long": ctypes.c_long, "pointer": ctypes.c_void_p, "double": ctypes.c_double}.items():
        assert native[f"size of {label}"] == str(ctypes.sizeof(kind))
        assert native[f"alignment of {label}"] == str(ctypes.alignment(kind))
    assert native["double 1.0"] == bytes(ctypes.c_double(1.0)).hex()
    assert native["uint64_t 0x0102030405060708"] == bytes(ctypes.c_uint64(0x0102030405060708)).hex()


def test_a_layout_does_not_differ_from_itself(native: dict[str, str]) -> None:
    assert not any(fact.breaks for fact in layout_table({"one": native, "other": native}))


def test_narrow_pointers_break_files_that_hold_them(tmp_path: Path) -> None:
    if not shutil.which("gcc-12"):
        pytest.skip("needs a compiler for two ABIs of one CPU")
    pair = {
        "x86_64": compiled(tmp_path, "x86_64", "gcc-12", "-m64"),
        "ia32": compiled(tmp_path, "ia32", "gcc-12", "-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"),
    }
    broken = {fact.name: fact for fact in layout_table(pair) if fact.breaks}
    assert broken["size of pointer"].values == ("8", "4")
    assert broken["size of pointer"].breaks == "code"
    assert broken["size of {3 pointers}"].breaks == "file"
    assert broken["offset in {char, double} of second"].values == ("8", "4")
    assert "double 1.0" not in broken
    for kind in ("long long", "double"):
        assert broken[f"alignment of {kind}"].values == ("8", "4"), "what a structure is laid out by, not the preferred"


def test_bit_fields_align_a_structure_where_the_abi_says_so(native: dict[str, str], tmp_path: Path) -> None:
    """By AAPCS 7.1.7 the type of a bit-field, even of one of no width, aligns what holds it; x86 looks at none of no
    width."""
    if not shutil.which("arm-linux-gnueabi-gcc-12"):
        pytest.skip("needs a compiler of ARM")
    arm = compiled(tmp_path, "arm", "arm-linux-gnueabi-gcc-12")
    names = ("size of {char, int:0, char}", "alignment of {char, int:0, char}", "size of {char:3}")
    assert [native[name] for name in names] == ["5", "1", "1"]
    assert [arm[name] for name in names] == ["8", "4", "1"]


HEADER = """
#include <time.h>
struct packet {
  char kind;
  long stamp;
  struct { short low, high; };
  union { int number; char text[6]; } any;
  unsigned part : 3, rest : 9;
  struct timespec at[2];
  char tail[];
};
typedef struct { char tag; double value; } record;
typedef struct packet packet;
"""
PLACES = ("kind", "stamp", "low", "high", "any", "at", "tail")


def header_facts(folder: Path, abi: str) -> dict[str, dict[str, str]]:
    header, made = folder / "packet.h", folder / abi
    header.write_text(HEADER)
    known = abis.known_abis(ROOT)[abi]
    build_header(known, compiler_of(known), including(header), made)
    assert declared_in(made, header) == {"struct packet", "record"}
    return read_types(made)


def test_a_header_s_fields_are_where_the_compiler_puts_them(tmp_path: Path) -> None:
    facts = header_facts(tmp_path, "native")
    asked = ", ".join(f"offsetof(struct packet, {name})" for name in PLACES)
    (tmp_path / "it.c").write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "packet.h"\nint main(void) { size_t at[] = {'
        + asked + '}; for (int i = 0; i < 7; i++) printf("%zu ", at[i]); return 0; }'
    )  # fmt: skip
    subprocess.run(["cc", "-o", "it", "it.c"], cwd=tmp_path, check=True)
    said = subprocess.run(["./it"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    packet = facts["struct packet"]
    assert [packet[f"struct packet.{name}"].split()[0] for name in PLACES] == said
    assert packet["struct packet.rest"].endswith(":3 (9 bits)") and packet["struct packet.tail"].endswith(" (0)")
    assert types_named(facts, "packet") == ["struct packet", "packet"]


def test_a_header_s_structures_break_files_where_abis_differ(tmp_path: Path) -> None:
    if not shutil.which("gcc-12"):
        pytest.skip("needs a compiler for two ABIs of one CPU")
    pair = {abi: header_facts(tmp_path, abi) for abi in ("x86_64", "ia32")}
    facts = differing_first(layout_table({abi: {**of["struct packet"], **of["record"]} for abi, of in pair.items()}))
    broken = {fact.name: fact for fact in facts if fact.breaks}
    assert broken["struct packet.stamp"].values == ("8 (8)", "4 (4)")
    assert broken["size of record, a struct"] == ("size of record, a struct", ("16", "12"), "file")
    assert [bool(fact.breaks) for fact in facts] == sorted((bool(fact.breaks) for fact in facts), reverse=True)


def test_words_of_a_double_have_three_orders() -> None:
    orders = {double_order(raw) for raw in ("000000000000f03f", "3ff0000000000000", "0000f03f00000000")}
    assert len(orders) == 3
    assert double_order("ffff") not in orders


def test_a_foreign_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "layout.o").write_bytes(b"\x7fELF no more")
    with pytest.raises(Failure, match="is not an object file"):
        read_layout(tmp_path / "layout.o")
