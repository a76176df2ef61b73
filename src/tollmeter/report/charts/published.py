# SPDX-License-Identifier: Apache-2.0
"""A study's own figure with this machine on it: what was published and what is here, on one axis for each unit that
carries from one machine to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Claim
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.marks import BESIDE_WORDS, finished, hover, series_colour, values, words_axis
from tollmeter.report.numbers import plain, quantity
from tollmeter.report.studies import tally_in_words
from tollmeter.studies.claim_rows import TURNS

STEP = 40
LEAST_CLAIMS = 2
TITLES = {"ratio": "ratio", TURNS: "turns of the control loop"}
ORDER = ("published", "here")


def published(bench: Bench) -> Iterator[Chart]:
    """Once, for the machine itself: claims are of the whole run."""
    study = bench.book.index.study
    if study is None or not bench.is_first:
        return
    for unit, title in TITLES.items():
        told = [claim for claim in study.claims if claim.unit == unit and claim.value]
        if len([claim for claim in told if claim.here]) >= LEAST_CLAIMS:
            yield _chart(bench, told, unit, title, tally_in_words(study.tally))


def _chart(bench: Bench, told: Sequence[Claim], unit: str, title: str, said: str) -> Chart:
    data = [datum for claim in told for datum in _data(claim)]
    by = series_colour("series", ORDER)
    base = alt.Chart(values(data))
    x = alt.X("y:Q", title=title, scale=alt.Scale(type="log", nice=True, padding=12), axis=alt.Axis(**BESIDE_WORDS))
    y = alt.Y("label:N", title=None, sort=None, axis=words_axis(grid=True))
    reach = base.mark_rule(style="rung-line", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), y)
    dot = base.mark_point(style="rung").encode(x, y, by["color"], by["shape"], tooltip=hover(("label", "figure"))[:-1])
    subject = Subject(
        f"published-{unit}", f"The study's figures and this machine's: {title}",
        "What was published, and what is measured here?", (),
    )  # fmt: skip
    return subject.chart(finished(alt.layer(reach, dot), len(told) * STEP + 20), bench.rows[:1], said)


def _data(claim: Claim) -> Iterator[Datum]:
    assert claim.value is not None
    text = plain(claim.value)
    yield {"label": claim.what, "series": "published", "y": claim.value, "lo": claim.value, "hi": claim.value,
           "value": claim.figure, "interval": text}  # fmt: skip
    if claim.here and claim.low and claim.high:
        said = quantity(claim.here, claim.unit, claim.low, claim.high)
        yield {"label": claim.what, "series": "here", "y": claim.here, "lo": claim.low, "hi": claim.high,
               "value": str(said), "interval": f"{plain(claim.low)} to {plain(claim.high)}"}  # fmt: skip
