# SPDX-License-Identifier: Apache-2.0
"""`toll fleet submit --hosts` over a server of ssh on this machine, and what a folder of journals may hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import target_stands
from tollmeter.cli.main import main
from tollmeter.store.journal import read_journal
from tollmeter.targets.ssh import CONFIGURATION

PROBES = ("kernel.loop", "kernel.function_call")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a submission to two hosts that answer and one that does not. No test changes it."""
    target_stands.need("ssh", "ssh-keygen")
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "there").mkdir()
    with (
        target_stands.sshd(folder) as options,
        tempfile.TemporaryDirectory() as passing,
        pytest.MonkeyPatch.context() as patch,
    ):
        port = options[options.index("-p") + 1]
        (folder / "config").write_text(
            f"Host one two\n  Port {port}\nHost gone\n  Port 1\nHost *\n  HostName 127.0.0.1\n"
            f"  HostKeyAlias [127.0.0.1]:{port}\n  IdentityFile {folder}/user\n  UserKnownHostsFile {folder}/known\n"
            f"  SetEnv TMPDIR={folder}/there\n"
        )
        (folder / "hosts").write_text("# of the test\none\ntwo  # twice this machine\n\ngone\n")
        patch.setenv(CONFIGURATION, str(folder / "config"))
        patch.setenv("TMPDIR", passing)
        words = ["--hosts", str(folder / "hosts"), "-o", str(folder / "shared"), "--budget", "1s"]
        assert main(["fleet", "submit", *PROBES, *words]) == 0
        (folder / "hosts").write_text("two\n")
        words[words.index("-o") + 1] = str(folder / "other")
        assert main(["fleet", "submit", PROBES[0], *words]) == 0
    return folder


@pytest.fixture
def shared(fleet: Path, tmp_path: Path, own_runs: Path) -> Path:
    assert not own_runs.exists()
    return Path(shutil.copytree(fleet / "shared", tmp_path / "shared"))


def collected(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["fleet", "collect", str(folder), "--format", "json"])
    return code, {row["node"]: row for row in json.loads(capsys.readouterr().out)}


def journal(shared: Path, host: str) -> Path:
    return shared / "journals" / host / "1.0/journal.jsonl"


def test_hosts_that_answer_are_runs_and_another_is_named(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = collected(shared, capsys)
    assert code == 1
    assert {host: row["state"] for host, row in rows.items()} == {
        "one": "measured",
        "two": "measured",
        "gone": "missing",
    }
    assert "cannot be reached" in rows["gone"]["remarks"]
    assert {row.probe for row in read_journal(Path(rows["one"]["run"])).head.probes} == set(PROBES)


def test_nothing_is_left_on_a_host(fleet: Path) -> None:
    assert not list((fleet / "there").iterdir())


@pytest.mark.parametrize("harm", ["cut", "hostile", "pipe", "absent"])
def test_a_journal_that_is_not_whole_is_no_run(shared: Path, capsys: pytest.CaptureFixture[str], harm: str) -> None:
    path = journal(shared, "two")
    content = path.read_bytes()
    path.unlink()
    if harm == "pipe":
        os.mkfifo(path)
    elif harm != "absent":
        path.write_bytes(content[: len(content) * 2 // 3] if harm == "cut" else b'{"k":"machine","n":0}\n' * 9)
    code, rows = collected(shared, capsys)
    expected = {"cut": "partial", "hostile": "damaged", "pipe": "damaged", "absent": "missing"}
    assert (code, rows["two"]["state"]) == (1, expected[harm])
    assert rows["one"]["run"] and not rows["two"]["run"]
    assert not (shared / "runs/two").exists()


def test_a_second_whole_attempt_counts_nothing(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = journal(shared, "one").parent
    shutil.copytree(first, first.parent / "1.1")
    shutil.copytree(journal(shared, "two").parent, first.parent / "0.9")
    (first.parent / "0.9/journal.jsonl").write_bytes(journal(shared, "two").read_bytes()[:-3000])
    _, rows = collected(shared, capsys)
    assert Path(rows["one"]["journal"]).name == "1.0"
    assert "3 attempts" in rows["one"]["remarks"]
    assert sorted(path.name for path in (shared / "runs").iterdir()) == ["one", "two"]


def test_a_node_with_another_bundle_is_named(fleet: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(journal(fleet / "other", "two"), journal(shared, "two"))
    _, rows = collected(shared, capsys)
    assert "another bundle" in rows["two"]["remarks"] and rows["two"]["run"]
    assert "another bundle" not in rows["one"]["remarks"]


def test_a_clock_that_is_wrong_is_named(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = journal(shared, "one").parent / "started"
    when = started.stat().st_mtime
    os.utime(started, (when - 500, when - 500))
    submission = json.loads((shared / "fleet.json").read_text())
    (shared / "fleet.json").write_text(json.dumps({**submission, "submitted": when - 900}))
    _, rows = collected(shared, capsys)
    assert re.search(r"clock is 50\d s ahead", rows["one"]["remarks"])
    assert rows["two"]["remarks"] == ""
    (shared / "fleet.json").write_text(json.dumps({**submission, "submitted": when + 900}))
    _, rows = collected(shared, capsys)
    assert "behind" in rows["two"]["remarks"]


def test_a_name_that_leaves_the_folder_is_refused(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    submission = json.loads((shared / "fleet.json").read_text())
    (shared / "fleet.json").write_text(json.dumps({**submission, "nodes": ["one", "../../other"]}))
    assert main(["fleet", "collect", str(shared)]) == 5
    assert "is not a node name" in capsys.readouterr().err


def test_wrong_words_end_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["fleet", "status", str(tmp_path)]) == 2
    (tmp_path / "hosts").write_text("-oProxyCommand=touch\n")
    words = ["fleet", "submit", "kernel.loop", "-o", str(tmp_path / "new"), "--hosts"]
    assert main([*words, str(tmp_path / "hosts")]) == 2
    assert main([*words, str(tmp_path / "none")]) == 2
    assert main(["fleet", "submit", "kernel.loop", "-o", str(tmp_path / "x"), "--dry-run", "--", "--comment=a\nb"]) == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["fleet", "submit", "kernel.loop", "-o", str(tmp_path / "x")]) == 5
    assert "no Slurm here" in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and not (tmp_path / "x").exists()
