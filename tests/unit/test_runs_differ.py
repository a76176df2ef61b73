# SPDX-License-Identifier: Apache-2.0
"""How much one machine's runs differ beyond what each says of itself; recorded runs of one quiet machine, whose clock
fell by 3 % meanwhile, come out the same."""

from __future__ import annotations

import importlib.util
from math import exp, sqrt
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest

import tollmeter
from support import builders
from support.recordings import RECORDINGS, copied
from tollmeter.experiment.runs_differ import USUAL, USUAL_RUNS_SD, Cost, EarlierRun, rows_sd, runs_sd
from tollmeter.library.prepare import with_history
from tollmeter.model import Select, Suite, machine_key
from tollmeter.numbers.known import Known, Learned
from tollmeter.root import ROOT
from tollmeter.store.history import host_and_kernel, remember
from tollmeter.store.request import Request, read_request, write_request

SUITE = Suite(name="s", question="?", select=(Select(probe="*"),))


def named(probe: str, metric: str = "time", **parameters: int) -> str:
    return " ".join(
        [f"{probe} 1 x86_64 local {metric} None", *(f"{name}={value}" for name, value in parameters.items())]
    )


def earlier(place: str, rows: dict[str, Cost]) -> EarlierRun:
    return EarlierRun(run="", machine=("", "", ""), place=place, rows=rows)


def history(*medians: float, error: float = 0.0, row: str = named("a.b"), places: str = "") -> list[EarlierRun]:
    where = places or "h" * len(medians)
    return [earlier(place, {row: Cost(median, error)}) for median, place in zip(medians, where, strict=True)]


def of_rows(rows: dict[str, tuple[float, ...]]) -> list[EarlierRun]:
    """Logarithms of each row in each of three runs."""
    return [earlier("h", {name: Cost(exp(logs[run]), 0.0) for name, logs in rows.items()}) for run in range(3)]


def test_by_hand() -> None:
    """Three runs at -1 %, 0 and +1 %: the median distance is 1 %, and three runs pull it to the usual's four."""
    found = runs_sd(history(*(100 * exp(log) for log in (-0.01, 0.0, 0.01))), {})
    own = (0.01 / 0.9539) ** 2
    assert found == {"a.b time": pytest.approx(sqrt((3 * own + 4 * USUAL_RUNS_SD**2) / 7))}


def test_what_a_run_says_of_its_own_error_is_taken_off() -> None:
    moved = [100 * exp(log) for log in (-0.01, 0.0, 0.01)]
    assert runs_sd(history(*moved, error=0.02), {}) == {"a.b time": pytest.approx(sqrt(4 * USUAL_RUNS_SD**2 / 7))}


def test_two_runs_say_nothing_nor_does_what_has_no_logarithm() -> None:
    assert runs_sd(history(100.0, 105.0), {}) == {}
    assert runs_sd(history(100.0, 105.0, -3.0), {}) == {}
    assert runs_sd([], {}) == {}


def test_rows_of_a_probe_speak_together_and_by_their_median() -> None:
    """One row in three that jumps does not make its probe's runs differ."""
    rows = {named("a.b", i=i): (0.004, -0.004, 0.0) for i in range(2)} | {named("a.b", i=2): (0.3, -0.3, 0.0)}
    assert list(runs_sd(of_rows(rows), {})) == ["a.b time"]
    assert runs_sd(of_rows(rows), {})["a.b time"] < 0.01


def test_deviations_are_learned_for_each_probe() -> None:
    found = runs_sd(of_rows({named("a.b"): (0.0, 0.0, 0.0), named("a.c"): (0.0, 0.2, -0.2)}), {})
    assert found["a.b time"] < USUAL_RUNS_SD < found["a.c time"]


@pytest.mark.parametrize("true", [0.003, 0.02, 0.5])
def test_many_runs_give_the_true_deviation_however_large(true: float) -> None:
    """A cap of 5 % made intervals of rows that differ by 10 % hold in two of three."""
    moved = np.exp(np.random.default_rng(1).normal(0, true, 40))
    assert runs_sd(history(*moved), {})["a.b time"] == pytest.approx(true, rel=0.35)
    assert runs_sd(history(*[1.0] * 40), {})["a.b time"] >= 0.0015


def test_what_is_shipped_stands_in_for_the_usual() -> None:
    still = history(1.0, 1.0, 1.0)
    assert runs_sd(still, {"a.b": 0.05})["a.b time"] == pytest.approx(sqrt(4 / 7) * 0.05)


