# SPDX-License-Identifier: Apache-2.0
"""Charts of samples: how steady the machine was over the run, and every sample of one boundary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import altair as alt
import numpy as np

from tollmeter.experiment.core_clock import cores_hz
from tollmeter.experiment.core_states import states
from tollmeter.experiment.evidence import reasons
from tollmeter.experiment.taken import Taken
from tollmeter.model import Outcome, Row, Toll
from tollmeter.numbers.meanings import meaning, metric_of
from tollmeter.numbers.readings import costs
from tollmeter.numbers.row_of import PointReadings
from tollmeter.numbers.rows import usable_visits
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject
from tollmeter.report.charts.marks import ABOVE, finished, linear_y, series_colour, tips, values
from tollmeter.report.numbers import of_row, percent, time
from tollmeter.studies.attempts import outcomes_of

MOST_POINTS = 900
LEAST_POINTS = 4
LEAST_SPAN = 0.01
STRETCHES = 60
STRIP = 9  # pixels
CROSS = "M-1,-1L1,1M1,-1L-1,1"
TIPS = tips(("at", "at"), ("value", "control loop"), ("series", "core"), ("aside", "discarded"))
NAMES = {"whole": "uncontended core", "shared": "contended core", "unknown": "unknown"}

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
    looks = _samples(bench) if bench.is_the_machine else []
    if len(looks) < LEAST_POINTS:
        return
    middle = median(look.ghz for look in looks)
    low, high = (end(look.ghz for look in looks) for end in (min, max))
    x = alt.X("x:Q", title="seconds since the first sample", axis=alt.Axis(grid=False))
    scale = alt.Scale(domain=[low - LEAST_SPAN * middle, high + LEAST_SPAN * middle], zero=False, nice=False)
    y = alt.Y("y:Q", title="control loop, GHz", scale=scale, axis=alt.Axis(tickCount=5, **ABOVE))
    kept = [look for look in looks if not look.aside]
    layers = [_strip(looks, x), _points(kept, x, y), _crosses([look for look in looks if look.aside], x, y)]
    spec = finished(alt.layer(*filter(None, layers)), 240)
    yield STEADINESS.chart(spec, [], _sentence(looks, middle))


def _samples(bench: Bench) -> list[SampleMark]:
    """Samples in order of time, or of visits if untimed; of a long run some visits, evenly spaced."""
    outcomes = sorted(bench.outcomes, key=lambda outcome: (outcome.at_ns, outcome.visit))
    every = -(-sum(len(outcome.samples) for outcome in outcomes) // MOST_POINTS) or 1
    looks = [look for outcome in outcomes[::every] for look in _of_visit(outcome, bench)]
    first = min((look.at_s for look in looks), default=0.0)
    return [look._replace(at_s=look.at_s - first) for look in looks]


def _of_visit(outcome: Outcome, bench: Bench) -> Iterator[SampleMark]:
    probe = bench.results.probes.get(outcome.point.probe)
    if probe is None or not outcome.samples:
        return
    width = np.array([bench.known.width_for_states(outcome)])
    seen = states(Taken([outcome.samples]), cores_hz([outcome]), width)
    why = reasons(outcome.samples, probe)
    for sample, state, aside in zip(outcome.samples, seen, why, strict=True):
        rate = sample.witness.control_hz or median(outcome.controls or (0.0,))
        if rate > 0:
            at_s = (sample.at_ns or outcome.at_ns) / 1e9 or float(outcome.visit)
            yield SampleMark(at_s, rate / 1e9, str(state), aside or "")


def _points(looks: Sequence[SampleMark], x: alt.X, y: alt.Y) -> alt.Chart:
    order = [name for state, name in NAMES.items() if any(look.state == state for look in looks)]
    by: Spec = series_colour("series", order)
    base = alt.Chart(values([_datum(look) for look in looks]))
    dots: alt.Chart = base.mark_point(style="dot", opacity=0.6).encode(x, y, by["color"], by["shape"], tooltip=TIPS)
    return dots


def _crosses(looks: Sequence[SampleMark], x: alt.X, y: alt.Y) -> alt.Chart | None:
    base = alt.Chart(values([_datum(look) for look in looks]))
    return base.mark_point(style="aside", shape=CROSS, clip=True).encode(x, y, tooltip=TIPS) if looks else None


def _datum(look: SampleMark) -> Datum:
    at, ghz = float(f"{look.at_s:.2f}"), float(f"{look.ghz:.4g}")
    return {"x": at, "y": ghz, "series": NAMES[look.state], "at": f"{at:g} s", "value": f"{ghz:.3g} GHz"} | (
        {"aside": look.aside} if look.aside else {}
    )


def _strip(looks: Sequence[SampleMark], x: alt.X) -> alt.Chart | None:
    """The shared share of each stretch of the run, at the bottom; none where no core's state was seen."""
    seen = [look for look in looks if look.state != "unknown"]
    if not seen:
        return None
    wide = max(look.at_s for look in looks) / STRETCHES or 1.0
    stretches: dict[int, list[bool]] = defaultdict(list)
    for look in seen:
        stretches[int(look.at_s / wide)].append(look.state == "shared")
    data = [
        {"x": place * wide, "x2": (place + 1) * wide, "share": sum(shared) / len(shared),
         "value": percent(sum(shared) / len(shared))}
        for place, shared in sorted(stretches.items())
    ]  # fmt: skip
    base = alt.Chart(values(data)).mark_rect(style="beside", clip=True)
    opacity = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)
    named = tips(("value", "of the time on a contended core"))
    ends = {"y": alt.value(alt.expr(f"height - {STRIP}")), "y2": alt.value(alt.expr("height"))}
    strip: alt.Chart = base.encode(x, alt.X2("x2:Q"), opacity=opacity, tooltip=named, **ends)
    return strip


