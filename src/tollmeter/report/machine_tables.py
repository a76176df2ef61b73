# SPDX-License-Identifier: Apache-2.0
"""Tables of a machine besides memory and tolls: inferred properties, memory nodes, kinds of core, clocks, topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import msgspec

from tollmeter.model import Inference, InferenceKind, KindAnswer, Machine, Marks, Results, Row, Topology, Value
from tollmeter.model.topology import clusters, listed, memory_nodes, numbers
from tollmeter.numbers.meanings import native, with_meaning
from tollmeter.report import tables
from tollmeter.report.bills import bill_tables
from tollmeter.report.blocks import Block, Cell, Column, Figure, Line, Table, heading, without_column
from tollmeter.report.microarchitecture import microarchitecture, published_size
from tollmeter.report.numbers import (
    DASH,
    count,
    of_row,
    percent,
    plain,
    plus_minus,
    quantity,
    share_of_writes,
    size,
    writes,
)
from tollmeter.report.shown import best_known
from tollmeter.report.worker_scaling import scaling_tables
from tollmeter.studies.attempts import outcomes_of

CANNOT = "cannot tell"
PASSED_BY = 1.1
"""Ratio of the read rate to the yardstick above which a note explains why it is higher."""
OF_LOAD: tuple[InferenceKind, ...] = (
    "idle_latency", "latency_at_share", "loaded_latency", "latency_knee", "most_traffic",
)  # fmt: skip
BEHIND = ("prefetched", "reading_share", "store_that_fits", "reload_after_store", "latency_rise", "held",
          "worker_efficiency", "cost_of_worker", *OF_LOAD)  # fmt: skip
"""Kinds of inferences that other kinds rest on, and that have no line here."""


def all_tables(results: Results, rows: Table | None = None, tolls: Sequence[Table | None] | None = None) -> list[Table]:
    """Returns every table of the run. rows: the listing of its rows, if it is printed too. tolls: the toll tables of a
    first screen, which omits the tables that its memory table and its tolls summarise."""
    few = tolls is not None
    memory = tables.memory_table(results)
    every = (
        *bill_tables(results.index.rows, results.probes), memory, *(() if few else node_tables(results)),
        None if few and memory else load_table(results), None if few else inferred_table(results),
        instruction_table(results), *([tables.toll_table(results)] if tolls is None else tolls),
        *scaling_tables(results), *kind_tables(results, few=few), rows, clocks_table(results),
    )  # fmt: skip
    return [table for table in every if table is not None]


def inferred_table(results: Results) -> Table | None:
    """Returns the table of inferred properties; None if the run measured nothing but the hierarchy."""
    lines = [
        Line((inference.name, _value(inference), inference.system or ""), _note(results, inference))
        for inference in results.index.inferred
        if inference.kind not in BEHIND
        or (inference.kind == "prefetched" and _of_direction(results, inference, "prefetch_gain") is None)
    ]
    columns = [Column("Inferred"), Column("measured", True), Column("system says", True)]
    return Table(columns, lines) if lines else None


def _value(inference: Inference) -> Cell:
    if inference.value is None:
        return CANNOT
    if isinstance(inference.value, bool):
        return "yes" if inference.value else "no"
    if inference.unit == "count":
        return Figure(count(inference.value), "", plus_minus(inference.value, inference.low, inference.high))
    return quantity(inference.value, inference.unit or "", inference.low, inference.high)


def _note(results: Results, inference: Inference) -> str:
    """Returns why an inference is not resolved; or the related inference of another kind."""
    if inference.kind == "prefetch_gain":
        verdict = _of_direction(results, inference, "prefetched")
        return (verdict.reason if verdict else None) or ""
    shares = [
        other for other in results.index.inferred
        if inference.kind == "yardstick" and other.kind == "reading_share" and other.level == inference.level
    ]  # fmt: skip
    if not shares:
        return inference.reason or ""
    share = float(shares[0].value or 0)
    if share <= PASSED_BY:
        return f"reading goes at {percent(share)} of it"
    is_wide = "load_bytes" in shares[0].parameters
    why = "the core starts more than two loads of this width per cycle" if is_wide else "the rest is prefetched"
    return f"reading goes at {percent(share)} of it: {why}"


def _of_direction(results: Results, inference: Inference, kind: str) -> Inference | None:
    """Returns the inference of another kind that has the same direction; None without one."""
    direction = inference.parameters.get("direction")
    same = (other for other in results.index.inferred if other.parameters.get("direction") == direction)
    return next((other for other in same if other.kind == kind), None)


# ---- node tables ----------------------------------------------------------------------------------------------------

QUANTITIES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Latency", "latency-of-node", {"beside": "nothing"}),
    ("Latency, all CPUs reading", "latency-of-node", {"beside": "reads"}),
    ("Read by one CPU", "bandwidth-of-node", {"cpus": "one", "mix": "1:0"}),
    ("Read by all CPUs", "bandwidth-of-node", {"cpus": "all", "mix": "1:0"}),
    ("All CPUs, 3 reads to 1 write", "bandwidth-of-node", {"cpus": "all", "mix": "3:1"}),
    ("All CPUs, 2 reads to 1 write", "bandwidth-of-node", {"cpus": "all", "mix": "2:1"}),
    ("All CPUs, 1 read to 1 write", "bandwidth-of-node", {"cpus": "all", "mix": "1:1"}),
    ("All CPUs, non-temporal writes", "bandwidth-of-node", {"cpus": "all", "mix": "nt"}),
    ("Read by all CPUs, beside a chase", "traffic-of-node", {"beside": "reads"}),
    ("A page moved", "move-of-page", {}),
)
"""Quantities of memory nodes: name, meaning and parameters. Rows of older revisions of a probe have fewer parameters,
and count as rows of their first value."""
MOST_WITH_INTERVALS = 4
"""Highest number of memory nodes whose columns have room for intervals on a terminal."""


def node_tables(results: Results) -> tuple[Table, ...]:
    """Returns tables with a line for each reading node and a column for each node that holds the memory; none for
    unmeasured nodes."""
    native_rows = native(results.index.rows, results.index.machine.architecture)
    tables_of_nodes = []
    for title, means, wanted in QUANTITIES:
        rows = [row for row in with_meaning(native_rows, results.probes, means) if _is_of(row, wanted)]
        figures = {(row.parameters["node"], row.parameters["home"]): of_row(row) for row in rows}
        nodes, homes = (sorted({int(pair[side]) for pair in figures}) for side in (0, 1))
        if len(homes) > MOST_WITH_INTERVALS:
            figures = {pair: figure.bare for pair, figure in figures.items()}
        columns = [Column(title), *(Column(f"to node {home}", True) for home in homes)]
        lines = [Line((f"from node {node}", *(figures.get((node, home), DASH) for home in homes))) for node in nodes]
        if lines:
            tables_of_nodes.append(Table(columns, lines))
    return (*tables_of_nodes, *_share_of_modules(results, native_rows))


def _is_of(row: Row, wanted: Mapping[str, str]) -> bool:
    first = {"beside": "nothing", "cpus": "one", "mix": "1:0"}
    return all(row.parameters.get(name, first[name]) == value for name, value in wanted.items())


_BYTES_OF_TRANSFER = 8
"""Bytes of one transfer of a memory module, without error correction: 64 bits, in one channel or in two halves
(DDR5)."""


def _share_of_modules(results: Results, native_rows: Sequence[Row]) -> Iterator[Table]:
    """Yields the share that all CPUs of a node reach of its memory modules' transfer rate as configured by the
    firmware."""
    rows = [
        row for row in with_meaning(native_rows, results.probes, "bandwidth-of-node")
        if row.parameters.get("cpus") == "all" and row.parameters["node"] == row.parameters["home"]
    ]  # fmt: skip
    facts = results.index.machine.facts
    modules, rate = (int(facts.get(name, "0")) for name in ("memory_modules", "memory_configured_mts"))
    if not rows:
        return
    nodes = max(1, len(memory_nodes(results.index.machine.topology)))
    if not modules or not rate or modules % nodes:
        words = "unknown: the firmware's list of modules is readable by root alone, is empty, or differs between nodes"
        yield Table([Column("Share of the modules' rate")], [Line((words,))])
        return
    most = modules // nodes * rate * 1e6 * _BYTES_OF_TRANSFER
    modules_in_words = f"{modules // nodes} modules per node at {rate:,} MT/s, one channel each"
    title = f"Share of {quantity(most, 'B/s')} (peak of {modules_in_words})"
    lines = [
        Line((f"node {row.parameters['node']}, {row.parameters.get('mix')}", percent((row.median or 0.0) / most)))
        for row in rows
    ]
    yield Table([Column(title), Column("share", True)], lines)


# ---- latency under load ---------------------------------------------------------------------------------------------


def load_table(results: Results) -> Table | None:
    """Returns the table of latencies under load, with a line for each measured share of writes, node and size; None if
    no curve was measured."""
    curves: dict[tuple[tuple[str, Value], ...], dict[tuple[InferenceKind, Value], Inference]] = {}
    for inference in results.index.inferred:
        if inference.kind in OF_LOAD:
            key = tuple((name, value) for name, value in inference.parameters.items() if name != "share")
            curves.setdefault(key, {})[inference.kind, inference.parameters.get("share", "")] = inference
    shares = sorted(
        {share for cells in curves.values() for kind, share in cells if kind == "latency_at_share"}, key=int
    )
    cells: list[tuple[InferenceKind, Value]] = [
        ("idle_latency", ""), *(("latency_at_share", share) for share in shares), ("loaded_latency", ""),
        ("most_traffic", ""), ("latency_knee", ""),
    ]  # fmt: skip
    titles = ["unloaded", *(f"at {share} %" for share in shares), "at the most", "most traffic", "saturated from"]
    varying = [name for name in ("node", "size") if len({dict(key).get(name) for key in curves}) > 1]
    lines = [
        Line((_of_load(dict(key), varying), *(_value(found[cell]) if cell in found else DASH for cell in cells)),
             reason if (reason := found["latency_knee", ""].reason) else "")
        for key, found in sorted(curves.items(), key=lambda curve: share_of_writes(str(dict(curve[0]).get("mix"))) or 0)
    ]  # fmt: skip
    return Table([Column("Latency under load"), *(Column(title, True) for title in titles)], lines) if lines else None


def _of_load(of: Mapping[str, Value], varying: Sequence[str]) -> str:
    named = {"node": f"node {of.get('node')}", "size": str(size(int(of.get("size", 0))))}
    return ", ".join([writes(str(of.get("mix", ""))), *(named[name] for name in varying)])


# ---- instruction side -----------------------------------------------------------------------------------------------

COSTS_OF_CORE = {"mispredicted-branch": "mispredicted branch", "load-after-store": "load after store, {load}"}
UNRESOLVED = "not resolved"


def instruction_table(results: Results) -> Table | None:
    """Returns the costs of branches and forwarded loads, and the measured and published sizes of structures of the
    instruction side; None if the run measured none."""
    index = results.index
    native_rows = native(index.rows, index.machine.architecture)
    lines = [
        Line((words.format(**row.parameters), of_row(row), ""))
        for means, words in COSTS_OF_CORE.items()
        for row in with_meaning(native_rows, results.probes, means)
    ]
    for held in index.inferred:
        if held.kind == "held":
            structure = str(held.parameters["structure"])
            lines.append(
                Line(
                    (
                        held.name,
                        UNRESOLVED if held.value is None else _value(held),
                        published_size(index.machine, structure),
                    ),
                    held.reason or "",
                )
            )
    core = microarchitecture(index.machine)
    columns = [
        Column("Instruction side"),
        Column("measured", True),
        Column(f"published of {core}" if core else "published", True),
    ]
    return Table(columns, lines) if lines else None


# ---- core kinds -----------------------------------------------------------------------------------------------------


def kind_tables(results: Results, *, few: bool = False) -> list[Table]:
    """Returns the tables of each kind of core except the first, whose tables the run shows elsewhere. few: whether the
    table of tolls has the best known tolls only."""
    shown = []
    for answer in results.index.kinds[1:]:
        index = msgspec.structs.replace(results.index, hierarchy=answer.hierarchy, tolls=answer.tolls, rows=())
        results_of_kind = msgspec.structs.replace(results, index=index)
        toll_table = tables.toll_table(results_of_kind, best_known(results_of_kind) if few else None)
        titled = (
            ("Memory", tables.memory_table(results_of_kind)),
            ("Tolls", tables.brief(toll_table) if few else toll_table),
        )
        shown += [_titled(table, f"{title}, {answer.kind}") for title, table in titled if table is not None]
    return shown


def _titled(table: Table, title: str) -> Table:
    """Returns the table with `title` as the name of its first column, without columns that were not measured on this
    kind of core."""
    for index in range(len(table.columns) - 1, 0, -1):
        if all(str(line.cells[index]).strip() == DASH for line in table.rows):
            table = without_column(table, index)
    first, *others = table.columns
    return replace(table, columns=(replace(first, name=title), *others))


def of_kinds(results: Results) -> tuple[str, ...]:
    """Returns the kind of core of the run's own tables, and which kinds were left out and why; empty on machines with
    one kind."""
    kinds = results.index.kinds
    if not kinds:
        return ()
    measured = []
    for answer in kinds:
        if not answer.reason:
            clock = f", {plain(answer.core_clock_hz / 1e9, 3)} GHz" if answer.core_clock_hz else ""
            measured.append(f"{answer.kind} ({_cpus(answer)}{clock})")
    return (
        f"Kinds of core: {', '.join(measured)}. A table that names no kind shows {kinds[0].kind} cores.",
        *(f"{answer.kind} ({_cpus(answer)}) was left out: {answer.reason}." for answer in kinds[1:] if answer.reason),
    )


def _cpus(answer: KindAnswer) -> str:
    return f"CPU {listed(numbers(answer.cpus))}"


# ---- clocks ---------------------------------------------------------------------------------------------------------

_RATES = ("B/s", "flop/s", "op/s")


def clocks_table(results: Results) -> Table | None:
    """Returns the table of times over a serial line, beside the times by the probe's own clock; None if no point was
    timed so."""
    first: dict[tuple[object, ...], Row] = {}
    for row in results.index.rows:
        if row.clock == "external" and row.status == "ok":
            first.setdefault((row.probe, row.abi, row.target, *sorted(row.parameters.items())), row)
    marks = [[outcome.marks for outcome in outcomes_of(results, row) if outcome.marks] for row in first.values()]
    lines = [
        _clock_line(row, marks_of_visits)
        for row, marks_of_visits in zip(first.values(), marks, strict=True)
        if marks_of_visits
    ]
    right = [Column(name, right=True) for name in ("by the line", "by its own", "ratio", "empty test")]
    return Table([Column("Two clocks"), *right, Column("bytes")], lines) if lines else None


def _clock_line(row: Row, marks_of_visits: list[Marks]) -> Line:
    empty = [marks.empty_ns for marks in marks_of_visits if marks.empty_ns is not None]
    ratio = row.own_ratio
    own = row.median * (1 / ratio if row.unit in _RATES else ratio) if ratio and row.median else None
    name = " ".join([row.probe, *(str(value) for value in row.parameters.values())])
    came, lost, doubled, inserted = (
        count(sum(getattr(marks, what) for marks in marks_of_visits))
        for what in ("came", "lost", "doubled", "inserted")
    )
    return Line(
        (
            f"{name}, {row.metric}",
            quantity(row.median, row.unit),
            quantity(own, row.unit) if own else DASH,
            f"{ratio:.4f}" if ratio else DASH,
            quantity(median(empty), "ns") if empty else DASH,
            f"{came}, lost {lost}, doubled {doubled}, foreign {inserted}",
        )
    )


# ---- topology -------------------------------------------------------------------------------------------------------

_MOST_NAMED = 4
"""Highest number of parts of one shape whose CPUs are listed one part at a time."""


@dataclass(frozen=True)
class TablePart:
    """Parts of one shape, side by side. what: name of one part. cpus: CPU lists of each part. parts: the parts inside
    the first one."""

    what: str
    cpus: tuple[str, ...]
    parts: tuple[TablePart, ...] = ()

    @property
    def title(self) -> str:
        return f"{len(self.cpus)} x {self.what}" if len(self.cpus) > 1 else self.what

    @property
    def named(self) -> str:
        """Returns the CPUs of each part, as many as fit."""
        if len(self.cpus) <= _MOST_NAMED:
            return "CPU " + " | ".join(self.cpus)
        return f"CPU {self.cpus[0]} | {self.cpus[1]} | … | {self.cpus[-1]}"


Level = list[tuple[str, frozenset[int]]]
"""Name and CPUs of each set."""


def parts_of(machine: Machine) -> tuple[TablePart, ...]:
    """Returns the outermost parts, the coarsest first: of two levels of equal size, the one that usually contains the
    other; empty if the system does not report them."""
    topology = machine.topology
    if topology is None:
        return ()
    last, bytes_ = max(machine.data_sizes().items(), default=(0, 0))
    cache = f"L{last} cache {size(bytes_)}" if bytes_ and not machine.kinds else "last-level cache"
    kinds = topology.kinds if len(topology.kinds) > 1 else ()
    named = (
        [("package", cpus) for cpus in topology.packages],
        [("memory node", node.cpus) for node in topology.nodes if node.cpus],
        [("die", cpus) for cpus in topology.dies if len(topology.dies) > len(topology.packages)],
        [(cache, cpus) for cpus in topology.last_caches],
        [(kind.name or f"cores of capacity {kind.capacity}", kind.cpus) for kind in kinds],
        [("cluster", cpus) for cpus in clusters(topology)],
        [("core", cpus) for cpus in topology.cores],
    )
    levels = [[(what, frozenset(numbers(cpus))) for what, cpus in several] for several in named if several]
    levels.sort(key=lambda level: -max(len(cpus) for _, cpus in level))
    return _within(frozenset(numbers(topology.online)), levels)


def _within(cpus: frozenset[int], levels: Sequence[Level]) -> tuple[TablePart, ...]:
    """Returns the parts of some CPUs, parts of one shape together, in the order of their lowest CPUs; CPUs that a level
    does not report are in the parts of the next level."""
    if not levels or not cpus:
        return ()
    sets: Level = []
    rest = cpus
    for what, members in levels[0]:  # a target may report one CPU twice
        if members & rest:
            sets.append((what, members & rest))
            rest -= members
    alike: dict[tuple[object, ...], list[TablePart]] = {}
    for what, members in sorted(sets, key=lambda named: min(named[1])):
        part = _part(what, members, levels[1:])
        alike.setdefault(_shape(part), []).append(part)
    folded = (replace(parts[0], cpus=tuple(part.cpus[0] for part in parts)) for parts in alike.values())
    return (*folded, *_within(rest, levels[1:]))


def _part(name: str, cpus: frozenset[int], finer: Sequence[Level]) -> TablePart:
    inner = _within(cpus, finer)
    if len(inner) == 1 and inner[0].cpus == (listed(cpus),):
        return replace(inner[0], what=f"{name}, {inner[0].what}")
    threads = f" of {len(cpus)} threads" if name == "core" and len(cpus) > 1 else ""
    return TablePart(f"{name}{threads}", (listed(cpus),), inner)


def _shape(part: TablePart) -> tuple[object, ...]:
    return part.what, len(numbers(part.cpus[0])), tuple((len(inner.cpus), *_shape(inner)) for inner in part.parts)


def part_lines(parts: Sequence[TablePart], indent: str = "") -> Iterator[str]:
    """Yields a line for each part, with its own parts below it."""
    for part in parts:
        yield f"{indent}{part.title}   {part.named}"
        yield from part_lines(part.parts, f"{indent}  ")


def machine_blocks(machine: Machine) -> list[Block]:
    """Returns the machine's nested parts, its memory nodes, and the limits of a process on it."""
    lines = [*part_lines(parts_of(machine))] or ["The system does not report how its CPUs relate."]
    every = (heading(" · ".join(tables.facts_of(machine))), *lines, node_table(machine), limits(machine))
    return [block for block in every if block is not None]


