# SPDX-License-Identifier: Apache-2.0
"""`toll health`: a slow node, row or machine is named with the code that drains, and what was not measured is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from support.builders import metric, outcome, probe, row
from support.example_runs import healthy, slowed, with_index
from support.recordings import with_index_of
from tollmeter.cli.main import main
from tollmeter.fleet import health as judging
from tollmeter.fleet.health import health, unlike_nodes
from tollmeter.library.derive import derived_table
from tollmeter.library.limits import Limits, read_limits
from tollmeter.model import Failure, Results, Row
from tollmeter.report import health as report
from tollmeter.report.compared_rows import full_name
from tollmeter.store.export import write_tables


def machine(host: str, slower: float = 1.0) -> Results:
    made = slowed(healthy(("x86_64",), visits=4, samples=3), slower, layouts=4, converged=True)
    return with_index(made, machine=replace(made.index.machine, host=host))


def of_node(node: int, home: int, rate: float) -> Row:
    made = row(rate, unit="B/s", layouts=4)
    return replace(made, low=rate * 0.98, high=rate * 1.02, parameters={"node": node, "home": home, "size": 4096})


def test_a_slow_memory_node_is_named_and_remote_ones_are_not() -> None:
    rates = {0: 80e9, 1: 41e9, 2: 78e9, 3: 82e9}
    rows = [of_node(node, home, rates[home] / (1 + (node != home))) for node in rates for home in rates]
    (named,) = unlike_nodes(rows, 0.05)
    assert re.match(r"memory node 1: 41(\.\d)? GB/s, peers 78(\.\d)? GB/s to 82(\.\d)? GB/s", named)
    assert [*unlike_nodes([of_node(0, 0, 80e9), of_node(1, 1, 79e9)], 0.05)] == []


def limits(folder: Path, text: str) -> Limits:
    (folder / "limits.toml").write_text(text)
    return read_limits(None, folder / "limits.toml")


def test_a_row_beyond_an_absolute_limit_is_named_and_one_whose_interval_reaches_it_is_not(tmp_path: Path) -> None:
    results = machine("n1")
    one = next(each for each in results.index.rows if each.unit == "ns")
    assert one.median and one.low
    glob = f'[[rows]]\nrow = "{full_name(one)}"\n'
    slower, _ = health(results, None, limits(tmp_path, f'{glob}at_most = "{one.low * 0.9 / 1000:.9f} us"'))
    assert any(one.probe in each and "at most" in each for each in slower)
    within = health(results, None, limits(tmp_path, f'{glob}at_most = "{one.median:.9f} ns"'))
    assert within == ([], [])
    visited = Limits(bounds=limits(tmp_path, f'{glob}at_most = "{one.low / 2:.9f} ns"').bounds)
    few = [replace(row, visits=2) for row in results.index.rows]
    assert visited.broken(results) and not visited.broken(replace(results, index=replace(results.index, rows=few)))
    slower, unmeasured = health(results, None, limits(tmp_path, '[[rows]]\nrow = "memory.latncy *"\nat_most = "3 ns"'))
    assert not slower and "memory.latncy *" in unmeasured[0]
    with pytest.raises(Failure, match="another unit"):
        health(results, None, limits(tmp_path, f'{glob}at_most = "3 GB/s"'))


def test_one_visit_beyond_the_limit_of_a_worst_value_is_enough(tmp_path: Path) -> None:
    described = probe(metric("late", source="gauge"), metric("late_worst", source="gauge", means="worst"))
    held_to = limits(tmp_path, '[[rows]]\nrow = "any.probe late*"\nat_most = "100 us"')
    here = machine("n1").index.machine
    worst = held_to.on(here)
    told = outcome(visit=7, gauges={"late": 2e5, "late_worst": 99e3})
    assert any(worst.worst_levels(told.point, described))
    assert not worst.excess(told, described), "others are judged by their interval, at the end"
    late = replace(told, gauges={"late": 2e5, "late_worst": 101e3})
    assert "visit 7" in worst.excess(late, described) and "at most 100 us" in worst.excess(late, described)
    assert not any(Limits().on(here).worst_levels(told.point, described))


@pytest.mark.parametrize("text", ['at_most = "fast"', "at_least = 3", 'at_mots = "3 ns"', ""])
def test_what_is_no_absolute_limit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Failure, match=r"limits\.toml") as caught:
        limits(tmp_path, f'[[rows]]\nrow = "*"\n{text}')
    assert caught.value.exit_code == 2


def test_a_size_in_terms_of_a_cache_is_that_of_the_machine(tmp_path: Path) -> None:
    made = machine("n1").index
    last = max(made.machine.data_sizes().values())
    size = max(4 * last, 4 * (32 << 20))
    slow = replace(row(200.0, layouts=4), probe="memory.latency", metric="load", parameters={"size": size})
    (bound,) = limits(tmp_path, '[[rows]]\nrow = "memory.latency * size=4xLAST *"\nat_most = "130 ns"').bounds
    assert "at most 130 ns" in bound.on(made.machine).broken_by(slow)
    assert not bound.on(made.machine).broken_by(replace(slow, parameters={"size": 4096}))


def test_a_machine_is_judged_among_its_peers_whatever_its_own_runs_in_the_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, folder = np.random.default_rng(3), tmp_path / "fleet"
    for host in [f"n{at}" for at in range(6)]:
        some = machine(host, float(np.exp(0.004 * chance.normal())))
        write_tables(folder, some.index, [(name, derived_table(name, some.index)) for name in ("rows", "machines")])
    for times, count in ((1.3, 1), (1.0, 0)):
        own = machine("n3", times)
        tables = [(name, derived_table(name, own.index)) for name in ("rows", "machines")]
        monkeypatch.setattr(judging, "add_to_dataset", lambda _, to, __, of=(own.index, tables): write_tables(to, *of))
        slower, unmeasured = health(own, str(folder), Limits())
        assert (len(slower), unmeasured) == (count, [])
        assert not count or "30 % slower than its 5 peers" in slower[0]


def test_rows_that_did_not_converge_are_said_and_end_with_1() -> None:
    results = machine("n1")
    wide = replace(results.index.rows[0], converged=False)
    slower, unmeasured = health(with_index(results, rows=(wide, *results.index.rows[1:])), None, Limits())
    assert not slower and len(unmeasured) == 1 and wide.probe in unmeasured[0]
    assert report.reason(slower, unmeasured).startswith("toll: not measured: ")
    assert report.reason((), ()) == ""


def test_the_verb_writes_each_format_and_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = with_index_of(machine("n1"), tmp_path / "run")
    assert main(["health", "--run", run, "--format", "prometheus"]) == 0
    said = capsys.readouterr().out
    assert "\ntoll_health 1\n" in said and re.search(r'\ntoll_seconds\{probe="[^"]+",parameters="[^"]*",abi="x8', said)
    assert all(re.fullmatch(r'#.*|\w+(\{(\w+="[^"]*",?)+\})? [-0-9.e+]+', line) for line in said.splitlines())
    (tmp_path / "limits.toml").write_text('[[rows]]\nrow = "*"\nat_most = "0.001 ns"\n')
    monkeypatch.setattr(Limits, "broken", lambda *_: ["memory.latency: 200 ns, at most 130 ns"])
    for form in ("json", "drain", "table"):
        assert main(["health", "--run", run, "--format", form]) == 3
        said = capsys.readouterr().out
        assert "at most 130 ns" in " ".join(said.split())
        assert form != "json" or json.loads(said)["healthy"] is False
        assert form != "drain" or said.count("\n") == 1


def test_a_reference_that_is_not_there_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tollmeter.cli.health.measured_suite", lambda *_, **__: pytest.fail("it measured"))
    assert main(["health", "--reference", "nowhere"]) == 2
