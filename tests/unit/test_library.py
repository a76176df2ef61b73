# SPDX-License-Identifier: Apache-2.0
"""The public library: what it promises is there, and the examples of its page run."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

import tollmeter

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "Archive", "Beside", "Book", "BreakEven", "Build", "Cache", "CacheModel", "Change", "Claim", "ClockReading",
    "Comparison", "Distances", "Estimate", "Evidence", "Failure", "Fall", "FigureLine", "FigureMark", "Finding",
    "Index", "Inference", "Kind", "Lengths", "Level", "Listed", "Machine", "Marks", "Metric", "Modelled", "Opposed",
    "Option", "Outcome", "Parameter", "Point", "Probe", "Profile", "Program", "Published", "PublishedShare",
    "Refusal", "Relative", "Role", "Row", "RowOf", "Run", "RunInfo", "Sample", "Select", "Share", "State", "Study",
    "StudyFigure", "Suite", "Surroundings", "Toll", "Uncompared", "Witness", "Work", "Workload", "compare", "derive",
    "measure", "open",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "tests/recordings/format-1", tmp_path / "run"))


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
    assert f"near it: {size}" in refused(run, sized.probe, sized.metric, abi=sized.abi, size=size + 1)


def test_several_matching_rows_are_told_with_what_they_differ_in(folder: Path) -> None:
    sentence = refused(on_several(folder), "kernel.enter_gate", gate="vdso")
    assert "abi=" in sentence and "ia32" in sentence
    assert "place=" in sentence and "guest:x32" in sentence


def test_deriving_anew_gives_the_same(folder: Path) -> None:
    before = tollmeter.open(folder)
    assert tollmeter.derive(folder).index == before.index


def test_a_run_shows_its_page_in_a_frame_that_nothing_leaves(folder: Path) -> None:
    shown = tollmeter.open(folder)._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert shown.count('"') == 6, "whatever the page says stays inside its attribute"
    assert "allow-same-origin" not in shown


def test_tables_are_as_long_as_the_run(folder: Path) -> None:
    run = tollmeter.open(folder)
    columns, lines = run._table("rows")
    assert len(lines) == len(run.rows)
    assert set(lines[0]) == set(columns)
    assert len(run._table("samples")[1]) == sum(len(told.samples) for told in run.book.outcomes)


@pytest.mark.machine
def test_the_pages_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/library.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    told = {"folder": tmp_path / "run"}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), told)
    assert (tmp_path / "run/journal.jsonl").is_file()
