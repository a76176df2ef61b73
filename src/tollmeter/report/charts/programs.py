# SPDX-License-Identifier: Apache-2.0
"""What the difference between two ABIs is made of, as a stacked bar for each program: each part in per cent of the
first ABI's time, what is saved to the right of nothing and what is lost to the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.report.charts.chart import Bench, Chart, Datum, Picture
from tollmeter.report.charts.marks import BESIDE_WORDS, finished, series_colour, values, words_axis
from tollmeter.report.numbers import quantity
from tollmeter.report.programs import named
from tollmeter.studies.attribution import Attribution, Part, largest

_STEP, _ROOM = 40, 20
MEANS = ("cpu-time",)
TIPS = (("label", "program"), ("part", "part"), ("said", "saves"), ("whole", "of"))


def attribution(bench: Bench) -> Iterator[Chart]:
    """Of the place in which the programs were timed."""
    told = [one for one in largest(bench.book) if one.target == bench.target and bench.clock == "hardware"]
    if not told:
        return
    first, second = told[0].abis
    yield Chart(
        "attribution",
        f"What {second} saves against {first}, and by what",
        f"Does {second} save instructions, page faults or waiting for caches?",
        Picture(_bars(told)),
        MEANS,
        tuple(sorted({one.probe for one in told})),
    )


def _bars(told: Sequence[Attribution]) -> dict[str, object]:
    order = [part.name for part in told[0].parts]
    rows = [_datum(one, part, place) for one in told for place, part in enumerate(one.parts) if part.ns]
    bar = alt.Chart(values(rows)).mark_bar(height=16)
    bars = bar.encode(
        alt.X("share:Q", title="saved, % of the first's CPU time", stack="zero", axis=alt.Axis(**BESIDE_WORDS)),
        alt.Y("label:N", title=None, sort=None, axis=words_axis()),
        order="place:Q",
        tooltip=[alt.Tooltip(field=name, type="nominal", title=title) for name, title in TIPS],
        color=series_colour("part", order, "made of")["color"],
    )
    return finished(bars, len(told) * _STEP + _ROOM)


def _datum(one: Attribution, part: Part, place: int) -> Datum:
    return {
        "label": named(one),
        "part": part.name,
        "place": place,
        "share": 100 * (part.ns or 0.0) / one.first_ns,
        "said": str(quantity(part.ns, "ns")),
        "whole": str(quantity(one.first_ns, "ns")),
    }
