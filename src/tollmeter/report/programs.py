# SPDX-License-Identifier: Apache-2.0
"""A study's two tables, memory and CPU time of each program relative to the machine's own ABI; and what
a difference between two ABIs is made of, as a table and in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.model import Book, Relative
from tollmeter.numbers.meanings import HERE
from tollmeter.report.numbers import DASH, MINUS, Figure, percent, plain, plus_minus, quantity, two_digits
from tollmeter.report.tables import Cell, Column, Line, Table, table
from tollmeter.studies.attribution import Attribution, Part
from tollmeter.studies.gains import MULTIPLE

TITLES = {"memory": "Memory", "time": "CPU time"}
_NONE_BELOW, _LEAST_HALF = 0.0005, 0.005
_TWO_DIGITS = 10
_NOTHING = 0.001
"""Share of what a program takes, below which a part of a difference is none."""
_WORDS = {"instructions": "in instructions", "faults": "in page faults", "caches": "in cache misses"}


def program_tables(book: Book) -> list[Table]:
    """Programs first, then the primitives below them; none for a run of no such study."""
    relatives = book.index.study.relatives if book.index.study else ()
    return [
        _table(book, [relative for relative in relatives if relative.measure == measure])
        for measure in TITLES
        if relatives
    ]


def program_remarks(book: Book) -> list[str]:
    """Why there is no number, each reason once, with whom it is about."""
    relatives = book.index.study.relatives if book.index.study else ()
    about: dict[str, dict[str, None]] = {}
    for relative in relatives:
        if relative.reason:
            about.setdefault(relative.reason, {})[f"{relative.abi}, {TITLES[relative.measure]}"] = None
    return [f"{DASH} {'; '.join(who)}: {reason}" for reason, who in about.items()]


def _table(book: Book, relatives: Sequence[Relative]) -> Table:
    abis = list(dict.fromkeys(one.abi for one in relatives))
    lines = dict.fromkeys((one.primitive, one.what) for one in relatives)
    published = {relative.what: relative.published for relative in relatives if relative.published}
    cells = {(one.what, one.abi): _change(one) for one in relatives}
    rows = [
        Line((what, *(cells.get((what, abi), DASH) for abi in abis), published.get(what, "")))
        for primitive, what in sorted(lines, key=lambda line: line[0])
    ]
    title = f"{TITLES[relatives[0].measure]}, against {relatives[0].over}"
    about = book.suite.worth if book.suite else ""
    columns = [Column(title), *(Column(_placed(relatives, abi), right=True) for abi in abis)]
    return table(title, [*columns, Column(f"published, {about}".rstrip(", "))], rows)


def _placed(relatives: Sequence[Relative], abi: str) -> str:
    """With where it was, if not on this machine itself."""
    places = sorted({relative.target or HERE for relative in relatives if relative.abi == abi} - {HERE})
    return f"{abi} in {', '.join(places)}" if places else abi


def _change(one: Relative) -> Cell:
    """Less or more, as the study tells it; the interval where there is one, and what has none as a guess."""
    if one.value is None or one.low is None or one.high is None:
        return DASH
    guess = "~ " if one.thin else ""
    half = (one.high - one.low) / 2
    if one.value >= MULTIPLE:
        sure = "" if one.thin else plus_minus(one.value, one.low, one.high)
        return Figure(f"{guess}{plain(one.value)}", "×", sure)
    sure = f"±{100 * half:.0f}" if half >= _LEAST_HALF and not one.thin else ""
    return Figure(f"{guess}{_signed(one.value - 1)}", "%", sure)


def _signed(share: float) -> str:
    value = 100 * share
    text = plain(abs(value), 2) if abs(value) < _TWO_DIGITS else f"{abs(value):.0f}"
    return "0" if abs(value) < 100 * _NONE_BELOW else f"{MINUS if value < 0 else '+'}{text}"


# ---- attribution ----------------------------------------------------------------------------------------------------


def attribution_table(attributions: Sequence[Attribution]) -> Table:
    """A line a program and size: what it takes under both, and what the second saves by each part."""
    columns = [
        Column("What is saved"), *(Column(abi, right=True) for abi in attributions[0].abis),
        *(Column(part.name, right=True) for part in attributions[0].parts),
    ]  # fmt: skip
    rows = [
        Line(
            (
                named(attribution),
                *(_time(attribution, ns) for ns in (attribution.first_ns, attribution.second_ns)),
                *_saved(attribution),
            )
        )
        for attribution in attributions
    ]
    return table("What is saved", columns, rows)


def named(one: Attribution) -> str:
    values = " ".join(f"{name}={value}" for name, value in one.parameters.items())
    return f"{one.probe} {values}".rstrip()


def _time(one: Attribution, ns: float | None) -> Cell:
    return f"~ {quantity(ns, 'ns')}" if one.thin and ns is not None else quantity(ns, "ns")


def _saved(one: Attribution) -> Iterator[Cell]:
    for part in one.parts:
        shown = DASH if part.ns is None else _amount(one, part.ns) or "0"
        yield f"{MINUS}{shown}" if shown != "0" and (part.ns or 0.0) < 0 else shown


def in_words(one: Attribution) -> str:
    """As one says it: memory, then of how much time what is saved in what, and what is left."""
    first, second = one.abis
    memory = f"{second} needs {_beside(one.memory)} {first}; " if one.memory else ""
    parts = [part for part in one.parts if part.ns is not None and part.name != "unexplained"]
    costs = one.is_whole and one.saved_ns < 0
    saved = ", ".join(_part(one, part, costs) for part in parts)
    if not one.is_whole:
        beyond = f", beyond {saved}" if any(_amount(one, part.ns or 0.0) for part in parts) else ""
        return f"{named(one)}: {memory}what it would save of {quantity(one.first_ns, 'ns')} is unknown{beyond}."
    guess = "about " if one.thin else ""
    verb = "costs" if costs else "saves"
    verb = verb if one.second_ns is not None else f"would {verb[:-1]}"
    whole = quantity(abs(one.saved_ns), "ns") if one.second_ns is not None else _amount(one, one.saved_ns)
    head = f"{named(one)}: {memory}of {quantity(one.first_ns, 'ns')} it {verb} {guess}{whole or 'nothing'}"
    rest = one.parts[-1]
    tail = "by counts, since its time was not measured" if rest.ns is None else _part(one, rest, costs)
    return f"{head}: {', '.join(part for part in (saved, tail) if part)}."


def _part(one: Attribution, part: Part, costs: bool) -> str:
    """`3.8 µs in cache misses`, and `270 ns lost in instructions` where all in all something is saved."""
    ns, where = part.ns or 0.0, _WORDS.get(part.name, part.name)
    amount, against = _amount(one, ns), (ns > 0) == costs
    if not amount:
        return f"nothing {where}"
    if part.name not in _WORDS:
        return f"{MINUS if against else ''}{amount} {where}"
    return f"{amount}{(' saved' if costs else ' lost') if against else ''} {where}{_of(one, part)}"


def _amount(one: Attribution, ns: float) -> str:
    """With two digits, since a part is known no better; empty where it is nothing beside all that the program takes."""
    return "" if abs(ns) < _NOTHING * one.first_ns else str(two_digits(abs(ns), "ns"))


def _beside(ratio: float) -> str:
    if abs(ratio - 1) < _NONE_BELOW:
        return "as much memory as"
    if ratio >= MULTIPLE:
        return f"{plain(ratio, 2)} times the memory of"
    return f"{percent(ratio - 1)} {'less' if ratio < 1 else 'more'} memory than"


def _of(one: Attribution, part: Part) -> str:
    return f" ({', '.join(one.levels)})" if part.name == "caches" and one.levels else ""


def why_not(attributions: Sequence[Attribution]) -> list[str]:
    """Each reason for parts that could not be attributed, once, with the programs that it is about."""
    parts: dict[str, dict[str, None]] = {}
    programs: dict[str, dict[str, None]] = {}
    for attribution in attributions:
        for part in attribution.parts:
            if part.ns is None:
                parts.setdefault(part.reason, {})[part.name] = None
                programs.setdefault(part.reason, {})[attribution.probe] = None
    return [f"{', '.join(parts[reason])}: {reason} ({', '.join(programs[reason])})." for reason in parts]
