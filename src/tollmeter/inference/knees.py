# SPDX-License-Identifier: Apache-2.0
"""From latency over size to levels, with a modelled knee between each two.

latency(S) = a0 + sum of a_j m_j(S), where m_j is the share of misses of cache j by one of `shapes`, and a_j >= 0 is the
extra cost of a miss in it. The flat pieces of the curve give the start. Then capacity and shape of one knee after the
other are taken from a grid, with the best costs for each (variable projection, Golub and Pereyra 1973), until none
moves. Knees that BIC rejects, that fewer than two points show, or that are nearer than two levels of a machine are, are
removed, the weakest first: on a coarse grid, and the rest is then fitted on a fine one.

A sharp knee shows only that the capacity lies between two sizes of the sweep, and a smeared one hardly more. There a
prior helps: caches are built in round sizes (2^k times 1, 1.5, 1.25, 1.75, seldom other eighths). The interval does not
use it. Sizes in bytes, latencies in the unit of the input."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf

import msgspec
import numpy as np

from tollmeter.inference.curves import NoisyCurve, bic, segments
from tollmeter.inference.search import PARAMETERS_OF_KNEE, Place, Search
from tollmeter.inference.shapes import OF_LARGE_PAGES, SHAPES, Shape
from tollmeter.model import Record
from tollmeter.numbers.stats import Array

CHI_SQUARE_95 = 3.84
FAR_OFF = 3.0
LEAST_TRUST = 6.0
ROUNDS = 3
WAYS_OF_COLOUR = 16
LEAST_OF_LUCK = 1 << 20
"""Page placement in smaller caches has no greater effect on a visit than this."""
MISFIT = 0.15
"""No cache follows one of the shapes more closely: of a share of misses m, as a share of sqrt(m (1 - m))."""
OF_MODEL = 1.05
"""By how much more the ends of an interval may be off: no shape is that of the cache."""
USUAL_PAGE = 4096
COARSE_STEPS, FINE_STEPS = 16, 24
COARSE_SHAPES = (
    tuple(Shape(ways=ways, keenness=2.0) for ways in (4.0, 16.0, inf)),
    (*(Shape(ways=ways, keenness=keenness) for ways in (4.0, 16.0, inf) for keenness in (1.0, 5.0)),
     Shape(ways=12.0, keenness=inf, colours=1)),
)  # fmt: skip
"""Smeared ones find the levels of a disturbed curve; sharp ones place the level behind a sharp knee."""


class Knee(Record, frozen=True):
    """Where one level's capacity ends. low..high: 95 % by profile likelihood, all shapes considered."""

    size_bytes: float
    low: float
    high: float


class CurveFit(Record, frozen=True):
    """Levels of a curve, nearest first. latencies: one more than knees; spreads: their standard errors."""

    knees: tuple[Knee, ...]
    latencies: tuple[float, ...]
    spreads: tuple[float, ...]


def fit_levels(points: NoisyCurve, most_levels: int = 6, page_bytes: int = USUAL_PAGE) -> CurveFit:
    """Levels and knees of a latency curve; one level and no knee where it is flat or has fewer than four points.
    page_bytes: size of the pages of the buffer, by which a cache has few colours or many.

    The fit is repeated with lower weights for outliers, and for points whose visits depend on page placement. It starts
    from the knees of both kinds of coarse shapes, and the fit with the lower BIC is kept."""
    even = msgspec.structs.replace(points, noise=_spikes_doubted(points))
    starts = [_coarse(even, points, shapes, most_levels, page_bytes) for shapes in COARSE_SHAPES]
    shapes = SHAPES if page_bytes == USUAL_PAGE else SHAPES + OF_LARGE_PAGES
    judge = Search(even, FINE_STEPS, shapes, page_bytes)
    fits = [(trusted, _at(Search(trusted, FINE_STEPS, shapes, page_bytes), knees)) for trusted, knees in starts]
    trusted, knees = min(
        fits, key=lambda fit: bic(judge.solve(fit[1])[1], judge.count, PARAMETERS_OF_KNEE * len(fit[1]))
    )
    search, wide = (Search(fit, FINE_STEPS, shapes, page_bytes) for fit in (trusted, _misfit(judge, trusted, knees)))
    return _fit(search, wide, knees)


Rough = Sequence[tuple[float, Shape]]
"""Knees by capacity and shape."""


