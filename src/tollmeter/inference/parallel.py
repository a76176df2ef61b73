# SPDX-License-Identifier: Apache-2.0
"""How many loads a level keeps under way: the time of one load over the number of chains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tollmeter.model import Row


def parallelism(rows: Sequence[Row]) -> float | None:
    """L / g of the best fit of t(k) = max(L / k, g): one load's latency over the least gap between two loads.

    Little's law (1961) with k chains of dependent loads. Never above the most chains tried: where the time still fell
    at the last, there may be more. None without one chain and three counts. rows: `load-of-chains` of one size.
    """
    points = {int(row.parameters["chains"]): float(row.median or 0) for row in rows if row.median and row.median > 0}
    if 1 not in points or len(points) < 3:
        return None
    chains = np.array(sorted(points), float)
    logs, widths = np.log([points[int(chain)] for chain in chains]), np.log(chains)
    best = min(_splits(logs, widths), key=lambda split: split[0])
    return float(np.clip(np.exp(best[1]), 1.0, chains[-1]))


def _splits(logs: np.ndarray, widths: np.ndarray) -> list[tuple[float, float]]:
    """For each number of counts on the falling side: the squares left, and log of L / g there."""
    splits = []
    for falling in range(1, len(logs) + 1):
        latency = float((logs[:falling] + widths[:falling]).mean())
        gap = float(logs[falling:].mean()) if falling < len(logs) else float(logs[-1])
        fitted = np.maximum(latency - widths, gap)
        splits.append((float(((logs - fitted) ** 2).sum()), latency - gap))
    return splits
