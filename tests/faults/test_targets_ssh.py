# SPDX-License-Identifier: Apache-2.0
"""Another machine that is not the one it was, not there, or gone in the middle; and nothing left on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import target_stands
from support.waiting import in_time
from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets.ssh import Ssh


@pytest.fixture
def options(tmp_path: Path) -> Iterator[list[str]]:
    """Words for ssh that lead to a server of our own."""
    target_stands.need("ssh", "ssh-keygen", "gcc")
    with target_stands.sshd(tmp_path) as words:
        yield words


def told(target: Ssh, folder: Path, behaviour: str = "good") -> Outcome:
    point = Point(probe="kernel.enter", abi="x86_64", target=target.name)
    visit = Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=20000)
    return outcome(target.run(str(target_stands.rogue(folder, "gcc", behaviour)), visit, 1))


def test_another_key_than_the_known_one_is_refused(options: list[str], tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    known = tmp_path / "known"
    known.write_text(f"{known.read_text().split()[0]} {(tmp_path / 'other.pub').read_text()}")
    target = Ssh("127.0.0.1", options)
    with pytest.raises(Failure) as caught:
        target.describe(str(target_stands.rogue(tmp_path, "gcc", "good")))
    assert caught.value.exit_code == 5
    assert "key" in caught.value.sentence
    back = told(target, tmp_path)
    assert (back.status, "key" in (back.reason or "")) == ("infrastructure", True)
    target.close()


def test_an_unknown_host_key_is_refused_without_a_prompt(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    target = Ssh("127.0.0.1", options)
    with pytest.raises(Failure, match="key"):
        target.describe(str(target_stands.rogue(tmp_path, "gcc", "good")))
    target.close()


def test_a_machine_that_is_not_there_costs_one_wait_and_not_one_for_each_visit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target_stands.need("ssh", "gcc")
    target = Ssh("127.0.0.1", ["-F", "none", "-p", str(target_stands.free_port())])
    assert told(target, tmp_path).status == "infrastructure"
    monkeypatch.setattr(target, "_there", None)
    assert [told(target, tmp_path).status for _ in range(50)] == ["infrastructure"] * 50
    target.close()


def test_nothing_is_left_there(options: list[str], tmp_path: Path) -> None:
    passing = tmp_path / "passing"
    passing.mkdir()
    target = Ssh("127.0.0.1", [*options, "-o", f"SetEnv=TMPDIR={passing}"])
    assert told(target, tmp_path).status == "ok"
    (folder,) = passing.iterdir()
    assert list(folder.iterdir())
    target.close()
    assert not list(passing.iterdir())


def test_a_connection_that_breaks_is_named_and_made_again(options: list[str], tmp_path: Path) -> None:
    passing = tmp_path / "passing"
    passing.mkdir()
    target = Ssh("127.0.0.1", [*options, "-o", f"SetEnv=TMPDIR={passing}"])
    assert told(target, tmp_path).status == "ok"
    master = target._connection._master
    assert master

    def break_it() -> None:
        in_time(lambda: probes_in(passing))
        os.kill(master.pid, signal.SIGKILL)

    breaking = threading.Thread(target=break_it)
    breaking.start()
    back = told(target, tmp_path, "hang")
    breaking.join()
    assert (back.status, back.samples) == ("infrastructure", ())
    again = told(target, tmp_path)
    assert again.status == "ok", again.reason
    target.close()


HOST = """
import json, sys
from tollmeter.model import Point, Visit
from tollmeter.targets.ssh import Ssh
executable, *options = json.loads(sys.argv[1])
point = Point(probe="kernel.enter", abi="x86_64", target="ssh:127.0.0.1")
visit = Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=60000)
Ssh("127.0.0.1", options).run(executable, visit, 1)
"""


@pytest.mark.parametrize("left_first", ["host", "connection"])
def test_a_probe_that_never_ends_goes_with_the_host_or_the_connection(
    left_first: str, options: list[str], tmp_path: Path
) -> None:
    passing = tmp_path / "passing"
    passing.mkdir()
    given = [str(target_stands.rogue(tmp_path, "gcc", "hang")), *options, "-o", f"SetEnv=TMPDIR={passing}"]
    environment = {**os.environ, "PYTHONPATH": str(target_stands.ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", HOST, json.dumps(given)], env=environment) as host:
        assert in_time(lambda: probes_in(passing))
        if left_first == "host":
            host.kill()
        else:
            for pid in target_stands.servers(tmp_path)[1:]:
                os.kill(pid, signal.SIGKILL)
        try:
            assert in_time(lambda: not probes_in(passing) and not list(passing.iterdir()))
        finally:
            host.kill()


def probes_in(folder: Path) -> list[Path]:
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and str(folder) in _executable(entry)]


def _executable(entry: Path) -> str:
    try:
        return str((entry / "exe").readlink())
    except OSError:
        return ""
