# SPDX-License-Identifier: Apache-2.0
"""Writes a suite as a plan for a machine that is not known yet: the text that probes/runtime/bundle/plan.c reads.

Sizes and counts stay in terms of caches and CPUs, and the runner of the bundle resolves them on the measured
machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tollmeter.catalog import Catalog
from tollmeter.model import Parameter, Select, Suite, Value
from tollmeter.plan.placement import layout_of
from tollmeter.plan.points import Scope, accepting, is_only_typical, several_of
from tollmeter.plan.values import portable

_SCOPES: tuple[Scope, ...] = ("all", "curves", "typical")
_ANY = "*"


def plan_text(suite: Suite, catalog: Catalog, abis: Sequence[str], budget_s: float, precision: float) -> str:
    """Returns the plan of a bundle as text. abis: those of the bundle, in place of those of the selections."""
    lines = [_line("suite", suite.name, f"{budget_s:g}", f"{precision:g}")]
    probes = catalog.probes()
    for name in sorted(used_probes(suite, catalog)):
        probe = probes[name]
        layout = layout_of(probe)  # a probe given all CPUs chooses one of the node itself
        lines.append(_line("probe", name, f"{probe.revision}", "all" if layout == "node" else layout))
        lines += [
            _line("metric", metric.name, metric.unit, metric.source, metric.means or "-", metric.toll or "")
            for metric in probe.metrics
        ]
    for scope in _SCOPES:
        for select in suite.select:
            lines += _select_lines(select, catalog, abis, scope)
    return "".join(lines)


def used_probes(suite: Suite, catalog: Catalog) -> set[str]:
    """Returns the names of the probes of a suite's selections. Raises Failure (2) if none accepts a selection's
    parameters."""
    return {name for select in suite.select for name in accepting(select, catalog.probes())}


def _line(*words: str) -> str:
    """Returns one line of the plan: words separated by tabs."""
    return "\t".join(" ".join(word.split()) for word in words) + "\n"


def _select_lines(select: Select, catalog: Catalog, abis: Iterable[str], scope: Scope) -> Iterator[str]:
    """Yields the lines of a selection: one for each probe and ABI."""
    for name, probe in accepting(select, catalog.probes()).items():
        axes = [_axis(parameter, select, scope) for parameter in probe.parameters]
        for abi in abis:
            if (name, abi) in catalog.executables:
                place = f"{_SCOPES.index(scope)}", name, ",".join(select.cpu) or _ANY, f"{select.nodes}", abi
                yield _line("select", *place, *axes)


def _axis(parameter: Parameter, select: Select, scope: Scope) -> str:
    """Returns one parameter of a line: name, kind, typical value and values."""
    typical = None if parameter.typical is None else _value(parameter, parameter.typical)
    if parameter.name in select.parameters:
        listed = [_value(parameter, value) for value in several_of(select.parameters[parameter.name])]
    elif is_only_typical(parameter, select, scope):
        listed = _sweep(parameter)[:1] if typical is None else [typical]
    else:
        listed = _sweep(parameter)
    return ";".join((parameter.name, parameter.kind, _ANY if typical is None else typical, ",".join(listed)))


def _sweep(parameter: Parameter) -> list[str]:
    """Returns the values of the default sweep as text."""
    if parameter.kind == "choice":
        return list(parameter.choices)
    if parameter.values:
        return [f"{value}" for value in parameter.values]
    if parameter.stop_scale in ("cpu-nodes", "memory-nodes"):
        return [parameter.stop_scale]
    scale = {"absolute": "", "cpus": "xCPUS", "last-cache": "xLAST"}[parameter.stop_scale]
    return [_steps(parameter, f"{parameter.start}", f"{parameter.stop}{scale}")]


def _steps(parameter: Parameter, start: str, stop: str) -> str:
    """Returns a range as text: its ends, the steps in each doubling, and the start of its coarse steps, empty if not
    refined."""
    coarse = f"{parameter.start}" if parameter.refine and not parameter.values else ""
    return f"{start}..{stop}/{parameter.per_octave}/{coarse}"


def _value(parameter: Parameter, value: Value) -> str:
    """Returns a value or range as text."""
    if parameter.kind == "choice" or isinstance(value, int):
        return f"{value}"
    begin, dots, end = value.partition("..")
    if not dots:
        return portable(parameter, value)
    return _steps(parameter, portable(parameter, begin), portable(parameter, end))
