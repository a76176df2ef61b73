# SPDX-License-Identifier: Apache-2.0
"""The words of `toll run`: suites, probes, globs, and NAME=VALUE.

A parameter applies to the suite, probe or glob before it; a parameter before the first name applies to all names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.catalog import Catalog, read_suite, unknown
from tollmeter.model import Failure, Select, Suite, Value
from tollmeter.plan.points import accepts, chosen, refusal

DEFAULT = "default"
Settings = dict[str, tuple[Value, ...]]


class Word(NamedTuple):
    """A suite, probe or glob with the parameters that were written after it."""

    name: str
    settings: Settings


def suite_of_words(words: Sequence[str], suites: Mapping[str, Suite], catalog: Catalog) -> Suite:
    """Returns the suite of the words. Raises Failure (2) for an unknown word, and for a parameter given twice."""
    common, named = parsed(words)
    several = [_with_settings(word, suites, catalog) for word in named]
    for name in common:
        for word in named:
            _check_new(name, word.settings, word.name)
        _check_accepted(name, common, several, catalog)
    return _joined([_set(suite, common, catalog) for suite in several])


def parsed(words: Sequence[str]) -> tuple[Settings, list[Word]]:
    """Returns the parameters for all names, and the names, each with its own parameters. Raises Failure (2) for a
    parameter that is given twice."""
    common: Settings = {}
    named: list[Word] = []
    for word in words:
        name, equals, written = word.partition("=")
        if not equals:
            named.append(Word(word, {}))
            continue
        settings, of = (named[-1].settings, named[-1].name) if named else (common, "all")
        _check_new(name, settings, of)
        settings[name] = _values(name, written)
    return common, named or [Word(DEFAULT, {})]


def _check_new(name: str, settings: Settings, of: str) -> None:
    if name in settings:
        raise Failure(f"{name} is given twice for {of}: several values are written {name}=A,B")


def _values(name: str, written: str) -> tuple[Value, ...]:
    values = tuple(text.strip() for text in written.split(","))
    if not all(values):
        raise Failure(f"{name}={written}: a value is missing")
    return values


def _with_settings(word: Word, suites: Mapping[str, Suite], catalog: Catalog) -> Suite:
    """Returns the suite of a word with its parameters. For a probe or glob, the parameters also select: a matching
    probe that lacks one of them is left out."""
    suite = _named(word.name, suites, catalog)
    if word.name not in suites and not word.name.endswith(".toml"):
        return msgspec.structs.replace(
            suite, select=(Select(probe=word.name, parameters=dict(word.settings), narrows=True),)
        )
    for name in word.settings:
        _check_accepted(name, word.settings, [suite], catalog)
    return _set(suite, word.settings, catalog)


def _check_accepted(name: str, settings: Settings, several: Sequence[Suite], catalog: Catalog) -> None:
    """Raises Failure (2) if no probe of the suites has the parameter, or none takes this value of it."""
    probes = catalog.probes()
    probes_of_suites = [
        probe for suite in several for select in suite.select for probe in chosen(select, probes).values()
    ]
    setting = {name: settings[name]}
    if not any(accepts(probe, setting) for probe in probes_of_suites):
        raise refusal(" ".join(suite.name for suite in several), setting, probes_of_suites)


def _set(suite: Suite, settings: Settings, catalog: Catalog) -> Suite:
    """Returns the suite with these values in every selection whose probes have the parameters."""
    if not settings:
        return suite

    def changed(selects: Iterable[Select]) -> tuple[Select, ...]:
        return tuple(selected for select in selects for selected in _selects(select, settings, catalog))

    modelled = suite.modelled and msgspec.structs.replace(suite.modelled, select=changed(suite.modelled.select))
    return msgspec.structs.replace(
        suite, select=changed(suite.select), profile=changed(suite.profile), modelled=modelled
    )


def _selects(select: Select, settings: Settings, catalog: Catalog) -> tuple[Select, ...]:
    """Returns one selection for each probe, since some probes of a glob have a parameter and others do not."""
    matching = {
        name: probe for name, probe in chosen(select, catalog.probes()).items() if accepts(probe, select.parameters)
    }
    settings_of_probes = {
        name: {key: value for key, value in settings.items() if accepts(probe, {key: value})}
        for name, probe in matching.items()
    }
    if not any(settings_of_probes.values()):
        return (select,)
    return tuple(
        msgspec.structs.replace(select, probe=name, parameters={**select.parameters, **values})
        for name, values in settings_of_probes.items()
    )


def _named(name: str, suites: Mapping[str, Suite], catalog: Catalog) -> Suite:
    if name in suites:
        return suites[name]
    if name.endswith(".toml"):
        return read_suite(Path(name))
    probes = catalog.probes()
    matching = [probe for probe in probes.values() if fnmatchcase(probe.probe, name)]
    left_out = [sentence for (probe, _), sentence in catalog.broken.items() if probe == name]
    if left_out and not matching:
        raise Failure(f"{name} was left out of the build: {left_out[0]}", 1)
    if not matching:
        raise unknown("suite or probe", name, [*suites, *probes])
    question = matching[0].question if len(matching) == 1 else f"What do the {len(matching)} probes {name} measure?"
    return Suite(name=name, question=question, select=(Select(probe=name, narrows=True),))


def _joined(several: Sequence[Suite]) -> Suite:
    if len(several) == 1:
        return several[0]
    return Suite(
        name="+".join(suite.name for suite in several),
        question=" ".join(suite.question for suite in several),
        select=tuple(select for suite in several for select in suite.select),
        published=tuple(claim for suite in several for claim in suite.published),
        workload=tuple(workload for suite in several for workload in suite.workload),
        program=tuple(program for suite in several for program in suite.program),
        worth=next((suite.worth for suite in several if suite.worth), ""),
    )
