# SPDX-License-Identifier: Apache-2.0
"""A study's figures drawn again: what was published beside what was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import altair as alt

from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Claim, PublishedShare, Relative, Row, StudyFigure
from tollmeter.numbers.stats import Estimate
from tollmeter.report.charts.chart import Bench, Chart, Datum, Picture, Spec, Subject, names
from tollmeter.report.charts.curves_chart import HEADROOM, is_size
from tollmeter.report.charts.marks import (
    BESIDE_WORDS,
    COUNT_LABEL,
    Curve,
    bounds,
    curve_layers,
    finished,
    hover,
    is_firm,
    label_height,
    log_ticks,
    log_y,
    number_x,
    series_colour,
    values,
    words_axis,
)
from tollmeter.report.charts.memory import rules
from tollmeter.report.numbers import plain, quantity, size
from tollmeter.report.profiles import part_like
from tollmeter.report.studies import REDRAWN, tally_in_words
from tollmeter.report.tables import upper
from tollmeter.studies.attempts import Place, published_turns
from tollmeter.studies.attempts import listing as listed
from tollmeter.studies.choices import Pair, pairs
from tollmeter.studies.claim_rows import TURNS, in_turns
from tollmeter.studies.matching_rows import at, lines
from tollmeter.studies.relatives import published_ratio

MOST_LINES = 4
UNCOUNTED = "instructions"
"""A count of the program's own instructions knows neither caches nor what a trap costs."""


def redrawn(bench: Bench) -> Iterator[Chart]:
    """In the suite's order; none for a run of no study."""
    suite = bench.results.suite
    for figure in suite.figure if suite is not None and bench.clock != UNCOUNTED else ():
        if figure.drawn in DRAWN:
            yield from DRAWN[figure.drawn](bench, figure)


def curve(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """A row over the one that it is compared with, at each place of the axis."""
    pairs = lines(bench.results, figure, [(bench.target, bench.clock, abi) for abi in bench.abis])
    rows = [row for pairs_of_line in pairs.values() for row, _ in pairs_of_line]
    if not rows:
        return
    in_bytes = is_size(bench, rows[0], figure.axis)
    data = [
        _datum(figure, name, *pair, in_bytes=in_bytes)
        for name, pairs_of_line in pairs.items()
        for pair in pairs_of_line
    ]
    yield _chart_of(figure, _spec(figure, data, in_bytes), names(rows), _sentence(figure, data))


def _chart_of(figure: StudyFigure, spec: Spec, probes: Sequence[str], caption: str) -> Chart:
    name = f"{REDRAWN}{figure.name}"
    return Chart(name, figure.what, figure.shows, Picture(spec), (), tuple(probes), caption=caption)


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
    drawn = Curve(values(data), x, y, tips, dense=False)
    places = [(int(mark.at), mark.what) for mark in figure.mark if mark.at]
    rules_of_study = [*rules(places, max(int(d["x"]) for d in data)), *_heights(heights)]
    return finished(alt.layer(*rules_of_study, *curve_layers(drawn, series_colour("series", order))))


def _heights(heights: Sequence[Datum]) -> list[alt.Chart]:
    """A dashed rule at each published height, named at its right end."""
    if not heights:
        return []
    base = alt.Chart(values(heights)).encode(alt.Y("y:Q"))
    label = base.mark_text(style="reported-label", align="right", baseline="bottom", dy=-2)
    return [base.mark_rule(style="reported"), label.encode(text="what:N", x=alt.value("width"))]


def _sentence(figure: StudyFigure, data: Sequence[Datum]) -> str:
    """Both ends of each line, and what was published."""
    lines = list(dict.fromkeys(str(d["series"]) for d in data))[:MOST_LINES]
    sentences = [_ends_of_line(name, [d for d in data if d["series"] == name]) for name in lines]
    return " ".join(f"{upper(sentence)}." for sentence in ("; ".join(sentences), *(mark.what for mark in figure.mark)))


def _ends_of_line(name: str, line: Sequence[Datum]) -> str:
    ends = dict.fromkeys(f"{d['value']} at {d['at']}" for d in (line[0], line[-1]))
    return f"{name} {', '.join(ends)}"


# ---- figures on one axis --------------------------------------------------------------------------------------------

STEP = 40
LEAST_CLAIMS = 2
TITLES = {"ratio": "ratio", TURNS: "turns of the control loop"}
ORDER = ("published", "here")


def published(bench: Bench) -> Iterator[Chart]:
    """Once, for the machine itself: claims are of the whole run."""
    study = bench.results.index.study
    if study is None or not bench.is_first:
        return
    for unit, title in TITLES.items():
        comparable = [claim for claim in study.claims if claim.unit == unit and claim.value]
        if len([claim for claim in comparable if claim.here]) >= LEAST_CLAIMS:
            yield _chart(bench, comparable, unit, title, tally_in_words(study.tally))


def _chart(bench: Bench, claims: Sequence[Claim], unit: str, title: str, caption: str) -> Chart:
    data = [datum for claim in claims for datum in _data(claim)]
    by, step = series_colour("series", ORDER), max(STEP, *(label_height(claim.what) for claim in claims))
    base = alt.Chart(values(data))
    x = alt.X("y:Q", title=title, scale=alt.Scale(type="log", nice=True, padding=12), axis=alt.Axis(**BESIDE_WORDS))
    y = alt.Y("label:N", title=None, sort=None, axis=words_axis(grid=True))
    reach = base.mark_rule(style="rung-line", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), y)
    dot = base.mark_point(style="rung").encode(x, y, by["color"], by["shape"], tooltip=hover(("label", "figure"))[:-1])
    subject = Subject(
        f"{REDRAWN}{unit}", f"The study's figures and this machine's: {title}",
        "What was published, and what is measured here?", (),
    )  # fmt: skip
    return subject.chart(finished(alt.layer(reach, dot), len(claims) * step + 20), bench.rows[:1], caption)


