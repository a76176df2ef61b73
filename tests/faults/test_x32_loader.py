# SPDX-License-Identifier: Apache-2.0
"""The loader of x32: a program finds under it what the kernel gives to a native one, and what is no such program is
refused in a sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support import target_stands
from tollmeter.model import Outcome
from tollmeter.protocol import outcome
from tollmeter.targets.local import _LOADER, X32_LOADER, native_command, needs_loader, serves_x32
from tollmeter.targets.profiling_visit import ProfileRequest, profiled
from tollmeter.toolchain.abis import make_beside, read_abis
from tollmeter.toolchain.build import build_abi, find_compiler

SOURCE = Path(__file__).with_name("x32_program.c")
X32 = read_abis(target_stands.ROOT / "abis")["x32"]
FLAGS = ("-D_GNU_SOURCE", "-O1", "-static", "-no-pie", "-pthread", "-lm")
ENDS_WITH, CANNOT = 7, 126
MOST_SERVED = 0.01
"""Above it a time is refused."""
TIMES = 4
"""A busy machine lengthens a batch, but not served calls at their least: the largest share of some visits is known."""
SERVED = "kernel.enter_syscall"

pytestmark = pytest.mark.skipif(
    not serves_x32() or not isinstance(find_compiler(X32), str),
    reason="this kernel runs x32 itself or cannot serve it, or no compiler makes x32",
)


@pytest.fixture(scope="module", autouse=True)
def loader() -> None:
    make_beside(target_stands.ROOT, X32_LOADER)


def built(folder: Path, name: str, flags: tuple[str, ...]) -> Path:
    program = folder / name
    compiler = str(find_compiler(X32)).split()
    subprocess.run([*compiler, *flags, str(SOURCE), *FLAGS, "-o", str(program)], check=True, capture_output=True)
    return program


def test_a_program_finds_what_the_kernel_gives_to_a_native_one(tmp_path: Path) -> None:
    """Signals, memory, threads, processes and files: 38 things, each right."""
    native = subprocess.run([built(tmp_path, "native", ())], check=False, capture_output=True, text=True, timeout=60)
    program = built(tmp_path, "x32", X32.flags)
    loaded = subprocess.run(native_command(program), check=False, capture_output=True, text=True, timeout=60)
    assert needs_loader(str(program))
    assert (loaded.returncode, loaded.stdout, loaded.stderr) == (ENDS_WITH, native.stdout, "")
    assert native.returncode == ENDS_WITH
    assert "WRONG" not in native.stdout


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n"], ids=["empty", "cut", "script"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    done = subprocess.run([_LOADER, path], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (CANNOT, 1)


def test_native_programs_are_started_by_the_kernel() -> None:
    assert native_command("/bin/true") == ["/bin/true"]


def test_a_probe_reports_the_share_of_its_time_that_the_loader_took() -> None:
    """All of a system call's and of a handler's, nothing of a loop's; all where a batch starts processes."""
    probes: dict[str, dict[str, str | int]] = {
        SERVED: {"call": "getppid"}, "kernel.fault_segv": {}, "kernel.process_create": {"how": "vfork"},
        "datamodel.pointer_chase": {"nodes": 1024},
    }  # fmt: skip
    build_abi(target_stands.ROOT, X32, str(find_compiler(X32)), [*probes])
    served: dict[str, float] = {}
    for probe, parameters in probes.items():
        words = [f"{name}={value}" for name, value in parameters.items()]
        command = [*native_command(target_stands.ROOT / "build/x32" / probe), "--samples=4", *words]
        shares = [told.served for told in (visited(command) for _ in range(TIMES)) if told.served is not None]
        assert len(shares) == TIMES
        served[probe] = max(shares)
    assert served[SERVED] > 10 * MOST_SERVED
    assert served["kernel.fault_segv"] > 2 * MOST_SERVED
    assert served["kernel.process_create"] == 1
    assert served["datamodel.pointer_chase"] == 0


def test_the_cpu_time_of_a_batch_has_nothing_of_what_stands_beside_it() -> None:
    """A reading of the CPU clock is a served call, and the core's width is measured between two batches: an operation
    of a batch of 40 microseconds was said to take a tenth more than one of a long batch."""
    probe = "datamodel.pointer_chase"
    build_abi(target_stands.ROOT, X32, str(find_compiler(X32)), [probe])
    command = [
        *native_command(target_stands.ROOT / "build/x32" / probe),
        "--samples=8",
        "nodes=1024",
        "--sample-ns=4000",
    ]
    told = [visited(command) for _ in range(3 * TIMES)]
    cpu_ns = min(float(dict(one.gauges)["cpu_time"]) for one in told)
    assert 0 < cpu_ns < 1.06 * min(batches_ns(one) for one in told)


def visited(command: list[str]) -> Outcome:
    return outcome(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)


def batches_ns(told: Outcome) -> float:
    """Of one operation, by the clock of the samples: at its least it was disturbed as little as CPU time at its
    least."""
    return sum(sum(sample.body) for sample in told.samples) / sum(3 * sample.iterations for sample in told.samples)


def test_a_probe_is_profiled_under_the_loader() -> None:
    probe = "datamodel.pointer_chase"
    build_abi(target_stands.ROOT, X32, str(find_compiler(X32)), [probe])
    done = profiled("local", [str(target_stands.ROOT / "build/x32" / probe), "nodes=1024"], ProfileRequest(50), Path())
    assert done.status == 0
    assert b'"k":"profile"' in done.output
