# SPDX-License-Identifier: Apache-2.0
"""`toll run` killed at any moment, wherever its probes run: no process and no folder outlives it, here or there.

Whatever a run starts is known by a folder of the test's own: it stands in the PATH and TMPDIR of all that runs here,
and in the TMPDIR of all that runs there, so that a process or file of another run never counts."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from support import target_stands
from support.waiting import LONG_S, in_time

TOLL = (sys.executable, "-I", "-m", "tollmeter", "run", "float.*", "n=16,64,256")


class Place(NamedTuple):
    """lasts_s: in which the moments of a run lie. kills: how many of them are tried."""

    target: str
    program: str
    lasts_s: float
    kills: int
    abi: str = "x86_64"


PLACES = {
    "local": Place("local", "sh", 2.0, 3),
    "qemu-user": Place("qemu-user:x86_64", "qemu-x86_64", 2.5, 3),
    "board": Place("bare:vexpress-a9", "qemu-system-arm", 3.0, 3, "arm-hard"),
    "ssh": Place("ssh:board", "ssh", 3.0, 4),
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    found = PLACES[request.param]
    target_stands.need(found.program)
    return found


@contextmanager
def surroundings(place: Place, folder: Path) -> Iterator[dict[str, str]]:
    """What the environment of a run is, with the folder for all that is passing; and a server, where one is needed."""
    with contextlib.ExitStack() as stack:
        passing = stack.enter_context(tempfile.TemporaryDirectory())
        config = folder / "config"
        if place.target.startswith("ssh:"):
            options = stack.enter_context(target_stands.sshd(folder))
            config.write_text(
                f"Host board\n  HostName 127.0.0.1\n  Port {options[options.index('-p') + 1]}\n"
                f"  SetEnv TMPDIR={passing}\n  IdentityFile {folder}/user\n  UserKnownHostsFile {folder}/known\n"
            )
        found = f"{os.environ['PATH']}:{passing}"
        yield {**os.environ, "TMPDIR": passing, "PATH": found, "TOLL_SSH_CONFIG": str(config)}
        assert not target_stands.servers(folder)[1:], "the server still has a connection"


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """A compiler that is killed with its host leaves files of its own."""
    for abi in sorted({place.abi for place in PLACES.values()}):
        subprocess.run([*TOLL, "--abi", abi, "--dry-run"], stdout=subprocess.DEVNULL, check=True)


# ---- killing ------------------------------------------------------------------------------------------------------


def kill_at(place: Place, environment: dict[str, str], moment_s: float, signals: Sequence[signal.Signals]) -> int:
    """Starts a run and ends it so. Returns its exit status."""
    with tempfile.TemporaryDirectory() as runs:
        words = [*TOLL, "--abi", place.abi, "--budget", "60s", "--target", place.target, "--out", f"{runs}/run"]
        with subprocess.Popen(
            words,
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ) as host:  # fmt: skip
            time.sleep(moment_s)
            for number in signals:
                host.send_signal(number)
                time.sleep(0.02)
            return host.wait(LONG_S)


def left_behind(passing: str) -> list[str]:
    """Processes and files that are still there a while later."""
    in_time(lambda: not (processes(passing) or any(Path(passing).iterdir())))
    return [*processes(passing), *map(str, Path(passing).iterdir())]


def processes(passing: str) -> list[str]:
    """Command lines of those that have the folder in their words or environment, or stand in it."""
    mark, found = passing.encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            said = (entry / "cmdline").read_bytes()
            stands_in = os.fsencode((entry / "cwd").readlink())
            if mark in said or mark in stands_in or mark in (entry / "environ").read_bytes():
                found.append(said.replace(b"\0", b" ").decode(errors="replace"))
    return found


def moments(place: Place, count: int) -> list[float]:
    """One in each of as many equal parts, so that few are enough to meet start, copying, booting and measuring."""
    return [place.lasts_s * (part + random.random()) / count for part in range(count)]


def test_nothing_outlives_a_host_that_is_killed_at_any_moment(place: Place, tmp_path: Path) -> None:
    with surroundings(place, tmp_path) as environment:
        for moment_s in moments(place, place.kills):
            assert kill_at(place, environment, moment_s, [signal.SIGKILL]) == -signal.SIGKILL
            assert not left_behind(environment["TMPDIR"]), f"killed after {moment_s:.3f} s"


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)], ids=["ended", "twice"])
def test_nothing_outlives_a_host_that_is_asked_to_end(
    place: Place, signals: tuple[signal.Signals, ...], tmp_path: Path
) -> None:
    with surroundings(place, tmp_path) as environment:
        (moment_s,) = moments(place, 1)
        kill_at(place, environment, moment_s, signals)
        assert not left_behind(environment["TMPDIR"]), f"ended after {moment_s:.3f} s"
