# SPDX-License-Identifier: Apache-2.0
"""`toll history`: rows over all runs, and when they changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import print_notice, terminal, write
from tollmeter.library import places
from tollmeter.model import Failure
from tollmeter.root import COMMAND, ROOT

if TYPE_CHECKING:
    from tollmeter.judgement.row_series import RowSeries

FORMATS = ("table", "json", "csv", "md", "otava-csv")
NO_NUMBER = 6
SCHEDULE = """# cron: a run each night at 03:17, and what changed (crontab -e)
17 3 * * *  cd {folder} && {toll} run --quiet >/dev/null 2>&1; {toll} history

# systemd: the same as a timer (~/.config/systemd/user/, then systemctl --user enable --now toll.timer)
# toll.service
[Unit]
Description=Tollmeter measures this machine
[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={toll} run --quiet
ExecStartPost={toll} history
# toll.timer
[Timer]
OnCalendar=*-*-* 03:17:00
Persistent=true
[Install]
WantedBy=timers.target
"""


def history(
    row: Annotated[
        list[str] | None, typer.Argument(help="a probe or glob, and NAME=VALUE; by default the tolls and memory levels")
    ] = None,
    *,
    runs: Annotated[
        list[Path] | None, typer.Option(help="folders of runs; by default those of `toll list runs`")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, json, csv, md or otava-csv")] = "table",
    schedule: Annotated[bool, typer.Option("--schedule", help="print a cron line and a systemd timer")] = False,
) -> None:
    """Print rows over all runs of a machine, and when they changed."""
    check_known("format", form, FORMATS)
    if schedule:
        toll = str(ROOT / COMMAND) if COMMAND.startswith("./") else COMMAND
        print(SCHEDULE.format(folder=places.RUNS.parent, toll=toll), end="")
        return
    from tollmeter.judgement.row_series import row_series
    from tollmeter.library.run_history import read_history, run_folders

    many_series = read_history(run_folders(runs or []), row or [])
    series = row_series(many_series.readings)
    if not series:
        raise Failure("none of these rows has an interval in any run", NO_NUMBER)
    if form == "table":
        from tollmeter.report.history import print_history

        print_history(series, many_series.labels, many_series.runs, terminal(), asked=bool(row))
    else:
        _write(series, form)


def _write(series: Sequence[RowSeries], form: str) -> None:
    from tollmeter.judgement.row_series import machine_key
    from tollmeter.report.history import lines, otava_lines
    from tollmeter.store.export import written
    from tollmeter.store.parquet import Stretch, Table

    if form == "otava-csv":
        several = dict.fromkeys(machine_key(row_series.machine) for row_series in series)
        last = max(series, key=lambda one: one.readings[-1].source.started).machine
        if len(several) > 1:
            print_notice(f"{len(several)} machines: the CSV is of {last.host}, {last.cpu}, which measured last")
        table = otava_lines(
            [row_series for row_series in series if machine_key(row_series.machine) == machine_key(last)]
        )
    else:
        table = list(lines(series))
    made = Table(tuple(table[0]), [Stretch(line, {}) for line in table])
    write(written(made, "csv" if form == "otava-csv" else form))
