# SPDX-License-Identifier: Apache-2.0
"""Planted faults of a probe, its clock, its machine or its journal, each with the reason that must detect it. A fault
that another reason detects was not tested.

A fault in a probe changes a copy of the probe's own file. If the words to replace are no longer in that file, the
self-test reports this, since it would plant nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tollmeter.model import Results, Value

WALKED_BYTES = 64 << 20
COARSE_NS = 20_000
"""Step of the planted coarse clock."""
_COPIED_BYTES = 1 << 20
_LEAST_STEPS = 250
"""Fewest steps of the clock in a batch that is long enough."""
_UNMEASURED = ("infrastructure", "interrupted", "timeout", "unsupported")


class Lie(NamedTuple):
    """A planted fault. name: as printed; the copy of the probe has _ for blanks. planted: description. of: file of the
    real probe, FAMILY/NAME.c. changes: words of the file and their replacements. expects: pattern of the sentence
    that must detect it. found: searches this sentence in a run that measured it; None if it has none."""

    name: str
    planted: str
    of: str
    changes: tuple[tuple[str, str], ...]
    expects: str
    parameters: dict[str, Value] = {}
    found: Callable[[Results, str], str | None] | None = None

    @property
    def probe(self) -> str:
        return f"{self.of.partition('/')[0]}.{self.name.replace(' ', '_')}"

    def seen(self, results: Results) -> str | None:
        """Returns the sentence by which a run detects the fault."""
        return (self.found or refusal_of)(results, self.probe)

    def is_measured(self, results: Results) -> bool:
        """Returns whether the probe was measured at all: a row that states why it was not is no detection."""
        return any(row.status not in _UNMEASURED for row in results.index.rows if row.probe == self.probe)

    def is_expected(self, sentence: str) -> bool:
        return re.search(self.expects, sentence) is not None


class Untruth(NamedTuple):
    """A fault in a journal: a change of one visit. change: edits each record of the visit in place. expects: words in
    the message of the rule that the change breaks."""

    name: str
    planted: str
    change: Callable[[dict[str, Any]], object]
    expects: str


HONEST: dict[str, dict[str, Value]] = {
    "kernel/loop.c": {},
    "kernel/enter_syscall.c": {"call": "getppid"},
    "memory/latency.c": {"size": WALKED_BYTES, "pages": "huge"},
    "memory/copy_bandwidth.c": {"size": _COPIED_BYTES, "kernel": "portable"},
}
"""Unmodified probes that are measured with the faults: a test that rejects everything detects nothing."""


def refusal_of(results: Results, probe: str) -> str | None:
    """Returns why the probe has no number; None if a row has one."""
    rows = [row for row in results.index.rows if row.probe == probe]
    if any(row.status == "ok" and row.unit != "ratio" for row in rows):
        return None
    reasons = [f"{row.status.replace('_', ' ')}: {row.reason}" for row in rows if row.status != "ok"]
    return reasons[0] if reasons else "no visit of it was made"


def stretched(results: Results, probe: str) -> str | None:
    """Returns how a stretched clock was detected: its steps were measured, and every batch is long enough for them; or
    why the probe has no number."""
    visits = [visit for visit in results.outcomes if visit.point.probe == probe and visit.samples]
    steps_ns = min((visit.clock.resolution_ns for visit in visits), default=0.0)
    shortest_ns = min((min(sample.body) for visit in visits for sample in visit.samples), default=0)
    if steps_ns < COARSE_NS / 2 or shortest_ns < _LEAST_STEPS * steps_ns:
        return refusal_of(results, probe)
    return f"steps of {steps_ns / 1e3:.0f} µs were seen, and no batch is shorter than {shortest_ns / 1e6:.0f} ms"


def finding_named(results: Results, name: str) -> str | None:
    """Returns the claim of the finding of that name, or a note that it is withheld, as in a busy run."""
    claims = {finding.name: finding.claim for finding in results.index.findings}
    verdict = results.index.run.verdict
    withheld = {rule: f"{rule}, withheld in a {verdict} run" for rule in results.index.withheld}
    return {**withheld, **claims}.get(name)


_LOOP = """  do {
    TOLL_OPAQUE(left);
  } while (--left);
