# SPDX-License-Identifier: Apache-2.0
"""Several CPUs on one modelled memory: how long a load waits, and what each of them still gets.

A memory that serves one line after the other, asked at random times, is a queue of one server with constant service
(M/D/1; Kleinrock, Queueing Systems, 1975): at utilisation u a request waits u / (2 (1 - u)) services."""

from __future__ import annotations

from model.machine import MIB, Machine
from model.measured import Noise
from tollmeter.model import Row

SHARES_OF_FULL = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
SIZE = 128 * MIB


def traffic_rows(machine: Machine, noise: Noise, most: float) -> list[Row]:
    """A chase beside traffic that takes up to the share `most` of what the memory delivers."""
    full = machine.line_bytes / machine.ns(machine.memory_transfer) * 1e9
    made = []
    for delay, share in enumerate(sorted((share * most for share in SHARES_OF_FULL), reverse=True)):
        parameters = {"delay": delay * 64, "mix": "1:0", "size": SIZE}
        waits = machine.memory_transfer * share / (2 * (1 - share))
        made.append(noise.row("latency-of-traffic", machine.ns(machine.memory_latency + waits), parameters))
        made.append(noise.row("traffic-beside", max(share, 0.001) * full, parameters))
    return made


def instance_rows(machine: Machine, noise: Noise, count: int, lost: float, together: float) -> list[Row]:
    """Reading by one instance and by `count` of them. Each in its own first cache loses the share `lost` to the others;
    from memory all of them get `together` times what one gets."""
    rates = {
        machine.caches[0].size_bytes // 2: (machine.load_gap, count * (1 - lost)),
        SIZE: (machine.memory_transfer, together),
    }
    made = []
    for size, (cycles, gain) in rates.items():
        alone = machine.line_bytes / machine.ns(cycles) * 1e9
        for instances, rate in ((1, alone), (count, alone * gain)):
            parameters = {"instances": instances, "size": size, "operation": "read"}
            made.append(noise.row("bandwidth-of-instances", rate, parameters))
    return made


def node_rows(machine: Machine, noise: Noise, farther: float) -> list[Row]:
    """Two memory nodes, the other one so many times as far as one's own."""
    near = machine.ns(machine.memory_latency)
    return [
        noise.row(
            "latency-of-node", near * (1.0 if node == home else farther), {"node": node, "home": home, "size": SIZE}
        )
        for node in range(2)
        for home in range(2)
    ]