def test_the_rarer_of_two_placements_of_two_cpus_counts() -> None:
    """Seven runs with both CPUs of a guest on one chiplet, two with them on two: most pairs of runs agree."""
    moved = history(*[62.0] * 7, *[275.0] * 2, row=named("memory.ping_pong"))
    assert runs_sd(moved, {})["memory.ping_pong time"] > 0.5
    assert runs_sd(history(*[62.0] * 7, *[275.0] * 2), {})["a.b time"] < 0.01


@pytest.mark.usefixtures("own_runs")
@pytest.mark.parametrize(("hypervisor", "least"), [("KVM", 0.5), (None, 0.0)])
def test_a_guest_without_history_does_not_know_where_its_host_runs_two_cpus(
    hypervisor: str | None, least: float
) -> None:
    machine = builders.machine(hypervisor=hypervisor)
    asked = Request(id="r", suite=SUITE, started="", seed=1, budget_seconds=1, tollmeter="")
    known = with_history(asked, machine, {"memory.ping_pong", "kernel.loop"}).runs_sd
    assert known.get("memory.ping_pong", 0.0) >= least
    assert ("memory.ping_pong" in known) == bool(least) and "kernel.loop" not in known


@pytest.mark.parametrize(
    ("of_runs", "learned"),
    [((4.7, 19.6), 4.7), ((8.97, 3.93), 3.93), ((3.93, 8.97, 3.94), 3.94), ((2.6, 2.5, 3.93), 3.93)],
)
def test_a_width_that_no_core_has_is_not_learned(of_runs: tuple[float, ...], learned: float, own_runs: Path) -> None:
    """It would withhold the rows of all later runs: 19.6 or 8.97 additions a cycle, of runs whose control loops other
    programs slowed. One run on a quiet machine among others beside a busy sibling is learned from."""
    own_runs.mkdir()
    machine = builders.machine()
    for number, width in enumerate(of_runs):
        widths = {"local": {"x86_64": width}}
        remember(
            own_runs, EarlierRun(f"{number}", machine_key(machine), host_and_kernel(machine), rows={}, widths=widths)
        )
    asked = Request(id="r", suite=SUITE, started="", seed=1, budget_seconds=1, tollmeter="")
    assert with_history(asked, machine, set()).widths == {"local": {"x86_64": learned}}


def in_cycles(clocks: list[float], costs: list[float]) -> list[EarlierRun]:
    return [earlier("h", {named("a.b"): Cost(cost, 0.0, clock)}) for clock, cost in zip(clocks, costs, strict=True)]


def test_a_clock_that_wanders_is_no_scatter_of_what_follows_it_nor_of_what_does_not() -> None:
    """Sixteen runs while the clock falls by 3 %: 40 cycles each, or 10 ns each."""
    clocks = [4.2e9 * (1 - 0.002 * run) for run in range(16)]
    core = runs_sd(in_cycles(clocks, [40e9 / clock for clock in clocks]), {})
    memory = runs_sd(in_cycles(clocks, [10.0] * 16), {})
    usual_alone = sqrt(4 / 20) * USUAL_RUNS_SD
    assert core["a.b time"] == memory["a.b time"] == pytest.approx(usual_alone)


def test_what_a_new_kernel_or_host_changed_is_no_scatter_between_runs() -> None:
    moved = history(100.0, 100.0, 150.0, 150.0, 150.0, places="aabbb")
    assert runs_sd(moved, {})["a.b time"] < USUAL_RUNS_SD
    assert runs_sd(history(100.0, 120.0, 140.0, places="abc"), {}) == {}


def test_a_row_that_differs_by_more_than_its_probe_is_learned_by_itself() -> None:
    """By hand: three runs at -3 %, 0 and +3 %, and the probe's own as much as one run."""
    logs = {named("a.b", is_still=1): (0.0, 0.0, 0.0), named("a.b", is_still=0): (-0.03, 0.0, 0.03)}
    found = rows_sd(of_rows(logs), {"a.b": 0.006})
    assert found[named("a.b", is_still=0)] == pytest.approx(sqrt((3 * (0.03 / 0.9539) ** 2 + 0.006**2) / 4))
    assert list(found) == [named("a.b", is_still=0)], "and three runs that agree are no certainty"


