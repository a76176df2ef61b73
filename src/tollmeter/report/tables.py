# SPDX-License-Identifier: Apache-2.0
"""The first screen as data: head line, memory table, toll table, findings, closing sentences.

Terminal, Markdown and page print these words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from tollmeter.experiment.evidence import REASONS, disturbances
from tollmeter.experiment.taken import Taken, chunks
from tollmeter.inference.core_kinds import slowest_remote
from tollmeter.inference.hierarchy import MEMORY, OR_MEMORY, bytes_left, disagrees, may_be_shared_rest, os_sizes
from tollmeter.model import BEYOND, Evidence, Finding, Index, Level, Machine, Results, Row, RunInfo, Sample, Toll
from tollmeter.numbers.meanings import meaning, native, native_outcomes, sizes_of, with_meaning
from tollmeter.report.blocks import Column, Figure, Line, Table, without_column
from tollmeter.report.microarchitecture import microarchitecture
from tollmeter.report.numbers import (
    DASH,
    about,
    count,
    cycles_of_level,
    cycles_of_toll,
    duration,
    in_a_sentence,
    of_level,
    of_row,
    of_toll,
    percent,
    plain,
    quantity,
    reading_of_level,
    size,
    size_of_level,
    time,
    two_digits,
)
from tollmeter.report.run_verdict import is_under_way

CLOCKS = {
    "hardware": "",
    "virtual": "virtual time",
    "instructions": "counted instructions",
    "external": "timed from outside",
    "none": "no clock",
}
"""Names of clocks; a machine's own clock needs none."""
SIGNS = {"error": "!!", "warning": "!", "note": "i"}
"""Signs of findings by severity, gravest first."""
NO_LEVELS = "No memory table: the latency curve has too few sizes, or intervals too wide, to resolve its levels."
UNASKED = "no size that surely lies there was asked for"
PAGE = "report.html"


def facts_of(machine: Machine) -> tuple[str, ...]:
    """Returns the parts of the head line: CPU, number of CPUs, memory, kernel, hypervisor, measured clock."""
    memory = machine.memory_bytes / (1 << 30)
    guest = f"{machine.hypervisor} guest" if machine.hypervisor else "no hypervisor seen"
    parts = [cpu_of(machine), count(machine.cpus, "CPU")]
    parts += [f"{plain(memory, 2)} GiB" if memory >= 1 else str(size(machine.memory_bytes)), machine.kernel, guest]
    if machine.core_clock_hz:
        parts.append(f"{machine.core_clock_hz / 1e9:.2f} GHz")
    return tuple(parts)


def cpu_of(machine: Machine) -> str:
    """Returns `AMD EPYC (Zen 3)`: with the microarchitecture if the name does not contain it."""
    name, of = short_cpu(machine.cpu), microarchitecture(machine)
    return f"{name} ({of})" if of and of.lower() not in name.lower() else name


