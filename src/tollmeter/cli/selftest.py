# SPDX-License-Identifier: Apache-2.0
"""`toll selftest`: whether a lie passes for a number here."""

from __future__ import annotations

import time

CAUGHT_ALL, PASSED = 0, 1


def selftest() -> int:
    """Plant faults into copies of real probes, and show whether each is detected for the reason that it must be."""
    from tollmeter.conduct import Stopping
    from tollmeter.library.selftest import CAUGHT
    from tollmeter.library.selftest import selftest as planted

    began = time.monotonic()
    count = caught = 0
    with Stopping() as stopping:
        for lie in planted(stopping):
            count += 1
            caught += lie.outcome == CAUGHT
            outcome = lie.outcome if lie.outcome == CAUGHT else lie.outcome.upper()
            print(f"{outcome}  {lie.name} ({lie.planted}): {lie.by}", flush=True)
    print(f"{caught} of {count} lies were caught as expected, in {time.monotonic() - began:.0f} s")
    return CAUGHT_ALL if caught == count else PASSED