def test_a_row_like_its_probe_is_not_named_nor_is_one_of_two_runs() -> None:
    like = history(*(100 * exp(log) for log in (-0.006, 0.0, 0.006)))
    assert rows_sd(like, {"a.b": 0.006}) == {}
    assert rows_sd(history(100.0, 120.0), {"a.b": 0.006}) == {}


def test_a_count_says_nothing_of_times_nor_they_of_it() -> None:
    """Bytes that are the same in each run had made their program's time seem to be."""
    runs = [
        earlier(
            "h",
            {named("a.b"): Cost(exp(log), 0.0), **{named("a.b", name): Cost(9.0, 0.0, 0.0, True) for name in "xyz"}},
        )
        for log in (0.0, 0.2, -0.2)
    ]
    assert list(runs_sd(runs, {})) == ["a.b time"] and runs_sd(runs, {})["a.b time"] > 0.1
    assert list(rows_sd(runs, {"a.b time": 0.1})) == [named("a.b")], "nor has a count that never differed its own"


def test_a_count_that_differs_between_runs_is_learned_with_its_rarer_values() -> None:
    """By hand: one of four runs has a page more in a hundred: the standard deviation of the four logarithms."""
    pages = [earlier("h", {named("a.b", "pages"): Cost(exp(log), 0.0, 0.0, True)}) for log in (0.0, 0.0, 0.0, 0.01)]
    assert rows_sd(pages, {}) == {named("a.b", "pages"): pytest.approx(float(np.std([0, 0, 0, 0.01], ddof=1)))}


def test_rows_beyond_the_private_caches_are_a_group_of_their_own() -> None:
    """What neighbours leave of a shared cache moves them, and no row that fits into a private one."""
    still = {named("a.b", size=size): (0.0, 0.0, 0.0) for size in (1 << 10, 1 << 16, 1 << 19)}
    runs = of_rows(still | {named("a.b", size=size): (0.0, 0.2, -0.2) for size in ((1 << 19) + 1, 1 << 24)})
    found = runs_sd(runs, {"a.b": 0.003}, private_bytes=1 << 19)
    assert found["a.b time"] < 0.003 and found["a.b time shared"] > 0.1
    known = Known(learned=Learned(found, {}, 1 << 19))
    assert [known.runs_sd(named("a.b", size=size)) for size in (1 << 19, 1 << 20)] == [*found.values()]
    assert Known(learned=Learned({"a.b": 0.003}, {}, 1 << 19)).runs_sd(named("a.b", size=1 << 20)) == USUAL_RUNS_SD


# ---- recorded runs ---------------------------------------------------------------------------------------------------

RECORDED = sorted(folder.name for folder in (RECORDINGS / "repeated").iterdir())


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The script that judges repeated runs, of any folder."""
    spec = importlib.util.spec_from_file_location("tomorrow", ROOT / "bench/tomorrow.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tollmeter.Run]:
    return [opened(copied(f"repeated/{name}", tmp_path_factory.mktemp("run"))) for name in RECORDED]


def opened(folder: Path) -> tollmeter.Run:
    """As on a machine without a history."""
    write_request(folder, msgspec.structs.replace(read_request(folder), runs_sd=USUAL))
    return tollmeter.open(folder)


def test_intervals_hold_and_nothing_changed(bench: ModuleType, runs: list[tollmeter.Run]) -> None:
    """In ns and with visits of one layout as independent ones, 78 % held, and one pair in ten was disjoint. A history
    makes less of what changed: one row in one of these runs is 4 % less than in the others."""
    found = bench.judged(runs)
    held, parted, changed = (part / whole for part, whole in found[1:])
    assert held >= 0.93
    assert parted <= 0.03
    assert changed <= 0.02
    assert found.half < 0.03, "and not by intervals that hold anything"


def test_what_the_clock_moved_is_no_change(runs: list[tollmeter.Run]) -> None:
    """An L1 load takes four cycles, and 3 % more ns in the last run."""
    clocks = [run.machine.core_clock_hz or 0.0 for run in runs]
    assert clocks[0] > 1.02 * clocks[-1]
    found = tollmeter.compare(runs[0], runs[-1])
    (load,) = [
        one for one in found.changes if one.old.probe == "memory.latency" and one.old.parameters["size"] == 16384
    ]
    assert load.new.median is not None
    assert load.old.median is not None
    assert load.new.median > 1.02 * load.old.median
    assert load.verdict in ("same", "cannot tell")
