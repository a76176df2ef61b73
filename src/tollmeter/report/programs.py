# SPDX-License-Identifier: Apache-2.0
"""The tables of a study: memory and time of each program relative to the native ABI, the parts of a difference between
ABIs, profiles side by side, and the ways to avoid a cost."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import PRECISION, Relative, Results, Suite, assignments
from tollmeter.numbers.meanings import HERE
from tollmeter.report.blocks import Block, Cell, Column, Figure, Line, Table, heading
from tollmeter.report.numbers import DASH, MINUS, of_row, percent, plain, plus_minus, quantity, time, two_digits
from tollmeter.report.profiles import known_like, side_by_side
from tollmeter.studies.attribution import AttributedPart, Attribution, largest
from tollmeter.studies.choices import AbiPair, Even, Ranking, break_evens, pairs, ranked_options
from tollmeter.studies.matching_rows import VIRTUAL, RatioOfRows
from tollmeter.studies.relatives import MULTIPLE

_TITLES = {
    "memory": "Memory",
    "asked": "Bytes asked of malloc",
    "time": "Time",
    "instructions": "Instructions of program and kernel",
    "counted": "Instructions of the program",
}
_NONE_BELOW, _LEAST_HALF = 0.0005, 0.005
"""Relative change below which 0 is printed, and relative half-width from which an interval is printed."""
_TWO_DIGITS = 10
"""Change in per cent below which two digits are printed."""
_NOTHING = 0.001
"""Share of a program's total below which a part of a difference counts as none."""
_VERBS = {
    (True, True): "takes", (True, False): "would take", (False, True): "saves", (False, False): "would save",
}  # fmt: skip
"""Verbs by whether the second ABI costs more, and whether it was timed."""
_WORDS = {"instructions": "in instructions", "faults": "in page faults", "caches": "in cache misses"}


def program_blocks(results: Results) -> list[Block]:
    """Returns the cost of each program under each ABI, the parts of a saving, and why numbers are missing."""
    return [*program_tables(results), *attribution_blocks(largest(results)), *program_remarks(results)]


def program_tables(results: Results) -> list[Table]:
    """Returns the tables: programs first, then their primitives; none for a run without such a study."""
    relatives = results.index.study.relatives if results.index.study else ()
    worth = results.suite.worth if results.suite else ""
    by_measure = ([relative for relative in relatives if relative.measure == measure] for measure in _TITLES)
    return [_table(measured, worth) for measured in by_measure if measured]


def program_remarks(results: Results) -> list[str]:
    """Returns the reasons why numbers are missing, each once, with its ABIs and measures."""
    relatives = results.index.study.relatives if results.index.study else ()
    about: dict[str, dict[str, None]] = {}
    for relative in relatives:
        if relative.reason:
            about.setdefault(relative.reason, {})[f"{relative.abi}, {_TITLES[relative.measure].lower()}"] = None
    return [f"{DASH} {'; '.join(measures)}: {reason}" for reason, measures in about.items()]


def _table(relatives: Sequence[Relative], worth: str) -> Table:
    """Returns the table of one measure. An ABI's column names the common target of its values, unless it is this
    machine; if targets differ between programs, their lines name them."""
    title = f"{_TITLES[relatives[0].measure]}, against {relatives[0].over}"
    places: dict[str, set[str]] = {}
    for relative in relatives:
        places.setdefault(relative.abi, set()).update({relative.target} if relative.target else ())
    elsewhere = {abi: names.pop() for abi, names in places.items() if len(names) == 1 and HERE not in names}
    columns = [Column(f"{abi} in {elsewhere[abi]}" if abi in elsewhere else abi, True) for abi in places]
    notes = {
        relative.what: f"{relative.abi} in {relative.target}" for relative in relatives
        if relative.target not in (None, HERE, elsewhere.get(relative.abi))
    }  # fmt: skip
    lines = dict.fromkeys((relative.primitive, relative.what) for relative in relatives)
    published = {relative.what: relative.published for relative in relatives if relative.published}
    cells = {(relative.what, relative.abi): _change(relative) for relative in relatives}
    rows = [
        Line((what, *(cells.get((what, abi), DASH) for abi in places), published.get(what, "")), notes.get(what, ""))
        for primitive, what in sorted(lines, key=lambda line: line[0])
    ]
    return Table([Column(title), *columns, Column(f"published, {worth}".rstrip(", "))], rows)


def _change(relative: Relative) -> Cell:
    """Returns a relative change in percent less or more, or as a multiple; with its interval, or with `~` if it has too
    few visits for one."""
    if relative.value is None or relative.low is None or relative.high is None:
        return DASH
    guess = "~ " if relative.thin else ""
    if relative.value >= MULTIPLE:
        sure = "" if relative.thin else plus_minus(relative.value, relative.low, relative.high)
        return Figure(f"{guess}{plain(relative.value)}", "×", sure)
    half = (relative.high - relative.low) / 2
    sure = f"±{100 * half:.0f}" if half >= _LEAST_HALF and not relative.thin else ""
    change = 100 * (relative.value - 1)
    if abs(change) < 100 * _NONE_BELOW:
        return Figure(f"{guess}0", "%", sure)
    size = plain(abs(change), 2) if abs(change) < _TWO_DIGITS else f"{abs(change):.0f}"
    return Figure(f"{guess}{MINUS if change < 0 else '+'}{size}", "%", sure)


