# SPDX-License-Identifier: Apache-2.0
"""What is only read starts no process and makes no connection: a run's folder is data, and may come from anybody.

TOLL_FOLDERS=10000 makes more of them."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fakes import tree
from storm import readers
from tollmeter.cli.main import main
from tollmeter.library import places, workloads
from tollmeter.model import Select, Suite, Workload
from tollmeter.store.request import NAME, Request, read_request, write_request

FOLDERS = int(os.environ.get("TOLL_FOLDERS", "40"))
STARTS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "socket.connect"}
VERBS = (
    ["show", "mine"], ["show", "mine", "--format", "json"], ["show", "mine", "--raw"], ["report", "mine"],
    ["export", "mine", "--out", "rows.csv"], ["list", "runs"], ["run", "--dry-run", "--against", "mine"],
    ["run", "--dry-run", "--against", "./mine"], ["run", "--resume", "mine", "--dry-run"],
)  # fmt: skip
PLACES = ("ssh:host", "local", "qemu-user:arm", "guest:x32", "serial:/dev/null", "local+pty", "", "x")

seen: list[str] = []
sys.addaudithook(lambda event, _: seen.append(event) if event in STARTS else None)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Path]:
    """A checkout of fakes with one run."""
    root = tree(tmp_path / "checkout", loop="good")
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, path in (("ROOT", root), ("RUNS", root / "runs"), ("SUITES", root / "suites")):
        monkeypatch.setattr(places, name, path)
    monkeypatch.setattr(workloads, "ROOT", root)
    assert main(["run", "--out", "mine", "--quiet", "--budget", "60s"]) == 0
    capfd.readouterr()
    yield root
    seen.clear()


def changed(request: Request, chance: random.Random, evil: Path) -> Request:
    """Names places, commands and files in up to three of the fields."""
    runs = Workload(name="evil", what="w", start=("sh", "-c", f"id >{evil}"), verify="x", build=(("touch", f"{evil}"),))
    suite = request.suite
    fields = {
        "targets": tuple(chance.choices(PLACES, k=chance.randrange(3))),
        "peer": chance.choice(("host", "-oProxyCommand=id", "")),
        "folder": chance.choice((f"{evil.parent}", "/dev", "")),
        "abis": tuple(chance.choices(("x86_64", "ia32", "arm-hard", "../x", "native"), k=chance.randrange(3))),
        "against": (chance.choice(("ia32", "kernel.loop", "placement=one_cpu")),),
        "words": (f"{evil.parent}/evil.toml",),
        "cpus": (chance.randrange(4096),),
        "suite": chance.choice((
            msgspec.structs.replace(suite, workload=(runs,)),
            msgspec.structs.replace(suite, select=(Select(probe="*", target=("ssh:*",), abi=("arm-hard", "native")),)),
            Suite(name="s", question="?", select=(Select(probe="workload.evil"),), profile=suite.select),
        )),
    }  # fmt: skip
    chosen = chance.sample(list(fields), chance.randrange(1, 4))
    return msgspec.structs.replace(request, **{name: fields[name] for name in chosen})


def test_no_verb_that_reads_starts_anything_whatever_a_run_names(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    whole, request = (root / "mine" / NAME).read_bytes(), read_request(root / "mine")
    for number in range(FOLDERS):
        write_request(root / "mine", changed(request, chance, root / "ran"))
        if number % 3 == 0:
            kept = [(root / "mine" / NAME).read_bytes(), whole]
            (root / "mine" / NAME).write_bytes(readers.changed(kept, chance))
        seen.clear()
        for verb in (chance.choice(VERBS), VERBS[-1]):
            code = main(verb)
            assert seen == [], (seed, number, verb)
            assert code in (0, 1, 2, 4, 5, 6), (seed, number, verb)
        capfd.readouterr()
    assert not (root / "ran").exists()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("targets", ("ssh:host.invalid",), ["--target", "ssh:host.invalid"]),
        ("peer", "host.invalid", ["--peer", "host.invalid"]),
        ("folder", "/tmp", ["--folder", "/tmp"]),
    ],
)
def test_a_place_that_a_run_names_is_used_only_if_it_is_typed_too(
    root: Path, capfd: pytest.CaptureFixture[str], field: str, value: object, words: list[str]
) -> None:
    request = read_request(root / "mine")
    write_request(root / "mine", msgspec.structs.replace(request, **{field: value}))
    seen.clear()
    for more in ([], ["--dry-run"], [words[0], "local" if field == "targets" else "/dev"]):
        assert main(["run", "--resume", "mine", *more]) == 2
        assert " ".join(words) in capfd.readouterr().err
    assert seen == []
    assert main(["run", "--resume", "mine", "--dry-run", *words]) in (0, 1, 5)


def test_the_machine_is_compared_before_anything_is_started(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    journal = root / "mine/journal.jsonl"
    named = f'"host":"{os.uname().nodename}"'.encode()
    data = journal.read_bytes()
    assert named in data
    journal.write_bytes(readers._sealed(data.replace(named, b'"host":"another"')))
    seen.clear()
    assert main(["run", "--resume", "mine"]) == 5
    assert "another machine" in capfd.readouterr().err
    assert seen == []


SUITE = """
question = "?"
[[workload]]
name = "evil"
what = "?"
start = ["sh", "-c", "echo x"]
verify = "x"
build = [["touch", "{ran}"]]
"""


def test_a_suite_file_with_commands_is_trusted_once_and_by_its_content(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = root / "ev.toml"
    path.write_text(SUITE.format(ran=root / "ran"))
    assert main(["run", str(path), "--dry-run"]) in (0, 6)
    assert not (root / "ran").exists()
    capfd.readouterr()
    assert main(["run", str(path), "--quiet"]) == 2
    assert f"--trust {path}" in capfd.readouterr().err
    assert not (root / "ran").exists()
    assert main(["run", str(path), "--quiet", "--trust", str(path)]) != 2
    assert main(["run", str(path), "--quiet"]) != 2
    path.write_text(path.read_text() + "\n")
    assert main(["run", str(path), "--quiet"]) == 2


def test_an_abi_file_of_the_current_folder_is_trusted_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    (here / "abis").mkdir(parents=True)
    shutil.copy(next((root / "abis").glob("*.toml")), here / "abis/mine.toml")
    monkeypatch.chdir(here)
    assert main(["run", "--abi", "mine", "--quiet"]) == 2
    assert "--trust" in capfd.readouterr().err
    seen.clear()
    assert main(["run", "--abi", "mine", "--quiet", "--trust", "abis/mine.toml"]) == 5
    assert "no-such-compiler" in capfd.readouterr().err
