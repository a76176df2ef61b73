# SPDX-License-Identifier: Apache-2.0
"""What rules share: evidence from rows, rows by meaning, and inferences by kind."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Book, Evidence, Inference, InferenceKind, Row, Value
from tollmeter.numbers.meanings import native, with_meaning


def own_rows(book: Book, *meanings: str) -> list[Row]:
    """Rows of the machine's own ABI and clock that have a number and one of the meanings."""
    return with_meaning(native(book.index.rows, book.index.machine.architecture), book.probes, *meanings)


def native_rows(book: Book) -> list[Row]:
    """All rows of the machine's own ABI and clock, whatever they mean."""
    return native(book.index.rows, book.index.machine.architecture)


def inferences(book: Book, kind: InferenceKind, **parameters: Value) -> list[Inference]:
    """The inferences of this kind at these values of its parameters; those without a value included."""
    return [
        inference
        for inference in book.index.inferred
        if inference.kind == kind and parameters.items() <= inference.parameters.items()
    ]


def value_of(inferences_: Sequence[Inference]) -> float | None:
    """The value of the first inference; None where there is none, or it is not resolved."""
    value = inferences_[0].value if inferences_ else None
    return value if isinstance(value, float) else None


def of_row(row: Row) -> Evidence:
    """The row's estimate under its name and parameters."""
    parameters = " ".join(f"{name}={value}" for name, value in row.parameters.items())
    return Evidence(
        what=f"{row.probe} {parameters} {row.metric}".replace("  ", " "), value=row.median or 0.0, unit=row.unit
    )


def number(row: Row, parameter: str) -> int:
    """A numeric parameter of the row; 0 where it has none."""
    value = row.parameters.get(parameter, 0)
    return value if isinstance(value, int) else 0


def is_separate(lower: Row, upper: Row) -> bool:
    """Whether the interval of one lies wholly below the other's."""
    return lower.high is not None and upper.low is not None and lower.high < upper.low
