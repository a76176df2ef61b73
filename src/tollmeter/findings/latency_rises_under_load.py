# SPDX-License-Identifier: Apache-2.0
"""Memory whose latency at least doubles beside the traffic that this machine's own CPUs can make."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences, value_of
from tollmeter.model import Book, Evidence, Finding, Inference, InferenceKind

LEAST_RISE = 2.0


def find(book: Book) -> Iterable[Finding]:
    """The mix of reads and writes that lengthens a load most, where the lower end of its interval is beyond twice."""
    rises = [
        inference
        for inference in inferences(book, "latency_rise")
        if inference.low is not None and inference.low > LEAST_RISE
    ]
    if rises:
        yield _finding(book, max(rises, key=lambda rise: float(rise.value or 0)))


def _finding(book: Book, rise: Inference) -> Finding:
    def at(kind: InferenceKind) -> float | None:
        return value_of(inferences(book, kind, **rise.parameters))

    mix, knee, traffic = rise.parameters.get("mix", ""), at("latency_knee"), at("most_traffic") or 0.0
    evidence = [
        Evidence(what="latency beside the least traffic", value=at("idle_latency") or 0.0, unit="ns"),
        Evidence(what=f"latency beside the most traffic, mix {mix}", value=at("loaded_latency") or 0.0, unit="ns"),
    ]
    turns = ""
    if knee is not None:
        evidence.append(Evidence(what="traffic at the knee", value=knee, unit="B/s"))
        turns = f", the knee at {knee / 1e9:.1f} GB/s"
    return Finding(
        name="memory.latency_rises_under_load",
        severity="note",
        claim=f"a load takes {rise.value:.1f} times as long beside {traffic / 1e9:.1f} GB/s{turns}",
        evidence=tuple(evidence),
        remedy="keep traffic under the knee where latency matters: fewer writers, stores past the caches, limits",
    )
