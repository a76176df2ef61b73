# SPDX-License-Identifier: Apache-2.0
"""The host itself off the CPUs that are measured."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def kept_on(cpu: int | None) -> Iterator[str | None]:
    """Keeps this process on one CPU, and gives it back all others at the end. Yields a sentence where it may not be.

    What it starts inherits the one CPU and leaves it at once: the runtime pins every worker where its visit says.
    """
    before = os.sched_getaffinity(0)
    if cpu is None or cpu not in before:
        yield "the host tool has no CPU to itself, and shares one with the probes"
        return
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        yield f"the system does not let the host tool choose its CPU ({error.strerror}): it may disturb the probes"
        return
    try:
        yield None
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)