def _coarse(
    even: NoisyCurve, points: NoisyCurve, shapes: Sequence[Shape], most_levels: int, page_bytes: int
) -> tuple[NoisyCurve, Rough]:
    """The points with the trust that they have in the end, and the knees of the coarse search."""
    trusted, rough = even, []
    for _ in range(ROUNDS):
        search = Search(trusted, COARSE_STEPS, shapes, page_bytes)
        rough = stripped(search, most_levels)
        trusted = msgspec.structs.replace(points, noise=_trust(search, rough, points, page_bytes))
    return trusted, [(float(search.capacities[at]), search.shapes[shape]) for at, shape in rough]


def _at(search: Search, rough: Rough) -> list[Place]:
    return search.settled([search.place(capacity, shape) for capacity, shape in rough])


def stripped(search: Search, most_levels: int) -> list[Place]:
    """The knees that remain, starting from the places where the curve's flat pieces meet."""
    sizes = search.points.sizes
    middles = [float(np.sqrt(sizes[start - 1] * sizes[start])) for start in segments(search.points)[1:]]
    knees = search.settled([search.place(middle, search.shapes[-1]) for middle in middles] if len(sizes) > 3 else [])
    while (weakest := search.weakest(knees, most_levels)) is not None:
        knees = search.settled(knees[:weakest] + knees[weakest + 1 :])
    return knees


def _spikes_doubted(points: NoisyCurve) -> Array:
    """The noise of each point, raised for points that differ from both neighbours.

    Where a curve only rises, each value is the median of itself and its neighbours; the rest is noise."""
    logs = np.log(points.values)
    padded = np.concatenate([logs[:1], logs, logs[-1:]])
    middles = np.median(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)
    off = np.abs(logs - middles) / points.noise
    return np.asarray(points.noise * np.clip(off / FAR_OFF, 1.0, LEAST_TRUST))


def _trust(search: Search, knees: Sequence[Place], points: NoisyCurve, page_bytes: int) -> Array:
    """The noise of each point once the levels are roughly known.

    Where a share m of the lines misses, each of the page colours either overflows or does not, so a visit's share
    scatters by m (1 - m) / colours; a colour is 16 ways of a page, so large caches have many, and few of large pages.
    What is still far off is trusted less, as far as it is off (Huber 1964)."""
    costs, _ = search.solve(knees)
    shares = search.shares(knees)
    fitted = costs[0] + shares @ costs[1:]
    capacities = search.capacities[[knee[0] for knee in knees]]
    colours = np.maximum(capacities, LEAST_OF_LUCK) / (WAYS_OF_COLOUR * page_bytes)
    luck = (shares * (1 - shares)) @ (costs[1:] ** 2 / colours) / points.visits / fitted**2
    noise = np.sqrt(points.noise**2 + luck)
    off = np.abs(points.values / fitted - 1) / noise
    usual = max(1.4826 * float(np.median(off)), 1.0)
    return np.asarray(noise * np.clip(off / (FAR_OFF * usual), 1.0, LEAST_TRUST))


def _misfit(search: Search, trusted: NoisyCurve, knees: Sequence[Place]) -> NoisyCurve:
    """The points with the noise that the shapes' own error adds to them where a share of the lines misses."""
    costs, _ = search.solve(knees)
    shares = np.clip(search.shares(knees), 0, 1)
    wrong = MISFIT * np.sqrt((shares * (1 - shares)) @ costs[1:] ** 2) / (costs[0] + shares @ costs[1:])
    return msgspec.structs.replace(trusted, noise=np.hypot(trusted.noise, wrong))


def _fit(search: Search, wide: Search, knees: Sequence[Place]) -> CurveFit:
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
    """Mean of log capacity, each by the shape that makes it likeliest, and all that some shape makes likely enough once
    its own error counts. Between the two sizes around the mean nothing was measured."""
    profile = search.log_likelihood(knees, place).max(axis=1)
    probability = np.exp(profile - profile.max()) * search.prior
    size = exp(float((probability * np.log(search.capacities)).sum() / probability.sum()))
    profile = wide.log_likelihood(knees, place).max(axis=1)
    likely = search.capacities[profile >= profile.max() - CHI_SQUARE_95 / 2]
    sizes = search.points.sizes
    return Knee(
        size_bytes=size,
        low=min(float(likely[0]), float(sizes[sizes <= size][-1])) / OF_MODEL,
        high=max(float(likely[-1]), float(sizes[sizes >= size][0])) * OF_MODEL,
    )
