# SPDX-License-Identifier: Apache-2.0
"""Compares the work that a probe declares with the work that the system counted. A row without counts is not
refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from tollmeter.experiment.alike import FIRST_STEPS
from tollmeter.experiment.batches import BATCHES
from tollmeter.experiment.limits import ALIKE, HARDLY, INEXPLICABLE, LEAST_VALUES, MOSTLY
from tollmeter.model import Counted, Outcome, Probe, Work
from tollmeter.model.described import BANDWIDTHS
from tollmeter.numbers.plausible import WIDEST_LOAD_BYTES
from tollmeter.numbers.units import short

WALK, ENTRY, FUNCTION_CALL, CONTROL_LOOP = "latency-of-size", "entry", "function-call", "control-loop"
GUEST_EXITS, KERNEL_OPERATION = "guest-exits", "kernel-operation"
_TURN, _TURNS = 2, {"s390x": 1, "mipsel": 3, "sparc64": 3}
"""Instructions of one turn of a counting loop: an addition and a branch. On s390x one instruction does both; mips and
sparc have a third one, in the delay slot of the branch."""
_MOST_AROUND_ENTRY = 32
"""Largest number of instructions around an entry: they load the number and the arguments into registers, and a vDSO
adds some."""
_CALL_AND_RETURN = 2
_MOST_OF_SHORT = 1.7
"""Highest ratio of an iteration's cost in short batches to that in the longest. It is 2 or more if long batches do half
of the work. Most trials must exceed it, since a host that takes the CPU hides it in some trials."""
_COUNTABLE = {ENTRY, FUNCTION_CALL, CONTROL_LOOP}
_UNVERIFIED = "its work could not be verified: "
_LEAST_PAGES, _FEW_PAGES = 2 * FIRST_STEPS, FIRST_STEPS // 2
"""Smallest number of pages of a walk whose randomness is checked, and smallest number of pages that its first 256 steps
must enter. 256 random steps through 512 pages enter at least 200 pages; a walk that stays within a few pages enters
about 32."""


def contradicted(outcomes: Sequence[Outcome], probe: Probe) -> str | None:
    """Returns why no further visit can give the point a number: a count in one of its visits, or the times of the
    counted batches, contradict the probe's declaration. None if nothing contradicts it."""
    timed = next((outcome for outcome in outcomes if outcome.samples), None)
    for outcome in outcomes:
        if outcome.counted is None:
            continue
        for rule in _RULES:
            if why := rule(outcome.counted, outcome, probe):
                return why
        # If the samples of the counted visit are withheld, those of another visit are used.
        if timed and (why := _sampled(outcome.counted, outcome if outcome.samples else timed, probe)):
            return why
    return None


def remarks(outcomes: Sequence[Outcome], probe: Probe, *, counts: bool) -> list[str]:
    """Returns the remarks of a row: undeclared work of its batches, and whether its work could not be verified. counts:
    whether this run counts work; old runtimes do not, and their rows have no remark."""
    undeclared = [remark for outcome in outcomes if outcome.counted for remark in _undeclared(outcome.counted, probe)]
    return [*dict.fromkeys(undeclared), *filter(None, [unverified(outcomes, probe) if counts else None])]


def _undeclared(counts: Counted, probe: Probe) -> Iterator[str]:
    """Yields the work that batches did although the probe does not declare it: system calls, and descriptors and
    processes that were left."""
    calls = _each(counts.calls, counts) or 0.0
    if calls >= MOSTLY and not (probe.calls or probe.enters or probe.switches):
        noun = "system call" if calls == 1 else "system calls"
        yield f"one iteration makes {calls:g} {noun}, which the probe does not declare (.calls)"
    if counts.left_open:
        yield f"its batches left {counts.left_open} descriptors open"
    if counts.left_running:
        yield f"its batches left {counts.left_running} processes running"


