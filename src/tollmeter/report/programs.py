# SPDX-License-Identifier: Apache-2.0
"""A study's tables of memory and CPU time of each program relative to the native ABI, and the parts of a difference
between ABIs; profiles side by side, and the ways to avoid a cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tollmeter.model import Option, Relative, Results, Row, Suite
from tollmeter.numbers.meanings import HERE
from tollmeter.report.numbers import DASH, MINUS, Figure, of_row, percent, plain, plus_minus, quantity, time, two_digits
from tollmeter.report.profiles import known_like, side_by_side
from tollmeter.report.tables import Block, Cell, Column, Line, Table, table
from tollmeter.studies.attribution import Attribution, Part
from tollmeter.studies.choices import Even, Pair, Ranked, break_evens, gain, is_narrow, pairs, ranked
from tollmeter.studies.matching_rows import VIRTUAL
from tollmeter.studies.relatives import MULTIPLE

TITLES = {
    "memory": "Memory",
    "asked": "Bytes asked of malloc",
    "time": "CPU time",
    "instructions": "Instructions of program and kernel",
    "counted": "Instructions of the program",
}
_NONE_BELOW, _LEAST_HALF = 0.0005, 0.005
_TWO_DIGITS = 10
_NOTHING = 0.001
"""Share of what a program takes, below which a part of a difference is none."""
_WORDS = {"instructions": "in instructions", "faults": "in page faults", "caches": "in cache misses"}


def program_tables(results: Results) -> list[Table]:
    """Programs first, then the primitives below them; none for a run of no such study."""
    relatives = results.index.study.relatives if results.index.study else ()
    return [
        _table(results, measured)
        for measure in TITLES
        if (measured := [relative for relative in relatives if relative.measure == measure])
    ]


def program_remarks(results: Results) -> list[str]:
    """Why there is no number, each reason once, with whom it is about."""
    relatives = results.index.study.relatives if results.index.study else ()
    about: dict[str, dict[str, None]] = {}
    for relative in relatives:
        if relative.reason:
            about.setdefault(relative.reason, {})[f"{relative.abi}, {TITLES[relative.measure].lower()}"] = None
    return [f"{DASH} {'; '.join(who)}: {reason}" for reason, who in about.items()]


def _table(results: Results, relatives: Sequence[Relative]) -> Table:
    abis = list(dict.fromkeys(relative.abi for relative in relatives))
    lines = dict.fromkeys((relative.primitive, relative.what) for relative in relatives)
    published = {relative.what: relative.published for relative in relatives if relative.published}
    cells = {(relative.what, relative.abi): _change(relative) for relative in relatives}
    rows = [
        Line((what, *(cells.get((what, abi), DASH) for abi in abis), published.get(what, "")))
        for primitive, what in sorted(lines, key=lambda line: line[0])
    ]
    title = f"{TITLES[relatives[0].measure]}, against {relatives[0].over}"
    about = results.suite.worth if results.suite else ""
    columns = [Column(title), *(Column(_placed(relatives, abi), right=True) for abi in abis)]
    return table(title, [*columns, Column(f"published, {about}".rstrip(", "))], rows)


def _placed(relatives: Sequence[Relative], abi: str) -> str:
    """With where it was, if not on this machine itself."""
    places = sorted({relative.target or HERE for relative in relatives if relative.abi == abi} - {HERE})
    return f"{abi} in {', '.join(places)}" if places else abi


def _change(relative: Relative) -> Cell:
    """Less or more, as the study tells it; the interval where there is one, and what has none as a guess."""
    if relative.value is None or relative.low is None or relative.high is None:
        return DASH
    guess = "~ " if relative.thin else ""
    half = (relative.high - relative.low) / 2
    if relative.value >= MULTIPLE:
        sure = "" if relative.thin else plus_minus(relative.value, relative.low, relative.high)
        return Figure(f"{guess}{plain(relative.value)}", "×", sure)
    sure = f"±{100 * half:.0f}" if half >= _LEAST_HALF and not relative.thin else ""
    return Figure(f"{guess}{_signed(relative.value - 1)}", "%", sure)


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


def named(attribution: Attribution) -> str:
    values = " ".join(f"{name}={value}" for name, value in attribution.parameters.items())
    return f"{attribution.probe} {values}".rstrip()


def _time(attribution: Attribution, ns: float | None) -> Cell:
    return f"~ {quantity(ns, 'ns')}" if attribution.thin and ns is not None else quantity(ns, "ns")


def _saved(attribution: Attribution) -> Iterator[Cell]:
    for part in attribution.parts:
        amount = "" if part.ns is None else _amount(attribution, part.ns)
        if not part.ns or not amount:
            yield DASH if part.ns is None else "0"
        elif part.within_ns >= abs(part.ns):
            yield f"0 ±{two_digits(part.within_ns, 'ns')}"
        else:
            share = part.within_ns / abs(part.ns)
            yield f"{MINUS if part.ns < 0 else ''}{amount}{f' ±{percent(share)}' if share >= _LEAST_HALF else ''}"


def in_words(attribution: Attribution) -> str:
    """As one says it: memory, then of how much time what is saved in what, and what is left."""
    first, second = attribution.abis
    memory = f"{second} needs {_beside(attribution.memory)} {first}; " if attribution.memory else ""
    parts = [part for part in attribution.parts if part.ns is not None and part.name != "unexplained"]
    costs = attribution.is_whole and attribution.saved_ns < 0
    saved = ", ".join(_part(attribution, part, costs) for part in parts)
    if not attribution.is_whole:
        beyond = f", beyond {saved}" if any(_amount(attribution, part.ns or 0.0) for part in parts) else ""
        time = quantity(attribution.first_ns, "ns")
        return f"{named(attribution)}: {memory}what it would save of {time} is unknown{beyond}."
    guess = "about " if attribution.thin else ""
    verb = "costs" if costs else "saves"
    verb = verb if attribution.second_ns is not None else f"would {verb[:-1]}"
    whole = (
        quantity(abs(attribution.saved_ns), "ns")
        if attribution.second_ns is not None
        else _amount(attribution, attribution.saved_ns)
    )
    head = (
        f"{named(attribution)}: {memory}of {quantity(attribution.first_ns, 'ns')} it {verb} {guess}{whole or 'nothing'}"
    )
    rest = attribution.parts[-1]
    tail = "by counts, since its time was not measured" if rest.ns is None else _part(attribution, rest, costs)
    return f"{head}: {', '.join(part for part in (saved, tail) if part)}."


def _part(attribution: Attribution, part: Part, costs: bool) -> str:
    """`3.8 µs in cache misses`, and `270 ns lost in instructions` where all in all something is saved."""
    ns, where = part.ns or 0.0, _WORDS.get(part.name, part.name)
    amount, against = _amount(attribution, ns), (ns > 0) == costs
    if not amount:
        return f"nothing {where}"
    if part.name not in _WORDS:
        return f"{MINUS if against else ''}{amount} {where}"
    return f"{amount}{(' saved' if costs else ' lost') if against else ''} {where}{_of(attribution, part)}"


def _amount(attribution: Attribution, ns: float) -> str:
    """With two digits, since a part is known no better; empty where it is nothing beside all that the program takes."""
    return "" if abs(ns) < _NOTHING * attribution.first_ns else str(two_digits(abs(ns), "ns"))


def _beside(ratio: float) -> str:
    if abs(ratio - 1) < _NONE_BELOW:
        return "as much memory as"
    if ratio >= MULTIPLE:
        return f"{plain(ratio, 2)} times the memory of"
    return f"{percent(ratio - 1)} {'less' if ratio < 1 else 'more'} memory than"


def _of(attribution: Attribution, part: Part) -> str:
    return f" ({', '.join(attribution.levels)})" if part.name == "caches" and attribution.levels else ""


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


# ---- ways out -------------------------------------------------------------------------------------------------------

ALIKE = 0.03


@dataclass(frozen=True)
class Ways:
    """Ways out of one place, best first. best: its name, gain and cost; sentence: also which others are as good."""

    place: str
    table: Table
    best: str
    sentence: str


def answer(results: Results, suite: Suite) -> list[Block]:
    """All of it, place by place, in the order in which it is read."""
    blocks = [
        replace(side, tables=(*side.tables, *published(suite, pair)))
        for pair in pairs(results, suite)
        for side in [side_by_side(pair.left, pair.right, pair.titles, pair.gain)]
    ]
    reasons = tuple(f"No profile for {reason}" for reason in unprofiled(results))
    blocks += [Block(sentences=reasons)] if reasons else []
    blocks += [
        Block((f"What to do next, {ways.place}",), (ways.table,), (ways.sentence,)) for ways in ways_out(results, suite)
    ]
    return blocks + [
        Block((f"{even.asked.thing[:1].upper()}{even.asked.thing[1:]} a packet, {', '.join(even.place)}",), (),
              (ratio_in_words(even),))
        for even in break_evens(results, suite)
    ]  # fmt: skip


def unprofiled(results: Results) -> list[str]:
    """Why a point has no profile, each reason once."""
    return list(
        dict.fromkeys(
            f"{profile.abi}, {profile.target}: {profile.reason}" for profile in results.index.profiles if profile.reason
        )
    )


def published(suite: Suite, pair: Pair) -> list[Table]:
    """The study's shares beside ours; none where it has none."""
    if suite.beside is None or not suite.beside.shares:
        return []
    rows = [Line((share.function, *_ratios(*parts), *_here(share.here, pair))) for share, *parts in suite.beside.busy()]
    columns = [Column("% of the busy time"), *(Column(f"{title}, published", True) for title in pair.titles),
               *(Column(f"{title}, here", True) for title in pair.titles)]  # fmt: skip
    return [table("% of the busy time", columns, rows)]


