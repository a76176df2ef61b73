# SPDX-License-Identifier: Apache-2.0
"""The command line of `toll run`, as it was typed, and when. None for what was not typed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import PRECISION, RATIO_PRECISION

DEFAULT_BUDGET = "110s"


def usual_precision(against: Sequence[str]) -> float:
    """The precision that is wanted of a row; of a ratio, in an interleaved comparison."""
    return RATIO_PRECISION if against else PRECISION


class Options(NamedTuple):
    """began: monotonic seconds. beside: another run, if one measures already. all_points: though the budget is too
    short for most of what is asked. trust: suite and ABI files whose commands may be started from now on."""

    words: tuple[str, ...]
    abi: str | None
    budget: str | None
    seed: int | None
    cpus: str | None
    out: Path | None
    form: str
    quiet: bool
    began: float
    target: str | None = None
    precision: str | None = None
    priority: str | None = None
    against: tuple[str, ...] = ()
    beside: bool = False
    clock: str | None = None
    folder: Path | None = None
    peer: str | None = None
    all_points: bool = False
    trust: tuple[Path, ...] = ()
