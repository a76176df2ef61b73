# SPDX-License-Identifier: Apache-2.0
"""The work that a probe declares, against what the system counted of it. What was not counted refuses nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tollmeter.model import Counted, Outcome, Probe, Work

WALK = "latency-of-size"
CONTROL_LOOP = "control-loop"
BANDWIDTHS = ("read-bandwidth-of-size", "write-bandwidth-of-size", "copy-bandwidth-of-size", "update-bandwidth-of-size")
_TOLERANCE = 0.01
_BYTES_OF_INSTRUCTION = 128
"""A load and a store of 64 bytes, or a pair of loads."""
_MOST_IN_ORDER, _LEAST_ORDERED_BYTES = 0.5, 16384
_LEAST_USED = 0.9
_MOST_OF_TURN = 3


def contradicted(outcomes: Sequence[Outcome], probe: Probe) -> str | None:
    """Why a point has no number: the count of one of its visits contradicts what its probe declares."""
    for outcome in outcomes:
        if outcome.counted is None:
            continue
        for rule in _RULES:
            why = rule(outcome.counted, outcome, probe)
            if why:
                return why
    return None


def _each(pair: tuple[int, int] | None, found: Counted) -> float | None:
    """Of one iteration: what both batches do once cancels."""
    return (pair[1] - pair[0]) / found.iterations if pair else None


def _calls(found: Counted, outcome: Outcome, probe: Probe) -> str | None:
    calls, operations = _each(found.calls, found), _operations(outcome.work)
    if not probe.calls or calls is None or abs(calls / operations - probe.calls) <= _TOLERANCE * probe.calls:
        return None
    return f"one operation makes {calls / operations:g} system calls, and the probe declares {probe.calls}"


def _operations_of(found: Counted, outcome: Outcome, _: Probe) -> str | None:
    """A processor starts no more operations than it executes instructions, but for those on vectors, which are counted
    as bytes or flops."""
    work, steps = outcome.work, _each(found.instructions, found)
    if steps is None or work.bytes or work.flops or _operations(work) <= steps * (1 + _TOLERANCE):
        return None
    return f"one iteration executes {steps:g} instructions, and the probe declares {_operations(work):g} operations"


def _bytes(found: Counted, outcome: Outcome, _: Probe) -> str | None:
    steps, calls = _each(found.instructions, found), _each(found.calls, found)
    if steps is None or calls or outcome.work.bytes <= steps * _BYTES_OF_INSTRUCTION * (1 + _TOLERANCE):
        return None
    return f"one iteration executes {steps:g} instructions, and the probe declares {outcome.work.bytes:g} bytes"


def _control(found: Counted, _: Outcome, probe: Probe) -> str | None:
    """The control is the body less the boundary."""
    if not any(metric.source == "difference" for metric in probe.metrics) and not probe.calls:
        return None
    for what, body, control in (
        ("system calls", found.calls, found.control_calls),
        ("instructions", found.instructions, found.control_instructions),
    ):
        whole, part = _each(body, found), _each(control, found)
        if whole is not None and part is not None and whole >= 0 and part > whole * (1 + _TOLERANCE):
            return f"its control makes {part:g} {what} an iteration, and its body {whole:g}"
    calls = _each(found.control_calls, found) or 0.0
    is_body = probe.calls and calls > _TOLERANCE * probe.calls
    return f"its control makes {calls:g} of the body's system calls an iteration" if is_body else None


def _turns(found: Counted, _: Outcome, probe: Probe) -> str | None:
    """Two instructions, and on some architectures one in the delay slot of the branch."""
    steps = _each(found.instructions, found)
    if steps is None or steps <= _MOST_OF_TURN or CONTROL_LOOP not in {metric.means for metric in probe.metrics}:
        return None
    return f"a turn of its loop of two instructions executes {steps:g}"


def _sizes(found: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """A buffer of a size has that size, and each of its bytes counts once."""
    size, means = outcome.point.values().get("size"), {metric.means for metric in probe.metrics}
    if not isinstance(size, int) or not means & {WALK, *BANDWIDTHS}:
        return None
    had = found.chase_bytes if WALK in means else found.buffer_bytes
    if had < _LEAST_USED * size:
        return f"it works on {had} bytes, and its size is {size}"
    if WALK not in means and outcome.work.bytes > size * (1 + _TOLERANCE):
        return f"one iteration goes through {size} bytes, and the probe declares {outcome.work.bytes:g}"
    return None


def _order(found: Counted, _: Outcome, probe: Probe) -> str | None:
    """Of a few cells most are neighbours."""
    few = found.chase_bytes < _LEAST_ORDERED_BYTES
    if few or found.chase_in_order <= _MOST_IN_ORDER or WALK not in {metric.means for metric in probe.metrics}:
        return None
    return "its walk goes through the buffer in the order of its addresses, which is prefetched"


def _operations(work: Work) -> float:
    return work.operations or 1.0


_RULES: Sequence[Callable[[Counted, Outcome, Probe], str | None]] = (
    _calls, _operations_of, _bytes, _control, _turns, _sizes, _order
)  # fmt: skip
