# SPDX-License-Identifier: Apache-2.0
"""Where the machine refuses: a sentence in place of a number, and never a process killed for its memory."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import subprocess
from collections.abc import Callable

import pytest

from probes.visiting import describe, executable, visit
from storm.denials import denying
from storm.uses import numbers
from tollmeter.model import Outcome, Value
from tollmeter.protocol import outcome

MIB = 1 << 20
PR_SET_THP_DISABLE = 41
SIZED = {
    "latency": "size", "stride": "size", "read_bandwidth": "size", "write_bandwidth": "size", "copy_bandwidth": "size",
    "update_bandwidth": "size", "parallelism": "size", "scaling": "size", "latency_scaling": "size", "stream": "size",
    "stream2": "size", "write_policy": "size", "huge_page_gain": "size", "libc_mem": "bytes",
    "associativity": "stride",
}  # fmt: skip
COMPANIONS = ("ping_pong", "line_sharing", "loaded_latency", "transfer")


def visit_under(abi: str, probe: str, limit: Callable[[], None] | None, *words: str) -> Outcome:
    """A visit in a process that is limited before it starts."""
    done = subprocess.run(
        [executable(abi, f"memory.{probe}"), "--samples=1", "--sample-ns=100000", *words],
        capture_output=True, check=False, preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    return outcome(done.stdout)


def expect_sentence(done: Outcome) -> None:
    assert done.status == "unsupported" and done.reason and not done.samples, done


@pytest.mark.parametrize("probe", SIZED)
def test_more_memory_than_there_is_gets_a_sentence(abi: str, probe: str) -> None:
    for size in (1 << 42, 5 << 30 if "32" in abi else 1 << 60):
        words: dict[str, Value] = {SIZED[probe]: size}
        expect_sentence(visit(abi, f"memory.{probe}", samples=1, **words))


def test_a_limit_on_addresses_gets_a_sentence(own_abi_name: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (64 * MIB, 64 * MIB))

    expect_sentence(visit_under(own_abi_name, "latency", limit, f"size={256 * MIB}"))


@pytest.mark.parametrize("probe", ["latency", "read_bandwidth", "parallelism", "stride", "line", "tlb", "libc_mem"])
def test_a_size_of_nothing_is_a_failure_with_its_reason(abi: str, probe: str) -> None:
    words: dict[str, Value] = {"line": {"distance": 0}, "tlb": {"count": 0}}.get(probe) or {SIZED[probe]: 0}
    done = visit(abi, f"memory.{probe}", samples=1, **words)
    assert done.status == "failed" and done.reason


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter of system calls is of x86_64")
def test_refused_huge_pages_are_reported(own_abi_name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    deny = denying(numbers()["prctl"], errno.EPERM)

    def switch_off() -> None:
        assert libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0

    def refuse() -> None:
        switch_off()
        deny()

    for probe, words in (("latency", ["pages=huge"]), ("associativity", ["pages=huge"]), ("huge_page_gain", [])):
        done = visit_under(own_abi_name, probe, refuse, *words)
        if not (done.counted and done.counted.hugetlb_bytes):
            expect_sentence(done)
    done = visit_under(own_abi_name, "read_bandwidth", refuse, f"size={4 * MIB}")
    assert done.status == "ok" and done.gauges["huge_pages"] == 0
    usual, switched = (visit_under(own_abi_name, "latency", way, "pages=huge").status for way in (None, switch_off))
    assert usual == switched, "a probe switches them on for itself"


@pytest.mark.parametrize("kind", ["copy_on_write", "shared_file"])
def test_a_limit_on_file_sizes_gets_a_sentence(own_abi_name: str, kind: str) -> None:
    """SIGXFSZ ended the probe."""
    done = subprocess.run(
        [executable(own_abi_name, "kernel.page_fault"), "--samples=1", f"kind={kind}"], capture_output=True,
        check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )  # fmt: skip
    assert done.returncode == 0, done
    expect_sentence(outcome(done.stdout))


@pytest.mark.parametrize("probe", COMPANIONS)
def test_one_cpu_gets_a_sentence(abi: str, probe: str) -> None:
    cpu = min(os.sched_getaffinity(0))
    expect_sentence(visit_under(abi, probe, None, f"--cpus={cpu}"))


@pytest.mark.parametrize("probe", ["scaling", "latency_scaling", "stream", "stream2"])
def test_more_workers_than_cpus_get_a_sentence(abi: str, probe: str) -> None:
    axis = "threads" if probe.startswith("stream") else "instances"
    expect_sentence(visit_under(abi, probe, None, f"{axis}=400"))


def test_states_that_a_third_cpu_makes_need_one(own_abi_name: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("one CPU")
    words = [f"--cpus={','.join(map(str, cpus))}"]
    for state in ("owned", "forward"):
        expect_sentence(visit_under(own_abi_name, "transfer", None, *words, f"state={state}"))


def test_a_memory_node_that_is_not_there_gets_a_sentence(abi: str) -> None:
    for probe in ("numa_latency", "numa_bandwidth", "page_move"):
        expect_sentence(visit(abi, f"memory.{probe}", samples=1, node=0, home=7))
    expect_sentence(visit(abi, "memory.loaded_latency", samples=1, node=7))


def test_no_length_is_an_int(own_abi_name: str) -> None:
    """4 GiB of addresses, whose low 32 bits are none; only their page tables take memory."""
    done = visit_under(own_abi_name, "page_walk", None, f"reach={1 << 32}")
    assert done.status == "ok" or "address" in str(done.reason)
    assert describe(own_abi_name, "memory.latency").parameters[0].stop_scale == "last-cache"
