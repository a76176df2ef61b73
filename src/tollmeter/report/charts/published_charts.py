# SPDX-License-Identifier: Apache-2.0
"""A study's figures drawn again, published values with the values measured here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from tollmeter.model import Claim, Published, Results, Row, StudyFigure
from tollmeter.numbers.stats import Estimate
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject, names_of_probes, picture
from tollmeter.report.charts.curves_chart import HEADROOM, is_size
from tollmeter.report.charts.marks import layer, nominal, quantitative
from tollmeter.report.charts.memory import dashed_rules
from tollmeter.report.numbers import plain, quantity, size
from tollmeter.report.studies import REDRAWN, both_in_words, tally_in_words, word_of
from tollmeter.report.tables import upper
from tollmeter.studies.attempts import attempted_listing as listed
from tollmeter.studies.attempts import published_turns
from tollmeter.studies.choices import pairs, part_like
from tollmeter.studies.claim_rows import in_turns
from tollmeter.studies.matching_rows import at, figure_lines, ratio_of_rows
from tollmeter.studies.relatives import published_ratio
from tollmeter.studies.study import bounds, relation_of

_MOST_LINES = 4
ORDER = PUBLISHED, _HERE = "published", "here"
_UNCOUNTED = "instructions"
"""Clock from which no figure is drawn: a count of the program's instructions contains neither effects of caches nor the
cost of traps."""


def redrawn(bench: Bench) -> Iterator[Chart]:
    """Yields the figures in the suite's order; none for a run of no study."""
    suite = bench.results.suite
    for figure in suite.figure if suite is not None and bench.clock != _UNCOUNTED else ():
        if figure.drawn in DRAWN:
            yield from DRAWN[figure.drawn](bench, figure)


