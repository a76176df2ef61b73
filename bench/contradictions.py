# SPDX-License-Identifier: Apache-2.0
"""Mutations of every field of a journal, all checksums right: which change an answer, and are not named?

    bench/contradictions.py [--seeds=FIRST:LAST] [--only=KIND,...] [--other=RUN] RUN...

A seed draws a field of a record or of run.toml, or a kind of record, a change, and the records that it changes. A
mutation is `named` if the journal is refused, the run names a contradiction that it did not have or withdraws its
verdict, or the changed visits or their rows lose their numbers with a reason; `harmless` if no answer leaves its stated
interval; else `silent`. Rules are developed against some seeds and measured with others (docs/measuring.md). other: a
run of another machine, whose values are drawn too."""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from tollmeter import model
from tollmeter.library.derive import derive_results
from tollmeter.model import Failure, Index, Results, Row
from tollmeter.protocol import joined, sealed
from tollmeter.store.journal import NAME, read_journal, streams
from tollmeter.store.request import Request, read_request, write_request

OPEN = {"parameters", "facts", "chosen", "paging", "interrupts", "settings", "runs_sd", "widths", "least_cycles"}
"""Dictionaries whose keys are not fields."""
SEALED = {"k", "n", "c", "records", "i"}
"""Fields that are computed again when a journal is saved."""
RECORDS = ("visits", "samples", "control", "clock", "gauge", "count", "aside", "counters", "probe", "build", "run")
"""Kinds of records that are removed, duplicated, exchanged and reversed as a whole. Samples keep their witnesses."""
OF_VISITS = {"visit", "sample", "witness", "control", "gauge", "count", "aside", "counters", "clock", "marks", "end",
             "skip", "fail"}  # fmt: skip
SCOPES = "one", "visit", "layout", "point", "all"
TRIES = 40
"""Attempts to draw a change that has an effect."""
WITHDRAWN = "unknown", "interrupted"
MISSING = "machine.evidence_is_missing"
FAR, NARROWED, MOST_SHARE, MOST_CONVERGED = 0.2, 2.0, 0.1, 0.2
"""Largest harmless changes: of an answer without an interval; of an interval's width, as a factor; of a share of the
run; and of the share of converged points."""
MANY = 0.3
"""Share of changes of whole records that change them in all visits."""

Stream = list[dict[str, Any]]
Field = tuple[str, ...]


class Place(NamedTuple):
    """The position of a value: stream (-1: run.toml), record, and keys below it."""

    stream: int
    record: int
    keys: tuple[str | int, ...]


