# SPDX-License-Identifier: Apache-2.0
"""A fleet's answer: the nodes that differ from their peers, the distribution of rows over nodes, and a page with a map
of both."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator, Sequence
from math import exp
from typing import Any

import numpy as np

from tollmeter.fleet.judged import (
    LEAST_NODES,
    Effect,
    HardwareModel,
    JudgedModel,
    NamedNode,
    deviation_share,
    is_in_time,
    is_rate,
)
from tollmeter.model import Row, assignments, first_few, json_document, printable
from tollmeter.report.blocks import Block, Column, Figure, Line, Table
from tollmeter.report.numbers import count, percent, quantity
from tollmeter.report.page import rendered

_MOST_ROWS = 12
MOST_EFFECTS = 4
MOST_NAMES = 3
MOST_VALUES = 3
MOST_CELLS = 8_000_000
"""Highest number of cells of the map; a larger map has one line for each probe."""
_SCALE = 400
"""Steps per unit of the natural logarithm in a cell of the map, which is one byte."""


def blocks(models: Sequence[JudgedModel], *, whole: bool) -> Iterator[Block]:
    """Yields all printed blocks. whole: includes every row's distribution."""
    for judged in models:
        nodes, rows = len(judged.model.nodes), int((judged.spread.nodes > 1).sum())
        yield f"{printable(judged.model.name)}: {count(nodes, 'node')}, {count(rows, 'row')} that several have."
        yield from (sentence(judged, named) for named in judged.named)
        yield from (printable(f"{node}: {row}.") for node, row in judged.broken)
        yield _tally(judged)
        table = distribution_table(judged, None if whole else _MOST_ROWS)
        if table:
            yield table


def _tally(judged: JudgedModel) -> str:
    nodes, named = len(judged.model.nodes), sum(len(each.nodes) for each in judged.named)
    if nodes < LEAST_NODES:
        return f"No node is judged: that takes {LEAST_NODES} nodes of one model."
    return f"{named} of {nodes} nodes differ from their peers."


# ---- sentences ------------------------------------------------------------------------------------------------------


def sentence(judged: JudgedModel, named: NamedNode) -> str:
    """Returns a sentence with the named nodes, their rows and deviation, and the parts in which they match their
    peers."""
    names, first, model = first_few(named.nodes, MOST_NAMES), named.effects[0], judged.model
    if len(named.nodes) > MOST_NAMES:
        names += f" ({len(named.nodes)} nodes)"
    effects = "; ".join(_effects(model, named.effects))
    if len(named.nodes) > 1:
        ends = sorted({_percent(model, first, end(named.costs, key=abs)) for end in (min, max)})
        effects = f"{_rows_in_words(model, first)} {' to '.join(ends)} {_direction(model, first)} their peers"
    return f"{printable(names)}: {effects}."


def _effects(model: HardwareModel, effects: Sequence[Effect]) -> Iterator[str]:
    for effect in effects[:MOST_EFFECTS]:
        costs = effect.cost - effect.half, effect.cost + effect.half
        ends = sorted(abs(_share(model, effect, cost)) for cost in costs)
        sentence = f"{_percent(model, effect, effect.cost)} {_direction(model, effect)} its {effect.peers} peers"
        interval = " to ".join(map(percent, ends))
        spread = f"95 % interval {interval}; the peers differ by {percent(exp(effect.sd) - 1)}"
        yield f"{_rows_in_words(model, effect)} {sentence} ({spread})"
    if len(effects) > MOST_EFFECTS:
        yield f"{len(effects) - MOST_EFFECTS} more rows or probes differ"
    elif effects[0].level != "node":
        probes = {row.probe for row in model.rows} - {effect.name for effect in effects}
        if probes:
            yield f"its {len(probes)} other probes are like its peers'"


def _rows_in_words(model: HardwareModel, effect: Effect) -> str:
    """Returns a phrase that names the rows of an effect, and the parameter that alone distinguishes them from the other
    rows, if there is one."""
    if effect.level == "row":
        return _row_name(model.rows[effect.rows[0]])
    of = f"{len(effect.rows)} of {len(effect.rows) + len(effect.others)} rows" if effect.others else "all its rows"
    if effect.level == "node":
        return "all rows" if not effect.others else f"the median of all rows ({of})"
    if effect.level == "part":
        return f"{effect.name} ({of})"
    show, others = ([model.rows[row].parameters for row in rows] for rows in (effect.rows, effect.others))
    for name in show[0] if show and others else ():
        values = list(dict.fromkeys(str(row.get(name)) for row in show))
        if len(values) <= MOST_VALUES and not {*values} & {str(other.get(name)) for other in others}:
            return f"{effect.name} ({of}: only {name}={','.join(values)})"
    return f"{effect.name} ({of})"


