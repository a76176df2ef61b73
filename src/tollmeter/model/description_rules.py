# SPDX-License-Identifier: Apache-2.0
"""Rules of a probe's description. Each yields a sentence for each contradiction. A probe whose description breaks a
rule is left out of the build. If a recorded description breaks one of the first five rules, the journal is damaged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from tollmeter.model.described import NEEDS, Parameter, Probe


def wrong_directions(probe: Probe) -> Iterator[str]:
    """Yields timed metrics for which a longer time or a lower rate would be better."""
    for metric in probe.metrics:
        wrong = "more" if metric.unit == "ns" else "less" if metric.unit.endswith("/s") else ""
        if metric.source != "gauge" and metric.better == wrong:
            yield f"{metric.name} is in {metric.unit}, of which {wrong} is not better"


def repeated_names(probe: Probe) -> Iterator[str]:
    """Yields names that two metrics, parameters or choices share, and timed metrics with equal source and unit."""
    for name in _repeated(metric.name for metric in probe.metrics):
        yield f"two metrics are named {name}"
    for name in _repeated(parameter.name for parameter in probe.parameters):
        yield f"two parameters are named {name}"
    for parameter in probe.parameters:
        yield from (f"two choices of {parameter.name} are named {name}" for name in _repeated(parameter.choices))
    for timed in _repeated(f"{metric.source} in {metric.unit}" for metric in probe.metrics if metric.source != "gauge"):
        yield f"two metrics are of the {timed}"


def _repeated(several: Iterable[str]) -> list[str]:
    """Returns the texts that occur more than once."""
    return [one for one, count in Counter(several).items() if count > 1]


def untimed_metrics(probe: Probe) -> Iterator[str]:
    """Yields metrics of a part that the probe does not have."""
    if not probe.metrics:
        yield "it has no metric"
    for metric in probe.metrics:
        if metric.source in ("control", "difference") and not probe.control:
            kind = "of the control" if metric.source == "control" else "a difference"
            yield f"{metric.name} is {kind}, and the probe has no control"
        if metric.source == "companions" and not (probe.roles or probe.spreads):
            yield f"{metric.name} is of companions, and the probe has none"


def wrong_values(probe: Probe) -> Iterator[str]:
    """Yields parameters whose choices do not match their kind, and typical values that the sweep does not have."""
    for parameter in probe.parameters:
        if (parameter.kind == "choice") != bool(parameter.choices):
            yield f"{parameter.name} is a {parameter.kind}, and has {'' if parameter.choices else 'no '}choices"
        listed = parameter.choices or tuple(map(str, parameter.values))
        if listed and parameter.typical not in (None, *listed):
            yield f"the typical value {parameter.typical!r} of {parameter.name} is none of {', '.join(listed)}"


def wrong_ranges(probe: Probe) -> Iterator[str]:
    """Yields parameters whose range is of words, or ends before it begins."""
    for parameter in probe.parameters:
        if parameter.choices and parameter.refine:
            yield f"{parameter.name} is a choice, and has no range to refine"
        if _is_reversed(parameter):
            yield f"{parameter.name} begins at {parameter.start} and ends at {parameter.stop}"


def _is_reversed(parameter: Parameter) -> bool:
    """Returns whether the range of a parameter ends before it begins."""
    is_range = parameter.stop_scale == "absolute" and not parameter.values
    return is_range and parameter.stop < parameter.start


def wrong_toll_lines(probe: Probe) -> Iterator[str]:
    """Yields lines of the toll table that name a parameter which the probe does not have."""
    known = {parameter.name for parameter in probe.parameters}
    for metric in probe.metrics:
        for name in re.findall(r"\{(.*?)\}", metric.toll or ""):
            if name not in known:
                yield f"the toll {metric.toll!r} of {metric.name} names {{{name}}}, which is no parameter"


def unmet_meanings(probe: Probe) -> Iterator[str]:
    """Yields metrics whose meaning needs a parameter that the probe lacks: no analysis would find them."""
    numbers = {parameter.name for parameter in probe.parameters if parameter.kind != "choice"}
    for metric in probe.metrics:
        for name in NEEDS.get(metric.means or "", ()):
            if name not in numbers:
                yield f"{metric.name} has the meaning {metric.means!r}, which needs the parameter {name}, a number"


DESCRIPTION_RULES: Sequence[Callable[[Probe], Iterator[str]]] = (
    wrong_directions, repeated_names, untimed_metrics, wrong_values, wrong_ranges, wrong_toll_lines, unmet_meanings,
)  # fmt: skip