def _ratios(left: float, right: float) -> tuple[str, str]:
    return f"{left:.1f}" if left else DASH, f"{right:.1f}" if right else DASH


def _here(forms: Sequence[str], pair: Pair) -> tuple[str, str]:
    return (known_like(pair.left, forms), known_like(pair.right, forms)) if forms else (DASH, DASH)


def ways_out(results: Results, suite: Suite) -> list[Ways]:
    return [_ways(ranking) for ranking in ranked(results, suite)]


def _ways(ranking: Ranked) -> Ways:
    base, rows = ranking.base, ranking.options
    lines = [Line((option.what, of_row(row), f"{plain(gain(base, row))} ×", option.costs)) for option, row in rows]
    columns = [Column("What to do"), Column("here", True), Column("gain", True), Column("what it takes")]
    best = _best(base, *rows[0])
    return Ways(
        ", ".join(ranking.place), table("What to do", columns, lines), best, f"{best}{_advice_beside(base, rows)}"
    )


def _best(base: Row, option: Option, row: Row) -> str:
    """By how much it is better than what there was, and what it takes."""
    best = gain(base, row)
    if best < 1 + ALIKE:
        return "None of these gains 3 % here: leave it as it is."
    poor = "" if is_narrow(base) and is_narrow(row) else "about "
    what = "the throughput" if row.clock == "hardware" else "as good by the count of instructions"
    return f"Best here: {option.what}, {poor}{plain(best)} × {what}. It takes {option.costs}."


