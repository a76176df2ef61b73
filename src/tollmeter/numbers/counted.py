# SPDX-License-Identifier: Apache-2.0
"""The work that a probe declares, against what the system counted of it. What was not counted refuses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tollmeter.model import Counted, Outcome, Probe, Work
from tollmeter.numbers.meanings import BANDWIDTHS

WALK, ENTRY, FUNCTION_CALL, CONTROL_LOOP = "latency-of-size", "entry", "function-call", "control-loop"
_TOLERANCE = 0.01
_BYTES_OF_INSTRUCTION = 128
"""A load and a store of 64 bytes, or a pair of loads."""
_MOST_IN_ORDER, _LEAST_ORDERED_BYTES = 0.5, 16384
_LEAST_USED, _MOST_ENTERED = 0.9, 1.1
_TURN, _TURNS = 2, {"s390x": 1, "mipsel": 3, "sparc64": 3}
"""Instructions of a turn of a loop: to count, and to branch. One of s390x does both, and mips and sparc have one in the
delay slot of the branch."""
_MOST_AROUND_ENTRY = 32
"""Instructions: the number and the arguments into their registers, and what a vDSO does around the entry."""
_CALL_AND_RETURN = 2
_OFF_CALLS, _OFF_STEPS = 0.0001, 0.15
_MOST_OF_SHORT, _LEAST_GROWTH, _LEAST_COSTS = 1.7, 0.4, 3
"""Times the cost of one iteration in short batches over that in the longest: 1.44 was the most of 1,400 honest ones.
What four times the iterations add is that share of the longer batch's time, or nothing is judged."""
_LEAST_PAGES, _FEW_PAGES = 512, 128
"""256 steps of a random walk through so many pages lead to 200 of them at least, and of a walk within a few to 32."""


def contradicted(outcomes: Sequence[Outcome], probe: Probe, rules: Sequence[Rule] | None = None) -> str | None:
    """Why a point has no number: the count of one of its visits contradicts what its probe declares; by the rules
    IN_LENGTH, what it counted of short batches."""
    for outcome in outcomes:
        if outcome.counted is None:
            continue
        for rule in IN_SHORT if rules is None else rules:
            why = rule(outcome.counted, outcome, probe)
            if why:
                return why
    return None


def _each(pair: tuple[int, int] | None, counts: Counted) -> float | None:
    """Of one iteration: what both batches do once cancels."""
    return (pair[1] - pair[0]) / counts.iterations if pair else None


def _means(probe: Probe) -> set[str | None]:
    return {metric.means for metric in probe.metrics}


