# SPDX-License-Identifier: Apache-2.0
"""Charts of the cost of a cache line between two CPUs: a matrix of CPUs, or dots for CPUs that form no matrix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from statistics import median

import msgspec
import numpy as np

from tollmeter.inference.core_kinds import is_under_load
from tollmeter.judgement.unlike_cpus import costs_of_loops, unlike_cpus, usual_costs
from tollmeter.model import Point, Row, Topology, Value
from tollmeter.model.topology import RELATION, in_order, kind_name, kind_of, matrix_of, numbers, speed_ranks
from tollmeter.numbers.cpu_pairs import PairNumber, pair_numbers
from tollmeter.numbers.each_cpu import MEANS, EachCpu
from tollmeter.numbers.readings import RATES
from tollmeter.report.charts.chart import Bench, Chart, Datum, Drawing, Spec, Subject
from tollmeter.report.charts.dots_and_heat import Cells, Rungs, cell, level_rungs, rung
from tollmeter.report.charts.marks import datum, layer, nominal, panelled, quantitative, series_colour, tips
from tollmeter.report.charts.marks import ordered as ordered_by
from tollmeter.report.numbers import of_row, quantity, time
from tollmeter.studies.attempts import outcomes_of

CELLS_WITH_TEXT = 12
LEAST_CPUS_FOR_MATRIX = 3
MATRIX_PIXELS, LEAST_CELL, WIDEST_CELL = 560, 6, 44
_APART = 1.25
MOST_CLUSTERS = 8

CORES = Subject("core-to-core", "From core to core", "How long does a cache line take to another CPU and back?",
                ("core-to-core",))  # fmt: skip


def core_to_core(bench: Bench) -> Iterator[Chart]:
    rows = [pair_row for row in bench.own(bench.meaning(*CORES.means)) for pair_row in by_pair(bench, row)]
    if not rows:
        return
    cpus = sorted({cpu for row in rows for cpu in cpus_of(row) or ()})
    drawing: Drawing = _matrix(bench, rows, cpus) if len(cpus) >= LEAST_CPUS_FOR_MATRIX else _pairs(bench, rows)
    of_one_way: dict[tuple[int, int] | None, Row] = {}
    for row in rows:
        of_one_way.setdefault(cpus_of(row), row)
    yield CORES.chart(drawing, rows, _sentence([*of_one_way.values()]))


def cpus_of(row: Row) -> tuple[int, int] | None:
    """The two CPUs that the parameter `pair` names: "3-11", "3,11" or "3:11"."""
    match = re.fullmatch(r"\D{0,4}(\d+)\D{1,4}(\d+)", str(row.parameters.get("pair", "")))
    return (int(match[1]), int(match[2])) if match else None


def by_pair(bench: Bench, row: Row) -> list[Row]:
    """Returns one row for each pair of CPUs that a row pools. A row of one pair is returned with its own number, which
    other tables print too; a row with a `pair` parameter unchanged."""
    probe = bench.probe(row)
    if "pair" in row.parameters or probe is None:
        return [row]
    own = {tuple(sorted(outcome.cpus[:2])) for outcome in outcomes_of(bench.results, row)}
    named = {name: value for name, value in row.parameters.items() if name != RELATION}
    if len(own) == 1:
        return [msgspec.structs.replace(row, parameters={**named, "pair": _pair_word(*own)})]
    metric = next(metric for metric in probe.metrics if metric.name == row.metric)
    matrix = matrix_of(Point(row.probe, row.abi, row.target, tuple(row.parameters.items())))
    outcomes = [outcome for outcome in bench.results.outcomes if matrix_of(outcome.point) == matrix]
    rows = [
        _row_of_pair(row, {**named, "pair": _pair_word(pair)}, number)
        for pair, number in pair_numbers(outcomes, probe, metric).items()
        if pair in own
    ]
    return rows or [row]


def _row_of_pair(row: Row, parameters: dict[str, Value], number: PairNumber) -> Row:
    estimate = number.estimate
    return msgspec.structs.replace(
        row, parameters=parameters, visits=number.visits, states=(), modes=(), converged=not number.is_wide,
        minimum=number.least, quartiles=(), median=estimate.value, low=estimate.low, high=estimate.high,
    )  # fmt: skip


def _pair_word(pair: tuple[int, ...]) -> str:
    return "-".join(map(str, pair))


def _pairs(bench: Bench, rows: Sequence[Row]) -> Rungs:
    others = bench.varying(rows, "pair")
    label = bench.named_by(rows, others)
    rungs = []
    for row in rows:
        pair = cpus_of(row)
        between = f"between CPU {pair[0]} and CPU {pair[1]}" if pair else "between two CPUs"
        rungs.append(rung(row, ", ".join([between, *([label(row)] if others else [])])))
    levels = level_rungs(bench) if rows[0].unit == "ns" else []
    return Rungs([*rungs, *levels], rows[0].unit, "round trip, compared with loads on one CPU")


def _matrix(bench: Bench, rows: Sequence[Row], cpus: Sequence[int]) -> Cells:
    """Returns the cells of a matrix, one square for each way of measuring. One measured half fills both halves of the
    square. With many CPUs a pair has one datum, which is drawn on both sides and has only its value."""
    panel = bench.panels(rows, "pair")
    many, topology = len(cpus) > CELLS_WITH_TEXT, bench.results.index.machine.topology
    data: list[Datum] = []
    for row in rows:
        pair, name, figure = cpus_of(row), panel(row) if panel else "", quantity(row.median, row.unit)
        if pair is not None and many:
            of_panel = {"panel": name} if name else {}
            value = f"{figure.number} {figure.unit}"
            data.append({"a": pair[0], "b": pair[1], "y": row.median, "value": value, **of_panel})
        elif pair is not None:
            data += [datum(row, a=a, b=b, panel=name, said=figure.number) for a, b in (pair, pair[::-1])]
    return Cells(
        data,
        titles=("CPU", "CPU"),
        unit=rows[0].unit,
        tips=(("a", "CPU"), ("b", "and CPU")),
        step=max(LEAST_CELL, min(WIDEST_CELL, MATRIX_PIXELS // len(cpus))),
        labelled=not many,
        panel=panel is not None,
        square=True,
        mirrored=many,
        order=in_order(topology, cpus) if topology else (),
    )


def core_clusters(rows: Sequence[Row]) -> list[list[int]]:
    """Returns clusters of near CPUs, by single linkage cut at the widest gap between costs; one cluster if no gap is at
    least a quarter of the cost. rows: one for each pair."""
    costs = {pair: row.median for row in rows if row.median and (pair := cpus_of(row))}
    ranked = sorted(costs.values())
    gaps = [(high / low, low) for low, high in pairwise(ranked)]
    widest, below = max(gaps, default=(1.0, 0.0))
    cluster_of = {cpu: {cpu} for pair in costs for cpu in pair}
    for (first, second), cost in costs.items():
        if (widest < _APART or cost <= below) and cluster_of[first] is not cluster_of[second]:
            joined = cluster_of[first] | cluster_of[second]
            cluster_of.update(dict.fromkeys(joined, joined))
    return sorted({tuple(sorted(cluster)): sorted(cluster) for cluster in cluster_of.values()}.values())


def _sentence(rows: Sequence[Row]) -> str:
    """Returns the clusters, and the cost of a line within one and between two, as a sentence."""
    groups = core_clusters(rows)
    if len(groups) < 2:
        return f"There and back: {of_row(rows[0])}." if len(rows) == 1 else ""
    home = {cpu: place for place, group in enumerate(groups) for cpu in group}
    inside: list[float] = []
    across: list[float] = []
    for row in rows:
        pair = cpus_of(row)
        if pair and row.median:
            (inside if home[pair[0]] == home[pair[1]] else across).append(row.median)
    named = "; ".join(f"CPUs {_spans(group)}" for group in groups[:MOST_CLUSTERS])
    within = f": {time(median(inside))} within one, {time(median(across))} between two" if inside and across else ""
    return f"{len(groups)} clusters ({named}){within}."


def _spans(cpus: Sequence[int]) -> str:
    """Returns CPU numbers as ranges: 0-7, 16-23."""
    starts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    ends = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


# ---- lines by their state -------------------------------------------------------------------------------------------

LEAST_STATES = 2
HOMES = {"timed": "pages of the timed CPU", "partner": "pages of its partner"}
TRANSFER = Subject("transfer", "Lines from another core, by state",
                   "What does a line cost that another core's cache holds?", ("transfer-of-state",))  # fmt: skip


def transfer(bench: Bench) -> Iterator[Chart]:
    """Yields a map with a row for each state, a column for each access, and a panel for the CPUs and the location of
    the pages."""
    rows = [row for row in bench.own(bench.meaning(*TRANSFER.means)) if {"state", "access"} <= set(row.parameters)]
    if len({row.parameters["state"] for row in rows}) < LEAST_STATES:
        return
    homes = [HOMES.get(str(row.parameters.get("home")), "") for row in rows]
    panels = [", ".join(filter(None, (row.relation, home))) for row, home in zip(rows, homes, strict=True)]
    cells = [cell(row, ("state", "access"), panel) for row, panel in zip(rows, panels, strict=True)]
    tips = ("a", "state"), ("b", "access"), ("panel", "where")
    drawing = Cells(cells, ("state of the line", "access"), rows[0].unit, tips, panel=len(set(panels)) > 1)
    yield TRANSFER.chart(drawing, rows)


# ---- every CPU beside the others -------------------------------------------------------------------------------------

EACH_CPU = Subject(
    "each-cpu", "Every CPU beside the others", "Is every CPU as fast as the others? A panel a loop; bands are the CPUs "
    "of one kind of core, memory node and last-level cache.", (MEANS,))  # fmt: skip
STEPS = {"clock": "clock: dependent additions", "width": "width: independent additions",
         "second_cache": "loads from the second cache", "memory": "loads from the node's memory",
         "copy": "copies of four lines"}  # fmt: skip
LABEL_FROM = 1.03
_STATES = {"nothing": "others idle", "all": "all CPUs busy"}


def each_cpu(bench: Bench) -> Iterator[Chart]:
    """Yields a chart of a step's time on each CPU, relative to the median of its kind; CPUs in the order of package,
    cache and core."""
    rows = bench.own(bench.meaning(*EACH_CPU.means))
    outcomes = [outcome for row in rows for outcome in outcomes_of(bench.results, row)]
    costs = {point: each for point, each in costs_of_loops(outcomes).items() if len(each.logs)}
    topology = bench.results.index.machine.topology or Topology()
    ordered = in_order(topology, {cpu for each in costs.values() for cpu in each.cpus})
    place = {cpu: number for number, cpu in enumerate(ordered)}
    groups = _groups(topology, ordered)
    if len(ordered) < 2:
        return
    slow, contended = unlike_cpus(costs, topology)
    labels = {one.cpus[0]: one.where for one in (*slow, *contended) if len(one.cpus) == 1}
    data = [
        {**one, "x": place[one["cpu"]], "label": labels.get(one["cpu"], "") if one["y"] > LABEL_FROM else ""}
        for (loop, beside), each in costs.items() for one in _each_datum(loop, beside, each, topology, groups)
    ]  # fmt: skip
    unlike = [one.where for one in (*slow, *contended)]
    verb = "differs" if len(unlike) == 1 else "differ"
    yield EACH_CPU.chart(_each_drawing(data), rows, f"{', '.join(unlike)} {verb} from the others." if unlike else "")


def _groups(topology: Topology, ordered: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Returns for each CPU the words of its kind, node and cache, and the index of its group from the left."""
    caches = {cpu: members for members in topology.last_caches for cpu in numbers(members)}
    nodes = {cpu: node.node for node in topology.nodes for cpu in numbers(node.cpus)}
    words = {}
    for cpu in ordered:
        kind = kind_of(topology, cpu)
        parts = (kind_name(kind) if kind else "", f"memory node {nodes[cpu]}" if cpu in nodes else "",
                 f"cache of CPUs {caches[cpu]}" if cpu in caches else "")  # fmt: skip
        words[cpu] = ", ".join(filter(None, parts))
    turn = [sum(words[a] != words[b] for a, b in pairwise(ordered[: place + 1])) for place in range(len(ordered))]
    return {cpu: (words[cpu], number) for cpu, number in zip(ordered, turn, strict=True)}


