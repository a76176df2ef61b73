# SPDX-License-Identifier: Apache-2.0
"""Ten lies, each planted where a real probe, its clock, its machine or its journal could tell it, and what catches it.

A lie in a probe is a change in a copy of the probe's own file. Where the words that it replaces are gone from that
file, the self-test says so: it would else plant nothing, and catch it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tollmeter.model import Book, Row, Value

WALKED_BYTES = 64 << 20
COARSE_NS = 20_000
_LEAST_STEPS = 500


class Lie(NamedTuple):
    """name: as it is told of; the copy is called the same, with _ for blanks. planted: what it is, in words. of: the
    file of the real probe, FAMILY/NAME.c. changes: words of it and what stands in their place. caught: the sentence
    that catches it, from a run that measured it; None where nothing does.
    """

    name: str
    planted: str
    of: str
    changes: tuple[tuple[str, str], ...]
    caught: Callable[[Book, str], str | None]
    parameters: dict[str, Value] = {}

    @property
    def probe(self) -> str:
        return f"{self.of.partition('/')[0]}.{self.name.replace(' ', '_')}"


HONEST: dict[str, dict[str, Value]] = {"kernel/loop.c": {}, "memory/parallelism.c": {"chains": 1, "size": WALKED_BYTES}}
"""Measured beside them: what catches everything catches nothing."""


def _rows(book: Book, probe: str) -> list[Row]:
    return [row for row in book.index.rows if row.probe == probe]


def refused(book: Book, probe: str) -> str | None:
    """All rows of the probe lack a number."""
    rows = _rows(book, probe)
    if not rows or any(row.status == "ok" and row.unit != "ratio" for row in rows):
        return None
    return next(f"{row.status.replace('_', ' ')}: {row.reason}" for row in rows if row.status != "ok")


def told(name: str) -> Callable[[Book, str], str | None]:
    """A finding of that name, also one that a busy run holds back: it is there all the same."""

    def claim(book: Book, _: str) -> str | None:
        claims = {found.name: found.claim for found in book.index.findings}
        held_back = {found: f"{found}, withheld in a {book.index.run.verdict} run" for found in book.index.held_back}
        return {**held_back, **claims}.get(name)

    return claim


def stretched(book: Book, probe: str) -> str | None:
    """The clock's steps were seen, and no batch is so short that they matter; or the visits were refused."""
    visits = [visit for visit in book.outcomes if visit.point.probe == probe and visit.samples]
    steps_ns = min((visit.clock.resolution_ns for visit in visits), default=0.0)
    shortest_ns = min((min(sample.body) for visit in visits for sample in visit.samples), default=0)
    if steps_ns < COARSE_NS / 2 or shortest_ns < _LEAST_STEPS * steps_ns:
        return refused(book, probe)
    return f"steps of {steps_ns / 1e3:.0f} µs were seen, and no batch is shorter than {shortest_ns / 1e6:.0f} ms"


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

IN_PROBES = (
    Lie(
        "deleted loop", "a loop that the compiler took away", "kernel/loop.c", ((_LOOP, "  left = 0;\n"),), refused
    ),
    Lie(
        "wrong unit", "turns that are counted by the thousand, and called turns", "kernel/loop.c",
        ((_PROBE, f"{_THOUSAND}\n{_PROBE}"), (".body = loop,", ".body = loop,\n    .work = thousand,")), refused,
    ),
    Lie(
        "coarse clock", f"a clock that moves in steps of {COARSE_NS // 1000} µs", "kernel/loop.c",
        ((_INCLUDE, _INCLUDE + _CLOCK),), stretched,
    ),
    Lie(
        "wrong answer", "a count that is off by one", "kernel/loop.c",
        (("state->done += r->iterations - left;", "state->done += r->iterations - left - 1;"),), refused,
    ),
    Lie(
        "constant time", "a body that does the same whatever it is asked for", "kernel/loop.c",
        (("uintptr_t left = (uintptr_t)r->iterations;", "uintptr_t left = 1000;"),), refused,
    ),
    Lie(
        "sequential walk", "a walk in the order of its addresses that is called random", "memory/latency.c",
        (("TOLL_ORDER_RANDOM", "TOLL_ORDER_FORWARD"),), told("memory.walk_is_not_random"),
        {"size": WALKED_BYTES, "pages": "huge"},
    ),
    Lie(
        "half work", "a walk that takes half of the steps that it counts", "memory/latency.c",
        ((_WHOLE, _HALF),), refused, {"size": 16384, "pages": "small"},
    ),
    Lie(
        "closed stream", "a probe that closes its output before it has said all", "kernel/loop.c",
        ((_INCLUDE, f"{_INCLUDE}#include <unistd.h>\n"), (_LOOP, f"{_LOOP}  close(STDOUT_FILENO);\n")), refused,
    ),
)  # fmt: skip
"""The other two are told by the machine and by the journal: a busy neighbour, and a visit that was cut out."""
