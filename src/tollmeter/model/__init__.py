# SPDX-License-Identifier: Apache-2.0
"""Frozen records that every layer shares. Imports nothing of ours.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless said.
"""

from __future__ import annotations

from tollmeter.model.asked import Listed, Point, Published, RowOf, Select, Suite, Visit
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
from tollmeter.model.measured import ClockReading, Marks, Outcome, RunInfo, Sample, Witness, Work

__all__ = [
    "INDEX_FORMAT", "PRECISION", "UNITS", "Abi", "Better", "Book", "Build", "Cache", "Claim", "ClaimVerdict",
    "Clock", "ClockReading", "Evidence", "Failure", "Fall", "Finding", "Index", "Inference", "InferenceKind",
    "Lengths", "Level", "Listed", "Machine", "Marks", "Metric", "Outcome", "Parameter", "Point", "Portion",
    "Priority", "Probe", "Published", "Record", "Role", "Row", "RowOf", "RunInfo", "RunVerdict", "Sample", "Select",
    "Severity", "Source", "State", "StateName", "Status", "Study", "Suite", "Toll",
    "Unit", "Value", "Visit", "Witness", "Work",
]  # fmt: skip
