# SPDX-License-Identifier: Apache-2.0
"""Frozen records that every layer shares. Imports nothing of ours.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless said.
"""

from __future__ import annotations

from tollmeter.model.base import (
    INDEX_FORMAT,
    PRECISION,
    RATIO_PRECISION,
    REAL_CLOCKS,
    UNITS,
    Better,
    ClaimVerdict,
    Clock,
    Condition,
    Failure,
    InferenceKind,
    OpposedVerdict,
    PlaceRelation,
    Portion,
    Priority,
    Record,
    Relation,
    RunVerdict,
    Severity,
    Source,
    StateName,
    Status,
    Unit,
    Value,
)
from tollmeter.model.derived import (
    Book,
    Claim,
    Evidence,
    Fall,
    Finding,
    Index,
    Inference,
    KindAnswer,
    Lengths,
    Level,
    Opposed,
    Relative,
    Row,
    State,
    Study,
    Tally,
    Toll,
)
from tollmeter.model.described import Abi, Build, Cache, Kind, Machine, Metric, Parameter, Probe, Role
from tollmeter.model.measured import (
    ClockReading,
    Counted,
    Marks,
    Outcome,
    RunInfo,
    Sample,
    Surroundings,
    Uncompared,
    Witness,
    Work,
)
from tollmeter.model.profiled import Distances, Modelled, Profile, Share
from tollmeter.model.requested import (
    Archive,
    Bend,
    Beside,
    BreakEven,
    CacheModel,
    FigureLine,
    FigureMark,
    Listed,
    Option,
    Pair,
    Point,
    Program,
    Published,
    PublishedShare,
    RowOf,
    Select,
    StudyFigure,
    Suite,
    Visit,
    Workload,
)
from tollmeter.model.samples import Columns, Lanes, Room, Samples
from tollmeter.model.topology import CoreKind, HugePages, MemoryNode, Topology

__all__ = [
    "INDEX_FORMAT", "PRECISION", "RATIO_PRECISION", "REAL_CLOCKS", "UNITS", "Abi", "Archive", "Bend", "Beside",
    "Better", "Book", "BreakEven", "Build", "Cache", "CacheModel", "Claim", "ClaimVerdict", "Clock", "ClockReading",
    "Columns", "Condition", "CoreKind", "Counted", "Distances", "Evidence", "Failure", "Fall", "FigureLine",
    "FigureMark", "Finding", "HugePages", "Index", "Inference", "InferenceKind", "Kind", "KindAnswer", "Lanes",
    "Lengths", "Level", "Listed", "Machine", "Marks", "MemoryNode", "Metric", "Modelled", "Opposed", "OpposedVerdict",
    "Option", "Outcome", "Pair", "Parameter", "PlaceRelation", "Point", "Portion", "Priority", "Probe", "Profile",
    "Program", "Published", "PublishedShare", "Record", "Relation", "Relative", "Role", "Room", "Row", "RowOf",
    "RunInfo", "RunVerdict", "Sample", "Samples", "Select", "Severity", "Share", "Source", "State", "StateName",
    "Status", "Study", "StudyFigure", "Suite", "Surroundings", "Tally", "Toll", "Topology", "Uncompared", "Unit",
    "Value", "Visit", "Witness", "Work", "Workload",
]  # fmt: skip
