# SPDX-License-Identifier: Apache-2.0
"""Selects rows of a run by words: probes, globs and NAME=VALUE, as for `toll run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tollmeter.catalog import unknown
from tollmeter.library.command_words import Word, parsed
from tollmeter.library.derive import visits_of
from tollmeter.model import Failure, Machine, Parameter, Results, Row, Select, Suite, Value
from tollmeter.numbers.meanings import part_of
from tollmeter.plan.values import read_value

EVERY = "*"


def probes_named(words: Sequence[str]) -> list[str]:
    """Returns the names and globs of probes among these words."""
    return [word.name for word in named_rows(words) if word.name != EVERY]


def named_rows(words: Sequence[str]) -> list[Word]:
    """Returns the words that select rows. Raises Failure (2) for a parameter that is given twice."""
    common, named = parsed(words)
    if not words:
        return []
    if all("=" in word for word in words):
        return [Word(EVERY, common)]
    return [Word(word.name, {**common, **word.settings}) for word in named]


def selected_rows(results: Results, words: Sequence[str]) -> Results:
    """Returns the rows of a run that the words select, with the numbers of the whole run; all rows without words.
    Raises Failure (2) for a word that selects no row, with the nearest names."""
    named, machine = named_rows(words), results.index.machine
    if not named:
        return results
    for word in named:
        if not any(is_named(row.probe, row.parameters, [word], machine) for row in results.index.rows):
            raise no_row(word, results.index.rows, "in this run")

    def is_kept(probe: str, parameters: Mapping[str, Value]) -> bool:
        return is_named(probe, parameters, named, machine)

    part = part_of(results, is_kept)
    questions = dict.fromkeys(probe.question for probe in part.probes.values())
    suite = Suite(
        name=results.index.run.suite, question=" ".join(questions),
        select=tuple(Select(probe=word.name, parameters=dict(word.settings)) for word in named),
    )  # fmt: skip
    folder = Path(results.index.run.folder)
    return msgspec.structs.replace(part, suite=suite, outcomes=visits_of(folder, is_kept))


def is_named(probe: str, parameters: Mapping[str, Value], words: Sequence[Word], machine: Machine) -> bool:
    """Returns whether one of the words selects a row of this probe and these parameters. 16KiB means 16384."""
    return any(
        fnmatchcase(probe, word.name)
        and all(
            name in parameters and any(_means(text, name, parameters[name], machine) for text in texts)
            for name, texts in word.settings.items()
        )
        for word in words
    )


def _means(text: Value, name: str, value: Value, machine: Machine) -> bool:
    if text == str(value):
        return True
    try:
        return value in read_value(Parameter(name=name, kind="size", summary=""), text, machine)
    except Failure:
        return False


def no_row(word: Word, rows: Sequence[Row], place: str) -> Failure:
    """Returns why a word selects no row, with the nearest names. place: the searched set, as in `in this run`."""
    of_probe = [row for row in rows if fnmatchcase(row.probe, word.name)]
    if not of_probe:
        return unknown("probe", word.name, sorted({row.probe for row in rows}), place=place)
    for name, texts in word.settings.items():
        values = {str(row.parameters[name]): None for row in of_probe if name in row.parameters}
        if not values:
            known = sorted({parameter for row in of_probe for parameter in row.parameters})
            return unknown("parameter", name, known, place=f"of {word.name} {place}")
        if len(word.settings) == 1:
            return unknown("value", ",".join(map(str, texts)), [*values], place=f"for {name} of {word.name} {place}")
    return Failure(f"no row of {word.name} has all of {', '.join(word.settings)} with these values")
