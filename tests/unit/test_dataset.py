# SPDX-License-Identifier: Apache-2.0
"""A dataset of several runs: read by DuckDB's views and by Polars, and without doubles."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import duckdb
import polars
import pytest
from msgspec.structs import replace

from support.example_runs import healthy, slowed, with_index
from tollmeter.library.derive import TABLES, derived_table, raw_samples
from tollmeter.model import Failure, Index, Results
from tollmeter.store.export import machine_name, write_tables

RECORDED = Path(__file__).resolve().parents[1] / "recordings/format-2"


def results(host: str, run: str, slower: float = 1.0) -> Results:
    made = slowed(healthy(("x86_64",), visits=4, samples=3), slower)
    return with_index(made, run=replace(made.index.run, id=run), machine=replace(made.index.machine, host=host))


def put(folder: Path, one: Results) -> Index:
    tables = ((name, raw_samples(one) if name == "samples" else derived_table(name, one.index)) for name in TABLES)
    write_tables(folder, one.index, tables)
    return one.index


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    for one in (
        results("a", "first"),
        results("a", "first"),
        results("b", "first", 1.5),
        results("../b", "../../second"),
    ):
        put(folder, one)
    return folder


@pytest.fixture
def views(dataset: Path, root: Path) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute(f"SET file_search_path = '{dataset}'")
    db.execute((root / "docs/views.sql").read_text())
    return db


def test_a_run_that_is_written_again_replaces_its_files(views: duckdb.DuckDBPyConnection) -> None:
    one = results("a", "first")
    lines = {
        "rows": len(one.index.rows), "tolls": len(one.index.tolls), "findings": len(one.index.findings), "machines": 1,
        "samples": sum(len(outcome.samples) for outcome in one.outcomes),
    }  # fmt: skip
    for name in TABLES:
        found = views.execute(f"SELECT machine, count(*) FROM {name} GROUP BY ALL").fetchall()
        assert [count for _, count in found] == [lines[name]] * 3, name


def test_names_leave_no_folder(dataset: Path) -> None:
    files = [path.relative_to(dataset) for path in dataset.rglob("*") if path.is_file()]
    assert len(files) == 3 * len(TABLES)
    assert {len(path.parts) for path in files} == {4}


def test_two_machines_are_compared_by_a_view(views: duckdb.DuckDBPyConnection) -> None:
    first, second = (machine_name(results(host, "first").index.machine) for host in "ab")
    words = "SELECT ratio, ratio_low, ratio_high FROM two_machines(?, ?)"
    found = views.execute(words, [first, second]).fetchall()
    assert len(found) > 100 and {round(ratio, 6) for ratio, _, _ in found} == {1.5, round(1 / 1.5, 6)}, (
        "times and rates"
    )
    assert all(low <= ratio <= high for ratio, low, high in found)


def test_polars_reads_what_duckdb_reads(dataset: Path, views: duckdb.DuckDBPyConnection) -> None:
    for name in TABLES:
        frame = polars.scan_parquet(dataset / name, hive_partitioning=True).collect()
        assert frame.height == lines(views, name)
        assert {*frame.columns} == {*views.table(name).columns}
    rows = polars.scan_parquet(dataset / "rows", hive_partitioning=True).collect()
    told = views.execute("SELECT sum(median), sum(samples) FROM rows").fetchall()[0]
    assert (rows["median"].sum(), rows["samples"].sum()) == pytest.approx(told)


def test_clickhouse_reads_what_duckdb_reads(dataset: Path, views: duckdb.DuckDBPyConnection) -> None:
    chdb = pytest.importorskip("chdb", reason="ClickHouse in a process (140 MB) is not among the test packages")
    for name in TABLES:
        files = f"file('{dataset}/{name}/*/*/*.parquet', Parquet)"
        assert int(str(chdb.query(f"SELECT count() FROM {files}", "TSV"))) == lines(views, name)
    asked = (
        f"SELECT sum(median), uniqExact(extract(_path, 'machine=([^/]+)')) FROM file('{dataset}/rows/*/*/*.parquet')"
    )
    total, machines = str(chdb.query(asked, "TSV")).split()
    assert (float(total), int(machines)) == pytest.approx(medians(views))


def test_spark_reads_what_duckdb_reads(dataset: Path, views: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyspark.sql", reason="Spark (400 MB and a JVM) is not among the test packages")
    if not shutil.which("java"):
        pytest.skip("Spark needs java")
    library = f"org/xerial/snappy/native/Linux/{platform.machine()}/libsnappyjava.so"
    with ZipFile(next(Path(sql.__file__).parents[1].glob("jars/snappy-java-*.jar"))) as jar:
        native = Path(jar.extract(library, tmp_path)).parent
    # By itself it takes that of musl wherever Debian's package of musl is installed.
    named = f"-Dorg.xerial.snappy.lib.path={native} -Dorg.xerial.snappy.lib.name=libsnappyjava.so"
    words = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": named}
    spark = sql.SparkSession.builder.master("local[1]").config(map=words).getOrCreate()
    try:
        tables = {name: spark.read.option("mergeSchema", "true").parquet(str(dataset / name)) for name in TABLES}
        assert {name: table.count() for name, table in tables.items()} == {n: lines(views, n) for n in TABLES}
        found = tables["rows"].selectExpr("sum(median)", "count(DISTINCT machine)").collect()[0]
    finally:
        spark.stop()
    assert tuple(found) == pytest.approx(medians(views))


def lines(views: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(views.table(table).count("*").fetchall()[0][0])


def medians(views: duckdb.DuckDBPyConnection) -> tuple[float, int]:
    """The sum of all rows' medians, and the number of machines."""
    found = views.execute("SELECT sum(median), count(DISTINCT machine) FROM rows").fetchall()[0]
    return float(found[0]), int(found[1])


