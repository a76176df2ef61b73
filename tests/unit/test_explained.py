# SPDX-License-Identifier: Apache-2.0
"""An explanation is what the source, the executable and the visits say: of every probe there is one, and the visits
that are drawn are those that the number is made of."""

from __future__ import annotations

from math import exp
from pathlib import Path

import msgspec
import numpy as np
import pytest

from support.recordings import copied
from tollmeter.cli.main import main
from tollmeter.experiment.precision import hodges_lehmann
from tollmeter.library import places
from tollmeter.library.derive import open_run
from tollmeter.library.explaining import explained_rows, probe_blocks
from tollmeter.model import Failure
from tollmeter.report.blocks import Listing
from tollmeter.report.explained import row_blocks
from tollmeter.report.text_layout import SCALE, interval
from tollmeter.toolchain.build import probe_names
from tollmeter.toolchain.probe_source import read_source

PROBES = places.ROOT / "probes"


@pytest.fixture
def run(own_runs: Path) -> Path:
    return copied("format-2", own_runs / "r01")


@pytest.mark.parametrize("name", sorted(probe_names(PROBES)))
def test_each_source_says_how_it_measures_and_what_it_times(name: str) -> None:
    source = read_source(PROBES, name)
    assert source.method and all(paragraphs for _, paragraphs in source.method)
    for role in ("body", "check"):
        function = source.named(role)
        assert function and f"{function.name}(" in function.text and function.text.endswith("}")


def test_a_probe_says_what_it_refuses() -> None:
    source = read_source(PROBES, "kernel.enter_syscall")
    assert source.wrong == ("the kernel answered %ld, not %ld",)
    with pytest.raises(Failure, match=r"no source of kernel\.enter_syscal$"):
        read_source(PROBES, "kernel.enter_syscal")


def test_a_probe_that_is_not_of_this_version_has_its_description(run: Path) -> None:
    """Such as the command of a suite."""
    probe = msgspec.structs.replace(next(iter(open_run(run).probes.values())), probe="no.such")
    assert len(list(probe_blocks(probe))) > 1


def test_the_visits_that_are_shown_make_the_number(tmp_path: Path) -> None:
    """The row's number is the Hodges-Lehmann median of the values of its visits, for every time of one mode."""
    results = open_run(copied("repeated/01", tmp_path / "run"))
    timed = [row for row in results.index.rows if row.status == "ok" and row.unit == "ns" and len(row.modes) < 2]
    explained = list(explained_rows(results, timed))
    assert [of.row for of in explained] == timed and {row.state for row in timed} >= {"uncontended"}
    for of in explained:
        values = [visit.value for visit in of.visits if visit.value is not None]
        assert len(values) == of.row.visits
        assert exp(hodges_lehmann(np.log(values))) == pytest.approx(of.row.median, rel=1e-4)
        assert sum(visit.used for visit in of.visits) == of.row.samples
        assert of.aside.total() == of.row.discarded == sum(visit.discarded for visit in of.visits)


def test_visits_that_were_not_seen_in_the_state_of_the_row_are_not_counted(run: Path) -> None:
    results = open_run(run)
    row = next(row for row in results.index.rows if row.status == "ok" and row.visits > 1)
    (explained,) = explained_rows(results, [row])
    first, *others = explained.visits
    told = " ".join(map(str, row_blocks(explained._replace(visits=(first._replace(value=None), *others)))))
    assert f"{row.visits - 1} of {row.visits} visits, those seen" in told
    assert "those seen" not in " ".join(map(str, row_blocks(explained)))


def test_a_row_without_a_number_has_its_reason(run: Path) -> None:
    results = open_run(run)
    row = msgspec.structs.replace(results.index.rows[0], status="unstable", reason="by hand", median=None)
    assert next(explained_rows(results, [row])).row.reason == "by hand"


def test_an_interval_is_drawn_in_its_place() -> None:
    drawn = interval(10.0, 100.0, 1000.0, (1.0, 1e4), "<-o>")
    assert len(drawn) == SCALE and drawn.index("<") < drawn.index("o") < drawn.index(">")
    assert drawn.index("o") == SCALE // 2
    assert interval(1.0, 1.0, 1.0, (1.0, 1.0)).count("●") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["show", "r01", "--explain"], ["show", "r01", "--explain", "no.probe"], ["list", "runs", "--explain"],
        ["show", "r01", "--explain", "--raw", "memory.latency"], ["list", "probes", "--explain"],
        ["show", "r01", "--explain", "memory.latency", "--format", "json"],
    ],
)  # fmt: skip
@pytest.mark.usefixtures("run")
def test_what_cannot_be_explained_is_refused(words: list[str]) -> None:
    assert main(words) == 2


def test_the_verbs_print_method_code_and_visits(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = next(row for row in open_run(run).index.rows if row.status == "ok")
    assert main(["show", "r01", "--explain", row.probe]) == 0
    printed = capsys.readouterr().out
    assert f"Method, as {row.probe.partition('.')[2]}" in printed and "Visit" in printed and "●" in printed
    assert main(["list", "probes", "--explain", row.probe]) == 0
    assert "Visit" not in capsys.readouterr().out


def test_code_is_printed_as_it_is() -> None:
    probe = places.described_probes(["kernel.enter_syscall"])["kernel.enter_syscall"]
    assert probe
    listed = [line for block in probe_blocks(probe) if isinstance(block, Listing) for line in block.lines]
    assert "  const long number = entry->number;" in listed
