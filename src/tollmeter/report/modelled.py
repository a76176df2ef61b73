# SPDX-License-Identifier: Apache-2.0
"""What a study's cache would miss, in words: named as modelled, with what is assumed of it."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.inference.rate_falls import AXIS
from tollmeter.model import Book, Modelled
from tollmeter.report.numbers import DASH, plain, size
from tollmeter.report.tables import Column, Line, Table, table


def modelled_of(book: Book, probe: str, target: str, precision: object) -> tuple[Modelled, ...]:
    return tuple(
        model
        for model in book.index.modelled
        if (model.probe, model.target, model.parameters.get("precision", "")) == (probe, target, precision)
    )


def modelled_table(kernel: str, models: Sequence[Modelled]) -> Table | None:
    """Misses of an operation by length, a line for each way of each ABI."""
    known = [model for model in models if model.reason is None]
    lengths = sorted({int(str(model.parameters[AXIS])) for model in known})
    by_name: dict[str, dict[int, Modelled]] = {}
    for model in known:
        name = " ".join(filter(None, (model.abi, str(model.parameters.get("way", "")))))
        by_name.setdefault(name, {})[int(str(model.parameters[AXIS]))] = model
    lines = [
        Line((name, *(_misses(by_length[n]) if n in by_length else DASH for n in lengths)))
        for name, by_length in by_name.items()
    ]
    columns = [Column(f"N = {n:,}" if n == lengths[0] else f"{n:,}", True) for n in lengths]
    title = f"{kernel}, modelled misses an operation"
    return table(title, [Column(title), *columns], lines) if lines else None


def modelled_said(book: Book, models: Sequence[Modelled]) -> str:
    """What the model is, and why a part of it is missing."""
    cache = book.suite.modelled if book.suite else None
    if not models or cache is None:
        return ""
    reasons = dict.fromkeys(model.reason for model in models if model.reason)
    missing = f" Not modelled: {'; '.join(filter(None, reasons))}." if reasons else ""
    return (
        f"Modelled, not measured: lines that a data cache of {size(cache.bytes)} would load, {cache.line} bytes each "
        f"in {cache.ways} ways, told the program's own addresses, and emptied at each trap. {cache.assumed}{missing}"
    )


def _misses(model: Modelled) -> str:
    return plain(model.misses) if model.misses else "0"
