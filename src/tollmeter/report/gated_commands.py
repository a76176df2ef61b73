# SPDX-License-Identifier: Apache-2.0
"""The decision on two commands in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tollmeter.judgement.gate import Decision, Outcome
from tollmeter.model import Opposed
from tollmeter.report.numbers import percent

_RESULTS: dict[Outcome, str] = {
    "slower": "slower by more than the limit of {}, in two measurements",
    "within": "within the limit of {}",
    "inconclusive": "inconclusive: it may be beyond the limit of {}; a longer --budget would tell",
}


@dataclass(frozen=True)
class GatedCommands:
    """limit: how much more time the new command may take, as a share. measured: the ratios, new over base, in their
    order; the decision is on the last one."""

    base: str
    new: str
    limit: float
    measured: tuple[Opposed, ...]
    decision: Decision

    @property
    def outcome(self) -> Outcome:
        return self.decision.rows[0].outcome


def sentences(gated: GatedCommands) -> Sequence[str]:
    """The result first, then each measurement."""
    told = [
        f"Measurement {number}: {gated.new} takes {_change(one)} of {gated.base}, {one.blocks} blocks."
        for number, one in enumerate(gated.measured, 1)
    ]
    result = f"{gated.new} is {_RESULTS[gated.outcome].format(percent(gated.limit))}."
    unconfirmed = "A second measurement did not confirm that it is slower."
    return [result, *told, *([unconfirmed] if len(gated.measured) > 1 and gated.decision.passes else [])]


def _change(one: Opposed) -> str:
    return f"{one.ratio:.3f} times the time ({one.low:.3f} to {one.high:.3f})"
