# SPDX-License-Identifier: Apache-2.0
"""Tollmeter measures the toll of every boundary that code crosses on a machine, and explains the cost.

The names in `__all__` are public, and keep their meaning within a major version (docs/library.md). All other names may
change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tollmeter.version import VERSION

if TYPE_CHECKING:
    from tollmeter.experiment.precision import Estimate
    from tollmeter.judgement.compare import Change, Comparison, Refusal
    from tollmeter.library.measured_run import Run, RunComparison, compare, derive, measure, open  # noqa: A004  that is what it does
    from tollmeter.model import *

__version__ = VERSION

__all__ = [
    "Archive", "Bend", "Beside", "BreakEven", "Build", "Cache", "CacheModel", "Change", "Claim", "ClockReading",
    "Comparison", "CoreKind", "Counted", "Distances", "Estimate", "EventCounts", "EventRate", "Evidence", "Failure",
    "Fall", "FigureLine",
    "FigureMark", "Finding", "HugePages", "Index", "Inference", "Kind", "KindAnswer", "Lengths", "Level", "Listed",
    "Machine", "Marks", "MemoryNode", "Metric", "Modelled", "Opposed", "Option", "Outcome", "Parameter", "Point",
    "Probe", "Profile", "Program", "Published", "PublishedShare", "Refusal", "Relative", "Results", "Role", "Row",
    "RowOf", "Run", "RunComparison", "RunInfo", "Sample", "Select", "Setting", "Share", "State", "Study", "StudyFigure",
    "Suite", "Surroundings", "Tally", "Toll", "Topology", "Uncompared", "Witness", "Work", "Workload", "compare",
    "derive", "measure", "open",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(__all__, "tollmeter.model"),
    **dict.fromkeys(("Change", "Comparison", "Refusal"), "tollmeter.judgement.compare"),
    **dict.fromkeys(("Run", "RunComparison", "compare", "derive", "measure", "open"), "tollmeter.library.measured_run"),
    "Estimate": "tollmeter.experiment.precision",
}
"""The module of each public name; a module is imported when a name of it is first used."""


if not TYPE_CHECKING:  # a type checker would take any name for one of type Any

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'tollmeter' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
