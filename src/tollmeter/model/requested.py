# SPDX-License-Identifier: Apache-2.0
"""What is asked: suites and their selections, points and visits."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tollmeter.model.base import Condition, Priority, Record, Relation, Value


class Select(Record, frozen=True, forbid_unknown_fields=True):
    """Probes (a name or glob), on which ABIs, at which values; `native` is the first ABI that this machine runs.

    A parameter that is not named takes its whole default sweep, or with others = "typical" its one typical value.
    cpu: the architectures that it is for, as `uname -m` names them; target: the places, by name or glob; empty for all.
    refused: the values that replace those of a curve whose every point is refused here, such as one on huge pages.
    libraries: false leaves out what is built with a library, which would have to be brought and built with first.
    nodes: the fewest memory nodes with memory that a machine must have for it.
    kinds: whether probes of one worker are also visited on a CPU of each other kind of core.
    narrows: whether a short budget takes fewer points of what is not named: typed by its name alone, not by a suite."""

    probe: str
    cpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    abi: tuple[str, ...] = ("native",)
    parameters: dict[str, Value | tuple[Value, ...]] = {}
    others: Literal["sweep", "typical"] = "sweep"
    refused: dict[str, Value] = {}
    libraries: bool = True
    nodes: int = 1
    kinds: bool = False
    narrows: bool = False


class RowOf(Record, frozen=True, forbid_unknown_fields=True):
    """Picks rows by what they mean or where they come from; what is left out matches anything.

    target: a name or glob."""

    means: str | None = None
    probe: str | None = None
    metric: str | None = None
    abi: str | None = None
    target: str | None = None
    parameters: dict[str, Value] = {}


class Bend(Record, frozen=True, forbid_unknown_fields=True):
    """Where a curve bends, as a multiple of the size of a cache that the system reports. level: the cache. rate: picks
    a rate over length, whose first fall it is; without it, where the latency of that level ends."""

    level: str
    rate: RowOf | None = None


class Published(Record, frozen=True, forbid_unknown_fields=True):
    """One claim of a study. Beside it stands the median of `row`, or of `row` divided by that of `over`; of the rows of
    `order`, the ratios of each to the one before; of `bend`, where a curve bends.

    figure is the claim as the study words it, value the same as a number in `unit`, where it is one; the unit `turns`
    is a time in turns of the control loop that ran beside it, there as here. correction says what the claim gets wrong
    or leaves out. missing says, in a sentence, why no row can stand beside it yet. about: "caches" or "time" where
    nothing but a real machine's time could answer: no emulator has either; "instructions" where their count answers
    too, as of a CPU that is only here by an emulator.

    relation and tolerance: what would confirm it (studies/predicate.py); of a value alone, that it is about right.
    requires: under which conditions. counted: false for a second row of a figure, or one that the source does not print
    itself."""

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


class Listed(Record, frozen=True, forbid_unknown_fields=True):
    """One line of a study's listing: loops a second, attempt by attempt. test: as the study names it; differs: how what
    is measured here is another thing than the study's. published: loops a second in each of the study's builds, 0 where
    one of them has none."""

    test: str
    what: str
    row: RowOf
    differs: str = ""
    published: tuple[float, ...] = ()


class FigureLine(Record, frozen=True, forbid_unknown_fields=True):
    """A line of a figure: rows over its axis, each held against the row of `over` at the same place; without that,
    against this line's own row nearest to the figure's `base`."""

    name: str
    row: RowOf
    over: RowOf | None = None


class FigureMark(Record, frozen=True, forbid_unknown_fields=True):
    """What a study says of a figure that can be drawn into it: a place `at` of its axis, or a height, in its unit."""

    what: str
    at: float | None = None
    height: float | None = None


class StudyFigure(Record, frozen=True, forbid_unknown_fields=True):
    """One of a study's own figures, and from what it is drawn anew.

    drawn: "curve" from the rows of `line` over the parameter `axis`; "listing", "profiles" or "programs" from what the
    suite has under these names; empty where nothing here can draw it, and missing says why. axis: of programs, "memory"
    or "time". faster: heights are how many times as fast, else how many times as long. shows: what it is there to show.
    """

    name: str
    what: str
    shows: str
    drawn: Literal["", "curve", "listing", "profiles", "programs"] = ""
    axis: str = ""
    title: str = ""
    base: float = 0.0
    faster: bool = False
    line: tuple[FigureLine, ...] = ()
    mark: tuple[FigureMark, ...] = ()
    missing: str = ""


class Archive(Record, frozen=True, forbid_unknown_fields=True):
    """A source in Debian's archive. holds: a file in every copy. beside: a binary package next to it."""

    archive: str
    sha256: str
    holds: str
    beside: str


