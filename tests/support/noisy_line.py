# SPDX-License-Identifier: Apache-2.0
"""Two connected pseudo-terminals that lose, duplicate and insert bytes, by a seed."""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Faults(NamedTuple):
    """Shares of all bytes that are lost, duplicated, and followed by an inserted byte."""

    lost: float = 0.0
    doubled: float = 0.0
    inserted: float = 0.0

    def on(self, content: bytes, rng: random.Random) -> bytes:
        out = bytearray()
        for byte in content:
            what = rng.random()
            out += bytes([byte]) * (0 if what < self.lost else 2 if what < self.lost + self.doubled else 1)
            if rng.random() < self.inserted:
                out.append(rng.randrange(1, 128))
        return bytes(out)


class Ends(NamedTuple):
    """Paths of both ends."""

    near: str
    far: str


@contextmanager
def noisy_line(faults: Faults = Faults(), seed: int = 1, back: Faults | None = None) -> Iterator[Ends]:
    """Yields the ends of a line. faults: in the bytes from the far end; back: in those from the near end."""
    near, near_slave = os.openpty()
    far, far_slave = os.openpty()
    for slave in (near_slave, far_slave):
        tty.setraw(slave)
    stop, wake = os.pipe()
    ways = {far: (near, faults), near: (far, back or Faults())}
    carrier = threading.Thread(target=_carry, args=(ways, stop, random.Random(seed)), daemon=True)
    carrier.start()
    try:
        yield Ends(os.ttyname(near_slave), os.ttyname(far_slave))
    finally:
        os.close(wake)
        carrier.join()
        for descriptor in (near, near_slave, far, far_slave, stop):
            os.close(descriptor)


def _carry(ways: dict[int, tuple[int, Faults]], stop: int, rng: random.Random) -> None:
    while True:
        ready, _, _ = select.select([*ways, stop], [], [])
        if stop in ready:
            return
        for source in ready:
            target, faults = ways[source]
            with contextlib.suppress(OSError):
                os.write(target, faults.on(os.read(source, 256), rng))