def _sentence(looks: Sequence[SampleMark], middle: float) -> str:
    off = sorted(abs(look.ghz / middle - 1) for look in looks)[int(0.9 * (len(looks) - 1))]
    seen = [look for look in looks if look.state != "unknown"]
    shared = sum(look.state == "shared" for look in seen) / len(seen) if seen else None
    aside = sum(bool(look.aside) for look in looks)
    parts = [f"{middle:.3g} GHz, within {percent(off)} in nine of ten samples"]
    parts += [f"core contended in {percent(shared)} of those whose state is known"] if shared is not None else []
    parts += [f"{aside:,} of {len(looks):,} discarded"] if aside else []
    return "; ".join(parts) + "."


# ---- distribution chart ---------------------------------------------------------------------------------------------

MOST_SAMPLES = 600
LEAST_SAMPLES = 4
WANTED = ("entry", "price-of-fault", "trap", "switch")


def distribution(bench: Bench) -> Iterator[Chart]:
    """Of the best known boundary that was measured; drawn once, for the machine itself."""
    row = _chosen(bench) if bench.is_the_machine else None
    data = _distribution_samples(bench, row) if row else []
    if row is None or len(data) < LEAST_SAMPLES:
        return
    order = [name for name in NAMES.values() if any(d["series"] == name for d in data)]
    by = series_colour("series", order)
    x = alt.X("x:O", title="visit, in the order of the run", axis=alt.Axis(labelOverlap=True, labelAngle=0))
    named = tips(("value", "sample"), ("series", "core"), ("at", "visit"))
    points = alt.Chart(values(data)).mark_point(style="dot", opacity=0.75).encode(
        x, linear_y(data, "ns", "one sample"), by["color"], by["shape"], tooltip=named
    )  # fmt: skip
    name = _line(bench, row)
    subject = Subject(
        "distribution",
        f"Every sample of one number: {name}",
        "What is a median made of, and does it have more than one state?",
        (meaning(row, bench.results.probes) or "",),
    )
    yield subject.chart(finished(points, 260), [row], _distribution_sentence(name, row, data))


def _chosen(bench: Bench) -> Row | None:
    """The first typical one of the best known meanings, by the table of tolls."""
    own = bench.own(bench.rows)
    places = {
        (toll.probe, toll.metric, str(toll.parameters)): toll for toll in bench.results.index.tolls if toll.typical
    }
    for means in WANTED:
        for row in own:
            named = (row.probe, row.metric, str(row.parameters)) in places
            if named and row.unit == "ns" and meaning(row, bench.results.probes) == means:
                return row
    return None


def _line(bench: Bench, row: Row) -> str:
    """Its words in the table of tolls."""
    tolls: Sequence[Toll] = bench.results.index.tolls
    return next(t.toll for t in tolls if (t.probe, t.metric, t.parameters) == (row.probe, row.metric, row.parameters))


def _distribution_samples(bench: Bench, row: Row) -> list[Datum]:
    """Costs in ns as read off the clock, with the core's state; the batches of n and 2n of a sample are two."""
    group = outcomes_of(bench.results, row)
    metric, probe = metric_of(row, bench.results.probes), bench.probe(row)
    visited = usable_visits(group, probe, bench.known) if group and probe else None
    if not isinstance(visited, PointReadings) or metric is None:
        return []
    costs_ = [
        {"x": place, "y": float(f"{cost:.4g}"), "lo": cost, "hi": cost, "series": NAMES[str(state)],
         "value": str(time(cost)), "at": str(read.outcome.visit)}
        for place, read in enumerate(visited.readings, start=1)
        if (seen := costs(read, metric, visited.paid)) is not None
        for of_sample, state in zip(seen, read.states, strict=True)
        for cost in of_sample.tolist()
    ]  # fmt: skip
    return costs_[:: -(-len(costs_) // MOST_SAMPLES) or 1]


def _distribution_sentence(name: str, row: Row, data: Sequence[Datum]) -> str:
    low, high = (time(end(float(d["y"]) for d in data)) for end in (min, max))
    shared = [state for state in row.states if state.state == "shared"]
    beside = f", {time(shared[0].median, shared[0].low, shared[0].high)} on a contended core" if shared else ""
    return f"{name[:1].upper()}{name[1:]} costs {of_row(row)}{beside}; single samples lie from {low} to {high}."
