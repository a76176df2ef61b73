# SPDX-License-Identifier: Apache-2.0
"""The command line of `toll run`, as it was typed. None for what was not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DEFAULT_BUDGET = "110s"


class Options(NamedTuple):
    words: tuple[str, ...]
    abi: str | None
    budget: str | None
    seed: int | None
    cpus: str | None
    out: Path | None
    form: str
    quiet: bool
    target: str | None = None
