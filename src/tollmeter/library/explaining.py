# SPDX-License-Identifier: Apache-2.0
"""Explains a number: for a probe its source and the code of its executable; for a row every visit that it contains, and
the discarded samples. This module knows no particular probe."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tollmeter.catalog import abis_of_built
from tollmeter.experiment.batches import Array
from tollmeter.experiment.evidence import missing_evidence, reasons
from tollmeter.experiment.taken import Taken
from tollmeter.library import places
from tollmeter.library.derive import learned
from tollmeter.model import Build, Failure, Metric, Outcome, Probe, Results, Row, StateName
from tollmeter.numbers.known import Known, machine_known
from tollmeter.numbers.readings import RATES, Reading, as_unit
from tollmeter.numbers.row_of import MetricEstimates, PointReadings, metric_estimates
from tollmeter.numbers.rows import in_parts, row_key, usable_visits
from tollmeter.numbers.series import Part, Series, series_of
from tollmeter.report.blocks import Block, Listing, heading
from tollmeter.report.explained import ExplainedRow, ExplainedVisit
from tollmeter.report.numbers import count, percent, plain
from tollmeter.report.probe_description import blocks as description
from tollmeter.store.request import read_request
from tollmeter.toolchain.probe_source import ProbeSource, read_source

if TYPE_CHECKING:
    from tollmeter.toolchain.disassemble import Instruction

SPREAD = 0.1
"""Quantile of a visit's batches at which its drawn range begins and, from the top, ends."""
_MOST_READINGS = 0.9
"""Quantile of the control loop's deviations that is printed, as on the first screen. The largest deviation would be
that of an interrupted reading."""
_COUNTS = {
    "involuntary": "times that its worker was switched out", "voluntary": "times that its worker waited",
    "major_faults": "major page faults", "minor_faults": "minor page faults",
    "steal_ticks": "ticks stolen by the hypervisor",
}  # fmt: skip
_UNREPORTED = "not reported"
_ROLES = {
    "body": "What is timed",
    "control": "What is timed beside it, without the boundary",
    "check": "What proves the work, before the first sample and after the last",
}
MOST_INSTRUCTIONS, _MOST_LINES = 40, 60
"""Most instructions and source lines that are printed of one function. The loop of most bodies is shorter; objdump
shows a longer one completely."""


# ---- a probe --------------------------------------------------------------------------------------------------------


def probe_blocks(probe: Probe, abi: str | None = None, build: Build | None = None) -> Iterator[Block]:
    """Yields the description of a probe, its method, its functions, its pitfalls, and its machine code. abi: ABI of the
    executable; by default this machine's, else the first that is built. build: the build that a run measured."""
    yield from description(probe)
    try:
        source: ProbeSource | None = read_source(places.ROOT / "probes", probe.probe)
    except Failure:
        source = None  # a workload of a suite, a command, or a probe of another version
    if source is not None:
        yield from _method(source)
    yield heading("What would mislead")
    yield _evidence_against(probe)
    if source is not None:
        yield from _refusals(source)
        yield from _code(source, probe.probe, abi, build)


def _method(source: ProbeSource) -> Iterator[Block]:
    for file, paragraphs in source.method:
        yield heading(f"Method, as {file} has it")
        yield from paragraphs
    path = f"probes/{source.path}"
    for function in source.functions:
        if function.text:
            yield heading(f"{_ROLES[function.role]}: {function.name}() of {path}")
            yield Listing(_cut(function.text.splitlines(), _MOST_LINES, f"the rest is in {path}"), indent=2)


def _refusals(source: ProbeSource) -> Iterator[Block]:
    refusals = [f"wrong answer: {text}" for text in source.wrong] + [f"no number: {text}" for text in source.skipped]
    if refusals:
        yield "The probe gives no number, but one of these sentences:"
        yield Listing(refusals, indent=2)


def _evidence_against(probe: Probe) -> str:
    """Returns the reasons for which a sample is discarded, by the probe's declarations."""
    against = [] if probe.switches else ["a context switch"]
    against += [] if probe.faults else ["a major page fault"]
    against += ["another CPU", "stolen time", "a control loop off its rate"]
    return f"A sample is discarded on evidence of {', '.join(against[:-1])} or {against[-1]}."


def _cut(lines: Sequence[str], most: int, rest: str) -> Sequence[str]:
    left = len(lines) - most
    return lines if left <= 0 else (*lines[:most], f"... {count(left)} more: {rest}")


