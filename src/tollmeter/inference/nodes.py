# SPDX-License-Identifier: Apache-2.0
"""Latency of each node's memory, by the node that asks: which pair is the slowest beside the node's own memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tollmeter.experiment.precision import Estimate
from tollmeter.inference.answers import number, ratio
from tollmeter.model import Row


class Remote(NamedTuple):
    """far: a load from the memory of another node; near: from that of the same CPU's own node."""

    far: Row
    near: Row
    ratio: Estimate


def is_loaded(row: Row) -> bool:
    """Whether all other CPUs of the node read the same memory meanwhile."""
    return row.parameters.get("beside") == "reads"


def slowest_remote(rows: Iterable[Row]) -> Remote | None:
    """rows: those of `latency-of-node` that have a number. None where no node was measured beside its own memory."""
    known = [row for row in rows if {"node", "home"} <= set(row.parameters) and not is_loaded(row)]
    own = {number(row, "node"): row for row in known if number(row, "home") == number(row, "node")}
    several = [
        Remote(row, near, ratio(row, near))
        for row in known
        if (near := own.get(number(row, "node"))) is not None and near is not row
    ]
    return max(several, key=lambda pair: pair.ratio.value, default=None)
