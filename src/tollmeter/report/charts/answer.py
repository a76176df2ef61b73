# SPDX-License-Identifier: Apache-2.0
"""Charts of a study's answer: where time goes in each configuration, and from which number on avoiding a cost is
cheaper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tollmeter.model import Profile
from tollmeter.numbers.meanings import BILLED
from tollmeter.report.bills import OWN, SavedBill, saved_bills
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Drawing, Spec, Subject, picture
from tollmeter.report.charts.marks import layer, nominal, quantitative
from tollmeter.report.numbers import quantity, time
from tollmeter.report.profiles import profile_verdict, title_of
from tollmeter.report.programs import attribution_name as program_name
from tollmeter.report.programs import break_even_in_words as in_words
from tollmeter.studies.attribution import Attribution, largest
from tollmeter.studies.choices import break_evens, pairs

STEP, _BAR = 44, 16
_MOST_FUNCTIONS = 5
_OTHERS = "all others"
MOST_THINGS, POINTS = 64, 25

PROFILES = Subject("profiles", "Where the time goes", "Which functions does each configuration spend its time in?")
BREAK_EVEN = Subject("break-even", "What is paid for each against what is paid once",
                     "From how many on does avoiding them cost less?")  # fmt: skip


def profiles(bench: Bench) -> Iterator[Chart]:
    """Yields a chart with a bar for each profile, of the functions with the largest shares; only of the machine's own
    ABI."""
    taken = [profile for profile in bench.results.index.profiles if profile.target == bench.target and profile.shares]
    own = [profile for profile in taken if profile.abi == bench.abis[0]]
    if not own:
        return
    total: Counter[str] = Counter()
    for profile in own:
        for share in profile.shares:
            total[share.function] += round(1e6 * profile.part(share.function))
    functions = [function for function, _ in total.most_common(_MOST_FUNCTIONS)]
    data = [datum for profile in own for datum in _bar(profile, title_of(profile, own), functions)]
    probes = {profile.probe for profile in own}
    rows = [row for row in bench.rows if row.probe in probes]
    spec = marks.layered(data, _shares([*functions, _OTHERS]), len(own) * STEP + 20)
    yield PROFILES.chart(spec, rows, _change(bench, own))


def _shares(functions: list[str]) -> list[Spec]:
    """Bars of shares, and the name of each profile above its bar."""
    y = nominal("label", sort=None, axis=None)
    bars = {
        "x": quantitative("y", title="share of samples, %", scale={"domain": [0, 100]}),
        "y": y,
        "color": marks.series_colour("series", functions)["color"],
        "order": quantitative("rank"),
        "tooltip": marks.hover(("label", "of"), ("series", "function"), ("value", "share")),
    }
    label = {"x": {"value": 0}, "y": y, "text": nominal("label")}
    size, limit = marks.by_width(9.5, 12), {"expr": "width"}
    return [
        layer("bar", bars, height=_BAR, yOffset=_BAR / 2),
        layer("text", label, transform=[{"filter": "datum.rank == 0"}], style="label", dy=-_BAR / 2, fontSize=size,
              limit=limit),
    ]  # fmt: skip


def _change(bench: Bench, own: list[Profile]) -> str:
    """Returns the change between the study's two ABIs in words; without two ABIs, the largest share of each profile."""
    suite = bench.results.suite
    for pair in pairs(bench.results, suite) if suite is not None else ():
        if pair.left in own:
            return f"From {pair.titles[0]} to {pair.titles[1]}: {profile_verdict(pair.left, pair.right, pair.gain)}"
    most = (f"{title_of(profile, own)}: {function}, {100 * profile.part(function):.0f} %"
            for profile in own for function in [profile.shares[0].function])  # fmt: skip
    return f"Most of the time: {'; '.join(most)}."


def _bar(profile: Profile, label: str, functions: list[str]) -> Iterator[Datum]:
    parts = {function: 100 * profile.part(function) for function in functions}
    for rank, (function, part) in enumerate({**parts, _OTHERS: 100 - sum(parts.values())}.items()):
        yield {"y": round(part, 2), "label": label, "series": function, "rank": rank, "value": f"{part:.1f} %"}


