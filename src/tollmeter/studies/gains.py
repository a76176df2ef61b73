# SPDX-License-Identifier: Apache-2.0
"""Whether an ABI is worth it here: one sentence from what a study's programs need under it."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import Relative
from tollmeter.numbers.units import in_percent

_FLOOR = 0.005
"""Half a percent rounds to nothing: it is neither saved nor lost."""
MULTIPLE = 5
"""From this share on a change is printed as a multiple: +30066 % is unreadable."""
EMULATED = "It ran under an emulator, whose time is not the target's."
THIN = f"Its numbers rest on fewer than {LEAST_VISITS} visits each: a longer --budget decides."


def gains(abi: str, mend: str, relatives: Sequence[Relative], counted: Sequence[tuple[str, float]] = ()) -> str:
    """What the programs say, without the primitives below them; empty if none was measured. Numbers without an interval
    decide nothing. mend: how its time could be measured. counted: what it would save by counts, as a share of the time,
    of fully known programs."""
    programs = [relative for relative in relatives if relative.abi == abi and not relative.primitive]
    numbers = [relative for relative in programs if relative.value is not None]
    memory = [number for number in numbers if number.measure in ("memory", "asked") and not number.thin]
    time = [relative for relative in numbers if relative.measure == "time" and not relative.thin]
    if not programs:
        return ""
    instructions = [number for number in numbers if number.measure in ("instructions", "counted")]
    if not memory and not time:
        why = THIN if numbers else programs[0].reason or mend
        return f"Whether {abi} is worth it here is unknown. {why}"
    asked = any(number.measure == "asked" for number in memory)
    space = _saved(memory, "memory of malloc" if asked else "memory") if memory else ""
    head = f"{_verdict(abi, memory, time)} {space}".rstrip()
    if time:
        return f"{head} {_saved(time, 'CPU time')}"
    if instructions:
        return f"{head} {_saved(instructions, 'instructions')} {EMULATED}"
    late = any(relative.measure == "time" for relative in numbers)
    untimed = next((program.reason for program in programs if program.measure == "time" and program.reason), mend)
    why = _lower(THIN if late else untimed)
    if counted:
        return f"{head} {_by_counts(counted)}; its time was not measured: {why}"
    return f"{head} What it would save in time is unknown{' yet' if late else ''}: {why}"


def _by_counts(counted: Sequence[tuple[str, float]]) -> str:
    """The most and the least of it, by program."""
    ranked = sorted(counted, key=lambda one: -one[1])
    several = dict.fromkeys((ranked[0], ranked[-1]))
    shares = " to ".join(f"{_signed(share)} of the time ({what})" for what, share in several)
    return f"By counts it would save {shares}"


def _signed(share: float) -> str:
    return "nothing" if abs(share) < _FLOOR else f"{'-' if share < 0 else ''}{in_percent(abs(share))}"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _verdict(abi: str, memory: Sequence[Relative], time: Sequence[Relative]) -> str:
    """Without a time it is worth what it saves of memory."""
    faster = [relative for relative in time if relative.high is not None and relative.high < 1 - _FLOOR]
    slower = [relative for relative in time if relative.low is not None and relative.low > 1 + _FLOOR]
    if faster and not slower:
        return f"{abi} is worth it here, for {_names(faster)}."
    if faster:
        return f"{abi} is worth it here for {_names(faster)}, and is not for {_names(slower)}."
    smaller = [relative for relative in memory if (relative.value or 1) < 1 - _FLOOR]
    if 2 * len(smaller) > len(memory):
        most = f": {len(smaller)} of {len(memory)} programs need less" if len(memory) > 1 and not time else ""
        return f"{abi} is worth it here where memory is short{most}{_but(time, slower)}."
    if smaller:
        return f"{abi} is not worth it here: it saves memory for {_names(smaller)} alone{_but(time, slower)}."
    return f"{abi} is not worth it here." if time else f"{abi} saves no memory here."


def _but(time: Sequence[Relative], slower: Sequence[Relative]) -> str:
    costs = f": it costs some for {_names(slower)}" if slower else ""
    return f", and saves no time{costs}" if time else ""


def _names(several: Sequence[Relative]) -> str:
    """Some names have commas of their own."""
    return "; ".join(relative.what for relative in several)


def _saved(several: Sequence[Relative], of: str) -> str:
    """The most and the least of it, by program."""
    ranked = sorted(several, key=lambda relative: relative.value or 1.0)
    most, least = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"It needs {_change(most)} {of} ({most.what})."
    return f"It needs {_change(most)} ({most.what}) to {_change(least)} {of} ({least.what})."


def _change(relative: Relative) -> str:
    share = (relative.value or 1.0) - 1
    if abs(share) < _FLOOR:
        return "as much"
    if share + 1 >= MULTIPLE:
        return f"{share + 1:.0f} times the"
    return f"{in_percent(abs(share))} {'less' if share < 0 else 'more'}"
