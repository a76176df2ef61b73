# SPDX-License-Identifier: Apache-2.0
"""What a real probe reports of a machine that is a folder, and the findings that follow from it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.machine_trees import Made, runs
from support.planted_conditions import sound, with_index
from support.waiting import LONG_S
from tollmeter.findings import all_findings
from tollmeter.model import Abi, Machine
from tollmeter.protocol import head

CPUFREQ = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
MODULE, END = 17, 127


def machine_of(root: Path, abi: Abi, **files: str | bytes) -> Machine:
    """As the files say, whose names have `__` for a slash."""
    named = [(name.replace("__", "/"), content) for name, content in files.items()]
    made = Made(packages=["0-7"], cores=runs(8, 1), last_caches=["0-7"], nodes=[(0, "0-7", 64, "10")], files=named)
    checkout = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(made.write(root))}
    words = [checkout / "build" / abi.name / "kernel.loop", "--machine"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=LONG_S)
    machine = head(done.stdout).machine
    assert machine is not None
    return machine


def found(machine: Machine, core_clock_hz: float = 3.9e9, *, timed: bool = True) -> set[str]:
    """On an otherwise sound machine with the facts of this one. timed: whether the run has rows."""
    results = sound(1) if timed else with_index(sound(1), rows=())
    facts = {**results.index.machine.facts, **machine.facts}
    return {one.name for one in all_findings(
        with_index(results, machine=replace(results.index.machine, facts=facts, core_clock_hz=core_clock_hz))
    )}  # fmt: skip


def test_a_recorded_governor_and_a_low_clock_are_found(tmp_path: Path, own_abi: Abi) -> None:
    files = {CPUFREQ.format(cpu, name).replace("/", "__"): text for cpu in range(8)
             for name, text in (("scaling_governor", "powersave"), ("cpuinfo_max_freq", "4200000"))}  # fmt: skip
    machine = machine_of(tmp_path, own_abi, **files)
    assert machine.facts["governor"] == "powersave"
    assert found(machine, 2.1e9) == {"machine.clock_is_below_maximum"}
    assert not found(machine, 4.1e9)


def test_a_recorded_clock_source_that_is_a_device_is_found(tmp_path: Path, own_abi: Abi) -> None:
    source = {"sys__devices__system__clocksource__clocksource0__current_clocksource": "acpi_pm"}
    machine = machine_of(tmp_path, own_abi, **source)
    assert not found(machine), "reading it was measured, and is fast"
    assert found(machine, timed=False) == {"kernel.clock_is_slow"}


def test_recorded_tracers_and_checks_of_the_kernel_are_found(tmp_path: Path, own_abi: Abi) -> None:
    files = {"sys__kernel__tracing__current_tracer": "function", "proc__lockdep_stats": "lock-classes: 9"}
    machine = machine_of(tmp_path, own_abi, **files)
    assert machine.facts["debugging"] == "lockdep"
    assert found(machine) == {"kernel.events_are_traced", "kernel.is_for_debugging"}


def module(megabytes: int, rated: int, configured: int) -> bytes:
    """A memory device of SMBIOS, with two strings."""
    head = struct.pack("<BBHHHHHHBBBBBHH", MODULE, 34, 7, 1, 2, 64, 64, megabytes, 9, 0, 1, 2, 26, 0, rated)
    return head + bytes(32 - len(head)) + struct.pack("<H", configured) + b"DIMM_A1\0BANK 0\0\0"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (module(8192, 4800, 4000) + module(0, 0, 0) + module(8192, 4800, 4400), ("3", "2", "4800", "4000")),
        (b"\x00\x05\x00\x00\x01Maker\0\0" + module(8192, 3200, 3200), ("1", "1", "3200", "3200")),
        (module(8192, 4800, 4800)[:20], (None,) * 4),
        (b"\x11\x02", (None,) * 4),
        (b"\x11\xff" + bytes(9), (None,) * 4),
    ],
)
def test_memory_modules_are_counted_from_the_firmwares_table(
    tmp_path: Path, own_abi: Abi, table: bytes, told: tuple[str | None, ...]
) -> None:
    """One that is cut, or has impossible lengths, says nothing."""
    machine = machine_of(tmp_path, own_abi, sys__firmware__dmi__tables__DMI=table + bytes([END, 4, 0, 0, 0, 0]))
    names = ("memory_slots", "memory_modules", "memory_rated_mts", "memory_configured_mts")
    assert tuple(machine.facts.get(name) for name in names) == told
    assert ("memory.modules_are_slow" in found(machine)) == (told[3] == "4000")
    json.dumps(machine.facts)
