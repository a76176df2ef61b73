# SPDX-License-Identifier: Apache-2.0
"""What `make bench` reads of other programs, and what it makes of ten rounds beside them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALK = '"stride=64\n0.00049 1.039\n0.01562 1.039\n0.12500 3.900\n64.00000 121.500\n\n'
HISTOGRAM = "# Histogram\n066000 000003\n067000 000010\n900000 000006\n# Total: 000000019\n"
PRINTED = {
    ("system call getppid", "perf bench"): ("     Total time: 0.382 [sec]\n\n       0.382747 usecs/op\n", 382.747),
    ("system call getppid", "lmbench"): ("Simple syscall: 0.1204 microseconds\n", 120.4),
    ("round trip by a pipe, one CPU", "perf bench"): ("       3.854100 usecs/op\n         259463 ops/sec\n", 3854.1),
    ("round trip by a pipe, one CPU", "lmbench"): ("Pipe latency: 4.8361 microseconds\n", 4836.1),
    ("switch to another process", "lmbench"): ('\n"size=0k ovr=0.31\n2 1.62\n', 1620.0),
    ("load from 16 KiB (L1)", "lmbench"): (WALK, 1.039),
    ("load from 128 KiB (L2)", "lmbench"): (WALK, 3.9),
    ("load from 64 MiB", "lmbench"): (WALK, 121.5),
    ("memcpy of 128 MiB", "mbw"): (
        "AVG\tMethod: MEMCPY\tElapsed: 0.07901\tMiB: 128.00000\tCopy: 1000.0 MiB/s\n", 1.048576),
    ("memcpy of 128 MiB", "perf bench"): (
        "# function 'default' (Default memcpy() provided by glibc)\n2114144435.903575\n", 2.114144435903575),
    ("memcpy of 128 MiB", "lmbench"): ("128.00 9817.20\n", 9.8172),
    ("lateness of a timer of 1 ms, slack of 50 us", "cyclictest"): (HISTOGRAM, 67_000.0),
    ("lateness of a timer of 1 ms, no slack", "cyclictest"): (HISTOGRAM, 67_000.0),
    ("command `true`", "hyperfine"): ('      "mean": 0.0138,\n      "median": 0.012648722,\n', 12.648722),
    ("command `true`", "pyperf"): ("command: Mean +- std dev: 520 us +- 25 us\n", 0.52),
}  # fmt: skip


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers", ROOT / "bench/peers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers"] = module
    spec.loader.exec_module(module)
    return module


def test_the_number_of_every_peer_is_found_in_what_it_prints(peers: ModuleType) -> None:
    known = {(one.title, peer.name): peer for one in peers.COMPARISONS for peer in one.peers}
    assert known.keys() == PRINTED.keys()
    for key, (text, value) in PRINTED.items():
        assert peers.number_of(known[key], text) == pytest.approx(value), key
        assert peers.number_of(known[key], "command not found\n") is None


def test_our_side_of_each_comparison_is_a_metric_and_has_its_parameters(peers: ModuleType) -> None:
    for one in peers.COMPARISONS:
        verb, what, *words = one.ours
        if verb == "run":
            text = "".join(
                path.read_text() for path in (ROOT / "probes" / what.partition(".")[0]).glob("*") if path.is_file()
            )
            names = [one.metric, *(word.partition("=")[0] for word in words)]
            assert not [name for name in names if f'.name = "{name}"' not in text], one.title


def ran(peers: ModuleType, *values: float | None, seconds: float = 1.0) -> list[object]:
    return [peers.Ran(value, seconds) for value in values]


def test_a_ratio_is_of_two_values_of_one_round(peers: ModuleType) -> None:
    """The machine became twice as slow, for both."""
    ratio, low, high = peers.ratio_of(ran(peers, 110, 220, 440, 441), ran(peers, 100, 200, 400, None))
    assert (ratio, low, high) == pytest.approx((1.1, 1.1, 1.1))
    _, low, high = peers.ratio_of(ran(peers, 90, 110, 100), ran(peers, 100, 100, 100))
    assert low < 1 < high


def test_the_time_to_two_per_cent_grows_with_scatter_and_duration(peers: ModuleType) -> None:
    runs = {"toll": ran(peers, 100, 100.1, 99.9, seconds=3), "wide": ran(peers, 80, 100, 120), "bad": ran(peers, None)}
    ours, wide = peers.summaries(runs, "ns")
    assert ours.wanted_s == 3 and wide.wanted_s > 100
    assert (ours.ratio, wide.failures, wide.spread) == (None, 0, pytest.approx(0.4))


def test_where_ours_is_behind_stands_first(peers: ModuleType) -> None:
    first, second = peers.COMPARISONS[:2]
    good = {"toll": ran(peers, 100, 100.1, 100), "perf bench": ran(peers, 99, 303, 100)}
    bad = {"toll": ran(peers, 98, 101, 100, None), "perf bench": ran(peers, 50, 50.1, 50, 50)}
    lines = [line for line in peers.page([(first, good), (second, bad)], "0.1").splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[1:]] == [f"| {second.title}", f"| {first.title}"]
    assert lines[1].split(" | ")[2] == "value differs, spread, time, failures"
    assert lines[2].split(" | ")[2] == "-"
    dead = {"toll": ran(peers, 1, 1, 1), "perf bench": ran(peers, None, None, 2)}
    assert f"Fewer than two numbers: perf bench ({first.title})" in peers.page([(first, dead)], "0.1")


def test_a_command_runs_once_a_round_and_rounds_are_kept(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = peers.Peer("counting", ("sh", "-c", f"echo >> {tmp_path}/ran; wc -l < {tmp_path}/ran"), r"^ *(\d+)$")
    first, second = (one._replace(peers=(peer,)) for one in peers.COMPARISONS[:2])
    monkeypatch.setattr(peers, "COMPARISONS", (first, second, peers.COMPARISONS[2]._replace(peers=())))
    monkeypatch.setattr(peers, "run_ours", lambda *_: peers.Ran(2.0, 0.5))
    monkeypatch.setattr(peers, "ROUNDS", 1)
    monkeypatch.setenv("KEPT", str(tmp_path / "rounds"))
    peers.measure()
    rounds = peers.measure()
    assert len(rounds) == 2 and rounds == peers.kept()
    for comparison in (first, second):
        runs = peers.runs_of(comparison, rounds)
        assert [one.value for one in runs["counting"]] == [1, 2] and [one.value for one in runs["toll"]] == [2, 2]
