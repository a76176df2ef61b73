# SPDX-License-Identifier: Apache-2.0
"""The loader of x32: a program finds under it what the kernel gives to a native one, and what is no such program is
refused in a sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import stands
from tollmeter.protocol import outcome
from tollmeter.targets.local import _LOADER, X32_LOADER, is_loaded, native_command, serves_x32
from tollmeter.targets.profiling_visit import Asked, profiled
from tollmeter.toolchain.abis import make_beside, read_abis
from tollmeter.toolchain.build import build_abi, find_compiler

SOURCE = Path(__file__).with_name("x32_program.c")
X32 = read_abis(stands.ROOT / "abis")["x32"]
FLAGS = ("-D_GNU_SOURCE", "-O1", "-static", "-no-pie", "-pthread", "-lm")
ENDS_WITH, CANNOT = 7, 126
MOST_SERVED = 0.01
"""Above it a time is refused; a busy machine takes more of the time than served calls do at their least."""
SERVED = "kernel.enter_syscall"

pytestmark = pytest.mark.skipif(
    not serves_x32() or not isinstance(find_compiler(X32), str),
    reason="this kernel runs x32 itself or cannot serve it, or no compiler makes x32",
)


@pytest.fixture(scope="module", autouse=True)
def loader() -> None:
    make_beside(stands.ROOT, X32_LOADER)


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
    assert is_loaded(str(program))
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
    build_abi(stands.ROOT, X32, str(find_compiler(X32)), [*probes])
    served: dict[str, float] = {}
    for probe, parameters in probes.items():
        words = [f"{name}={value}" for name, value in parameters.items()]
        command = [*native_command(stands.ROOT / "build/x32" / probe), "--samples=4", *words]
        stream = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
        share = outcome(stream).served
        assert share is not None
        served[probe] = share
    assert served[SERVED] > 10 * MOST_SERVED
    assert served["kernel.fault_segv"] > 2 * MOST_SERVED
    assert served["kernel.process_create"] == 1
    assert served["datamodel.pointer_chase"] == 0


def test_the_cpu_time_of_a_batch_has_nothing_of_what_stands_beside_it() -> None:
    """A reading of the CPU clock is a served call, and the core's width is measured between two batches: an operation
    of a batch of 40 microseconds was said to take a tenth more than one of a long batch."""
    probe = "datamodel.pointer_chase"
    build_abi(stands.ROOT, X32, str(find_compiler(X32)), [probe])
    command = [*native_command(stands.ROOT / "build/x32" / probe), "--samples=8", "nodes=1024"]
    short, long = (min(cpu_ns([*command, f"--sample-ns={ns}"]) for _ in range(4)) for ns in (4000, 10**7))
    assert short < 1.06 * long


def cpu_ns(command: list[str]) -> float:
    """Of one operation."""
    gauges = dict(outcome(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout).gauges)
    return float(gauges["cpu_time"])


def test_a_probe_is_profiled_under_the_loader() -> None:
    probe = "datamodel.pointer_chase"
    build_abi(stands.ROOT, X32, str(find_compiler(X32)), [probe])
    done = profiled("local", [str(stands.ROOT / "build/x32" / probe), "nodes=1024"], Asked(50), Path())
    assert done.ended.status == 0
    assert b'"k":"profile"' in done.ended.output
