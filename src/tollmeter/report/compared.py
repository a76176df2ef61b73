# SPDX-License-Identifier: Apache-2.0
"""Compared runs as sentences and tables for terminal, Markdown and page: the differences between the runs, the changed
rows, and the number of unchanged rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import exp, isfinite, log
from statistics import fmean, median

import msgspec

from tollmeter.experiment.limits import LEAST_VISITS, SAME_WITHIN
from tollmeter.judgement.compare import (
    NOT_CALLED_CHANGED,
    SAME_INSTRUCTIONS,
    TOO_WIDE,
    Change,
    Comparison,
    curves,
    moved,
    ratio_of,
)
from tollmeter.judgement.convergence import budget_beyond, budget_text
from tollmeter.model import Results, Row, Toll
from tollmeter.numbers.readings import RATES, is_time
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Block, Column, Figure, Line, Table
from tollmeter.report.compared_rows import (
    SIGNS,
    Compared,
    Naming,
    comparable,
    curve_in_words,
    direction,
    not_compared,
    row_table,
    run_differences,
    run_name,
)
from tollmeter.report.numbers import DASH, MODES, count, guess, of_toll, percent, plain, quantity
from tollmeter.report.shown import best_known

MOST_REASONS = 4
LONGEST_S = 4 * 3600
"""Longest budget that is advised."""
BOUND = 0.1
"""Difference up to which inconclusive rows are counted separately: most relevant changes are larger."""


def blocks(compared: Compared, *, whole: bool) -> list[Block]:
    """Returns all printed blocks. whole: includes every row and every reason."""
    return [*_head(compared), *_machines(compared, whole), *_rows(compared, whole), *_counts(compared, whole)]


# ---- what differs between the runs ----------------------------------------------------------------------------------


def _head(compared: Compared) -> list[Block]:
    """Returns the names of the runs, their differences, and the consequence for the rows below."""
    first, *others = compared.labels
    if compared.by:
        results = compared.runs[0]
        return [f"{run_name(results)}: {compared.by} {', '.join(others)} over {first}. {worth(results)}"]
    head: list[Block] = []
    for label, results in zip(compared.labels, compared.runs, strict=True):
        name = run_name(results)
        named = name if label == name else f"{label}: {name}"
        head.append(f"{named}, {tables.when(results)}, {tables.extent(results)}. {worth(results)}")
    *differing, _ = run_differences(compared.runs, compared.labels)
    head += [table for table in differing if table]
    if len(others) == 1:
        head += not_compared((compared.runs[0], compared.runs[1]))
    if compared.machines:
        return [*head, "Two machines are compared: times are not converted into cycles, and no change has a cause."]
    return [*head, *cause_sentences(compared)]


def worth(results: Results) -> str:
    """Returns sentences on the verdict of a run, and on the evidence that it lacks."""
    run = results.index.run
    unfinished = "" if run.verdict == "interrupted" else tables.unfinished(results)
    sentences = (f"{run_verdict.verdict_word(run)}: {run_verdict.verdict_meaning(results)}.", unfinished, run.damage)
    return tables.upper(" ".join(filter(None, sentences)))


def cause_sentences(compared: Compared) -> list[str]:
    """Returns for each run the sentence on changes that are attributed to the machine, not to the code."""
    named = zip(compared.comparisons, compared.labels[1:], strict=True)
    return [sentence for comparison, label in named if (sentence := cause_sentence(comparison, label))]


def cause_sentence(comparison: Comparison, label: str) -> str:
    """Returns a sentence that attributes changes to the machine; empty if every change is attributed to the code."""
    counted = sum(change.cause == "machine" and change.same_instructions for change in comparison.changes)
    of_counted = f"{label}: {count(counted, 'change')}, {SAME_INSTRUCTIONS}." if counted else ""
    blamed = sum(change.cause == "machine" for change in comparison.changes) - counted
    if not blamed:
        return of_counted
    if any(not part.startswith("the ") for part in comparison.differences) or comparison.control is None:
        return (
            f"{label}: the systems differ, so none of {count(blamed, 'change')} is attributed to the code. "
            f"To compare the machines: --machines. {of_counted}"
        ).rstrip()
    direction = "higher" if comparison.control > 1 else "lower"
    return (
        f"{label}: the core clock is {percent(comparison.control - 1)} {direction}. "
        f"{count(blamed, 'change')} of rows that do not follow it: not attributed to the code. {of_counted}"
    ).rstrip()


# ---- machines -------------------------------------------------------------------------------------------------------


def _machines(compared: Compared, whole: bool) -> list[Block]:
    """Returns the memory of several machines side by side; for two machines also the tolls. whole: print all tolls
    rather than the few that represent all."""
    if not compared.machines:
        return []
    memory = memory_of(compared.runs, compared.labels)
    first, second, *others = compared.runs
    tolls = None if others else tolls_table((first, second), compared.labels, whole=whole)
    return [table for table in (memory, tolls) if table]


def memory_of(runs: Sequence[Results], labels: Sequence[str]) -> Table | None:
    """Returns each level of every run, main memory last; None if no run has a memory table."""
    every = [tables.memory_table(results) for results in runs]
    columns = max((memory.columns for memory in every if memory), key=len, default=())
    lines: dict[str, list[Line]] = {}
    for memory, label in zip(every, labels, strict=True):
        if memory is None:
            continue
        for line in memory.rows:
            cells = dict(zip((column.name for column in memory.columns), line.cells, strict=True))
            level = str(line.cells[0])
            others = (cells.get(column.name, "") for column in columns[1:])
            lines.setdefault(level, []).append(Line((f"{level} {label}", *others), line.note))
    order = sorted(lines, key=lambda level: not re.fullmatch(r"L\d.*", level))
    return Table(columns, [line for level in order for line in lines[level]]) if lines else None


_STATES = {
    "uncontended": "on an uncontended core", "all": "over all samples", "contended": "on a contended core",
    "unknown": "contention unknown",
}  # fmt: skip


def tolls_table(runs: tuple[Results, Results], labels: Sequence[str], *, whole: bool) -> Table | None:
    """Returns the tolls of either run, the first run's before others, cheapest first, with the ratio. whole: all of
    them, and not only the best known."""
    both = comparable(runs)
    first, second = ({_key(toll): toll for toll in results.index.tolls} for results in both)
    few = {_key(toll) for results in both for toll in best_known(results)} & first.keys() & second.keys()
    lines = []
    for key in {**first, **second}:
        tolls = first.get(key), second.get(key)
        named = tolls[0] or tolls[1]
        if named and (whole or key in few) and any(toll and toll.value is not None for toll in tolls):
            cells = [of_toll(toll) if toll and toll.value is not None else DASH for toll in tolls]
            ratio, note = _toll_ratio(both, labels, *tolls)
            lines.append(Line((named.toll, *cells, ratio), note))
    columns = [Column("toll"), *(Column(name, right=True) for name in (*labels, f"{labels[1]} / {labels[0]}"))]
    return Table(columns, lines, "All tolls" if whole else "Tolls") if lines else None


def _key(toll: Toll) -> tuple[object, ...]:
    return toll.probe, toll.metric, tuple(sorted(toll.parameters.items()))


def _toll_ratio(
    runs: tuple[Results, Results], labels: Sequence[str], first: Toll | None, second: Toll | None
) -> tuple[Figure | str, str]:
    """Returns the second run's toll over the first's, with its interval if both have one; or why there is none."""
    for toll, label in zip((first, second), labels, strict=True):
        if toll is None or toll.value is None:
            return DASH, f"no number in {label}: {toll.reason if toll and toll.reason else 'not measured'}"
    assert first is not None and second is not None
    states = [toll.states[0].state if toll.states else "unknown" for toll in (first, second)]
    if any(state in MODES for state in states):
        return DASH, "bimodal: one of two costs"
    note = f"{labels[0]} {_STATES[states[0]]}, {labels[1]} {_STATES[states[1]]}" if states[0] != states[1] else ""
    ratio = ratio_of(_in_ns(runs[0], first), _in_ns(runs[1], second))
    if min(first.visits, second.visits) < LEAST_VISITS or not isfinite(ratio.high):
        return guess(ratio.value, "ratio"), note
    return quantity(ratio.value, "ratio", ratio.low, ratio.high), note


def _in_ns(results: Results, toll: Toll) -> Row:
    """Returns the row of a toll, in the toll's unit."""
    place = (toll.probe, toll.metric, toll.abi, toll.target, toll.parameters, "hardware")
    row = next(row for row in results.index.rows
               if (row.probe, row.metric, row.abi, row.target, row.parameters, row.clock) == place)  # fmt: skip
    return msgspec.structs.replace(row, unit=toll.unit, median=toll.value, low=toll.low, high=toll.high)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _rows(compared: Compared, whole: bool) -> list[Block]:
    """Returns the rows that changed, and the curves with several changed rows; or every row."""
    by_key, sentences = compared.by_key(), []
    in_curves: set[int] = set()
    if whole or compared.machines:
        keys = list(by_key) if whole else []
    else:
        naming, several = Naming(compared), len(compared.labels) > 2
        others = zip(compared.labels[1:], compared.comparisons, compared.runs[1:], strict=True)
        for label, comparison, results in others:
            boundaries = [] if compared.by else moved(compared.runs[0].index.hierarchy, results.index.hierarchy)
            for curve in curves(comparison.changes):
                in_curves.update(map(id, curve.changes))
                sentences.append(f"{label}: " * several + curve_in_words(curve, naming, boundaries))
        keys = [key for key, changes in by_key.items()
                if any(change and change.verdict not in NOT_CALLED_CHANGED and id(change) not in in_curves
                       for change in changes)]  # fmt: skip
    table = row_table(compared, keys)
    signs = table and any(str(cell)[:1] in SIGNS.values() or str(cell)[-1:] in SIGNS.values()
                          for line in table.rows for cell in line.cells)  # fmt: skip
    legend = [f"~ the same within {percent(SAME_WITHIN)}, ? inconclusive."] if signs else []
    return [*([table] if table else []), *legend, *sentences]


