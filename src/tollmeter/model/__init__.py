# SPDX-License-Identifier: Apache-2.0
"""Immutable records that every layer uses. This package imports no other package of Tollmeter.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless stated."""

from __future__ import annotations

from tollmeter.model.base import *
from tollmeter.model.derived import *
from tollmeter.model.described import *
from tollmeter.model.measured import *
from tollmeter.model.requested import *
from tollmeter.model.samples import *
from tollmeter.model.topology import *

__all__ = [
    "BEST_KNOWN", "BEYOND", "DISTORTING", "INDEX_FORMAT", "KERNEL", "LEAST_CHANGE", "PRECISION", "RANKS",
    "RATIO_PRECISION", "REAL_CLOCKS", "STOPPED", "UNITS",
    "Abi", "Archive", "Bend", "Beside", "Better", "BreakEven", "Build", "Cache", "CacheModel", "Charge",
    "Claim", "ClaimVerdict", "Clock", "ClockReading", "Columns", "Condition", "CoreKind", "Counted", "Distances",
    "EventCounts", "EventRate", "EventSource",
    "Evidence", "Failure", "Fall", "FigureLine", "FigureMark", "Finding", "HugePages", "Index", "Inference",
    "InferenceKind", "Kind", "KindAnswer", "Lanes", "Lengths", "Level", "Listed", "Machine", "Marks", "MemoryNode",
    "Metric", "Modelled", "Opposed", "OpposedVerdict", "Option", "Outcome", "Pair", "Parameter", "PlaceRelation",
    "Point", "Portion", "Priority", "Probe", "Profile", "Program", "Proof", "Published", "PublishedShare", "Rank",
    "Record", "Relation", "Relative", "Results", "Role", "Room", "Row", "RowOf", "RunInfo", "RunVerdict", "Sample",
    "Samples",
    "Select", "Setting", "Severity", "Share", "Source", "State", "StateName", "Status", "Study", "StudyFigure", "Suite",
    "Surroundings", "Tally", "Toll", "Topology", "Uncompared", "Unit", "Value", "Visit", "Witness", "Work",
    "Workload", "key_of", "layout_seed", "machine_key",
]  # fmt: skip
