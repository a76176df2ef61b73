# SPDX-License-Identifier: Apache-2.0
"""Machines as folders: the few files of /sys and /proc that describe CPUs, caches and memory nodes, written from one
line for each set of CPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tollmeter.model.topology import listed, numbers

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Made:
    """A machine as sets of CPUs, each a list as text. nodes: number, CPUs, GiB and distances. kinds: a scheduler's
    capacity, or the name of an x86 hybrid's counters, by the CPUs. parts: part number of an Arm core, by the CPUs.
    files: further files by path."""

    packages: Sequence[str]
    cores: Sequence[str]
    last_caches: Sequence[str] = ()
    dies: Sequence[str] = ()
    clusters: Sequence[str] = ()
    nodes: Sequence[tuple[int, str, int, str]] = ()
    kinds: Sequence[tuple[int | str, str]] = ()
    parts: Sequence[tuple[int, str]] = ()
    offline: str = ""
    isolated: str = ""
    nohz_full: str = ""
    possible: str = ""
    allowed: str = ""
    allowed_nodes: str = ""
    files: Sequence[tuple[str, str | bytes]] = ()

    def write(self, root: Path) -> Path:
        cpus = "sys/devices/system/cpu"
        online = listed(cpu for members in self.packages for cpu in numbers(members))
        told: dict[str, str | bytes] = {
            f"{cpus}/online": online, f"{cpus}/offline": self.offline, f"{cpus}/isolated": self.isolated,
            f"{cpus}/nohz_full": self.nohz_full, f"{cpus}/possible": self.possible or online,
            "proc/self/status": f"Name:\tprobe\nCpus_allowed_list:\t{self.allowed or self.possible or online}\n"
            f"Mems_allowed_list:\t{self.allowed_nodes or listed(node for node, *_ in self.nodes)}\n",
            "sys/devices/system/node/online": listed(node for node, *_ in self.nodes),
            **dict(self.files),
        }  # fmt: skip
        for name, sets in (
            ("package", self.packages),
            ("die", self.dies),
            ("cluster", self.clusters),
            ("core", self.cores),
        ):
            told |= {
                f"{cpus}/cpu{cpu}/topology/{name}_cpus_list": members for members in sets for cpu in numbers(members)
            }
        for members in self.last_caches:
            for cpu in numbers(members):
                cache = f"{cpus}/cpu{cpu}/cache"
                told |= {f"{cache}/index0/{n}": t for n, t in (("type", "Data"), ("level", "1"), ("size", "32K"))}
                told |= {f"{cache}/index1/{n}": t for n, t in (("type", "Unified"), ("level", "3"), ("size", "32M"))}
                told |= {f"{cache}/index0/shared_cpu_list": f"{cpu}", f"{cache}/index1/shared_cpu_list": members}
        for kind, members in self.kinds:
            if isinstance(kind, str):
                told[f"sys/devices/{kind}/cpus"] = members
            else:
                told |= {f"{cpus}/cpu{cpu}/cpu_capacity": f"{kind}" for cpu in numbers(members)}
        for part, members in self.parts:
            midr = f"0x{0x41 << 24 | part << 4:016x}"
            told |= {f"{cpus}/cpu{cpu}/regs/identification/midr_el1": midr for cpu in numbers(members)}
        for node, members, gib, distances in self.nodes:
            folder = f"sys/devices/system/node/node{node}"
            told |= {f"{folder}/cpulist": members, f"{folder}/distance": distances}
            told[f"{folder}/meminfo"] = f"Node {node} MemTotal:       {gib * GIB // 1024} kB\n"
        for path, text in told.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            content = text if isinstance(text, bytes) else f"{text}\n".encode()
            (root / path).write_bytes(content)
        return root


def runs(count: int, length: int) -> list[str]:
    """Returns `count` sets of `length` neighbouring CPUs: 0-3, 4-7, ..."""
    return [listed(range(first * length, (first + 1) * length)) for first in range(count)]


def halves(count: int) -> list[str]:
    """Returns cores whose threads are numbered as Linux on x86 usually does: 0 and 8, 1 and 9, ..."""
    return [f"{cpu},{cpu + count}" for cpu in range(count)]


def both(spans: Sequence[str], count: int) -> list[str]:
    """Returns the sets, each with the second hardware threads of its cores."""
    return [listed([*numbers(span), *(cpu + count for cpu in numbers(span))]) for span in spans]


def _evens(first: int) -> str:
    return ",".join(map(str, range(first, 16, 2)))


XEON = Made(
    packages=[_evens(0), _evens(1)], dies=[_evens(0), _evens(1)], last_caches=[_evens(0), _evens(1)], cores=halves(8),
    nodes=[(0, _evens(0), 96, "10 21"), (1, _evens(1), 96, "21 10")],
)  # fmt: skip
"""Two sockets of four cores, whose CPUs are numbered alternately."""
EPYC = Made(
    packages=both(runs(2, 64), 128), last_caches=both(runs(16, 8), 128), cores=halves(128),
    nodes=[(0, both(runs(2, 64), 128)[0], 256, "10 32"), (1, both(runs(2, 64), 128)[1], 256, "32 10")],
)  # fmt: skip
HYBRID = Made(
    packages=["0-15"], last_caches=["0-13", "14-15"], cores=[*runs(6, 2), "12", "13", "14", "15"],
    kinds=[("cpu_core", "0-11"), ("cpu_atom", "12-13"), ("cpu_lowpower", "14-15")], nodes=[(0, "0-15", 32, "10")],
)  # fmt: skip
ARM_SERVER = Made(
    packages=["0-7"], last_caches=["0-7"], cores=runs(8, 1), kinds=[(1024, "0-7")],
    nodes=[(0, "0-7", 128, "10 20 40"), (1, "", 64, "20 10 40"), (2, "", 512, "40 40 10")],
)  # fmt: skip
CLUSTERS = Made(
    packages=["0-15"], last_caches=["0-7", "8-15"], clusters=runs(4, 4), cores=runs(16, 1),
    nodes=[(0, "0-15", 64, "10")],
)  # fmt: skip
"""An Arm server whose clusters of four cores share the tags of a cache."""
BIG_LITTLE = Made(
    packages=["0-7"], last_caches=["0-7"], cores=runs(8, 1), nodes=[(0, "0-7", 8, "10")],
    kinds=[(250, "0-3"), (760, "4-6"), (1024, "7")],
)  # fmt: skip
POWER = Made(
    packages=runs(2, 32), last_caches=runs(8, 8), cores=runs(8, 8),
    nodes=[(0, "0-31", 128, "10 40"), (8, "32-63", 128, "40 10")],
)  # fmt: skip
RISCV_BOARD = Made(packages=["0-3"], cores=runs(4, 1), nodes=[(0, "0-3", 4, "10")])
OFFLINE = Made(
    packages=["0,2-3,6"], last_caches=["0,2-3,6"], cores=["0", "2-3", "6"], offline="1,4-5,7", possible="0-7",
    nodes=[(0, "0,2-3,6", 16, "10")],
)  # fmt: skip
SPARSE = Made(
    packages=runs(4, 2), last_caches=runs(4, 2), clusters=runs(4, 2), cores=runs(8, 1),
    nodes=[(node, span, 8, "10 20 20 20") for node, span in zip((0, 8, 252, 900), runs(4, 2), strict=True)],
)  # fmt: skip
ONE_NODE = Made(
    packages=runs(2, 4), last_caches=runs(2, 4), cores=runs(8, 1), allowed="4-7", allowed_nodes="1",
    nodes=[(0, "0-3", 16, "10 21"), (1, "4-7", 16, "21 10")],
)  # fmt: skip
MANY = Made(
    packages=both(runs(10, 75), 750), last_caches=both(runs(50, 15), 750), clusters=halves(750),
    cores=halves(750),
    nodes=[(node, span, 64, " ".join("10" if node == other else "20" for other in range(10)))
           for node, span in enumerate(both(runs(10, 75), 750))],
)  # fmt: skip
CONTAINER = Made(
    packages=["0-3"], last_caches=["0-3"], cores=runs(2, 2), allowed="2", nodes=[(0, "0-3", 16, "10")],
    files=[("sys/fs/cgroup/cpu.max", "50000 100000")],
)  # fmt: skip
ISOLATED = Made(
    packages=["0-3"], last_caches=["0-3"], cores=runs(4, 1), isolated="2-3", nohz_full="3",
    nodes=[(0, "0-3", 16, "10")],
)  # fmt: skip


# ---- machines as others recorded them: their cores, caches and names, and nothing else of the recordings ------------


def caches_of(cpus: int, words: str) -> list[tuple[str, str | bytes]]:
    """Returns the files of caches such as `1D32/2 2U0/8`: level, first letter of the type, KiB (0: not reported), and
    the number of neighbouring CPUs that share one."""
    files: list[tuple[str, str | bytes]] = []
    types = {"D": "Data", "I": "Instruction", "U": "Unified"}
    for index, (level, kind, kib, sharing) in enumerate(re.findall(r"(\d)([DIU])(\d+)/(\d+)", words)):
        for cpu in range(cpus):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            first = cpu - cpu % int(sharing)
            told = {"level": level, "type": types[kind], "shared_cpu_list": listed(range(first, first + int(sharing)))}
            told |= {"size": f"{kib}K"} if int(kib) else {}
            files += [(f"{folder}/{name}", text) for name, text in told.items()]
    return files


def recorded(
    cpus: int, caches: str, *, threads: int = 1, packages: int = 1, gib: int = 16,
    kinds: Sequence[tuple[int | str, str]] = (), parts: Sequence[tuple[int, str]] = (), cpuinfo: str = "",
) -> Made:  # fmt: skip
    files = caches_of(cpus, caches)
    files += [("proc/cpuinfo", cpuinfo), ("proc/meminfo", f"MemTotal: {gib << 20 or 128 << 10} kB")]
    return Made(
        packages=runs(packages, cpus // packages), cores=runs(cpus // threads, threads), kinds=kinds, parts=parts,
        nodes=[(0, f"0-{cpus - 1}", gib, "10")], files=files,
    )  # fmt: skip


_Z = """vendor_id : IBM/S390
cache0 : level=1 type=Data scope=Private size=128K line_size=256 associativity=8
cache2 : level=2 type=Data scope=Private size=2048K line_size=256 associativity=8
cache4 : level=3 type=Unified scope=Shared size=65536K line_size=256 associativity=16
cache5 : level=4 type=Unified scope=Shared size=491520K line_size=256 associativity=30
"""
_A9, _A15 = (f"processor : {{}}\nCPU implementer : 0x41\nCPU part : {part}\n" for part in ("0xc09", "0xc0f"))
RECORDED: dict[str, tuple[Made, str, int]] = {
    "Snapdragon 8 Gen 2": (
        recorded(
            8,
            "1D0/1 1I0/1 2U0/1 3U0/8",
            kinds=[(280, "0-2"), (855, "3-6"), (1024, "7")],
            parts=[(0xD46, "0-2"), (0xD4D, "3-4"), (0xD47, "5-6"), (0xD4E, "7")],
        ),
        "7 Cortex-X3",
        128,
    ),
    "Amlogic S922X": (
        recorded(
            6, "1D0/1 1I0/1 2U0/2", gib=4, kinds=[(592, "0-1"), (1024, "2-5")], parts=[(0xD03, "0-1"), (0xD09, "2-5")]
        ),
        "5 Cortex-A73",
        128,
    ),
    "Rockchip RK3399": (
        recorded(6, "", gib=4, kinds=[(485, "0-3"), (1024, "4-5")], parts=[(0xD03, "0-3"), (0xD08, "4-5")]),
        "5 Cortex-A72",
        128,
    ),
    "NVIDIA GB10": (
        recorded(
            20,
            "1D64/1 1I64/1 2U2048/1 3U16384/10",
            gib=120,
            kinds=[(718, "0-4"), (731, "10-14"), (997, "5-6"), (1017, "7-9"), (1024, "15-19")],
            parts=[(0xD87, "0-4,10-14"), (0xD85, "5-9,15-19")],
        ),
        "19 Cortex-X925",
        128,
    ),
    "NVIDIA Grace": (
        recorded(
            72,
            "1D64/1 1I64/1 2U1024/1 3U116736/72",
            gib=480,
            kinds=[(1007 + cpu % 18, f"{cpu}") for cpu in range(72)],
            parts=[(0xD4F, "0-71")],
        ),
        "71 -",
        448,
    ),
    "Snapdragon 865": (
        recorded(
            8,
            "1D64/1 1I64/1 2U256/1 3U4096/8",
            kinds=[(250, "0-3"), (757, "4-6"), (1024, "7")],
            parts=[(0xD05, "0-3"), (0xD0D, "4-7")],
        ),
        "7 Cortex-A77-capacity-1024",
        128,
    ),
    "Raspberry Pi 4": (recorded(4, "1D32/1 1I48/1 2U1024/4", gib=4, parts=[(0xD08, "0-3")]), "3 -", 128),
    "Kunpeng 920": (
        recorded(128, "1D64/1 1I64/1 2U512/1 3U32768/32", packages=2, parts=[(0xD01, "0-127")]),
        "127 -",
        128,
    ),
    "Ampere Altra": (recorded(80, "1D64/1 1I64/1 2U1024/1", gib=256, parts=[(0xD0C, "0-79")]), "79 -", 128),
    "Exynos 5250": (recorded(2, "", gib=2, cpuinfo=_A15.format(0) + _A15.format(1)), "1 -", 128),
    "OMAP 4430": (recorded(2, "", gib=1, cpuinfo=_A9.format(0) + _A9.format(1)), "1 -", 128),
    "Pentium M": (recorded(1, "1D32/1 1I32/1 2U1024/1", gib=1), "0 -", 128),
    "Core i7-1370P": (
        recorded(
            20,
            "1D48/2 1I32/2 2U1280/2 3U24576/20",
            threads=2,
            gib=32,
            kinds=[(1024, "0-19"), ("cpu_core", "0-11"), ("cpu_atom", "12-19")],
        ),
        "11 cpu_core",
        128,
    ),
    "Core Ultra 5 125H": (
        recorded(
            18,
            "1D48/2 1I64/2 2U2048/2 3U18432/18",
            threads=2,
            gib=32,
            kinds=[("cpu_core", "0-7"), ("cpu_atom", "8-15"), ("cpu_lowpower", "16-17")],
        ),
        "7 cpu_core",
        128,
    ),
    "Core i7-1165G7": (recorded(8, "1D48/2 1I32/2 2U1280/2 3U12288/8", threads=2), "7 -", 128),
    "Core i5-M560": (recorded(4, "1D32/2 1I32/2 2U256/2 3U3072/4", threads=2, gib=4), "3 -", 128),
    "Xeon X7550": (recorded(64, "1D32/2 1I32/2 2U256/2 3U18432/16", threads=2, packages=4, gib=128), "63 -", 128),
    "Xeon E5345": (recorded(8, "1D32/1 1I32/1 2U4096/2", packages=2, gib=8), "7 -", 128),
    "Opteron 865": (recorded(16, "1D64/1 1I64/1 2U1024/1", packages=8, gib=32), "15 -", 128),
    "Opteron 6276": (recorded(64, "1D16/1 1I64/2 2U2048/2 3U6144/8", packages=4, gib=64), "63 -", 128),
    "EPYC 7451": (recorded(96, "1D32/2 1I64/2 2U512/2 3U8192/6", threads=2, packages=2, gib=128), "95 -", 128),
    "EPYC 9684X": (recorded(192, "1D32/2 1I32/2 2U1024/2 3U98304/16", threads=2, packages=1, gib=384), "191 -", 384),
    "POWER7": (recorded(64, "1D32/4 1I32/4", threads=4, gib=64), "63 -", 128),
    "POWER9": (recorded(32, "1D32/4 1I32/4 2U512/8 3U10240/8", threads=4, packages=2, gib=256), "31 -", 128),
    "PowerPC 740": (recorded(1, "1D0/1 1I0/1", gib=1), "0 -", 128),
    "Cell": (recorded(2, "", threads=2, gib=1), "1 -", 128),
    "z13 in a partition": (recorded(2, "1D128/1 1I96/1 2D2048/1 2I2048/1", cpuinfo=_Z), "1 -", 1920),
    "z13 under z/VM": (recorded(3, "", gib=8), "2 -", 128),
    "SG2042": (recorded(64, "", gib=128, kinds=[(1024, "0-63")]), "63 -", 128),
    "VisionFive 2": (recorded(4, "1D32/1 1I32/1 2U2048/4", gib=8), "3 -", 128),
    "Loongson 3C6000": (recorded(32, "1D64/1 1I64/1 2U256/1 3U16384/32", packages=32, gib=64), "31 -", 128),
    "UltraSparc II": (recorded(6, "", gib=6), "5 -", 128),
    "a board of 128 MiB": (recorded(1, "1D16/1 1I16/1", gib=0), "0 -", 32),
}
"""Recorded machines by name: the machine, the CPU of the timed worker with the name of its kind, and the MiB at which a
curve ends."""
