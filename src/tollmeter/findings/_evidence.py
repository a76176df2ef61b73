# SPDX-License-Identifier: Apache-2.0
"""What rules share: their registry, evidence from rows, rows by meaning, and inferences by kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tollmeter.model import Evidence, Finding, Inference, InferenceKind, Results, Row, Severity, Value
from tollmeter.numbers.meanings import native, with_meaning

Rule = Callable[[Results], Iterator[Finding]]
RULES: dict[str, Rule] = {}


class Claim(NamedTuple):
    """remedy, severity, name: where they differ from the rule's own."""

    words: str
    evidence: Sequence[Evidence]
    remedy: str = ""
    severity: Severity | None = None
    name: str = ""


def rule(
    name: str, severity: Severity = "warning", remedy: str = ""
) -> Callable[[Callable[[Results], Iterator[Claim]]], Rule]:
    """Registers a rule under its function's name; name, severity, remedy: of its findings."""

    def registered(claims: Callable[[Results], Iterator[Claim]]) -> Rule:
        @functools.wraps(claims)
        def find(results: Results) -> Iterator[Finding]:
            for claim in claims(results):
                yield Finding(
                    name=claim.name or name,
                    severity=claim.severity or severity,
                    claim=claim.words,
                    evidence=tuple(claim.evidence),
                    remedy=claim.remedy or remedy,
                )

        RULES[claims.__name__] = find
        return find

    return registered


def own_rows(results: Results, *meanings: str) -> list[Row]:
    """Rows of the machine's own ABI and clock that have a number and one of the meanings."""
    return with_meaning(native(results.index.rows, results.index.machine.architecture), results.probes, *meanings)


def native_rows(results: Results) -> list[Row]:
    """All rows of the machine's own ABI and clock, whatever they mean."""
    return native(results.index.rows, results.index.machine.architecture)


def inferences(results: Results, kind: InferenceKind, **parameters: Value) -> list[Inference]:
    """The inferences of this kind at these values of its parameters; those without a value included."""
    return [i for i in results.index.inferred if i.kind == kind and parameters.items() <= i.parameters.items()]


def value_of(inferences_: Sequence[Inference]) -> float | None:
    """The value of the first inference; None where there is none, or it is not resolved."""
    value = inferences_[0].value if inferences_ else None
    return value if isinstance(value, float) else None


def is_refuted(results: Results, kind: InferenceKind) -> bool:
    return any(inference.value is False for inference in inferences(results, kind))


def of_row(row: Row) -> Evidence:
    """The row's estimate under its name and parameters."""
    words = (row.probe, *(f"{name}={value}" for name, value in row.parameters.items()), row.metric)
    return Evidence(what=" ".join(words), value=row.median or 0.0, unit=row.unit)


def counted(what: str, number: float) -> Evidence:
    return Evidence(what=what, value=float(number), unit="count")


def ratio(what: str, value: float) -> Evidence:
    return Evidence(what=what, value=value, unit="ratio")


def number(row: Row, parameter: str) -> int:
    """A numeric parameter of the row; 0 where it has none."""
    value = row.parameters.get(parameter, 0)
    return value if isinstance(value, int) else 0


def is_separate(lower: Row, upper: Row) -> bool:
    """Whether the interval of one lies wholly below the other's."""
    return lower.high is not None and upper.low is not None and lower.high < upper.low
