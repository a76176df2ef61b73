# SPDX-License-Identifier: Apache-2.0
"""Requested records: suites and their selections, points and visits."""

from __future__ import annotations

import random
from typing import Annotated, Literal

import msgspec
from msgspec.structs import force_setattr

from tollmeter.model.base import Condition, Priority, Record, Relation, Value, assignments
from tollmeter.model.former_names import has_former_names, present_metric, present_parameters, present_probe


class Select(Record, frozen=True, forbid_unknown_fields=True):
    """A selection of probes (a name or glob), ABIs and values; `native` is the first ABI that this machine runs. A
    parameter that is not named takes its whole sweep, or with others = "typical" its typical value. cpu:
    architectures as in `uname -m`; target: names or globs; empty for all. refused: values of a replacement curve for
    a curve whose every point is refused, for example on huge pages. libraries: false leaves out probes that
    need a library. nodes: the fewest memory nodes with memory. own_node: only pairs of a memory node with itself.
    kinds: also visits a CPU of each other kind of core. narrows: whether a short budget reduces its points. group: the
    heading of its numbers, in place of the name of the probe's folder."""

    probe: str
    cpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    abi: tuple[str, ...] = ("native",)
    parameters: dict[str, Value | tuple[Value, ...]] = {}
    others: Literal["sweep", "typical"] = "sweep"
    refused: dict[str, Value] = {}
    libraries: bool = True
    nodes: int = 1
    own_node: bool = False
    kinds: bool = False
    narrows: bool = False
    group: str = ""

    def __post_init__(self) -> None:
        probe = present_probe(self.probe)
        force_setattr(self, "probe", probe)
        force_setattr(self, "parameters", present_parameters(probe, self.parameters))
        force_setattr(self, "refused", present_parameters(probe, self.refused))


class RowOf(Record, frozen=True, forbid_unknown_fields=True):
    """A selection of rows by meaning or origin; an omitted field matches any value.

    target: a name or glob."""

    means: str | None = None
    probe: str | None = None
    metric: str | None = None
    abi: str | None = None
    target: str | None = None
    parameters: dict[str, Value] = {}

    def __post_init__(self) -> None:
        probe = None if self.probe is None else present_probe(self.probe)
        force_setattr(self, "probe", probe)
        force_setattr(self, "metric", self.metric and present_metric(probe or "", self.metric))
        force_setattr(self, "parameters", present_parameters(probe or "*", self.parameters))

    def words(self) -> str:
        """Returns the selection as text: the probe or meaning, the metric, NAME=VALUE of the parameters, the ABI."""
        named = [self.probe or self.means or "the row", *([self.metric] if self.metric else [])]
        where = f" for {self.abi}" if self.abi and self.abi != "native" else ""
        return " ".join([*named, *assignments(self.parameters.items())]) + where


class Bend(Record, frozen=True, forbid_unknown_fields=True):
    """The bend of a curve, in multiples of a reported cache `level`: the first fall of `rate`, or of the latency."""

    level: str
    rate: RowOf | None = None


class Published(Record, frozen=True, forbid_unknown_fields=True):
    """One claim of a study, and the value compared with it: the median of `row`, or its ratio to `over`; the ratios of
    successive rows of `order`; the position of the bend of `bend`; or the `share` of a function in the left profile
    of `beside` over its share in the right one. figure: the study's words; value: the figure as a number in `unit`;
    `turns` are of the control loop, both in the study and here. correction: errors or omissions of the claim.
    missing: why no row exists yet. about: "caches" or "time" need a real machine, "instructions" also accept an
    emulator's count. relation, tolerance: the condition that confirms it (studies/study.py); by default about the
    value. requires: conditions. counted: false for a second row of a figure, or one that the source does not print."""

    what: str
    figure: str
    value: float | None = None
    unit: str = ""
    correction: str | None = None
    row: RowOf | None = None
    over: RowOf | None = None
    missing: str | None = None
    about: Literal["", "caches", "time", "instructions"] = ""
    relation: Relation = ""
    tolerance: Annotated[float, msgspec.Meta(ge=0)] | None = None
    requires: tuple[Condition, ...] = ()
    counted: bool = True
    order: tuple[RowOf, ...] = ()
    bend: Bend | None = None
    share: str = ""

    @property
    def is_answerable(self) -> bool:
        """Returns whether some machine could judge the claim."""
        return bool(self.row or self.order or self.bend or self.share)


