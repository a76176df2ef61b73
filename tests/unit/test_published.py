# SPDX-License-Identifier: Apache-2.0
"""What is given away names nobody, what is read is checked, and the gallery of it is small."""

from __future__ import annotations

import hashlib
import json
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from support.example_runs import HOSTILE, healthy, with_index
from support.recordings import copied
from tollmeter.cli.main import main
from tollmeter.fleet.gallery import single_page, write_site
from tollmeter.fleet.published import REMOVED, read_published, write_published
from tollmeter.fleet.publishing import publish, published
from tollmeter.library import places
from tollmeter.model import Cache, Failure, Index, Results
from tollmeter.notices import listen
from tollmeter.report import page
from tollmeter.report.peers import peers_table
from tollmeter.report.tables import cpu_of

HOST, USER, SERIAL, TOKEN = "build7.corp.example", "alice", "SN-48151623", "10.20.30.40"
HOME = f"/home/{USER}/secret project"
PLANTED = (
    f"{HOST} build7 {USER} {HOME} {SERIAL} {TOKEN} {USER}@corp.example 6f1c2d3e-0000-4111-8222-333344445555 "
    "fe80::21a:2bff:fe3c:4d5e 00-1A-2B-3C-4D-5F 0123456789abcdef0123456789abcdef -I/opt/customer C:\\Users\\x"
)
SECRETS = (HOST, "build7", USER, SERIAL, TOKEN, "corp.example", "6f1c2d3e", "/home",
           "fe80:", "00-1A", "0123456789abcdef", "customer", "Users\\")  # fmt: skip
CLOSED = {"clock", "unit", "better", "status", "state", "kind", "verdict", "severity", "cause", "started", "probe"}


def planted(node: Any, field: str = "") -> Any:
    """With the secrets in every text that may be any text."""
    if isinstance(node, str):
        return node if field in CLOSED else f"{node} {PLANTED}"
    if isinstance(node, dict):
        return {name: planted(value, name) for name, value in node.items()}
    return [planted(item, field) for item in node] if isinstance(node, list) else node


def owned() -> Results:
    """A run whose every text names its owner."""
    results = healthy(("x86_64",), visits=4, samples=3)
    facts = {"board_serial": SERIAL, "governor": "performance", "login": USER}
    machine = replace(results.index.machine, host=HOST, facts=facts)
    ours = places.sources()
    rows = tuple(row for row in results.index.rows if row.probe in ours)
    run = replace(results.index.run, folder=f"/home/{USER}/runs/x")
    return with_index(results, machine=machine, run=run, rows=rows)


def leaks(content: str) -> list[str]:
    return [secret for secret in SECRETS if secret.lower() in content.lower()]


def test_no_text_of_a_run_leaks(tmp_path: Path) -> None:
    results = owned()
    index = msgspec.convert(planted(msgspec.to_builtins(results.index)), Index)
    index = replace(index, machine=replace(index.machine, host=HOST), run=replace(index.run, folder=HOME))
    index = replace(index, machine=replace(index.machine, facts={**index.machine.facts, "board_serial": SERIAL}))
    assert set(leaks(msgspec.json.encode(index).decode())) == {*SECRETS}
    made = publish(replace(results, index=index))
    write_published(made, tmp_path / "file.json")
    assert leaks((tmp_path / "file.json").read_text()) == []
    write_site([made], tmp_path / "site")
    assert [leaks(path.read_text()) for path in (tmp_path / "site").rglob("*.*") if path.is_file()] == [[], []]


def test_names_of_rows_that_hold_a_secret_are_left_out_with_the_row() -> None:
    results = owned()
    first, *others = results.index.rows
    private = (replace(first, probe="corp.private_probe"), replace(first, parameters={"command": f"run {USER}"}))
    made = publish(with_index(results, rows=(*private, *others)))
    assert len(made.index.rows) == len(others)


def test_what_is_kept_is_what_was_measured() -> None:
    results = owned()
    made = publish(results)
    assert made.index.machine.facts == {"governor": "performance"}
    assert (
        made.index.machine.cpu == results.index.machine.cpu
        and made.index.machine.caches == results.index.machine.caches
    )
    assert [row.median for row in made.index.rows] == [row.median for row in results.index.rows]
    assert {toll.toll for toll in made.index.tolls} <= {toll.toll for toll in results.index.tolls}
    assert all(row.reason == REMOVED for row in made.index.rows if row.status != "ok")
    assert made.index.hierarchy


