# SPDX-License-Identifier: Apache-2.0
"""`toll selftest`: whether a lie passes for a number here."""

from __future__ import annotations

import time

CAUGHT_ALL, PASSED = 0, 1


def selftest() -> int:
    """Plant ten faults into copies of real probes, and show what detects each."""
    from tollmeter.conduct import Stopping
    from tollmeter.library.selftest import selftest as planted

    began = time.monotonic()
    count = caught = 0
    with Stopping() as stopping:
        for fault in planted(stopping):
            count += 1
            caught += fault.by is not None
            print(
                f"{'caught' if fault.by else 'PASSED'}  {fault.name} ({fault.planted}): {fault.by or 'nothing'}",
                flush=True,
            )
    print(f"{caught} of {count} lies were caught, in {time.monotonic() - began:.0f} s")
    return CAUGHT_ALL if caught == count else PASSED
