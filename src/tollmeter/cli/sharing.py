# SPDX-License-Identifier: Apache-2.0
"""Verbs that pass a run on: `toll report`, `export`, `publish`, `gallery`, `bundle`, `import`, `serve`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli import completing
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import print_notice, write
from tollmeter.files import plain_name
from tollmeter.library import places
from tollmeter.library.derive import TABLES, derived_table, open_index, open_run, open_two, raw_samples
from tollmeter.library.options import DEFAULT_BUDGET
from tollmeter.model import Failure
from tollmeter.root import typed
from tollmeter.store.export import FORMATS, metadata, written


def export(
    words: Annotated[list[str] | None, completing.RUN_AND_ROWS] = None,
    *,
    form: Annotated[str | None, shared.formats(("csv (the default)", *FORMATS[1:], "lmbench (a result file)"))] = None,
    what: Annotated[str | None, typer.Option(help=f"{', '.join(TABLES)}; by default rows")] = None,
    out: Annotated[Path | None, shared.out()] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="folder of a Parquet dataset: every table of several runs (docs/dataset.md)")
    ] = None,
) -> int:
    from tollmeter.library.row_words import probes_named, selected_rows

    runs, rows = places.runs_and_words(words or [])
    names = runs or [places.LAST]
    if rows and (dataset is not None or form == "lmbench"):
        raise Failure(f"{rows[0]} selects rows: --dataset and --format lmbench write whole runs")
    if dataset is not None:
        if form or what or out:
            raise Failure("--dataset writes every table as Parquet: --format, --what and --out are for one table")
        return _write_dataset(names, dataset)
    if len(names) > 1:
        raise Failure(f"expected one run, not {len(names)}: --dataset DIR accepts several")
    if form == "lmbench":
        return _write_result(names[0], what, out)
    form, what = form or "csv", what or "rows"
    check_known("format", form, FORMATS)
    check_known("table", what, TABLES)
    folder = places.find_run(names[0], probes=probes_named(rows))
    if what != "samples":
        index = selected_rows(open_run(folder), rows).index if rows else open_index(folder)
        table = derived_table(what, index)
    else:
        results = selected_rows(open_run(folder), rows)
        index, table = results.index, raw_samples(results)
    write(written(table, form, metadata(index)), out)
    return 0


def _write_result(name: str, what: str | None, out: Path | None) -> int:
    from tollmeter.report.lmbench import result_text

    if what is not None:
        raise Failure("a result file of lmbench has one form: --what is of the other formats")
    write(result_text(open_index(places.find_run(name))).encode(), out)
    return 0


def _write_dataset(names: Sequence[str], dataset: Path) -> int:
    """Writes runs into a dataset. An unreadable run is reported, and the others are written."""
    from tollmeter.library.derive import add_to_dataset
    from tollmeter.report.numbers import count

    code = lost = 0
    for name in names:
        try:
            add_to_dataset(places.find_run(name), dataset)
        except Failure as failure:
            print_notice(f"{name} is not in the dataset: {failure.sentence}")
            code, lost = failure.exit_code, lost + 1
    print(f"{dataset}: {len(names) - lost} of {count(len(names), 'run')} written")
    return code


# ---- publish --------------------------------------------------------------------------------------------------------


def publish(
    run: Annotated[str, completing.RUN] = places.LAST,
    *,
    out: Annotated[Path, shared.out("file to write")],
) -> None:
    from tollmeter.fleet.published import KEPT_PARTS, REMOVED_PARTS, write_published
    from tollmeter.fleet.publishing import publish as redacted
    from tollmeter.report.numbers import count

    published_run = redacted(open_run(places.find_run(run)))
    write_published(published_run, out)
    for title, parts in (("Removed", REMOVED_PARTS), ("Kept", KEPT_PARTS)):
        print(f"{title}:")
        for part in parts:
            print(f"  {part}")
    held = f"{count(len(published_run.index.rows), 'row')}, {count(len(published_run.index.tolls), 'toll')}"
    print(f"{out}: {held}. Read it before you give it away.")


# ---- gallery --------------------------------------------------------------------------------------------------------


def gallery(
    runs: Annotated[list[str], typer.Argument(help="files of `toll publish`, or runs, which are redacted first")],
    *,
    out: Annotated[Path, shared.out("folder of the site")],
) -> None:
    from tollmeter.fleet.gallery import write_site
    from tollmeter.fleet.publishing import published
    from tollmeter.report.numbers import count

    machines = write_site(published(runs), out)
    print(f"{out / 'index.html'}: {count(machines, 'machine')}")


# ---- bundle ---------------------------------------------------------------------------------------------------------


def bundle(
    words: Annotated[
        list[str] | None,
        completing.TO_MEASURE,
    ] = None,
    *,
    out: Annotated[Path, shared.out("a script, or an archive: FILE.tar.xz, FILE.tar.gz")],
    abi: Annotated[list[str] | None, shared.abi("this CPU's")] = None,
    budget: Annotated[str | None, shared.budget(DEFAULT_BUDGET)] = None,
    precision: shared.Precision = None,
) -> None:
    from tollmeter.library.bundling import BundleRequest, bundled, is_archive
    from tollmeter.report.numbers import count

    abis = ",".join(abi) if abi else None
    content, probes = bundled(BundleRequest(tuple(words or ()), abis, budget, precision), out)
    write(content, out)
    start = f"tar xf {out.name}; sh {out.name.rpartition('.tar')[0]}/run.sh"
    if not is_archive(out):
        if out.is_file():  # and neither standard output nor a device
            out.chmod(0o755)
        start = f"sh {out.name}"
    held = ", ".join(f"{count(number, 'probe')} for {name}" for name, number in probes.items())
    print_notice(f"{out}: {len(content) / 1e6:.2f} MB; {held}")
    print_notice(f"there: `{start}`; then here: `{typed('import', 'toll-run/journal.jsonl')}`")


# ---- import  --------------------------------------------------------------------------------------------------------


def import_(
    file: Annotated[Path, typer.Argument(help="journal.jsonl, its folder or archive, or a serial line's capture")],
    *,
    out: Annotated[Path | None, shared.out("the run's folder [runs/DATE-SUITE]")] = None,
) -> None:
    from tollmeter.library.bundling import imported
    from tollmeter.library.places import shown
    from tollmeter.report.numbers import count

    run_folder, capture = imported(file, out)
    if capture.session.lost:
        print_notice(f"{capture.session.lost} streams of {file} were damaged, and are left out")
    folder = str(shown(run_folder))
    print(folder)
    print_notice(f"{count(capture.visits, 'visit')}: `{typed('show', folder)}`, `{typed('report', folder)}`")


# ---- serve ----------------------------------------------------------------------------------------------------------

MOST_PORTS = 65535
"""Highest TCP port."""


def serve(
    port: Annotated[int, typer.Option(min=0, max=MOST_PORTS, help="TCP port; 0 selects a free one")] = 0,
) -> None:
    from tollmeter.library.serving import serve as served

    served(port, _print_address)


def _print_address(address: str) -> None:
    print(address, flush=True)
    print("Ctrl-C ends it. It is for browsers of this machine, and only reads.", flush=True)


# ---- report ---------------------------------------------------------------------------------------------------------

PAGE = "report.html"


def report(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="a folder, a run's name, LAST or LAST~1; two runs are drawn in the same charts; "
            f"then {completing.SELECTED}",
            autocompletion=completing.run_and_probes,
        ),
    ] = None,
    charts: Annotated[Path | None, typer.Option(help="also write every chart as SVG and PNG into this folder")] = None,
    out: Annotated[Path | None, shared.out("report file [in the first run's folder]")] = None,
    peers: shared.Peers = None,
) -> None:
    from tollmeter.library.row_words import probes_named

    runs, rows = places.runs_and_words(words or [])
    folders = [places.find_run(name, "ended", probes_named(rows)) for name in runs or [places.LAST]]
    if peers and len(folders) > 1:
        raise Failure("--peers is for the page of one run; two runs are compared with each other")
    pages = _of_two(folders, rows, charts, out) if len(folders) > 1 else _of_one(folders[0], rows, charts, out, peers)
    for path in pages:
        print(path)


def _of_one(
    folder: Path, words: Sequence[str], charts: Path | None, out: Path | None, peers: Sequence[str] | None
) -> Iterator[Path]:
    from tollmeter.fleet.publishing import peers_of
    from tollmeter.library.row_words import selected_rows
    from tollmeter.report import page

    results, path = selected_rows(open_run(folder), words), out or folder / _page_name(PAGE, words)
    page.write_page(results, path, peers_of(results, peers) if peers else ())
    yield path
    if charts:
        from tollmeter.report.charts import save

        yield from save(results, charts)


def _page_name(name: str, words: Sequence[str]) -> str:
    """Returns the file name of a page. A page of selected rows has their words in its name, so that it does not replace
    the page of all rows."""
    return "-".join((plain_name(" ".join(words)), name)) if words else name


def _of_two(folders: Sequence[Path], words: Sequence[str], charts: Path | None, out: Path | None) -> Iterator[Path]:
    from tollmeter.library.row_words import selected_rows
    from tollmeter.report import overlay
    from tollmeter.report.charts.chart import pictures
    from tollmeter.report.page import put

    first, second = (selected_rows(results, words) for results in open_two(folders))
    name = _page_name(f"beside-{plain_name(folders[1].resolve().name)}.html", words)
    pair, path = overlay.two((first, second)), out or folders[0] / name
    put(overlay.render(pair), path)
    yield path
    if charts:
        yield from pictures(pair.charts, pair.runs, charts)