"""
_CLOCK = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  const int status = (int)syscall(SYS_clock_gettime, clock, now);
  now->tv_nsec -= now->tv_nsec % COARSE_NS;
  return status;
}
""".replace("COARSE_NS", str(COARSE_NS))
_WHOLE = "walk_on(&((struct walk *)r->state)->cursor, r->iterations);"
_HALF = """struct walk *w = r->state;
  w->cursor.at = walk_follow(w->cursor.at, r->iterations / 64 * 32);
  w->cursor.steps += r->iterations;"""
_PROBE = "const struct toll_probe toll_probe = {"
_THOUSAND = """static void thousand(const struct toll_run *r, struct toll_work *work) {
  (void)r;
  work->operations = 1000;
}
"""
_INCLUDE = '#include "toll.h"\n'

_OTHER_CALLS = r"a batch of \d+ iterations makes \d+ system calls, and short ones 1 an iteration"
_GETPPID = "for (uint64_t i = r->iterations; i; i--) answer = kernel_enter(number, 0, 0);"


def _calls(turns: str, *, root: bool = False) -> tuple[tuple[str, str], ...]:
    """Returns the replacements with which a batch makes a wrong number of calls. turns: C expression for the number of
    calls, in n, the number of iterations, and s; root: whether it uses s, the integer square root of n."""
    looks = "uint64_t s = n;\nwhile (s > n / s) s = (s + n / s) / 2;" if root else ""
    return ((_GETPPID, f"const uint64_t n = r->iterations;\n{looks}\n{_GETPPID.replace('r->iterations', turns)}"),)


def _work(change: str, before: str = "") -> tuple[tuple[str, str], ...]:
    """Returns the replacements that declare other work. before: words that declare the work in the unmodified file."""
    body = f"{'work(r, told);' if before else '(void)r;'} told->{change};"
    lies = f"static void lies(const struct toll_run *r, struct toll_work *told) {{ {body} }}\n"
    declared = (before, ".work = lies,") if before else (".check = check,", ".check = check,\n    .work = lies,")
    return (_PROBE, lies + _PROBE), declared