def _data(claim: Claim) -> Iterator[Datum]:
    assert claim.value is not None
    text = plain(claim.value)
    yield {"label": claim.what, "series": "published", "y": claim.value, "lo": claim.value, "hi": claim.value,
           "value": claim.figure, "interval": text}  # fmt: skip
    if claim.here and claim.low and claim.high:
        figure = quantity(claim.here, claim.unit, claim.low, claim.high)
        yield {"label": claim.what, "series": "here", "y": claim.here, "lo": claim.low, "hi": claim.high,
               "value": str(figure), "interval": f"{plain(claim.low)} to {plain(claim.high)}"}  # fmt: skip


# ---- sides ----------------------------------------------------------------------------------------------------------

BAR_STEP, ROOM = 15, 44
PUBLISHED, HERE = "published", "here"
BUILDS = (PUBLISHED, "published, rebuilt")
MOST_FIGURES = 3


# ---- a listing ----------------------------------------------------------------------------------------------------


def listing(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """The time of each test in multiples of loop A of its own machine and build."""
    places = [place for place in listed(bench.results) if (place.target, place.clock) == (bench.target, bench.clock)]
    turns_of = {place.abi: turns for place in places if (turns := list(_measured_ratios(bench, place)))}
    here = [{**d, "series": abi if len(turns_of) > 1 else HERE} for abi, turns in turns_of.items() for d in turns]
    data = [*_published_ratios(bench), *here]
    if here:
        probes = {test.row.probe for place in places for test in place.tests}
        yield _sides_chart(figure, data, sorted(probes), log=True)


def _published_ratios(bench: Bench) -> Iterator[Datum]:
    for line, build, turns in published_turns(bench.results.suite.listing if bench.results.suite else ()):
        yield _published(f"{line.test} {line.what}", BUILDS[build], turns, "turns")


def _measured_ratios(bench: Bench, place: Place) -> Iterator[Datum]:
    for test in place.tests:
        turns = in_turns(bench.results, test.row)
        if turns is not None and test.listed.test != place.tests[0].listed.test:
            yield _here(f"{test.listed.test} {test.listed.what}", HERE, turns, "turns")


# ---- two profiles -------------------------------------------------------------------------------------------------


def profiles(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """A function's share of the busy time in each profile, without functions that have no match here."""
    suite = bench.results.suite
    here = [pair for pair in pairs(bench.results, suite) if pair.left.target == bench.target] if suite else []
    if not here or suite is None or suite.beside is None:
        return
    data = [d for share, *parts in suite.beside.busy() if share.here for d in _shares(share, parts, here[0])]
    yield _sides_chart(figure, data, sorted({here[0].left.probe, here[0].right.probe}), log=False)


def _shares(share: PublishedShare, parts: Sequence[float], pair: Pair) -> Iterator[Datum]:
    for title, part, profile in zip(pair.titles, parts, (pair.left, pair.right), strict=True):
        here = part_like(profile, share.here)
        yield _published(share.function, f"{PUBLISHED}, {title}", part, "%")
        yield _here(share.function, f"{HERE}, {title}", Estimate(here, here, here), "%")


# ---- programs of a study --------------------------------------------------------------------------------------------


def programs(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Memory or time of each program under another ABI, in times what it takes under the machine's own."""
    study = bench.results.index.study
    relatives = (
        [relative for relative in study.relatives if relative.measure == figure.axis and not relative.primitive]
        if study
        else []
    )
    data, suite = [d for relative in relatives for d in _relative(relative)], bench.results.suite
    here = {str(d["series"]) for d in data if _is_ours(str(d["series"]))}
    if suite is not None and bench.is_first and here:
        chart = _sides_chart(figure, data, sorted({program.probe for program in suite.program}), log=False)
        yield (
            chart
            if suite.worth in here
            else replace(chart, caption=f"{chart.caption} No {suite.worth} here: {suite.mend}")
        )


def _relative(relative: Relative) -> Iterator[Datum]:
    ratio = published_ratio(relative)
    if ratio is not None:
        yield _published(relative.what, f"{PUBLISHED}, {relative.abi}", ratio, "ratio")
    if relative.value:
        low, high = (
            (relative.value, relative.value)
            if relative.thin
            else (relative.low or relative.value, relative.high or relative.value)
        )
        yield _here(relative.what, relative.abi, Estimate(relative.value, low, high), "ratio")


# ---- what they have in common ---------------------------------------------------------------------------------------


def _published(label: str, series: str, value: float, unit: str) -> Datum:
    return {**_here(label, series, Estimate(value, value, value), unit), "interval": "as published"}


def _here(label: str, series: str, estimate: Estimate, unit: str) -> Datum:
    """Without an interval where its ends are one."""
    value, low, high = estimate.value, estimate.low, estimate.high
    known = (low, high) if low < high else (None, None)
    return {"label": label, "series": series, "y": round(value, 5), "lo": round(low, 5), "hi": round(high, 5),
            "value": str(quantity(value, unit, *known)),
            "interval": f"{plain(low)} to {plain(high)}" if low < high else "none"}  # fmt: skip


def _sides_chart(figure: StudyFigure, data: Sequence[Datum], probes: Sequence[str], *, log: bool) -> Chart:
    """A line a label, its points below each other in it, each kind by its colour and shape."""
    series = dict.fromkeys(str(d["series"]) for d in data)
    order, labels = sorted(series, key=_is_ours), list(dict.fromkeys(str(d["label"]) for d in data))
    by, base = series_colour("series", order), alt.Chart(values(data))
    x, beside = _x(figure, data, log=log), alt.YOffset("series:N", sort=order)
    y = alt.Y("label:N", title=None, sort=labels, axis=words_axis())
    reach = base.mark_rule(style="whisker", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), y, beside, by["color"])
    tips = hover(("label", "of"), ("series", "whose"))[:-1]
    dot = base.mark_point(style="rung").encode(x, y, beside, by["color"], by["shape"], tooltip=tips)
    spec = finished(alt.layer(reach, dot), len(labels) * len(order) * BAR_STEP + ROOM)
    return _chart_of(figure, spec, probes, _sides_sentence(data))


def _x(figure: StudyFigure, data: Sequence[Datum], *, log: bool) -> alt.X:
    ends = [float(d[end]) for d in data for end in ("lo", "hi")]
    if not log:
        scale = alt.Scale(domain=[0, max(ends)], nice=True)
        return alt.X("y:Q", title=figure.title, scale=scale, axis=alt.Axis(**BESIDE_WORDS))
    domain = bounds(ends)
    axis = alt.Axis(values=log_ticks(domain), labelExpr=COUNT_LABEL, **BESIDE_WORDS)
    return alt.X("y:Q", title=figure.title, scale=alt.Scale(type="log", domain=list(domain), nice=False), axis=axis)


def _is_ours(series: str) -> bool:
    return not series.startswith(PUBLISHED)


def _sides_sentence(data: Sequence[Datum]) -> str:
    """Of the lines that have both what was published and what is here."""
    compared = []
    for label in dict.fromkeys(str(d["label"]) for d in data):
        there, here = ([d for d in data if d["label"] == label and _is_ours(str(d["series"])) == side]
                       for side in (False, True))  # fmt: skip
        if there and here:
            compared.append(f"{label}: {_list([*there, *here])}")
    both = f"{'; '.join(compared[:MOST_FIGURES])}." if compared else "Nothing that was published has its like here yet."
    return both + (f" {len(compared) - MOST_FIGURES} more below." if len(compared) > MOST_FIGURES else "")


def _list(data: Sequence[Datum]) -> str:
    return ", ".join(f"{d['value']} ({d['series']})" for d in data)


DRAWN = {"curve": curve, "listing": listing, "profiles": profiles, "programs": programs}
