# SPDX-License-Identifier: Apache-2.0
"""Frozen records that every layer shares. Imports nothing of ours.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless said.
"""

from __future__ import annotations

from tollmeter.model.asked import (
    Beside,
    BreakEven,
    Option,
    Point,
    Published,
    PublishedShare,
    RowOf,
    Select,
    Suite,
    Visit,
)
from tollmeter.model.base import (
    INDEX_FORMAT,
    PRECISION,
    UNITS,
    Better,
    ClaimVerdict,
    Clock,
    Failure,
    InferenceKind,
    Portion,
    Priority,
    Record,
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
    Lengths,
    Level,
    Row,
    State,
    Study,
    Toll,
)
from tollmeter.model.described import Abi, Build, Cache, Machine, Metric, Parameter, Probe, Role
from tollmeter.model.measured import ClockReading, Outcome, RunInfo, Sample, Witness, Work
from tollmeter.model.profiled import Profile, Share

__all__ = [
    "INDEX_FORMAT", "PRECISION", "UNITS", "Abi", "Beside", "Better", "Book", "BreakEven", "Build", "Cache", "Claim",
    "ClaimVerdict", "Clock", "ClockReading", "Evidence", "Failure", "Fall", "Finding", "Index", "Inference",
    "InferenceKind", "Lengths", "Level", "Machine", "Metric", "Option", "Outcome", "Parameter", "Point", "Portion",
    "Priority", "Probe", "Profile", "Published", "PublishedShare", "Record", "Role", "Row", "RowOf", "RunInfo",
    "RunVerdict", "Sample", "Select", "Severity", "Share", "Source", "State", "StateName", "Status", "Study", "Suite",
    "Toll", "Unit", "Value", "Visit", "Witness", "Work",
]  # fmt: skip
