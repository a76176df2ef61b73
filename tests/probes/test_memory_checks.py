# SPDX-License-Identifier: Apache-2.0
"""Each probe of the memory, with one line of its work broken, has a wrong answer in every visit."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from probes.visiting import visit, visits
from tollmeter.model import Value

TWO_CPUS = len(os.sched_getaffinity(0)) >= 2
X86 = platform.machine() in ("x86_64", "i686")
MIB = 1 << 20

# Walks lose or gain as many loads of each batch as the environment says.
PLANT = """#include <stdlib.h>
static inline uint64_t planted(uint64_t loads) {
  const char *drop = getenv("PLANTED");
  if (!drop) return loads;
  if (*drop == 'h') return loads / 2;
  if (*drop == 'd') return loads * 2;
  const uint64_t dropped = strtoull(drop, NULL, 10);
  return loads > dropped ? loads - dropped : 0;
}
"""
LOSES_ONCE = """static unsigned batches;
  const uint64_t lost = getenv("PLANTED_CONTROL") && ++batches == 12;
  """
PLANTED = ("1", "2", "16", "32", "64", "half", "double")

# A file and what is broken in it.
LINES = (
    ("chain.h", "turns = additions / TURN; turns;", "turns = additions / TURN; turns > 1;"),
    ("../runtime/walk.h", '#include "asked.h"\n', '#include "asked.h"\n' + PLANT),
    ("../runtime/walk.h", "cursor->at = walk_follow(cursor->at, loads);",
     "for (uint64_t left = planted(loads); left; left--) cursor->at = (void **)*cursor->at;"),
    ("pairs.h", '#include "toll.h"\n', '#include "toll.h"\n' + PLANT),
    ("pairs.h", "pairs_follow(p->both.at, r->iterations);", "pairs_follow(p->both.at, planted(r->iterations));"),
    ("pairs.h", "for (uint64_t left = r->iterations; left; left--) at",
     LOSES_ONCE + "for (uint64_t left = r->iterations - lost; left; left--) at"),
    ("transfer.c", '#include "large.h"\n', '#include "large.h"\n' + PLANT),
    ("transfer.c", ": read_group(t->head, t->lines)", ": read_group(t->head, planted(t->lines))"),
    ("write_policy.c", "left = p->lines - 1; left;", "left = planted(p->lines - 1); left;"),
    ("read_kernels.h", "ADD_4_WORDS(8) ADD_4_WORDS(12)", "ADD_4_WORDS(8) ADD_4_WORDS(8)"),
    ("read_kernels.h", "ADD_WORD(c, 8) ADD_WORD(d, 12)", "ADD_WORD(c, 8) ADD_WORD(d, 8)"),
    ("read_kernels.h", "e += load(at + 4)", "e += load(at + 3)"),
    ("write_kernels.h", "STORE_4_WORDS(0) STORE_4_WORDS(4)", "STORE_4_WORDS(0) STORE_4_WORDS(0)"),
    ("write_kernels.h", "store(at + 3, value);", "store(at + 2, value);"),
    ("write_kernels.h", "& 255), span->bytes);", "& 255), span->bytes - 1);"),
    ("copy_kernels.h", "COPY_4_WORDS(0) COPY_4_WORDS(4)", "COPY_4_WORDS(0) COPY_4_WORDS(0)"),
    ("copy_kernels.h", "store(to + place + 3, d);", "store(to + place + 2, d);"),
    ("update_kernels.h", "UPDATE_4_WORDS(0) UPDATE_4_WORDS(4)", "UPDATE_4_WORDS(0) UPDATE_4_WORDS(0)"),
    ("update_kernels.h", "d = at[place + 3] + one;", "d = at[place + 3];"),
    ("parallelism.c", "left = rounds; left;", "left = planted(rounds); left;"),
    ("ping_pong.c", "e->sides[side].trips = end;", "e->sides[side].trips = end - side;"),
    ("tlb.c", "*place(t, number_of(t, packed)) =", "*place(t, number_of(t, next)) ="),
    ("write_policy.c", "i < p->lines; i++) *word_of(p, set, i) = stored;",
     "i + 1 < p->lines; i++) *word_of(p, set, i) = stored;"),
    ("stream.c", "STREAM_WIDTHS(triad, a + s * b)", "STREAM_WIDTHS(triad, a + b)"),
    ("stream2.c", "STREAM_WIDTHS(daxpy, o + s * a)", "STREAM_WIDTHS(daxpy, s * a)"),
    ("stream2.c", "e += x[4]", "e += x[3]"),
    ("libc_mem.c", "byte_of(b->batches), b->bytes);", "byte_of(b->batches), b->bytes - 1);"),
    ("libc_mem.c", "b->lengths += found;", "b->lengths += found + 1;"),
    ("transfer.c", "i < lines; i++) atomic_store", "i + 1 < lines; i++) atomic_store"),
    ("page_walk.c", "left = loads; left;", "left = loads; left > 1;"),
    ("line_sharing.c", "for (; times; times--)", "for (; times > 1; times--)"),
    ("mixed_traffic.h", "*at = value + 1;", "*at = value + 2;"),
)  # fmt: skip

# Where each of them shows. A broken header breaks every probe that has it.
SHOWS: tuple[tuple[str, dict[str, Value]], ...] = (
    ("clock", {}),
    ("read_bandwidth", {"kernel": "portable"}),
    ("read_bandwidth", {"kernel": "sparse"}),
    ("write_bandwidth", {"kernel": "portable"}),
    ("write_bandwidth", {"kernel": "libc"}),
    ("copy_bandwidth", {"kernel": "portable"}),
    ("copy_conflict", {"kernel": "portable"}),
    ("update_bandwidth", {"kernel": "portable"}),
    ("tlb", {"count": 64}),
    ("write_policy", {"test": "resident"}),
    ("stream", {"size": 4 * MIB, "kernel": "triad"}),
    ("stream2", {"size": 4 * MIB, "kernel": "daxpy"}),
    ("stream2", {"size": 4 * MIB, "kernel": "sum"}),
    ("libc_mem", {"routine": "memset"}),
    ("libc_mem", {"routine": "strlen"}),
    ("page_walk", {"reach": MIB}),
)
ON_TWO: tuple[tuple[str, dict[str, Value]], ...] = (
    ("ping_pong", {"method": "compare_and_swap"}),
    ("line_sharing", {}),
    ("loaded_latency", {"size": 32 * MIB, "mix": "1:1"}),
    ("transfer", {"state": "modified"}),
    ("scaling", {"instances": 2, "operation": "read"}),
)
# Cycles whose lengths have a common divisor with what is dropped, and one of a single line.
WALKS: dict[str, list[dict[str, Value]]] = {
    "stride": [{"size": size, "stride": stride} for size in (4096, 16384) for stride in (16, 64, 1024, 4096)],
    "latency": [{"size": size} for size in (64, 1024, 4096, 61 * 64, 4 * MIB)],
    "associativity": [{"lines": lines} for lines in (1, 2, 8, 16, 61)],
    "parallelism": [{"chains": 1, "size": 4096}, {"chains": 8, "size": 4096}, {"chains": 128, "size": 128 * 64}],
    "huge_page_gain": [{"size": 4096}, {"size": MIB}],
    "line": [{}],
    "latency_scaling": [{"size": 4096}, {"size": 16384, "stride": 16, "order": "backward"}],
    "transfer": [{"state": "exclusive"}],
    "write_policy": [{"test": "reload", "size": size} for size in (4096, 65536)],
}
ON_X86: tuple[tuple[str, dict[str, Value]], ...] = tuple(
    (f"{operation}_bandwidth", {"kernel": kernel})
    for operation, kernels in {
        "read": ("sse2", "avx2", "avx2_nt", "avx2_prefetch", "avx512", "avx512_nt"),
        "write": ("sse2", "sse2_nt", "avx2", "avx2_nt", "avx512", "avx512_nt"),
        "copy": ("sse2", "sse2_nt", "avx2", "avx2_nt", "avx512", "avx512_nt"),
        "update": ("sse2", "avx2", "avx512"),
    }.items()
    for kernel in kernels
)


SHOWN = SHOWS + (ON_TWO if TWO_CPUS else ()) + (ON_X86 if X86 else ())
UNTOUCHED = {f"{name}.c" for name in {name for name, _ in SHOWN} | set(WALKS)} - {name for name, _, _ in LINES}
BREAKS = [(f"memory/{name}", old, new) for name, old, new in (*LINES, *((name, "", "") for name in sorted(UNTOUCHED)))]


@pytest.mark.parametrize(("name", "where"), SHOWN)
def test_broken_work_has_no_number(broken: Path, own_abi_name: str, name: str, where: dict[str, Value]) -> None:
    done = visit(own_abi_name, f"memory.{name}", root=broken, samples=1, **where)
    if done.status == "unsupported":
        pytest.skip(str(done.reason))
    assert done.status == "wrong_answer", done


@pytest.mark.parametrize("drop", PLANTED)
def test_no_walk_with_a_wrong_number_of_loads_has_a_number(
    broken: Path, own_abi_name: str, drop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", drop)
    for name, points in WALKS.items():
        for done in visits(own_abi_name, f"memory.{name}", 2 * points, root=broken):
            assert done.status in ("wrong_answer", "unsupported"), (name, done.point, done.status)


def test_a_control_that_loses_one_load_in_one_timed_batch_has_no_number(
    broken: Path, own_abi_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of the check itself are whole: only where the control stands in the end shows it."""
    monkeypatch.setenv("PLANTED", "0")
    done = visit(own_abi_name, "memory.line", root=broken, samples=8)
    assert done.status == "ok", done.reason
    monkeypatch.setenv("PLANTED_CONTROL", "1")
    done = visit(own_abi_name, "memory.line", root=broken, samples=8)
    assert done.status == "wrong_answer", done


def test_walks_have_numbers_where_no_load_is_dropped(
    broken: Path, own_abi_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "0")
    for name, points in WALKS.items():
        for done in visits(own_abi_name, f"memory.{name}", points, root=broken):
            assert done.status in ("ok", "unsupported"), (name, done.point, done.reason)