# ---- attribution ----------------------------------------------------------------------------------------------------


def attribution_blocks(attributions: Sequence[Attribution]) -> list[Block]:
    """Returns the parts to which a saving is attributed; nothing without an attribution."""
    if not attributions:
        return []
    return [attribution_table(attributions), *map(attribution_in_words, attributions), *why_not(attributions)]


def attribution_table(attributions: Sequence[Attribution]) -> Table:
    """Returns a table with a line for each program and size: its cost under both ABIs, and the saving of the second by
    each part."""
    columns = [
        Column("What is saved"), *(Column(abi, right=True) for abi in attributions[0].abis),
        *(Column(part.name, right=True) for part in attributions[0].parts),
    ]  # fmt: skip
    rows = []
    for attribution in attributions:
        times = (_time(attribution, ns) for ns in (attribution.first_ns, attribution.second_ns))
        rows.append(
            Line((attribution_name(attribution), *times, *(_saved(attribution, part) for part in attribution.parts)))
        )
    return Table(columns, rows)


def attribution_name(attribution: Attribution) -> str:
    return " ".join((attribution.probe, *assignments(attribution.parameters.items())))


def _time(attribution: Attribution, ns: float | None) -> Cell:
    return f"~ {quantity(ns, 'ns')}" if attribution.thin and ns is not None else quantity(ns, "ns")


def _saved(attribution: Attribution, part: AttributedPart) -> str:
    if part.ns is None:
        return DASH
    amount = _amount(attribution, part.ns)
    if not part.ns or not amount:
        return "0"
    if part.within_ns >= abs(part.ns):
        return f"0 ±{two_digits(part.within_ns, 'ns')}"
    share = part.within_ns / abs(part.ns)
    return f"{MINUS if part.ns < 0 else ''}{amount}{f' ±{percent(share)}' if share >= _LEAST_HALF else ''}"


def attribution_in_words(attribution: Attribution) -> str:
    """Returns an attribution in words: memory, then the saved time by part, and the rest."""
    first, second = attribution.abis
    memory = f"{second} needs {_beside(attribution.memory)} {first}; " if attribution.memory else ""
    parts = [part for part in attribution.parts if part.ns is not None and part.name != "unexplained"]
    costs = attribution.is_whole and attribution.saved_ns < 0
    saved = ", ".join(_part(attribution, part, costs) for part in parts)
    taken = f"the {quantity(attribution.first_ns, 'ns')} of {first}"
    guess = "about " if attribution.thin else ""
    if not attribution.is_whole:
        beyond = f", beyond {saved}" if any(_amount(attribution, part.ns or 0.0) for part in parts) else ""
        return f"{attribution_name(attribution)}: {memory}what it would save of {taken} is unknown{beyond}."
    timed = attribution.second_ns is not None
    amount = _amount(attribution, attribution.saved_ns)
    if not amount:
        verb = "takes as long as"
    else:
        amount = str(quantity(abs(attribution.saved_ns), "ns")) if timed else amount
        verb = f"{_VERBS[costs, timed]} {guess}{amount} {'more than' if costs else 'of'}"
    rest = attribution.parts[-1]
    tail = "by counts, since its time was not measured" if rest.ns is None else _part(attribution, rest, costs)
    return f"{attribution_name(attribution)}: {memory}it {verb} {taken}: {', '.join(filter(None, (saved, tail)))}."


def _part(attribution: Attribution, part: AttributedPart, costs: bool) -> str:
    """Returns `3.8 µs in cache misses`, and `270 ns lost in instructions` if the total is a saving."""
    ns, words = part.ns or 0.0, _WORDS.get(part.name, part.name)
    amount, against = _amount(attribution, ns), (ns > 0) == costs
    if not amount:
        return f"nothing {words}"
    if part.name not in _WORDS:
        return f"{MINUS if against else ''}{amount} {words}"
    levels = f" ({', '.join(attribution.levels)})" if part.name == "caches" and attribution.levels else ""
    return f"{amount}{(' saved' if costs else ' lost') if against else ''} {words}{levels}"


def _amount(attribution: Attribution, ns: float) -> str:
    """Returns an amount with two digits, since a part is not known better; empty if it is negligible against the
    program's total."""
    return "" if abs(ns) < _NOTHING * attribution.first_ns else str(two_digits(abs(ns), "ns"))


def _beside(ratio: float) -> str:
    if abs(ratio - 1) < _NONE_BELOW:
        return "as much memory as"
    if ratio >= MULTIPLE:
        return f"{plain(ratio, 2)} times the memory of"
    return f"{percent(ratio - 1)} {'less' if ratio < 1 else 'more'} memory than"