IN_PROBES = (
    Lie(
        "deleted loop", "a loop that the compiler took away", "kernel/loop.c", ((_LOOP, "  left = 0;\n"),),
        "take no more time than a few|executes 0",
    ),
    Lie(
        "wrong unit", "turns that are counted by the thousand, and called turns", "kernel/loop.c",
        ((_PROBE, f"{_THOUSAND}\n{_PROBE}"), (".body = loop,", ".body = loop,\n    .work = thousand,")),
        "declares 1000 operations",
    ),
    Lie(
        "coarse clock", f"a clock that moves in steps of {COARSE_NS // 1000} µs", "kernel/loop.c",
        ((_INCLUDE, _INCLUDE + _CLOCK),), "steps of 20 µs were seen", found=stretched,
    ),
    Lie(
        "wrong answer", "a count that is off by one", "kernel/loop.c",
        (("state->done += r->iterations - left;", "state->done += r->iterations - left - 1;"),),
        "stopped before its counter was zero",
    ),
    Lie(
        "constant time", "a body that does the same whatever it is asked for", "kernel/loop.c",
        (("uintptr_t left = (uintptr_t)r->iterations;", "uintptr_t left = 1000;"),),
        "take no more time than a few|executes 0",
    ),
    Lie(
        "quadratic cost", "a body that makes n * n / 64 calls from 64 on", "kernel/enter_syscall.c",
        _calls("(n < 64 ? n : n * n / 64)"),
        _OTHER_CALLS,
    ),
    Lie(
        "square root", "a body that makes 8 calls for the square root of n from 64 on", "kernel/enter_syscall.c",
        _calls("(n < 64 ? n : 8 * s)", root=True), _OTHER_CALLS,
    ),
    Lie(
        "sequential walk", "a walk in the order of its addresses that is called random", "memory/latency.c",
        (("TOLL_ORDER_RANDOM", "TOLL_ORDER_FORWARD"),), "in the order of its addresses",
        {"size": WALKED_BYTES, "pages": "huge"},
    ),
    Lie(
        "half work", "a walk that takes half of the steps that it counts", "memory/latency.c",
        ((_WHOLE, _HALF),), "another number of loads", {"size": 16384, "pages": "small"},
    ),
    Lie(
        "hidden half", "a clock that stands still during half of the calls", "kernel/enter_syscall.c",
        ((_GETPPID, f"toll_timer_pause();\n{_GETPPID}\ntoll_timer_resume();\n{_GETPPID}"),), "is not timed",
    ),
    Lie(
        "sleep", "a sleep of 300 µs beside each call", "kernel/enter_syscall.c",
        ((_GETPPID, _GETPPID.replace("answer", "usleep(300), answer")),),
        "waited .* times in a sample|makes 2 system calls",
    ),
    Lie(
        "greedy control", "a control that executes more than the body", "kernel/enter_syscall.c",
        (("i = r->iterations; i; i--) TOLL_OPAQUE", "i = 20 * r->iterations; i; i--) TOLL_OPAQUE"),),
        "its control makes 40 instructions an iteration",
    ),
    Lie(
        "half the calls", "a body that makes every second call", "kernel/enter_syscall.c", _calls("(n + 1) / 2"),
        "makes 0.5 system calls",
    ),
    Lie(
        "double calls", "a body that makes each call twice", "kernel/enter_syscall.c", _calls("n * 2"),
        "makes 2 system calls",
    ),
    Lie(
        "ten operations", "one call that is declared as ten operations", "kernel/enter_syscall.c",
        _work("operations = 10"), "makes 0.1 system calls",
    ),
    Lie(
        "four times the bytes", "a copy that counts each byte four times", "memory/copy_bandwidth.c",
        _work("bytes *= 4", ".work = work,"), "goes through 1048576 bytes, and the probe declares",
        {"size": _COPIED_BYTES, "kernel": "portable"},
    ),
    Lie(
        "half the copy", "a copy of half of the buffer", "memory/copy_bandwidth.c",
        (("  bandwidth_body(r);", "  b->span.bytes /= 2;\n  bandwidth_body(r);\n  b->span.bytes *= 2;"),),
        "was not copied as it should be", {"size": _COPIED_BYTES, "kernel": "portable"},
    ),
    Lie(
        "small buffer", "a walk through an eighth of the size", "memory/latency.c",
        (("  const enum toll_pages of", "  bytes /= 8;\n  const enum toll_pages of"),), "it works on",
        {"size": _COPIED_BYTES, "pages": "small"},
    ),
    Lie(
        "closed stream", "a probe that closes its output before it has said all", "kernel/loop.c",
        ((_INCLUDE, f"{_INCLUDE}#include <unistd.h>\n"), (_LOOP, f"{_LOOP}  close(STDOUT_FILENO);\n")), "exit status",
    ),
)  # fmt: skip
"""Faults planted into probes. Other faults are planted into the machine and the journal: a busy neighbour,
contradictions, a removed visit."""

IN_JOURNALS = (
    Untruth(
        "fast clock", "a clock that is read in a tenth of a nanosecond",
        lambda record: record["k"] == "clock" and record.update(cost_ns=0.1, resolution_ns=0.5),
        "a reading of the clock",
    ),
    Untruth(
        "long batches", "batches that take longer than the time between their samples",
        lambda record: record["k"] == "sample" and record.update(body=[4 * ns for ns in record["body"]]),
        "lie between its beginning",
    ),
    Untruth(
        "other CPU", "samples on a CPU that the visit is not pinned to",
        lambda record: record["k"] == "witness" and record.update(cpu_before=4095, cpu_after=4095),
        "to which it is pinned",
    ),
)  # fmt: skip
