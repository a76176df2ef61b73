# SPDX-License-Identifier: Apache-2.0
"""Makes the inputs that `toll gate` judges: two stored runs of one system, or two commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tollmeter.judgement.compare import machine_differences
from tollmeter.judgement.gate import Decision, decide, of_change, of_pair
from tollmeter.library.command_metrics import judging
from tollmeter.library.comparing import compared
from tollmeter.library.limits import Limits
from tollmeter.library.options import TimeOptions
from tollmeter.library.timed import ratios
from tollmeter.model import Failure, Opposed, Results
from tollmeter.report.compared_rows import Compared, full_name
from tollmeter.report.gated import Gated
from tollmeter.report.timed import TIME

_LONGEST = 60
_OF_A_NAME = "host"
"""Fact that does not distinguish machines here: cloud machines of one kind have different names."""


def gated(base: str, new: str, limits: Limits) -> Gated:
    """Returns the result of a gate on two runs. base, new: names of runs. Raises Failure as `compared` does."""
    comparison = compared([base, new], None, machines=False)
    changes = [(full_name(change.old), change) for change in comparison.comparisons[0].changes]
    limited = [(name, change, limit) for name, change in changes if (limit := limits.of(name)) is not None]
    judged = [of_change(change, name, limit) for name, change, limit in limited]
    unused = (*limits.unused([name for name, _ in changes]), *limits.unmatched(comparison.runs[1]))
    obstacles = _unlike((comparison.runs[0], comparison.runs[1]))
    if all(row.reason for row in judged):
        obstacles = (*obstacles, "no row has enough visits in both runs")
    broken = tuple(limits.broken(comparison.runs[1]))
    return Gated(comparison, decide(judged), obstacles, unused, _missing(comparison, limits), broken)


def _missing(comparison: Compared, limits: Limits) -> tuple[str, ...]:
    """Returns the rows to judge that have a number in the reference and none in the new run: a build that breaks a
    probe is not faster."""
    base, new = ({full_name(row) for row in results.index.rows if row.status == "ok"} for results in comparison.runs)
    return tuple(sorted(name for name in base - new if limits.of(name) is not None))


def _unlike(runs: tuple[Results, Results]) -> tuple[str, ...]:
    """Returns why two runs cannot show a change of the code: only two quiet runs of one CPU model, kernel and system
    setting can."""
    base, new = (results.index for results in runs)
    systems = [part for part in machine_differences(base.machine, new.machine) if not part.startswith(f"{_OF_A_NAME} ")]
    named = (("base", base.run.verdict), ("new", new.run.verdict))
    short = (part if len(part) <= _LONGEST else f"{part.partition(' ')[0]} differs" for part in systems)
    return (*short, *(f"the {name} run is {verdict}" for name, verdict in named if verdict != "quiet"))


# ---- two commands ---------------------------------------------------------------------------------------------------

SEPARATOR = "--"
MEASURED_AT_MOST = 2

Measure = Callable[[Sequence[str], TimeOptions], Sequence[Opposed]]


def two_commands(words: Sequence[str]) -> tuple[str, str]:
    """Returns the two commands of BASE -- NEW. A side of one word is a command line; a side of several words is a
    command's arguments. Raises Failure (2)."""
    if words.count(SEPARATOR) != 1:
        raise Failure("expected two commands: `toll gate -- BASE -- NEW`")
    middle = words.index(SEPARATOR)
    base, new = words[:middle], words[middle + 1 :]
    if not base or not new:
        raise Failure("one of the two commands is empty: `toll gate -- BASE -- NEW`")
    base_line, new_line = (side[0] if len(side) == 1 else shlex.join(side) for side in (base, new))
    return base_line, new_line


def gated_commands(
    base: str, new: str, options: TimeOptions, measure: Measure = ratios
) -> tuple[Decision, list[Opposed]]:
    """Measures two commands. Returns the decision on NEW, and the ratios NEW over BASE, of which the last decides.
    options.precision: the limit, as a share, by which NEW may exceed BASE in time or in options.metrics. The gate fails
    if two measurements find NEW slower, since new processes have other memory layouts. Raises Failure as `timed` does,
    and 1 if the two cannot be compared."""
    metric = judging(options.metrics) or TIME
    measured: list[Opposed] = []
    decision = decide([])
    for _ in range(MEASURED_AT_MOST):
        measured.append(_ratio(measure([base, new], options), metric))
        decision = decide([of_pair(measured[-1], new, options.precision)])
        if decision.passes:
            break
    return decision, measured


def _ratio(pairs: Sequence[Opposed], metric: str) -> Opposed:
    """Returns the ratio of a pair. Raises Failure (1) if it has none."""
    ratio = next((change for change in pairs if change.metric == metric), None)
    if ratio is None:
        why = "it was 0 in too many runs" if any(change.metric == TIME for change in pairs) else "too few runs"
        raise Failure(f"the two commands have no ratio of {metric}: {why} in the budget", 1)
    return ratio
