# SPDX-License-Identifier: Apache-2.0
"""Tollmeter measures the toll of every boundary that code crosses on a machine, and says why it costs what it costs.

What stands in `__all__` is public, and keeps its meaning within a major version (docs/library.md). All else may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tollmeter.judgement.compare import Change, Comparison
    from tollmeter.library.run import Run, compare, derive, measure, open  # noqa: A004  that is what it does
    from tollmeter.model import Evidence, Failure, Finding, Level, Machine, Row, RunInfo, State

__version__ = "0.3.0"

__all__ = [
    "Change", "Comparison", "Evidence", "Failure", "Finding", "Level", "Machine", "Row", "Run", "RunInfo", "State",
    "compare", "derive", "measure", "open",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("Change", "Comparison"), "tollmeter.judgement.compare"),
    **dict.fromkeys(("Run", "compare", "derive", "measure", "open"), "tollmeter.library.run"),
    **dict.fromkeys(
        ("Evidence", "Failure", "Finding", "Level", "Machine", "Row", "RunInfo", "State"), "tollmeter.model"
    ),
}


def __getattr__(name: str) -> Any:
    """Brought when it is asked for: the command starts with most of it untouched."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tollmeter' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