def why_not(attributions: Sequence[Attribution]) -> list[str]:
    """Returns each reason for parts that could not be attributed, once, with its programs."""
    gaps: dict[str, list[tuple[str, str]]] = {}
    for attribution in attributions:
        for part in attribution.parts:
            if part.ns is None:
                gaps.setdefault(part.reason, []).append((part.name, attribution.probe))
    sentences = []
    for reason, named_parts in gaps.items():
        parts, programs = (", ".join(dict.fromkeys(names)) for names in zip(*named_parts, strict=True))
        sentences.append(f"{parts}: {reason} ({programs}).")
    return sentences


# ---- ways out -------------------------------------------------------------------------------------------------------


def answer_blocks(results: Results, suite: Suite) -> list[Block]:
    """Returns all blocks of the answer, by target, in reading order."""
    blocks: list[Block] = []
    for pair in pairs(results, suite):
        blocks += side_by_side(pair.left, pair.right, pair.titles, pair.gain, published_shares(suite, pair))
    without = [profile for profile in results.index.profiles if profile.reason]
    reasons = dict.fromkeys(f"No profile for {profile.abi}, {profile.target}: {profile.reason}" for profile in without)
    blocks += reasons
    for place, ranking in ranked_options(results, suite).items():
        title = f"What to do next, {', '.join(place)}"
        blocks += [heading(title), alternatives_table(ranking), " ".join(best_alternative(ranking)).rstrip()]
    for even in break_evens(results, suite):
        thing = even.asked.thing
        title = f"{thing[:1].upper()}{thing[1:]} a packet, {', '.join(even.place)}"
        blocks += [heading(title), break_even_in_words(even)]
    return blocks


def published_shares(suite: Suite, pair: AbiPair) -> list[Table]:
    """Returns the study's shares with the measured ones; none if it has none."""
    if suite.beside is None or not suite.beside.shares:
        return []
    rows = []
    for share, *busy in suite.beside.busy():
        here = [known_like(side, share.here) if share.here else DASH for side in (pair.left, pair.right)]
        rows.append(Line((share.function, *(f"{part:.1f}" if part else DASH for part in busy), *here)))
    columns = [Column("% of the busy time"), *(Column(f"{title}, published", True) for title in pair.titles),
               *(Column(f"{title}, here", True) for title in pair.titles)]  # fmt: skip
    return [Table(columns, rows)]


def alternatives_table(ranking: Ranking) -> Table:
    """Returns the alternatives to one ABI, best first."""
    lines = [Line((option.what, of_row(row), _gain(gained), option.costs)) for option, row, gained in ranking]
    columns = [Column("What to do"), Column("here", True), Column("gain", True), Column("what it takes")]
    return Table(columns, lines)


def best_alternative(ranking: Ranking) -> tuple[str, str]:
    """Returns the best alternative with its gain and its cost, or that none is known to be better; then those that are
    as good within 3 %, empty for none."""
    known = [each for each in ranking if each[2].is_known]
    if known and all(each[2].ratio.high < 1 + PRECISION for each in known):
        return "None of these gains 3 % here: leave it as it is.", ""
    if not known or known[0][2].ratio.low < 1 + PRECISION:
        return "Which of these is best here is not known yet: no interval shows a gain of 3 %.", ""
    option, row, gained = known[0]
    what = "the throughput" if row.clock == "hardware" else "as good by the count of instructions"
    alike = [
        other.what for other, _, other_gain in known[1:] if gained.ratio.value / other_gain.ratio.value < 1 + PRECISION
    ]
    best = f"Best here: {option.what}, {plain(gained.ratio.value)} × {what}. It takes {option.costs}."
    return best, f"As good within 3 %: {'; '.join(alike)}." if alike else ""


def _gain(gained: RatioOfRows) -> str:
    """Returns a gain as text; with few digits if it has no interval."""
    ratio = gained.ratio
    known = str(quantity(ratio.value, "ratio", ratio.low, ratio.high))
    return known if gained.is_known else f"~ {plain(ratio.value)} ×"


# ---- break-even -----------------------------------------------------------------------------------------------------


def break_even_in_words(even: Even) -> str:
    """Returns in words the number of occurrences from which a remedy is better. The remedy is paid once; its cost is
    a difference of two times, whose interval includes the intervals of both."""
    asked, once_ns, within_ns = even.asked, even.once_ns, even.within_ns
    clock = f" in virtual time of {even.each.target}" if even.each.clock == VIRTUAL else ""
    head = f"One ({even.each.probe}) costs {of_row(even.each)}{clock}, and {asked.remedy}"
    if once_ns <= within_ns:
        return f"{head} less than {two_digits(max(once_ns, 0.0) + within_ns, 'ns')}: {_from(asked.thing, 1)}."
    paid = f"{head} {time(once_ns, once_ns - within_ns, once_ns + within_ns)}"
    if even.number < 1:
        return f"{paid}, {percent(even.number)} of that: {_from(asked.thing, 1)}."
    number = int(even.number)
    return f"{paid}: {_from(asked.thing, number + 1)}, and up to {number} it is not."


def _from(thing: str, number: int) -> str:
    return f"the latter is better from {'the first' if number == 1 else number} of the {thing} on"
