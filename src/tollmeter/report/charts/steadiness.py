# SPDX-License-Identifier: Apache-2.0
"""How steady the machine stood under the run: the control loop beside every visit, in the order of the run."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import altair as alt

from tollmeter.model import Outcome
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.marks import ABOVE, finished, values

MOST_POINTS = 800
LEAST_SPAN = 0.01

STEADINESS = Subject(
    "steadiness",
    "Was the machine steady?",
    "How far did the plain control loop wander while the run lasted?",
    ("control-loop",),
)


def steadiness(bench: Bench) -> Iterator[Chart]:
    told = sorted((o for o in bench.outcomes if o.controls and min(o.controls) > 0), key=lambda outcome: outcome.visit)
    if len(told) < 3 or not bench.is_the_machine:
        return
    middle = median(rate for outcome in told for rate in outcome.controls)
    every = -(-len(told) // MOST_POINTS)
    data = [_datum(outcome, middle) for outcome in told[::every]]
    span = max(LEAST_SPAN, 1.15 * max(abs(float(d["y"])) for d in data))
    base = alt.Chart(values(data))
    x = alt.X("x:Q", title="visit, in the order of the run", axis=alt.Axis(grid=False, tickMinStep=1))
    y = alt.Y("y:Q", title="control loop against its median", scale=alt.Scale(domain=[-span, span]),
              axis=alt.Axis(format="+.1~%", tickCount=5, **ABOVE))  # fmt: skip
    tips = [alt.Tooltip(field=f, type="nominal", title=t) for f, t in (("of", "visit"), ("said", "control loop"))]
    points = base.mark_circle(style="visit").encode(x, y, tooltip=tips)
    zero = alt.Chart(values([{"y": 0}])).mark_rule(style="told").encode(alt.Y("y:Q"))
    yield STEADINESS.chart(finished(alt.layer(zero, points), 200), [])


def _datum(outcome: Outcome, middle: float) -> Datum:
    share = median(outcome.controls) / middle - 1
    return {"x": outcome.visit, "y": float(f"{share:.4g}"), "said": f"{share * 100:+.2f} %",
            "of": f"{outcome.visit}, {outcome.point.probe}"}  # fmt: skip