def _share(model: HardwareModel, effect: Effect, cost: float) -> float:
    return deviation_share(cost, is_rate=all(is_rate(model.rows[row]) for row in effect.rows))


def _percent(model: HardwareModel, effect: Effect, cost: float) -> str:
    return percent(abs(_share(model, effect, cost)))


def _direction(model: HardwareModel, effect: Effect) -> str:
    rows = [model.rows[row] for row in effect.rows]
    is_timed = effect.level == "node" or all(map(is_in_time, rows))
    if not is_timed or all(map(is_rate, rows)):
        return "over" if _share(model, effect, effect.cost) > 0 else "under"
    return "slower than" if effect.cost > 0 else "faster than"


def _row_name(row: Row) -> str:
    words = (row.probe, row.metric, *assignments(row.parameters.items()))
    state = {"all": " over all samples", "unknown": ", contention unknown"}.get(row.state or "", "")
    return printable(" ".join(map(str, words)) + state)


# ---- distributions --------------------------------------------------------------------------------------------------


def distribution_table(judged: JudgedModel, most: int | None) -> Table | None:
    """Returns the rows that several nodes have, the most different first; None without any."""
    spread = judged.spread
    places = [int(row) for row in np.argsort(-np.nan_to_num(spread.sd)) if spread.nodes[row] > 1][:most]
    columns = [Column("Rows"), Column("nodes", True, spare=1), Column("median", True), Column("10 %", True, spare=2),
               Column("90 %", True, spare=2), Column("differ by", True), Column("worst", True),
               Column("its node", spare=3)]  # fmt: skip
    lines = []
    for row in places:
        ends = (exp(column[row]) for column in (spread.middle, spread.low, spread.high))
        values = [quantity(end, judged.model.rows[row].unit) for end in ends]
        differ = percent(exp(spread.sd[row]) - 1)
        name, nodes = _row_name(judged.model.rows[row]), str(spread.nodes[row])
        lines.append(Line((name, nodes, *values, differ, *_worst(judged, row))))
    title = "" if most is None or len(places) < most else f"The {most} rows that differ most over nodes"
    return Table(columns, lines, title) if lines else None


def _worst(judged: JudgedModel, row: int) -> tuple[Figure | str, str]:
    """Returns the value of the slowest node, or of the node with the highest value, and its name."""
    row_record, node = judged.model.rows[row], int(np.nanargmax(judged.costs[row]))
    cost = float(judged.costs[row, node])
    value = exp(judged.spread.centre[row] + (-cost if is_rate(row_record) else cost))
    return quantity(value, row_record.unit), printable(judged.model.nodes[node])


# ---- reasons to drain -----------------------------------------------------------------------------------------------


def drain_reasons(models: Sequence[JudgedModel]) -> bytes:
    """Returns a line for each named node: its host's name and the differences, as `scontrol update` takes it."""
    lines = [
        f"{_host(node)} toll: {'; '.join(node_reasons(judged, node))}\n"
        for judged in models
        for named in judged.named
        for node in named.nodes
    ]
    lines += [f"{_host(node)} toll: {printable(row)}\n" for judged in models for node, row in judged.broken]
    return "".join(lines).encode()


def node_reasons(judged: JudgedModel, node: str) -> list[str]:
    """Returns the differences of a named node; for several nodes with a common defect, the largest effect."""
    for named in judged.named:
        if node in named.nodes:
            first = dataclasses.replace(named.effects[0], cost=named.costs[named.nodes.index(node)])
            effects = (first,) if len(named.nodes) > 1 else named.effects[:MOST_EFFECTS]
            return [_reason(judged.model, effect) for effect in effects]
    return []


def _host(node: str) -> str:
    """Returns a node's name without the digits that distinguish hosts of one name."""
    return printable(node.rpartition("-")[0] or node)


