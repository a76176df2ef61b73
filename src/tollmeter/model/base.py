# SPDX-License-Identifier: Apache-2.0
"""The base of all records, and failures. This module imports no other module of Tollmeter.

Units are last in a name; a rate is per second; a size is in bytes; a time is in nanoseconds unless stated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Annotated, Literal

import msgspec

Better = Literal["less", "more", "neither"]
Source = Literal["body", "control", "difference", "companions", "together", "gauge"]
Clock = Literal["hardware", "virtual", "instructions", "external", "none"]
REAL_CLOCKS: tuple[Clock, ...] = ("hardware", "external")
"""Clocks that measure real time: the hardware clock of the machine, and the clock of a host at the other end of a
line."""
Status = Literal["ok", "failed", "wrong_answer", "timeout", "unsupported", "unstable", "interrupted", "infrastructure"]
Priority = Literal["normal", "real-time"]
StateName = Literal["uncontended", "all", "contended", "unknown", "first", "second"]
RunVerdict = Literal["quiet", "unknown", "busy", "held back", "too short", "interrupted"]
OpposedVerdict = Literal["slower", "faster", "differs", "cannot tell"]
ClaimVerdict = Literal["holds", "same direction", "does not hold", "cannot tell"]
Relation = Literal[
    "", "shown", "about", "change", "same", "at least", "at most", "more", "less", "ordering", "crossing",
]  # fmt: skip
"""Relation between a study's number and this machine's. `shown`: a number of the study's own machine, which no other
machine can confirm or contradict."""
Condition = Literal["own clock", "strict CPU", "prefetch off"]
"""Condition under which a study's claim was made (studies/study.py)."""
PlaceRelation = Literal[
    "same thread", "sibling thread", "same cluster", "same last-level cache", "same package", "other package",
    "other node",
]  # fmt: skip
"""Relation of the CPUs of two workers, nearest first. The nearest that holds is used."""
Severity = Literal["note", "warning", "error"]
Rank = Literal["prevents", "distorts", "costs", "information"]
"""Effect of a finding on the user: it prevents or distorts measuring, costs performance, or is information."""
RANKS: tuple[Rank, ...] = ("prevents", "distorts", "costs", "information")
"""Ranks, gravest first."""
DISTORTING: tuple[Rank, ...] = ("prevents", "distorts")
"""Ranks of findings that make a machine unfit for measuring."""
Proof = Literal["measured", "counted", "read"]
"""Basis of a finding: a time or rate of this run, a count of the system during the run, or a setting that was read."""
InferenceKind = Literal[
    "line", "ways", "translations", "translation_miss", "write_back", "write_allocate", "store_that_fits",
    "reload_after_store", "prefetched", "prefetch_gain", "yardstick", "reading_share", "efficiency", "slowdown",
    "idle_latency", "latency_at_share", "loaded_latency", "latency_rise", "most_traffic", "latency_knee",
    "held", "worker_efficiency", "cost_of_worker",
]  # fmt: skip
EventSource = Literal["pmu", "pmu in user mode", "account", "trace"]
"""Source of an event count: the CPU's counters with the kernel's part, or without it; the kernel's accounts; or a
traced copy of the process."""
Value = int | str
UNITS = ("ns", "cycle", "instruction", "B/s", "bit/s", "flop/s", "op/s", "B", "fault", "ratio", "count", "J")
Unit = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(UNITS)})$")]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
"""Number of bytes or pages, within the range of real machines."""
Portion = Annotated[float, msgspec.Meta(ge=0, le=1)]
INDEX_FORMAT = 3
"""Format number of the document of `toll show RUN --format json`. Format 3 has `converged`, `discarded`, `withheld` and
the states `contended` and `uncontended`; format 2 has `inferred` and `tolls`."""

PRECISION, RATIO_PRECISION = 0.03, 0.0025
"""Default requested half-width of a 95 % interval, as a share: of a row, and of the ratio of two interleaved points."""
USUAL_LINE_BYTES, USUAL_PAGE_BYTES = 64, 4096
"""Assumed size of a cache line and of a page if the machine reports none: those of all x86 and most other machines."""
ASSUMED_LAST_CACHE_BYTES = 32 << 20
"""Assumed size of the last-level cache if the system reports none, or only the private ones (POWER7, s390x)."""
BEYOND = "beyond"
"""Status of a run that a value beyond its limit has ended."""
STOPPED = ("interrupted", "measuring")
"""Last status in a journal of a run that was stopped before its end."""
_MOST_ITEMS, _MOST_CHARACTERS = 10, 80
"""Highest number of items and of characters in a notebook cell, which keeps every output."""
LEAST_CHANGE = 0.01
"""The smallest change between runs that is reported by default, as a share."""


class Failure(Exception):
    """An error with a sentence for the user, and an exit code.

    1 a probe failed, 2 usage, 3 gate tripped, 4 inconclusive, 5 infrastructure, 6 nothing ran, 130 interrupted."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of all records: immutable, compared by value, and tolerant of unknown keys of a newer version."""

    def _repr_html_(self) -> str:
        """Returns a table of the fields that have a value, for a notebook."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        lines = (f"<tr><th>{name}</th><td>{escape(_cell(value))}</td></tr>" for name, value in fields if _is_set(value))
        return f"<table><caption>{type(self).__name__}</caption>{''.join(lines)}</table>"


def _is_set(value: object) -> bool:
    """Returns whether a field has a value that is not empty."""
    return value is not None and value not in ("", (), {})


def _cell(value: object) -> str:
    """Returns the text of a value; if it has many items, or records, their number."""
    if isinstance(value, tuple | dict) and (len(value) > _MOST_ITEMS or any(isinstance(one, Record) for one in value)):
        return f"{len(value)} items"
    return cell_text(f"{value:.6g}" if isinstance(value, float) else str(value))


# ---- text -----------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Returns text in which control characters, including escape sequences, are replaced by a visible mark."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def cell_text(text: str) -> str:
    """Returns printable text of at most 80 characters, for a cell in a notebook."""
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[: _MOST_CHARACTERS - 1]}…"


def assignments(parameters: Iterable[tuple[str, object]]) -> list[str]:
    """Returns NAME=VALUE of each parameter, as a user types it."""
    return [f"{name}={value}" for name, value in parameters]


def first_few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Returns the first names, and the number of the others: `a, b and 3 more`."""
    return separator.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def json_document(value: object) -> bytes:
    """Returns a record, or a dictionary, as indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
