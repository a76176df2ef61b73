# SPDX-License-Identifier: Apache-2.0
"""Nodes that differ from their peers: planted ones are found, named together, and no others."""

from __future__ import annotations

import base64
import json
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from support.example_runs import healthy, slowed, with_index
from tollmeter.cli.main import main
from tollmeter.exit_codes import TRIPPED
from tollmeter.fleet import matrix
from tollmeter.fleet.collecting import judged_machines as report
from tollmeter.fleet.judged import MEMORY, HardwareModel, JudgedModel, is_in_time, is_rate, judged_model
from tollmeter.fleet.report import as_json, blocks, distribution_table, heat_map, page, sentence
from tollmeter.library.derive import derived_table
from tollmeter.library.limits import read_limits
from tollmeter.model import Better, Cache, Failure, Results, Row, Unit
from tollmeter.notices import listen
from tollmeter.report.compared_rows import full_name
from tollmeter.store.export import machine_name, write_tables

PROBES = ("memory.latency", "memory.read_bandwidth", "kernel.enter_syscall")
Plant = Callable[[NDArray[np.float32]], None]


def row(probe: str, size: int) -> Row:
    rate = probe == "memory.read_bandwidth"
    unit: Unit = "B/s" if rate else "ns"
    better: Better = "more" if rate else "less"
    return Row(
        probe=probe, revision=1, abi="x86_64", target="local", clock="hardware", metric="load", unit=unit,
        better=better, parameters={"size": size, "pages": "huge"}, status="ok", state="uncontended",
    )  # fmt: skip


def fleet(nodes: int, plant: Plant = lambda _: None, sizes: int = 20, seed: int = 1) -> JudgedModel:
    """Each node is slower or faster by 0.7 % as a whole, each row of it by 1 %, and each interval is ±2 %."""
    chance = np.random.default_rng(seed)
    rows = [row(probe, size) for probe in PROBES for size in range(sizes)]
    signs = np.array([-1 if is_rate(one) else 1 for one in rows])
    values = 3 + 0.01 * chance.normal(size=(len(rows), nodes)) + 0.007 * signs[:, None] * chance.normal(size=nodes)
    values = values.astype(np.float32)
    plant(values)
    halves = np.full(values.shape, 0.02, np.float32)
    return judged_model(HardwareModel("one model", [f"node{at}" for at in range(nodes)], rows, values, halves))


def names(found: JudgedModel) -> set[str]:
    return {node for named in found.named for node in named.nodes}


def test_no_more_than_one_node_in_a_thousand_is_named_falsely() -> None:
    assert sum(len(names(fleet(1000, seed=seed))) for seed in range(5)) <= 5


def test_rows_that_all_nodes_agree_on_are_not_named_for_noise_of_their_probe() -> None:
    """The median over a probe's rows is one of the exact rows on most nodes, and is moved by the noisy ones on some."""
    chance = np.random.default_rng(5)
    rows = [row(probe, size) for probe in PROBES for size in range(12)]
    values = chance.normal(3, 0.007, (1, 1000)) + np.where(np.arange(12) < 6, 0, 0.05)[:, None] * chance.normal(
        size=(len(PROBES), 12, 1000)
    )
    values = values.reshape(len(rows), 1000).astype(np.float32)
    halves = np.full(values.shape, 0.001, np.float32)
    assert len(names(judged_model(HardwareModel("m", [f"node{at}" for at in range(1000)], rows, values, halves)))) <= 1


def test_slow_nodes_are_found_and_are_one_line() -> None:
    def slow(values: NDArray[np.float32]) -> None:
        values[:20, ::100] += np.float32(np.log(1.05))
        values[20:40, ::100] -= np.float32(np.log(1.05))
        values[40:, ::100] += np.float32(np.log(1.05))

    found = fleet(1000, slow)
    assert len(names(found) & {f"node{at}" for at in range(0, 1000, 100)}) >= 9
    assert len(names(found)) <= 11
    line = max(found.named, key=lambda named: len(named.nodes))
    assert len(line.nodes) >= 9 and line.effects[0].level == "node"
    assert "more (" in sentence(found, line) and "slower than their peers" in sentence(found, line)


