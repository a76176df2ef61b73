# SPDX-License-Identifier: Apache-2.0
"""Memory whose latency at least doubles beside the traffic that this machine's own CPUs can make."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.load import LoadCurve, load_curves
from tollmeter.model import Book, Evidence, Finding

LEAST_RISE = 2.0


def find(book: Book) -> Iterable[Finding]:
    """The mix of reads and writes that lengthens a load most, where the lower end of its interval is beyond twice."""
    curves = [curve for curve in load_curves(native_rows(book), book.probes) if curve.rise.low > LEAST_RISE]
    if curves:
        yield _finding(max(curves, key=lambda curve: curve.rise.value))


def _finding(curve: LoadCurve) -> Finding:
    idle, loaded = curve.points[0], curve.points[-1]
    mix = dict(curve.parameters).get("mix", "")
    evidence = [
        Evidence(what="latency beside the least traffic", value=idle.latency_ns, unit="ns"),
        Evidence(what=f"latency beside the most traffic, mix {mix}", value=loaded.latency_ns, unit="ns"),
    ]
    knee = ""
    if curve.knee.value is not None:
        evidence.append(Evidence(what="traffic at the knee", value=curve.knee.value, unit="B/s"))
        knee = f", the knee at {curve.knee.value / 1e9:.1f} GB/s"
    return Finding(
        name="memory.latency_rises_under_load",
        severity="note",
        claim=f"a load takes {curve.rise.value:.1f} times as long beside {loaded.traffic / 1e9:.1f} GB/s{knee}",
        evidence=tuple(evidence),
        remedy="keep traffic under the knee where latency matters: fewer writers, stores past the caches, limits",
    )