def unverified(outcomes: Sequence[Outcome], probe: Probe) -> str | None:
    """Returns a remark if neither a count nor a time verifies the work of a row; else None. outcomes: visits on
    hardware, since an emulator's clock cannot verify work."""
    counts = next((outcome.counted for outcome in outcomes if outcome.counted), None)
    if counts is None:
        return f"{_UNVERIFIED}no visit counted it"
    if counts.calls is None and not outcomes[0].workers and (probe.calls or _means(probe) & _COUNTABLE):
        return f"{_UNVERIFIED}the system does not let system calls and instructions be counted"
    ratios = _short_over_long(counts.ladder)
    if all(_share_above(of_rung) < MOSTLY for of_rung in ratios):
        return None
    least, most = min(map(min, ratios)), max(map(max, ratios))
    times = f"{least:.1f} to {most:.1f} times"
    return f"{_UNVERIFIED}an iteration of a short batch took {times} as long as one of a long batch"


def _each(pair: tuple[int, int] | None, counts: Counted) -> float | None:
    """Returns the count of one iteration, without the work that each batch does once. pair: counts of batches of n and
    2n iterations; None if not counted."""
    return (pair[1] - pair[0]) / counts.iterations if pair else None


def _means(probe: Probe) -> set[str | None]:
    return {metric.means for metric in probe.metrics}


