# SPDX-License-Identifier: Apache-2.0
"""Measures a run that a verb judges when it is complete, without progress and without a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tollmeter import starting
from tollmeter.exit_codes import INTERRUPTED
from tollmeter.library import places
from tollmeter.library.options import Options
from tollmeter.model import Failure
from tollmeter.store.history import remember


def measured_suite(
    words: Sequence[str], budget: str | None, precision: str, *, folder: Path | None = None, cpus: str | None = None
) -> Path:
    """Measures a suite, adds it to the history, and returns the run's folder. folder: folder in which probes may create
    files; cpus: CPUs to measure on. Raises Failure (130) after a signal."""
    from tollmeter.conduct import Stopping
    from tollmeter.library.derive import open_run, remembered
    from tollmeter.library.measure import measured, no_observers
    from tollmeter.library.prepare import prepared

    options = Options(
        words=tuple(words), abi=None, budget=budget, seed=None, cpus=cpus, out=None, form="table", quiet=True,
        began=starting.began(), precision=precision, folder=folder,
    )  # fmt: skip
    with starting.realtime_priority(wanted=options.is_urgent):
        ready = prepared(options)
    with Stopping() as stopping:
        done = measured(ready, options, no_observers, stopping).folder
        if stopping.asked:
            raise Failure(f"what was measured until now is in {done}", INTERRUPTED)
    remember(places.RUNS, remembered(open_run(done)))
    return done
