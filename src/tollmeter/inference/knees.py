# SPDX-License-Identifier: Apache-2.0
"""Fits levels to latency over size, with a modelled knee between adjacent levels.

latency(S) = a0 + sum of a_j m_j(S), where m_j is the share of misses of cache j by one of `shapes`, and a_j >= 0 is the
extra cost of a miss in it. The plateaus of the curve give the initial fit. Then each knee in turn moves to the best
capacity and shape of a grid, with the best costs for each (variable projection, Golub and Pereyra 1973), until none
moves. Knees that the Bayesian information criterion (BIC) rejects, that fewer than two points support, or that are
closer than real cache levels, are removed, the weakest first. The remaining knees are then fitted on a finer grid.

A sharp knee shows only that the capacity lies between two sizes of the sweep, and a blurred one hardly more. A prior
weight prefers round sizes, in which caches are built (2^k times 1, 1.5, 1.25, 1.75, seldom other eighths). The interval
does not use it. Sizes are in bytes, latencies in the unit of the input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, floor, inf, log2

import msgspec
import numpy as np

from tollmeter.experiment.limits import FAR_APART, MIB, MORE_THAN_TWICE, SAME_WITHIN
from tollmeter.inference.curves import APART, NoisyCurve, bic, monotone, segments
from tollmeter.inference.shapes import OF_LARGE_PAGES, SHAPES, Shape, miss_share
from tollmeter.maths.distributions import NORMAL, NORMAL_QUARTILE
from tollmeter.maths.fits import not_negative
from tollmeter.model import USUAL_PAGE_BYTES, Record
from tollmeter.numbers.stats import Array

FAR_OFF, LEAST_TRUST = 3.0, 6.0
"""FAR_OFF: distance of a point from its neighbours or from the fit, in standard errors, beyond which its noise is
raised in proportion (Huber 1964). LEAST_TRUST: highest factor by which it is raised, so that a distant point still has
some weight."""
ROUNDS = 3
"""Number of rounds of the coarse search. Each gives the points their weights for the next."""
WAYS_OF_COLOUR = 16
"""Number of pages of one colour that a large cache contains: one in each of its ways."""
LEAST_OF_LUCK = MIB
"""Capacity in bytes. Page placement affects smaller caches as it affects a cache of this capacity."""
MISFIT = 0.15
"""Error of the best shape: MISFIT * sqrt(m (1 - m)) for a share of misses m. No cache follows a shape more closely."""
OF_MODEL = 1 + SAME_WITHIN
"""Factor by which the ends of the interval of a capacity are widened, here and for counts in reach.py, since no shape
is exactly that of the cache."""
COARSE_STEPS, FINE_STEPS = 16, 24
"""Numbers of capacities in each doubling, in the coarse and in the fine search. They are multiples of eight, so that
the grid contains the round sizes. Neighbours of the fine grid differ by at most 4.2 %, less than the interval is
widened."""
COARSE_WAYS = (4.0, 16.0, inf)
COARSE_SHAPES = (
    tuple(Shape(ways=ways, keenness=2.0) for ways in COARSE_WAYS),
    (*(Shape(ways=ways, keenness=keenness) for ways in COARSE_WAYS for keenness in (1.0, 5.0)),
     Shape(ways=12.0, keenness=inf, colours=1)),
)  # fmt: skip
"""Shapes of the coarse search: blurred ones find the levels of a disturbed curve, and sharp ones the level after a
sharp knee."""
SHOWN_WITHIN = 0.2
"""Relative difference from the latency of a level within which a point supports the level: more than the scatter of the
points of one level (ALIKE), and less than the smallest step between two levels (APART)."""
LEAST_POINTS = 2
"""Smallest number of points that support a level: a single point may be the middle of a rise."""
PARAMETERS_OF_KNEE = 3
"""Number of parameters of a knee: capacity, cost of a miss, and shape."""
SAME_SIZE, LONGEST_RUN = 0.05, 4
"""Limits for runs of contiguous pages in a cache with few colours: largest difference of the length of a run from a
whole number of doublings, and largest number of doublings."""
MOST_TURNS = 6
"""Largest number of turns, in each of which every knee is moved once: of 376 searches in three default runs 330 need at
most three turns, and two need more than six."""
BEYOND_DOUBT = 24.0
"""BIC difference that keeps a level whose capacity is close to the previous one; 10 is very strong evidence (Kass and
Raftery 1995). Caches that replace at random blur one knee into an apparent two: in 8 of 100 modelled caches at a limit
of 10, in 3 at 24, and in 2 without any exception."""
ROUNDNESS = (12.0, 8.0, 5.0, 2.0)
"""Prior weight of a capacity that is a whole number of doublings, of halves of one, of quarters and of eighths; that of
others is 1."""

Place = tuple[int, int]  # capacity, shape


class Knee(Record, frozen=True):
    """The end of the capacity of one level. size_bytes: the capacity. low..high: its 95 % interval by profile
    likelihood over all shapes. is_least: whether a sibling hyperthread used a part of the cache, so that only `low` is
    known."""

    size_bytes: float
    low: float
    high: float
    is_least: bool = False


class CurveFit(Record, frozen=True):
    """Levels of a curve, nearest first. latencies: one more than knees, in the unit of the input. spreads: their
    standard errors."""

    knees: tuple[Knee, ...]
    latencies: tuple[float, ...]
    spreads: tuple[float, ...]


def fit_levels(points: NoisyCurve, most_levels: int = 6, page_bytes: int = USUAL_PAGE_BYTES) -> CurveFit:
    """Returns levels and knees of a latency curve; one level and no knee if the curve is flat or has fewer than four
    points. page_bytes: page size of the buffer, which determines the number of page colours of a cache.

    The fit is repeated with lower weights for outliers, and for points that depend on page placement. It starts from
    the knees of both kinds of coarse shapes, and the fit with the lower BIC is kept."""
    despiked = msgspec.structs.replace(points, noise=_spikes_doubted(points))
    starts = [_coarse(despiked, points, shapes, most_levels, page_bytes) for shapes in COARSE_SHAPES]
    shapes = SHAPES if page_bytes == USUAL_PAGE_BYTES else SHAPES + OF_LARGE_PAGES
    judge = Search(despiked, FINE_STEPS, shapes, page_bytes)
    fits = []
    for trusted, coarse_knees in starts:
        search = Search(trusted, FINE_STEPS, shapes, page_bytes)
        fits.append((trusted, search.settled([search.place(capacity, shape) for capacity, shape in coarse_knees])))
    trusted, knees = min(
        fits, key=lambda fit: bic(judge.solve(fit[1])[1], judge.count, PARAMETERS_OF_KNEE * len(fit[1]))
    )
    search, search_with_misfit = (
        Search(fit, FINE_STEPS, shapes, page_bytes) for fit in (trusted, _misfit(judge, trusted, knees))
    )
    return _fit(search, search_with_misfit, knees)


def _coarse(
    even: NoisyCurve, points: NoisyCurve, shapes: Sequence[Shape], most_levels: int, page_bytes: int
) -> tuple[NoisyCurve, list[tuple[float, Shape]]]:
    """Returns the points with their final weights, and the knees of the coarse search as capacity and shape. even:
    points with raised noise of spikes. points: points with their own noise."""
    trusted, rough = even, []
    for _ in range(ROUNDS):
        search = Search(trusted, COARSE_STEPS, shapes, page_bytes)
        rough = stripped(search, most_levels)
        trusted = msgspec.structs.replace(points, noise=_trust(search, rough, points, page_bytes))
    return trusted, [(float(search.capacities[at]), search.shapes[shape]) for at, shape in rough]


def stripped(search: Search, most_levels: int) -> list[Place]:
    """Returns the knees that remain when the weakest ones are removed, starting from the boundaries of the plateaus of
    the curve."""
    sizes = search.points.sizes
    middles = [float(np.sqrt(sizes[start - 1] * sizes[start])) for start in segments(search.points)[1:]]
    knees = search.settled([search.place(middle, search.shapes[-1]) for middle in middles] if len(sizes) > 3 else [])
    while (weakest := search.weakest(knees, most_levels)) is not None:
        knees = search.settled(knees[:weakest] + knees[weakest + 1 :])
    return knees


def _spikes_doubted(points: NoisyCurve) -> Array:
    """Returns the noise of each point, raised for points that differ from both neighbours.

    If a curve only rises, each value is the median of itself and its two neighbours; a difference from this median is
    noise."""
    logs = np.log(points.values)
    padded = np.concatenate([logs[:1], logs, logs[-1:]])
    middles = np.median(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)
    off = np.abs(logs - middles) / points.noise
    return np.asarray(points.noise * np.clip(off / FAR_OFF, 1.0, LEAST_TRUST))


def _trust(search: Search, knees: Sequence[Place], points: NoisyCurve, page_bytes: int) -> Array:
    """Returns the noise of each point, given a rough fit of the levels.

    If a share m of the lines misses, each page colour either overflows or does not, so the share of a visit has the
    variance m (1 - m) / colours. One colour of a cache is 16 ways of a page, so large caches have many colours, and
    large pages make few. Points that are still far from the fit get a weight that falls with their distance (Huber
    1964)."""
    costs, _ = search.solve(knees)
    shares = search.shares(knees)
    fitted = costs[0] + shares @ costs[1:]
    capacities = search.capacities[[knee[0] for knee in knees]]
    colours = np.maximum(capacities, LEAST_OF_LUCK) / (WAYS_OF_COLOUR * page_bytes)
    luck = (shares * (1 - shares)) @ (costs[1:] ** 2 / colours) / points.visits / fitted**2
    noise = np.sqrt(points.noise**2 + luck)
    distances = np.abs(points.values / fitted - 1) / noise
    median_distance = max(float(np.median(distances)) / NORMAL_QUARTILE, 1.0)
    return np.asarray(noise * np.clip(distances / (FAR_OFF * median_distance), 1.0, LEAST_TRUST))


def _misfit(search: Search, trusted: NoisyCurve, knees: Sequence[Place]) -> NoisyCurve:
    """Returns the points with the noise that the error of the shapes adds where a share of the lines misses."""
    costs, _ = search.solve(knees)
    shares = np.clip(search.shares(knees), 0, 1)
    wrong = MISFIT * np.sqrt((shares * (1 - shares)) @ costs[1:] ** 2) / (costs[0] + shares @ costs[1:])
    return msgspec.structs.replace(trusted, noise=np.hypot(trusted.noise, wrong))


def _fit(search: Search, wide: Search, knees: Sequence[Place]) -> CurveFit:
    """Returns the levels for these knees, with their standard errors. wide: the search with the error of the shapes,
    for the intervals."""
    costs, squares = search.solve(knees)
    design = search.design(knees)
    spread = np.linalg.pinv(design.T @ design) * search.scale(squares, len(knees))
    sums = np.tril(np.ones((len(costs), len(costs))))
    errors = np.sqrt(np.maximum(np.diag(sums @ spread @ sums.T), 0))
    return CurveFit(
        knees=tuple(_knee(search, wide, knees, place) for place in range(len(knees))),
        latencies=tuple(float(level) for level in sums @ costs),
        spreads=tuple(float(error) for error in errors),
    )


def _knee(search: Search, wide: Search, knees: Sequence[Place], place: int) -> Knee:
    """Returns a knee. Its size is the mean log capacity, with the likeliest shape for each capacity. Its interval
    contains all capacities that some shape makes likely enough, given the error of the shapes, and the two sizes around
    the mean, between which nothing was measured. place: number of the knee."""
    profile = search.log_likelihood(knees, place).max(axis=1)
    probability = np.exp(profile - profile.max()) * search.prior
    size = exp(float((probability * np.log(search.capacities)).sum() / probability.sum()))
    profile = wide.log_likelihood(knees, place).max(axis=1)
    likely = search.capacities[profile >= profile.max() - NORMAL**2 / 2]
    sizes = search.points.sizes
    return Knee(
        size_bytes=size,
        low=min(float(likely[0]), float(sizes[sizes <= size][-1])) / OF_MODEL,
        high=max(float(likely[-1]), float(sizes[sizes >= size][0])) * OF_MODEL,
    )


# ---- places of knees -------------------------------------------------------------------------------------------------


class Search:
    """All possible knees, as columns over the points of one curve, in units of the points' noise. prior: prior weight
    of each capacity, which decides between nearly equal fits."""

    def __init__(
        self, points: NoisyCurve, steps_per_octave: int, shapes: Sequence[Shape], page_bytes: int = USUAL_PAGE_BYTES
    ) -> None:
        self.points = points
        self.shapes = tuple(shapes)
        self.count = len(points.sizes)
        self.capacities, self.prior = _grid(float(points.sizes[0]), float(points.sizes[-1]), steps_per_octave)
        self.weight = 1 / (points.noise * monotone(points))
        self.target = self.weight * points.values
        self.columns = _shares(tuple(points.sizes), tuple(self.capacities), self.shapes, page_bytes) * self.weight
        self.lengths = np.einsum("ijk,ijk->ij", self.columns, self.columns)

    def place(self, size: float, shape: Shape) -> Place:
        """Returns the indices of the nearest capacity of the grid, and of the shape."""
        return int(np.argmin(np.abs(np.log(self.capacities / size)))), self.shapes.index(shape)

    def shares(self, knees: Sequence[Place]) -> Array:
        """Returns the share of misses at each point (rows) for each knee (columns)."""
        return np.array([self.columns[knee] / self.weight for knee in knees]).reshape(-1, self.count).T

    def design(self, knees: Sequence[Place]) -> Array:
        """Returns the design matrix: a constant, and the share of misses for each knee, both divided by the noise."""
        return np.column_stack([self.weight, *(self.columns[knee] for knee in knees)])

    def solve(self, knees: Sequence[Place]) -> tuple[Array, float]:
        """Returns the costs of the levels, none below zero, and the residual sum of squares."""
        design = self.design(knees)
        costs = not_negative(design, self.target)
        left = self.target - design @ costs
        return costs, float(left @ left)

    def scale(self, squares: float, knees: int) -> float:
        """Returns the ratio of the variance of the residuals to the noise; at least one. squares: residual sum of
        squares."""
        return max(squares / max(self.count - 1 - PARAMETERS_OF_KNEE * knees, 1), 1.0)

    def settled(self, knees: Sequence[Place]) -> list[Place]:
        """Moves each knee in turn to its best position between its neighbours, until none moves, and returns the
        knees."""
        moved = sorted(knees)
        for _ in range(MOST_TURNS):
            before = list(moved)
            for place in range(len(moved)):
                posterior = self.log_likelihood(moved, place) + np.log(self.prior)[:, None]
                capacity, shape = np.unravel_index(int(np.argmax(posterior)), posterior.shape)
                moved[place] = int(capacity), int(shape)
            if moved == before:
                break
        return moved

    def log_likelihood(self, knees: Sequence[Place], place: int) -> Array:
        """Returns the log likelihood of each capacity and shape of one knee, between its neighbours. The other knees
        are fixed and all costs are free. place: number of the knee."""
        basis, _ = np.linalg.qr(self.design([knee for other, knee in enumerate(knees) if other != place]))
        left = self.target - basis @ (basis.T @ self.target)
        squares = np.full(self.columns.shape[:2], np.inf)
        start = knees[place - 1][0] + 1 if place else 0
        between = slice(start, max(start, knees[place + 1][0] if place + 1 < len(knees) else len(squares)))
        flat = self.columns[between].reshape(-1, self.count)
        length = self.lengths[between].ravel() - ((flat @ basis) ** 2).sum(axis=1)
        product = flat @ left
        useful = (product > 0) & (length > 1e-9)  # elsewhere the cost of the level would be negative
        gain = np.where(useful, product**2 / np.where(useful, length, 1), -np.inf)
        squares[between] = (left @ left - gain).reshape(squares[between].shape)
        if not np.isfinite(squares).any():
            squares[knees[place]] = self.solve(knees)[1]
        return np.asarray(-squares / (2 * self.scale(float(squares.min()), len(knees))))

    def weakest(self, knees: list[Place], most_levels: int) -> int | None:
        """Returns the index of the knee to remove next; None if all are kept."""
        if not knees:
            return None
        costs, squares = self.solve(knees)
        levels = np.maximum(np.cumsum(costs), 1e-12)
        ratios = levels[1:] / levels[:-1]
        if ratios.min() < APART or len(knees) >= most_levels:
            return int(np.argmin(ratios))
        doubtful = self._doubtful(knees, squares, levels)
        if doubtful is not None:
            return doubtful
        squares_without = [self.solve(knees[:place] + knees[place + 1 :])[1] for place in range(len(knees))]
        cheapest = int(np.argmin(squares_without))
        return cheapest if self._gain(knees, squares, cheapest) <= 0 else None

    def _doubtful(self, knees: list[Place], squares: float, levels: Array) -> int | None:
        """Returns the index of a knee to remove, next to a level that too few points support, or to one whose capacity
        is closer to the previous one than in real caches. With very strong evidence a close capacity is kept, since
        other workloads may leave of a shared cache little more than the size of the previous cache. None if no knee is
        doubtful."""
        steps, sizes = levels[1:] / levels[:-1], self.capacities[[knee[0] for knee in knees]]
        showing = (np.abs(self.points.values[None, :] / levels[:, None] - 1) < SHOWN_WITHIN).sum(axis=1)
        unseen = np.flatnonzero(showing < LEAST_POINTS)
        if len(unseen):
            return _lower_step(steps, int(unseen[0]))
        apart = sizes[1:] / sizes[:-1]
        if len(apart) and apart.min() < 1 + FAR_APART:
            return _lower_step(steps, int(np.argmin(apart)) + 1)
        crowded = [_lower_step(steps, int(at) + 1) for at in np.flatnonzero(apart < MORE_THAN_TWICE)]
        return next((place for place in crowded if self._gain(knees, squares, place) < BEYOND_DOUBT), None)

    def _gain(self, knees: list[Place], squares: float, place: int) -> float:
        """Returns by how much BIC prefers the fit with this knee to the fit without it."""
        _, without = self.solve(self.settled(knees[:place] + knees[place + 1 :]))
        return bic(without, self.count, 0) - bic(squares, self.count, PARAMETERS_OF_KNEE)


@lru_cache(maxsize=4)
def _shares(
    sizes: tuple[float, ...], capacities: tuple[float, ...], shapes: tuple[Shape, ...], page_bytes: int
) -> Array:
    """Returns the share of misses by capacity, shape and size. Cached, since a curve is searched several times with
    another noise only."""
    room = np.array(capacities)
    shares = np.stack([miss_share(shape, np.array(sizes) / room[:, None]) for shape in shapes], axis=1)
    for place, shape in enumerate(shapes):
        if shape.colours > 1:
            # A cache has as few colours as the shape only at certain capacities: page frames come in runs of up to 16.
            runs = np.log2(room / page_bytes / (shape.ways * shape.colours))
            whole = np.round(runs)
            shares[~((np.abs(runs - whole) < SAME_SIZE) & (whole >= 0) & (whole <= LONGEST_RUN)), place] = 0.0
    return shares


def _lower_step(ratios: Array, level: int) -> int:
    """Returns the index of the knee with the lower step of the two at the ends of a level."""
    below, above = level - 1, level
    if below < 0 or above >= len(ratios):
        return min(max(below, 0), len(ratios) - 1)
    return below if ratios[below] < ratios[above] else above


def _grid(least: float, most: float, steps_per_octave: int) -> tuple[Array, Array]:
    """Returns capacities in equal steps inside every doubling, and the prior weight of each."""
    octaves = range(floor(log2(least)), ceil(log2(most)) + 1)
    steps = [(octave, step / steps_per_octave) for octave in octaves for step in range(steps_per_octave)]
    sizes = np.array([2.0**octave * (1 + step) for octave, step in steps])
    prior = np.array([_roundness(step) for _, step in steps])
    inside = (sizes >= least) & (sizes <= most)
    return sizes[inside], prior[inside]


def _roundness(step: float) -> float:
    """Returns the prior weight of a capacity. step: the part of it beyond a power of two, as a share of this power."""
    return next((weight for bits, weight in enumerate(ROUNDNESS) if (step * 2**bits).is_integer()), 1.0)
