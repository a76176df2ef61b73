# SPDX-License-Identifier: Apache-2.0
"""Lies beyond those of the self-test, each planted into a copy of a real probe and measured as any run is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tollmeter.conduct import Stopping
from tollmeter.library import selftest
from tollmeter.library.lies import Lie
from tollmeter.model import Book

_CALL = "for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(number, 0, 0);"
_ENTER = "static void enter(struct toll_run *r) {"
_ROOT = """static double root(double x) {
  double y = x;
  for (int i = 0; i < 40; i++) y = (y + x / y) / 2;
  return y;
}
"""
_PROBE = "const struct toll_probe toll_probe = {"
_WORK = "static void lies(const struct toll_run *r, struct toll_work *told) {{ {} }}\n"
_BUFFER = {"size": 1 << 20, "kernel": "portable"}


def power(name: str, factor: str) -> Lie:
    """n calls times a power of n / 64. factor: of q, its sixteenth root."""
    count = f"double q = root(root(root(root((double)r->iterations / 64))));\n  uint64_t n = r->iterations < 64 ? \
r->iterations : (uint64_t)((double)r->iterations * ({factor}));\n  "
    changes = ((_ENTER, f"{_ROOT}{_ENTER}"), (_CALL, count + _CALL.replace("r->iterations", "n")))
    return Lie(name, f"n calls times {factor}", "kernel/enter_syscall.c", changes, "not linear")


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
    calls("one call", "answer = kernel_enter(number, 0, 0);", "no more time"),
    calls("n log n", f"uint64_t n = r->iterations, log = 0;\n  while (n >> log) log++;\n  n *= log;\n"
          f"  {_CALL.replace('r->iterations', 'n')}", "system calls"),
    calls("cubic cost", f"const uint64_t n = r->iterations, more = n < 8 ? n : n * n / 8 * n / 8;\n"
          f"  {_CALL.replace('r->iterations', 'more')}", "not linear: twice the iterations take [78]"),
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
)  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Book:
    folder: Path = tmp_path_factory.mktemp("lies")
    selftest._plant(folder / "tree", LIES)
    selects = list(selftest._selects(LIES))
    with Stopping() as stopping:
        return selftest._measured(folder / "tree", folder / "run", selects, 16.0, stopping)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_is_caught_for_its_reason(measured: Book, lie: Lie) -> None:
    found = selftest.judged(lie, measured)
    assert found.outcome == selftest.CAUGHT, found


def test_the_honest_probes_beside_them_are_not(measured: Book) -> None:
    selftest._check_honest(measured)
