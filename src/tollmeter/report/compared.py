# SPDX-License-Identifier: Apache-2.0
"""Compared runs as sentences and tables for terminal, Markdown and page: the differences between the runs, the changed
rows, and the number of unchanged rows."""

from __future__ import annotations

from collections import Counter
from math import exp, log
from statistics import fmean, median

from tollmeter.judgement.compare import (
    NOT_CALLED_CHANGED,
    SAME_INSTRUCTIONS,
    TOO_WIDE,
    Change,
    Comparison,
    curves,
    moved,
)
from tollmeter.judgement.convergence import budget_beyond, budget_text
from tollmeter.model import PRECISION, Results
from tollmeter.numbers.readings import RATES, is_time
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Block, Column, Line, Table
from tollmeter.report.compared_rows import (
    SIGNS,
    Compared,
    Naming,
    curve_in_words,
    differences,
    direction,
    not_compared,
    row_table,
    run_name,
)
from tollmeter.report.numbers import DASH, count, of_level, percent, plain, size_of_level

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
        return [f"{run_name(results)}: {compared.by} {', '.join(others)} over {first}. {_worth(results)}"]
    head: list[Block] = []
    for label, results in zip(compared.labels, compared.runs, strict=True):
        name = run_name(results)
        named = name if label == name else f"{label}: {name}"
        head.append(f"{named}, {tables.when(results)}, {tables.extent(results)}. {_worth(results)}")
    *differing, _ = differences(compared.runs, compared.labels)
    head += [table for table in differing if table]
    if len(others) == 1:
        head += not_compared((compared.runs[0], compared.runs[1]))
    if compared.machines:
        return [*head, "Two machines are compared: times are not converted into cycles, and no change has a cause."]
    return [*head, *attributions(compared)]


def _worth(results: Results) -> str:
    """Returns the verdict of a run, and its missing evidence."""
    run = results.index.run
    unfinished = "" if run.verdict == "interrupted" else tables.unfinished(results)
    sentences = (f"{run_verdict.verdict_word(run)}: {run_verdict.verdict_meaning(results)}.", unfinished, run.damage)
    return tables.upper(" ".join(filter(None, sentences)))


def attributions(compared: Compared) -> list[str]:
    """Returns sentences that attribute the changes of each run, if not to the code."""
    named = zip(compared.comparisons, compared.labels[1:], strict=True)
    return [sentence for comparison, label in named if (sentence := attribution(comparison, label))]


def attribution(comparison: Comparison, label: str) -> str:
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
    """Returns the memory of several machines side by side, levels in the order of the reference and then of the others;
    for two machines also the tolls. whole: print all tolls rather than the few that represent all."""
    if not compared.machines:
        return []
    from tollmeter.report.overlay import tolls_table

    by_name = [{level.level: level for level in results.index.hierarchy} for results in compared.runs]
    lines = []
    for name in dict.fromkeys(name for levels in by_name for name in levels):
        levels = [of_run.get(name) for of_run in by_name]
        sizes = [size_of_level(level) if level and level.size_bytes else DASH for level in levels]
        lines.append(Line((name, *sizes, *(of_level(level) if level else DASH for level in levels))))
    columns = [Column(f"{word} {label}", True) for word in ("size", "latency") for label in compared.labels]
    memory = [Table([Column("Memory"), *columns], lines)] if lines else []
    tolls = tolls_table((compared.runs[0], compared.runs[1]), whole=whole) if len(compared.runs) == 2 else None
    return [*memory, *([tolls] if tolls else [])]


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
    legend = [f"~ the same within {percent(PRECISION)}, ? inconclusive."] if signs else []
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
        f"{kinds['same']} are the same within {percent(PRECISION)}, {kinds['cannot tell']} are inconclusive{of_these}."
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
    for refusal in comparison.refused:
        reason = refusal.reason if whole else refusal.reason.partition(":")[0]
        names = {} if labels == ("old", "new") else dict(zip(("the old run", "the new run"), labels, strict=True))
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
