# SPDX-License-Identifier: Apache-2.0
"""Determines the probes to build for a request, by ABI, from the sources, before anything is built."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tollmeter.catalog import read_suite, unknown
from tollmeter.model import Select, Suite
from tollmeter.targets.ways import NATIVE

_WORKLOAD = "workload."
Libraries = Mapping[str, Collection[str]]
"""Libraries that each probe of the sources is built with."""


class ProbeRequest(NamedTuple):
    """A request for probes. against: counterparts of the selections' points: ABIs, probes, and NAME=VALUE. brings:
    whether to download libraries that probes are built with; without them a probe reports this in its rows."""

    selects: Sequence[Select]
    against: Sequence[str] = ()
    brings: bool = True


def asking(
    words: Sequence[str], suites: Mapping[str, Suite], sources: Libraries, against: Sequence[str] = ()
) -> ProbeRequest:
    """Returns the request of a command's words. Raises Failure (2) for a word that names neither a suite nor a
    probe."""
    from tollmeter.library.command_words import parsed  # imports numpy, which verbs that only read do without

    _, named = parsed(words)
    return ProbeRequest([select for word in named for select in _named(word.name, suites, sources)], against)


def _named(name: str, suites: Mapping[str, Suite], sources: Libraries) -> Sequence[Select]:
    if name in suites or name.endswith(".toml"):
        if name in suites:
            return selects_of(suites[name])
        selects = selects_of(read_suite(Path(name)))
        for select in selects:
            if not select.probe.startswith(_WORKLOAD) and not _is_known(select.probe, sources):
                raise unknown("probe", select.probe, sorted(sources), place=f"in {name}")
        return selects
    if not _is_known(name, sources):
        raise unknown("suite or probe", name, [*suites, *sorted(sources)])
    return [Select(probe=name)]


def _is_known(name: str, sources: Libraries) -> bool:
    """Returns whether a probe exists. name: name of a probe, or a glob."""
    return any(fnmatchcase(probe, name) for probe in sources)


def selects_of(suite: Suite) -> list[Select]:
    """Returns all selections of a suite, to measure, profile or model. A workload is not a probe, but runs on the
    targets of its ABI's probes."""
    workloads = (Select(probe=f"{_WORKLOAD}{workload.name}", abi=workload.abi) for workload in suite.workload)
    return [*suite.select, *suite.profile, *(suite.modelled.select if suite.modelled else ()), *workloads]


def wanted(request: ProbeRequest, sources: Libraries, named: Sequence[str], own: Sequence[str]) -> dict[str, set[str]]:
    """Returns the probes to build by ABI. sources: all probes. named: ABIs that replace those of the selections. own:
    this machine's ABIs, the native one first; other ABIs are built only if they are named. Always includes one probe of
    the native ABI, which describes the machine, and one of each ABI of workloads."""
    by_abi: dict[str, set[str]] = {abi: set() for abi in own[:1]}
    for select in request.selects:
        probes = {*_chosen(select, sources), *sources.keys() & {*request.against}}
        for abi in _abis(named or select.abi, request.against, own):
            if abi in own or abi in named:
                by_abi.setdefault(abi, set()).update(probes)
    any_one = {min(set().union(*by_abi.values()) or sources)}
    return {abi: probes or any_one for abi, probes in by_abi.items()}


def _chosen(select: Select, sources: Libraries) -> Iterator[str]:
    for probe, libraries in sources.items():
        if fnmatchcase(probe, select.probe) and (select.libraries or not libraries):
            yield probe


def _abis(wanted: Sequence[str], against: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    for abi in wanted:
        yield from own[:1] if abi == NATIVE else (abi,)
    yield from (word for word in against if word in own)