def _reason(model: HardwareModel, effect: Effect) -> str:
    sentence = f"{_percent(model, effect, effect.cost)} {_direction(model, effect)} its {effect.peers} peers"
    return printable(f"{_rows_in_words(model, effect)} {sentence}")


# ---- as JSON --------------------------------------------------------------------------------------------------------


def as_json(models: Sequence[JudgedModel]) -> bytes:
    return json_document({
        "models": [{"model": judged.model.name, "nodes": len(judged.model.nodes), "rows": _rows(judged)}
                   for judged in models],
        "named": [_named(judged, named) for judged in models for named in judged.named],
        "broken": [{"node": node, "row": row} for judged in models for node, row in judged.broken],
    })  # fmt: skip


def _rows(judged: JudgedModel) -> list[dict[str, Any]]:
    values = [np.exp(column).tolist() for column in (judged.spread.middle, judged.spread.low, judged.spread.high)]
    numbers = zip(judged.model.rows, judged.spread.nodes.tolist(), *values, judged.spread.sd.tolist(), strict=True)
    return [
        {"probe": row.probe, "metric": row.metric, "parameters": row.parameters, "abi": row.abi, "target": row.target,
         "unit": row.unit, "state": row.state, "nodes": nodes, "median": middle, "p10": low, "p90": high, "sd": sd}
        for row, nodes, middle, low, high, sd in numbers if nodes
    ]  # fmt: skip


def _named(judged: JudgedModel, named: NamedNode) -> dict[str, Any]:
    return {
        "nodes": named.nodes, "said": sentence(judged, named), "model": judged.model.name,
        "reasons": ["; ".join(node_reasons(judged, node)) for node in named.nodes],
        "effects": [
            {"level": effect.level, "name": _rows_in_words(judged.model, effect), "cost": exp(effect.cost) - 1,
             "half_width": effect.half, "peers": effect.peers, "peers_sd": effect.sd, "rows": len(effect.rows)}
            for effect in named.effects
        ],
    }  # fmt: skip


# ---- the page -------------------------------------------------------------------------------------------------------


def page(models: Sequence[JudgedModel]) -> bytes:
    """Returns one page that needs no other file."""
    words = {
        "nodes": sum(len(judged.model.nodes) for judged in models),
        "models": [{"name": judged.model.name, "tally": _tally(judged), "rows": distribution_table(judged, _MOST_ROWS),
                    "named": [*(sentence(judged, each) for each in judged.named),
                              *(printable(f"{node}: {row}.") for node, row in judged.broken)]} for judged in models],
    }  # fmt: skip
    maps = {"maps": [*map(heat_map, models)]}
    return rendered("fleet.html", (), words, "fleet.css", own="fleet.js", data=maps).encode()


def heat_map(judged: JudgedModel) -> dict[str, Any]:
    """Returns the map of one model: its nodes, most affected first, by its rows; by its probes if the rows have too
    many cells. A cell is the deviation from the peers, in steps of 1 / SCALE of a natural logarithm; -128 is none."""
    ill = [node for named in judged.named for node in named.nodes]
    rank = {name: place for place, name in enumerate(ill)}
    order = sorted(range(len(judged.model.nodes)), key=lambda node: rank.get(judged.model.nodes[node], len(rank)))
    names, costs = _lines(judged)
    with np.errstate(invalid="ignore"):
        steps = np.nan_to_num(np.clip(np.rint(costs[:, order] * _SCALE), -127, 127), nan=-128).astype(np.int8)
    return {
        "model": judged.model.name, "nodes": [judged.model.nodes[node] for node in order], "ill": len(ill),
        "rows": names, "scale": _SCALE, "cells": base64.b64encode(steps.tobytes()).decode(),
    }  # fmt: skip


def _lines(judged: JudgedModel) -> tuple[list[str], Any]:
    order = sorted(range(len(judged.model.rows)), key=lambda row: (judged.model.rows[row].probe, row))
    if judged.costs.size <= MOST_CELLS:
        return [_row_name(judged.model.rows[row]) for row in order], judged.costs[order]
    probes: dict[str, list[int]] = {}
    for row in order:
        probes.setdefault(judged.model.rows[row].probe, []).append(row)
    with np.errstate(all="ignore"):
        return [*probes], np.array([np.nanmedian(judged.costs[rows], axis=0) for rows in probes.values()])
