# SPDX-License-Identifier: Apache-2.0
"""Strides that are followed in one direction and not in the other."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences, value_of
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where one direction is known to gain and the other is known not to."""
    helped = inferences(book, "prefetched")
    works = [str(inference.parameters["direction"]) for inference in helped if inference.value is True]
    fails = [str(inference.parameters["direction"]) for inference in helped if inference.value is False]
    if len(works) != 1 or len(fails) != 1:
        return
    yield Finding(
        name="memory.prefetcher_is_one_sided",
        severity="note",
        claim=f"walks {works[0]} are prefetched, walks {fails[0]} are not",
        evidence=(_gain(book, works[0]), _gain(book, fails[0])),
        remedy=f"let loops over much memory run {works[0]}",
    )


def _gain(book: Book, direction: str) -> Evidence:
    (gain,) = inferences(book, "prefetch_gain", direction=direction)
    what = f"random order over {direction}, stride {gain.parameters['stride']}"
    return Evidence(what=what, value=value_of([gain]) or 1.0, unit="ratio")
