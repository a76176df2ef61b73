# SPDX-License-Identifier: Apache-2.0
"""Compared runs as sentences and tables for terminal, Markdown and page: what differs between the runs, which rows
changed, and how many did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, log
from statistics import fmean, median

from tollmeter.judgement.changed_curves import curves, moved
from tollmeter.judgement.compare import UNCHANGED, Change, Comparison
from tollmeter.judgement.convergence import budget_beyond, budget_text
from tollmeter.model import PRECISION, Level, Results
from tollmeter.numbers.readings import RATES, is_time
from tollmeter.report import run_verdict, tables
from tollmeter.report.compared_rows import (
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
from tollmeter.report.tables import Column, Line, Table, table

MOST_REASONS = 4
LONGEST_S = 4 * 3600
"""A budget beyond this is not advised."""
Block = Table | str


def blocks(compared: Compared, *, whole: bool) -> list[Block]:
    """All that is printed. whole: every row and every reason."""
    return [*head(compared), *_machines(compared, whole), *_rows(compared, whole), *counts(compared, whole=whole)]


# ---- what differs between the runs ----------------------------------------------------------------------------------


def head(compared: Compared) -> list[Block]:
    """Which runs these are, in what they differ, and what that means for the rows below."""
    first, *others = compared.labels
    if compared.by:
        results = compared.runs[0]
        return [f"{run_name(results)}: {compared.by} {', '.join(others)} over {first}. {_worth(results)}"]
    runs = [_run(label, results) for label, results in zip(compared.labels, compared.runs, strict=True)]
    differing = differences(compared.runs, compared.labels)
    listed = [one for one in (differing.differ, differing.others) if one is not None]
    apart = not_compared((compared.runs[0], compared.runs[1])) if len(others) == 1 else []
    return [*runs, *listed, *apart, *_attributed(compared)]


def _run(label: str, results: Results) -> str:
    name = run_name(results)
    named = name if label == name else f"{label}: {name}"
    return f"{named}, {tables.when(results)}, {tables.extent(results)}. {_worth(results)}"


def _worth(results: Results) -> str:
    """The verdict of a run, and what is missing of it."""
    run = results.index.run
    unfinished = "" if run.verdict == "interrupted" else tables.unfinished(results)
    sentences = (f"{run_verdict.word(run)}: {run_verdict.meaning(results)}.", unfinished, run.damage)
    return tables.upper(" ".join(filter(None, sentences)))


def _attributed(compared: Compared) -> list[str]:
    """To what changes are attributed, where it is not the code."""
    if compared.machines:
        return ["Two machines are compared: times are not converted into cycles, and no change has a cause."]
    named = zip(compared.labels[1:], compared.comparisons, strict=True)
    return [sentence for label, one in named if (sentence := attribution(one, label))]


def attribution(comparison: Comparison, label: str) -> str:
    """Empty where every change is one of the code."""
    blamed = sum(change.cause == "machine" for change in comparison.changes)
    if not blamed:
        return ""
    if any(not part.startswith("the ") for part in comparison.differences) or comparison.control is None:
        return (
            f"{label}: the systems differ, so none of the {blamed} changes is attributed to the code. "
            "To compare the machines: --machines."
        )
    direction = "higher" if comparison.control > 1 else "lower"
    return (
        f"{label}: the core clock is {percent(comparison.control - 1)} {direction}. "
        f"The {blamed} changes of rows that do not follow it are not attributed to the code."
    )


# ---- machines -------------------------------------------------------------------------------------------------------


def _machines(compared: Compared, whole: bool) -> list[Block]:
    """Memory and tolls of two or more machines side by side."""
    if not compared.machines:
        return []
    return [one for one in (memory_levels(compared), tolls(compared, whole)) if one is not None]


def memory_levels(compared: Compared) -> Table | None:
    """The levels by name, in the order of the reference and then of the others."""
    by_name = [{level.level: level for level in results.index.hierarchy} for results in compared.runs]
    names = dict.fromkeys(name for levels in by_name for name in levels)
    lines = [Line((name, *(_size(levels.get(name)) for levels in by_name),
                   *(of_level(levels[name]) if name in levels else DASH for levels in by_name)))
             for name in names]  # fmt: skip
    sizes, latencies = ([Column(f"{word} {label}", True) for label in compared.labels] for word in ("size", "latency"))
    return table("Memory", [Column("Memory"), *sizes, *latencies], lines) if lines else None


def _size(level: Level | None) -> tables.Cell:
    return size_of_level(level) if level and level.size_bytes else DASH


def tolls(compared: Compared, whole: bool) -> Table | None:
    """Of two machines, as their page has them. whole: or else the few that represent all."""
    from tollmeter.report.overlay import tolls_table

    if len(compared.runs) != 2:
        return None
    return tolls_table((compared.runs[0], compared.runs[1]), whole=whole)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _rows(compared: Compared, whole: bool) -> list[Block]:
    """The rows that changed, and the curves of which several did; or every row."""
    by_key = compared.by_key()
    if whole or compared.machines:
        table = row_table(compared, by_key if whole else [])
        return [table] if table else []
    drawn = [curves(comparison.changes) for comparison in compared.comparisons]
    in_curves = {id(change) for some in drawn for curve in some for change in curve.changes}
    table = row_table(compared, [key for key, several in by_key.items() if _is_shown(several, in_curves)])
    naming = Naming(compared)
    sentences = [
        f"{f'{label}: ' if len(compared.labels) > 2 else ''}{curve_in_words(curve, naming, boundaries)}"
        for label, some, results in zip(compared.labels[1:], drawn, compared.runs[1:], strict=True)
        for boundaries in [() if compared.by else moved(compared.runs[0].index.hierarchy, results.index.hierarchy)]
        for curve in some
    ]
    return [*([table] if table else []), *sentences]


def _is_shown(several: Sequence[Change | None], in_curves: set[int]) -> bool:
    return any(
        change is not None and change.verdict not in UNCHANGED and id(change) not in in_curves for change in several
    )


def counts(compared: Compared, *, whole: bool = False) -> list[Block]:
    """How many rows changed, how many did not, how many are inconclusive or not compared, and what would decide."""
    old, *others = compared.labels
    sentences: list[Block] = []
    for label, one, results in zip(others, compared.comparisons, compared.runs[1:], strict=True):
        of = f"{label}: " if len(others) > 1 else ""
        decided = "" if compared.machines else _decided_by(one, results)
        sentences += [f"{of}{part}" for part in (_counted(one), decided, _refused(one, (old, label), whole)) if part]
    return [*sentences, *geometric_mean(compared)]


def _counted(comparison: Comparison) -> str:
    kinds = Counter(change.verdict for change in comparison.changes)
    directions = Counter(direction(change) for change in comparison.changes)
    changed = [
        f"{directions[each]} {each}" for each in ("slower", "faster", "more", "less", "differs") if directions[each]
    ]
    rows = len(comparison.changes)
    if not rows:
        return "No row has a number in both."
    listed = f" ({', '.join(changed)})" if changed else ""
    return (
        f"{rows - kinds['same'] - kinds['cannot tell']} of {count(rows)} rows changed{listed}, "
        f"{kinds['same']} are the same within {percent(PRECISION)}, {kinds['cannot tell']} are inconclusive."
    )


def _decided_by(comparison: Comparison, results: Results) -> str:
    """Visits and budget that decide half of the decidable inconclusive rows, and the count of the others."""
    open_ = [change for change in comparison.changes if change.verdict == "cannot tell"]
    wanted = [change.visits_wanted / max(1, min(change.old.visits, change.new.visits)) for change in open_
              if change.visits_wanted]  # fmt: skip
    never = len(open_) - len(wanted)
    runs = f"No longer run decides {never} of the inconclusive rows: `toll run ... --against` compares in one run."
    if not wanted:
        return runs if never else ""
    seconds = median(wanted) * results.index.run.seconds
    budget = f", --budget {budget_text(int(budget_beyond(0, seconds)))}," if seconds <= LONGEST_S else ""
    half = f"About {plain(median(wanted), 2)} times the visits{budget} would decide {len(wanted) // 2 + 1} of them."
    return f"{half} {runs if never else ''}".strip()


def _refused(comparison: Comparison, labels: tuple[str, str], whole: bool) -> str:
    """The reasons why rows are not compared, the most frequent first."""
    if not comparison.refused:
        return ""
    words = [refusal.reason if whole else refusal.reason.partition(":")[0] for refusal in comparison.refused]
    reasons = Counter(_with_labels(word, labels) for word in words).most_common()
    shown = reasons if whole else reasons[:MOST_REASONS]
    left = sum(number for _, number in reasons[len(shown) :])
    more = f"; other reasons ({left})" if left else ""
    listed = "; ".join(f"{reason} ({number})" for reason, number in shown)
    return f"{count(len(comparison.refused))} rows are not compared: {listed}{more}."


def _with_labels(reason: str, labels: tuple[str, str]) -> str:
    """The reason with the runs' own labels, where these are not old and new."""
    if labels == ("old", "new"):
        return reason
    named = zip(("the old run", "the new run"), labels, strict=True)
    return next((reason.replace(run, label) for run, label in named if run in reason), reason)


def geometric_mean(compared: Compared) -> list[str]:
    """Of the times and rates that all runs have, as ratios of costs; no sentence where there are no two such rows."""
    every = [[change for change in several if change is not None] for several in compared.by_key().values()]
    whole = [several for several in every if len(several) == len(compared.comparisons) and is_time(several[0].new.unit)]
    if len(whole) < 2:
        return []
    means = [exp(fmean(_log_cost(several[place]) for several in whole)) for place in range(len(compared.comparisons))]
    old, *others = compared.labels
    named = (f"{label} {plain(mean, 4)}" for label, mean in zip(others, means, strict=True))
    text = ", ".join(named) if len(means) > 1 else plain(means[0], 4)
    return [
        f"Geometric mean of the costs over {old}, of the {count(len(whole))} times and rates that all have: {text}."
    ]


def _log_cost(change: Change) -> float:
    return -log(change.ratio.value) if change.new.unit in RATES else log(change.ratio.value)
