# SPDX-License-Identifier: Apache-2.0
"""Machines as folders: the few files of /sys and /proc that tell of CPUs, caches and memory nodes, written from one
line for each set of CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tollmeter.model.topology import listed, numbers

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Made:
    """Sets of CPUs as lists. nodes: number, CPUs, GiB and distances. kinds: a scheduler's capacity, or the name of an
    x86 hybrid's counters, by the CPUs. files: any others, by path."""

    packages: Sequence[str]
    cores: Sequence[str]
    last_caches: Sequence[str] = ()
    dies: Sequence[str] = ()
    clusters: Sequence[str] = ()
    nodes: Sequence[tuple[int, str, int, str]] = ()
    kinds: Sequence[tuple[int | str, str]] = ()
    offline: str = ""
    isolated: str = ""
    nohz_full: str = ""
    possible: str = ""
    allowed: str = ""
    allowed_nodes: str = ""
    files: Sequence[tuple[str, str]] = ()

    def write(self, root: Path) -> Path:
        cpus = "sys/devices/system/cpu"
        online = listed(cpu for members in self.packages for cpu in numbers(members))
        told = {
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
        for node, members, gib, distances in self.nodes:
            folder = f"sys/devices/system/node/node{node}"
            told |= {f"{folder}/cpulist": members, f"{folder}/distance": distances}
            told[f"{folder}/meminfo"] = f"Node {node} MemTotal:       {gib * GIB // 1024} kB\n"
        for path, text in told.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text if text.endswith("\n") else f"{text}\n")
        return root


def runs(count: int, length: int) -> list[str]:
    """`count` sets of `length` neighbouring CPUs: 0-3, 4-7, ..."""
    return [listed(range(first * length, (first + 1) * length)) for first in range(count)]


def halves(count: int) -> list[str]:
    """Cores whose threads are numbered as Linux on x86 usually does: 0 and 8, 1 and 9, ..."""
    return [f"{cpu},{cpu + count}" for cpu in range(count)]


def both(spans: Sequence[str], count: int) -> list[str]:
    """The sets of cores with the other threads of these."""
    return [listed([*numbers(span), *(cpu + count for cpu in numbers(span))]) for span in spans]


def _evens(first: int) -> str:
    return ",".join(map(str, range(first, 16, 2)))


XEON = Made(
    packages=[_evens(0), _evens(1)], dies=[_evens(0), _evens(1)], last_caches=[_evens(0), _evens(1)], cores=halves(8),
    nodes=[(0, _evens(0), 96, "10 21"), (1, _evens(1), 96, "21 10")],
)  # fmt: skip
"""Two sockets of four cores, whose CPUs are numbered in turn."""
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
