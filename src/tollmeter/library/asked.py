# SPDX-License-Identifier: Apache-2.0
"""The words of `toll run`: suites, probes, globs, and NAME=VALUE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tollmeter.catalog import Catalog, read_suite, unknown
from tollmeter.model import Failure, Priority, Select, Suite, Value

DEFAULT = "default"
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "ms": 1e-3}
_LONGEST_S = 30 * 86400
_LONGEST_TOLD = 60


class Asked(NamedTuple):
    suite: Suite
    settings: dict[str, tuple[Value, ...]]


def asked(words: Sequence[str], suites: Mapping[str, Suite], catalog: Catalog) -> Asked:
    """What the words name. Raises Failure (2) for one that names nothing."""
    settings = dict(_setting(word) for word in words if "=" in word)
    names = [word for word in words if "=" not in word] or [DEFAULT]
    return Asked(_joined([_named(name, suites, catalog) for name in names]), settings)


def _setting(word: str) -> tuple[str, tuple[Value, ...]]:
    name, _, written = word.partition("=")
    return name, tuple(text.strip() for text in written.split(","))


def _named(name: str, suites: Mapping[str, Suite], catalog: Catalog) -> Suite:
    if name in suites:
        return suites[name]
    if name.endswith(".toml"):
        return read_suite(Path(name))
    probes = catalog.probes()
    found = [probe for probe in probes.values() if fnmatchcase(probe.probe, name)]
    left_out = [sentence for (probe, _), sentence in catalog.broken.items() if probe == name]
    if left_out and not found:
        raise Failure(f"{name} was left out of the build: {left_out[0]}", 1)
    if not found:
        raise unknown("suite or probe", name, [*suites, *probes])
    question = found[0].question if len(found) == 1 else f"What do the {len(found)} probes {name} measure?"
    return Suite(name=name, question=question, select=(Select(probe=name),))


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


def seconds(text: str) -> float:
    """30, 30s, 500ms, 2m, 1h. Raises Failure (2)."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", text.strip(), re.IGNORECASE)
    unit = _SECONDS.get(found[2].lower()) if found else None
    asked_s = float(found[1]) * unit if found and unit else 0.0
    if not 0 < asked_s <= _LONGEST_S:
        raise Failure(f"--budget {_short(text)}: a time such as 30s or 2m is meant, at most {_LONGEST_S // 86400} days")
    return asked_s


def _short(text: str) -> str:
    return text if len(text) < _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}..."


def share(text: str) -> float:
    """3%, 0.5 %. Raises Failure (2)."""
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text.strip())
    if not found or not 0 < float(found[1]) <= 100:
        raise Failure(f"--precision {_short(text)}: a share such as 2% is meant")
    return float(found[1]) / 100


def priority_named(text: str) -> Priority:
    """Raises Failure (2)."""
    known: dict[str, Priority] = {"real-time": "real-time", "normal": "normal"}
    if text not in known:
        raise unknown("priority", text, [*known])
    return known[text]


def numbers(text: str | None) -> tuple[int, ...]:
    """CPUs: 0,2 or 4-7. Raises Failure (2)."""
    found: list[int] = []
    for part in text.split(",") if text is not None else ():
        span = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if first > last:
            raise Failure(f"--cpus {_short(text or '')}: numbers such as 0,2 or 4-7 are meant")
        found += range(first, last + 1)
    return tuple(found)


def names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()
