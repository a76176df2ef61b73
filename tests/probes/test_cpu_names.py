# SPDX-License-Identifier: Apache-2.0
"""How a real probe names the CPUs of machines whose kernels tell no model name: their files, in a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.waiting import LONG_S
from tollmeter.model import Abi
from tollmeter.protocol import head

ARM = """processor\t: {cpu}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm
CPU implementer\t: {implementer}
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
CPU revision\t: 1

"""
POWER = """processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 3800.000000MHz
revision\t: 2.2 (pvr 004e 1202)

timebase\t: 512000000
platform\t: PowerNV
model\t\t: 8335-GTG
machine\t\t: PowerNV 8335-GTG
"""
Z = """vendor_id       : IBM/S390
# processors    : 2
bogomips per cpu: 3241.00
processor 0: version = 00,  identification = 0133E8,  machine = 8561
processor 1: version = 00,  identification = 0133E8,  machine = 8561

cpu number      : 0
cpu MHz dynamic : 5200
"""
SPARC = "cpu\t\t: UltraSparc T5 (Niagara5)\nfpu\t\t: UltraSparc T5 integrated FPU\npmu\t\t: niagara5\n"
RISCV = "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\n"
LOONGSON = "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\nModel Name\t\t: Loongson-3A5000\n"
MODEL, PRODUCT = "proc/device-tree/model", "sys/class/dmi/id/product_name"


def arm(*cpus: tuple[str, str]) -> str:
    return "".join(ARM.format(cpu=cpu, implementer=of, part=part) for cpu, (of, part) in enumerate(cpus))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("Arm Neoverse-N1", {"proc/cpuinfo": arm(*[("0x41", "0xd0c")] * 64), PRODUCT: "Mt. Jade\n"}),
        ("Ampere-1a", {"proc/cpuinfo": arm(("0xc0", "0xac4"))}),
        (
            "Arm Cortex-A520 + Arm Cortex-A720 + Arm Cortex-X4",
            {"proc/cpuinfo": arm(*[("0x41", part) for part in ("0xd80", "0xd80", "0xd81", "0xd81", "0xd82")])},
        ),
        ("Mt. Unknown, CPU part 0xfff", {"proc/cpuinfo": arm(("0x41", "0xfff")), PRODUCT: "Mt. Unknown\n"}),
        ("CPU part 0xfff", {"proc/cpuinfo": arm(("0x41", "0xfff"))}),
        ("POWER9", {"proc/cpuinfo": POWER, MODEL: "8335-GTG\0"}),
        ("IBM z15 (8561)", {"proc/cpuinfo": Z}),
        ("UltraSparc T5 (Niagara5)", {"proc/cpuinfo": SPARC}),
        ("sifive,u74-mc", {"proc/cpuinfo": RISCV + "uarch\t\t: sifive,u74-mc\n", MODEL: "VisionFive 2\0"}),
        ("StarFive VisionFive V1", {"proc/cpuinfo": RISCV, MODEL: "StarFive VisionFive V1\0"}),
        ("rv64imafdc", {"proc/cpuinfo": RISCV}),
        ("Loongson-3A5000", {"proc/cpuinfo": LOONGSON}),
    ],
)
def test_a_cpu_is_named_as_its_system_or_its_maker_does(
    tree: Path, own_abi: Abi, tmp_path: Path, name: str, files: dict[str, str]
) -> None:
    """An arm64 server was named 0xd0c, and a POWER or an s390x by its architecture."""
    for path, text in files.items():
        file = tmp_path / "machine" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done = subprocess.run(
        [tree / "build" / own_abi.name / "kernel.loop", "--machine"], capture_output=True, check=True, timeout=LONG_S,
        env={**os.environ, "TOLL_SYSTEM_ROOT": str(tmp_path / "machine")},
    )  # fmt: skip
    machine = head(done.stdout).machine
    assert machine is not None and machine.cpu == name