def test_a_bad_memory_channel_is_named_with_the_rows_that_show_it() -> None:
    def plant(values: NDArray[np.float32]) -> None:
        values[20:40, 17] += np.float32(np.log(0.62))
        values[20, 17] -= np.float32(np.log(0.62))

    found = fleet(500, plant)
    (named,) = (one for one in found.named if "node17" in one.nodes)
    (effect, *_) = named.effects
    assert (effect.level, effect.name, effect.peers) == ("probe", "memory.read_bandwidth", 499)
    assert effect.rows == tuple(range(21, 40)) and effect.others == (20,)
    said = sentence(found, named)
    assert "19 of 20 rows" in said and "% under its 499 peers" in said
    assert abs(effect.cost + np.log(0.62)) < effect.half < 0.03
    assert "its 2 other probes are like its peers'" in said


def test_a_single_row_is_named_with_its_parameters() -> None:
    found = fleet(300, lambda values: values.__setitem__((3, 5), values[3, 5] + 0.5))
    (named,) = found.named
    assert named.nodes == ("node5",) and named.effects[0].rows == (3,)
    assert "memory.latency load size=3" in sentence(found, named)


def test_a_node_with_a_wide_interval_of_its_own_is_not_named() -> None:
    def judge(half: float) -> JudgedModel:
        made = fleet(200).model
        values = np.random.default_rng(2).normal(3, 0.01, (60, 200)).astype(np.float32)
        values[:, 7] += 0.06
        halves = np.full(values.shape, 0.02, np.float32)
        halves[:, 7] = half
        return judged_model(HardwareModel("m", made.nodes, made.rows, values, halves))

    assert names(judge(0.02)) >= {"node7"}
    assert "node7" not in names(judge(0.08))


def test_few_nodes_and_rows_that_few_have_name_none() -> None:
    assert not fleet(3, lambda values: values.__setitem__((slice(None), 0), 9)).named

    def sparse(values: NDArray[np.float32]) -> None:
        values[0, 3:] = np.nan
        values[0, 0] += 2
        values[1] = np.nan

    assert not [one for one in fleet(200, sparse).named if one.effects[0].rows == (0,)]


# ---- a default run's rows on 22 nodes -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    packed = Path(__file__).parents[1] / "recordings" / "rows_of_a_default_run.json.xz"
    rows: dict[str, Any] = json.loads(lzma.decompress(packed.read_bytes()))
    return rows


def equal_nodes(
    recorded: dict[str, Any], seed: int, plant: Callable[[Row, HardwareModel], bool], by: float = 0
) -> JudgedModel:
    """22 nodes with the rows of a recorded run. A node is slower or faster by 0.5 % as a whole and by 0.5 % in each
    probe, and each row errs by as much as the recorded one does. by: how much slower node 5 is in some of its rows."""
    chance, nodes, found = np.random.default_rng(seed), 22, recorded["rows"]
    words = ("probe", "metric", "parameters", "abi", "unit", "better")
    common: dict[str, Any] = {"revision": 1, "target": "local", "clock": "hardware", "status": "ok"}
    rows = [Row(**{word: one[word] for word in words}, **common) for one in found]
    _, probes = np.unique([one.probe for one in rows], return_inverse=True)
    costs = 0.005 * (chance.normal(size=nodes) + chance.normal(size=(probes.max() + 1, nodes))[probes])
    costs[[not is_in_time(one) for one in rows]] = 0
    errors = np.array([np.hypot(one["error"], one["runs_sd"]) for one in found])
    values = (costs + errors[:, None] * chance.normal(size=costs.shape)).astype(np.float32)
    halves = [np.log(one["high"] / one["low"]) / 2 if one["layouts"] > 1 else np.nan for one in found]
    wide = np.repeat(np.array(halves, np.float32)[:, None], nodes, 1)
    caches = (Cache(3, "unified", recorded["last_cache"]),)
    model = HardwareModel("m", [f"node{at}" for at in range(nodes)], rows, values, wide, caches)
    ill = np.array([is_in_time(one) and plant(one, model) for one in rows])
    model.values[ill, 5] += np.log1p(by)
    model.values[[is_rate(one) for one in rows]] *= -1
    return judged_model(model)


