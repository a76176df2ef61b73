# SPDX-License-Identifier: Apache-2.0
"""Verbs that read runs: `toll show` prints a run's answer and its data; `toll history` prints rows over all runs, and
their changes; `toll list` prints probes, suites, ABIs and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import abis_of_built, check_known, left_out_of_builds
from tollmeter.cli import completing
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import (
    print_columns,
    print_notice,
    print_unfolded,
    print_view,
    terminal,
    write,
    write_json,
)
from tollmeter.exit_codes import NOTHING_RAN
from tollmeter.library import places
from tollmeter.library.derive import derived_table, open_index, open_run, raw_samples
from tollmeter.model import Failure, Index, Probe, Results
from tollmeter.root import COMMAND, ROOT, typed
from tollmeter.store.export import written

if TYPE_CHECKING:
    from tollmeter.judgement.row_series import RowSeries

FORMATS = ("table", "json", "csv", "md", "lmbench")


def show(
    words: Annotated[list[str] | None, completing.RUN_AND_ROWS] = None,
    *,
    form: Annotated[str, shared.formats(FORMATS)] = "table",
    every: Annotated[bool, shared.every("every line, and the reason for each missing number")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="follow a run in progress to its end, then print it")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="print every sample with its evidence, not the rows")] = False,
    explain: Annotated[bool, shared.explain("method, proof, code, and how each of these numbers came about")] = False,
    machine: Annotated[
        bool, typer.Option("--machine", help="draw the machine's CPUs, caches and memory nodes")
    ] = False,
    result: Annotated[
        list[Path] | None, typer.Option("--with", help="with --format lmbench: add an lmbench result file")
    ] = None,
    attribute: Annotated[str | None, typer.Option(help="explain how two ABIs differ: x86_64,x32")] = None,
    peers: shared.Peers = None,
) -> None:
    check_known("format", form, FORMATS)
    if result and form != "lmbench":
        raise Failure("--with adds a result file of lmbench to --format lmbench")
    folder, rows = _run_and_rows(words or [])
    _check_rows(rows, explain=explain, raw=raw, others=machine or attribute is not None or peers or form == "lmbench")
    if follow:
        from tollmeter.cli import watching

        watching.follow(folder)
    if machine:
        print_machine(open_index(folder), form)
    elif attribute is not None:
        print_attribution(open_run(folder), attribute, form)
    elif peers:
        print_peers(open_run(folder), peers, form)
    elif raw or rows:
        from tollmeter.library.row_words import selected_rows

        shown = print_explained if explain else print_samples if raw else print_rows
        shown(selected_rows(open_run(folder), rows), form)
    elif form in ("json", "csv"):
        print_index(open_index(folder), form)
    elif form == "lmbench":
        print_lmbench(open_index(folder), result or [])
    else:
        print_results(open_run(folder), form, whole=every)


def _run_and_rows(words: Sequence[str]) -> tuple[Path, list[str]]:
    names, rows = places.runs_and_words(words)
    if len(names) > 1 and not places.is_run(names[1]):
        names, rows = names[:1], [*names[1:], *rows]
    if len(names) > 1:
        raise Failure(f"expected one run, not {len(names)}: `{typed('compare', *names)}` shows what changed")
    name = names[0] if names else places.LAST
    if not rows:
        return places.find_run(name), rows
    from tollmeter.library.row_words import probes_named  # numpy, which takes as long as all else that shows a run

    return places.find_run(name, "suite", probes_named(rows)), rows


def print_samples(results: Results, form: str) -> None:
    if form != "table":
        write(written(raw_samples(results), form))
        return
    from tollmeter.report.samples import sample_blocks

    print_unfolded(sample_blocks(raw_samples(results), results))


def print_rows(results: Results, form: str) -> None:
    """Prints the selected rows of a run. form: value of --format."""
    if form == "table":
        from tollmeter.report.listing import rows_by_probe

        print_view(rows_by_probe(results))
    elif form == "md":
        from tollmeter.report.markdown import some_rows as as_markdown

        write(as_markdown(results).encode())
    else:
        print_index(results.index, form)


def _check_rows(rows: Sequence[str], *, explain: bool, raw: bool, others: object) -> None:
    """Checks options against the selected rows. others: whether an option is given that prints no rows."""
    if rows and others:
        named = "--machine, --attribute, --peers and --format lmbench"
        raise Failure(f"{named} print no single rows: leave out {rows[0]}")
    if explain and not rows:
        raise Failure(f"--explain needs a row: `{typed('show', places.LAST, '--explain', 'PROBE')}`")
    if explain and raw:
        raise Failure("--explain and --raw contradict each other: --raw prints every sample")


def print_explained(results: Results, form: str) -> None:
    """Prints the explanation of the first selected rows. Raises Failure (2) for a form other than a table."""
    if form != "table":
        raise Failure("--explain prints only a table; --raw has the samples in every form")
    from tollmeter.library.explaining import explained_rows, probe_blocks
    from tollmeter.report.explained import MOST_ROWS, left_out, row_blocks

    rows, whole = results.index.rows, open_run(Path(results.index.run.folder))
    builds = {(build.probe, build.abi): build for build in results.builds}
    shown = rows[:MOST_ROWS]
    for name in dict.fromkeys(row.probe for row in shown):
        abi = next(row.abi for row in shown if row.probe == name)
        print_view(probe_blocks(results.probes[name], abi, builds.get((name, abi))))
        for explained in explained_rows(whole, [row for row in shown if row.probe == name]):
            print_view(row_blocks(explained))
    print_view(left_out(rows, results.index.run.folder))


def print_machine(index: Index, form: str) -> None:
    if form == "json":
        write_json(index.machine)
        return
    if form != "table":
        raise Failure("--machine prints only table or json")
    from tollmeter.report.machine_tables import machine_blocks

    print_view(machine_blocks(index.machine))


def print_peers(results: Results, names: Sequence[str], form: str) -> None:
    """Prints the ranks of a run's machine among its peers. names: files of peers. Raises Failure: 2 for another form, 5
    if no file can be read, 4 if no peer has a number of this run."""
    if form != "table":
        raise Failure("--peers prints only a table")
    from tollmeter.fleet.publishing import peers_of
    from tollmeter.report.peers import peers_table

    table = peers_table(results, peers_of(results, names))
    if table is None:
        raise Failure("no other machine has a level or toll of this run with an interval: name runs of one suite", 4)
    print_view([table])


def print_attribution(results: Results, words: str, form: str) -> None:
    """Prints attributions. Raises Failure: 2 unless the words name two ABIs of the run, 4 if it timed no program under
    both on one target."""
    from tollmeter.report.programs import attribution_blocks
    from tollmeter.studies.attribution import attributed

    abis = [word.strip() for word in words.split(",")]
    known = sorted({row.abi for row in results.index.rows})
    if len(abis) != 2 or abis[0] == abis[1]:
        raise Failure(f"--attribute {words}: expected two different ABIs; this run measured {', '.join(known)}")
    for abi in abis:
        check_known("ABI", abi, known, "in this run")
    attributions = attributed(results, *abis)
    if not attributions:
        sentence = f"no program was timed under both {abis[0]} and {abis[1]} in one place by its own clock"
        suite = results.suite
        raise Failure(f"{sentence}. {suite.mend}" if suite and suite.worth in abis else sentence, exit_code=4)
    if form == "json":
        write_json(attributions)
    elif form == "csv":
        raise Failure("--attribute prints only table, md or json")
    elif form == "md":
        from tollmeter.report.markdown import of_blocks

        write(("\n\n".join(of_blocks(attribution_blocks(attributions))) + "\n").encode())
    else:
        print_view(attribution_blocks(attributions))


def print_index(index: Index, form: str) -> None:
    if form == "json":
        write_json(index)
    else:
        write(written(derived_table("rows", index), form))


def print_lmbench(index: Index, results: Sequence[Path] = ()) -> None:
    """Prints lmbench's summary; the warnings of lmbench's getsummary go to standard error. results: paths of lmbench
    result files to add."""
    from tollmeter.report.lmbench import lmbench_summary, read_result, result_text, warnings

    write(lmbench_summary(index, [read_result(path) for path in results]).encode())
    for warning in warnings(result_text(index)):
        print_notice(f"{index.machine.host}: {warning}")


def print_results(results: Results, form: str, *, whole: bool = False, page: str | None = None) -> None:
    """Prints the results, as at the end of `toll run`. whole: every line of the table. page: path of a page that is
    about to be written."""
    if form == "table":
        from tollmeter.report.terminal import summary

        summary(results, terminal(), whole=whole, page=page)
    elif form == "md":
        from tollmeter.report.markdown import render

        write(render(results).encode())
    elif form == "lmbench":
        print_lmbench(results.index)
    else:
        print_index(results.index, form)


# ---- history --------------------------------------------------------------------------------------------------------

HISTORY_FORMATS = ("table", "json", "csv", "md")
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
    folders: Annotated[
        list[Path] | None, typer.Option(help="folders of runs; by default those of `toll list runs`")
    ] = None,
    form: Annotated[str, shared.formats(HISTORY_FORMATS)] = "table",
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="read the youngest N runs")] = 100,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="print a cron line and a systemd timer for regular runs")
    ] = False,
) -> None:
    check_known("format", form, HISTORY_FORMATS)
    if schedule:
        toll = str(ROOT / COMMAND) if COMMAND.startswith("./") else COMMAND
        print(SCHEDULE.format(folder=places.RUNS.parent, toll=toll), end="")
        return
    from tollmeter.judgement.row_series import row_series
    from tollmeter.library.run_history import read_history, youngest_runs

    many_series = read_history(youngest_runs(folders or [], last), row or [])
    series = row_series(many_series.readings)
    if not series:
        raise Failure("none of these rows has an interval in any run: measure with a longer --budget", NOTHING_RAN)
    if form == "table":
        from tollmeter.report.history import blocks
        from tollmeter.report.text_layout import INDENT, width_of

        width, usual = width_of(terminal()) - INDENT, None if row else many_series.usual
        print_view(blocks(series, many_series.labels, many_series.runs, width, usual=usual))
    else:
        _write_history(series, form)


def _write_history(series: Sequence[RowSeries], form: str) -> None:
    from tollmeter.report.history import point_records
    from tollmeter.store.parquet import ParquetTable

    table = list(point_records(series))
    write(written(ParquetTable(tuple(table[0]), table), form))


# ---- list -----------------------------------------------------------------------------------------------------------

WHAT = ("probes", "suites", "abis", "runs", "findings")
PROBE = ("probe", "question", "parameters", "metrics", "abis")


def list_(
    what: Annotated[
        str, typer.Argument(help="probes, suites, abis, runs or findings", autocompletion=lambda: [*WHAT])
    ] = "probes",
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="of probes, or globs; of one also what it takes and measures",
            autocompletion=completing.probes,
        ),
    ] = None,
    *,
    form: Annotated[str, shared.formats(shared.TABLE_OR_JSON)] = "table",
    explain: Annotated[
        bool, shared.explain("of probes: method, proof, what refuses a number, and the machine code")
    ] = False,
) -> None:
    check_known("list", what, WHAT)
    if explain:
        _explain_probes(what, names or [], form)
        return
    if names and what != "probes":
        raise Failure(f"`{typed('list', what)}` takes no names: only probes are listed by name")
    if what == "probes":
        _print_probes(places.described_probes(names or ["*"]), form)
        return
    listed = {"suites": _print_suites, "abis": _print_abis, "runs": _print_runs, "findings": _print_findings}
    listed[what](form)


def _explain_probes(what: str, names: Sequence[str], form: str) -> None:
    if what != "probes" or not names or form != "table":
        raise Failure(f"--explain prints a table of probes by name: `{typed('list', 'probes', 'NAME', '--explain')}`")
    from tollmeter.library.explaining import probe_blocks

    for name, probe in places.described_probes(names).items():
        if probe is None:
            raise Failure(f"{name} is not described yet: `{typed('run', name)}` builds it", 5)
        print_view(probe_blocks(probe))


def _print_probes(described: Mapping[str, Probe | None], form: str) -> None:
    """Prints probes from the index and from earlier builds, without building. A single probe is described at length."""
    (first, *more) = described.values()
    if form == "table" and first and not more:
        from tollmeter.report.probe_description import blocks

        print_view(blocks(first))
        return
    abis, left_out = abis_of_built(places.ROOT / "build"), left_out_of_builds(places.ROOT / "build")
    rows = []
    for name, probe in described.items():
        if probe is None:
            question = left_out.get(name, f"not described yet: `{typed('run', name)}` builds it")
            rows.append((name, question, "", "", ""))
            continue
        question = left_out.get(name, probe.question)
        parameters, metrics = (" ".join(item.name for item in items) for items in (probe.parameters, probe.metrics))
        rows.append((name, question, parameters, metrics, " ".join(abis.get(name, ()))))
    print_columns(PROBE, rows, form, narrow=2)


def _print_suites(form: str) -> None:
    print_columns(("suite", "question"), [(suite.name, suite.question) for suite in places.suites().values()], form)


def _print_abis(form: str) -> None:
    import platform

    from tollmeter.toolchain.abis import survey_abis

    names = ("abi", "builds", "runs", "clock", "missing", "mend", "compiler", "summary")
    rows = []
    for standing in survey_abis(places.ROOT, platform.machine()):
        builds = "yes" if standing.compiler else "no"
        lacks = (standing.target or "no", standing.clock or "", standing.missing or "", standing.mend or "")
        rows.append((standing.name, builds, *lacks, standing.compiler or "", standing.summary))
    mends = [(name, mend) for name, *_, mend, _, _ in rows if mend]
    print_columns(names, rows, form, narrow=5, whole=names[:4], below=mends)


def _print_runs(form: str) -> None:
    from tollmeter.store.request import start_and_words

    rows = []
    for folder in places.run_folders():
        try:
            rows.append((folder.name, *start_and_words(folder)))
        except Failure as failure:
            rows.append((folder.name, "", failure.sentence))
    print_columns(("run", "started", "of"), rows, form)


def _print_findings(form: str) -> None:
    from tollmeter.findings import subjects

    print_columns(("rule", "looks for"), list(subjects().items()), form)
