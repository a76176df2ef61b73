# SPDX-License-Identifier: Apache-2.0
"""Casts that a strict CPU would trap at, and lines that other widths break, on a tree with some planted: found by file
and line, and nothing else."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from support.bare_debian import program
from tollmeter.cli.main import main
from tollmeter.library.places import ROOT
from tollmeter.model import Abi, Failure
from tollmeter.source.casts import WIDTH_LANGUAGES, Cast, misaligned_casts, ranked_casts, units_of, width_casts
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import find_compiler
from tollmeter.toolchain.symbols import hits_from

PLANTED = """#include <stdint.h>
struct header { uint32_t address; };
uint32_t overlay(const unsigned char *at) { return ((const struct header *)at)->address; }
uint32_t bytes(const unsigned char *at) { return at[0]; }
uint32_t whole(const uint32_t *at) { return ((const struct header *)at)->address; }
uint16_t half(const char *at) { return *(const uint16_t *)(at + 1); }
"""
THROUGH_VOID = """#include <stdint.h>
#include <stdlib.h>
struct packet { void *payload; };
struct header { uint32_t address; };
typedef struct header header_t;
uint32_t by_a_cast(struct packet *p) { return ((const struct header *)p->payload)->address; }
uint32_t without(struct packet *p) { const header_t *at = p->payload; return at->address; }
uint32_t taken(const header_t *at) { return at->address; }
uint32_t given(struct packet *p) { return taken(p->payload); }
header_t *returned(struct packet *p) { return p->payload; }
const char *bytes(struct packet *p) { const char *at = p->payload; return at ? at : NULL; }
struct header *made(void) { struct header *at = malloc(4), *none = NULL; return at ? at : (struct header *)malloc(8); }
void handed_on(struct header *at, void (*with)(void *)) { with(at); }
"""
WIDTHS = """#include <inttypes.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
long taken(void) { long now = time(NULL); return now; }
long cast(struct timespec t) { return (long)t.tv_sec; }
unsigned long late(time_t t) { return (unsigned long int)(t + 1) > 5; }
long counted(struct timespec t) { return t.tv_sec * 1000000000L + t.tv_nsec; }
long *aliased(time_t *t) { return t; }
void printed_time(time_t t) { printf("%ld\\n", t); }
void aliased_name(void) { long now; time((time_t *)&now); }
int scanned(int64_t *n) { return scanf("%ld", n); }
uint64_t kept(const void *p) { return (uint64_t)p; }
unsigned long bit(void) { return 1UL << 40; }
"""
ANY_WIDTH = """#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
int64_t taken(void) { return time(NULL); }
void printed_time(time_t t) { printf("%lld %ld\\n", (long long)t, (long)5); }
void printed_size(size_t n) { printf("%zu %zd %lu\\n", n, (ssize_t)n, n); }
void printed_wide(uint64_t n) { printf("%llu\\n", (long long unsigned)n); printf("%llu\\n", n); }
int small(int n, unsigned m, const int *at) { return (int)m + (int)n + (int)*at + (m == 0xffffffff); }
unsigned long flags(unsigned long set) { return set << 3 | 1UL << 4; }
void printed_fixed(uint64_t n) { printf("%" PRIu64 "\\n", n); }
uintptr_t kept(const void *p) { return (uintptr_t)p; }
long as_wide(const void *p) { return (long)p; }
ptrdiff_t apart(const char *a, const char *b) { return a - b; }
long wider(int n, short m) { return (long)n + (long)m; }
long rounded(double d) { return (long)d; }
size_t scaled(int n) { return sizeof(long) * (size_t)n + strlen("length"); }
unsigned long bit(int n) { return 1UL << n; }
int order(const void *a, const void *b) { return (*(const long *)a > *(const long *)b); }
void sort(long *a, size_t n) { qsort(a, n, sizeof *a, order); }
"""
TO_64 = """#include <stdio.h>
int kept(const void *p) { return (int)p; }
void *back(int n) { return (void *)n; }
void printed(size_t n) { printf("%u\\n", n); }
long wide(int n) { return (long)n; }
"""
IA32 = """#include <stdint.h>
#include <stdio.h>
void printed(long v) { printf("%d\\n", v); }
void scanned(const char *s, long *v) { sscanf(s, "%d", v); }
int compared(unsigned long x) { return x == 0xffffffff; }
unsigned cut(void *p) { return (unsigned)(uintptr_t)p; }
int cut_too(void *q) { return (int)(long)q; }
"""
TO_32 = """#include <stdint.h>
#include <stdlib.h>
uint64_t read_in(const char *s) { return strtoul(s, NULL, 0); }
int compared(uint64_t v) { return v == (unsigned long)-1; }
unsigned long in_bytes(unsigned long pages) { return pages << 12; }
"""
LAID = "  const volatile struct ip_header *header = (const void *)at;"
# Up to version 13 gcc writes its JSON in one line, and then in many. The words that it adds are no JSON.
GCC = """#!/bin/sh
gcc "$@" 2>"$0.said"
{0} <"$0.said" >&2
echo >&2
echo 'compilation terminated.' >&2
"""
HOST = Abi(name="host", summary="", compiler=("gcc",))


def tree(folder: Path, **sources: str) -> Path:
    for name, text in sources.items():
        (folder / f"{name}.c").write_text(text)
    told = [
        {
            "directory": str(folder),
            "file": f"{name}.c",
            "command": f"cc -march=any -Werror -O3 -DA='b c' -c {name}.c -o {name}.o",
        }
        for name in sources
    ]
    (folder / "compile_commands.json").write_text(json.dumps(told))
    return folder


def places(folder: Path, compiler: str = "gcc") -> list[tuple[str, int]]:
    return [(Path(one.file).name, one.line) for one in misaligned_casts(units_of(folder), HOST, compiler).casts]


def test_planted_casts_are_found_and_no_other(tmp_path: Path) -> None:
    assert places(tree(tmp_path, planted=PLANTED)) == [("planted.c", 3), ("planted.c", 6)]


def test_what_a_compiler_says_may_stand_in_one_line_or_in_many(tmp_path: Path) -> None:
    tree(tmp_path, planted=PLANTED)
    program(tmp_path / "flat", GCC.format("tr -d '\\n'"))
    program(tmp_path / "indented", GCC.format("sed 's/{\"/{\\n  \"/g'"))
    assert (
        places(tmp_path, f"{tmp_path}/flat")
        == places(tmp_path, f"{tmp_path}/indented")
        == [("planted.c", 3), ("planted.c", 6)]
    )


def test_what_is_laid_over_void_is_found_with_a_cast_and_without(tmp_path: Path) -> None:
    """Four lines lay a header over bytes; text, what malloc made, null and what is only handed on are none."""
    found = misaligned_casts(units_of(tree(tmp_path, planted=THROUGH_VOID)), HOST, "gcc")
    assert not found.troubles
    assert [one.line for one in found.casts if one.hidden] == [6, 7, 9, 10] == [one.line for one in found.casts]
    assert "const header_t *" in next(one.message for one in found.casts if one.line == 7)


def test_a_cast_by_way_of_void_is_one_hidden_and_a_plain_one_is_not(tmp_path: Path) -> None:
    text = "int a(char *p) { return *(int *)(void *)p; }\nint b(char *p) { return *(int *)p; }\n"
    found = misaligned_casts(units_of(tree(tmp_path, planted=text)), HOST, "gcc").casts
    assert {(one.line, one.hidden) for one in found} == {(1, True), (2, False)}


def test_a_type_that_ends_with_its_function_is_taken_for_one_that_wants_more(tmp_path: Path) -> None:
    text = "int f(void *p) { typedef int local; local *at = p; return *at; }\n"
    assert places(tree(tmp_path, planted=text)) == [("planted.c", 1)]


def test_a_header_s_cast_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "shared.h").write_text("static inline int at(char *p) { return *(int *)p; }\n")
    text = '#include "shared.h"\nint f(char *p) { return at(p); }\n'
    assert places(tree(tmp_path, one=text, two=text)) == [("shared.h", 1)]


def test_a_file_that_cannot_be_read_keeps_no_other_from_being(tmp_path: Path) -> None:
    found = misaligned_casts(units_of(tree(tmp_path, broken="int broken(", planted=PLANTED)), HOST, "gcc")
    assert len(found.casts) == 2 and list(found.troubles) == ["broken.c"] and found.troubles["broken.c"]


def test_a_command_with_a_quote_that_is_not_closed_is_trouble_with_its_file(tmp_path: Path) -> None:
    told = [{"directory": str(tmp_path), "file": "a.c", "command": "cc -DA='b -c a.c"}]
    (tmp_path / "compile_commands.json").write_text(json.dumps(told))
    assert "quot" in misaligned_casts(units_of(tmp_path), HOST, "gcc").troubles["a.c"]


def test_a_relative_directory_is_the_database_s(tmp_path: Path) -> None:
    """Of a tree that was copied from elsewhere; who asks may stand anywhere."""
    (tmp_path / "below").mkdir()
    tree(tmp_path / "below", planted=PLANTED)
    told = json.loads((tmp_path / "below/compile_commands.json").read_text())
    (tmp_path / "compile_commands.json").write_text(json.dumps([{**told[0], "directory": "below"}]))
    assert places(tmp_path) == [("planted.c", 3), ("planted.c", 6)]


def test_what_ran_most_comes_first() -> None:
    found = [Cast("a/x.c", 1, ""), Cast("a/x.c", 2, ""), Cast("b/y.c", 7, "")]
    hits = partial(hits_from, {("y.c", 8): 9, ("x.c", 2): 3}, [("y.c", 6), ("x.c", 1), ("x.c", 2)])
    assert [(one.line, one.hits) for one in ranked_casts(found, hits)] == [(7, 9), (2, 3), (1, 0)]


def broken(folder: Path, source: str, target: str) -> list[tuple[str, int]]:
    """Places that are right on one ABI and wrong on the other."""
    known = known_abis(ROOT)
    pair = [(known[name], find_compiler(known[name])) for name in (source, target)]
    ready = [(abi, compiler) for abi, compiler in pair if isinstance(compiler, str)]
    if len(ready) < len(pair):
        pytest.skip(f"no compilers of {source} and {target}")
    found = width_casts(units_of(folder, WIDTH_LANGUAGES), *ready)
    assert not found.troubles
    return sorted((Path(one.file).name, one.line) for one in found.casts)


def test_ten_of_ten_lines_that_x32_breaks_are_found_and_none_of_a_clean_tree(tmp_path: Path) -> None:
    assert broken(tree(tmp_path, widths=WIDTHS, clean=ANY_WIDTH), "x86_64", "x32") == [
        ("widths.c", line) for line in range(6, 16)
    ]


def test_a_pointer_in_an_int_is_found_where_pointers_become_wider(tmp_path: Path) -> None:
    assert broken(tree(tmp_path, widths=TO_64, clean=ANY_WIDTH), "x32", "x86_64") == [
        ("widths.c", n) for n in (2, 3, 4)
    ]


def test_lines_without_a_warning_are_found_in_both_directions(tmp_path: Path) -> None:
    folder = tree(tmp_path, a=IA32, b=TO_32, clean=ANY_WIDTH)
    assert broken(folder, "ia32", "x86_64") == [("a.c", line) for line in range(3, 8)]
    assert [one for one in broken(folder, "x86_64", "ia32") if one[0] == "b.c"] == [("b.c", n) for n in (3, 4, 5)]


def test_the_address_of_a_packed_member_is_found(tmp_path: Path) -> None:
    text = "struct p { char c; int n; } __attribute__((packed));\nint *at(struct p *p) { return &p->n; }\n"
    assert places(tree(tmp_path, packed=text)) == [("packed.c", 2)]


def test_lines_of_cxx_are_found_too(tmp_path: Path) -> None:
    text = 'long one(long long t) { return t + 1; }\nint two() { return __builtin_printf("%ld", 1LL); }\n'
    folder = tree(tmp_path, plain=text)
    (folder / "plain.c").rename(folder / "plain.cc")
    database = folder / "compile_commands.json"
    database.write_text(database.read_text().replace("plain.c", "plain.cc"))
    assert broken(folder, "x86_64", "x32") == [("plain.cc", 1), ("plain.cc", 2)]


def test_the_pair_of_abis_is_given_by_options(
    tmp_path: Path, own_abi_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["casts", str(tree(tmp_path, widths=WIDTHS)), "--from", own_abi_name, "--abi", own_abi_name]
    assert main(words) == 0
    assert f"0 places in 1 file are right on {own_abi_name} and wrong on {own_abi_name}" in capfd.readouterr().err


@pytest.mark.parametrize("content", [None, "{", '[{"file": 3}]'])
def test_a_tree_without_a_database_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "compile_commands.json").write_text(content)
    with pytest.raises(Failure, match=r"compile_commands\.json"):
        units_of(tmp_path)


def test_an_abi_that_is_none_has_its_nearest_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["casts", str(tree(tmp_path, planted=PLANTED)), "--abi", "sparc65"]) == 2
    assert "sparc64" in capsys.readouterr().err


def test_each_cast_is_shown_as_it_is_written(
    tmp_path: Path, own_abi_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["casts", str(tree(tmp_path, planted=PLANTED)), "--abi", own_abi_name]) == 0
    told = capfd.readouterr()
    assert "planted.c:6" in told.out and "return *(const uint16_t *)(at + 1);" in told.out
    assert "2 casts in 1 file, and 0 more through void *" in told.err


def test_the_lines_that_a_probe_runs_come_first_with_how_often(
    tmp_path: Path, own_abi_name: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a probe's own source, profiled while it lays a structure over bytes: that line is met."""
    source = "probes/alignment/header.c"
    told = {"directory": str(root), "file": source, "command": "cc -Iprobes/runtime -D_GNU_SOURCE"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([told]))
    ranked = ["--probe", "alignment.header way=overlay", "--format", "json"]
    assert main(["casts", str(tmp_path), "--abi", own_abi_name, *ranked]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert int(first["times"]) > 0 and first["through"] == "void *"
    assert first["place"].endswith(f"{source}:{1 + (root / source).read_text().splitlines().index(LAID)}")