def _counts(compared: Compared, whole: bool) -> list[Block]:
    """Returns how many rows changed, did not change, are inconclusive or are not compared, and what would decide the
    inconclusive rows."""
    old, *others = compared.labels
    sentences: list[Block] = []
    for label, comparison, results in zip(others, compared.comparisons, compared.runs[1:], strict=True):
        of = f"{label}: " if len(others) > 1 else ""
        decided = "" if compared.machines else _decided_by(comparison, results)
        parts = _counted(comparison), decided, _refused(comparison, (old, label), whole)
        sentences += [f"{of}{part}" for part in parts if part]
    return [*sentences, *_geometric_mean(compared)]


def _counted(comparison: Comparison) -> str:
    if not comparison.changes:
        return "No row has a number in both."
    kinds = Counter(change.verdict for change in comparison.changes)
    directions = Counter(map(direction, comparison.changes))
    changed = ", ".join(
        f"{directions[each]} {each}" for each in ("slower", "faster", "more", "less", "differs") if directions[each]
    )
    rows = len(comparison.changes)
    listed = f" ({changed})" if changed else ""
    bounded = sum(map(_is_bounded, comparison.changes))
    of_these = f", of which {bounded} differ by at most {percent(BOUND)}" if bounded else ""
    return (
        f"{rows - kinds['same'] - kinds['cannot tell']} of {count(rows)} rows changed{listed}, "
        f"{kinds['same']} are the same within {percent(SAME_WITHIN)}, "
        f"{kinds['cannot tell']} are inconclusive{of_these}."
    )


