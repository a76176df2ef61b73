# SPDX-License-Identifier: Apache-2.0
"""The numbers of the first screen: the best known tolls and the levels of memory, and their precision."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.model import BEST_KNOWN, Results, Toll, Value
from tollmeter.numbers.meanings import meaning

MOST_LONERS, _MOST_LINES = 2, 9
NARROW = 0.05


def best_known(results: Results) -> tuple[Toll, ...]:
    """Returns at most nine tolls that represent the table, cheapest first: the best known of each meaning, and the most
    expensive tolls of probes with a single toll whose metrics have no meaning."""
    paid = [toll for toll in results.index.tolls if toll.value is not None and toll.typical]
    chosen: list[Toll] = []
    for means, lines in BEST_KNOWN.items():
        chosen += _of_lines([toll for toll in paid if meaning(toll, results.probes) == means], lines)
    lines_of = Counter(toll.probe for toll in paid)
    probes_with_meaning = {
        name for name, probe in results.probes.items() if any(metric.means for metric in probe.metrics)
    }
    single_tolls = [toll for toll in paid if toll.probe not in probes_with_meaning and lines_of[toll.probe] == 1]
    room = max(0, min(MOST_LONERS, _MOST_LINES - len(chosen)))
    chosen += single_tolls[len(single_tolls) - room :] if room < len(single_tolls) else single_tolls
    return tuple(toll for toll in paid if toll in chosen)


def _of_lines(tolls: Sequence[Toll], lines: Sequence[Mapping[str, Value]]) -> list[Toll]:
    """Returns the toll at the parameters of each line; if no line has one, as many tolls, evenly spaced. tolls: tolls
    with one meaning. lines: parameters of the best known tolls with this meaning."""
    found = [next((toll for toll in tolls if line.items() <= toll.parameters.items()), None) for line in lines]
    if found_tolls := [toll for toll in found if toll]:
        return found_tolls
    number = min(len(lines), len(tolls))
    return [tolls[len(tolls) * (2 * place + 1) // (2 * number)] for place in range(number)]  # evenly spaced


def own_groups(results: Results) -> dict[str, str]:
    """Returns the group of each probe for which the suite names one, in the suite's order; the first group if it names
    several."""
    groups: dict[str, str] = {}
    for select in results.suite.select if results.suite else ():
        for probe in fnmatch.filter(sorted(results.probes), select.probe) if select.group else ():
            groups.setdefault(probe, select.group)
    return groups


def narrow(results: Results) -> tuple[int, int]:
    """Returns the number of first-screen numbers whose interval is within 5 % on its wider side, and the number
    of all."""
    widths = [max(high - value, value - low) / value for value, low, high in _numbers(results)]
    return sum(width <= NARROW for width in widths), len(widths)


def with_interval(results: Results) -> tuple[int, int]:
    """Returns the number of first-screen numbers with an interval, and the number of all."""
    has = [high < inf for _, _, high in _numbers(results)]
    return sum(has), len(has)


def _numbers(results: Results) -> Iterator[tuple[float, float, float]]:
    """Yields each number and its interval, infinite if it has none."""
    levels = results.index.hierarchy
    numbers = [
        (toll.value, *((toll.low, toll.high) if toll.visits >= LEAST_VISITS else (None, None)))
        for toll in best_known(results)
    ]
    numbers += [(level.latency_ns, level.latency_low, level.latency_high) for level in levels]
    numbers += [(level.read_bytes_per_second, level.read_low, level.read_high) for level in levels]
    for value, low, high in numbers:
        if value:
            yield value, low or 0.0, high or inf