class Workload(Record, frozen=True, forbid_unknown_fields=True):
    """A command that is measured as a probe is, `workload.NAME`. build: commands that make the program `{out}`; none
    for one that the machine has; start: the command itself; verify: what it must print, among else. memory_bytes: that
    it wants, so that it is not started where there is less."""

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
    """A line of a study's tables: a program's memory and CPU time under each ABI, relative to the machine's own.

    study: what the study calls it; memory, time: what the study says of these, in its words. primitive: it is no
    program but what programs are made of, and stands below them."""

    what: str
    probe: str
    parameters: dict[str, Value] = {}
    study: str = ""
    memory: str = ""
    time: str = ""
    primitive: bool = False


class PublishedShare(Record, frozen=True, forbid_unknown_fields=True):
    """A function's share in percent in a study's two profiles. here: globs of ours. idle: the idle loop's."""

    function: str
    left: float
    right: float
    here: tuple[str, ...] = ()
    idle: bool = False


class Beside(Record, frozen=True, forbid_unknown_fields=True):
    """Two profiles that are shown side by side, and what a study published of the same two."""

    left: RowOf
    right: RowOf
    titles: tuple[str, str]
    shares: tuple[PublishedShare, ...] = ()

    def busy(self) -> list[tuple[PublishedShare, float, float]]:
        """Each function's shares of the busy time. If none is marked idle, functions without a match here are."""
        idle = [share for share in self.shares if share.idle] or [share for share in self.shares if not share.here]
        wholes = (100 - sum(share.left for share in idle), 100 - sum(share.right for share in idle))
        return [
            (share, 100 * share.left / wholes[0], 100 * share.right / wholes[1])
            for share in self.shares if share not in idle
        ]  # fmt: skip


class Option(Record, frozen=True, forbid_unknown_fields=True):
    """One way out of what a study describes: its row, and its effort. Others are compared with the first."""

    what: str
    row: RowOf
    costs: str


class BreakEven(Record, frozen=True, forbid_unknown_fields=True):
    """What is paid for each of something against what is paid once: once is the cost of `once` less that of `without`.

    each, once, without: rows of times; thing: what there are several of; remedy: what is paid once and spares them all.
    """

    thing: str
    remedy: str
    each: RowOf
    once: RowOf
    without: RowOf


class CacheModel(Record, frozen=True, forbid_unknown_fields=True):
    """A study's data cache, for what is run where no cache is: its bytes, those of a line, and the ways of a set.

    assumed: what of it the study does not say, in a sentence. select: which points."""

    bytes: int
    line: int
    ways: int
    assumed: str
    select: tuple[Select, ...]


class Suite(Record, frozen=True, forbid_unknown_fields=True):
    """A named selection and the question that it answers (suites/NAME.toml); source, published, listing, program and
    worth: of a study.

    figure: a study's own, drawn anew. profile: what is profiled once all is measured; modelled: for what a cache is
    modelled then; beside, option, break_even: a study's own answer. budget: wall time that it needs, as --budget
    takes it; empty: the usual one. mend: what to do for a machine's own time, said wherever an emulator's stands
    beside a claim, or none."""

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
    """One place in the space of probes, ABIs, targets and parameters: what a row stands for. Everything is kept by
    point, so its hash is reckoned once: over all points of a plan that took a quarter of a millisecond a visit."""

    probe: str
    abi: str
    target: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def values(self) -> dict[str, Value]:
        return dict(self.parameters)


class Pair(Record, frozen=True):
    """A point and the one that it stands against, visited in turns."""

    point: Point
    against: Point


class Visit(Record, frozen=True):
    """Samples of one point at one moment. seed: of the layout: the process that has prepared it may serve several
    visits. iterations, control_iterations: of the shorter batch, as an earlier visit found them; 0 where there was
    none. wall_ms: what the run's budget leaves for it on the host's clock; 0 for no bound. marks: the line on which
    the probe marks its batches for a clock elsewhere; empty for none. folder: where it may make files; empty for the
    place's own choice. peer: where another machine serves it, as the probe reads that."""

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
    folder: str = ""
    peer: str = ""