def _code(source: ProbeSource, probe: str, abi: str | None, build: Build | None) -> Iterator[Block]:
    """Yields the machine code of the body, with a sentence if it may not be the measured code; or why there is none."""
    built = abis_of_built(places.ROOT / "build").get(probe, [])
    body = source.named("body")
    own = platform.machine()
    of_abi = abi or (own if own in built else next(iter(built), None))
    if of_abi not in built or body is None:
        yield f"{probe} is not built here{f' for {abi}' if abi else ''}, so that its code cannot be read."
        return
    path = places.ROOT / "build" / of_abi / probe
    from tollmeter.toolchain.disassemble import code_from

    try:
        is_other = build is not None and hashlib.sha256(path.read_bytes()).hexdigest() != build.sha256
        found = code_from(path, body.name)
    except (Failure, OSError) as error:
        yield f"its code cannot be read: {error}."
        return
    shown = places.shown(path)
    for name, code in found.items():
        whole = f"objdump -d --no-show-raw-insn --disassemble={name} {shown}"
        yield heading(f"Machine code: {name} in {shown}")
        yield Listing(_cut([*_lines(code)], MOST_INSTRUCTIONS, whole), indent=2)
    if is_other:
        yield "the executable was built again since this run: what was measured may be other code."


def _lines(code: Sequence[Instruction]) -> Iterator[str]:
    """Yields the text of each instruction, and the target of a jump or call."""
    inside = {instruction.address for instruction in code}
    for instruction in code:
        if instruction.enters:
            remark = "asks for the kernel"
        elif instruction.called is not None:
            unnamed = "code without a symbol" if instruction.called else "what the run chose"
            remark = f"calls {instruction.leads_to or unnamed}"
        elif instruction.target is None or instruction.target in inside:
            remark = "back" if instruction.target is not None and instruction.target <= instruction.address else ""
        else:
            remark = f"goes on in {instruction.leads_to}" if instruction.leads_to else ""
        text = f"{instruction.address:x}  {f'{instruction.mnemonic} {instruction.operands}'.strip()}"
        yield f"{text:<52}; {remark}" if remark else text


# ---- a row ----------------------------------------------------------------------------------------------------------


def explained_rows(results: Results, rows: Sequence[Row]) -> Iterator[ExplainedRow]:
    """Yields the explanation of each row. results: results of the whole run, since its knowledge of clocks and scatter
    comes from all visits. rows: rows of this run."""
    request, index = read_request(Path(results.index.run.folder)), results.index
    known = machine_known(results.outcomes, learned(request, index.machine), index.run.precision)
    wanted = {row_key(row): row for row in rows}
    probes = {row.probe for row in rows}
    visits = [outcome for outcome in results.outcomes if outcome.point.probe in probes]
    explained = {}
    for points, scattered in in_parts(visits, results.probes, known):
        for group in points:
            probe = results.probes[group[0].point.probe]
            for metric in probe.metrics:
                point = group[0].point
                key = (point.probe, point.abi, point.target, metric.name, tuple(sorted(point.parameters)))
                if key in wanted:
                    explained[key] = _explained(wanted[key], group, probe, metric, scattered)
    yield from (explained[key] for key in wanted if key in explained)


def _explained(row: Row, visits: Sequence[Outcome], probe: Probe, metric: Metric, known: Known) -> ExplainedRow:
    visited = usable_visits(visits, probe, known)
    ok = [outcome for outcome in visits if outcome.status == "ok"]
    discarded = Counter(why for outcome in ok for why in reasons(outcome.samples, probe) if why)
    failed = Counter(
        f"{visit.status.replace('_', ' ')}: {visit.reason or ''}" for visit in visits if visit.status != "ok"
    )
    common = ExplainedRow(
        row, metric, (), discarded, failed, _evidence_totals(ok, probe), tuple(_counted(ok)), (), (), None
    )
    if not isinstance(visited, PointReadings):
        return common
    if metric.source == "gauge":
        return common._replace(visits=tuple(_of_gauge(outcome, metric) for outcome in ok))
    estimates = metric_estimates(visited, metric, known)
    if estimates.series is None:
        return common
    of_visits = [_of_reading(read, visited, estimates, known) for read in visited.readings]
    return common._replace(
        visits=tuple(of_visits), way=_steps_to_value(visited, metric), stands_for=estimates.series.headline()[1].by,
        clock_hz=estimates.series.clock_hz, values=tuple(_in_unit(estimates.series.all.values, estimates.metric)),
        discarded=tuple(_discarded(ok, probe, metric)),
    )  # fmt: skip


def _of_gauge(outcome: Outcome, metric: Metric) -> ExplainedVisit:
    value = outcome.gauges.get(metric.name)
    return ExplainedVisit(outcome.visit, outcome.cpus[:1], outcome.seed, 0, 0, None, value, value, value)


