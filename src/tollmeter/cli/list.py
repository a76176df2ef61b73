# SPDX-License-Identifier: Apache-2.0
"""`toll list`: what can be run, and what was."""

from __future__ import annotations

from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import TableColumns, print_columns, print_notice
from tollmeter.library import places
from tollmeter.model import Failure
from tollmeter.toolchain.build import probe_names

WHAT = ("probes", "suites", "abis", "runs", "findings")
PROBE = ("probe", "question", "parameters", "abis")
CANNOT_BUILD = 5


def list_(
    what: Annotated[str, typer.Argument(help="probes, suites, abis, runs or findings")] = "probes",
    form: Annotated[str, typer.Option("--format", help="table or json")] = "table",
) -> None:
    """List probes, suites, ABIs, runs or findings."""
    listed = {"probes": _probes, "suites": _suites, "abis": _abis, "runs": _runs, "findings": _findings}
    check_known("list", what, WHAT)
    print_columns(listed[what](), form)


def _probes() -> TableColumns:
    try:
        catalog = places.built()
    except Failure as failure:
        if failure.exit_code < CANNOT_BUILD:
            raise
        # A probe is described when it is built; until then only its file name is known.
        print_notice(failure.sentence)
        return TableColumns(
            PROBE, [(name, "", "", "") for name in sorted(probe_names(places.ROOT / "probes"))], narrow=1
        )
    rows = []
    for name, probe in catalog.probes().items():
        abis = [abi for abi in catalog.abis if (name, abi) in catalog.executables]
        rows.append((name, probe.question, " ".join(parameter.name for parameter in probe.parameters), " ".join(abis)))
    left_out = {probe: f"left out: {sentence}" for (probe, _), sentence in catalog.broken.items()}
    rows += [(name, sentence, "", "") for name, sentence in left_out.items() if name not in catalog.probes()]
    return TableColumns(PROBE, sorted(rows), narrow=2)


def _suites() -> TableColumns:
    return TableColumns(("suite", "question"), [(suite.name, suite.question) for suite in places.suites().values()])


def _abis() -> TableColumns:
    import platform

    from tollmeter.toolchain.abis import survey

    names = ("abi", "builds", "runs", "clock", "missing", "mend", "compiler", "summary")
    rows = []
    for standing in survey(places.ROOT, platform.machine()):
        builds = "yes" if standing.compiler else "no"
        lacks = (standing.target or "no", standing.clock or "", standing.missing or "", standing.mend or "")
        rows.append((standing.name, builds, *lacks, standing.compiler or "", standing.summary))
    mends = [(name, mend) for name, *_, mend, _, _ in rows if mend]
    return TableColumns(names, rows, narrow=5, whole=names[:4], below=mends)


def _runs() -> TableColumns:
    from tollmeter.store.request import read_request

    rows = []
    for folder in places.run_folders():
        try:
            request = read_request(folder)
            rows.append((folder.name, request.started, request.suite.question))
        except Failure as failure:
            rows.append((folder.name, "", failure.sentence))
    return TableColumns(("run", "started", "question"), rows)


def _findings() -> TableColumns:
    from tollmeter.findings import subjects

    return TableColumns(("rule", "looks for"), list(subjects().items()))