def in_memory(one: Row, model: HardwareModel) -> bool:
    return model.part(one) == MEMORY


@pytest.mark.parametrize(("plant", "by"), [*((in_memory, by) for by in (0.12, 0.16)), (lambda *_: True, 0.08)])
def test_what_was_planted_into_a_default_run_is_named_with_its_size(
    recorded: dict[str, Any], plant: Callable[[Row, HardwareModel], bool], by: float
) -> None:
    """Half of the rows of a bandwidth are shares of huge pages, which do not move."""
    held = 0
    for seed in range(100, 106):
        (named,) = (one for one in equal_nodes(recorded, seed, plant, by).named if "node5" in one.nodes)
        effect = named.effects[0]
        assert effect.level == ("part" if plant is in_memory else "node")
        held += abs(effect.cost - np.log1p(by)) <= effect.half
    assert held >= 5


def test_equal_nodes_are_not_named(recorded: dict[str, Any]) -> None:
    assert sum(bool(equal_nodes(recorded, seed, lambda *_: False).named) for seed in range(200, 212)) <= 1


def test_the_slowest_node_stands_in_the_table(recorded: dict[str, Any]) -> None:
    found = equal_nodes(recorded, 7, lambda one, _: one.probe == "memory.read_bandwidth", 9)
    table = distribution_table(found, None)
    assert table
    shown = [line.cells for line in table.rows if "memory.read_bandwidth read size" in line.cells[0]]
    assert shown and all(cells[-1] == "node5" for cells in shown)


# ---- from files -----------------------------------------------------------------------------------------------------


def machine(host: str, slower: float = 1.0, kernel: str = "6.1") -> Results:
    made = slowed(healthy(("x86_64",), visits=4, samples=3), slower, layouts=4)
    return with_index(made, machine=replace(made.index.machine, host=host, kernel=kernel))


def dataset(folder: Path, runs: list[Results]) -> Path:
    for one in runs:
        tables = [(name, derived_table(name, one.index)) for name in ("rows", "machines")]
        write_tables(folder, one.index, tables)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = np.random.default_rng(3)
    runs = [machine(f"n{at}", float(np.exp(0.004 * chance.normal())) * (1.1 if at == 7 else 1)) for at in range(24)]
    return dataset(tmp_path_factory.mktemp("fleet"), [*runs, machine("n1"), machine("other", kernel="6.12")])


def test_a_dataset_is_judged_by_hardware_model(written: Path) -> None:
    many, one = report([str(written)])
    assert (len(many.model.nodes), len(one.model.nodes)) == (24, 1)
    assert "kernel 6.1," in many.model.name and "kernel 6.12," in one.model.name
    (named,) = many.named
    assert [node.split("-")[0] for node in named.nodes] == ["n7"]
    told = json.loads(as_json([many, one]))
    assert told["named"][0]["nodes"] == [*named.nodes]
    rows = {(row["probe"], json.dumps(row["parameters"]), row["metric"]): row for row in told["models"][0]["rows"]}
    assert all(row["nodes"] == 24 and row["p10"] <= row["median"] <= row["p90"] for row in rows.values())
    assert any("23 peers" in block for block in blocks([many], whole=False) if isinstance(block, str))


