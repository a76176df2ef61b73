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
    """A selection of points. probe: name or glob. abi: names of ABIs; `native` is the first ABI that this machine runs.
    parameters: values of parameters; every other parameter has its whole sweep, or with others = "typical" its typical
    value. cpu: architectures as in `uname -m`; target: names or globs; both empty for all. refused: parameters of a
    curve that replaces one without a single possible point, for example on huge pages. libraries: false leaves out
    probes that need a library. nodes: smallest number of memory nodes with memory. own_node: only pairs of a memory
    node with itself. kinds: also visit a CPU of each other kind of core. narrows: whether a short budget reduces its
    points. group: heading of its numbers, in place of the name of the probe's folder."""

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

    target: a name or glob. abi: `native` is the main ABI of the machine."""

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
        """Returns the selection as text: probe or meaning, metric, NAME=VALUE of the parameters, and ABI."""
        named = [self.probe or self.means or "the row", *([self.metric] if self.metric else [])]
        where = f" for {self.abi}" if self.abi and self.abi != "native" else ""
        return " ".join([*named, *assignments(self.parameters.items())]) + where


class Bend(Record, frozen=True, forbid_unknown_fields=True):
    """The position at which a curve bends, in multiples of the reported size of a cache `level`: the first fall of
    `rate`; without `rate`, the end of the level by latency."""

    level: str
    rate: RowOf | None = None


class Published(Record, frozen=True, forbid_unknown_fields=True):
    """One claim of a study, and the value that is compared with it. This is the median of `row`, or its ratio to
    `over`; the ratios of successive rows of `order`; the position of `bend`; or the share of the function `share` in
    the left profile of the suite's `beside` over its share in the right one. what: the claim in words. figure: the
    study's words. value: the figure as a number in `unit`; `turns` are turns of the control loop, both in the study and
    here. correction: errors or omissions of the claim. missing: why no row exists yet. about: "caches" or "time" need a
    real machine, "instructions" also accept the count of an emulator. relation, tolerance: the condition that confirms
    it (studies/study.py); by default that the value is about right. requires: conditions of the study. counted: false
    for a second row of a figure, or one that the source does not print."""

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
    """One line of the listing of a study, in loops a second. test: name in the study. what: the same in words. row: the
    row of this run. differs: difference between our test and the study's. published: value of each build of the study,
    0 without one."""

    test: str
    what: str
    row: RowOf
    differs: str = ""
    published: tuple[float, ...] = ()


class FigureLine(Record, frozen=True, forbid_unknown_fields=True):
    """A line of a figure: rows over the axis. Each is divided by the row of `over` at the same position; without
    `over`, by the row of this line that is nearest to the figure's `base`, if there is one."""

    name: str
    row: RowOf
    over: RowOf | None = None


class FigureMark(Record, frozen=True, forbid_unknown_fields=True):
    """A statement of a study that is drawn into a figure. at: position on the axis. height: height, in the unit of the
    figure."""

    what: str
    at: float | None = None
    height: float | None = None


class StudyFigure(Record, frozen=True, forbid_unknown_fields=True):
    """A figure of a study, drawn from the rows of this run. name: short name. what: title. shows: purpose. drawn:
    "curve" draws the rows of `line` over `axis`, as ratios if there is a `base` or an `over`; "points" draws one number
    for each line; "listing", "profiles" and "programs" draw those of the suite; empty if it cannot be drawn, for the
    reason in `missing`. axis: a parameter; for programs, "memory" or "time". title: title of the heights. base:
    position of the row by which a line is divided; 0 without one. faster: whether heights are ratios of speeds, not of
    times. mark: statements of the study."""

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
    """A source in Debian's archive. archive: its file. sha256: hash of the file. holds: a file that every copy
    contains. beside: a binary package that comes with it."""

    archive: str
    sha256: str
    holds: str
    beside: str


class Workload(Record, frozen=True, forbid_unknown_fields=True):
    """A command that is measured as the probe `workload.NAME`. what: the command in words. source: the source from
    which it is built. build: commands that make `{out}`, if any. start: the command. verify: text that its output must
    contain. memory_bytes: machines with less memory do not start it. abi, target: where it runs."""

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
    """A line of the tables of a study: memory and CPU time under each ABI, relative to the native one. what: the
    program in words. probe, parameters: the point that measures it. study: the study's name for it. memory, time:
    statements of the study. primitive: whether it is a part of programs, which the tables list below them."""

    what: str
    probe: str
    parameters: dict[str, Value] = {}
    study: str = ""
    memory: str = ""
    time: str = ""
    primitive: bool = False


