# SPDX-License-Identifier: Apache-2.0
"""The arguments of `tollmeter.measure()` as text that `toll run` takes. A value of another type raises Failure (2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tollmeter.model import Failure

LARGEST_SEED = 2**63 - 1


def text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise Failure(f"{name}={value!r}: expected text, as for `toll run --{name}`")


def texts(name: str, value: object) -> tuple[str, ...]:
    """One text, or several."""
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Sequence) or not all(isinstance(text, str) for text in several):
        raise Failure(f"{name}={value!r}: expected text or a list of texts")
    return tuple(several)


def joined(name: str, value: object) -> str | None:
    """Names of ABIs or targets."""
    return text(name, value) if value is None or isinstance(value, str) else ",".join(texts(name, value))


def budget_text(value: object) -> str | None:
    """A number is one of seconds."""
    return f"{value:.3f}s" if isinstance(value, int | float) else text("budget", value)


def cpus_text(value: object) -> str | None:
    if isinstance(value, Sequence) and all(isinstance(cpu, int) for cpu in value):
        return ",".join(map(str, value))
    return text("cpus", value)


def path_of(name: str, value: object) -> Path | None:
    """None and empty text: not given."""
    if value is not None and not isinstance(value, str | Path):
        raise Failure(f"{name}={value!r}: expected a path")
    return Path(value) if value else None


def check_seed(value: object) -> None:
    if value is not None and not (isinstance(value, int) and 0 <= value <= LARGEST_SEED):
        raise Failure(f"--seed {value}: expected a number from 0 to {LARGEST_SEED}")
