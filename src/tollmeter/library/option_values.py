# SPDX-License-Identifier: Apache-2.0
"""The values of the options of `toll run`, from the text that was typed."""

from __future__ import annotations

import re

from tollmeter.catalog import unknown
from tollmeter.model import Failure, Priority

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "ms": 1e-3}
_LONGEST_S = 30 * 86400
_LONGEST_TOLD = 60


def seconds(text: str) -> float:
    """30, 30s, 500ms, 2m, 1h. Raises Failure (2)."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", text.strip(), re.IGNORECASE)
    unit = _SECONDS.get(match[2].lower()) if match else None
    asked_s = float(match[1]) * unit if match and unit else 0.0
    if not 0 < asked_s <= _LONGEST_S:
        raise Failure(f"--budget {_short(text)}: expected a time such as 30s or 2m, at most {_LONGEST_S // 86400} days")
    return asked_s


def _short(text: str) -> str:
    return text if len(text) < _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}..."


def share(text: str, option: str = "--precision") -> float:
    """3%, 0.5 %. Raises Failure (2)."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text.strip())
    if not match or not 0 < float(match[1]) <= 100:
        raise Failure(f"{option} {_short(text)}: expected a share such as 2%")
    return float(match[1]) / 100


def priority_named(text: str) -> Priority:
    """Raises Failure (2)."""
    known: dict[str, Priority] = {"real-time": "real-time", "normal": "normal"}
    if text not in known:
        raise unknown("priority", text, [*known])
    return known[text]


def numbers(text: str | None) -> tuple[int, ...]:
    """CPUs: 0,2 or 4-7. Raises Failure (2)."""
    cpus: list[int] = []
    for part in text.split(",") if text is not None else ():
        span = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if first > last:
            raise Failure(f"--cpus {_short(text or '')}: numbers such as 0,2 or 4-7 are meant")
        cpus += range(first, last + 1)
    return tuple(cpus)


def names(text: str | None) -> tuple[str, ...]:
    """Of ABIs or targets. Raises Failure (2) for an empty one: a script's variable that is not set."""
    parts = () if text is None else tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise Failure(f"{text!r}: a name is missing")
    return parts