def break_even(bench: Bench) -> Iterator[Chart]:
    """Yields a chart of two lines over the number of items: one cost rises with each item, the other is paid once."""
    suite = bench.results.suite
    even = next(iter(break_evens(bench.results, suite)), None) if suite is not None and bench.is_first else None
    if even is None:
        return
    data: list[Datum] = []
    for turn in range(POINTS):
        share = turn / (POINTS - 1)
        # From a hundredth, since one may cost more than all that avoids it.
        number = round(MOST_THINGS**share / 100 * 100**share, 4)
        for name, cost in (("each", number * even.each_ns), ("once", max(even.once_ns, 0.01))):
            data.append({"x": number, "y": round(cost, 3), "series": name, "value": str(time(cost))})
    by = marks.series_colour("series", ("each", "once"))
    encoding = {
        "x": quantitative("x", title=f"{even.asked.thing} a packet", scale={"type": "log", "nice": False}),
        "y": quantitative("y", title="ns a packet", scale={"type": "log", "nice": True}),
        "color": by["color"],
        "strokeDash": by["strokeDash"],
        "tooltip": marks.hover(("series", "paid"), ("x", even.asked.thing), ("value", "a packet")),
    }
    drawn = layer("line", encoding, data=marks.inline_values(data))
    rows = [row for row in bench.rows if row.probe == even.asked.each.probe]
    yield BREAK_EVEN.chart(marks.finished(drawn, 260), rows, in_words(even))


# ---- a program's crossings, by their cost ----------------------------------------------------------------------------

BILL = Subject(
    "bill", "Where the CPU time went", "What does each kind of crossing take of a program's CPU time?", (BILLED,)
)
_MOST_CHARGES = 4
_BILL_TIPS = marks.tips(("label", "program"), ("part", "crossing"), ("said", "takes"), ("whole", "of"))


def bill(bench: Bench) -> Iterator[Chart]:
    """Yields a chart with a bar for each program, as long as its CPU time. If charges add up to more, they are
    shortened to it."""
    bills = [one for one in saved_bills(bench.rows, bench.results.probes) if one.cpu_ns]
    taken = Counter[str]()
    for one in bills:
        for charge in one.charges:
            taken[charge.name] += round(charge.ns or 0.0)
    order = [name for name, _ in taken.most_common(_MOST_CHARGES)]
    data = [datum for one in bills for datum in _bill_bar(one, order)]
    if data:
        bars = stacked_bars(data, [*order, _OTHERS, OWN], "CPU time of one run, ms", _BILL_TIPS)
        yield BILL.chart(bars, bench.meaning(*BILL.means))


def _bill_bar(one: SavedBill, order: Sequence[str]) -> Iterator[Datum]:
    parts = dict.fromkeys([*order, _OTHERS], 0.0)
    for charge in one.charges:
        parts[charge.name if charge.name in parts else _OTHERS] += charge.ns or 0.0
    every = sum(parts.values())
    fits = min(1.0, one.cpu_ns / every) if every else 1.0
    for place, (name, ns) in enumerate({**parts, OWN: max(0.0, one.cpu_ns - every)}.items()):
        yield {"label": one.command, "part": name, "place": place, "share": ns * fits / 1e6,
               "said": str(quantity(ns, "ns")), "whole": str(quantity(one.cpu_ns, "ns"))}  # fmt: skip


# ---- the parts of a difference ---------------------------------------------------------------------------------------

_STEP, _ROOM = 40, 20
_TIPS = marks.tips(("label", "program"), ("part", "part"), ("said", "saves"), ("whole", "of"))


def attribution(bench: Bench) -> Iterator[Chart]:
    """Yields the attribution of the target on which the programs were timed."""
    attributions = [
        each for each in largest(bench.results) if each.target == bench.target and bench.clock == "hardware"
    ]
    if not attributions:
        return
    first, second = attributions[0].abis
    yield Chart(
        "attribution",
        f"What {second} saves against {first}, and by what",
        f"Does {second} save instructions, page faults or waiting for caches?",
        _bars(attributions),
        tuple(sorted({each.probe for each in attributions})),
    )


def _bars(attributions: Sequence[Attribution]) -> Drawing:
    data = [
        {"label": program_name(each), "part": part.name, "place": place,
         "share": 100 * (part.ns or 0.0) / each.first_ns, "said": str(quantity(part.ns, "ns")),
         "whole": str(quantity(each.first_ns, "ns"))}
        for each in attributions for place, part in enumerate(each.parts) if part.ns
    ]  # fmt: skip
    order = [part.name for part in attributions[0].parts]
    return stacked_bars(data, order, "saved, % of the first's CPU time", _TIPS)


def stacked_bars(data: Sequence[Datum], order: Sequence[str], title: str, tips: Sequence[Spec]) -> Drawing:
    """A bar for each label, of parts in their order."""
    encoding = {
        "x": quantitative("share", title=title, stack="zero", axis=marks.BESIDE_WORDS),
        "y": nominal("label", title=None, sort=None, axis=marks.words_axis()),
        "order": quantitative("place"),
        "tooltip": tips,
        "color": marks.series_colour("part", order, "made of")["color"],
    }
    bars = layer("bar", encoding, data=marks.inline_values(data), height=16)
    return picture(marks.finished(bars, len({each["label"] for each in data}) * _STEP + _ROOM))
