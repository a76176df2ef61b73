# SPDX-License-Identifier: Apache-2.0
"""Why a row of two runs is inconclusive, and how many visits would decide it."""

from __future__ import annotations

from math import ceil, inf, log

from tollmeter.experiment.precision import LEAST_LAYOUTS, LEAST_VISITS
from tollmeter.judgement.compare import Change, half_width
from tollmeter.model import PRECISION

_NORMAL = 1.959964
_CERTAIN = 1.5
"""Times the half-width of 95 % that a change has to exceed where many rows are judged together."""
STATES = {"whole": "uncontended", "shared": "contended", None: "of unknown state", "unknown": "of unknown state",
          "first": "bimodal", "second": "bimodal"}  # fmt: skip


def why_inconclusive(change: Change) -> str:
    """As a sentence's part; the width of the interval where nothing else is wrong."""
    old, new = change.old, change.new
    if old.state != new.state:
        return f"core {STATES[old.state]} in the old run and {STATES[new.state]} in the new run"
    few = min(old.visits, new.visits)
    if few < LEAST_VISITS:
        return f"{few} visit{'s' * (few != 1)}, and an interval takes {LEAST_VISITS}"
    if min(old.layouts, new.layouts) < LEAST_LAYOUTS:
        return "visits of one memory layout"
    return "the interval is too wide"


def visits_wanted(change: Change, runs_sd: float) -> int | None:
    """Visits of the row in each run with which it would be the same or changed, if its ratio stays what it is; None
    where runs of this machine differ by too much for any number. runs_sd: by how much, as a standard deviation of
    logarithms."""
    if change.old.state != change.new.state:
        return None
    of_runs = (_NORMAL * runs_sd) ** 2
    scatter = sum(max(0.0, half_width(row) ** 2 - of_runs) * row.visits for row in (change.old, change.new))
    room = _half_that_decides(change) ** 2 - 2 * of_runs
    has = min(change.old.visits, change.new.visits)
    return max(LEAST_VISITS, has + 1, ceil(scatter / room)) if room > 0 and scatter < inf else None


def _half_that_decides(change: Change) -> float:
    """The half-width, in logarithms, up to which a ratio is the same, or else changed."""
    distance = abs(log(change.ratio.value))
    return max(log(1 + PRECISION) - distance, distance / _CERTAIN)