def short_cpu(name: str) -> str:
    """Returns a CPU's name without trademarks and without words that carry no information."""
    return re.sub(r"\s+", " ", re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b", " ", name)).strip() or name


def extent(results: Results) -> str:
    """Returns the duration of a run and its number of rows, in words."""
    return f"{duration(results.index.run.seconds)}, {count(len(results.index.rows), 'row')}"


def when(results: Results) -> str:
    """Returns the date and time at which the run started, in words; as recorded if it is not an ISO time."""
    try:
        started = datetime.fromisoformat(results.index.run.started)
    except ValueError:
        return results.index.run.started
    zone = started.strftime(" %Z") if started.tzinfo else ""
    return f"{started.day} {started.strftime('%B %Y, %H:%M')}{zone}"


def memory_table(results: Results) -> Table | None:
    """Returns a table with a line for each level, with the measured size and the system's; `≠` if the two differ by
    more than the interval explains. The last line is memory of another node, of the slowest pair of nodes, if it was
    measured. None without levels."""
    if not results.index.hierarchy:
        return None
    columns = [
        Column("Memory"),
        Column("measured size", True),
        Column(""),
        Column("OS says", True, spare=1),
        Column("latency", True),
        Column("cycles", True, spare=2),
        Column("read", True),
        Column("MLP", True, spare=3),
    ]
    *caches, farthest = [_level(level, results.index.machine) for level in results.index.hierarchy]
    lines = [*caches, *_unseen(results.index), farthest]
    own = native(results.index.rows, results.index.machine.architecture)
    slowest = slowest_remote(with_meaning(own, results.probes, "latency-of-node"))
    if slowest is not None:
        node, home = (slowest.far.parameters[name] for name in ("node", "home"))
        note = f"{plain(slowest.ratio.value, 2)} times the latency of the node's own memory"
        lines.append(Line((f"node {home} from {node}", "", "", "", of_row(slowest.far), DASH, DASH, DASH), note))
    memory = Table(columns, lines)
    return memory if any(line.cells[2] for line in lines) else without_column(memory, 2)


def _unseen(index: Index) -> Iterator[Line]:
    """Yields the caches between the last measured one and memory that the system reports and no measured size shows."""
    *measured, farthest = (level.level for level in index.hierarchy)
    if farthest != MEMORY or not measured:
        return
    nearer = 1 if measured[-1] == "L1d" else int(measured[-1].removeprefix("L"))
    why = "no size has a latency between those of its neighbours"
    if any(row.shares for row in index.rows):
        why += ": CPUs outside this machine may use it"
    for cache in os_sizes(index.machine):
        if cache.level > nearer:
            yield Line((f"L{cache.level}", "", "", size(cache.size_bytes), *[DASH] * 4), why)


def _level(level: Level, machine: Machine) -> Line:
    """Returns the line of a level. Its note explains the size, or why there is none; it is empty if the size is the
    cache's."""
    left = bytes_left(level, machine)
    if may_be_shared_rest(level, machine):
        last = os_sizes(machine)[-1].level
        note = f"the system reports no such cache: it may be L{last}, of which CPUs outside this machine use a part"
    elif level.level.endswith(OR_MEMORY):
        note = "few buffers larger than the last cache were measured: this may be that cache or memory"
    elif level.size_low and not level.size_bytes:
        by_system = f"{size(level.os_size_bytes)} by the system; " if level.os_size_bytes else ""
        note = f"{by_system}at least {two_digits(level.size_low, 'B')} were left by the sibling hyperthread"
    elif left is not None:
        note = (
            f"at least {two_digits(left, 'B')} of it is available to this machine now; CPUs outside it may use the rest"
        )
    else:
        note = f"not resolved from {level.not_apart_from}: {level.not_apart_why}" if level.not_apart_from else ""
    cells = (
        level.level,
        size_of_level(level) if level.size_bytes else "",
        "≠" if disagrees(level, machine) else "",
        size(level.os_size_bytes) if level.os_size_bytes else "",
        of_level(level),
        cycles_of_level(level),
        reading_of_level(level),
        plain(level.parallelism, 2) if level.parallelism else DASH,
    )
    return Line(cells, note)


def no_levels(results: Results) -> str:
    """Returns why a run has no memory table although it walked through memory of several sizes. Adds the time of a load
    at the largest size within half of each reported data cache, and at the largest size of all, through huge pages if
    these were measured. Empty if the run has a table, or walked through one size only."""
    machine = results.index.machine
    walks = with_meaning(native(results.index.rows, machine.architecture), results.probes, "latency-of-size")
    sized = [row for row in walks if isinstance(row.parameters.get("size"), int)]
    walked = [row for row in sized if row.parameters.get("pages") == "huge"] or sized
    by_size = {int(row.parameters["size"]): row for row in walked}
    if results.index.hierarchy or len(by_size) < 2:
        return ""
    caches = machine.data_sizes().values()
    reached = {max((size for size in by_size if size <= bytes_ / 2), default=0) for bytes_ in caches}
    shown = sorted(reached - {0} | {max(by_size)})
    latencies = [f"{in_a_sentence(of_row(by_size[bytes_]))} in {size(bytes_)}" for bytes_ in shown]
    return f"{NO_LEVELS} A load takes {', '.join(latencies)}."


def unread_levels(results: Results) -> tuple[str, ...]:
    """Returns a sentence for each reason why levels have no rate or no parallelism."""
    reads, loads = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for level in results.index.hierarchy:
        if level.read_bytes_per_second is None:
            reads[level.read_missing or UNASKED].append(level.level)
        if level.parallelism is None:
            loads[level.parallelism_missing or UNASKED].append(level.level)
    named = (("read bandwidth", reads), ("parallelism", loads))
    return tuple(f"No {name} of {', '.join(levels)}: {why}." for name, gaps in named for why, levels in gaps.items())


BESIDE = 2
"""Index of the toll table's column beside the time: over all samples, or in cycles."""


def toll_table(results: Results, tolls: Sequence[Toll] | None = None) -> Table | None:
    """Returns the table of tolls: those with a number, cheapest first; then those without one, with the reason. tolls:
    all tolls of the run, unless given. None if no toll has a number."""
    tolls = results.index.tolls if tolls is None else tolls
    paid = [toll for toll in tolls if toll.value is not None]
    if not paid:
        return None
    both = any(was_contended(toll) for toll in paid)
    columns = [Column("Tolls"), Column("uncontended" if both else "time", True)]
    lines = [toll_line(toll, both=both) for toll in (*paid, *(toll for toll in tolls if toll.value is None))]
    spare = 0 if any(map(_is_only_beside, lines)) else 2
    columns += [Column("all samples" if both else "in cycles", True, spare=spare), Column("per ms", True, spare=1)]
    return Table(columns, lines)


def toll_line(toll: Toll, *, both: bool) -> Line:
    """Returns the line of a toll. both: whether the table has two columns of times, of the uncontended core and over
    all samples."""
    if toll.value is None:
        return Line((toll.toll, DASH, DASH, DASH), f"no number: {toll.reason}")
    is_beside = both and toll.states and toll.states[0].state == "all"  # the uncontended core was measured too rarely
    return Line((toll.toll, DASH if is_beside else of_toll(toll), _beside_time(toll, both=both),
                 about(1e6 / toll.value)), toll.note)  # fmt: skip


def _is_only_beside(line: Line) -> bool:
    """Returns whether a toll has only the value over all samples."""
    return line.cells[BESIDE - 1] == DASH and isinstance(line.cells[BESIDE], Figure)


def brief(table: Table | None) -> Table | None:
    """Returns the table of a first screen, without notes. The column after the time makes lines wrap on a narrow
    terminal, so it is kept only if it has a second value for at least half of the tolls, or the only value of a
    toll."""
    if table is None:
        return None
    bare = replace(table, rows=tuple(replace(row, note="") for row in table.rows))
    with_figure = [row for row in table.rows if isinstance(row.cells[BESIDE], Figure)]
    keeps = 2 * len(with_figure) >= len(table.rows) or any(map(_is_only_beside, table.rows))
    return bare if keeps else without_column(bare, BESIDE)


def _beside_time(toll: Toll, *, both: bool) -> Figure | str:
    """Returns the column after the time. both: the time over all samples; else the time in cycles."""
    if not both:
        return cycles_of_toll(toll)
    given = next((state for state in toll.states if state.state == "all"), None)
    if given is None:
        return DASH
    return of_toll(toll) if given is toll.states[0] else time(given.median, given.low, given.high)


def was_contended(toll: Toll) -> bool:
    """Returns whether the two values of tolls, on an uncontended core and over all samples, need separate columns."""
    states = [state.state for state in toll.states]
    return "contended" in states or states[:1] == ["all"]


def findings(results: Results) -> tuple[Finding, ...]:
    """Returns the findings, gravest first, otherwise in their own order."""
    return tuple(sorted(results.index.findings, key=lambda finding: list(SIGNS).index(finding.severity)))


def with_sizes(named: str, results: Results) -> str:
    """Returns a row's name, in which sizes among its parameters are in words."""
    sizes = frozenset[str]().union(*map(sizes_of, results.probes.values()))
    return re.sub(r"\b(\w+)=(\d+)\b", lambda m: f"{m[1]}={size(int(m[2])) if m[1] in sizes else m[2]}", named)


def evidence(item: Evidence, results: Results) -> str:
    """Returns one number in evidence of a claim, with its unit."""
    what = with_sizes(item.what, results)
    value = item.value if isinstance(item.value, str) else str(quantity(item.value, item.unit))
    unit = item.unit if isinstance(item.value, str) else ""
    return " ".join(filter(None, (f"{what}:", value, unit)))


def known_answers(results: Results) -> dict[str, str]:
    """Returns the ends of the hierarchy and of the toll table in words, by the meaning of their rows."""
    levels = [level for level in results.index.hierarchy if level.latency_ns]
    parts = {}
    if len(levels) > 1:
        near, far = (f"{in_a_sentence(of_level(level))} from {level.level}" for level in (levels[0], levels[-1]))
        parts["latency-of-size"] = f"a load takes {near} and {far}"
    paid = {
        meaning(toll, results.probes): toll for toll in reversed(results.index.tolls) if toll.typical and toll.value
    }
    named = (("entry", "a system call"), ("switch", "a process switch"))
    return parts | {
        means: f"{words} takes {in_a_sentence(of_toll(paid[means]))}" for means, words in named if means in paid
    }


def upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


Discarded = Mapping[str, tuple[int, Counter[str]]]
"""Number of samples, and reasons of the discarded ones, by probe."""


def discarded(results: Results) -> Discarded:
    """Returns by probe the number of samples and the reasons of the discarded ones. It reads every sample, so a report
    calls it once."""
    by_probe: dict[str, list[Sequence[Sample]]] = {}
    for outcome in results.outcomes:
        by_probe.setdefault(outcome.point.probe, []).append(outcome.samples)
    counts = {}
    for name, visits in by_probe.items():
        probe, reasons = results.probes.get(name), Counter[str]()
        for samples in chunks(visits):
            if probe is None:
                break
            why = disturbances(Taken(samples), [probe] * len(samples))
            for place in dict.fromkeys(why[why > 0].tolist()):
                reasons[REASONS[place] or ""] += int(np.count_nonzero(why == place))
        counts[name] = sum(map(len, visits)), reasons
    return counts


def discarded_in_words(counted: Discarded) -> str:
    """Returns the discarded samples of all probes in words; empty if no sample was taken."""
    taken = sum(taken for taken, _ in counted.values())
    why = sum((of_probe for _, of_probe in counted.values()), Counter[str]())
    causes = f" ({', '.join(reason for reason, _ in why.most_common(2))})" if why else ""
    return f"{count(why.total())} of {count(taken)} samples discarded{causes}" if taken else ""


def steadiness_sentence(results: Results) -> str:
    """Returns the variation of the visits' control loops: the range that contains nine of ten visits."""
    rates = np.array([rate for outcome in native_outcomes(results.outcomes) for rate in outcome.controls])
    rates = rates[rates > 0]
    if len(rates) < 4:
        return ""
    middle = float(np.median(rates))
    return f"control loop within {percent(float(np.quantile(np.abs(rates / middle - 1), 0.9)))} in nine of ten visits"


def gaps(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """Returns status, reason and number of rows for all rows without a number, the most frequent first; then the
    remarks of rows with a number."""
    without_number = Counter((row.status, row.reason or row.status) for row in rows if row.status != "ok")
    remarks = Counter(("remark", row.reason) for row in rows if row.status == "ok" and row.reason)
    return [(status, reason, rows_) for of in (without_number, remarks) for (status, reason), rows_ in of.most_common()]


def of_the_run(results: Results, counted: Discarded | None = None) -> dict[str, str]:
    """Returns by name the properties of the whole run: missing evidence, precision, and the steadiness of the machine.
    counted: the discarded samples, if they are counted already."""
    every = {
        "Unfinished": unfinished(results),
        "Discarded": discarded_in_words(discarded(results) if counted is None else counted),
        "Steady": steadiness_sentence(results), "Known": results.index.run.summary, "Missing": numbers_missing(results),
    }  # fmt: skip
    return {name: sentence for name, sentence in every.items() if sentence}


def run_remarks(run: RunInfo) -> dict[str, str]:
    """Returns by name the sentences on visits and points that were damaged, left out, reused or not counted."""
    every = {"Damaged": run.damage, "Left out": run.narrowed, "Reused": run.reused, "Not counted": run.uncounted}
    return {name: sentence for name, sentence in every.items() if sentence}


def numbers_missing(results: Results) -> str:
    """Returns a sentence on rows without a number; empty if every row has one."""
    without = [row for row in results.index.rows if row.status != "ok"]
    if not without:
        return ""
    kinds = Counter(row.status for row in without)
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in kinds.most_common())
    if len(results.index.rows) == 1:
        return f"The only row has no number: {without[0].status.replace('_', ' ')}"
    have = "has" if len(without) == 1 else "have"
    return f"{count(len(without))} of {count(len(results.index.rows))} rows {have} no number: {counts}"


def unfinished(results: Results) -> str:
    """Returns why the run is not complete; empty if it ended by itself, converged or with its budget spent."""
    sentences = {
        **dict.fromkeys(("ok", "settled", "budget"), ""),
        BEYOND: "A value beyond its limit ended it.",
        "interrupted": "It was stopped before its end: what is here was measured until then.",
        "measuring": "It was cut off while it measured: what is here was kept until then.",
    }
    status = results.index.run.status
    if is_under_way(results.index.run):
        return ""
    return sentences.get(status, f"It ended as: {status}.")


def report_path(results: Results) -> str | None:
    """Returns the path of this run's page, if it was written."""
    path = Path(results.index.run.folder) / PAGE
    try:
        return str(path) if path.is_file() else None
    except (OSError, ValueError):
        return None