@pytest.mark.parametrize("link", ["rows", "samples", "rows/machine=a", "machines/machine=a*/day"])
def test_nothing_is_written_through_a_link_of_a_dataset(tmp_path: Path, link: str) -> None:
    one, elsewhere = results("a", "first"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    put(tmp_path / "whole", one)
    place = next((tmp_path / "whole").glob(f"{link}*"))
    there = tmp_path / "dataset" / place.relative_to(tmp_path / "whole")
    there.parent.mkdir(parents=True)
    there.symlink_to(elsewhere)
    with pytest.raises(Failure, match="is a link"):
        put(tmp_path / "dataset", one)
    assert not [*elsewhere.iterdir()]


def test_a_folder_above_a_dataset_is_no_column_of_its_views(dataset: Path, tmp_path: Path, root: Path) -> None:
    there = tmp_path / "median=1" / "machine=x" / "data"
    shutil.copytree(dataset, there)
    db = duckdb.connect()
    db.execute(f"SET file_search_path = '{there}'")
    db.execute((root / "docs/views.sql").read_text())
    assert medians(db) == pytest.approx(medians_of(dataset))


def medians_of(folder: Path) -> tuple[float, int]:
    frame = polars.scan_parquet(folder / "rows", hive_partitioning=True).collect()
    return frame["median"].sum(), frame["machine"].n_unique()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="file") as caught:
        put(tmp_path / "file", results("a", "first"))
    assert caught.value.exit_code == 5


def test_duckdb_prints_nothing_when_a_verb_ends(tmp_path: Path) -> None:
    """It names each object that is left when its process ends."""
    shutil.copytree(RECORDED, tmp_path / "run")
    words = ["export", "run", "--format", "parquet", "-o", "rows.parquet"]
    ended = subprocess.run(
        [sys.executable, "-m", "tollmeter", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "leaked" not in ended.stderr and (tmp_path / "rows.parquet").exists()
