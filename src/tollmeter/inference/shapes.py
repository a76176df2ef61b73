# SPDX-License-Identifier: Apache-2.0
"""Computes shapes of a knee: the share of misses over the size of a random cycle, around the capacity of a cache.

A cache of capacity C with W ways is walked through a buffer of size S = x C, in the same random order in every lap. A
set to which k lines of the buffer map keeps all of them if k <= W. If k > W:

* True LRU keeps none: each line is evicted just before it is loaded again. Random replacement keeps some: a line
  survives a lap with probability exp(-(k/W) m), where m is the share of misses, so m = 1 - exp(-(k/W) m), which has one
  solution above zero. Real processors lie between the two. `keenness` multiplies the excess k/W - 1 in this equation: 1
  is random replacement, and infinity is LRU.
* k is the same for all sets if the buffer is contiguous in physical memory, or if the index lies within a page. With
  random page colours k is binomial, nearly Poisson with mean W x (Kessler and Hill 1992), and the set of a given line
  contains at least this line. `ways` is an effective number: small values also describe a cache of which other
  workloads use a part that varies from visit to visit.

Under LRU with page colours half of the lines miss near x = 1, and the first misses occur at a much smaller size."""

from __future__ import annotations

from functools import lru_cache
from math import inf, log

import numpy as np

from tollmeter.maths.distributions import log_factorials, lower_gamma, survivors
from tollmeter.model import Record
from tollmeter.numbers.stats import Array

DRAWS = 999
"""Number of random visits whose median is taken; it is odd."""
LOG_X = np.linspace(log(1 / 64), log(16), 401)
"""Logarithms of the sizes, in multiples of the capacity, at which shapes are computed; between them they are
interpolated. A buffer of a 64th of the capacity never misses, and one of 16 times the capacity nearly always."""


class Shape(Record, frozen=True):
    """The parameters of a miss curve. ways: effective number of ways, infinite if all sets fill alike. keenness: factor
    on the excess lines of a set, 1 for random replacement and infinite for LRU.

    colours: number of page colours, 0 for very many. With few colours the replacement is true LRU, and `ways` is the
    number of pages of each colour that fit, a whole number. One colour means a contiguous buffer, in which the sets
    differ by at most one line. For more colours the curve is that of the median visit."""

    ways: float
    keenness: float
    colours: int = 0


WAYS_OF_FEW, MOST_COLOURS = (2.0, 4.0, 8.0, 12.0, 16.0), 4
"""Pages of each colour that fit into a cache with few colours, and the highest number of colours that count as few."""
SHAPES = (
    *(Shape(ways=ways, keenness=keenness) for ways in (2.0, 4.0, 6.0, 10.0, 16.0, inf)
      for keenness in (1.0, 2.0, 5.0, inf)),
    *(Shape(ways=ways, keenness=inf, colours=colours)
      for colours, several in ((1, WAYS_OF_FEW), (2, WAYS_OF_FEW[1:]), (MOST_COLOURS, WAYS_OF_FEW[:-2]))
      for ways in several),
)  # fmt: skip
"""Shapes that a knee may have. With many page colours: from few effective ways to equally filled sets, and from random
replacement to LRU. With few page colours: LRU."""
OF_LARGE_PAGES = tuple(Shape(ways=ways, keenness=inf, colours=MOST_COLOURS) for ways in WAYS_OF_FEW[2:])
"""Shapes for pages of 64 KiB: a way of a cache of some MiB has the size of a few of these pages."""


def miss_share(shape: Shape, x: Array) -> Array:
    """Returns the share of misses in buffers of x times the capacity; zero below a 64th of the capacity."""
    return np.asarray(np.interp(np.log(x), LOG_X, _table(shape), left=0.0))


@lru_cache(maxsize=128)
def _table(shape: Shape) -> Array:
    """Returns the share of misses at every point of LOG_X."""
    x = np.exp(LOG_X)
    if shape.colours == 1:
        return _without_gaps(x, shape.ways)
    if shape.colours == 2:
        return _usual_of_two(x, shape.ways)
    if shape.colours:
        return _usual_of_few(x, shape)
    if shape.ways == inf:
        return _set_share(x, shape.keenness)
    if shape.keenness == inf:
        return lower_gamma(shape.ways, shape.ways * x)
    return _over_colours(shape, x)


def _set_share(load: Array, keenness: float) -> Array:
    """Returns the share of misses in a set. load: lines that map to the set, divided by its ways."""
    over, share = load > 1, np.zeros_like(load)
    share[over] = 1.0 if keenness == inf else survivors(1 + (load[over] - 1) * keenness)
    return share


def _over_colours(shape: Shape, x: Array) -> Array:
    """Returns the share of misses at x times the capacity if the number of other lines in the set of a line is Poisson
    distributed. The ways need not be a whole number."""
    mean = shape.ways * x[:, None]
    others = np.arange(0, int(shape.ways * x[-1] * 1.2) + 40)[None, :]
    probability = np.exp(others * np.log(mean) - mean - log_factorials(others[0, -1]))
    share = _set_share((others[0] + 1) / shape.ways, shape.keenness)
    return np.asarray(probability @ share / probability.sum(axis=1))


def _without_gaps(x: Array, ways: float) -> Array:
    """Returns the share of misses at x times the capacity if all sets have the same whole number of lines, or one more:
    the sets with more lines than ways miss."""
    lines = x * ways
    fewer = np.floor(lines)
    fuller = lines - fewer
    missing = np.where(fewer > ways, (1 - fuller) * fewer, 0) + np.where(fewer + 1 > ways, fuller * (fewer + 1), 0)
    return np.asarray(missing / lines)


def _usual_of_two(x: Array, ways: float) -> Array:
    """Returns the median share of misses over visits whose pages fall at random into two colours. In most visits one
    colour overflows before the capacity is reached, and all of its lines miss at once. The returned curve never
    falls."""
    medians = []
    page_counts = np.maximum(np.round(2 * ways * x), 1).astype(int)
    factorials = log_factorials(page_counts[-1])
    for pages in page_counts:
        first_colour = np.arange(pages + 1)
        share = (
            np.where(first_colour > ways, first_colour, 0) / pages
            + np.where(pages - first_colour > ways, pages - first_colour, 0) / pages
        )
        order = np.argsort(share, kind="stable")
        probability = np.exp(
            factorials[pages] - factorials[first_colour] - factorials[pages - first_colour] - pages * log(2)
        )
        cumulated = np.cumsum(probability[order])
        medians.append(float(share[order][np.searchsorted(cumulated, 0.5)]))
    return np.maximum.accumulate(medians)


def _usual_of_few(x: Array, shape: Shape) -> Array:
    """Returns the median share of misses over visits with a few colours, by random draws with a fixed seed."""
    random, medians = np.random.default_rng(shape.colours), []
    for pages in np.maximum(np.round(shape.colours * shape.ways * x), 1).astype(int):
        each = random.multinomial(pages, np.full(shape.colours, 1 / shape.colours), DRAWS)
        medians.append(float(np.median(np.where(each > shape.ways, each, 0).sum(axis=1))) / pages)
    return np.maximum.accumulate(medians)