def _of_reading(read: Reading, visited: PointReadings, estimates: MetricEstimates, known: Known) -> ExplainedVisit:
    """Returns the explanation of a visit, at the core clock and in the core state of its row's value."""
    assert estimates.series is not None
    state, _ = estimates.series.headline()
    alone = series_of([read], estimates.metric, visited.paid, known.clocks_hz)
    own = None if alone is None else (alone if estimates.series.clock_hz else alone.as_read())
    part = None if own is None else _part(own, state)
    outcome, states = read.outcome, read.states
    known_states = states[states != "unknown"]
    contended = float((known_states == "contended").mean()) if len(known_states) else None
    middle = low = high = None
    if part is not None and len(part.values):
        ends = _in_unit(np.quantile(part.values, [SPREAD, 1 - SPREAD]), estimates.metric)
        low, high = (min(ends), max(ends)) if len(ends) == 2 else (None, None)
        middle = next(iter(_in_unit(part.costs, estimates.metric)), None)
    return ExplainedVisit(
        outcome.visit, outcome.workers or outcome.cpus[:1], outcome.seed, len(read.iterations), len(read.discarded),
        contended, middle, low, high,
    )  # fmt: skip


def _part(series: Series, state: StateName | None) -> Part | None:
    """Returns the values of a visit in the row's state; None if it was measured in this state too rarely."""
    return series.parts.get(state) if state in ("uncontended", "contended") else series.all


def _in_unit(costs: ArrayLike, metric: Metric) -> list[float]:
    values = np.asarray(costs, dtype=float)
    return [as_unit(float(cost), metric) for cost in values if metric.unit not in RATES or cost > 0]


def _steps_to_value(visited: PointReadings, metric: Metric) -> tuple[str, ...]:
    """Returns the steps from a sample to a value, in sentences."""
    what = {
        "body": "the body", "control": "the control", "difference": "the body, less the same of the control,",
        "companions": "the companions' work during the longer batch",
        "together": "the body and its companions together",
    }[metric.source]  # fmt: skip
    paid = visited.paid.control if metric.source == "control" else visited.paid.body
    timed = f"A sample times {what} over n and over 2n iterations."
    if paid is None or metric.source in ("companions", "together"):
        return (timed,)
    if paid.once_ns is None:
        why = f": {paid.why}" if paid.why else ""
        return timed, f"Its value is the difference of both, divided by n{why}."
    return timed, f"Each batch has a value: its time less {paid.once_ns:.0f} ns that every batch pays, by iteration."


def _discarded(ok: Sequence[Outcome], probe: Probe, metric: Metric) -> Iterator[float]:
    """Yields the value that each discarded sample would have given, from the difference of its two batches."""
    for outcome in ok:
        operations = outcome.work.operations or 1.0
        for sample, why in zip(outcome.samples, reasons(outcome.samples, probe), strict=True):
            if why and metric.source == "body" and metric.unit == "ns" and sample.iterations:
                yield (sample.body[1] - sample.body[0]) / sample.iterations / operations


def _evidence_totals(ok: Sequence[Outcome], probe: Probe) -> dict[str, str]:
    """Returns the totals of the evidence over all samples, in words, by the kind of evidence."""
    if not any(outcome.samples for outcome in ok):
        return {}
    taken = Taken([outcome.samples for outcome in ok])
    totals = {what: _total(taken.column(name)) for name, what in _COUNTS.items()}
    shown = {what: _UNREPORTED if total is None else count(total) for what, total in totals.items()}
    delay_ns, timed_ns = _total(taken.column("delay_ns")), float(taken.timed_ns().sum())
    shown["time in which other tasks had its CPU"] = (
        _UNREPORTED if delay_ns is None else f"{plain(delay_ns / 1e9)} of {plain(timed_ns / 1e9)} s"
    )
    rates = np.concatenate([taken.column("control_before_hz"), taken.column("control_hz")])
    rates = rates[rates > 0]
    if len(rates) > 1:
        off = float(np.quantile(np.abs(rates / np.median(rates) - 1), _MOST_READINGS))
        shown["control loop, off its median in nine of ten readings by up to"] = percent(off)
    lacking = {what for outcome in ok for what in missing_evidence(outcome, probe)}
    return shown | dict.fromkeys(sorted(lacking), _UNREPORTED)


def _total(column: Array) -> float | None:
    reported = column[column >= 0]
    return float(reported.sum()) if len(reported) else None


def _counted(ok: Sequence[Outcome]) -> Iterator[str]:
    """Yields sentences on the system calls and instructions of one iteration, which the system counted in two
    batches."""
    counted = next((outcome.counted for outcome in ok if outcome.counted), None)
    for what, both, control in (
        ("System calls", counted.calls, counted.control_calls), ("Instructions", counted.instructions,
         counted.control_instructions),
    ) if counted else ():  # fmt: skip
        if both is not None and counted is not None:
            each = (both[1] - both[0]) / counted.iterations
            beside = f", a turn of the control {(control[1] - control[0]) / counted.iterations:g}" if control else ""
            counts = f"counted over {counted.iterations} and {2 * counted.iterations} of them"
            yield f"{what} of one iteration: {each:g}{beside}; {counts}."
