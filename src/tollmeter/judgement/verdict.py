# SPDX-License-Identifier: Apache-2.0
"""The verdict of a run in one word, and whether the run answers its question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_low

import msgspec

from tollmeter.experiment.limits import FEW, HARDLY, LEAST_VISITS, MOSTLY, SOME
from tollmeter.judgement.convergence import budget_text
from tollmeter.model import REAL_CLOCKS, STOPPED, Row, RunInfo, RunVerdict, Study, Surroundings
from tollmeter.numbers.meanings import HERE
from tollmeter.numbers.row_of import is_counted

MOST_UNREACHED = 0.25
"""Share of the pairs or rows of a run that may lack a ratio or a visit before the exit code says so."""
KERNEL = "kernel."
"""Prefix of the names of probes that measure work of the kernel."""
STATUS = "/proc/self/status"
"""File that reports seccomp filters and a tracer."""


def verdict(run: RunInfo, rows: Sequence[Row]) -> RunVerdict:
    """Returns the first verdict that applies. run: points, converged, contended_share, stolen_share and unseen_share
    must be set. Discarded samples of counted rows are ignored, since a count has no noise. If all rows are emulated,
    other workloads are ignored: they delay an emulator and do not change its virtual time."""
    timed = [row for row in rows if not is_counted(row)]
    if run.status in STOPPED:
        return "interrupted"
    if is_short(rows):
        return "unknown" if run.contradictions else "too short"
    if run.surroundings and (is_held_back(run.surroundings) or is_intercepted(run.surroundings, rows)):
        return "held back"
    has_own_time = not is_all_emulated(rows)
    surroundings = run.surroundings if has_own_time else None
    # Share of the CPU time that other programs took; if unknown, share of the time in which tasks waited for a CPU.
    others = (surroundings.pressure if surroundings.others is None else surroundings.others) if surroundings else None
    beside_others = surroundings is not None and (surroundings.company or (others or 0.0) > SOME)
    # Few points converged, and the core was contended for most of the time.
    is_unsettled = run.converged < MOSTLY * run.points and (run.contended_share or 0.0) > MOSTLY
    if discarded_share(timed) > FEW or run.stolen_share > HARDLY or is_unsettled or beside_others:
        return "busy"
    # Evidence of a disturbance that would change these numbers could not be read.
    is_blind = (has_own_time and others is None) or (run.surroundings and unread(run.surroundings, rows))
    return "unknown" if run.contradictions or run.unseen_share > FEW or is_blind else "quiet"


def is_held_back(seen: Surroundings) -> bool:
    """Returns whether the run had a lower priority than an ordinary program or was throttled, so that its numbers are
    not the machine's."""
    return seen.nice > 0 or seen.policy in ("idle", "batch") or seen.throttled_s > 0


def is_intercepted(seen: Surroundings, rows: Iterable[Row]) -> bool:
    """Returns whether a seccomp filter or a tracer intercepted the timed system calls. Behind one filter that permits
    all calls getppid took 146 ns in place of 118, and under a tracer 13,100 ns."""
    return bool(seen.seccomp_filters or seen.traced) and _times_the_kernel(rows)


def without_interception(run: RunInfo, rows: Sequence[Row]) -> RunVerdict:
    """Returns the verdict as if no filter or tracer intercepted system calls. It is the verdict for rows of memory."""
    if run.surroundings is None:
        return run.verdict
    unintercepted = msgspec.structs.replace(run.surroundings, seccomp_filters=None, traced=None)
    return verdict(msgspec.structs.replace(run, surroundings=unintercepted), rows)


def _times_the_kernel(rows: Iterable[Row]) -> bool:
    """Returns whether a row times the kernel of this machine. A guest or an emulator has another kernel, or counts
    instructions."""
    timed = (row for row in rows if row.status == "ok" and row.target == HERE and row.clock in REAL_CLOCKS)
    return any(row.probe.startswith(KERNEL) for row in timed)