def test_a_file_says_first_what_is_removed_and_reads_back(tmp_path: Path) -> None:
    made = publish(owned())
    write_published(made, tmp_path / "a.json")
    assert [*json.loads((tmp_path / "a.json").read_text())][:3] == ["format", "removed", "kept"]
    assert read_published(tmp_path / "a.json") == made
    assert publish(owned()).id == made.id and made.latency


def test_a_machine_stands_among_those_that_were_published(tmp_path: Path) -> None:
    results = healthy()

    def times(factor: float) -> Results:
        tolls = (replace(toll, **{name: (getattr(toll, name) or 0) * factor for name in ("value", "low", "high")})
                 for toll in results.index.tolls if toll.value)  # fmt: skip
        levels = (replace(level, read_bytes_per_second=None, read_low=None, read_high=None)
                  for level in results.index.hierarchy)  # fmt: skip
        return with_index(results, tolls=tuple(tolls), hierarchy=tuple(levels))

    for number, factor in enumerate((0.5, 1.0, 2.0, 4.0)):
        write_published(publish(times(factor)), tmp_path / f"{number}.json")
    peers = [peer.index for peer in published([str(tmp_path)])]
    table = peers_table(times(1.0), peers)
    assert table and len(peers) == 4
    told = {str(line.cells[0]): [str(cell) for cell in line.cells[2:5]] for line in table.rows}
    assert told["system call"] == ["1", "1", "2"]
    assert told["L1d latency"] == ["–", "4", "–"] and "L1d read" not in told
    assert peers_table(with_index(results, tolls=(), hierarchy=()), peers) is None
    asides = ['id="peers"' in page.render(results, peers=some) for some in (peers, ())]
    assert asides == [True, False]


def test_a_file_from_before_there_was_a_curve_keeps_its_id(tmp_path: Path) -> None:
    made = publish(owned())
    index, pairs, load = made.index, made.pairs, made.load
    old = hashlib.sha256(msgspec.json.encode((index, pairs, load))).hexdigest()[:12]
    write_published(replace(made, id=old, latency=()), tmp_path / "old.json")
    assert read_published(tmp_path / "old.json").id == old != made.id


@pytest.mark.parametrize(
    ("cpu", "family", "model", "l2", "named"),
    [
        ("AMD EPYC", "25", "1", 512 << 10, "AMD EPYC (Zen 3)"),
        ("AMD EPYC", "26", "2", 1 << 20, "AMD EPYC (Zen 5)"),
        ("Intel(R) Xeon(R) Processor", "6", "143", 2 << 20, "Intel Xeon (Sapphire Rapids)"),
        ("Intel Xeon E-2388G", "6", "167", 512 << 10, "Intel Xeon E-2388G (Rocket Lake)"),
        ("Intel(R) Xeon(R) Processor", "6", "167", 2 << 20, "Intel Xeon"),
        ("Intel Xeon Processor (Skylake)", "6", "85", 1 << 20, "Intel Xeon (Skylake)"),
        ("AMD EPYC", "25", "17", 512 << 10, "AMD EPYC (Zen 4)"),
        ("AMD EPYC", "99", "1", 512 << 10, "AMD EPYC"),
        ("Any", "", "", 512 << 10, "Any"),
    ],
)
def test_a_cpu_is_named_with_its_microarchitecture(cpu: str, family: str, model: str, l2: int, named: str) -> None:
    """A model number that another CPU has is not named: the guest of a Xeon with AMX reports that of a Rocket Lake."""
    facts = {"cpu_family": family, "cpu_model_number": model}
    caches = (Cache(level=2, kind="unified", size_bytes=l2, line_bytes=64, ways=16, shared_cpus="0", source="sysfs"),)
    machine = replace(healthy().index.machine, cpu=cpu, facts=facts, caches=caches)
    assert cpu_of(machine) == named


@pytest.mark.parametrize(
    ("extensions", "named"),
    [
        ("", "Intel Xeon"),
        ("amx_bf16 amx_tile amx_int8", "Intel Xeon (Sapphire or Emerald Rapids)"),
        ("amx_bf16 amx_tile amx_int8 amx_fp16", "Intel Xeon (Granite Rapids)"),
    ],
)
def test_matrix_extensions_name_a_core_whose_model_is_hidden(extensions: str, named: str) -> None:
    facts = {"cpu_family": "6", "cpu_model_number": "167", "matrix_extensions": extensions}
    l2 = Cache(level=2, kind="unified", size_bytes=2 << 20, line_bytes=64, ways=16, shared_cpus="0", source="sysfs")
    machine = replace(healthy().index.machine, cpu="Intel(R) Xeon(R) Processor", facts=facts, caches=(l2,))
    assert cpu_of(machine) == named


