# SPDX-License-Identifier: Apache-2.0
"""The public library: what it promises is there, and the examples of its page run."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

import tollmeter
from support import builders
from support.recordings import copied
from tollmeter.library.measured_run import _with_parameters as with_parameters

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "Archive", "Bend", "Beside", "BreakEven", "Build", "Cache", "CacheModel", "Change", "Claim", "ClockReading",
    "Comparison", "CoreKind", "Counted", "Distances", "Estimate", "EventCounts", "EventRate", "Evidence", "Failure",
    "Fall", "FigureLine",
    "FigureMark", "Finding", "HugePages", "Index", "Inference", "Kind", "KindAnswer", "Lengths", "Level", "Listed",
    "Machine", "Marks", "MemoryNode", "Metric", "Modelled", "Opposed", "Option", "Outcome", "Parameter", "Point",
    "Probe", "Profile", "Program", "Published", "PublishedShare", "Refusal", "Relative", "Results", "Role", "Row",
    "RowOf", "Run", "RunComparison", "RunInfo", "Sample", "Select", "Setting", "Share", "State", "Study", "StudyFigure",
    "Suite", "Surroundings", "Tally", "Toll", "Topology", "Uncompared", "Witness", "Work", "Workload", "compare",
    "derive", "measure", "open",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied("format-1", tmp_path / "run")


def test_what_is_public_is_there_and_nothing_else() -> None:
    """Whoever changes this list changes the major version, or adds to it."""
    assert set(tollmeter.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(tollmeter, name) is not None
    with pytest.raises(AttributeError):
        _ = tollmeter.nothing


def reachable() -> set[type]:
    """The classes of ours that a program meets: in what the public functions and a run's members take and give, and in
    the fields of these."""
    absent = SimpleNamespace(DataFrame=object, Table=object)
    members = [_function(one) for name, one in vars(tollmeter.Run).items() if not name.startswith("_")]
    functions = [tollmeter.open, tollmeter.derive, tollmeter.measure, tollmeter.compare, *filter(None, members)]
    waiting = [hint for one in functions for hint in get_type_hints(one, localns={"pd": absent, "pa": absent}).values()]
    found: set[type] = set()
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        one = get_origin(hint) or hint
        if isinstance(one, type) and one.__module__.startswith("tollmeter.") and one not in found:
            found.add(one)
            waiting += get_type_hints(one).values()
    return found


def _function(member: object) -> Callable[..., object] | None:
    member = getattr(member, "fget", None) or getattr(member, "func", None) or member
    return member if inspect.isfunction(member) else None


def test_every_class_that_a_program_meets_is_public_and_documented() -> None:
    found = reachable()
    assert {tollmeter.Run, tollmeter.Witness, tollmeter.Refusal} <= found
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    for one in found:
        assert getattr(tollmeter, one.__name__, None) is one, f"{one} is not public"
        assert one.__dict__.get("__doc__"), f"{one} has no docstring"
        assert f"`{one.__name__}`" in page, f"{one} is not on the library's page"


def test_a_run_opens_and_its_results_are_frozen(folder: Path) -> None:
    run = tollmeter.open(folder)
    assert len(run.rows) > 4
    assert run.info.seed == 4711
    assert run.row("kernel.enter_gate", gate="vdso").status == "unsupported"
    with pytest.raises(AttributeError):
        run.rows[0].median = 1.0  # type: ignore[misc]
    assert msgspec.json.decode(run.to_json())["run"]["id"] == run.info.id
    with pytest.raises(tollmeter.Failure):
        run.row("kernel.loop", nothing=1)


def on_several(folder: Path) -> tollmeter.Run:
    """A run with each row on two ABIs, and those of one probe in two places."""
    index = tollmeter.open(folder).index
    other = tuple(replace(row, abi="ia32") for row in index.rows)
    elsewhere = tuple(replace(row, target="guest:x32") for row in index.rows if row.probe == "kernel.enter_gate")
    return tollmeter.Run(folder, replace(index, rows=(*index.rows, *other, *elsewhere)))


def test_every_row_of_several_abis_and_places_can_be_named(folder: Path) -> None:
    run = on_several(folder)
    for row in run.rows:
        assert run.row(row.probe, row.metric, abi=row.abi, place=row.target, **row.parameters) is row


def refused(run: tollmeter.Run, *words: str, **more: str | int) -> str:
    with pytest.raises(tollmeter.Failure) as caught:
        run.row(*words, **more)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return caught.value.sentence


def test_a_misspelt_name_or_value_of_a_row_is_answered_with_the_nearest(folder: Path) -> None:
    run = on_several(folder)
    assert "kernel.enter_gate" in refused(run, "kernel.enter_gat", gate="vdso")
    assert "gate" in refused(run, "kernel.enter_gate", gates="vdso")
    assert "vdso" in refused(run, "kernel.enter_gate", gate="vsdo")
    assert "ia32" in refused(run, "kernel.enter_gate", abi="ia23", gate="vdso")
    sized = next(row for row in run.rows if isinstance(row.parameters.get("size"), int))
    size = sized.parameters["size"]
    assert isinstance(size, int)
    assert f"the nearest: {size}" in refused(run, sized.probe, sized.metric, abi=sized.abi, size=size + 1)


def test_several_matching_rows_are_refused_with_their_differences(folder: Path) -> None:
    sentence = refused(on_several(folder), "kernel.enter_gate", gate="vdso")
    assert "abi=" in sentence and "ia32" in sentence
    assert "place=" in sentence and "guest:x32" in sentence


def test_deriving_anew_gives_the_same(folder: Path) -> None:
    before = tollmeter.open(folder)
    assert tollmeter.derive(folder).index == before.index


def test_a_run_shows_a_short_table_with_a_link_to_its_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    run = tollmeter.open(folder)
    shown = run._repr_html_()
    assert 'href="run/report.html"' in shown
    assert (folder / "report.html").is_file()
    assert all(row.probe in shown for row in run.rows)
    monkeypatch.chdir(ROOT)
    assert f'href="{(folder / "report.html").as_uri()}"' in run._repr_html_()


def test_a_run_of_any_size_and_text_shows_under_50_kb_and_no_markup(folder: Path) -> None:
    run = tollmeter.open(folder)
    hostile = replace(run.rows[0], status="failed", reason="<script>&" * 1000, abi="'\"<&" * 100)
    rows = tuple(replace(hostile, probe=f"kernel.p{number}") for number in range(1000))
    shown = tollmeter.Run(folder, replace(run.index, rows=rows))._repr_html_()
    assert 10_000 < len(shown.encode()) < 50_000
    assert "<script" not in shown
    assert "of 1000 rows" in shown


def test_a_record_shows_its_fields_that_have_a_value_and_no_markup(folder: Path) -> None:
    row = replace(tollmeter.open(folder).rows[0], reason="<b>", relation=None, states=())
    shown = row._repr_html_()
    assert "<caption>Row<" in shown and "<th>probe</th><td>kernel." in shown and "&lt;b&gt;" in shown
    assert "<th>relation<" not in shown and "<th>states<" not in shown
    index = tollmeter.open(folder).index._repr_html_()
    assert f"<th>rows</th><td>{len(tollmeter.open(folder).rows)} items<" in index


def slower(folder: Path) -> tollmeter.RunComparison:
    """Compares a run of two rows with one whose first row takes twice as long."""
    run = tollmeter.open(folder)
    sides = (
        tuple(
            builders.row(ns, of=name, parameters={"size": size})
            for name, ns, size in (("a.b", first, 4), ("c.d", 7, 8))
        )
        for first in (100, 200)
    )
    return tollmeter.compare(*(tollmeter.Run(folder, replace(run.index, rows=rows)) for rows in sides))


def test_a_comparison_shows_its_changes_first_and_is_a_table_with_a_column_for_each_parameter(folder: Path) -> None:
    comparison = slower(folder)
    (changed,) = [change for change in comparison.changes if change.verdict not in ("same", "cannot tell")]
    lines = comparison._repr_html_().split("<tr>")
    assert changed.new.probe in lines[2] and len(lines) == 2 + len(comparison.changes)
    columns, table = comparison._table()
    line = next(line for line in table if line["verdict"] == changed.verdict)
    assert line["new"] == 2 * line["old"] and line["ratio"] == pytest.approx(2)
    assert {**changed.new.parameters}.items() <= {**line}.items() and {*changed.new.parameters} <= {*columns}


def test_a_parameter_of_a_columns_name_has_a_column_of_its_own(folder: Path) -> None:
    run = tollmeter.open(folder)
    row = replace(run.rows[0], parameters={"state": "far", "size": 4})
    same = tollmeter.Run(folder, replace(run.index, rows=(row,)))
    columns, (line,) = with_parameters(*same._table("rows"))
    assert (line["parameter_state"], line["size"], line["state"]) == ("far", 4, row.state)
    assert columns[-2:] == ["parameter_state", "size"]


def test_a_value_is_the_median_and_is_never_missing(folder: Path) -> None:
    run = tollmeter.open(folder)
    assert all(row.value == row.median for row in run.rows if row.status == "ok")
    with pytest.raises(tollmeter.Failure, match=r"kernel\.enter_gate gate=vdso .* has no value: "):
        _ = run.row("kernel.enter_gate", gate="vdso").value


def test_the_page_has_each_field_of_a_row() -> None:
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    listed = page.partition("## Fields of a row\n")[2].partition("\n## ")[0]
    rows = [line for line in listed.splitlines() if line.startswith("| `")]
    named = [name for line in rows for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(named) == sorted([*tollmeter.Row.__struct_fields__, "value"])


def test_where_no_page_can_be_written_the_command_is_shown(folder: Path) -> None:
    (folder / "report.html").mkdir()
    shown = tollmeter.open(folder)._repr_html_()
    assert "href" not in shown and "report" in shown and str(folder) in shown


def test_tables_are_as_long_as_the_run(folder: Path) -> None:
    run = tollmeter.open(folder)
    columns, lines = run._table("rows")
    assert len(lines) == len(run.rows)
    assert set(lines[0]) == set(columns)
    assert len(run._table("samples")[1]) == sum(len(told.samples) for told in run.results.outcomes)


@pytest.mark.parametrize("what", ["rows", "samples"])
def test_both_tables_have_parameters_of_one_type_and_say_whose_they_are(folder: Path, what: str) -> None:
    run = tollmeter.open(folder)
    _, lines = run._table(what)
    for line in lines:
        assert isinstance(line["parameters"], str) and isinstance(msgspec.json.decode(line["parameters"]), dict)
        assert (line["run"], line["verdict"]) == (run.info.id, run.info.verdict)
        assert (line["started"], line["kernel"]) == (run.info.started, run.machine.kernel)


@pytest.mark.parametrize("function", ["to_pandas", "to_arrow"])
def test_a_missing_package_is_named_with_a_command_that_works_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    for package in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tollmeter.Failure) as caught:
        getattr(tollmeter.open(folder), function)()
    assert caught.value.exit_code == 5
    *pip, install, package = shlex.split(re.findall(r"`(.*)`", caught.value.sentence)[0])
    assert (install, package) in (("install", "pandas"), ("install", "pyarrow"))
    done = subprocess.run([*pip, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("pip "), done.stderr


@pytest.mark.machine
def test_the_pages_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/library.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    told = {"folder": tmp_path / "run"}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), told)
    assert (tmp_path / "run/journal.jsonl").is_file()