class Listed(Record, frozen=True, forbid_unknown_fields=True):
    """One line of a study's listing, in loops a second. test: the study's name; what: the same in words; row: our row;
    differs: difference of our test. published: value of each of the study's builds, 0 without one."""

    test: str
    what: str
    row: RowOf
    differs: str = ""
    published: tuple[float, ...] = ()


class FigureLine(Record, frozen=True, forbid_unknown_fields=True):
    """A line of a figure: rows over its axis, each divided by the row of `over` at that position; without `over`, by
    this line's own row nearest to the figure's `base`."""

    name: str
    row: RowOf
    over: RowOf | None = None


class FigureMark(Record, frozen=True, forbid_unknown_fields=True):
    """A study's statement about a figure that can be drawn into it: a position `at` of its axis, or a height, in its
    unit."""

    what: str
    at: float | None = None
    height: float | None = None


class StudyFigure(Record, frozen=True, forbid_unknown_fields=True):
    """One of a study's figures, drawn anew. name: its short name; what: its title; shows: its purpose. drawn: "curve"
    from the rows of `line` over `axis`, ratios where there is a base or an `over`; "points", one number for each line;
    "listing", "profiles" or "programs" of the suite; empty if it cannot be drawn, for the reason in `missing`. axis: a
    parameter; of programs, "memory" or "time"; title: title of the heights. base: position by whose row a line is
    divided; 0 without one. faster: heights are speed ratios, else time ratios. mark: statements of the study that are
    drawn into it."""

    name: str
    what: str
    shows: str
    drawn: Literal["", "curve", "points", "listing", "profiles", "programs"] = ""
    axis: str = ""
    title: str = ""
    base: float = 0.0
    faster: bool = False
    line: tuple[FigureLine, ...] = ()
    mark: tuple[FigureMark, ...] = ()
    missing: str = ""


class Archive(Record, frozen=True, forbid_unknown_fields=True):
    """A source in Debian's archive. archive: its file; sha256: hash of it. holds: a file in every copy. beside: a
    binary package that comes with it."""

    archive: str
    sha256: str
    holds: str
    beside: str


class Workload(Record, frozen=True, forbid_unknown_fields=True):
    """A command measured as the probe `workload.NAME`. what: the command in words. source: the source that it is built
    from; build: commands that make `{out}`, if any; start: the command; verify: text that its output must contain.
    memory_bytes: it is not started on machines with less memory. abi, target: where it runs."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]
    what: str
    start: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    verify: Annotated[str, msgspec.Meta(min_length=1)]
    build: tuple[tuple[str, ...], ...] = ()
    source: Archive | None = None
    memory_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 60)] = 0
    abi: tuple[str, ...] = ("native",)
    target: tuple[str, ...] = ()


class Program(Record, frozen=True, forbid_unknown_fields=True):
    """A line of a study's tables: memory and CPU time under each ABI, relative to the native one. what: the program in
    words; probe, parameters: the point that measures it. study: the study's name for it; memory, time: the study's
    statements. primitive: it is a part of programs, listed below them."""

    what: str
    probe: str
    parameters: dict[str, Value] = {}
    study: str = ""
    memory: str = ""
    time: str = ""
    primitive: bool = False


class PublishedShare(Record, frozen=True, forbid_unknown_fields=True):
    """A function's shares in percent in the left and the right one of a study's two profiles. here: globs of our
    functions that do the same. idle: whether it is the idle loop."""

    function: str
    left: float
    right: float
    here: tuple[str, ...] = ()
    idle: bool = False


class Beside(Record, frozen=True, forbid_unknown_fields=True):
    """Two profiles shown side by side, with the study's published values for them."""

    left: RowOf
    right: RowOf
    titles: tuple[str, str]
    shares: tuple[PublishedShare, ...] = ()

    def busy(self) -> list[tuple[PublishedShare, float, float]]:
        """Each function's shares of the busy time. If none is marked idle, the functions without a match are."""
        idle = [share for share in self.shares if share.idle] or [share for share in self.shares if not share.here]
        wholes = (100 - sum(share.left for share in idle), 100 - sum(share.right for share in idle))
        return [
            (share, 100 * share.left / wholes[0], 100 * share.right / wholes[1])
            for share in self.shares if share not in idle
        ]  # fmt: skip


