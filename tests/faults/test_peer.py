# SPDX-License-Identifier: Apache-2.0
"""`toll run --peer HOST` between two network namespaces: nothing but the wire between them joins the two ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import target_stands
from support.waiting import LONG_S
from tollmeter.numbers.plausible import NO_TIME

HERE, THERE = "10.213.7.1", "10.213.7.2"
ROUTES = {"tcp", "udp", "connect", "http", "rpc_tcp", "rpc_udp"}
SOON = ("--budget", "20s", "--precision", "20%")


class Pair(NamedTuple):
    """Two namespaces, and what the person in the first has set."""

    names: tuple[str, str]
    environment: dict[str, str]

    def runs(self, folder: Path, *words: str, peer: str = "board") -> tuple[int, str, Any]:
        command = [sys.executable, "-I", "-m", "tollmeter", "run", *words, "--peer", peer, "--quiet"]
        done = subprocess.run(
            ["ip", "netns", "exec", self.names[0], *command, "--out", str(folder), "--format", "json"],
            capture_output=True, text=True, check=False, env=self.environment, timeout=LONG_S,
        )  # fmt: skip
        return done.returncode, done.stderr, json.loads(done.stdout) if done.stdout else None


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("two network namespaces are made by root, with ip")
    target_stands.need("ssh", "ssh-keygen")
    tag = uuid.uuid4().hex[:6]
    names = (f"toll-{tag}-a", f"toll-{tag}-b")
    try:
        for name in names:
            ip(f"netns add {name}")
            ip(f"-n {name} link set lo up")
        ip(f"link add v{tag}a netns {names[0]} type veth peer name v{tag}b netns {names[1]}")
        for name, end, address in zip(names, "ab", (HERE, THERE), strict=True):
            ip(f"-n {name} address add {address}/24 dev v{tag}{end}")
            ip(f"-n {name} link set v{tag}{end} up")
        with target_stands.sshd(tmp_path, address=THERE, within=("ip", "netns", "exec", names[1])) as options:
            port = options[options.index("-p") + 1]
            (tmp_path / "config").write_text(
                f"Host board\n  HostName {THERE}\n  Port {port}\n  IdentityFile {tmp_path}/user\n"
                f"  UserKnownHostsFile {tmp_path}/known\n"
            )
            with tempfile.TemporaryDirectory() as passing:
                told = {"TOLL_SSH_CONFIG": str(tmp_path / "config"), "TMPDIR": passing}
                yield Pair(names, {**os.environ, **told})
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no two network namespaces here: {error.stderr.decode(errors='replace').strip()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def test_every_route_has_a_number_with_a_peer_and_nothing_is_left_there(pair: Pair, tmp_path: Path) -> None:
    """Or the reason that other work interrupted it: a time is what 2n calls take longer than n, and where another
    program runs for 3 ms between two calls, that may be less than nothing."""
    code, said, told = pair.runs(tmp_path / "run", "message=65536", "kernel.remote_*", *SOON)
    assert code in (0, 1), said  # 1 where others left too little of its time to answer the question
    calls = {row["parameters"]["route"]: row for row in told["rows"] if "route" in row["parameters"]}
    assert set(calls) == ROUTES
    gaps = {route: row["reason"] for route, row in calls.items() if row["status"] != "ok"}
    assert all(why == NO_TIME or (route.startswith("rpc") and "libtirpc" in why) for route, why in gaps.items()), gaps
    assert all(row["median"] > 0 for route, row in calls.items() if route not in gaps)
    assert all(row["median"] > 0 for row in told["rows"] if row["probe"] == "kernel.remote_bandwidth")
    left = subprocess.run(["ip", "netns", "pids", pair.names[1]], capture_output=True, text=True, check=True)
    commands = [Path(f"/proc/{pid}/cmdline") for pid in left.stdout.split()]
    assert not [path for path in commands if path.exists() and b"remote" in path.read_bytes()]


def test_a_peer_that_is_not_there_is_named_before_anything_is_measured(pair: Pair, tmp_path: Path) -> None:
    code, said, told = pair.runs(tmp_path / "run", "kernel.remote_call", peer="nobody.invalid")
    assert (code, told) == (5, None)
    assert "nobody.invalid cannot be reached" in said
