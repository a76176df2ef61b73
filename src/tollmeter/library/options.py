# SPDX-License-Identifier: Apache-2.0
"""The command line of `toll run`, as it was typed, and when. None for what was not typed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DEFAULT_BUDGET = "110s"


class Options(NamedTuple):
    """began: monotonic seconds."""

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
    folder: Path | None = None
    peer: str | None = None
