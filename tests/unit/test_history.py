# SPDX-License-Identifier: Apache-2.0
"""What a machine's runs said, kept beside them: never more than a help, and never in the way."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, sqrt
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from support.builders import CLOCK_HZ, outcome, quiet, row, run_info, sample
from support.fake_catalog import MACHINE
from tollmeter.experiment.runs_differ import Cost, EarlierRun, learned_sd, runs_sd
from tollmeter.library.derive import remembered
from tollmeter.library.prepare import private_bytes
from tollmeter.model import Cache, Index, Machine, Outcome, Results, Row, RunVerdict, State, machine_key
from tollmeter.numbers.known import Learned
from tollmeter.store import history
from tollmeter.store.history import NAME, host_and_kernel, recall, remember


def run(name: str, machine: Machine = MACHINE, median: float = 10.0) -> EarlierRun:
    return EarlierRun(
        run=name,
        machine=machine_key(machine),
        place=host_and_kernel(machine),
        rows={"a.b 1 x86_64 local cost None": Cost(median, 0.01)},
        widths={"local": {"x86_64": 4.0}},
    )


def names(folder: Path, machine: Machine = MACHINE) -> list[str]:
    return [one.run for one in recall(folder, machine)]


def test_runs_are_recalled_as_they_were_oldest_first(tmp_path: Path) -> None:
    told = [run("a"), run("b", median=11.0)]
    for one in told:
        remember(tmp_path, one)
    assert recall(tmp_path, MACHINE) == told


@pytest.mark.parametrize("other", [{"cpu": "x"}, {"hypervisor": "x"}, {"facts": {"cpu_stepping": "7"}}])
def test_another_kind_of_machine_says_nothing_of_this_one(tmp_path: Path, other: dict[str, Any]) -> None:
    elsewhere = msgspec.structs.replace(MACHINE, **other)
    remember(tmp_path, run("here"))
    remember(tmp_path, run("there", elsewhere))
    assert (names(tmp_path), names(tmp_path, elsewhere)) == (["here"], ["there"])


@pytest.mark.parametrize("other", [{"host": "x"}, {"kernel": "x"}])
def test_a_new_name_or_kernel_does_not_make_a_machine_forget_by_how_much_its_runs_differ(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    """Without it the intervals got narrower: +-3.4 % in place of 5.5."""
    elsewhere = msgspec.structs.replace(MACHINE, **other)
    remember(tmp_path, run("here"))
    remember(tmp_path, run("there", elsewhere))
    assert names(tmp_path) == ["here", "there"]
    assert len({one.place for one in recall(tmp_path, MACHINE)}) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b'{"run": 1}', b"[" * 100_000, b"null"])
def test_a_damaged_line_costs_itself_alone(tmp_path: Path, damage: bytes) -> None:
    remember(tmp_path, run("a"))
    with (tmp_path / NAME).open("ab") as file:
        file.write(damage + b"\n")
    remember(tmp_path, run("b"))
    assert names(tmp_path) == ["a", "b"]


def test_a_truncated_line_loses_itself_and_the_next_at_most(tmp_path: Path) -> None:
    for name in "abc":
        remember(tmp_path, run(name))
    text = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(text[:-20])
    remember(tmp_path, run("d"))
    remember(tmp_path, run("e"))
    assert names(tmp_path) == ["a", "b", "e"]


def test_the_last_word_on_a_run_stands_and_the_last_forty_runs_count(tmp_path: Path) -> None:
    remember(tmp_path, run("first"))
    for number in range(45):
        remember(tmp_path, run(f"r{number}"))
    remember(tmp_path, run("r44", median=99.0))
    found = recall(tmp_path, MACHINE)
    assert [one.run for one in found] == [f"r{number}" for number in range(5, 45)]
    assert found[-1].rows["a.b 1 x86_64 local cost None"][0] == 99.0


def test_a_file_that_grew_beyond_reason_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(tmp_path, run("a"))
    monkeypatch.setattr(history, "_MOST_BYTES", (tmp_path / NAME).stat().st_size)
    assert names(tmp_path) == ["a"]
    remember(tmp_path, run("b"))
    assert names(tmp_path) == []


def test_no_history_is_none_and_a_folder_that_cannot_be_written_is_borne(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    remember(tmp_path / "missing", run("a"))
    assert not (tmp_path / "missing").exists()
    (tmp_path / NAME).mkdir()
    remember(tmp_path, run("a"))
    assert names(tmp_path) == []


# ---- what a run leaves ------------------------------------------------------------------------------------------


def results(*rows: Row, verdict: RunVerdict = "quiet", outcomes: Sequence[Outcome] = ()) -> Results:
    timed = msgspec.structs.replace(MACHINE, core_clock_hz=CLOCK_HZ)
    index = Index(format=3, run=run_info(verdict=verdict), machine=timed, rows=rows)
    return Results(index=index, probes={}, outcomes=outcomes)


def measured(median: float, own: float, runs: float) -> Row:
    """A row whose interval holds its own error and what runs differ by, as estimates make it."""
    half = 1.959964 * sqrt(own**2 + runs**2)
    ends = {"low": median * exp(-half), "high": median * exp(half)}
    return msgspec.structs.replace(row(median), **ends, error=own, runs_sd=runs)


def test_a_run_in_another_folder_of_the_same_name_does_not_displace_one(tmp_path: Path) -> None:
    for started in ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"):
        bare = results(measured(10.0, 0.004, 0.01))
        index = msgspec.structs.replace(bare.index, run=msgspec.structs.replace(bare.index.run, started=started))
        remember(tmp_path, remembered(msgspec.structs.replace(bare, index=index)))
    assert len(names(tmp_path, msgspec.structs.replace(MACHINE, core_clock_hz=CLOCK_HZ))) == 2


def test_what_is_remembered_of_a_row_is_its_own_error_in_each_state() -> None:
    """The between-run variance in its interval would explain the differences of runs by themselves."""
    ((name, told),) = remembered(results(measured(10.0, 0.004, 0.01))).rows.items()
    assert name.startswith("any.probe ")
    assert told == Cost(10.0, pytest.approx(0.004), CLOCK_HZ)
    states = (State(state="uncontended", share=0.2, median=10.0, low=9.9, high=10.1, error=0.004),
              State(state="all", share=1.0, median=13.0, low=11.0, high=15.0, error=0.03))  # fmt: skip
    both = msgspec.structs.replace(measured(10.0, 0.004, 0.01), state="uncontended", states=states)
    assert [(cost.median, cost.error) for cost in remembered(results(both)).rows.values()] == [
        (10.0, 0.004),
        (13.0, 0.03),
    ]


def test_a_rate_is_remembered_as_a_cost_and_a_count_without_a_clock() -> None:
    rate = msgspec.structs.replace(measured(2e9, 0.004, 0.006), unit="B/s")
    count = msgspec.structs.replace(measured(3.0, 0.004, 0.006), unit="fault", metric="faults")
    kept = [*remembered(results(rate, count)).rows.values()]
    assert [(one.median, one.clock_hz) for one in kept] == [(0.5, CLOCK_HZ), (3.0, 0.0)]


def test_only_numbers_of_a_real_clock_with_three_visits_are_remembered() -> None:
    few = msgspec.structs.replace(row(10.0), visits=2)
    counted, failed = row(10.0, clock="instructions"), row(None, status="failed")
    assert remembered(results(few, counted, failed)).rows == {}


def seen() -> list[Outcome]:
    looked = quiet(width_before_hz=4 * CLOCK_HZ, width_hz=4 * CLOCK_HZ)
    return [outcome([sample(10.0, witness=looked)] * 12)]


@pytest.mark.parametrize("verdict", ["quiet", "unknown", "busy"])
def test_a_run_that_is_believed_teaches_its_rows(verdict: RunVerdict) -> None:
    assert len(remembered(results(measured(10.0, 0.004, 0.01), verdict=verdict)).rows) == 1


@pytest.mark.parametrize("verdict", ["held back", "too short", "interrupted"])
def test_a_short_run_teaches_the_core_width_but_no_variance(verdict: RunVerdict) -> None:
    told = remembered(results(measured(10.0, 0.004, 0.01), verdict=verdict, outcomes=seen()))
    assert told.rows == {}
    assert told.widths == {"local": {"x86_64": pytest.approx(4.0)}}


def test_runs_that_taught_nothing_do_not_put_others_out_of_mind(tmp_path: Path) -> None:
    remember(tmp_path, run("quiet"))
    for number in range(45):
        remember(tmp_path, msgspec.structs.replace(run(f"busy{number}"), rows={}))
    assert names(tmp_path) == [*(f"busy{number}" for number in range(5, 45)), "quiet"]


def after_runs(seed: int, true_sd: float, runs: int = 40) -> float:
    """What is known after runs that differ by so much, each of which knows of those before it."""
    chance, told, known = np.random.default_rng(seed), [], Learned()
    for _ in range(runs):
        median = 10 * exp(chance.normal(0, true_sd))
        seen = measured(median, 0.002, learned_sd(known.runs_sd, "any.probe cost"))
        told.append(remembered(results(seen)))
        known = Learned(runs_sd=runs_sd(told, {}))
    return learned_sd(known.runs_sd, "any.probe cost")


@pytest.mark.parametrize("true_sd", [0.006, 0.02])
def test_what_runs_differ_by_is_learned_and_stays_learned(true_sd: float) -> None:
    assert np.mean([after_runs(seed, true_sd) for seed in range(12)]) == pytest.approx(true_sd, rel=0.1)


def test_half_of_the_last_cache_but_one_is_surely_private() -> None:
    """Not the instruction cache of a core whose two levels are small; nothing of a board with one cache, or none."""
    levels = ((1, "data", 32 << 10), (1, "instruction", 64 << 10), (2, "unified", 1 << 20), (3, "unified", 32 << 20))
    data, code, second, third = (Cache(level, kind, size) for level, kind, size in levels)

    def of(*caches: Cache) -> int:
        return private_bytes(msgspec.structs.replace(MACHINE, caches=caches))

    assert (of(third, code, second, data), of(data, code, second)) == (512 << 10, 16 << 10)
    assert of(data, code) == of() == 0
