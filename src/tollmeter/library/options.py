# SPDX-License-Identifier: Apache-2.0
"""The command lines of `toll run` and `toll time` as they were typed, and the values of their options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from tollmeter.catalog import check_known
from tollmeter.model import PRECISION, RATIO_PRECISION, Failure, Priority

DEFAULT_BUDGET = "110s"


def usual_precision(against: Sequence[str]) -> float:
    """Returns the default precision of a row, or of a ratio in an interleaved comparison."""
    return RATIO_PRECISION if against else PRECISION


class Options(NamedTuple):
    """The options of a run, as typed; None for an option that was not typed. form: format of the answer. began:
    monotonic seconds at which the command began. beside: do not wait for another run. all_points: measure all points
    although the budget is too short for most. trust: suite and ABI files whose commands may be started from now on."""

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
    counters: str | None = None

    @property
    def is_urgent(self) -> bool:
        """Returns whether the code before and after the visits runs at real-time priority, as the visits do. Beside
        four busy programs, half a second of this code would otherwise take five seconds, beyond the budget."""
        return self.priority != "normal"


class TimeOptions(NamedTuple):
    """The options of timed commands, as typed; None for an option that was not typed. prepare, conclude: hooks for all
    commands, or one for each. allowed: exit statuses other than 0 that are accepted; None: all. output: null, pipe,
    inherit, or a file; empty: kept in memory and compared. timeout_s: limit of one run, s; 0 for none. metrics: metrics
    to count beside the time. words: the command line."""

    words: tuple[str, ...] = ()
    warmup: int = 0
    runs: int | None = None
    min_runs: int | None = None
    max_runs: int | None = None
    budget_s: float | None = None
    precision: float = PRECISION
    prepare: tuple[str, ...] = ()
    conclude: tuple[str, ...] = ()
    setup: str = ""
    cleanup: str = ""
    verify: str = ""
    shell: str | None = None
    allowed: frozenset[int] | None = frozenset()
    input: str = ""
    output: str = ""
    timeout_s: float = 0.0
    metrics: tuple[str, ...] = ()
    out: Path | None = None
    beside: bool = False


# ---- values ---------------------------------------------------------------------------------------------------------

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "ms": 1e-3}
_LONGEST_S = 30 * 86400
_LONGEST_QUOTED = 60


def seconds(text: str, option: str = "--budget") -> float:
    """Returns seconds from 30, 30s, 500ms, 2m or 1h. Raises Failure (2)."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", text.strip(), re.IGNORECASE)
    unit = _SECONDS.get(match[2].lower()) if match else None
    value_s = float(match[1]) * unit if match and unit else 0.0
    if not 0 < value_s <= _LONGEST_S:
        raise Failure(f"{option} {_short(text)}: expected a time such as 30s or 2m, at most {_LONGEST_S // 86400} days")
    return value_s


_EVERY = "all-non-zero"


def statuses(text: str) -> frozenset[int] | None:
    """Returns the exit statuses that --ignore-failure names, as 1,7; None for all of them. Raises Failure (2)."""
    if text == _EVERY:
        return None
    if not re.fullmatch(r"([0-9]{1,3}(,[0-9]{1,3})*)?", text):
        raise Failure(f"--ignore-failure={_short(text)}: expected exit statuses such as 1,7, or {_EVERY}")
    return frozenset(int(part) for part in text.split(",") if part)


def _short(text: str) -> str:
    return text if len(text) < _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}..."


def share(text: str, option: str = "--precision") -> float:
    """Returns a share from 3% or 0.5 %. Raises Failure (2)."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text.strip())
    if not match or not 0 < float(match[1]) <= 100:
        raise Failure(f"{option} {_short(text)}: expected a percentage above 0 and at most 100, such as 2%")
    return float(match[1]) / 100


def priority_named(text: str) -> Priority:
    """Returns the named priority. Raises Failure (2)."""
    check_known("priority", text, ("real-time", "normal"))
    return cast("Priority", text)


def counters_named(text: str) -> bool:
    """Returns whether events are counted with samples. Raises Failure (2)."""
    check_known("value of --counters", text, ("on", "off"))
    return text == "on"


def cpu_numbers(text: str | None) -> tuple[int, ...]:
    """Returns CPUs from 0,2 or 4-7. Raises Failure (2)."""
    cpus: list[int] = []
    for part in text.split(",") if text is not None else ():
        span = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if first > last:
            raise Failure(f"--cpus {_short(text or '')}: expected numbers such as 0,2 or 4-7")
        cpus += range(first, last + 1)
    return tuple(cpus)


def names(text: str | None) -> tuple[str, ...]:
    """Returns the names of ABIs or targets. text: names with commas between them. Raises Failure (2) for an empty name,
    as from an unset variable in a script."""
    parts = () if text is None else tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise Failure(f"{text!r}: a name is missing")
    return parts


# ---- arguments of measure() -----------------------------------------------------------------------------------------

LARGEST_SEED = 2**63 - 1


def typed_text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise Failure(f"{name}={value!r}: expected text, as for `toll run --{name}`")


def texts(name: str, value: object) -> tuple[str, ...]:
    """Returns one text, or several, as a tuple."""
    values = (value,) if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not all(isinstance(text, str) for text in values):
        raise Failure(f"{name}={value!r}: expected text or a list of texts")
    return tuple(values)


def typed_names(name: str, value: object) -> str | None:
    """Returns names of ABIs or targets, joined by commas."""
    return typed_text(name, value) if value is None or isinstance(value, str) else ",".join(texts(name, value))


def typed_budget(value: object) -> str | None:
    """Returns the text of a budget; a number is in seconds."""
    return f"{value:.3f}s" if isinstance(value, int | float) else typed_text("budget", value)


def cpus_text(value: object) -> str | None:
    if isinstance(value, Sequence) and all(isinstance(cpu, int) for cpu in value):
        return ",".join(map(str, value))
    return typed_text("cpus", value)


def path_of(name: str, value: object) -> Path | None:
    """Returns the value of an option as a path; None if it is None or empty text. name: the option's, for the message.
    Raises Failure (2) for a value of another type."""
    if value is not None and not isinstance(value, str | Path):
        raise Failure(f"{name}={value!r}: expected a path")
    return Path(value) if value else None


def check_seed(value: object) -> None:
    if value is not None and not (isinstance(value, int) and 0 <= value <= LARGEST_SEED):
        raise Failure(f"--seed {value}: expected a number from 0 to {LARGEST_SEED}")