class Option(Record, frozen=True, forbid_unknown_fields=True):
    """An alternative to the ABI of a study. what: the alternative in words; row: its cost; costs: what it takes to
    choose it. Other alternatives are compared with the first."""

    what: str
    row: RowOf
    costs: str


class BreakEven(Record, frozen=True, forbid_unknown_fields=True):
    """A cost for each item against a cost paid once, which is `once` less `without`. each, once, without: rows of
    times; also: rows of alternatives to `each`; thing: name of an item; remedy: name of the cost paid once."""

    thing: str
    remedy: str
    each: RowOf
    once: RowOf
    without: RowOf
    also: tuple[RowOf, ...] = ()


class CacheModel(Record, frozen=True, forbid_unknown_fields=True):
    """A study's data cache, for targets without one: bytes, line, ways of a set. assumed: assumptions where the study
    gives no value, in a sentence. select: the points."""

    bytes: int
    line: int
    ways: int
    assumed: str
    select: tuple[Select, ...]


class Suite(Record, frozen=True, forbid_unknown_fields=True):
    """A named selection and its question (suites/NAME.toml). budget: as --budget takes it, or empty. mend: how to get a
    machine's own time, printed with emulated or missing results. workload: commands that it measures as probes.
    profile, modelled: points that are profiled, or run in a modelled cache, after the run.

    Only in a study: source: the publication. published: its claims. figure: its figures, drawn anew. listing: its table
    of loops a second. program: the lines of its tables of programs. worth: the ABI whose advantage it judges. beside:
    two of its profiles. option: alternatives to this ABI. break_even: a cost for each item against a cost paid once."""

    name: str
    question: str
    select: tuple[Select, ...] = ()
    budget: str = ""
    source: str | None = None
    mend: str = ""
    published: tuple[Published, ...] = ()
    listing: tuple[Listed, ...] = ()
    program: tuple[Program, ...] = ()
    workload: tuple[Workload, ...] = ()
    worth: str = ""
    profile: tuple[Select, ...] = ()
    modelled: CacheModel | None = None
    beside: Beside | None = None
    option: tuple[Option, ...] = ()
    break_even: BreakEven | None = None
    figure: tuple[StudyFigure, ...] = ()


class Point(Record, frozen=True, cache_hash=True):
    """A probe, ABI, target and set of parameters, of which a row is one metric. Results are stored by point, so its
    hash is cached: computing it for all points of a plan took a quarter of a millisecond per visit."""

    probe: str
    abi: str
    target: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if has_former_names(self.probe):
            probe = present_probe(self.probe)
            force_setattr(self, "probe", probe)
            force_setattr(self, "parameters", tuple(present_parameters(probe, self.values()).items()))

    def values(self) -> dict[str, Value]:
        return dict(self.parameters)


class Pair(Record, frozen=True):
    """A point and its reference, whose visits are interleaved."""

    point: Point
    against: Point


def layout_seed(seed: int, layout: int, whose: object, cpus: tuple[int, ...]) -> int:
    """Returns the seed of one of a run's layouts on some CPUs, of a point, or of all points of an interleaved
    comparison."""
    return random.Random(f"{seed} {layout} {whose} {cpus}").getrandbits(62)


class Visit(Record, frozen=True):
    """A request for samples of one point. round: number of its round. cpus: CPUs of its workers, the timed one's first;
    also: CPUs that may replace its only one. samples: number of samples; sample_ns: time of the shorter batch. seed:
    seed of the layout. deadline_ms: time after which the visit is ended. iterations, control_iterations: those of the
    shorter batch in an earlier visit, or 0. wall_ms: the run's remaining budget, 0 for no limit. marks: line of an
    external clock, or empty. folder: folder in which the probe may create files. peer: machine that serves it.
    counters: whether events are counted beside samples. forks: its layout takes less time than the start of a process,
    so that one process makes such visits, each in a child. sets_up_first: its layout is set up by a request of its own.
    full_width: independent additions in a cycle of the uncontended core, 0 if unknown. wait_ms: how long the visit may
    wait for such a core."""

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
    marks: str = ""
    priority: Priority = "normal"
    wall_ms: int = 0
    forks: bool = False
    sets_up_first: bool = False
    full_width: float = 0.0
    wait_ms: int = 0
    also: tuple[int, ...] = ()
    folder: str = ""
    peer: str = ""
    counters: bool = True
