# SPDX-License-Identifier: Apache-2.0
"""A study's own figures drawn anew from this run, in a unit that is comparable between machines, with the study's
statements drawn in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Claim, Row, StudyFigure
from tollmeter.report.charts.boundaries import rules
from tollmeter.report.charts.chart import Bench, Chart, Datum, Picture, Spec, Subject, names
from tollmeter.report.charts.curves_chart import HEADROOM, is_size
from tollmeter.report.charts.marks import (
    BESIDE_WORDS,
    Curve,
    curve_layers,
    finished,
    hover,
    is_firm,
    log_y,
    number_x,
    series_colour,
    values,
    words_axis,
)
from tollmeter.report.charts.marks import values as data_of
from tollmeter.report.charts.sides import listing, profiles, programs
from tollmeter.report.numbers import plain, quantity, size
from tollmeter.report.studies import tally_in_words
from tollmeter.report.tables import upper
from tollmeter.studies.claim_rows import TURNS
from tollmeter.studies.redrawn_lines import at, lines

MOST_LINES = 4
UNCOUNTED = "instructions"
"""A count of the program's own instructions knows neither caches nor what a trap costs."""


def redrawn(bench: Bench) -> Iterator[Chart]:
    """In the suite's order; none for a run of no study."""
    suite = bench.book.suite
    for figure in suite.figure if suite is not None and bench.clock != UNCOUNTED else ():
        if figure.drawn in DRAWN:
            yield from DRAWN[figure.drawn](bench, figure)


def curve(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """A row over the one that it is compared with, at each place of the axis."""
    pairs = lines(bench.book, figure, [(bench.target, bench.clock, abi) for abi in bench.abis])
    rows = [row for pairs_of_line in pairs.values() for row, _ in pairs_of_line]
    if not rows:
        return
    in_bytes = is_size(bench, rows[0], figure.axis)
    data = [
        _datum(figure, name, *pair, in_bytes=in_bytes)
        for name, pairs_of_line in pairs.items()
        for pair in pairs_of_line
    ]
    drawing, caption = Picture(_spec(figure, data, in_bytes)), _sentence(figure, data)
    yield Chart(f"published-{figure.name}", figure.what, figure.shows, drawing, (), names(rows), caption=caption)


def _datum(figure: StudyFigure, name: str, row: Row, other: Row, *, in_bytes: bool) -> Datum:
    """How many times as fast as the other, or as long: of a rate more is faster, of a time less."""
    place = at(figure, row)
    upward = figure.faster == (row.better == "more")
    ratio = ratio_of(other, row) if upward else ratio_of(row, other)
    itself, firm = row is other, is_firm(row) and is_firm(other)
    low, high = (ratio.low, ratio.high) if firm and not itself else (ratio.value, ratio.value)
    return {
        "x": place, "at": str(size(place)) if in_bytes else f"{place:,}", "series": name, "firm": firm,
        "y": round(ratio.value, 5), "lo": round(low, 5), "hi": round(high, 5),
        "value": str(quantity(ratio.value, "ratio", *((low, high) if firm and not itself else (None, None)))),
        "interval": "it is held against this" if itself else f"{plain(low)} to {plain(high)}" if firm else "none",
        "samples": f"{row.samples} in {row.visits} visits",
    }  # fmt: skip


def _spec(figure: StudyFigure, data: Sequence[Datum], in_bytes: bool) -> Spec:
    order = tuple(dict.fromkeys(str(d["series"]) for d in data))
    heights = [{"y": mark.height, "lo": None, "hi": None, "what": mark.what} for mark in figure.mark if mark.height]
    x = number_x([float(d["x"]) for d in data], figure.axis, in_bytes)
    y = log_y([*data, *heights], "ratio", figure.title, HEADROOM)
    tips = hover(("series", "line"), ("at", figure.axis))
    drawn = Curve(data_of(data), x, y, tips, dense=False)
    places = [(int(mark.at), mark.what) for mark in figure.mark if mark.at]
    rules_of_study = [*rules(places, max(int(d["x"]) for d in data)), *_heights(heights)]
    return finished(alt.layer(*rules_of_study, *curve_layers(drawn, series_colour("series", order))))


def _heights(heights: Sequence[Datum]) -> list[alt.Chart]:
    """A dashed rule at each published height, named at its right end."""
    if not heights:
        return []
    base = alt.Chart(data_of(heights)).encode(alt.Y("y:Q"))
    label = base.mark_text(style="told-label", align="right", baseline="bottom", dy=-2)
    return [base.mark_rule(style="told"), label.encode(text="what:N", x=alt.value("width"))]


def _sentence(figure: StudyFigure, data: Sequence[Datum]) -> str:
    """Both ends of each line, and what was published."""
    lines = list(dict.fromkeys(str(d["series"]) for d in data))[:MOST_LINES]
    sentences = [_ends_of_line(name, [d for d in data if d["series"] == name]) for name in lines]
    return " ".join(f"{upper(sentence)}." for sentence in ("; ".join(sentences), *(mark.what for mark in figure.mark)))


def _ends_of_line(name: str, line: Sequence[Datum]) -> str:
    ends = dict.fromkeys(f"{d['value']} at {d['at']}" for d in (line[0], line[-1]))
    return f"{name} {', '.join(ends)}"


DRAWN = {"curve": curve, "listing": listing, "profiles": profiles, "programs": programs}


# ---- figures on one axis --------------------------------------------------------------------------------------------

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
        comparable = [claim for claim in study.claims if claim.unit == unit and claim.value]
        if len([claim for claim in comparable if claim.here]) >= LEAST_CLAIMS:
            yield _chart(bench, comparable, unit, title, tally_in_words(study.tally))


def _chart(bench: Bench, claims: Sequence[Claim], unit: str, title: str, caption: str) -> Chart:
    data = [datum for claim in claims for datum in _data(claim)]
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
    return subject.chart(finished(alt.layer(reach, dot), len(claims) * STEP + 20), bench.rows[:1], caption)


def _data(claim: Claim) -> Iterator[Datum]:
    assert claim.value is not None
    text = plain(claim.value)
    yield {"label": claim.what, "series": "published", "y": claim.value, "lo": claim.value, "hi": claim.value,
           "value": claim.figure, "interval": text}  # fmt: skip
    if claim.here and claim.low and claim.high:
        figure = quantity(claim.here, claim.unit, claim.low, claim.high)
        yield {"label": claim.what, "series": "here", "y": claim.here, "lo": claim.low, "hi": claim.high,
               "value": str(figure), "interval": f"{plain(claim.low)} to {plain(claim.high)}"}  # fmt: skip
