# SPDX-License-Identifier: Apache-2.0
"""Lies beyond those of the self-test, each planted into a copy of a real probe and measured as any run is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tollmeter.conduct import Stopping
from tollmeter.library import selftest
from tollmeter.library.lies import Lie
from tollmeter.model import Results

_CALL = "for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(number, 0, 0);"
_ENTER = "static void enter(struct toll_run *r) {"
_ROOT = """static double root(double x) {
  double y = x;
  for (int i = 0; i < 40; i++) y = (y + x / y) / 2;
  return y;
}
"""
_LONG = r"a batch of \d+ iterations makes \d+ system calls"
_PROBE = "const struct toll_probe toll_probe = {"
_WORK = "static void lies(const struct toll_run *r, struct toll_work *told) {{ {} }}\n"
_BUFFER = {"size": 1 << 20, "kernel": "portable"}
_BODY = "  bandwidth_body(r);"
_QUARTERS = f"""  b->span.bytes /= 4;
{_BODY}
  b->span.bytes *= 4;
  memcpy(b->span.target, b->source, b->span.bytes);"""
_SPIN = """; i; i--) {
    for (volatile int j = 0; j < 90; j++) continue;
    """
_IN_LINE = """(void)add_one;
  for (uint64_t i = r->iterations; i; i--) {
    value++;
    TOLL_OPAQUE(value);
  }"""
_LARGE = {"size": 64 << 20, "pages": "small"}
_ADD = "for (uint64_t i = r->iterations; i; i--) value = add_one(value);"
_READ = "for (uint64_t i = r->iterations; i; i--) now_ns = by_"
_TURN = "    TOLL_OPAQUE(left);\n  } while (--left);"
_HALF_OF_LONG = "const uint64_t n = r->iterations >> (r->iterations > 20000);\n  "


def power(name: str, factor: str) -> Lie:
    """n calls times a power of n / 64. factor: of q, its sixteenth root."""
    count = f"double q = root(root(root(root((double)r->iterations / 64))));\n  uint64_t n = r->iterations < 64 ? \
r->iterations : (uint64_t)((double)r->iterations * ({factor}));\n  "
    changes = ((_ENTER, f"{_ROOT}{_ENTER}"), (_CALL, count + _CALL.replace("r->iterations", "n")))
    return Lie(name, f"n calls times {factor}", "kernel/enter_syscall.c", changes, _LONG)


def calls(name: str, call: str, expects: str) -> Lie:
    return Lie(name, call, "kernel/enter_syscall.c", ((_CALL, call),), expects)


def work(name: str, of: str, change: str, expects: str) -> Lie:
    """Work that is declared otherwise than the probe's own."""
    changes = ((_PROBE, _WORK.format(f"work(r, told); {change};") + _PROBE), (".work = work,", ".work = lies,"))
    return Lie(name, change, of, changes, expects, dict(_BUFFER))


LIES = (
    power("power of 7 eighths", "1 / (q * q)"),
    power("power of 9 eighths", "q * q"),
    power("power of 19 sixteenths", "q * q * q"),
    calls("one call", "answer = kernel_enter(number, 0, 0);", "no more time|makes 0 system calls"),
    calls("n log n", f"uint64_t n = r->iterations, log = 0;\n  while (n >> log) log++;\n  n *= log;\n"
          f"  {_CALL.replace('r->iterations', 'n')}", "system calls"),
    calls("cubic cost", _CALL.replace("r->iterations", "r->iterations * r->iterations * r->iterations"),
          "makes 112 system calls"),
    calls("a third", _CALL.replace("r->iterations", "(r->iterations + 2) / 3"), "system calls"),
    calls("yield", _CALL.replace("answer =", "kernel_enter(SYS_sched_yield, 0, 0), answer ="), "makes 2 system calls"),
    calls("sleep of one in ten", _CALL.replace("answer =", "i % 10 ? 0 : usleep(100), answer ="),
          "waited|system calls"),
    calls("hidden tenth", f"toll_timer_pause();\n  toll_timer_resume();\n  {_CALL}", "is not timed"),
    work("read four times", "memory/read_bandwidth.c", "told->bytes *= 4", "goes through 1048576 bytes"),
    work("write twice", "memory/write_bandwidth.c", "told->bytes *= 2", "goes through 1048576 bytes"),
    work("update ten times", "memory/update_bandwidth.c", "told->bytes *= 10", "goes through 1048576 bytes"),
    Lie("half the buffer", "a copy between halves", "memory/copy_bandwidth.c",
        (("b->span.target = bandwidth_buffer(r, b->span.bytes, 1);",
          "b->span.target = (char *)(uintptr_t)(b->source + (b->span.bytes /= 2));"),), "it works on", dict(_BUFFER)),
    Lie("ten loads", "a load that is declared as ten", "memory/latency.c",
        ((_PROBE, _WORK.format("(void)r; told->operations = 10;") + _PROBE),
         (".check = check,", ".check = check,\n    .work = lies,")), "instructions, and the probe declares 10",
        {"size": 16384, "pages": "small"}),
    Lie("backward walk", "a walk from the end of the buffer", "memory/latency.c",
        (("TOLL_ORDER_RANDOM", "TOLL_ORDER_BACKWARD"),), "in the order of its addresses",
        {"size": 4 << 20, "pages": "small"}),
    Lie("calling control", "a control that enters the kernel twice", "kernel/enter_syscall.c",
        (("i--) TOLL_OPAQUE(number);", "i--) kernel_enter(number, 0, 0), kernel_enter(number, 0, 0);"),),
        "its control makes 2 system calls"),
    calls("half of a long batch", _CALL.replace("r->iterations", "r->iterations / (r->iterations < 64 ? 1 : 2)"),
          _LONG),
    calls("half of later batches",
          f"static int batches;\n  {_CALL.replace('r->iterations', '(r->iterations + 1) / (batches++ < 12 ? 1 : 2)')}",
          "makes 0.5 system calls"),
    calls("sleep of one in a thousand", _CALL.replace("answer =", "i % 1000 ? 0 : usleep(1), answer ="),
          "system calls, and short ones|waited"),
    calls("work around each call",
          _CALL.replace("; i; i--) ", _SPIN) + "\n  }",
          "instructions around each entry"),
    Lie("nothing declared", "two calls, and no declaration", "kernel/enter_syscall.c",
        ((_CALL, _CALL.replace("answer =", "kernel_enter(number, 0, 0), answer =")), ("    .calls = 1,\n", "")),
        "an entry is one"),
    Lie("four cells a line", "a walk with four cells in each line", "memory/latency.c",
        (("bytes, toll_line_bytes(),", "bytes, toll_line_bytes() / 4,"),), "has a cell every 16 bytes", dict(_LARGE)),
    Lie("few pages", "a walk within a few pages at a time", "memory/latency.c",
        (("TOLL_ORDER_RANDOM", "TOLL_ORDER_PAGE_LOCAL"),), "not random: 256 steps", dict(_LARGE)),
    Lie("half of the adds of a long batch", "half as many from 20001 on", "kernel/function_call.c",
        ((_ADD, _HALF_OF_LONG + _ADD.replace("r->iterations", "n")),
         ("sums->expected += (uintptr_t)r->iterations;", "sums->expected += (uintptr_t)n;")), "short batch takes"),
    Lie("quarter of each pass", "a whole pass at the end of a batch", "memory/copy_bandwidth.c",
        ((_BODY, _QUARTERS),), "goes through 26", dict(_BUFFER)),
    Lie("two passes", "each pass made twice", "memory/copy_bandwidth.c", ((_BODY, _BODY + _BODY),),
        "goes through 210", dict(_BUFFER)),
    Lie("half of the turns", "a loop of half as many turns", "kernel/loop.c",
        (("  do {\n", "  left = left / 2 + 1;\n  do {\n"),), "2 instructions executes 1"),
    Lie("one instruction more", "a loop of three instructions", "kernel/loop.c",
        ((_TURN, _TURN.replace(");", ');\n    __asm__ volatile("nop");', 1)),), "2 instructions executes 3"),
    Lie("in line", "a call that is none", "kernel/function_call.c",
        ((_ADD, _IN_LINE),),
        "neither calls nor returns"),
    Lie("read by the library", "no system call in the control", "kernel/clock_read.c",
        ((f"{_READ}system_call();", f"{_READ}library();"),), "its control makes 0 system calls"),
)  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder: Path = tmp_path_factory.mktemp("lies")
    selftest._plant(folder / "tree", LIES)
    selects = selftest._selects(LIES)
    with Stopping() as stopping:
        return selftest._measured(folder / "tree", folder / "run", selects, selftest._BUDGET_S, stopping)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_is_caught_for_its_reason(measured: Results, lie: Lie) -> None:
    found = selftest.detection(lie, measured)
    assert found.outcome == selftest.CAUGHT, found


def test_the_honest_probes_beside_them_are_not(measured: Results) -> None:
    selftest._check_honest(measured)
