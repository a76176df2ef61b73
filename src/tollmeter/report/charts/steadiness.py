# SPDX-License-Identifier: Apache-2.0
"""Charts of samples: the steadiness of the machine over the run, and every sample of one boundary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.core import cores_hz, states
from tollmeter.experiment.evidence import reasons
from tollmeter.experiment.taken import Taken
from tollmeter.model import Row, Toll
from tollmeter.numbers.meanings import meaning, metric_of
from tollmeter.numbers.readings import costs
from tollmeter.numbers.row_of import PointReadings
from tollmeter.numbers.rows import usable_visits
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject
from tollmeter.report.charts.marks import inline_values, layer, quantitative, tips
from tollmeter.report.numbers import of_row, percent, time
from tollmeter.studies.attempts import outcomes_of

MOST_POINTS = 900
LEAST_POINTS = 4
LEAST_SPAN = 0.01
STRETCHES = 60
STRIP = 9  # pixels
CROSS = "M-1,-1L1,1M1,-1L-1,1"
_TIPS = tips(("at", "at"), ("value", "control loop"), ("series", "core"), ("aside", "discarded"))
NAMES = {"uncontended": "uncontended core", "contended": "contended core", "unknown": "unknown"}

STEADINESS = Subject(
    "steadiness",
    "Was the machine steady?",
    "How fast did the control loop run during the run, and was the core contended? Crosses are discarded samples. "
    "The strip below is darker where more samples saw a contended core.",
    ("control-loop",),
)


class SampleMark(NamedTuple):
    """One sample: seconds since the first, the control loop's GHz, the core's state, and why it was discarded."""

    at_s: float
    ghz: float
    state: str
    aside: str


def steadiness(bench: Bench) -> Iterator[Chart]:
    """Yields the chart of the core clock over the run, with a mark for each sample and a strip of contended shares;
    none for an emulator, or for fewer than LEAST_POINTS samples."""
    samples = _samples(bench) if bench.is_the_machine else []
    if len(samples) < LEAST_POINTS:
        return
    middle = median(sample.ghz for sample in samples)
    low, high = (end(sample.ghz for sample in samples) for end in (min, max))
    x = quantitative("x", title="seconds since the first sample", axis={"grid": False})
    scale = {"domain": [low - LEAST_SPAN * middle, high + LEAST_SPAN * middle], "zero": False, "nice": False}
    y = quantitative("y", title="control loop, GHz", scale=scale, axis={"tickCount": 5, **marks.ABOVE})
    kept, discarded = ([sample for sample in samples if bool(sample.aside) == aside] for aside in (False, True))
    order = [name for state, name in NAMES.items() if any(sample.state == state for sample in kept)]
    by, crosses = marks.series_colour("series", order), {"x": x, "y": y, "tooltip": _TIPS}
    dots = {**crosses, "color": by["color"], "shape": by["shape"]}
    layers = [*_strip(samples, x), layer("point", dots, style="dot", opacity=0.6)]
    if discarded:
        own = inline_values([*map(_datum, discarded)])
        layers.append(layer("point", crosses, data=own, style="aside", shape=CROSS, clip=True))
    yield STEADINESS.chart(marks.layered([*map(_datum, kept)], layers, 240), [], _sentence(samples, middle))


def _samples(bench: Bench) -> list[SampleMark]:
    """Returns samples in order of time, or of visits if untimed; from a long run, samples of evenly spaced visits."""
    outcomes = sorted(bench.outcomes, key=lambda outcome: (outcome.at_ns, outcome.visit))
    every = -(-sum(len(outcome.samples) for outcome in outcomes) // MOST_POINTS) or 1
    marks = []
    for outcome in outcomes[::every]:
        probe = bench.results.probes.get(outcome.point.probe)
        if probe is None or not outcome.samples:
            continue
        width = np.array([bench.known.width_for_states(outcome)])
        of_samples = states(Taken([outcome.samples]), cores_hz([outcome]), width)
        discarded = reasons(outcome.samples, probe)
        for sample, state, aside in zip(outcome.samples, of_samples, discarded, strict=True):
            rate = sample.witness.control_hz or median(outcome.controls or (0.0,))
            if rate > 0:
                at_s = (sample.at_ns or outcome.at_ns) / 1e9 or float(outcome.visit)
                marks.append(SampleMark(at_s, rate / 1e9, str(state), aside or ""))
    first = min((mark.at_s for mark in marks), default=0.0)
    return [mark._replace(at_s=mark.at_s - first) for mark in marks]


def _datum(mark: SampleMark) -> Datum:
    at, ghz = float(f"{mark.at_s:.2f}"), float(f"{mark.ghz:.4g}")
    return {"x": at, "y": ghz, "series": NAMES[mark.state], "at": f"{at:g} s", "value": f"{ghz:.3g} GHz"} | (
        {"aside": mark.aside} if mark.aside else {}
    )


def _strip(samples: Sequence[SampleMark], x: Spec) -> Iterator[Spec]:
    """Yields the contended share of each part of the run, at the bottom; none if no core state was measured."""
    width = max(sample.at_s for sample in samples) / STRETCHES or 1.0
    stretches: dict[int, list[bool]] = defaultdict(list)
    for sample in samples:
        if sample.state != "unknown":
            stretches[int(sample.at_s / width)].append(sample.state == "contended")
    if stretches:
        shares = {place: fmean(contended) for place, contended in sorted(stretches.items())}
        data = [{"x": place * width, "x2": (place + 1) * width, "share": share, "value": percent(share)}
                for place, share in shares.items()]  # fmt: skip
        encoding = {
            "x": x,
            "x2": {"field": "x2"},
            "y": {"value": {"expr": f"height - {STRIP}"}},
            "y2": {"value": {"expr": "height"}},
            "opacity": quantitative("share", scale={"domain": [0, 1], "range": [0, 1]}, legend=None),
            "tooltip": tips(("value", "samples on a contended core")),
        }
        yield layer("rect", encoding, data=inline_values(data), style="beside", clip=True)


def _sentence(samples: Sequence[SampleMark], middle: float) -> str:
    off = sorted(abs(sample.ghz / middle - 1) for sample in samples)[int(0.9 * (len(samples) - 1))]
    known = [sample for sample in samples if sample.state != "unknown"]
    parts = [f"{middle:.3g} GHz, within {percent(off)} in nine of ten samples"]
    if known:
        contended = sum(sample.state == "contended" for sample in known) / len(known)
        parts.append(f"core contended in {percent(contended)} of those whose state is known")
    aside = sum(bool(sample.aside) for sample in samples)
    if aside:
        parts.append(f"{aside:,} of {len(samples):,} discarded")
    return "; ".join(parts) + "."


# ---- distribution chart ---------------------------------------------------------------------------------------------

_MOST_SAMPLES = 600
_LEAST_SAMPLES = 4
_MEANINGS = ("entry", "price-of-fault", "trap", "switch")


def distribution(bench: Bench) -> Iterator[Chart]:
    """Yields the distribution of the best known boundary that was measured, or of the only probe if it has no other
    chart; drawn once, for the machine itself."""
    name, row = _chosen(bench) if bench.is_the_machine else ("", None)
    data = _distribution_samples(bench, row) if row else []
    if row is None or len(data) < _LEAST_SAMPLES:
        return
    order = [state for state in NAMES.values() if any(d["series"] == state for d in data)]
    by, axis = marks.series_colour("series", order), {"labelOverlap": True, "labelAngle": 0}
    encoding = {
        "x": {"field": "x", "type": "ordinal", "title": "visit, in the order of the run", "axis": axis},
        "y": marks.linear_y(data, "ns", "one sample"),
        "color": by["color"],
        "shape": by["shape"],
        "tooltip": tips(("value", "sample"), ("series", "core"), ("at", "visit")),
    }
    points = layer("point", encoding, data=inline_values(data), style="dot", opacity=0.75)
    low, high = (time(end(float(d["y"]) for d in data)) for end in (min, max))
    contended = next((state for state in row.states if state.state == "contended"), None)
    beside = f", {time(contended.median, contended.low, contended.high)} on a contended core" if contended else ""
    subject = Subject(
        "distribution",
        f"Every sample of one number: {name}",
        "What is a median made of, and does it have more than one state?",
    )
    caption = f"The median is {of_row(row)}{beside}; single samples lie from {low} to {high}."
    yield subject.chart(marks.finished(points, 260), [row], caption)


def _chosen(bench: Bench) -> tuple[str, Row | None]:
    """Returns the first typical row of the best known meanings, in the order of the toll table, with its words
    there."""
    tolls: dict[tuple[str, str, str], list[Toll]] = defaultdict(list)
    for toll in bench.results.index.tolls:
        tolls[toll.probe, toll.metric, str(toll.parameters)].append(toll)
    for means in _MEANINGS:
        for row in bench.own(bench.rows):
            named = tolls.get((row.probe, row.metric, str(row.parameters)), [])
            is_typical = row.unit == "ns" and any(toll.typical for toll in named)
            if is_typical and meaning(row, bench.results.probes) == means:
                return named[0].toll, row
    return _of_only_probe(bench)


def _of_only_probe(bench: Bench) -> tuple[str, Row | None]:
    """Returns the name and the first row of the only probe; no row if the probe has enough points for a chart of its
    own."""
    timed = [row for row in bench.own(bench.rows) if row.unit == "ns"]
    of_metric = [row for row in timed if row.metric == timed[0].metric]
    if len({row.probe for row in bench.rows}) != 1 or not 0 < len(of_metric) < _LEAST_SAMPLES:
        return "", None
    return timed[0].probe, timed[0]


def _distribution_samples(bench: Bench, row: Row) -> list[Datum]:
    """Returns costs in ns as read from the clock, with the core's state. A sample gives two, from its batches of n and
    2n."""
    group = outcomes_of(bench.results, row)
    metric, probe = metric_of(row, bench.results.probes), bench.probe(row)
    visited = usable_visits(group, probe, bench.known) if group and probe else None
    if not isinstance(visited, PointReadings) or metric is None:
        return []
    data = [
        {"x": place, "y": float(f"{cost:.4g}"), "lo": cost, "hi": cost, "series": NAMES[str(state)],
         "value": str(time(cost)), "at": str(read.outcome.visit)}
        for place, read in enumerate(visited.readings, start=1)
        if (of_samples := costs(read, metric, visited.paid)) is not None
        for of_sample, state in zip(of_samples, read.states, strict=True)
        for cost in of_sample.tolist()
    ]  # fmt: skip
    return data[:: -(-len(data) // _MOST_SAMPLES) or 1]
