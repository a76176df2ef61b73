# SPDX-License-Identifier: Apache-2.0
"""The rank of a machine among the user's other machines: for each level and toll the number of machines that are
faster, equal and slower. Only measured machines count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.model import Index, Results, Toll
from tollmeter.report.blocks import Column, Figure, Line, Table
from tollmeter.report.numbers import DASH, count, of_level, of_toll, quantity, reading_of_level
from tollmeter.report.shown import best_known


class PeerNumber(NamedTuple):
    """One number of one machine with its interval; a rate's unit is B/s."""

    value: float
    low: float
    high: float
    unit: str
    figure: Figure


def peers_table(results: Results, peers: Sequence[Index]) -> Table | None:
    """Returns the table of memory levels and best known tolls, with the number of peers that are faster, equal and
    slower; None if no peer has one of them."""
    wanted = {_toll_key(toll) for toll in best_known(results)}
    own_numbers = dict(_numbers(results.index))
    others = [dict(_numbers(peer)) for peer in peers]
    lines = [
        _line(name, here, beside) for key, (name, here) in own_numbers.items()
        if (key[0] == "level" or key in wanted) and (beside := [peer[key][1] for peer in others if key in peer])
    ]  # fmt: skip
    columns = [Column(f"Among {count(len(peers), 'other machine')}"), Column("here", True),
               *(Column(name, True) for name in ("faster", "alike", "slower")), Column("the others", True)]  # fmt: skip
    return Table(columns, lines) if lines else None


def _line(name: str, here: PeerNumber, others: Sequence[PeerNumber]) -> Line:
    """Returns the counts of machines. A machine is faster or slower if its interval does not overlap this one's."""
    above = sum(other.low > here.high for other in others)
    below = sum(other.high < here.low for other in others)
    faster, slower = (above, below) if here.unit == "B/s" else (below, above)
    least, most = min(others), max(others)
    ends = dict.fromkeys(str(quantity(other.value, other.unit).bare) for other in (least, most))
    alike = len(others) - above - below
    tally = (str(each) if each else DASH for each in (faster, alike, slower))
    return Line((name, here.figure, *tally, " to ".join(ends)))


def _toll_key(toll: Toll) -> tuple[object, ...]:
    return toll.probe, toll.metric, toll.abi, tuple(sorted(toll.parameters.items()))


def _numbers(index: Index) -> Iterator[tuple[tuple[object, ...], tuple[str, PeerNumber]]]:
    """Yields numbers by the key that identifies them on two machines. A number without an interval is not compared."""
    for level in index.hierarchy:
        latency = (level.latency_ns, level.latency_low, level.latency_high)
        rate = (level.read_bytes_per_second, level.read_low, level.read_high)
        for what, unit, bounds, figure in (("latency", "ns", latency, of_level(level)),
                                           ("read", "B/s", rate, reading_of_level(level))):  # fmt: skip
            value, low, high = bounds
            if value and low and high and not level.few_samples:
                yield (
                    ("level", level.level, what),
                    (f"{level.level} {what}", PeerNumber(value, low, high, unit, figure)),
                )
    for toll in index.tolls:
        if toll.value and toll.low and toll.high and toll.visits >= LEAST_VISITS:
            yield _toll_key(toll), (toll.toll, PeerNumber(toll.value, toll.low, toll.high, toll.unit, of_toll(toll)))
