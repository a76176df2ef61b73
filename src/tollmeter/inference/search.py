# SPDX-License-Identifier: Apache-2.0
"""Knees as places on a grid of capacities and shapes, and which of them a curve supports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, floor, log2

import numpy as np
from numpy.typing import NDArray

from tollmeter.inference.curves import NoisyCurve, bic, monotone
from tollmeter.inference.shapes import Shape, miss_share
from tollmeter.maths.fits import not_negative
from tollmeter.numbers.stats import Array

LEAST_RATIO = 1.35
LEAST_SIZE_RATIO, NO_SIZE_RATIO = 2.5, 1.5
SHOWN_WITHIN = 0.2
LEAST_POINTS = 2
"""That show a level: a single one is also what the middle of a rise looks like."""
PARAMETERS_OF_KNEE = 3
SAME_SIZE, LONGEST_RUN = 0.05, 4
"""In doublings."""
MOST_TURNS = 6
BEYOND_DOUBT = 24.0
"""Of a difference in BIC, of which 10 is very strong evidence (Kass and Raftery 1995). That is not enough here: caches
that replace at random smear one knee into what looks like two, on 8 of 100 modelled ones at 10, on 3 at 24, and on
2 if no evidence counts."""
ROUNDNESS = {0.0: 12.0, 0.5: 8.0, 0.25: 5.0, 0.75: 5.0, 0.125: 2.0, 0.375: 2.0, 0.625: 2.0, 0.875: 2.0}

Place = tuple[int, int]  # capacity, shape


class Search:
    """All knees that could be, as columns over the points of one curve, each in units of the points' noise.

    prior: how much each capacity is expected beforehand; only the choice between equals depends on it."""

    def __init__(
        self, points: NoisyCurve, steps_per_octave: int, shapes: Sequence[Shape], page_bytes: int = 4096
    ) -> None:
        self.points = points
        self.shapes = tuple(shapes)
        self.count = len(points.sizes)
        self.capacities, self.prior = _grid(float(points.sizes[0]), float(points.sizes[-1]), steps_per_octave)
        self.weight = 1 / (points.noise * monotone(points))
        self.target = self.weight * points.values
        self.columns = _shares(tuple(points.sizes), tuple(self.capacities), self.shapes, page_bytes) * self.weight
        self.lengths = np.einsum("ijk,ijk->ij", self.columns, self.columns).ravel()

    def place(self, size: float, shape: Shape) -> Place:
        """The nearest capacity of the grid, and one of its shapes."""
        return int(np.argmin(np.abs(np.log(self.capacities / size)))), self.shapes.index(shape)

    def shares(self, knees: Sequence[Place]) -> Array:
        """Share of misses at each knee: point x knee."""
        return np.array([self.columns[knee] / self.weight for knee in knees]).reshape(-1, self.count).T

    def design(self, knees: Sequence[Place]) -> Array:
        return np.column_stack([self.weight, *(self.columns[knee] for knee in knees)])

    def solve(self, knees: Sequence[Place]) -> tuple[Array, float]:
        """Costs of the levels, none below zero, and the squares that are left."""
        design = self.design(knees)
        costs = not_negative(design, self.target)
        left = self.target - design @ costs
        return costs, float(left @ left)

    def scale(self, squares: float, knees: int) -> float:
        """The ratio of the points' scatter to their noise; at least one."""
        return max(squares / max(self.count - 1 - PARAMETERS_OF_KNEE * knees, 1), 1.0)

    def settled(self, knees: Sequence[Place]) -> list[Place]:
        """Moves one knee after the other to its best place, between its neighbours, until none moves."""
        moved = sorted(knees)
        for _ in range(MOST_TURNS):
            before = list(moved)
            for place in range(len(moved)):
                moved[place] = self._best(moved, place)
            if moved == before:
                break
        return moved

    def log_likelihood(self, knees: Sequence[Place], place: int) -> Array:
        """Of each capacity and shape for one knee, the others staying and all costs free."""
        others = [knee for other, knee in enumerate(knees) if other != place]
        squares = self._between(self._squares_left(others), knees, place)
        if not np.isfinite(squares).any():
            squares[knees[place]] = self.solve(knees)[1]
        return np.asarray(-squares / (2 * self.scale(float(squares.min()), len(knees))))

    def weakest(self, knees: Sequence[Place], most_levels: int) -> int | None:
        """The knee to remove next, or None where all remain."""
        if not knees:
            return None
        costs, squares = self.solve(knees)
        levels = np.maximum(np.cumsum(costs), 1e-12)
        ratios = levels[1:] / levels[:-1]
        if ratios.min() < LEAST_RATIO or len(knees) >= most_levels:
            return int(np.argmin(ratios))
        doubtful = self._doubtful(list(knees), squares, levels)
        return self._unpaid(list(knees), squares) if doubtful is None else doubtful

    def _best(self, knees: Sequence[Place], place: int) -> Place:
        posterior = self.log_likelihood(knees, place) + np.log(self.prior)[:, None]
        capacity, shape = np.unravel_index(int(np.argmax(posterior)), posterior.shape)
        return int(capacity), int(shape)

    def _squares_left(self, others: Sequence[Place]) -> Array:
        """What is left with one more knee at each place of the grid; infinite where its cost would be negative."""
        basis, _ = np.linalg.qr(self.design(others))
        left = self.target - basis @ (basis.T @ self.target)
        flat = self.columns.reshape(-1, self.count)
        length = self.lengths - ((flat @ basis) ** 2).sum(axis=1)
        product = flat @ left
        useful = (product > 0) & (length > 1e-9)
        gain = np.where(useful, product**2 / np.where(useful, length, 1), -np.inf)
        return np.asarray((left @ left - gain).reshape(self.columns.shape[:2]))

    def _between(self, squares: Array, knees: Sequence[Place], place: int) -> Array:
        """Leaves out what lies beyond the neighbouring knees."""
        low = knees[place - 1][0] + 1 if place else 0
        high = knees[place + 1][0] if place + 1 < len(knees) else len(self.capacities)
        outside = np.ones(len(self.capacities), bool)
        outside[low:high] = False
        return np.where(outside[:, None], np.inf, squares)

    def _shown(self, levels: Array) -> Array:
        """How many points show each level's latency."""
        off = np.abs(self.points.values[None, :] / levels[:, None] - 1)
        return np.asarray((off < SHOWN_WITHIN).sum(axis=1))

    def _unpaid(self, knees: list[Place], squares: float) -> int | None:
        """The knee that costs least to leave out, if BIC would rather have it out."""
        rests = [self.solve(knees[:place] + knees[place + 1 :])[1] for place in range(len(knees))]
        place = int(np.argmin(rests))
        return place if self._gain(knees, squares, place) <= 0 else None

    def _doubtful(self, knees: list[Place], squares: float, levels: Array) -> int | None:
        """The knee at a level that too few points show; or at one smaller than two caches in a row are sold, unless the
        evidence is very strong: other workloads may leave of a shared cache hardly more than the size of the one before
        it."""
        steps, sizes = levels[1:] / levels[:-1], self.capacities[[knee[0] for knee in knees]]
        unseen = np.flatnonzero(self._shown(levels) < LEAST_POINTS)
        if len(unseen):
            return _lower_step(steps, int(unseen[0]))
        apart = sizes[1:] / sizes[:-1]
        if len(apart) and apart.min() < NO_SIZE_RATIO:
            return _lower_step(steps, int(np.argmin(apart)) + 1)
        crowded = [_lower_step(steps, int(at) + 1) for at in np.flatnonzero(apart < LEAST_SIZE_RATIO)]
        return next((place for place in crowded if self._gain(knees, squares, place) < BEYOND_DOUBT), None)

    def _gain(self, knees: list[Place], squares: float, place: int) -> float:
        """By how much BIC would rather have this knee than not."""
        _, without = self.solve(self.settled(knees[:place] + knees[place + 1 :]))
        return bic(without, self.count, 0) - bic(squares, self.count, PARAMETERS_OF_KNEE)