class Recording:
    """A journal that can be changed and saved. fields: the places of each field's values; before: its answers."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.request: dict[str, Any] = msgspec.to_builtins(read_request(folder))
        self._text = json.dumps([[json.loads(line.text) for line in stream.lines] for stream in streams(folder)])
        self.streams: list[Stream] = json.loads(self._text)
        self.fields: dict[Field, list[Place]] = defaultdict(list)
        measured = {one[0]["probe"] for one in self.visits}
        for at, stream in enumerate(self.streams):
            for number, record in enumerate(stream):
                if record["k"] not in ("probe", "build") or record["probe"] in measured:
                    self._walk((record["k"],), Place(at, number, ()), record)
        self._walk(("run.toml",), Place(-1, 0, ()), self.request)
        self.before = results(self)

    @property
    def visits(self) -> list[Stream]:
        return [one for one in self.streams if one[0]["k"] == "visit"]

    def _walk(self, field: Field, place: Place, value: Any) -> None:
        items: list[tuple[str | int, Any]] = []
        if isinstance(value, dict):
            items = [(key, item) for key, item in value.items() if len(field) > 1 or key not in SEALED]
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            items = [*enumerate(value)]
        for key, item in items:
            name = "*" if isinstance(key, int) or field[-1] in OPEN else key
            self._walk((*field, name), place._replace(keys=(*place.keys, key)), item)
        if len(field) > 1 and (not isinstance(value, dict) or field[-1] in OPEN):
            self.fields[field].append(place)

    def fresh(self) -> Recording:
        other = copy.copy(self)
        other.streams, other.request = json.loads(self._text), copy.deepcopy(self.request)
        return other

    def holder(self, place: Place) -> Any:
        at: Any = self.request if place.stream < 0 else self.streams[place.stream][place.record]
        for key in place.keys[:-1]:
            at = at[key]
        return at

    def value(self, place: Place) -> Any:
        return self.holder(place)[place.keys[-1]]

    def owner(self, place: Place, scope: str) -> object:
        """Returns the key that all places of a scope share. Copies of the first stream change together."""
        head = self.streams[place.stream][0] if place.stream >= 0 else {}
        if scope == "all":
            return None
        if scope == "one" or head.get("k") != "visit":
            return place._replace(stream=-2) if head.get("k") == "machine" else place
        return place.stream if scope == "visit" else (*_point(head), head.get("seed") if scope == "layout" else None)

    def save(self, folder: Path) -> None:
        (folder / NAME).write_bytes(b"".join(map(_sealed, self.streams)))
        write_request(folder, msgspec.convert(self.request, Request))


def _point(visit: Mapping[str, Any]) -> tuple[str, str, str]:
    return visit["probe"], str(visit["parameters"]), visit["abi"]


def _sealed(stream: Stream) -> bytes:
    bare = [{key: value for key, value in record.items() if key not in ("n", "c")} for record in stream]
    end = bare.pop() if bare and bare[-1]["k"] == "end" else {"k": "end"}
    lines = [sealed(record, number) for number, record in enumerate(bare)]
    return joined([*lines, sealed({**end, "records": len(lines)}, len(lines))])


def results(recording: Recording) -> Results:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        recording.save(folder)
        return derive_results(read_journal(folder), read_request(folder), folder)


# ---- changes of a value ----------------------------------------------------------------------------------------------

Change = Callable[[Any, random.Random], Any]


def _numeric(change: Callable[[Any], Any]) -> Change:
    """Returns a change of a number; of a list, of all its numbers or one of them."""

    def changed(value: Any, rng: random.Random) -> Any:
        if isinstance(value, list) and value:
            which = rng.choice([None, rng.randrange(len(value))])
            return [changed(one, rng) if which in (None, at) else one for at, one in enumerate(value)]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return type(value)(change(value)) if is_number else value

    return changed


def _shorter(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value:
        gone = rng.choice([*value])
        return {key: item for key, item in value.items() if key != gone}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return value[:at] + value[at + 1 :]
    return value


def _other_member(value: Any, rng: random.Random) -> Any:
    """Returns another word of an enumeration that has the value."""
    several = [one for words in MEMBERS if value in words for one in words if one != value]
    return rng.choice(several) if isinstance(value, str) and several else value


def _enumerations() -> set[tuple[Any, ...]]:
    forms = (form for form in vars(model).values() if isinstance(form, type) and issubclass(form, msgspec.Struct))
    hints = (hint for form in forms for hint in get_type_hints(form).values())
    return {get_args(one) for hint in hints for one in (hint, *get_args(hint)) if get_origin(one) is Literal}


MEMBERS = sorted(_enumerations(), key=str)
CHANGES: Mapping[str, Change] = {
    "x10": _numeric(lambda one: one * 10),
    "/10": _numeric(lambda one: one / 10 if isinstance(one, float) else one // 10),
    "+1": _numeric(lambda one: one + 1),
    "-1": _numeric(lambda one: one - 1),
    "0": _numeric(lambda _: 0),
    "negative": _numeric(lambda one: -one),
    "flipped": lambda value, _: not value if isinstance(value, bool) else value,
    "reversed": lambda value, _: value[::-1] if isinstance(value, list) else value,
    "longer": lambda value, rng: [*value, rng.choice(value)] if isinstance(value, list) and value else value,
    "shorter": _shorter,
    "another member": _other_member,
}
REMOVED, TURNED, FOREIGN, COPIED, SWAPPED = "removed", "order reversed", "another machine's", "another's", "swapped"
_GONE = object()


class Drawn(NamedTuple):
    """A field, a change, and the scope of the records that it changes."""

    field: Field
    change: str
    scope: str

    def __str__(self) -> str:
        return f"{'.'.join(self.field)}: {self.change} ({self.scope})"


def mutate(
    recording: Recording, other: Recording | None, seed: int, only: Sequence[str] = ()
) -> tuple[Recording, Drawn, set[int]] | None:
    """Returns a recording with the change that a seed draws, the change, and the numbers of the changed visits; None if
    it draws none that changes anything."""
    rng = random.Random(f"{recording.name} {seed}")
    known = (*sorted(recording.fields), *((kind,) for kind in RECORDS))
    fields = [field for field in known if not only or field[0] in only]
    for _ in range(TRIES):
        field, changed = rng.choice(fields), recording.fresh()
        if len(field) == 1:
            change, touched = restructure(changed, field[0], rng)
            if changed.streams != recording.streams:
                return changed, Drawn(field, change, "records"), touched
            continue
        change = rng.choice([*CHANGES, REMOVED, TURNED, FOREIGN, COPIED, SWAPPED])
        drawn = Drawn(field, change, rng.choice(SCOPES if field[0] in OF_VISITS else ("one", "all")))
        values = new_values(recording, other, drawn, rng)
        for place, value in values.items():
            holder = changed.holder(place)
            if value is _GONE:
                del holder[place.keys[-1]]
            else:
                holder[place.keys[-1]] = copy.deepcopy(value)
        if values:
            heads = (recording.streams[at][0] for at in {place.stream for place in values} if at >= 0)
            return changed, drawn, {head.get("visit", -1) for head in heads}
    return None


def new_values(recording: Recording, other: Recording | None, drawn: Drawn, rng: random.Random) -> dict[Place, Any]:
    """Returns the places that change, with their values."""
    (field, change, scope), everywhere = drawn, recording.fields[drawn.field]
    owner = recording.owner(rng.choice(everywhere), scope)
    places = [place for place in everywhere if recording.owner(place, scope) == owner]
    old = [recording.value(place) for place in places]
    same = rng.random()
    if change in CHANGES:
        # One draw for all records of a scope, so that they change alike.
        new = [CHANGES[change](value, random.Random(same)) for value in old]
    elif change == REMOVED:
        new = [value if isinstance(place.keys[-1], int) else _GONE for place, value in zip(places, old, strict=True)]
    elif change == TURNED:
        new = old[::-1]
    elif change == FOREIGN:
        theirs = [other.value(place) for place in other.fields.get(field, ())] if other else []
        begin = int(same * len(theirs))
        new = [theirs[(begin + at) % len(theirs)] if theirs else value for at, value in enumerate(old)]
    else:
        return _of_another(recording, places, drawn, rng)
    return {place: value for place, value, was in zip(places, new, old, strict=True) if _differs(value, was)}


def _differs(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or bool(one != other)


def _of_another(recording: Recording, places: Sequence[Place], drawn: Drawn, rng: random.Random) -> dict[Place, Any]:
    """Returns the values of another scope for some places; if swapped, also theirs for the others."""
    others = sorted({*recording.fields[drawn.field]} - {*places}, key=str)
    if not others:
        return {}
    whose = recording.owner(rng.choice(others), drawn.scope)
    theirs = [place for place in others if recording.owner(place, drawn.scope) == whose]
    pairs = [(place, theirs[at % len(theirs)]) for at, place in enumerate(places)]
    new = {one: recording.value(two) for one, two in pairs}
    if drawn.change == SWAPPED:
        new |= {two: recording.value(one) for one, two in pairs}
    return {place: value for place, value in new.items() if _differs(value, recording.value(place))}


# ---- changes of whole records ----------------------------------------------------------------------------------------


def _doubled(own: list[Any], at: int) -> list[Any]:
    return [*own[:at], own[at], *own[at:]]


LISTED: Mapping[str, Callable[[list[Any], list[Any], random.Random], list[Any]]] = {
    "one removed": lambda own, _, rng: _shorter(own, rng),
    "all removed": lambda _, __, ___: [],
    "half removed": lambda own, _, __: own[: len(own) // 2],
    "one doubled": lambda own, _, rng: _doubled(own, rng.randrange(len(own))),
    TURNED: lambda own, _, __: own[::-1],
    COPIED: lambda _, theirs, __: theirs,
    SWAPPED: lambda _, theirs, __: theirs,
}
"""Changes of a list of records. theirs: the records of another visit."""


def restructure(recording: Recording, kind: str, rng: random.Random) -> tuple[str, set[int]]:
    """Changes the records of a kind in one or all visits, or the order of streams. Returns the change, and the numbers
    of the changed visits."""
    change = rng.choice([*LISTED])
    if kind in ("visits", "run"):
        own = recording.visits if kind == "visits" else [one for one in recording.streams if one[0]["k"] == "run"]
        if kind == "visits" and rng.random() > MANY:
            point = _point(rng.choice(own)[0])
            own = [one for one in own if _point(one[0]) == point]
        recording.streams[:] = _relisted(recording.streams, own, LISTED[change](own, own[:1], rng))
        return change, {one[0].get("visit", -1) for one in own}
    holders = [one for one in recording.streams if _of_kind(kind, one)]
    if not holders:
        return change, set()
    several = holders if kind in ("probe", "build") or rng.random() < MANY else [rng.choice(holders)]
    theirs, same = rng.choice(holders), rng.random()
    given = {id(one): _of_kind(kind, one) for one in (*several, theirs)}
    for one in several:
        _replace(kind, one, LISTED[change](given[id(one)], given[id(theirs)], random.Random(same)))
    if change == SWAPPED and len(several) == 1:
        _replace(kind, theirs, given[id(several[0])])
    return change, {one[0].get("visit", -1) for one in (*several, *([theirs] if change == SWAPPED else []))}


def _of_kind(kind: str, stream: Stream) -> list[Any]:
    """Returns the records of a kind; of samples, each with its witness."""
    if kind != "samples":
        return [record for record in stream[1:] if record["k"] == kind]
    return [*zip(_of_kind("sample", stream), _of_kind("witness", stream), strict=False)]


def _replace(kind: str, stream: Stream, new: Sequence[Any]) -> None:
    """Puts records in the place of those of a kind; samples are numbered."""
    kinds = ("sample", "witness") if kind == "samples" else (kind,)
    at = next(at for at, record in enumerate(stream) if at and record["k"] in kinds)
    pairs = new if kind == "samples" else [(record,) for record in new]
    numbered = [record | ({"i": number} if kind == "samples" else {}) for number, pair in enumerate(pairs)
                for record in pair]  # fmt: skip
    kept = [record for number, record in enumerate(stream) if not number or record["k"] not in kinds]
    stream[:] = [*kept[:at], *copy.deepcopy(numbered), *kept[at:]]


def _relisted(several: Sequence[Stream], own: Sequence[Stream], new: Sequence[Stream]) -> list[Stream]:
    """Returns streams with others in the places of some; more or fewer follow in the last place."""
    names = {id(one) for one in own}
    last, due = own[-1], iter(new)
    listed: list[Stream] = []
    for one in several:
        if id(one) in names:
            listed += filter(None, [next(due, None)])
            listed += due if one is last else ()
        else:
            listed.append(one)
    return listed


# ---- what a run says of it -------------------------------------------------------------------------------------------


def judged(changed: Recording, touched: set[int]) -> tuple[str, str]:
    """Returns the class of a mutation, and the reason that names it or the answers that it changes."""
    before = changed.before
    try:
        after = results(changed)
    except (Failure, msgspec.ValidationError, UnicodeError) as error:
        return "named", f"refused: {error}"
    except Exception as error:  # noqa: BLE001  a fault of the reader, which must be seen
        return "silent", f"traceback: {error!r}"
    if why := _named(before, after, touched):
        return "named", why
    changes = [*differences(before.index, after.index)]
    if named := next((what for what, is_named in changes if is_named), ""):
        return "named", named
    return ("silent", "; ".join(what for what, _ in changes[:3])) if changes else ("harmless", "")


def _named(before: Results, after: Results, touched: set[int]) -> str:
    was, run = before.index.run, after.index.run
    if new := {*run.contradictions} - {*was.contradictions}:
        return min(new)
    if run.damage and not was.damage:
        return run.damage
    if run.verdict in WITHDRAWN and run.verdict != was.verdict:
        return f"the verdict is {run.verdict}"
    if not _has_finding(before) and _has_finding(after):
        return MISSING
    own = [one for one in after.outcomes if one.visit in touched]
    had = any(one.samples for one in before.outcomes if one.visit in touched)
    is_left = any(one.status == "ok" and one.samples for one in own)
    return "" if is_left or not had else next((one.reason for one in own if one.reason), "")


def _has_finding(some: Results) -> bool:
    return any(one.name == MISSING for one in some.index.findings)


def differences(before: Index, after: Index) -> Iterator[tuple[str, bool]]:
    """Yields answers that differ materially, and whether a reason is given."""
    rows = [{_key(row): row for row in index.rows if row.metric != "control"} for index in (before, after)]
    for key in sorted(rows[0].keys() | rows[1].keys()):
        was, row = rows[0].get(key), rows[1].get(key)
        is_ok, was_ok = (bool(one and one.status == "ok") for one in (row, was))
        if is_ok and was_ok and was and row and (why := _moved(was, row)):
            yield f"{key}: {why}", False
        elif is_ok != was_ok:
            yield f"{key}: {'a number' if is_ok else row and row.reason}", bool(was_ok and row and row.reason)
    yield from ((what, False) for what in _of_run(before, after))


def _key(row: Row) -> str:
    return " ".join(map(str, (row.probe, row.abi, row.target, sorted(row.parameters.items()), row.metric)))


def _moved(was: Row, row: Row) -> str:
    for name in ("unit", "better", "relation", "chosen"):
        if getattr(was, name) != getattr(row, name):
            return f"{name} {getattr(was, name)} -> {getattr(row, name)}"
    if _is_far(was.median, row.median, was.low, was.high):
        return f"{was.median} [{was.low}, {was.high}] -> {row.median}"
    states = {state.state: state for state in row.states}
    for state in was.states:
        if (now := states.get(state.state)) and _is_far(state.median, now.median, state.low, state.high):
            return f"{state.state} {state.median} [{state.low}, {state.high}] -> {now.median}"
    for name, rate in was.counters.items():
        if (now_counted := row.counters.get(name)) and abs(now_counted.value - rate.value) > FAR * abs(rate.value):
            return f"{name} {rate.value} -> {now_counted.value}"
    widths = [one.high - one.low for one in (was, row) if one.low is not None and one.high is not None]
    is_narrow = len(widths) > 1 and widths[1] * NARROWED < widths[0]
    return f"an interval of {widths[0]} -> {widths[1]}" if is_narrow else ""


def _is_far(was: Any, now: Any, low: Any, high: Any) -> bool:
    if was is None or now is None or isinstance(was, bool) or isinstance(now, bool):
        return was is not now
    return not low <= now <= high if low is not None and high is not None else abs(now - was) > FAR * abs(was)


def _of_run(before: Index, after: Index) -> Iterator[str]:
    if before.run.verdict != after.run.verdict:
        yield f"the verdict {before.run.verdict} -> {after.run.verdict}"
    for name in ("contended_share", "stolen_share", "unseen_share", "timed_share"):
        was, now = (getattr(index.run, name) or 0.0 for index in (before, after))
        if abs(now - was) > MOST_SHARE:
            yield f"{name} {was:.2f} -> {now:.2f}"
    if abs(before.run.converged - after.run.converged) > MOST_CONVERGED * before.run.points:
        yield f"converged {before.run.converged} -> {after.run.converged}"
    names = [{one.name for one in index.findings if one.severity != "note"} for index in (before, after)]
    if names[0] != names[1]:
        yield f"findings {sorted(names[0] ^ names[1])}"
    for kind in ("hierarchy", "inferred", "tolls"):
        yield from _of_answers(getattr(before, kind), getattr(after, kind))


ANSWERS = (("value", "low", "high"), ("cycles", "", ""), ("size_bytes", "size_low", "size_high"),
           ("latency_ns", "latency_low", "latency_high"),
           ("read_bytes_per_second", "read_low", "read_high"))  # fmt: skip


def _of_answers(before: Sequence[Any], after: Sequence[Any]) -> Iterator[str]:
    was, now = ({_subject(one): one for one in several} for several in (before, after))
    yield from (f"{key} is said in one run only" for key in was.keys() ^ now.keys())
    for key in sorted(was.keys() & now.keys()):
        for name, low, high in ANSWERS:
            one, other = (getattr(answer, name, None) for answer in (was[key], now[key]))
            if _is_far(one, other, getattr(was[key], low, None), getattr(was[key], high, None)):
                yield f"{key} {name} {one} -> {other}"


def _subject(one: Any) -> str:
    names = ("level", "name", "toll", "abi", "target", "parameters")
    return " ".join(str(getattr(one, name)) for name in names if getattr(one, name, None))


# ---- the command -----------------------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> None:
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    first, last = map(int, options.get("seeds", "0:100").split(":"))
    only = [*filter(None, options.get("only", "").split(","))]
    other = Recording(Path(options["other"])) if "other" in options else None
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for folder in (Path(word) for word in words if not word.startswith("--")):
        recording = Recording(folder)
        print(f"# {folder.name}: {recording.before.index.run.verdict}, {len(recording.fields)} fields", flush=True)
        for seed in range(first, last):
            if made := mutate(recording, other, seed, only):
                changed, drawn, touched = made
                found, why = judged(changed, touched)
                counts[".".join(drawn.field)][found] += 1
                print(f"{folder.name:12} {seed:6} {found:8} {drawn}: {why[:160]}", flush=True)
    for field, several in sorted(counts.items(), key=lambda one: -one[1]["silent"]):
        print(f"{several['silent']:4} silent, {several['harmless']:4} harmless of {several.total():4}: {field}")
    total = sum(counts.values(), Counter[str]())
    print(f"{', '.join(f'{count} {found}' for found, count in sorted(total.items()))} of {total.total()}")


if __name__ == "__main__":
    main(sys.argv[1:])