def test_published_latencies_stand_beside_the_memory_of_a_core_that_they_are_of() -> None:
    results = healthy()
    for model, stated in (("1", "46 for L3"), ("98", "50 for L3"), ("200", "")):
        facts = {"cpu_family": "25", "cpu_model_number": model}
        machine = replace(results.index.machine, facts=facts, caches=())
        shown = unescape(page.render(with_index(results, machine=machine))).replace("\u00a0", " ")
        assert stated in shown and ("Published for Zen" in shown) == bool(stated)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(format=1),
        lambda told: told.update(id="../../x"),
        lambda told: told.update(pairs=[{"first": "a", "second": 1, "ns": 1}]),
        lambda told: told["index"]["rows"][0].update(low=9e9),
        lambda told: told.pop("index"),
    ],
)
def test_a_hostile_file_is_named_and_the_others_are_shown(tmp_path: Path, change: Any) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write_published(publish(owned()), good)
    told = json.loads(good.read_text())
    change(told)
    bad.write_text(json.dumps(told))
    said: list[str] = []
    listen(said.append)
    assert len([*published([str(bad), str(good), str(good)])]) == 1
    assert len(said) == 1 and "bad.json" in said[0]
    with pytest.raises(Failure) as caught:
        next(published([str(bad)]))
    assert caught.value.exit_code == 5


def test_texts_of_a_file_end_no_script(tmp_path: Path) -> None:
    made = publish(owned())
    hostile = with_index(made, machine=replace(made.index.machine, cpu=HOSTILE, kernel=HOSTILE))
    write_site([hostile], tmp_path)
    for path in tmp_path.rglob("*.*s"):
        assert "<img" not in path.read_text()
    assert "<img" not in (tmp_path / "index.html").read_text() and "<img" not in single_page([hostile], [HOSTILE])


def test_a_thousand_machines_are_under_fifty_megabytes(tmp_path: Path) -> None:
    made = publish(owned())
    some = [replace(made, id=f"{at:012x}") for at in range(20)]
    write_site(some, tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 20 * 50_000
    write_site(some[:3], tmp_path)
    assert len([*tmp_path.glob("machines/*.js")]) == 3


@pytest.fixture
def runs(own_runs: Path) -> Path:
    """The folder beside those of three runs of one quiet machine."""
    for name in ("01", "13", "21"):
        copied(f"repeated/{name}", own_runs / f"r{name}")
    return own_runs.parent


def test_the_verbs_write_a_dataset_a_file_a_site_and_a_page(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    for _ in range(2):
        assert main(["export", "--dataset", "results", "r01", "r13", "r99"]) == 2
        said = capsys.readouterr()
        assert "r99" in said.err and "2 of 3 runs" in said.out
    assert len([*Path("results/samples").glob("*/*/*.parquet")]) == 2
    assert main(["export", "--dataset", "results", "--what", "rows"]) == 2
    assert main(["export", "r01", "r13"]) == 2
    assert main(["fleet", "report", "results"]) == 6
    assert main(["publish", "r01", "-o", "file.json"]) == 0
    assert capsys.readouterr().out.startswith("Removed:")
    assert main(["gallery", "file.json", "r01", "r21", "-o", "site"]) == 0
    assert "2 machines" in capsys.readouterr().out
    assert len([*Path("site/machines").glob("*.js")]) == 2
    assert main(["compare", "--machines", "r01", "r13", "r21", "--format", "html", "-o", "three.html"]) == 0
    assert read_published(Path("file.json")).id in Path("three.html").read_text()
    assert main(["gallery", "file.json", "-o", "file.json"]) == 5


def test_facts_of_the_processor_keep_their_values() -> None:
    """`ghostwrite` is no host, and "Not affected" no secret."""
    facts = {"vulnerability_ghostwrite": "Not affected", "vulnerability_mds": "Not affected", "hostname": HOST}
    facts |= {f"vulnerability_{USER}": "Vulnerable", "login_user": USER}
    results = owned()
    machine = replace(results.index.machine, facts=facts)
    made = publish(with_index(results, machine=machine))
    assert made.index.machine.facts == dict.fromkeys(("vulnerability_ghostwrite", "vulnerability_mds"), "Not affected")


def test_a_file_whose_content_is_not_that_of_its_id_is_refused(tmp_path: Path) -> None:
    """It would stand in the gallery in place of the machine whose id it took."""
    write_published(publish(owned()), tmp_path / "file.json")
    told = json.loads((tmp_path / "file.json").read_text())
    told["index"]["machine"]["cpu"] = "another"
    (tmp_path / "file.json").write_text(json.dumps(told))
    with pytest.raises(Failure):
        read_published(tmp_path / "file.json")