def _each_datum(
    loop: str, beside: str, each: EachCpu, topology: Topology, groups: Mapping[int, tuple[str, int]]
) -> Iterator[Datum]:
    usual, ranks = usual_costs(each.logs), speed_ranks(topology)
    kinds = np.array([ranks.get(cpu, 0) for cpu in each.cpus])
    middles = {kind: float(np.median(usual[kinds == kind])) for kind in kinds.tolist()}
    for cpu, kind, value in zip(each.cpus, kinds.tolist(), usual.tolist(), strict=True):
        words, turn = groups[cpu]
        yield {
            "panel": STEPS.get(loop, loop), "series": _STATES.get(beside, beside), "cpu": cpu, "where": words,
            "y": round(float(np.exp(value - middles[kind])), 4), "value": str(quantity(float(np.exp(value)), "ns")),
            "band": turn % 2,
        }  # fmt: skip


_MOST_TICKS = 8
"""Ticks of a panel, whose CPU numbers have up to four digits."""


def _each_drawing(data: Sequence[Datum]) -> Spec:
    order = [name for name in _STATES.values() if any(d["series"] == name for d in data)]
    by, title = series_colour("series", order), "CPUs by package, cache and core"
    cpus = sorted({d["x"] for d in data})
    axis = {"grid": False, "values": cpus[:: ceil(len(cpus) / _MOST_TICKS)], "format": "d"}
    x = quantitative("x", title=title, axis=axis, scale={"zero": False, "nice": False, "padding": 10})
    y = quantitative("y", title="times the median of its kind", scale={"zero": False})
    ends = {"x": quantitative("left", title=title, axis=axis), "x2": {"field": "right"}}
    bands = [{"filter": "datum.band"}, {"calculate": "datum.x - 0.5", "as": "left"},
             {"calculate": "datum.x + 0.5", "as": "right"}]  # fmt: skip
    named = tips(("cpu", "CPU"), ("where", "of"), ("series", "while"), ("value", "a step"))
    dots = {"x": x, "y": y, "color": by["color"], "shape": by["shape"], "tooltip": named}
    labels = {"x": x, "y": y, "text": nominal("label")}
    layers = [
        layer("rect", ends, transform=bands, style="beside", opacity=0.1),
        layer("point", dots, style="dot"),
        layer("text", labels, transform=[{"filter": "datum.label"}], align="left", dx=7),
    ]
    return panelled(data, layers, ordered_by(data, "panel"))


