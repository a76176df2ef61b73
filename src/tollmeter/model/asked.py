# SPDX-License-Identifier: Apache-2.0
"""What is asked: suites and their selections, points and visits."""

from __future__ import annotations

from typing import Literal

from tollmeter.model.base import Priority, Record, Value


class Select(Record, frozen=True, forbid_unknown_fields=True):
    """Probes (a name or glob), on which ABIs, at which values; `native` is the first ABI that this machine runs.

    A parameter that is not named takes its whole default sweep, or with others = "typical" its one typical value.
    cpu: the architectures that it is for, as `uname -m` names them; target: the places, by name or glob; empty for all.
    """

    probe: str
    cpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    abi: tuple[str, ...] = ("native",)
    parameters: dict[str, Value | tuple[Value, ...]] = {}
    others: Literal["sweep", "typical"] = "sweep"


class RowOf(Record, frozen=True, forbid_unknown_fields=True):
    """Picks rows by what they mean or where they come from; what is left out matches anything.

    target: a name or glob.
    """

    means: str | None = None
    probe: str | None = None
    metric: str | None = None
    abi: str | None = None
    target: str | None = None
    parameters: dict[str, Value] = {}


class Published(Record, frozen=True, forbid_unknown_fields=True):
    """One claim of a study. Beside it stands the median of `row`, or of `row` divided by that of `over`.

    figure is the claim as the study words it, value the same as a number in `unit`, where it is one; the unit `turns`
    is a time in turns of the control loop that ran beside it, there as here. correction says
    what the claim gets wrong or leaves out. missing says, in a sentence, why no row can stand beside it yet.
    """

    what: str
    figure: str
    value: float | None = None
    unit: str = ""
    correction: str | None = None
    row: RowOf | None = None
    over: RowOf | None = None
    missing: str | None = None


class Suite(Record, frozen=True, forbid_unknown_fields=True):
    """A named selection and the question that it answers (suites/NAME.toml); source and published: of a study.

    budget: wall time that it needs, as --budget takes it; empty: the usual one.
    """

    name: str
    question: str
    select: tuple[Select, ...]
    budget: str = ""
    source: str | None = None
    published: tuple[Published, ...] = ()


class Point(Record, frozen=True):
    """One place in the space of probes, ABIs, targets and parameters: what a row stands for."""

    probe: str
    abi: str
    target: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def values(self) -> dict[str, Value]:
        return dict(self.parameters)


class Visit(Record, frozen=True):
    """Samples of one point at one moment. seed: of the layout: the process that has prepared it may serve several
    visits. iterations, control_iterations: of the shorter batch, as an earlier visit found them; 0 where there was
    none.
    """

    id: int
    point: Point
    round: int
    cpus: tuple[int, ...]
    samples: int
    sample_ns: int
    seed: int
    deadline_ms: int
    iterations: int = 0
    control_iterations: int = 0
    priority: Priority = "normal"
