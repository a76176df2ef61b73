# SPDX-License-Identifier: Apache-2.0
"""Findings: claims about the machine that could be false, and the rules that select the claims which a run supports.

A rule is a function with the decorator `rule` in a module of this package. It reads `Results` and yields claims. It
selects rows by meaning, never by a probe's name, and yields nothing if rows that it needs are missing."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from math import exp, hypot, log
from typing import NamedTuple

from tollmeter.judgement.verdict import KERNEL
from tollmeter.model import (
    DISTORTING,
    Evidence,
    Finding,
    Inference,
    InferenceKind,
    Proof,
    Rank,
    Results,
    Row,
    RunVerdict,
    Setting,
    Severity,
    Value,
    assignments,
)
from tollmeter.numbers.meanings import native, with_meaning

Rule = Callable[[Results], Iterator[Finding]]
RULES: dict[str, Rule] = {}
_GRAVEST_FIRST = ("error", "warning", "note")
LEAST_LOST = 0.001
"""Share of the time lost to other activity from which a finding is reported."""
MOST_NAMED = 5
"""Largest number of CPUs, pairs or sentences that one finding names, so that they fit on a screen."""

ABOUT_INTERFERENCE = (
    "machine.core_is_shared", "machine.time_is_stolen", "machine.control_loop_is_noisy",
    "machine.frequency_is_not_steady", "machine.time_is_hidden",
)  # fmt: skip
"""Findings about interference that are inferred from times. They are reported even for a busy run, which shows them
best."""


def rules() -> dict[str, Rule]:
    """Returns every rule by its name, in the order of the names."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(RULES.items()))


def subjects() -> dict[str, str]:
    """Returns the subject of each rule in a sentence: the first paragraph of its docstring."""
    return {name: " ".join((rule.__doc__ or "").split("\n\n")[0].split()) for name, rule in rules().items()}


def all_findings(results: Results) -> tuple[Finding, ...]:
    """Returns the findings of all rules, gravest first, otherwise in the order of their names."""
    return _gravest_first([finding for rule in rules().values() for finding in rule(results)])


def _gravest_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the findings, gravest first, then in the order of their names."""
    return tuple(sorted(findings, key=lambda finding: (_GRAVEST_FIRST.index(finding.severity), finding.name)))


class Carried(NamedTuple):
    """The findings that a run supports, and the others. findings: those reported. withheld: names of the others, each
    once. problems: number of withheld names with a severity above `note`."""

    findings: tuple[Finding, ...]
    withheld: tuple[str, ...]
    problems: int


def carried(
    verdict: RunVerdict, from_all: Sequence[Finding], from_known: Sequence[Finding], *, intercepted: bool = False
) -> Carried:
    """Returns which findings the run supports. A short run has too few visits, and the numbers of a busy run include
    other workloads. Counted or read facts are never withheld.

    from_all: findings from every row. from_known: findings from rows with enough visits for an interval. intercepted:
    whether a filter or a tracer intercepted system calls, which does not affect findings about memory."""
    allowed_names = {"busy": ABOUT_INTERFERENCE, "held back": ABOUT_INTERFERENCE, "too short": ()}.get(verdict)
    facts = [finding for finding in from_all if finding.is_fact]
    inferred = [
        finding for finding in from_known
        if not finding.is_fact and (allowed_names is None or finding.name in allowed_names)
        and not (intercepted and finding.name.startswith(KERNEL))
    ]  # fmt: skip
    kept = _gravest_first([*facts, *inferred])
    names = {finding.name for finding in kept}
    withheld = [finding for finding in (*from_all, *from_known) if finding.name not in names]
    problems = {finding.name for finding in withheld if finding.severity != "note"}
    return Carried(kept, tuple(dict.fromkeys(finding.name for finding in withheld)), len(problems))


# ---- functions for rules ---------------------------------------------------------------------------------------------


class FindingText(NamedTuple):
    """The text of a finding. remedy, severity, name, proof: empty or None for those of the rule. settings: system
    settings that would help."""

    words: str
    evidence: Sequence[Evidence]
    remedy: str = ""
    severity: Severity | None = None
    name: str = ""
    proof: Proof | None = None
    settings: Sequence[Setting] = ()


def rule(
    name: str,
    severity: Severity = "warning",
    remedy: str = "",
    *,
    rank: Rank = "information",
    proof: Proof = "measured",
) -> Callable[[Callable[[Results], Iterator[FindingText]]], Rule]:
    """Returns a decorator that registers a rule under the name of its function. name, severity, remedy, rank, proof:
    fields of its findings. A finding of severity `note` that would have a rank of DISTORTING is ranked as
    information."""

    def registered(claims: Callable[[Results], Iterator[FindingText]]) -> Rule:
        @functools.wraps(claims)
        def find(results: Results) -> Iterator[Finding]:
            for claim in claims(results):
                graveness = claim.severity or severity
                is_noted = graveness == "note" and rank in DISTORTING
                yield Finding(
                    name=claim.name or name,
                    severity=graveness,
                    claim=claim.words,
                    evidence=tuple(claim.evidence),
                    remedy=claim.remedy or remedy,
                    rank="information" if is_noted else rank,
                    proof=claim.proof or proof,
                    settings=tuple(claim.settings),
                )

        RULES[claims.__name__] = find
        return find

    return registered


def own_rows(results: Results, *meanings: str) -> list[Row]:
    """Returns the rows of the machine's main ABI and hardware clock that have a number and one of the meanings."""
    return with_meaning(native(results.index.rows, results.index.machine.architecture), results.probes, *meanings)


def native_rows(results: Results) -> list[Row]:
    """Returns all rows of the machine's main ABI and hardware clock."""
    return native(results.index.rows, results.index.machine.architecture)


def inferences(results: Results, kind: InferenceKind, **parameters: Value) -> list[Inference]:
    """Returns the inferences of this kind with these parameters, including those without a value."""
    return [i for i in results.index.inferred if i.kind == kind and parameters.items() <= i.parameters.items()]


def value_of(inferences_: Sequence[Inference]) -> float | None:
    """Returns the number of the first inference; None if there is none, or if it is not resolved."""
    value = inferences_[0].value if inferences_ else None
    return value if isinstance(value, float) else None


def is_refuted(results: Results, kind: InferenceKind) -> bool:
    """Returns whether an inference of this kind is false, and not merely unresolved."""
    return any(inference.value is False for inference in inferences(results, kind))


def row_evidence(row: Row) -> Evidence:
    """Returns the median of a row as evidence, under its probe, parameters and metric."""
    words = (row.probe, *assignments(row.parameters.items()), row.metric)
    return Evidence(what=" ".join(words), value=row.median or 0.0, unit=row.unit)


def count_evidence(what: str, number: float) -> Evidence:
    """Returns a count as evidence."""
    return Evidence(what=what, value=float(number), unit="count")


def ratio_evidence(what: str, value: float) -> Evidence:
    """Returns a ratio or a share as evidence."""
    return Evidence(what=what, value=value, unit="ratio")


def is_separate(lower: Row, upper: Row) -> bool:
    """Returns whether the interval of one row lies completely below that of the other."""
    return lower.high is not None and upper.low is not None and lower.high < upper.low


def least_ratio(dividend: Row, divisor: Row) -> float:
    """Returns the lower end of the 95 % interval of the ratio of two rows; 0 if one has no interval."""
    if not (dividend.median and divisor.median and dividend.low and divisor.high):
        return 0.0
    half_widths = log(dividend.median / dividend.low), log(divisor.high / divisor.median)
    return dividend.median / divisor.median * exp(-hypot(*half_widths))