class PublishedShare(Record, frozen=True, forbid_unknown_fields=True):
    """The shares of a function in percent in the left and the right one of two profiles of a study. here: globs of our
    functions that do the same. idle: whether it is the idle loop."""

    function: str
    left: float
    right: float
    here: tuple[str, ...] = ()
    idle: bool = False


class Beside(Record, frozen=True, forbid_unknown_fields=True):
    """Two profiles shown side by side, with the values that the study published for them. left, right: the profiled
    points."""

    left: RowOf
    right: RowOf
    titles: tuple[str, str]
    shares: tuple[PublishedShare, ...] = ()

    def busy(self) -> list[tuple[PublishedShare, float, float]]:
        """Returns each function with its two shares, in percent, of the time that is not idle. If no function is marked
        idle, the functions without a counterpart here are."""
        idle = [share for share in self.shares if share.idle] or [share for share in self.shares if not share.here]
        wholes = (100 - sum(share.left for share in idle), 100 - sum(share.right for share in idle))
        return [
            (share, 100 * share.left / wholes[0], 100 * share.right / wholes[1])
            for share in self.shares if share not in idle
        ]  # fmt: skip


class Option(Record, frozen=True, forbid_unknown_fields=True):
    """An alternative to the ABI of a study. what: the alternative in words. row: its cost. costs: what a user must do
    to choose it. The first alternative is the reference for the others."""

    what: str
    row: RowOf
    costs: str


class BreakEven(Record, frozen=True, forbid_unknown_fields=True):
    """The comparison of a cost for each item with a cost paid once. each: row of the time for one item. once, without:
    rows of which the difference is the cost paid once. also: rows of alternatives to `each`. thing: name of an item.
    remedy: name of the cost paid once."""

    thing: str
    remedy: str
    each: RowOf
    once: RowOf
    without: RowOf
    also: tuple[RowOf, ...] = ()


class CacheModel(Record, frozen=True, forbid_unknown_fields=True):
    """A study's data cache, for targets that have none. bytes: size. line: bytes of a line. ways: lines of a set.
    assumed: assumptions where the study gives no value, in a sentence. select: the points to model."""

    bytes: int
    line: int
    ways: int
    assumed: str
    select: tuple[Select, ...]


class Suite(Record, frozen=True, forbid_unknown_fields=True):
    """A named selection and its question (suites/NAME.toml). budget: as --budget takes it, or empty. mend: how to
    measure in a machine's own time, printed with emulated or missing results. workload: commands that it measures as
    probes. profile, modelled: points that are profiled, or run in a modelled cache, after the run.

    Only in a study: source: the publication. published: its claims. figure: its figures. listing: its table of loops a
    second. program: lines of its tables of programs. worth: the ABI whose advantage is judged. beside: two of its
    profiles. option: alternatives to this ABI. break_even: a cost for each item against a cost paid once."""

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
    """A probe, ABI, target and set of parameters. A row is one metric of a point. Results are stored by point, so its
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
        """Returns the parameters by name."""
        return dict(self.parameters)


class Pair(Record, frozen=True):
    """A point and its reference, whose visits are interleaved."""

    point: Point
    against: Point


def layout_seed(seed: int, layout: int, whose: object, cpus: tuple[int, ...]) -> int:
    """Returns the seed of one layout of a run on some CPUs. seed: of the run. layout: number of the layout. whose: key
    of the point, or of all points of an interleaved comparison."""
    return random.Random(f"{seed} {layout} {whose} {cpus}").getrandbits(62)


class Visit(Record, frozen=True):
    """A request for samples of one point. round: number of its round. cpus: CPUs of its workers, the timed one first.
    also: CPUs that may replace the only one. samples: number of samples. sample_ns: time of the shorter batch. seed:
    seed of the layout. deadline_ms: time after which the visit is ended. iterations, control_iterations: iterations of
    the shorter batch in an earlier visit, or 0. wall_ms: remaining budget of the run, 0 without a limit. marks: line of
    an external clock, or empty. folder: folder in which the probe may create files. peer: machine that serves it.
    counters: whether events are counted during samples. forks: whether one process makes several such visits, each in a
    child, since a layout takes less time than the start of a process. sets_up_first: whether a request of its own sets
    up the layout. full_width: independent additions in a cycle of the uncontended core, 0 if unknown. wait_ms: longest
    wait for an uncontended core."""

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