@lru_cache(maxsize=4)
def _shares(
    sizes: tuple[float, ...], capacities: tuple[float, ...], shapes: tuple[Shape, ...], page_bytes: int
) -> Array:
    """Share of misses: capacity x shape x size. A curve is searched several times, and only its noise differs."""
    room = np.array(capacities)
    shares = np.stack([miss_share(shape, np.array(sizes) / room[:, None]) for shape in shapes], axis=1)
    for place, shape in enumerate(shapes):
        shares[~_may_be(shape, room / page_bytes), place] = 0.0
    return shares


def _may_be(shape: Shape, pages: Array) -> NDArray[np.bool_]:
    """Whether caches of so many pages have as few colours as the shape: frames come in runs of up to 16."""
    if shape.colours < 2:
        return np.ones(len(pages), bool)
    runs = np.log2(pages / (shape.ways * shape.colours))
    return (np.abs(runs - np.round(runs)) < SAME_SIZE) & (np.round(runs) >= 0) & (np.round(runs) <= LONGEST_RUN)


def _lower_step(ratios: Array, level: int) -> int:
    """Of the knees on both sides of a level, the one with the lower step."""
    below, above = level - 1, level
    if below < 0 or above >= len(ratios):
        return min(max(below, 0), len(ratios) - 1)
    return below if ratios[below] < ratios[above] else above


def _grid(least: float, most: float, steps_per_octave: int) -> tuple[Array, Array]:
    """Capacities in equal steps inside every doubling, and how round each is."""
    octaves = range(floor(log2(least)), ceil(log2(most)) + 1)
    steps = [(octave, step / steps_per_octave) for octave in octaves for step in range(steps_per_octave)]
    sizes = np.array([2.0**octave * (1 + step) for octave, step in steps])
    prior = np.array([ROUNDNESS.get(step, 1.0) for _, step in steps])
    inside = (sizes >= least) & (sizes <= most)
    return sizes[inside], prior[inside]
