# SPDX-License-Identifier: Apache-2.0
"""The page of two runs, A and B: their differences, both memories and tolls, and every chart of both. Two runs of one
system also get the changed rows; two machines get ratios, and no "faster" or "slower"."""

from __future__ import annotations

from typing import Any

from tollmeter.exit_codes import INCONCLUSIVE
from tollmeter.judgement.compare import NOT_CALLED_CHANGED, compare, machine_differences
from tollmeter.model import Failure, Results
from tollmeter.report import tables
from tollmeter.report.blocks import Table
from tollmeter.report.charts import SIDES, Overlay, overlaid
from tollmeter.report.charts.chart import benches
from tollmeter.report.compared import memory_of, tolls_table, worth
from tollmeter.report.compared_rows import Compared, not_compared, revisions, row_table, run_differences, run_name
from tollmeter.report.page import BESIDE_MEMORY, rendered


def two(runs: tuple[Results, Results]) -> Overlay:
    """Returns two runs with their common charts. Raises Failure (4) if no chart has points that both runs measured; the
    chart of steadiness, which every run has, does not count."""
    drawn = overlaid(runs, labels(runs))
    if not any(chart.probes for chart in drawn.charts):
        first, second = map(run_name, runs)
        raise Failure(f"{first} and {second} have no chart in common: {_why_none(runs)}", INCONCLUSIVE)
    return drawn


def render(pair: Overlay) -> str:
    """Returns the page's text."""
    return rendered("overlay.html", pair.charts, _words(pair), "overlay.css")


def labels(runs: tuple[Results, Results]) -> tuple[str, str]:
    """Returns a label for each run, with the first property in which the two differ: CPU, kernel, name or start."""
    first, second = (
        (tables.cpu_of(results.index.machine), results.index.machine.kernel, run_name(results),
         results.index.run.started) for results in runs
    )  # fmt: skip
    names = next((both for both in zip(first, second, strict=True) if both[0] != both[1]), (first[2], second[2]))
    return f"{SIDES[0]} · {names[0]}", f"{SIDES[1]} · {names[1]}"


def _why_none(runs: tuple[Results, Results]) -> str:
    clocks = [{bench.clock for bench in benches(results)} for results in runs]
    probes = [{row.probe for row in results.index.rows if row.status == "ok"} for results in runs]
    if not probes[0] & probes[1]:
        return "no probe has a number in both"
    if not clocks[0] & clocks[1]:
        return "they were timed by clocks of different kinds"
    if not probes[0] & probes[1] - {*revisions(runs)}:
        return "all probes of both have different revisions"
    return "too few points were measured in both"


def _words(pair: Overlay) -> dict[str, Any]:
    differ, others, same = run_differences(pair.runs, SIDES)
    return {
        "run": pair.runs[0].index.run,
        "sides": [_side(*side) for side in zip(pair.runs, SIDES, pair.labels, strict=True)],
        "differ": differ,
        "others": others,
        "same": same,
        "apart": not_compared(pair.runs),
        "changed": changed_rows(pair.runs),
        "memory": memory_of(pair.runs, SIDES),
        "tolls": tolls_table(pair.runs, SIDES, whole=False),
        "all_tolls": tolls_table(pair.runs, SIDES, whole=True),
        "curves": [group for group in pair.groups if group[0].name in BESIDE_MEMORY],
        "groups": [group for group in pair.groups if group[0].general and group[0].name not in BESIDE_MEMORY],
        "single": [group for group in pair.groups if not group[0].general],
        "only": [(letter, titles) for letter, titles in zip(SIDES, pair.only, strict=True) if titles],
    }


def _side(results: Results, letter: str, label: str) -> dict[str, Any]:
    """Returns the template's words for one of the two runs, in the head and beside the memory tables."""
    return {
        "letter": letter, "label": label, "facts": tables.facts_of(results.index.machine),
        "over": f"toll run {results.index.run.suite} · {tables.when(results)} · {tables.extent(results)}",
        "worth": worth(results),
        "no_levels": tables.no_levels(results),
    }  # fmt: skip


def changed_rows(runs: tuple[Results, Results]) -> Table | None:
    """Returns the table of changed rows; None for two systems, or if nothing changed."""
    old, new = (results.index for results in runs)
    if machine_differences(old.machine, new.machine):
        return None
    compared = Compared(runs, SIDES, (compare(old, new),))
    changes = (change for change in compared.comparisons[0].changes if change.verdict not in NOT_CALLED_CHANGED)
    return row_table(compared, [compared.key(change.old) for change in changes])