def _advice_beside(base: Row, rows: Sequence[tuple[Option, Row]]) -> str:
    """What does nearly as much as the best: within 3 % two are alike. And whether more visits would tell better."""
    (_, row), *others = rows
    best = gain(base, row)
    if best < 1 + ALIKE:
        return ""
    alike = [option.what for option, other in others if best / gain(base, other) < 1 + ALIKE]
    also = f" As good within 3 %: {'; '.join(alike)}." if alike else ""
    settled = is_narrow(base) and is_narrow(row)
    return also if settled else f"{also} Its rows have not converged; a longer run tells how much."


# ---- break-even -----------------------------------------------------------------------------------------------------


def ratio_in_words(even: Even) -> str:
    """What is paid once is a difference: it is known no better than both of what it is made of."""
    asked, once_ns, within_ns = even.asked, even.once_ns, even.within_ns
    clock = f" in virtual time of {even.each.target}" if even.each.clock == VIRTUAL else ""
    head = f"One ({even.each.probe}) costs {of_row(even.each)}{clock}, and {asked.remedy}"
    if once_ns <= within_ns:
        return f"{head} less than {two_digits(max(once_ns, 0.0) + within_ns, 'ns')}: {_from(asked.thing, 1)}."
    paid = f"{head} {time(once_ns, once_ns - within_ns, once_ns + within_ns)}"
    number = even.number
    if number < 1:
        return f"{paid}, {percent(number)} of that: {_from(asked.thing, 1)}."
    return f"{paid}: {_from(asked.thing, int(number) + 1)}, and up to {int(number)} it is not."


def _from(thing: str, number: int) -> str:
    return f"the latter is better from {'the first' if number == 1 else number} of the {thing} on"
