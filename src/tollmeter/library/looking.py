# SPDX-License-Identifier: Apache-2.0
"""Further measurements of a suite after the run, in the remaining budget: profiles, a modelled cache, stack distances.
Each that did not fit is reported."""

from __future__ import annotations

import time
from pathlib import Path

from tollmeter.conduct import Stopping
from tollmeter.library.derive import learned
from tollmeter.library.prepare import Prepared
from tollmeter.library.sampled import SPENT, STOPPED
from tollmeter.notices import Counting, notify

PROFILE_S, _LEAST_PROFILE_S = 1.75, 0.5
"""Time of each profile of a suite: some 17,000 samples in 14 slices; half of them still give a share to 1.1 points."""
_TURNS = 1.5
"""Of all its slices a profile may get half as many again."""


def look(ready: Prepared, folder: Path, until_s: float, stopping: Stopping, *, quiet: bool) -> None:
    """until_s: monotonic seconds. What there is is kept in the run's folder, also after a Ctrl-C."""

    def over() -> str | None:
        return STOPPED if stopping.asked else SPENT if time.monotonic() >= until_s else None

    from tollmeter.library.addresses import model_suite, take_distances
    from tollmeter.library.profiling import profile_suite, wanted_by
    from tollmeter.plan.points import Ground

    suite, request = ready.request.suite, ready.request
    place = Ground(ready.catalog, ready.machine, request.abis)
    if wanted := wanted_by(suite.profile, place):
        left_s = (until_s - time.monotonic()) / len(wanted) / _TURNS
        seconds = min(PROFILE_S, max(_LEAST_PROFILE_S, left_s))
        profile_suite(
            folder, wanted, seconds, (lambda _: None) if quiet else notify, learned(request).widths, over=over
        )
    if suite.modelled:
        with Counting("points in a modelled cache") as count:
            model_suite(folder, suite.modelled, place, over, _silently if quiet else count)
    if suite.worth:
        with Counting("programs whose loads were looked at") as count:
            take_distances(folder, suite, place, over, _silently if quiet else count)


def _silently(done: int, total: int) -> None:
    """Prints nothing, for --quiet."""
