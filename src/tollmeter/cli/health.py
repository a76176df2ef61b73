# SPDX-License-Identifier: Apache-2.0
"""`toll health`: measures ten rows, and states whether the machine is as fast as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli import shared_options as shared
from tollmeter.cli.measured_suite import measured_suite
from tollmeter.cli.printing import print_view, write
from tollmeter.exit_codes import FAILED, TRIPPED
from tollmeter.model import Failure, Results, first_few

_FORMATS = ("table", "json", "prometheus", "drain")


def health(
    words: Annotated[
        list[str] | None, typer.Argument(help="further probes to measure, such as kernel.disk_file")
    ] = None,
    *,
    reference: Annotated[str | None, typer.Option(help="a run of this machine, or a dataset of its peers")] = None,
    limit: shared.Limit = None,
    limits: shared.Limits = None,
    budget: Annotated[str | None, shared.budget("60s")] = None,
    run: shared.Judged = None,
    folder: shared.ScratchFolder = None,
    form: Annotated[str, shared.formats(_FORMATS)] = "table",
    out: Annotated[Path | None, shared.out()] = None,
) -> None:
    """Measure ten rows that matter, and say whether this machine is as fast as it should be.

    Exit code: 0 healthy; 3 slower than its reference or a limit, or a CPU or memory node slower than the others; 1 if
    it could not be measured. drain: one line, the reason."""
    check_known("format", form, _FORMATS)
    from tollmeter.fleet.health import PRECISION, SUITE, check_reference
    from tollmeter.fleet.health import health as health_of
    from tollmeter.library import places
    from tollmeter.library.derive import open_run
    from tollmeter.library.limits import read_limits

    allowed = read_limits(limit, limits)
    if reference is not None:
        check_reference(reference)
    measured = (
        places.find_run(run) if run else measured_suite((SUITE, *(words or ())), budget, PRECISION, folder=folder)
    )
    results = open_run(measured)
    slower, unmeasured = health_of(results, reference, allowed)
    _write(results, slower, unmeasured, form, out)
    if slower:
        raise Failure(f"slower than it should be: {first_few(slower, 1)}", TRIPPED)
    if unmeasured:
        raise Failure(f"not measured: {first_few(unmeasured, 1)}", FAILED)


def _write(results: Results, slower: Sequence[str], unmeasured: Sequence[str], form: str, out: Path | None) -> None:
    from tollmeter.fleet.health import checked_rows
    from tollmeter.report import health as report

    if form == "table" and out is None:
        print_view([*report.sentences(slower, unmeasured), report.table(checked_rows(results))])
    elif form in ("table", "drain"):
        write(report.reason(slower, unmeasured).encode(), out)
    else:
        written = {"json": report.as_json, "prometheus": report.prometheus}[form]
        write(written(results, slower, unmeasured), out)
