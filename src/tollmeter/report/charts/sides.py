# SPDX-License-Identifier: Apache-2.0
"""A study's published points with this machine's beside them, in one unit: turns of a control loop, shares of busy
time, ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import altair as alt

from tollmeter.model import PublishedShare, Relative, StudyFigure
from tollmeter.numbers.stats import Estimate
from tollmeter.report.charts.chart import Bench, Chart, Datum, Picture
from tollmeter.report.charts.marks import (
    BESIDE_WORDS,
    COUNT_LABEL,
    bounds,
    finished,
    hover,
    log_ticks,
    series_colour,
    values,
    words_axis,
)
from tollmeter.report.numbers import plain, quantity
from tollmeter.report.profiles import part_like
from tollmeter.studies.attempts import Place, published_turns
from tollmeter.studies.attempts import listing as listed
from tollmeter.studies.choices import Pair, pairs
from tollmeter.studies.claim_rows import in_turns
from tollmeter.studies.relatives import published_ratio

STEP, ROOM = 15, 44
PUBLISHED, HERE = "published", "here"
BUILDS = (PUBLISHED, "published, rebuilt")
MOST_FIGURES = 3


# ---- a listing ----------------------------------------------------------------------------------------------------


def listing(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """The time of each test in multiples of loop A of its own machine and build."""
    places = [place for place in listed(bench.book) if (place.target, place.clock) == (bench.target, bench.clock)]
    turns_of = {place.abi: turns for place in places if (turns := list(_measured_ratios(bench, place)))}
    here = [{**d, "series": abi if len(turns_of) > 1 else HERE} for abi, turns in turns_of.items() for d in turns]
    data = [*_published_ratios(bench), *here]
    if here:
        probes = {test.row.probe for place in places for test in place.tests}
        yield _chart(figure, data, sorted(probes), log=True)


def _published_ratios(bench: Bench) -> Iterator[Datum]:
    for line, build, turns in published_turns(bench.book.suite.listing if bench.book.suite else ()):
        yield _published(f"{line.test} {line.what}", BUILDS[build], turns, "turns")


def _measured_ratios(bench: Bench, place: Place) -> Iterator[Datum]:
    for test in place.tests:
        turns = in_turns(bench.book, test.row)
        if turns is not None and test.listed.test != place.tests[0].listed.test:
            yield _here(f"{test.listed.test} {test.listed.what}", HERE, turns, "turns")


# ---- two profiles -------------------------------------------------------------------------------------------------


def profiles(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """A function's share of the busy time in each profile, without functions that have no match here."""
    suite = bench.book.suite
    here = [pair for pair in pairs(bench.book, suite) if pair.left.target == bench.target] if suite else []
    if not here or suite is None or suite.beside is None:
        return
    data = [d for share, *parts in suite.beside.busy() if share.here for d in _shares(share, parts, here[0])]
    yield _chart(figure, data, sorted({here[0].left.probe, here[0].right.probe}), log=False)


def _shares(share: PublishedShare, parts: Sequence[float], pair: Pair) -> Iterator[Datum]:
    for title, part, profile in zip(pair.titles, parts, (pair.left, pair.right), strict=True):
        here = part_like(profile, share.here)
        yield _published(share.function, f"{PUBLISHED}, {title}", part, "%")
        yield _here(share.function, f"{HERE}, {title}", Estimate(here, here, here), "%")


# ---- programs of a study --------------------------------------------------------------------------------------------


def programs(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Memory or time of each program under another ABI, in times what it takes under the machine's own."""
    study = bench.book.index.study
    relatives = (
        [relative for relative in study.relatives if relative.measure == figure.axis and not relative.primitive]
        if study
        else []
    )
    data, suite = [d for relative in relatives for d in _relative(relative)], bench.book.suite
    here = {str(d["series"]) for d in data if _is_ours(str(d["series"]))}
    if suite is not None and bench.is_first and here:
        chart = _chart(figure, data, sorted({program.probe for program in suite.program}), log=False)
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


def _chart(figure: StudyFigure, data: Sequence[Datum], probes: Sequence[str], *, log: bool) -> Chart:
    """A line a label, its points below each other in it, each kind by its colour and shape."""
    series = dict.fromkeys(str(d["series"]) for d in data)
    order, labels = sorted(series, key=_is_ours), list(dict.fromkeys(str(d["label"]) for d in data))
    by, base = series_colour("series", order), alt.Chart(values(data))
    x, beside = _x(figure, data, log=log), alt.YOffset("series:N", sort=order)
    y = alt.Y("label:N", title=None, sort=labels, axis=words_axis())
    reach = base.mark_rule(style="whisker", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), y, beside, by["color"])
    tips = hover(("label", "of"), ("series", "whose"))[:-1]
    dot = base.mark_point(style="rung").encode(x, y, beside, by["color"], by["shape"], tooltip=tips)
    spec = finished(alt.layer(reach, dot), len(labels) * len(order) * STEP + ROOM)
    return Chart(
        f"published-{figure.name}",
        figure.what,
        figure.shows,
        Picture(spec),
        (),
        tuple(probes),
        caption=_sentence(data),
    )


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


def _sentence(data: Sequence[Datum]) -> str:
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