def _is_bounded(change: Change) -> bool:
    """Returns whether a row is inconclusive and the interval of its ratio lies within the bound."""
    low, high = change.ratio.low, change.ratio.high
    is_wide = change.verdict == "cannot tell" and change.reason == TOO_WIDE
    return is_wide and low is not None and high is not None and low * (1 + BOUND) >= 1 and high <= 1 + BOUND


def _decided_by(comparison: Comparison, results: Results) -> str:
    """Returns the visits and budget that decide half of the decidable inconclusive rows, and the number of the
    others."""
    inconclusive = [change for change in comparison.changes if change.verdict == "cannot tell"]
    times = [change.visits_wanted / max(1, min(change.old.visits, change.new.visits)) for change in inconclusive
             if change.visits_wanted]  # fmt: skip
    never = len(inconclusive) - len(times)
    sentences = []
    if times:
        seconds = median(times) * results.index.run.seconds
        budget = f", --budget {budget_text(int(budget_beyond(0, seconds)))}," if seconds <= LONGEST_S else ""
        half = len(times) // 2 + 1
        sentences.append(f"About {plain(median(times), 2)} times the visits{budget} would decide {half} of them.")
    if never:
        sentences.append(
            f"No longer run decides {never} of the inconclusive rows: `toll run ... --against` compares in one run."
        )
    return " ".join(sentences)


def _refused(comparison: Comparison, labels: tuple[str, str], whole: bool) -> str:
    """Returns the reasons why rows are not compared, the most frequent first, with the runs' labels if these are not
    old and new."""
    if not comparison.refused:
        return ""
    words: Counter[str] = Counter()
    names = {} if labels == ("old", "new") else dict(zip(("the old run", "the new run"), labels, strict=True))
    for refusal in comparison.refused:
        reason = refusal.reason if whole else refusal.reason.partition(":")[0]
        named = next((reason.replace(run, label) for run, label in names.items() if run in reason), reason)
        words[named] += 1
    shown = words.most_common(None if whole else MOST_REASONS)
    left = len(comparison.refused) - sum(number for _, number in shown)
    more = f"; other reasons ({left})" if left else ""
    listed = "; ".join(f"{reason} ({number})" for reason, number in shown)
    return f"Not compared: {count(len(comparison.refused), 'row')}: {listed}{more}."


def _geometric_mean(compared: Compared) -> list[str]:
    """Returns the geometric mean over the times and rates that all runs have, as ratios of costs; empty for fewer than
    two rows."""
    costs = []
    for changes in compared.by_key().values():
        complete = [change for change in changes if change is not None]
        if len(complete) == len(compared.comparisons) and is_time(complete[0].new.unit):
            costs.append([(-1 if change.new.unit in RATES else 1) * log(change.ratio.value) for change in complete])
    if len(costs) < 2:
        return []
    old, *others = compared.labels
    means = [plain(exp(fmean(of_run)), 4) for of_run in zip(*costs, strict=True)]
    named = [f"{label} {mean}" for label, mean in zip(others, means, strict=True)] if len(means) > 1 else means
    which = f"of the {count(len(costs))} times and rates that all have"
    return [f"Geometric mean of the costs over {old}, {which}: {', '.join(named)}."]
