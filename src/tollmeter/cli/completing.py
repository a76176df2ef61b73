# SPDX-License-Identifier: Apache-2.0
"""Words that the shell's completion offers. Completion builds no probe: names come from the index."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def to_measure(context: typer.Context, incomplete: str) -> list[str]:
    """Returns suites, probes, and NAME= of the parameters of the typed probes."""
    from tollmeter.library import places

    known = places.described_probes(["*"])
    typed = [known[word] for word in context.params.get("words") or () if word in known]
    parameters = {f"{one.name}=" for probe in typed if probe for one in probe.parameters}
    return _starting(incomplete, [*places.suites(), *known, *sorted(parameters)])


def runs(incomplete: str) -> list[str]:
    """Returns LAST and the names of the runs, the youngest first."""
    from tollmeter.library import places

    return _starting(incomplete, [places.LAST, *(folder.name for folder in reversed(places.run_folders()))])


def probes(incomplete: str) -> list[str]:
    from tollmeter.library import places

    return _starting(incomplete, places.described_probes(["*"]))


def run_and_probes(context: typer.Context, incomplete: str) -> list[str]:
    """Returns runs, and after a run the probes whose rows it shows."""
    return probes(incomplete) if context.params.get("words") else runs(incomplete)


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


SELECTED = "probes, globs and NAME=VALUE: only these rows"
RUN_AND_ROWS = typer.Argument(
    help=f"a folder, a run's name, LAST or LAST~1; then {SELECTED}", autocompletion=run_and_probes
)
RUN = typer.Argument(help="a folder, a run's name, LAST or LAST~1", autocompletion=runs)
TO_MEASURE = typer.Argument(help="suites, probes, globs, and NAME=VALUE", autocompletion=to_measure)