def node_table(machine: Machine) -> Table | None:
    """Returns the table of memory nodes; None if the system reports none. Distances are in the order of the lines; 10
    is local memory. A single node holds all memory: its count in sysfs omits memory that a guest got after its
    start."""
    nodes, lines = machine.topology.nodes if machine.topology else (), []
    for node in nodes:
        memory = size(machine.memory_bytes if len(nodes) == 1 and machine.memory_bytes else node.memory_bytes)
        cpus = listed(numbers(node.cpus)) or "none"
        lines.append(Line((str(node.node), memory, cpus, " ".join(map(str, node.distances)))))
    columns = [Column("Memory node"), Column("memory", True), Column("CPUs"), Column("distances")]
    return Table(columns, lines) if lines else None


def _quota(text: str) -> str:
    """Returns a control group's quota in CPUs, in words; empty without a quota. text: `cpu.max`, the microseconds of
    CPU time that the group may use in each period, and the period in microseconds."""
    used_us, _, period_us = text.partition(" ")
    is_limited = re.fullmatch(r"\d{1,15} 0*[1-9]\d{0,14}", text, re.ASCII)
    return f"{int(used_us) / int(period_us):g} CPUs" if is_limited else ""


def limits(machine: Machine) -> Table:
    """Returns the table of the resources that this process may use, and that the system reserves."""
    topology = machine.topology or Topology()
    reserved = [f"{pool.pages} of {size(pool.bytes)}" for pool in topology.hugetlb if pool.pages]
    pages = [f"{size(machine.page_bytes)}"]
    pages += [f"huge {size(topology.huge_page_bytes)}"] if topology.huge_page_bytes else []
    values = {
        "CPUs that may be used": listed(machine.allowed_cpus),
        "memory nodes that may be used": topology.allowed_nodes,
        "CPU quota": _quota(machine.facts.get("cpu_quota", "")),
        "offline CPUs": topology.offline,
        "isolated CPUs": topology.isolated,
        "CPUs without ticks (nohz_full)": topology.nohz_full,
        "pages": ", ".join([*pages, *reserved]),
    }
    lines = [Line((name, value)) for name, value in values.items() if value]
    return Table([Column("Limits"), Column("value")], lines)
