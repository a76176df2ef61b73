# SPDX-License-Identifier: Apache-2.0
"""The public library: what it promises is there, and the examples of its page run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

import tollmeter

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "Change", "Comparison", "Evidence", "Failure", "Finding", "Level", "Machine", "Row", "Run", "RunInfo", "State",
    "compare", "derive", "measure", "open",
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