def _curve(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Yields a row, or its ratio to its reference, at each position of the axis."""
    pairs_of_lines = figure_lines(bench.results, figure, [(bench.target, bench.clock, abi) for abi in bench.abis])
    rows = [row for pairs_of_line in pairs_of_lines.values() for row, _ in pairs_of_line]
    if not rows:
        return
    in_bytes = is_size(bench, rows[0], figure.axis)
    data = [_ratio(bench.results, figure, name, *pair, in_bytes=in_bytes)
            for name, pairs_of_line in pairs_of_lines.items() for pair in pairs_of_line]  # fmt: skip
    unit = rows[0].unit if all(other is None for line in pairs_of_lines.values() for _, other in line) else "ratio"
    yield _chart_of(figure, _lines(figure, data, unit, in_bytes), names_of_probes(rows), _sentence(figure, data))


def _chart_of(figure: StudyFigure, spec: Spec, probes: Sequence[str], caption: str) -> Chart:
    name = f"{REDRAWN}{figure.name}"
    return Chart(name, figure.what, figure.shows, picture(spec), tuple(probes), caption=caption)


def _ratio(results: Results, figure: StudyFigure, name: str, row: Row, other: Row | None, *, in_bytes: bool) -> Datum:
    """Returns the ratio of a row to another, above one if faster for a rate, or longer for a time; the row's own number
    without another."""
    place = at(figure, row)
    if other is None:
        return marks.datum(row, x=place, at=str(size(place)) if in_bytes else f"{place:,}", series=name)
    upward = figure.faster == (row.better == "more")
    both = ratio_of_rows(results, other, row) if upward else ratio_of_rows(results, row, other)
    ratio, itself, firm = both.ratio, row is other, both.is_known
    low, high = (ratio.low, ratio.high) if firm and not itself else (ratio.value, ratio.value)
    return {
        "x": place, "at": str(size(place)) if in_bytes else f"{place:,}", "series": name, "firm": firm,
        "y": round(ratio.value, 5), "lo": round(low, 5), "hi": round(high, 5),
        "value": str(quantity(ratio.value, "ratio", *((low, high) if firm and not itself else (None, None)))),
        "interval": "the reference of the curve" if itself else f"{plain(low)} to {plain(high)}" if firm else "none",
        "samples": f"{row.samples} in {row.visits} visits",
    }  # fmt: skip


def _lines(figure: StudyFigure, data: Sequence[Datum], unit: str, in_bytes: bool) -> Spec:
    """Returns a line chart with a dashed rule at each published position, and at each published height, named at its
    right end."""
    heights = [{"y": mark.height, "lo": None, "hi": None, "what": mark.what} for mark in figure.mark if mark.height]
    x = marks.number_x([float(d["x"]) for d in data], figure.axis, in_bytes)
    y = marks.log_y([*data, *heights], unit, figure.title, HEADROOM)
    tips = marks.hover(("series", "line"), ("at", figure.axis))
    places = [(int(mark.at), mark.what) for mark in figure.mark if mark.at]
    layers = dashed_rules(places, max(int(d["x"]) for d in data))
    if heights:
        own, height = marks.inline_values(heights), quantitative("y")
        label = {"x": {"value": "width"}, "y": height, "text": nominal("what")}
        layers += [
            layer("rule", {"y": height}, data=own, style="reported"),
            layer("text", label, data=own, style="reported-label", align="right", baseline="bottom", dy=-2),
        ]
    by = marks.series_colour("series", marks.ordered(data, "series"))
    return marks.layered(data, [*layers, *marks.curve_layers(x, y, tips, by, dense=False)])


def _sentence(figure: StudyFigure, data: Sequence[Datum]) -> str:
    """Returns the two ends of each line, and the published values, as a sentence."""
    ends = []
    for name in marks.ordered(data, "series")[:_MOST_LINES]:
        line = [d for d in data if d["series"] == name]
        of_line = dict.fromkeys(f"{d['value']} at {d['at']}" for d in (line[0], line[-1]))
        ends.append(f"{name} {', '.join(of_line)}")
    return " ".join(f"{upper(sentence)}." for sentence in ("; ".join(ends), *(mark.what for mark in figure.mark)))


# ---- all claims on one axis -----------------------------------------------------------------------------------------

_STEP = 36
HALF_LINE = 7
LEAST_CLAIMS = 2
ROOM_FOR_WORDS = 0.4
"""Share of its length by which the axis continues beyond the largest number, for both numbers and the verdict, which
take 200 of 720 pixels."""
REACH_OF_INTERVAL = 3.0
_AXIS = ["ratio (logarithmic); of a number", "with another unit, times the published one"]


def claims(bench: Bench) -> Iterator[Chart]:
    """Yields one chart for the machine itself: a line for each claim that states something, with the published value,
    the range in which it holds, the interval measured here, and the verdict."""
    study, suite = bench.results.index.study, bench.results.suite
    if study is None or suite is None or not bench.is_first:
        return
    pairs_ = [(claim, published, ends) for claim, published in zip(study.claims, suite.published, strict=False)
              if (ends := bounds(published)) is not None]  # fmt: skip
    if len(pairs_) >= LEAST_CLAIMS:
        question = (
            "Which claims hold here? Pale: the range in which a claim holds. Line: the 95 % interval measured here."
        )
        subject = Subject(f"{REDRAWN}claims", "The study's claims and this machine", question)
        yield subject.chart(_of_claims(pairs_), bench.rows[:1], tally_in_words(study.tally))


_Drawn = tuple[Claim, Published, tuple[float, float]]


def _of_claims(several: Sequence[_Drawn]) -> Spec:
    data, ranges = _data_of_claims(several)
    seen = [float(d["y"]) for d in data if d["y"] > 0]
    ends = [end for d in ranges for end in (d["lo"], d["hi"]) if 0 < end < inf]
    least, most = marks.log_domain([*seen, *ends, 0.9, 1.1])
    domain = (least, most * (most / least) ** ROOM_FOR_WORDS)
    for d in (*data, *ranges):
        d["lo"], d["hi"] = max(least, d["lo"]), min(most, d["hi"])
    step = max(_STEP, *(marks.label_height(claim.what) for claim, *_ in several))
    ticks = sorted({*marks.log_ticks((least, 1.0)), *marks.log_ticks((1.0, most))})
    axis = {"values": ticks, "labelExpr": marks.COUNT_LABEL, **marks.BESIDE_WORDS}
    scale = {"type": "log", "domain": domain, "nice": False, "clamp": True}
    holds, *words = _ranges(ranges, scale)
    layers = [holds, _equal(), *_figures(quantitative("y", title=_AXIS, scale=scale, axis=axis)), *words]
    return marks.layered(data, layers, len(several) * step + 20)


_CLAIM = nominal("label", title=None, sort=None, axis=marks.words_axis(grid=True))


def _ranges(ranges: Sequence[Datum], scale: Spec) -> list[Spec]:
    """Returns the layers of each claim's range; at the right end the measured and the published value, with the verdict
    below; in a narrow chart, only the verdict above the line."""
    own = marks.inline_values(ranges)
    holds = {"x": quantitative("lo", scale=scale), "x2": {"field": "hi"}, "y": _CLAIM}
    words = {"x": {"value": "width"}, "y": _CLAIM}
    both = (
        (marks.by_width("''", "datum.numbers"), -HALF_LINE),
        (marks.by_width("datum.brief", "datum.word"), marks.by_width(-2 * HALF_LINE, HALF_LINE)),
    )
    return [
        layer("bar", holds, data=own, style="knee", height=14),
        *(layer("text", words, data=own, style="value", dy=dy, text=text) for text, dy in both),
    ]


def _figures(x: Spec) -> list[Spec]:
    """Returns the layers of the published value and of the measured value with its interval."""
    by, reach = marks.series_colour("series", ORDER), {"x": quantitative("lo"), "x2": {"field": "hi"}, "y": _CLAIM}
    dot = {"x": x, "y": _CLAIM, "color": by["color"], "shape": by["shape"],
           "tooltip": marks.hover(("label", "figure"))[:-1]}  # fmt: skip
    return [layer("rule", reach, style="rung-line", clip=True), layer("point", dot, style="rung")]


def _data_of_claims(several: Sequence[_Drawn]) -> tuple[list[Datum], list[Datum]]:
    """Returns points and intervals; and for each claim its range, both numbers and the verdict in words."""
    data: list[Datum] = []
    ranges: list[Datum] = []
    for claim, published, (low, high) in several:
        unit = 1.0 if claim.unit in ("", "ratio") or not claim.value else claim.value
        word, numbers = word_of(claim), both_in_words(claim, relation_of(published))
        brief, full = (word, word) if claim.counted else (f"({word})", f"{word}, not counted")
        ranges.append({"label": claim.what, "lo": low / unit, "hi": high / unit, "word": full, "brief": brief,
                       "numbers": numbers})  # fmt: skip
        if claim.value is not None:
            data.append({"label": claim.what, "series": PUBLISHED, "y": claim.value / unit, "lo": claim.value / unit,
                         "hi": claim.value / unit, "value": claim.figure, "interval": plain(claim.value)})  # fmt: skip
        if claim.here and claim.low and claim.high:
            figure = quantity(claim.here, claim.unit, claim.low, claim.high)
            here, ends = claim.here / unit, (claim.low / unit, claim.high / unit)
            data.append({"label": claim.what, "series": _HERE, "y": here, "lo": max(ends[0], here / REACH_OF_INTERVAL),
                         "hi": min(ends[1], here * REACH_OF_INTERVAL), "value": str(figure),
                         "interval": f"{plain(claim.low)} to {plain(claim.high)}"})  # fmt: skip
    return data, ranges


def _equal() -> Spec:
    """Returns the line at 1, where both sides are equal."""
    return layer("rule", {"x": quantitative("x")}, data=marks.inline_values([{"x": 1.0}]), style="reported")


# ---- sides ----------------------------------------------------------------------------------------------------------

BAR_STEP, ROOM = 15, 44
BUILDS = (PUBLISHED, "published, rebuilt")
MOST_FIGURES = 3


def _listing(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Yields the time of each test in multiples of loop A of its own machine and build."""
    places = [place for place in listed(bench.results) if (place.target, place.clock) == (bench.target, bench.clock)]
    here: dict[str, list[Datum]] = {}
    for place in places:
        of_place = []
        for test in place.tests:
            turns = in_turns(bench.results, test.row)
            if turns is not None and test.listed.test != place.tests[0].listed.test:
                of_place.append(_here(f"{test.listed.test} {test.listed.what}", _HERE, turns, "turns"))
        if of_place:
            here[place.abi] = of_place
    if here:
        lines_of_study = bench.results.suite.listing if bench.results.suite else ()
        data = [_published(f"{line.test} {line.what}", BUILDS[build], turns, "turns")
                for line, build, turns in published_turns(lines_of_study)]  # fmt: skip
        for abi, of_place in here.items():
            data += [{**d, "series": abi if len(here) > 1 else _HERE} for d in of_place]
        probes = {test.row.probe for place in places for test in place.tests}
        yield _sides_chart(figure, data, sorted(probes), log=True)


def _points(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Yields a chart with one number for each line."""
    of_lines = figure_lines(bench.results, figure, [(bench.target, bench.clock, abi) for abi in bench.abis])
    rows = [(name, row) for name, pairs_of_line in of_lines.items() for row, _ in pairs_of_line]
    if rows:
        data = [{**marks.datum(row), "label": name, "series": _HERE} for name, row in rows]
        chart = _sides_chart(figure, data, names_of_probes([row for _, row in rows]), log=False, unit=rows[0][1].unit)
        yield replace(chart, caption=upper("; ".join(f"{d['label']} {d['value']}" for d in data)) + ".")


def _profiles(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Yields a function's share of the busy time in each of two profiles, without functions that have no match here."""
    suite = bench.results.suite
    here = [pair for pair in pairs(bench.results, suite) if pair.left.target == bench.target] if suite else []
    if not here or suite is None or suite.beside is None:
        return
    pair, data = here[0], []
    for share, *parts in suite.beside.busy():
        for title, part, profile in zip(pair.titles, parts, (pair.left, pair.right), strict=True):
            if share.here:
                data += [_published(share.function, f"{PUBLISHED}, {title}", part, "%"),
                         _here(share.function, f"{_HERE}, {title}", part_like(profile, share.here), "%")]  # fmt: skip
    yield _sides_chart(figure, data, sorted({pair.left.probe, pair.right.probe}), log=False)


def programs(bench: Bench, figure: StudyFigure) -> Iterator[Chart]:
    """Yields memory or time of each program under another ABI, as a ratio to the machine's own ABI."""
    suite, study, data = bench.results.suite, bench.results.index.study, []
    for relative in study.relatives if study else ():
        if relative.measure != figure.axis or relative.primitive:
            continue
        ratio = published_ratio(relative)
        if ratio is not None:
            data.append(_published(relative.what, f"{PUBLISHED}, {relative.abi}", ratio, "ratio"))
        if relative.value:
            ends = (None, None) if relative.thin else (relative.low, relative.high)
            low, high = (end or relative.value for end in ends)
            data.append(_here(relative.what, relative.abi, Estimate(relative.value, low, high), "ratio"))
    here = {series for series in marks.ordered(data, "series") if _is_ours(series)}
    if suite is not None and bench.is_first and here:
        chart = _sides_chart(figure, data, sorted({program.probe for program in suite.program}), log=False)
        lacking = "" if suite.worth in here else f" No {suite.worth} here: {suite.mend}"
        yield replace(chart, caption=f"{chart.caption}{lacking}")


# ---- what they have in common ---------------------------------------------------------------------------------------


def _published(label: str, series: str, value: float, unit: str) -> Datum:
    return {**_here(label, series, Estimate(value, value, value), unit), "interval": "as published"}


def _here(label: str, series: str, estimate: Estimate, unit: str) -> Datum:
    """Returns the measured point; without an interval if both ends are equal."""
    value, low, high = estimate.value, estimate.low, estimate.high
    known = (low, high) if low < high else (None, None)
    return {"label": label, "series": series, "y": round(value, 5), "lo": round(low, 5), "hi": round(high, 5),
            "value": str(quantity(value, unit, *known)),
            "interval": f"{plain(low)} to {plain(high)}" if low < high else "none"}  # fmt: skip


def _sides_chart(
    figure: StudyFigure, data: Sequence[Datum], probes: Sequence[str], *, log: bool, unit: str = ""
) -> Chart:
    """Returns a chart with a line for each label, its points below each other, each kind with its colour and shape."""
    order, labels = sorted(marks.ordered(data, "series"), key=_is_ours), list(marks.ordered(data, "label"))
    by = marks.series_colour("series", order)
    line = {
        "y": nominal("label", title=None, sort=labels, axis=marks.words_axis()),
        "yOffset": nominal("series", sort=order),
        "color": by["color"],
    }
    dot = {**line, "x": _x(figure, data, unit, log=log), "shape": by["shape"],
           "tooltip": marks.hover(("label", "of"), ("series", "whose"))[:-1]}  # fmt: skip
    layers = [
        *([_equal()] if figure.drawn == "programs" else []),
        layer("rule", {**line, "x": quantitative("lo"), "x2": {"field": "hi"}}, style="whisker", clip=True),
        layer("point", dot, style="rung"),
    ]
    spec = marks.layered(data, layers, len(labels) * len(order) * BAR_STEP + ROOM)
    return _chart_of(figure, spec, probes, _sides_sentence(data))


def _x(figure: StudyFigure, data: Sequence[Datum], unit: str, *, log: bool) -> Spec:
    ends = [float(d[end]) for d in data for end in ("lo", "hi")]
    if not log:
        scale = {"domain": [0, max(marks.within_reach(data))], "nice": True, "clamp": True}
        axis = {"labelExpr": marks.label_of(unit), **marks.BESIDE_WORDS}
        return quantitative("y", title=figure.title, scale=scale, axis=axis)
    domain = marks.log_domain(ends)
    axis = {"values": marks.log_ticks(domain), "labelExpr": marks.COUNT_LABEL, **marks.BESIDE_WORDS}
    return quantitative("y", title=figure.title, scale={"type": "log", "domain": domain, "nice": False}, axis=axis)


def _is_ours(series: str) -> bool:
    return not series.startswith(PUBLISHED)


def _sides_sentence(data: Sequence[Datum]) -> str:
    """Returns a sentence on the lines that have both a published and a measured value."""
    compared = []
    for label in marks.ordered(data, "label"):
        of_label = sorted((d for d in data if d["label"] == label), key=lambda d: _is_ours(str(d["series"])))
        if len({_is_ours(str(d["series"])) for d in of_label}) == 2:
            compared.append(f"{label}: " + ", ".join(f"{d['value']} ({d['series']})" for d in of_label))
    both = f"{'; '.join(compared[:MOST_FIGURES])}." if compared else "No published number has a counterpart here yet."
    return both + (f" {len(compared) - MOST_FIGURES} more below." if len(compared) > MOST_FIGURES else "")


DRAWN = {"curve": _curve, "points": _points, "listing": _listing, "profiles": _profiles, "programs": programs}
