# SPDX-License-Identifier: Apache-2.0
"""Compares the needs of the programs of a study under another ABI with those under the main ABI, and writes a sentence
on whether the other ABI is an advantage here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from tollmeter.experiment.limits import LEAST_VISITS, NEGLIGIBLE
from tollmeter.model import Program, Relative, Results, Row, RowOf
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning
from tollmeter.numbers.units import in_percent
from tollmeter.studies.matching_rows import (
    COUNTED,
    NOT_TOGETHER,
    VIRTUAL,
    failure,
    matching,
    own_reason,
    ratio_of_rows,
)

Measure = Literal["memory", "asked", "time", "instructions", "counted"]


_CLOCKS: dict[Measure, Sequence[str]] = {
    "memory": ("hardware", VIRTUAL), "asked": (COUNTED,), "time": ("hardware",), "instructions": (VIRTUAL,),
    "counted": (COUNTED,),
}  # fmt: skip
"""Clocks of the rows that give each measure."""
_MEANS = {"memory": "resident-peak", "asked": "asked", "instructions": "cpu-time"}
"""Meaning of the metric that gives a measure. The other measures use the first metric of the probe: its work without
its set-up."""
_PER_CENT = re.compile(r"([+−-]?\d+(?:\.\d+)?) %")
MULTIPLE = 5
"""Ratio from which a change is printed as a multiple, since +30066 % is hard to read."""
EMULATED = "It ran under an emulator, whose time is not the target's."
THIN = f"Its numbers have fewer than {LEAST_VISITS} visits each: a longer --budget decides."


def relatives(results: Results) -> tuple[Relative, ...]:
    """Returns the lines of the programs, memory first, then in the order of the suite; empty for a suite without
    programs. The ABI of the suite is first."""
    suite, rows = results.suite, results.index.rows
    main = main_abi(rows, results.index.machine.architecture)
    if suite is None or main is None:
        return ()

    def others(program: Program) -> list[str]:
        abis = {row.abi for row in rows if row.probe == program.probe and row.abi != main}
        return sorted(abis, key=lambda abi: (abi != suite.worth, abi))

    return tuple(
        _relative(results, program, measure, abi, main)
        for measure in _CLOCKS
        for program in suite.program
        for abi in others(program)
        if measure in _measures(results, {abi, main})
    )


def _measures(results: Results, abis: set[str]) -> tuple[Measure, Measure]:
    """Returns the two measures by which this run can compare two ABIs. An emulator of single programs gives neither the
    memory nor the time of a program."""
    rows = [row for row in results.index.rows if row.abi in abis and row.status == "ok"]
    clocks = {row.clock for row in rows if row.metric == results.probes[row.probe].metrics[0].name}
    if "hardware" in clocks:
        return "memory", "time"
    return ("asked", "counted") if clocks == {COUNTED} else ("memory", "instructions")


def _relative(results: Results, program: Program, measure: Measure, abi: str, main: str) -> Relative:
    """Returns the need of a program under one ABI relative to that under `main`. The published value is added only for
    the ABI that the study describes."""
    abi_of_study = (results.suite.worth if results.suite else "") or abi
    published = program.memory if measure in ("memory", "asked") else program.time
    empty = Relative(what=program.what, primitive=program.primitive, measure=measure, abi=abi, over=main, target=None,
                    value=None, low=None, high=None, published=published if abi == abi_of_study else "")  # fmt: skip
    numerators, denominators = (_rows(results, program, measure, each) for each in (abi, main))
    pair = _first_comparable(numerators, denominators)
    if pair is None:
        return msgspec.structs.replace(empty, reason=_why_none(results, program, measure, (abi, main)))
    row, other = pair
    gained = ratio_of_rows(results, other, row)
    is_exact = measure in ("instructions", "counted")
    return msgspec.structs.replace(
        empty, target=row.target, value=gained.ratio.value, low=gained.ratio.low, high=gained.ratio.high,
        thin=not (is_exact or gained.is_known),
    )  # fmt: skip


def _first_comparable(numerators: Iterable[Row], denominators: Sequence[Row]) -> tuple[Row, Row] | None:
    """Returns the first numerator and the denominator of equal clock, parameters and target: this machine first, then
    by target. Counts may be of two targets, since each ABI has its own emulator of single programs, and all count in
    the same way."""
    for row in sorted(numerators, key=lambda row: (row.target != HERE, row.target)):
        for other in denominators:
            is_together = row.clock == COUNTED or row.target == other.target
            if is_together and (row.clock, row.parameters) == (other.clock, other.parameters):
                return row, other
    return None


def _rows(results: Results, program: Program, measure: Measure, abi: str) -> list[Row]:
    """Returns the rows that give a measure of a program under one ABI."""
    means, clocks = _MEANS.get(measure), _CLOCKS[measure]
    probe = results.probes.get(program.probe)
    if means:
        rows = with_meaning(results.index.rows, results.probes, means)
    else:
        rows = [row for row in results.index.rows if probe and row.metric == probe.metrics[0].name]
    return [
        row for row in rows if (row.probe, row.abi) == (program.probe, abi) and row.clock in clocks
        and (row.median or 0) > 0 and program.parameters.items() <= row.parameters.items()
    ]  # fmt: skip


def _why_none(results: Results, program: Program, measure: Measure, abis: tuple[str, str]) -> str:
    """Returns why a measure of a program cannot be compared under these ABIs."""
    if measure == "asked" and _rows(results, program, "counted", abis[0]):
        return f"{program.probe} does not count the bytes that it requests of malloc."
    for abi in abis:
        if _rows(results, program, measure, abi):
            continue
        wanted = RowOf(probe=program.probe, abi=abi, parameters=program.parameters)
        is_timed = any(row.clock == "hardware" for row in matching(results, wanted))
        if measure == "time" and not is_timed and results.suite and abi == results.suite.worth and results.suite.mend:
            return failure(results, wanted) or results.suite.mend
        return own_reason(results, wanted) or f"This run has no row of {program.probe} for {abi}."
    return NOT_TOGETHER


def published_ratio(relative: Relative) -> float | None:
    """Returns the published change in percent as a ratio; None if the study gives none."""
    match = _PER_CENT.search(relative.published)
    return 1 + float(match[1].replace("−", "-")) / 100 if match else None


# ---- the advantage of an ABI ----------------------------------------------------------------------------------------


def gains(abi: str, mend: str, relatives: Sequence[Relative], counted: Sequence[tuple[str, float]] = ()) -> str:
    """Returns a sentence on the advantage of an ABI for programs, without their primitives; empty if none was measured.
    Numbers without an interval decide nothing. mend: how its time could be measured. counted: program and share of its
    time that the ABI saves by counts, of programs with a complete attribution."""
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
    is_of_malloc = any(number.measure == "asked" for number in memory)
    memory_sentence = _saved(memory, "memory of malloc" if is_of_malloc else "memory") if memory else ""
    head = f"{_verdict(abi, memory, time)} {memory_sentence}".rstrip()
    if time:
        return f"{head} {_saved(time, 'time')}"
    if instructions:
        return f"{head} {_saved(instructions, 'instructions')} {EMULATED}"
    has_thin_time = any(relative.measure == "time" for relative in numbers)
    untimed = next((program.reason for program in programs if program.measure == "time" and program.reason), mend)
    why = THIN if has_thin_time else untimed
    why = why[:1].lower() + why[1:]
    if not counted:
        return f"{head} What it would save in time is unknown{' yet' if has_thin_time else ''}: {why}"
    ranked = sorted(counted, key=lambda program: -program[1])
    shares = []
    for program_words, share in dict.fromkeys((ranked[0], ranked[-1])):
        size = "nothing" if abs(share) < NEGLIGIBLE else f"{'-' if share < 0 else ''}{in_percent(abs(share))}"
        shares.append(f"{size} of the time ({program_words})")
    return f"{head} By counts it would save {' to '.join(shares)}; its time was not measured: {why}"


def _verdict(abi: str, memory: Sequence[Relative], time: Sequence[Relative]) -> str:
    """Returns the verdict on an ABI as a sentence. Without a time, it is judged by the memory that it saves."""
    faster = [relative for relative in time if relative.high is not None and relative.high < 1 - NEGLIGIBLE]
    slower = [relative for relative in time if relative.low is not None and relative.low > 1 + NEGLIGIBLE]
    if faster and not slower:
        return f"{abi} is worth it here, for {_names(faster)}."
    if faster:
        return f"{abi} is worth it here for {_names(faster)}, and is not for {_names(slower)}."
    costs = f": it costs some for {_names(slower)}" if slower else ""
    but = f", and saves no time{costs}" if time else ""
    smaller = [relative for relative in memory if (relative.high or 1) < 1 - NEGLIGIBLE]
    if 2 * len(smaller) > len(memory):
        most = f": {len(smaller)} of {len(memory)} programs need less" if len(memory) > 1 and not time else ""
        return f"{abi} is worth it here where memory is short{most}{but}."
    if smaller:
        return f"{abi} is not worth it here: it saves memory for {_names(smaller)} alone{but}."
    return f"{abi} is not worth it here." if time else f"{abi} saves no memory here."


def _names(programs: Sequence[Relative]) -> str:
    """Returns names as a list separated by semicolons, since some contain commas."""
    return "; ".join(relative.what for relative in programs)


def _saved(programs: Sequence[Relative], of: str) -> str:
    """Returns the highest and the lowest saving in a sentence, with the names of the programs. of: what is saved."""
    ranked = sorted(programs, key=lambda relative: relative.value or 1.0)
    most, least = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"It needs {_change(most)} {of} ({most.what})."
    return f"It needs {_change(most)} ({most.what}) to {_change(least)} {of} ({least.what})."


def _change(relative: Relative) -> str:
    """Returns a change in words: "20 % less"."""
    share = (relative.value or 1.0) - 1
    if abs(share) < NEGLIGIBLE or (relative.low or 1.0) <= 1 <= (relative.high or 1.0):
        return "as much"
    if share + 1 >= MULTIPLE:
        return f"{share + 1:.0f} times the"
    return f"{in_percent(abs(share))} {'less' if share < 0 else 'more'}"