def test_rows_that_only_some_machines_have_are_the_same_in_parts_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [machine(f"n{at}", 1 + at / 100) for at in range(6)]
    fewer = [with_index(one, rows=one.index.rows[: 3 + at]) for at, one in enumerate(runs)]
    folder = dataset(tmp_path / "fleet", fewer)

    def numbers() -> dict[str, list[float]]:
        (read,) = matrix.read_fleet(folder)
        return {full_name(row): np.nan_to_num(line).tolist() for row, line in zip(read.rows, read.values, strict=True)}

    together = numbers()
    monkeypatch.setattr(matrix, "_FILES", 1)
    assert numbers() == together
    assert len({*map(str, together.values())}) > 1


def test_files_that_cannot_be_read_are_named_and_the_others_are_judged(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    broken, foreign = (next(copy.glob(f"rows/machine=n{at}-*/*/*")) for at in (3, 4))
    broken.write_bytes(broken.read_bytes()[:200])
    duckdb.execute(f"COPY (SELECT 'x' AS median) TO '{foreign}' (FORMAT parquet)")
    endless, wide = (next(copy.glob(f"rows/machine=n{at}-*/*/*")) for at in (5, 8))
    for path, lines in (
        (endless, "SELECT r.* FROM r, range(500)"),
        (wide, "SELECT * REPLACE (repeat('x', 60000000) AS probe, key + 1 AS key) FROM r LIMIT 3"),
    ):
        table = f"WITH r AS (FROM read_parquet('{path}', hive_partitioning = false)) {lines}"
        duckdb.execute(f"COPY ({table}) TO '{path}.new' (FORMAT parquet, COMPRESSION zstd)")
        Path(f"{path}.new").replace(path)
    said: list[str] = []
    listen(said.append)
    many, _ = report([str(copy)])
    assert sum(str(path) in line for line in said for path in (broken, foreign, endless, wide)) == 4
    assert sum(~np.isnan(many.costs[0])) == 20
    assert many.named[0].nodes[0].startswith("n7-")


@pytest.mark.parametrize("above", ["cpu=any", "kernel=6.1", "status=ok", "median=1", "key=1", "machine=x", "st*r [a]"])
def test_no_folder_above_a_dataset_means_anything(written: Path, tmp_path: Path, above: str) -> None:
    there = tmp_path / above / "data*set"
    shutil.copytree(written, there)
    for had, found in zip(report([str(written)]), report([str(there)]), strict=True):
        assert (found.model.name, found.model.nodes) == (had.model.name, had.model.nodes)
        assert np.array_equal(found.model.values, had.model.values, equal_nan=True)


def test_a_name_with_a_star_is_a_name(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    path = next(copy.glob("rows/machine=n2-*/*/*"))
    shutil.copy2(path, path.with_name("*.parquet"))
    had, found = report([str(written)])[0], report([str(copy)])[0]
    assert np.allclose(found.model.values, had.model.values, equal_nan=True)


def test_a_pipe_among_the_files_is_named_and_left_out(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would wait for it."""
    copy, bounded = tmp_path / "copy", matrix._bounded
    shutil.copytree(written, copy)
    pipe = next(copy.glob("rows/machine=*/*/*")).with_name("pipe.parquet")
    os.mkfifo(pipe)

    def look(db: duckdb.DuckDBPyConnection, files: list[str]) -> list[str]:
        assert str(pipe) not in files
        return bounded(db, files)

    monkeypatch.setattr(matrix, "_bounded", look)
    said: list[str] = []
    listen(said.append)
    report([str(copy)])
    assert sum(f"{pipe} is left out" in line for line in said) == 1


def test_a_file_that_contradicts_its_own_folders_is_named_and_left_out(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    day, host, model = (next(copy.glob(f"rows/machine=n{at}-*/*/*")) for at in (3, 4, 5))
    (wrong_day := day.parents[1] / "day=1999-01-01").mkdir()
    day = day.rename(wrong_day / day.name)
    host = host.rename(next(copy.glob("rows/machine=n6-*/*")) / "other.parquet")
    lines = f"SELECT * REPLACE ('another' AS cpu) FROM read_parquet('{model}', hive_partitioning = false)"
    duckdb.execute(f"COPY ({lines}) TO '{model}'")
    record = next(copy.glob("machines/machine=n8-*"))
    record.rename(record.with_name("machine=n8-00000000"))
    said: list[str] = []
    listen(said.append)
    many, _ = report([str(copy)])
    assert len(many.model.nodes) == 23 and sum(~np.isnan(many.costs[0])) == 20
    for path in (day, host, model, record.with_name("machine=n8-00000000")):
        assert sum(str(path) in line for line in said) == 1, path


def test_what_is_no_fleet_ends_with_a_sentence(tmp_path: Path) -> None:
    two = dataset(tmp_path / "two", [machine("a"), machine("b", kernel="6.12")])
    with pytest.raises(Failure, match="in common") as caught:
        report([str(two)])
    assert caught.value.exit_code == 6
    for path in two.glob("*/*/*/*"):
        path.write_bytes(b"PAR1 no")
    with pytest.raises(Failure, match="machines can be read") as caught:
        report([str(two)])
    assert caught.value.exit_code == 5
    with pytest.raises(Failure) as caught:
        report([str(tmp_path / "nothing")])
    assert caught.value.exit_code == 2


def test_the_page_escapes_names_and_its_map_has_the_ill_nodes_first(written: Path) -> None:
    many, _ = report([str(written)])
    map_: dict[str, Any] = heat_map(many)
    assert map_["nodes"][0].startswith("n7-") and map_["ill"] == 1
    cells = np.frombuffer(base64.b64decode(map_["cells"]), np.int8).reshape(len(map_["rows"]), -1)
    assert cells.shape == (len(map_["rows"]), 24)
    assert abs(np.median(cells[:, 0][cells[:, 0] != -128])) == pytest.approx(np.log(1.1) * map_["scale"], abs=3)
    hostile = HardwareModel("</script><b>", ["<img>", *"abc"], many.model.rows[:1], *(np.ones((1, 4), np.float32),) * 2)
    text = page([judged_model(hostile)]).decode()
    assert "<img>" not in text and "</script><b>" not in text


def test_the_verb_prints_the_sentence_the_json_and_the_page(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "report", str(written), "--all"]) == TRIPPED
    said = capsys.readouterr().out
    assert "1 of 24 nodes differ from their peers" in " ".join(said.split()) and "n7-" in said
    assert main(["fleet", "report", str(written), "--format", "html", "-o", str(tmp_path / "fleet.html")]) == TRIPPED
    assert "<canvas" in (tmp_path / "fleet.html").read_text()
    assert main(["fleet", "report", str(written), "--format", "json"]) == TRIPPED
    (told,) = json.loads(capsys.readouterr().out)["named"]
    assert main(["fleet", "report", str(written), "--format", "drain"]) == TRIPPED
    assert capsys.readouterr().out == f"n7 toll: {told['reasons'][0]}\n"
    assert main(["fleet", "report", str(written), "--format", "csv"]) == 2
    assert main(["fleet", "report", str(tmp_path / "none"), str(tmp_path / "no")]) == 2


def test_a_node_beyond_an_absolute_limit_is_named_though_its_peers_are_slow_too(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typical = next(one for one in machine("x").index.rows if one.unit == "ns" and one.median and one.median > 1)
    level = 1.07 * (typical.median or 0)
    (tmp_path / "limits.toml").write_text(f'[[rows]]\nrow = "{full_name(typical)}"\nat_most = "{level:.6f} ns"\n')
    (judged, _) = report([str(written)], read_limits(None, tmp_path / "limits.toml").bounds)
    assert [node.split("-")[0] for node, _ in judged.broken] == ["n7"]
    limits = ("--limits", str(tmp_path / "limits.toml"))
    assert main(["fleet", "report", str(written), *limits, "--format", "drain"]) == TRIPPED
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"n7 toll: {full_name(typical)}: ")


def test_equal_machines_have_equal_names() -> None:
    assert machine_name(machine("a").index.machine) == machine_name(machine("a", 2.0).index.machine)
    assert machine_name(machine("a").index.machine) != machine_name(machine("b").index.machine)
