# SPDX-License-Identifier: Apache-2.0
"""A study's listing in words: loops a second, attempt by attempt, and what the control loop says of them."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Book, Row
from tollmeter.numbers.percent import in_percent
from tollmeter.report.numbers import DASH, Figure, quantity
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.studies.attempts import SUSPECT, VALID, Attempt, Place, Test, listing
from tollmeter.studies.guest_exits import OWN_EXITS

FREE = (
    "In virtual time each instruction takes 1 ns, and an exception itself nothing: what counts is the instructions of "
    "the handler's path."
)
_MARKS = {"valid": "", "suspect": "?", "differs": "!", "unseen": ""}
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def listings(book: Book) -> list[tuple[Table, list[str]]]:
    """A table for each place, and the sentences below it."""
    return [(_table(place), _sentences(place)) for place in listing(book)]


def _table(place: Place) -> Table:
    title = f"Listing ({place.target}, {place.abi}, {place.clock})"
    columns = [Column(title), Column("loops a second, by attempt"), Column("each", right=True), Column("")]
    return table(title, columns, [_line(test) for test in place.tests])


def _line(test: Test) -> Line:
    return Line((f"{test.listed.test:<3} {test.listed.what}", by_attempt(test.attempts), _each(test.row), _state(test)))


def _each(row: Row) -> Figure | str:
    """The time of one loop, as the row states it."""
    if not row.median:
        return DASH
    return quantity(row.median if row.unit == "ns" else 1e9 / row.median, "ns")


def by_attempt(attempts: Sequence[Attempt]) -> str:
    """All in one unit; `?` behind a suspect one, `!` behind one whose control loop differs."""
    most = max((attempt.loops_hz for attempt in attempts), default=0.0)
    scale, letter = next((pair for pair in _SCALES if most >= pair[0]), _SCALES[-1])
    return " ".join(f"{attempt.loops_hz / scale:.4g}{_MARKS[attempt.state]}" for attempt in attempts) + f" {letter}/s"


def _state(test: Test) -> str:
    states = {attempt.state for attempt in test.attempts}
    worst = next((state for state in ("differs", "suspect", "valid") if state in states), "")
    return f"{worst}, {test.again} again" if test.again else worst


def _sentences(place: Place) -> list[str]:
    virtual = [FREE] if place.clock == "virtual" else []
    differs = [f"{test.listed.test}: {test.listed.differs}" for test in place.tests if test.listed.differs]
    return [lesson(place), *virtual, *_left(place), *dict.fromkeys(differs)]


def lesson(place: Place) -> str:
    """What the study learned by its own control loop, said of this place."""
    if not place.control_hz:
        return "No control loop was seen around these: nothing says whether the machine was in one state."
    states = [attempt.state for test in place.tests for attempt in test.attempts]
    usual = f"The control loop around all attempts: {place.control_hz / 1e9:.3g} G additions a second"
    if "differs" in states:
        flagged = states.count("differs")
        return (
            f"{usual}, and more than {in_percent(SUSPECT)} off around {flagged} of {len(states)}, each time: those "
            "ran in another state of the machine, are marked ! and stand alone."
        )
    if "suspect" in states:
        return (
            f"{usual}, {in_percent(VALID)} to {in_percent(SUSPECT)} off around {states.count('suspect')} of "
            f"{len(states)}: marked ?, to be believed where others agree."
        )
    return f"{usual}, within {in_percent(VALID)} each time: one state of the machine, and the tests may be compared."


def _left(place: Place) -> list[str]:
    """That a guest's entries are its host's, where they are."""
    left = [test for test in place.tests if (test.exits or 0.0) > OWN_EXITS]
    if not left:
        return []
    least, most = (pick(test.exits or 0.0 for test in left) for pick in (min, max))
    names = ", ".join(dict.fromkeys(test.listed.test for test in left))
    sentence = (
        f"{names}: each round trip left the guest {least:.1f} to {most:.1f} times for its host. This /dev/kvm is "
        "a hypervisor in software: these are its prices and not the hardware's."
    )
    return [sentence]