def unread(seen: Surroundings, rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the unreadable files whose evidence these rows need. A seccomp filter and a tracer slow only system
    calls, and the time of an emulator cannot be disturbed."""
    of_calls = [name for name in seen.unreadable if name == STATUS and _times_the_kernel(rows)]
    others = [name for name in seen.unreadable if name != STATUS and not is_all_emulated(rows)]
    return (*of_calls, *others)


def is_all_emulated(rows: Sequence[Row]) -> bool:
    """Returns whether there are rows, and none is by a hardware clock."""
    return bool(rows) and all(row.clock in ("virtual", "instructions") for row in rows)


def is_contended(run: RunInfo) -> bool:
    """Returns whether the core of a quiet run was contended for a large part of the time."""
    return run.verdict == "quiet" and (run.contended_share or 0.0) > SOME


def unanswered(
    run: RunInfo, rows: Sequence[Row], study: Study | None, compared: int = 0, shown: tuple[int, int] = (0, 0)
) -> str:
    """Returns why the question of the run has no answer, as part of a sentence; empty if it has one. run: its verdict
    must be set. A boundary that this machine does not have is an answer, and so is a comparison of programs by counts.
    compared: number of pairs with a ratio. shown: number of first-screen numbers with an interval, and number of all
    first-screen numbers, which are measured first."""
    if not any(row.status == "ok" for row in rows):
        return "no row has a number"
    if len(run.uncompared) > MOST_UNREACHED * (compared + len(run.uncompared)):
        return _without_ratio(run, compared)
    relatives = study.relatives if study else ()
    counted = any(relative.measure in ("instructions", "counted") and relative.value for relative in relatives)
    figures = [claim for claim in study.claims if claim.counted or claim.value is not None] if study else []
    judged = sum(claim.verdict != "cannot tell" or claim.here is not None for claim in figures)
    certain = sum(claim.low != claim.high for claim in figures)
    is_shown = not figures and 2 * shown[0] > shown[1]
    if run.verdict == "too short" and certain <= len(figures) * MOSTLY and not counted and not is_shown:
        return f"most numbers have fewer than {LEAST_VISITS} visits"
    possible = [row for row in rows if row.status != "unsupported"]
    unreached = sum(row.status == "interrupted" for row in possible)
    if unreached > MOST_UNREACHED * len(possible) and judged <= len(figures) * MOSTLY:
        return f"{unreached} of {len(possible)} rows were not reached"
    if figures and not judged and not counted:
        return f"none of the study's {len(figures)} figures could be compared with a measured number"
    return ""


def _without_ratio(run: RunInfo, compared: int) -> str:
    """Returns why pairs of an interleaved comparison have no ratio, and the budget that would suffice."""
    lacking, pairs = len(run.uncompared), compared + len(run.uncompared)
    reason = run.uncompared[0].reason
    why = reason if pairs == 1 else f"{lacking} of {pairs} pairs have no ratio; reason of the first: {reason}"
    return f"{why}; --budget {budget_text(int(run.enough_s))} would suffice" if run.enough_s else why


def has_interval(row: Row) -> bool:
    """Returns whether a row has enough visits for an interval. A count needs one visit, and a row without a number
    needs none."""
    return row.status != "ok" or is_counted(row) or row.visits >= LEAST_VISITS


def is_short(rows: Sequence[Row]) -> bool:
    """Returns whether the median row has too few visits for an interval. If no timed row has a number, returns whether
    all rows are counts."""
    timed = [row for row in rows if not is_counted(row)]
    visits = [row.visits for row in timed if row.status == "ok"]
    return median_low(visits) < LEAST_VISITS if visits else len(timed) == len(rows)


def discarded_share(rows: Sequence[Row]) -> float:
    """Returns the share of the samples that were discarded, over all rows. A sample of several rows is counted for
    each."""
    discarded = sum(row.discarded for row in rows)
    total = discarded + sum(row.samples for row in rows)
    return discarded / total if total else 0.0