# ---- memory nodes ----------------------------------------------------------------------------------------------------

NODE_SUBJECTS = (
    Subject("node-latency", "Latency between memory nodes", "How long does a load from each memory node take?",
            ("latency-of-node",)),
    Subject("node-bandwidth", "Bandwidth between memory nodes", "How fast is the memory of each node read and written?",
            ("bandwidth-of-node", "traffic-of-node")),
    Subject("page-move", "Pages moved between memory nodes", "What does it cost to move a page to another node?",
            ("move-of-page",)),
)  # fmt: skip
LEAST_CELLS = 2
_READERS = {"one": "one CPU", "all": "all CPUs of the node"}
MIXES = {"3:1": ", 3 reads to 1 write", "2:1": ", 2 reads to 1 write", "1:1": ", 1 read to 1 write",
         "nt": ", non-temporal writes"}  # fmt: skip


def _by(row: Row) -> str:
    """Returns which CPUs use the memory, and how, in words. Rows of older revisions are of one reading CPU."""
    if is_under_load(row):
        return f"{_READERS['all']}, beside a chase" if row.unit in RATES else _READERS["all"]
    cpus, mix = (str(row.parameters.get(name, "")) for name in ("cpus", "mix"))
    return _READERS.get(cpus, _READERS["one"]) + MIXES.get(mix, "")


def between_nodes(bench: Bench) -> Iterator[Chart]:
    """Yields a panel for one CPU that uses the memory, and one for all CPUs of its node, by mix of reads and writes."""
    for subject in NODE_SUBJECTS:
        chased = bench.meaning("traffic-of-node")  # by one CPU: what a walk reads, and not what could be read
        rows = [row for row in bench.own(bench.meaning(*subject.means)) if is_under_load(row) or row not in chased]
        if len(rows) < LEAST_CELLS:
            continue
        titles = "CPU of node", "memory of node"
        tips = ("a", titles[0]), ("b", titles[1]), ("panel", "by")
        panels = [_by(row) for row in rows]
        cells = [cell(row, ("node", "home"), panel) for row, panel in zip(rows, panels, strict=True)]
        several = len(set(panels)) > 1
        yield subject.chart(Cells(cells, titles, rows[0].unit, tips, panel=several), rows)