def _calls(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    calls, operations = _each(counts.calls, counts), _operations(outcome.work)
    declared = probe.calls or (1 if ENTRY in _means(probe) else 0)
    if not declared or calls is None or abs(calls / operations - declared) <= _TOLERANCE * declared:
        return None
    stated = f"the probe declares {probe.calls}" if probe.calls else "an entry is one"
    return f"one operation makes {calls / operations:g} system calls, and {stated}"


def _long_batches(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """Where calls are not declared, one in many iterations may be a device's or a library's own."""
    if probe.calls or (_each(counts.calls, counts) or 0.0) >= 1:
        off = _OFF_CALLS if probe.calls else _TOLERANCE
        if why := _of_long(counts.calls, counts.long_calls, counts, off, "system calls"):
            return why
    return _of_long(counts.instructions, counts.long_instructions, counts, _OFF_STEPS, "instructions")


def _of_long(
    pair: tuple[int, int] | None, long: tuple[int, int] | None, counts: Counted, off: float, what: str
) -> str | None:
    """A long batch does as much in an iteration as a short one. pair, long: what was counted of both."""
    each = _each(pair, counts)
    if each is None or pair is None or long is None:
        return None
    once, (iterations, made) = 2 * pair[0] - pair[1], long
    if abs(made - once - each * iterations) <= max(1, off * each * iterations):
        return None
    return f"a batch of {iterations} iterations makes {made} {what}, and short ones {each:g} an iteration"


def _around_boundary(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """An entry has few instructions around it, and a function call has two more than its control. Where there were too
    many to count, the three lengths of the two batches had so many together."""
    steps, control = _each(counts.instructions, counts), _each(counts.control_instructions, counts)
    most = counts.most_steps / (3 * counts.iterations) if steps is None and counts.most_steps else steps
    if most is not None and control is not None and most - control > _MOST_AROUND_ENTRY and ENTRY in _means(probe):
        return f"it executes {most - control:g} instructions around each entry"
    if steps is None or control is None or FUNCTION_CALL not in _means(probe) or steps - control >= _CALL_AND_RETURN:
        return None
    return f"its body executes {steps:g} instructions and its control {control:g}: it neither calls nor returns"


def _short_batches(counts: Counted, _: Outcome, __: Probe) -> str | None:
    """Less work in a long batch. More in it, or a time that is paid once, is judged by the samples. Two lengths say so,
    since one may be disturbed."""
    costs = [
        (long_ns - ns) / (long - n) if long_ns - ns >= _LEAST_GROWTH * long_ns else 0.0
        for (long, long_ns), (n, ns) in pairwise(counts.ladder)
        if long > n
    ]
    if len(costs) < _LEAST_COSTS or not costs[0]:
        return None
    second = sorted(costs)[-2] / costs[0]
    if second <= _MOST_OF_SHORT:
        return None
    return f"an iteration of a short batch takes {second:.1f} times one of a long batch"


def _entered(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Of a buffer that is gone through in order, page by page."""
    size = outcome.point.values().get("size")
    if counts.entered is None or not isinstance(size, int) or not _means(probe) & set(BANDWIDTHS):
        return None
    iterations, once, twice = counts.entered
    each = (twice - once) / iterations
    if _LEAST_USED * size <= each <= _MOST_ENTERED * size:
        return None
    return f"one iteration goes through {each:.0f} bytes of its buffers, and its size is {size}"


def _work_of(counts: Counted, outcome: Outcome, _: Probe) -> str | None:
    """A processor starts no more operations than it executes instructions, but for those on vectors, which are counted
    as bytes or flops; and an instruction moves so many bytes at most, where the kernel moves none."""
    work, steps, operations = outcome.work, _each(counts.instructions, counts), _operations(outcome.work)
    if steps is None:
        return None
    if not work.bytes and not work.flops and operations > steps * (1 + _TOLERANCE):
        return f"one iteration executes {steps:g} instructions, and the probe declares {operations:g} operations"
    if _each(counts.calls, counts) or work.bytes <= steps * _BYTES_OF_INSTRUCTION * (1 + _TOLERANCE):
        return None
    return f"one iteration executes {steps:g} instructions, and the probe declares {work.bytes:g} bytes"


def _control(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """The control is the body less the boundary, or a boundary of its own, whose calls the probe declares."""
    calls = _each(counts.control_calls, counts)
    if probe.control_calls and calls is not None and abs(calls - probe.control_calls) > _TOLERANCE:
        return f"its control makes {calls:g} system calls, and the probe declares {probe.control_calls}"
    if not any(metric.source == "difference" for metric in probe.metrics) and not probe.calls:
        return None
    for what, body, control in (
        ("system calls", counts.calls, counts.control_calls),
        ("instructions", counts.instructions, counts.control_instructions),
    ):
        of_body, of_control = _each(body, counts), _each(control, counts)
        if of_body is not None and of_control is not None and of_body >= 0 and of_control > of_body * (1 + _TOLERANCE):
            return f"its control makes {of_control:g} {what} an iteration, and its body {of_body:g}"
    is_body = probe.calls and (calls or 0.0) > _TOLERANCE * probe.calls
    return f"its control makes {calls:g} of the body's system calls an iteration" if is_body else None


def _turns(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    steps, turn = _each(counts.instructions, counts), _TURNS.get(outcome.point.abi, _TURN)
    if steps is None or steps == turn or CONTROL_LOOP not in _means(probe):
        return None
    return f"a turn of its loop of {turn} instructions executes {steps:g}"


def _sizes(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """A buffer of a size has that size, and each of its bytes counts once."""
    size, means = outcome.point.values().get("size"), _means(probe)
    if not isinstance(size, int) or not means & {WALK, *BANDWIDTHS}:
        return None
    had = counts.chase_bytes if WALK in means else counts.buffer_bytes
    if had < _LEAST_USED * size:
        return f"it works on {had} bytes, and its size is {size}"
    if WALK not in means and outcome.work.bytes > size * (1 + _TOLERANCE):
        return f"one iteration goes through {size} bytes, and the probe declares {outcome.work.bytes:g}"
    return None


def _order(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Of a few cells most are neighbours. A cell a line: a second one would be a hit, and a line that has none is not
    part of the size."""
    if counts.chase_bytes < _LEAST_ORDERED_BYTES or WALK not in _means(probe):
        return None
    if counts.chase_in_order > _MOST_IN_ORDER:
        return "its walk goes through the buffer in the order of its addresses, which is prefetched"
    if counts.chase_stride != counts.line_bytes:
        return f"its walk has a cell every {counts.chase_stride} bytes, and a line has {counts.line_bytes}"
    is_local = outcome.point.values().get("pages") == "local"
    if counts.chase_bytes < _LEAST_PAGES * counts.page_bytes or is_local or not 0 < counts.chase_pages < _FEW_PAGES:
        return None
    return f"its walk is not random: 256 steps lead to {counts.chase_pages} pages"


def _operations(work: Work) -> float:
    return work.operations or 1.0


Rule = Callable[[Counted, Outcome, Probe], str | None]
IN_SHORT: Sequence[Rule] = (_calls, _work_of, _control, _turns, _sizes, _order, _around_boundary, _entered)
IN_LENGTH: Sequence[Rule] = (_long_batches, _short_batches)
