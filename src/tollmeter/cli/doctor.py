# SPDX-License-Identifier: Apache-2.0
"""`toll doctor`: the machine's fitness to be measured, and its set-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli import shared_options as shared
from tollmeter.cli.measured_suite import measured_suite
from tollmeter.cli.printing import terminal, write
from tollmeter.exit_codes import FAILED, TRIPPED
from tollmeter.model import DISTORTING, Failure, Finding, Results, first_few

_FORMATS = ("table", "json", "prometheus")


def doctor(
    *,
    budget: Annotated[str | None, shared.budget("20s")] = None,
    cpus: shared.Cpus = None,
    run: shared.Judged = None,
    script: Annotated[bool, typer.Option("--script", help="print a shell script that makes the changes")] = False,
    form: Annotated[str, shared.formats(_FORMATS)] = "table",
    out: Annotated[Path | None, shared.out()] = None,
) -> None:
    """Measure in 20 s whether this machine is fit to be measured and set up right. Nothing is changed.

    Exit code: 0 fit; 3 a condition prevents or distorts measuring; 1 not judged."""
    check_known("format", form, _FORMATS)
    if script and form != "table":
        raise Failure("--script and --format exclude each other")
    from tollmeter.library import places
    from tollmeter.library.derive import open_run
    from tollmeter.library.doctor import PRECISION, SUITE, check_own, ranked_findings, unjudged

    results = open_run(places.find_run(run) if run else measured_suite((SUITE,), budget, PRECISION, cpus=cpus))
    if script:
        check_own(results.index.machine)
    found, why = ranked_findings(results.index), unjudged(results.index)
    _write(results, found, why, "script" if script else form, out)
    if claims := [finding.claim for finding in found if finding.rank in DISTORTING]:
        raise Failure(f"not fit to be measured: {first_few(claims, 1)}", TRIPPED)
    if why:
        raise Failure(f"not judged: {why[0]}", FAILED)


def _write(results: Results, found: Sequence[Finding], unjudged: Sequence[str], form: str, out: Path | None) -> None:
    from tollmeter.library.doctor import changes
    from tollmeter.report import doctor as report

    judged, changed = (results, found, unjudged), changes(found)
    if form == "table" and out is None:
        report.print_findings(*judged, changed, terminal())
    elif form == "table":
        write(report.as_text(*judged, changed).encode(), out)
    elif form == "script":
        write(report.script(results, found, changed), out)
    else:
        write(report.as_json(*judged, changed) if form == "json" else report.prometheus(*judged), out)
