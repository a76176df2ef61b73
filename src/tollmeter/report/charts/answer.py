# SPDX-License-Identifier: Apache-2.0
"""A study's own answer as charts: where time goes in each configuration, and from how many on avoiding costs less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Profile, Row
from tollmeter.report.charts.chart import Bench, Chart, Datum, Picture, Subject
from tollmeter.report.charts.marks import BESIDE_WORDS, by_width, finished, hover, series_colour, values, words_axis
from tollmeter.report.numbers import quantity, time
from tollmeter.report.profiles import title_of, verdict
from tollmeter.report.programs import named
from tollmeter.report.programs import ratio_in_words as in_words
from tollmeter.studies.attribution import Attribution, Part, largest
from tollmeter.studies.choices import Even, break_evens, pairs

STEP, BAR = 44, 16
MOST_FUNCTIONS = 5
OTHERS = "all others"
MOST_THINGS, POINTS = 64, 25

PROFILES = Subject("profiles", "Where the time goes", "Which functions does each configuration spend its time in?", ())
BREAK_EVEN = Subject(
    "break-even",
    "What is paid for each against what is paid once",
    "From how many on does avoiding them cost less?",
    (),
)


def profiles(bench: Bench) -> Iterator[Chart]:
    """A bar a profile, of the functions that have most of all; the machine's own ABI alone."""
    taken = [profile for profile in bench.results.index.profiles if profile.target == bench.target and profile.shares]
    own = [profile for profile in taken if profile.abi == bench.abis[0]]
    if not own:
        return
    names = _names(own)
    data = [datum for profile in own for datum in _bar(profile, title_of(profile, own), names)]
    x = alt.X("y:Q", title="share of samples, %", scale=alt.Scale(domain=[0, 100]))
    y = alt.Y("label:N", sort=None, axis=None)
    by = series_colour("series", [*names, OTHERS])
    tips = hover(("label", "of"), ("series", "function"), ("value", "share"))
    base = alt.Chart(values(data)).encode(y)
    bars = base.mark_bar(height=BAR, yOffset=BAR / 2).encode(x, by["color"], order="rank:Q", tooltip=tips)
    labels = base.mark_text(style="label", dy=-BAR / 2, fontSize=by_width(9.5, 12), limit=alt.expr("width"))
    named = labels.encode(text="label:N", x=alt.value(0)).transform_filter("datum.rank == 0")
    probes = {profile.probe for profile in own}
    rows = [row for row in bench.rows if row.probe in probes]
    yield PROFILES.chart(finished(alt.layer(bars, named), len(own) * STEP + 20), rows, _change(bench, own))


def _change(bench: Bench, own: list[Profile]) -> str:
    """From one to the other of the study's two, in words; else what each has most of."""
    suite = bench.results.suite
    pairs_shown = [pair for pair in pairs(bench.results, suite) if pair.left in own] if suite is not None else []
    if pairs_shown:
        left, right = pairs_shown[0].titles
        return f"From {left} to {right}: {verdict(pairs_shown[0].left, pairs_shown[0].right, pairs_shown[0].gain)}"
    most = (
        f"{title_of(one, own)}: {one.shares[0].function}, {100 * one.part(one.shares[0].function):.0f} %" for one in own
    )
    return f"Most of the time: {'; '.join(most)}."


def _names(taken: list[Profile]) -> list[str]:
    """Those that have most of all profiles together."""
    whole: Counter[str] = Counter()
    for profile in taken:
        for share in profile.shares:
            whole[share.function] += round(1e6 * profile.part(share.function))
    return [name for name, _ in whole.most_common(MOST_FUNCTIONS)]


def _bar(profile: Profile, label: str, names: list[str]) -> Iterator[Datum]:
    parts = {name: 100 * profile.part(name) for name in names}
    for rank, (name, part) in enumerate({**parts, OTHERS: 100 - sum(parts.values())}.items()):
        percentage = f"{part:.1f} %"
        yield {"y": round(part, 2), "label": label, "series": name, "rank": rank, "value": percentage}


def break_even(bench: Bench) -> Iterator[Chart]:
    """Two lines over the number of things: one rises with each, the other is paid once."""
    suite = bench.results.suite
    evens = list(break_evens(bench.results, suite)) if suite is not None and bench.is_first else []
    for even in evens[:1]:
        data = [datum for number in _numbers() for datum in _both(even, number)]
        x = alt.X("x:Q", title=f"{even.asked.thing} a packet", scale=alt.Scale(type="log", nice=False))
        y = alt.Y("y:Q", title="ns a packet", scale=alt.Scale(type="log", nice=True))
        by = series_colour("series", ("each", "once"))
        tips = hover(("series", "paid"), ("x", even.asked.thing), ("value", "a packet"))
        drawn = alt.Chart(values(data)).mark_line().encode(x, y, by["color"], strokeDash=by["dash"], tooltip=tips)
        yield BREAK_EVEN.chart(finished(drawn, 260), _rows(bench), in_words(even))


def _rows(bench: Bench) -> list[Row]:
    """Those that say what each costs."""
    asked = bench.results.suite.break_even if bench.results.suite else None
    return [row for row in bench.rows if asked and row.probe == asked.each.probe]


def _numbers() -> list[float]:
    """From a hundredth, since one may cost more than all that avoids it."""
    return [
        round(MOST_THINGS ** (turn / (POINTS - 1)) / 100 * 100 ** (turn / (POINTS - 1)), 4) for turn in range(POINTS)
    ]


def _both(even: Even, number: float) -> Iterator[Datum]:
    for name, cost in (("each", number * even.each_ns), ("once", max(even.once_ns, 0.01))):
        yield {"x": number, "y": round(cost, 3), "series": name, "value": str(time(cost))}


# ---- what a difference is made of -----------------------------------------------------------------------------------

_STEP, _ROOM = 40, 20
MEANS = ("cpu-time",)
TIPS = (("label", "program"), ("part", "part"), ("said", "saves"), ("whole", "of"))


def attribution(bench: Bench) -> Iterator[Chart]:
    """Of the place in which the programs were timed."""
    attributions = [one for one in largest(bench.results) if one.target == bench.target and bench.clock == "hardware"]
    if not attributions:
        return
    first, second = attributions[0].abis
    yield Chart(
        "attribution",
        f"What {second} saves against {first}, and by what",
        f"Does {second} save instructions, page faults or waiting for caches?",
        Picture(_bars(attributions)),
        MEANS,
        tuple(sorted({one.probe for one in attributions})),
    )


def _bars(attributions: Sequence[Attribution]) -> dict[str, object]:
    order = [part.name for part in attributions[0].parts]
    rows = [_datum(one, part, place) for one in attributions for place, part in enumerate(one.parts) if part.ns]
    bar = alt.Chart(values(rows)).mark_bar(height=16)
    bars = bar.encode(
        alt.X("share:Q", title="saved, % of the first's CPU time", stack="zero", axis=alt.Axis(**BESIDE_WORDS)),
        alt.Y("label:N", title=None, sort=None, axis=words_axis()),
        order="place:Q",
        tooltip=[alt.Tooltip(field=name, type="nominal", title=title) for name, title in TIPS],
        color=series_colour("part", order, "made of")["color"],
    )
    return finished(bars, len(attributions) * _STEP + _ROOM)


def _datum(one: Attribution, part: Part, place: int) -> Datum:
    return {
        "label": named(one),
        "part": part.name,
        "place": place,
        "share": 100 * (part.ns or 0.0) / one.first_ns,
        "said": str(quantity(part.ns, "ns")),
        "whole": str(quantity(one.first_ns, "ns")),
    }
