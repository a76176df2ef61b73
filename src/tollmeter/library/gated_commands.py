# SPDX-License-Identifier: Apache-2.0
"""`toll gate -- BASE -- NEW`: two commands, measured interleaved, and again where the new one is too slow."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tollmeter.judgement.gate import decide, of_pair
from tollmeter.library.timed import TimeOptions, ratios
from tollmeter.model import Failure, Opposed
from tollmeter.report.gated_commands import GatedCommands
from tollmeter.report.timed import TIME

SEPARATOR = "--"
MEASURED_AT_MOST = 2

Measure = Callable[[Sequence[str], TimeOptions], Sequence[Opposed]]


def two_commands(words: Sequence[str]) -> tuple[str, str]:
    """BASE -- NEW. A side of one word is a command line, one of several its words. Raises Failure (2)."""
    if words.count(SEPARATOR) != 1:
        raise Failure("two commands are meant: `toll gate -- BASE -- NEW`")
    middle = words.index(SEPARATOR)
    base, new = words[:middle], words[middle + 1 :]
    if not base or not new:
        raise Failure("one of the two commands is empty: `toll gate -- BASE -- NEW`")
    return _line(base), _line(new)


def _line(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else shlex.join(words)


def gated_commands(
    base: str, new: str, limit: float, budget_s: float | None, measure: Measure = ratios
) -> GatedCommands:
    """limit: how much more time NEW may take, as a share. It fails where two measurements find it slower: processes
    that start anew have other memory layouts. Raises Failure as `timed`, and 1 where the two cannot be compared."""
    options = TimeOptions(budget_s=budget_s, precision=limit)
    measured: list[Opposed] = []
    decision = decide([])
    for _ in range(MEASURED_AT_MOST):
        measured.append(_ratio(measure([base, new], options)))
        decision = decide([of_pair(measured[-1], new, limit)])
        if decision.passes:
            break
    return GatedCommands(base, new, limit, tuple(measured), decision)


def _ratio(several: Sequence[Opposed]) -> Opposed:
    """Raises Failure (1) where the pair has no ratio."""
    found = next((one for one in several if one.metric == TIME), None)
    if found is None:
        raise Failure("the two commands have no ratio: too few runs in the budget", 1)
    return found