def _calls(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in the number of system calls of an operation. If a batch makes more calls than the
    counter's limit, the count is a lower bound."""
    calls, operations = _each(counts.calls, counts), _operations(outcome.work)
    declared = probe.calls or (1 if ENTRY in _means(probe) else 0)
    if calls is None and counts.most_calls > BATCHES * counts.iterations * operations * declared:
        calls = counts.most_calls / (BATCHES * counts.iterations)
    if not declared or calls is None or abs(calls / operations - declared) <= HARDLY * declared:
        return None
    stated = f"the probe declares {probe.calls} (.calls)" if probe.calls else "an entry is one (.calls)"
    return f"one operation makes {_of_calls(calls / operations)}, and {stated}"


def _long_batches(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction between long and short batches in calls or instructions. A probe that declares its calls
    makes no others. Without a declaration, a call in one of many iterations may be that of a device or library."""
    if probe.calls or (_each(counts.calls, counts) or 0.0) >= 1:
        tolerance = 0.0 if probe.calls else HARDLY
        if why := _of_long(counts.calls, counts.long_calls, counts, tolerance, "system calls"):
            return why
    return _of_long(counts.instructions, counts.long_instructions, counts, ALIKE, "instructions")


def _of_long(
    pair: tuple[int, int] | None, long: tuple[int, int] | None, counts: Counted, tolerance: float, events: str
) -> str | None:
    """Returns a contradiction if an iteration of a long batch does more or less work than one of a short batch. pair:
    counts of the two short batches. long: iterations and count of the long batch. tolerance: permitted relative
    difference. events: name of the counted events."""
    each = _each(pair, counts)
    if each is None or pair is None or long is None:
        return None
    once_a_batch, (iterations, count) = 2 * pair[0] - pair[1], long
    if abs(count - once_a_batch - each * iterations) <= tolerance * max(each * iterations, 1):
        return None
    return f"a batch of {iterations} iterations makes {count} {events}, and short ones {each:g} an iteration"


def _around_boundary(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in the instructions around a boundary: an entry has few, and a function call has at least
    two more than its control. If the counts exceed the counter's limit, this limit over the iterations of all batches
    is a lower bound."""
    instructions, control = _each(counts.instructions, counts), _each(counts.control_instructions, counts)
    instructions_at_least = (
        counts.most_steps / (BATCHES * counts.iterations)
        if instructions is None and counts.most_steps
        else instructions
    )
    if (
        instructions_at_least is not None
        and control is not None
        and instructions_at_least - control > _MOST_AROUND_ENTRY
        and ENTRY in _means(probe)
    ):
        return f"it executes {instructions_at_least - control:g} instructions around each entry"
    if (
        instructions is None
        or control is None
        or FUNCTION_CALL not in _means(probe)
        or instructions - control >= _CALL_AND_RETURN
    ):
        return None
    return f"its body executes {instructions:g} instructions and its control {control:g}: it neither calls nor returns"


def _short_batches(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction if a long batch does less work per iteration than a short one. Most trials must show it,
    since the machine can change within one trial, and so must the shortest times of all trials, since another workload
    can lengthen short batches alone. A probe whose workers take turns is exempt: its CPU is idle before each batch, and
    other work on the core empties its caches, so that short batches begin with misses."""
    if any(role.pace == "in turn" for role in probe.roles):
        return None
    least = [(length, *sorted(times)[:1]) for length, *times in filter(None, counts.ladder)]
    for ratios, of_least in zip(_short_over_long(counts.ladder), _short_over_long(least), strict=True):
        is_shown = len(ratios) >= LEAST_VALUES and _share_above(ratios) >= MOSTLY
        if is_shown and _share_above(of_least):
            return f"an iteration of a short batch takes {of_least[0]:.1f} times as long as one of a long batch"
    return None


def _short_over_long(ladder: Iterable[Sequence[int]]) -> list[list[float]]:
    """Returns for each shorter batch the cost of one iteration over that in the longest batch, one ratio for each
    trial. A cost is the added time of a batch over the next shorter one. The trials of all lengths alternate, so that a
    busy machine lengthens all of them. ladder: for each batch its iterations and its time in ns in each trial, the
    longest batch first."""
    costs = [
        [(longer_ns - shorter_ns) / (long - short) for longer_ns, shorter_ns in zip(of_long, of_short, strict=False)]
        for (long, *of_long), (short, *of_short) in pairwise(filter(None, ladder))
        if long > short
    ]
    return [
        [cost / whole for cost, whole in zip(costs_of_batch, costs[0], strict=False) if whole > 0]
        for costs_of_batch in costs[1:]
    ]


def _sampled(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction if an iteration takes far longer or shorter in samples than in counted batches, more than
    another cache, core or guest can explain."""
    if not counts.ladder or probe.roles or probe.switches or probe.spreads or probe.pauses:
        return None
    (length, *trials), sampled_ns = counts.ladder[0], min(one.body[1] / (2 * one.iterations) for one in outcome.samples)
    counted_ns = min(trials, default=0) / max(1, length)
    if min(sampled_ns, counted_ns) <= 0 or max(sampled_ns, counted_ns) <= INEXPLICABLE * min(sampled_ns, counted_ns):
        return None
    return (
        f"an iteration takes {short(sampled_ns, 'ns')} in samples and {short(counted_ns, 'ns')} in batches beside them"
    )


def _share_above(ratios: Sequence[float]) -> float:
    """Returns the share of the ratios above the limit for short batches."""
    return sum(ratio > _MOST_OF_SHORT for ratio in ratios) / len(ratios) if ratios else 0.0


def _entered(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction between the size of a buffer and the bytes of the pages that an iteration enters, for a
    buffer that is read in order."""
    size = outcome.point.values().get("size")
    if counts.entered is None or not isinstance(size, int) or not _means(probe) & set(BANDWIDTHS):
        return None
    iterations, once, twice = counts.entered
    each = (twice - once) / iterations
    if (1 - ALIKE) * size <= each <= (1 + ALIKE) * size:
        return None
    return f"one iteration goes through {each:.0f} bytes of its buffers, and its size is {size}"


def _work_of(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction between declared work and executed instructions. A processor starts at most one operation
    per instruction, except on vectors, which are counted in bytes or flops, and an instruction moves a limited number
    of bytes. Exempt are bodies that enter the kernel or run a guest, since the instructions there are not counted."""
    work, instructions, operations = outcome.work, _each(counts.instructions, counts), _operations(outcome.work)
    works_uncounted = _each(counts.calls, counts) or _means(probe) & {GUEST_EXITS, KERNEL_OPERATION}
    if instructions is None or works_uncounted:
        return None
    if not work.bytes and not work.flops and operations > instructions * (1 + HARDLY):
        return f"one iteration executes {instructions:g} instructions, and the probe declares {operations:g} operations"
    if work.bytes <= instructions * 2 * WIDEST_LOAD_BYTES * (1 + HARDLY):
        return None
    return f"one iteration executes {instructions:g} instructions, and the probe declares {work.bytes:g} bytes"


def _control(counts: Counted, _: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in the control, which does the work of the body without the boundary, and makes the
    system calls that the probe declares for it."""
    calls = _each(counts.control_calls, counts)
    if probe.control_calls and calls is not None and abs(calls - probe.control_calls) > HARDLY:
        return f"its control makes {_of_calls(calls)}, and the probe declares {probe.control_calls} (.control_calls)"
    if not any(metric.source == "difference" for metric in probe.metrics) and not probe.calls:
        return None
    for events, body, control in (
        ("system calls", counts.calls, counts.control_calls),
        ("instructions", counts.instructions, counts.control_instructions),
    ):
        of_body, of_control = _each(body, counts), _each(control, counts)
        if probe.control_calls and body is counts.calls:
            continue
        if of_body is None or of_control is None or of_body < 0:
            continue
        if of_control - of_body >= max(HARDLY * of_body, MOSTLY):
            return f"its control makes {of_control:g} {events} an iteration, and its body {of_body:g}"
    has_body_calls = probe.calls and not probe.control_calls and (calls or 0.0) > HARDLY * probe.calls
    if not has_body_calls:
        return None
    return (
        f"its control makes {_of_calls(calls or 0.0)} an iteration: declare them as .control_calls, or take them out "
        "of the control"
    )


def _of_calls(calls: float) -> str:
    """Returns a number of system calls in words."""
    return f"{calls:g} system call{'' if calls == 1 else 's'}"


def _turns(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in the instructions of one turn of a control loop."""
    instructions, turn = _each(counts.instructions, counts), _TURNS.get(outcome.point.abi, _TURN)
    if instructions is None or instructions == turn or CONTROL_LOOP not in _means(probe):
        return None
    return f"a turn of its loop of {turn} instructions executes {instructions:g}"


def _sizes(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in sizes: a buffer has at least its stated size, and each of its bytes counts once."""
    size, means = outcome.point.values().get("size"), _means(probe)
    if not isinstance(size, int) or not means & {WALK, *BANDWIDTHS}:
        return None
    buffer_bytes = counts.chase_bytes if WALK in means else counts.buffer_bytes
    if buffer_bytes < (1 - ALIKE) * size:
        return f"it works on {buffer_bytes} bytes, and its size is {size}"
    if WALK not in means and outcome.work.bytes > size * (1 + HARDLY):
        return f"one iteration goes through {size} bytes, and the probe declares {outcome.work.bytes:g}"
    return None


def _order(counts: Counted, outcome: Outcome, probe: Probe) -> str | None:
    """Returns a contradiction in the order of a walk: it is random, with one cell in each line. A second cell in a line
    would hit, and a line without a cell would not be part of the size. A walk of few cells is not judged, since most of
    its cells are neighbours."""
    if counts.chase_bytes < FIRST_STEPS * counts.line_bytes or WALK not in _means(probe):
        return None
    if counts.chase_in_order > MOSTLY:
        return "its walk goes through the buffer in the order of its addresses, which is prefetched"
    if counts.chase_stride != counts.line_bytes:
        return f"its walk has a cell every {counts.chase_stride} bytes, and a line has {counts.line_bytes}"
    is_local = outcome.point.values().get("pages") == "local"
    if counts.chase_bytes < _LEAST_PAGES * counts.page_bytes or is_local or not 0 < counts.chase_pages < _FEW_PAGES:
        return None
    return f"its walk is not random: 256 steps lead to {counts.chase_pages} pages"


def _operations(work: Work) -> float:
    """Returns the operations of one iteration; 1 if not declared."""
    return work.operations or 1.0


Rule = Callable[[Counted, Outcome, Probe], str | None]
_RULES: Sequence[Rule] = (
    _calls, _long_batches, _work_of, _control, _turns, _sizes, _order, _around_boundary, _entered, _short_batches,
)  # fmt: skip
