# SPDX-License-Identifier: Apache-2.0
"""What the test of bare systems takes from its host, what it complains of, and that it ends what it started."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from roots import __main__ as roots
from roots import host, steps, watching
from support.bare_debian import program

# Two mirrors of Debian's, as `apt-get indextargets` tells of them.
APT_GET = """#!/bin/sh
case "$*" in
  *indextargets*Origin:\\ Debian*)
    echo "http://mirror/debian/ bookworm main {sources}:1"
    echo "http://mirror/security/ bookworm-security main {sources}:1" ;;
esac
"""
TRACEBACK = "Traceback (most recent call last):\n  ...\nKeyError: 'uid'\n"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's sources, of which an apt-get tells."""
    sources = tmp_path / "debian.sources"
    program(tmp_path / "bin/apt-get", APT_GET.format(sources=sources))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return sources


def test_the_hosts_mirrors_and_their_key_serve_another_debian(apt: Path) -> None:
    apt.write_text("Types: deb\nSigned-By: /usr/share/keyrings/own.gpg\n")
    signed = "deb [signed-by=/usr/share/keyrings/own.gpg]"
    assert host.sources("trixie") == [
        f"{signed} http://mirror/debian/ trixie main",
        f"{signed} http://mirror/security/ trixie-security main",
    ]
    apt.write_text("deb http://mirror/debian bookworm main\n")
    assert host.sources("trixie")[0] == "deb http://mirror/debian/ trixie main"


def test_pip_and_proxies_are_as_on_the_host_and_files_are_found_where_the_system_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "own.pem"
    certificate.touch()
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {certificate}\ntimeout = 7\nretries = 1\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    found = host.environment()
    assert (found["PIP_TIMEOUT"], found["PIP_RETRIES"]) == ("9", "1")
    assert found["https_proxy"] == "http://127.0.0.1:3128"
    named = host.paths([found["PIP_CERT"]])
    assert named == {certificate}
    assert host.moved(found["PIP_CERT"], named) == f"/run/host{certificate}"
    assert host.moved(f"{certificate}.old", named) == f"{certificate}.old"


@pytest.mark.parametrize(
    ("status", "said", "wrong"),
    [
        (0, "Page  /a/report.html\n", None),
        (1, "Page  /a/report.html\n", None),
        (5, "Page  /a/report.html\n", "status 5"),
        (0, "nothing\n", "does not say"),
        (0, f"Page\n{TRACEBACK}", "traceback"),
        (0, "Page\ntoll: None cannot be written: Operation not permitted\n", "without a name"),
    ],
)
def test_what_a_command_must_not_do(status: int, said: str, wrong: str | None) -> None:
    found = steps.complaint(status, said, steps.MEASURED, "Page")
    assert found is None if wrong is None else wrong in str(found)


def test_a_long_command_reports_progress_and_keeps_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "BEAT_S", 0.1)
    words = ["sh", "-c", "echo begun; sleep 1; exit 3"]
    assert watching.ended("it", words, tmp_path / "log", dict(os.environ)) == 3
    assert "begun" in capsys.readouterr().out
    assert (tmp_path / "log").read_text() == "begun\n"


def test_stopping_ends_what_runs_and_what_that_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_stopping", threading.Event())
    os.mkfifo(tmp_path / "held")
    words = ["sh", "-c", f"sleep 600 >'{tmp_path / 'held'}' & wait"]
    stopped: list[BaseException] = []

    def run() -> None:
        try:
            watching.ended("it", words, tmp_path / "log", dict(os.environ))
        except KeyboardInterrupt as error:
            stopped.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with (tmp_path / "held").open() as held:
        watching.stop()
        thread.join(60)
        assert stopped
        assert held.read() == "", "what the shell started has ended too"
    with pytest.raises(KeyboardInterrupt):
        watching.ended("another", ["true"], tmp_path / "log", dict(os.environ))


@pytest.mark.usefixtures("apt")
def test_without_root_or_mmdebstrap_it_fails_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert roots.main([]) == 1
    assert "start it as root" in capsys.readouterr().out
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mmdebstrap" else sys.executable)
    assert roots.main([]) == 1
    assert "apt-get install mmdebstrap" in capsys.readouterr().out
