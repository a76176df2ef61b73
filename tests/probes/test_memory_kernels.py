# SPDX-License-Identifier: Apache-2.0
"""The bandwidth kernels of other CPUs, on emulated ones: each does its work, and the best one has a name."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest

from probes.visiting import ROOT, executable, options, visit
from support import target_stands
from tollmeter.model import Outcome
from tollmeter.protocol import outcome
from tollmeter.toolchain.abis import read_abi
from tollmeter.toolchain.build import build_abi, find_compiler

OPERATIONS = ("read", "write", "copy")
SIZES = (128, 384, 2176, 16384)
"""In whole turns of no vector, of some, and of all."""
SVE = tuple(
    f"qemu-aarch64 -cpu max,sve-default-vector-length={bits // 8},sve{bits}=on" for bits in (128, 256, 384, 2048)
)
RVV = tuple(f"qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0,vlen={bits}" for bits in (128, 256, 1024))


class Case(NamedTuple):
    """A kernel, emulated CPUs that have it, one that has not, and what is best there."""

    abi: str
    kernel: str
    has: tuple[str, ...]
    has_not: str = ""
    else_best: str = ""


CASES = (
    Case("aarch64", "sve", SVE, "qemu-aarch64 -cpu cortex-a57", "neon"),
    Case("riscv64", "rvv", RVV, "qemu-riscv64 -cpu rv64", "portable"),
    Case("ppc64le", "vsx", ("qemu-ppc64le",)),
    Case("x86_64", "sse2", ("qemu-x86_64 -cpu Nehalem",)),
)


def built(abi: str) -> None:
    read = read_abi(ROOT / "abis" / f"{abi}.toml")
    compiler = find_compiler(read)
    if not isinstance(compiler, str):
        pytest.skip(f"no compiler for {abi}")
    build_abi(ROOT, read, compiler, {f"memory.{operation}_bandwidth" for operation in OPERATIONS})


def emulated(emulator: str, abi: str, operation: str, kernel: str, size: int) -> Outcome:
    done = subprocess.run(
        [*emulator.split(), executable(abi, f"memory.{operation}_bandwidth"), *options(1), f"kernel={kernel}",
         f"size={size}"],
        capture_output=True, check=False, env={**os.environ, "TOLL_CLOCK": "virtual"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return outcome(done.stdout)


def need(emulator: str, abi: str) -> None:

    target_stands.need(emulator.split(maxsplit=1)[0])
    built(abi)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_kernels_of_other_cpus_do_their_work(case: Case, operation: str) -> None:
    need(case.has[0], case.abi)
    for emulator in case.has:
        for size in SIZES:
            done = emulated(emulator, case.abi, operation, case.kernel, size)
            assert done.status == "ok", (emulator, size, done.reason)
        assert emulated(emulator, case.abi, operation, "best", 16384).chosen == {"kernel": case.kernel}
    if case.has_not:
        assert emulated(case.has_not, case.abi, operation, case.kernel, 16384).status == "unsupported"
        assert emulated(case.has_not, case.abi, operation, "best", 16384).chosen == {"kernel": case.else_best}


@pytest.mark.parametrize(
    ("operation", "kernel"), [("read", "neon_nt"), ("write", "neon_nt"), ("copy", "neon_nt"), ("write", "dc_zva")]
)
def test_kernels_that_pass_the_caches_of_aarch64_do_their_work(operation: str, kernel: str) -> None:
    need(SVE[0], "aarch64")
    for size in SIZES:
        assert emulated("qemu-aarch64", "aarch64", operation, kernel, size).status == "ok"


@pytest.mark.parametrize("operation", [*OPERATIONS, "update"])
def test_the_best_kernel_is_one_that_runs_here(own_abi_name: str, operation: str) -> None:
    done = visit(own_abi_name, f"memory.{operation}_bandwidth", samples=1, kernel="best", size=16384)
    named = visit(own_abi_name, f"memory.{operation}_bandwidth", samples=1, kernel=done.chosen["kernel"], size=16384)
    assert (done.status, named.status, named.chosen) == ("ok", "ok", {})
    assert named.work == done.work
