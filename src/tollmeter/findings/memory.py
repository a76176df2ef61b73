# SPDX-License-Identifier: Apache-2.0
"""Rules about pages, memory nodes, several CPUs, and copies."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, MORE_THAN_TWICE
from tollmeter.findings import (
    FindingText,
    inferences,
    least_ratio,
    native_rows,
    own_rows,
    ratio_evidence,
    row_evidence,
    rule,
    value_of,
)
from tollmeter.inference.answers import number
from tollmeter.inference.core_kinds import slowest_remote
from tollmeter.model import Evidence, Inference, InferenceKind, Results, Row, Setting
from tollmeter.numbers.meanings import metric_of
from tollmeter.numbers.plausible import LOAD_BYTES
from tollmeter.numbers.units import in_percent

MADVISE = Setting(path="/sys/kernel/mm/transparent_hugepage/enabled", values=("madvise",))
"""The recommended setting. `always` may take memory that a program did not request, and time when huge pages are
made."""
LEAST_RISE = 2.0
WIDEST_SCALAR = LOAD_BYTES["portable"]
"""Bytes of the widest integer register."""
BEYOND_CACHE = 4.0
"""Highest ratio of the one-way transfer of a line between two CPUs to a load from the cache that they share: between
two chiplets it was eight."""


@rule(
    "memory.huge_pages_are_unused",
    remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and request them where much memory is accessed",
    rank="costs",
)
def huge_pages_are_unused(results: Results) -> Iterator[FindingText]:
    """Huge pages are switched off, and address translation takes a large part of each memory access.

    The kernel's setting is `never`, and a miss in the last translation buffer costs 10 % of a memory access."""
    setting = results.index.machine.facts.get("transparent_hugepage", "")
    memory = next((level.latency_ns for level in results.index.hierarchy if level.level == "memory"), None)
    if "[never]" not in setting or not memory:
        return
    missed = inferences(results, "translation_miss", pages="small")
    if missed and (missed[-1].low or 0.0) >= ALIKE * memory:
        cost = float(missed[-1].value or 0)
        pages = float(inferences(results, "translations", pages="small")[-1].value or 0)
        yield FindingText(
            f"huge pages are switched off, and beyond {pages:.0f} pages translation adds {cost:.1f} ns to a load",
            [
                Evidence(what="cost of a translation that misses all TLBs", value=cost, unit="ns"),
                Evidence(what="transparent huge pages", value=setting),
            ],
            settings=[MADVISE],
        )


@rule(
    "memory.huge_pages_would_gain",
    "note",
    "echo always > /sys/kernel/mm/transparent_hugepage/enabled, or madvise(MADV_HUGEPAGE) in the program",
    rank="costs",
)
def huge_pages_would_gain(results: Results) -> Iterator[FindingText]:
    """Huge pages would reduce memory latency, and the system does not use them by default.

    At the largest size that was walked on both kinds of page, huge pages save more than 10 %, by the lower end of the
    interval of the saving."""
    setting = results.index.machine.facts.get("transparent_hugepage", "")
    if "[always]" in setting:
        return
    settings = [MADVISE] if "[never]" in setting else []
    for small, saved, share in _saved_by_huge_pages(results):
        walk = f"a random walk's latency over {number(small, 'size') >> 20} MiB"
        words = f"huge pages would cut {walk} by {in_percent(share)}"
        yield FindingText(words, [row_evidence(small), row_evidence(saved)], settings=settings)


def _saved_by_huge_pages(results: Results) -> Iterator[tuple[Row, Row, float]]:
    """Yields at most one gain: a load on small pages, the row that shows the saving, and the saved share. A row that
    walks both kinds of page in each sample is preferred."""
    gain = max(own_rows(results, "gain-of-huge-pages"), key=lambda row: number(row, "size"), default=None)
    if gain is not None:
        small = next((row for row in native_rows(results) if _is_load_beside(row, gain, results)), None)
        if small is not None and small.median and (gain.low or 0.0) > ALIKE * small.median:
            yield small, gain, (gain.median or 0.0) / small.median
        return
    walked: dict[int, dict[str, Row]] = {}
    for row in own_rows(results, "latency-of-size"):
        walked.setdefault(number(row, "size"), {})[str(row.parameters.get("pages"))] = row
    both = [size for size, rows in walked.items() if {"small", "huge"} <= set(rows)]
    if both:
        small, huge = (walked[max(both)][pages] for pages in ("small", "huge"))
        if least_ratio(small, huge) > 1 / (1 - ALIKE):
            yield small, huge, 1 - (huge.median or 0.0) / (small.median or 1.0)


def _is_load_beside(row: Row, gain: Row, results: Results) -> bool:
    """Returns whether a row is the load on small pages of the probe and point by which the gain was measured."""
    metric = metric_of(row, results.probes)
    is_body = metric is not None and metric.source == "body"
    return is_body and row.status == "ok" and (row.probe, row.parameters) == (gain.probe, gain.parameters)


@rule(
    "memory.latency_rises_under_load",
    "note",
    "keep traffic below the rate from which latency rises: fewer writers, non-temporal stores, limits",
)
def latency_rises_under_load(results: Results) -> Iterator[FindingText]:
    """Memory latency at least doubles under the traffic of this machine's own CPUs.

    The lower end of the interval is above 2, for the mix of reads and writes that lengthens a load most."""
    rises = [rise for rise in inferences(results, "latency_rise") if rise.low is not None and rise.low > LEAST_RISE]
    if not rises:
        return
    rise = max(rises, key=lambda rise: float(rise.value or 0))

    def at(kind: InferenceKind) -> float | None:
        return value_of(inferences(results, kind, **rise.parameters))

    mix, knee, traffic = rise.parameters.get("mix", ""), at("latency_knee"), at("most_traffic") or 0.0
    evidence = [
        Evidence(what="latency beside the least traffic", value=at("idle_latency") or 0.0, unit="ns"),
        Evidence(what=f"latency beside the most traffic, mix {mix}", value=at("loaded_latency") or 0.0, unit="ns"),
    ]
    words = f"a load takes {rise.value:.1f} times as long beside {traffic / 1e9:.1f} GB/s"
    if knee is not None:
        evidence.append(Evidence(what="traffic from which latency rises", value=knee, unit="B/s"))
        words += f", and latency rises from {knee / 1e9:.1f} GB/s"
    yield FindingText(words, evidence)


@rule(
    "memory.remote_memory_is_slow",
    "note",
    "bind threads and memory to one node (numactl --cpunodebind --membind), touch memory where it is used",
)
def remote_memory_is_slow(results: Results) -> Iterator[FindingText]:
    """Memory of a remote node has a clearly higher latency than local memory.

    The lower end of the ratio's interval is above 1.5, for the pair of nodes with the highest latency."""
    slowest = slowest_remote(own_rows(results, "latency-of-node"))
    if slowest and slowest.ratio.low > 1 + FAR_APART:
        node, home = number(slowest.far, "node"), number(slowest.far, "home")
        words = (
            f"memory of node {home} has {slowest.ratio.value:.1f} times the latency of local memory from node {node}"
        )
        yield FindingText(words, [row_evidence(slowest.far), row_evidence(slowest.near)])


@rule("memory.cpus_share_a_core", rank="costs")
def scaling_is_poor(results: Results) -> Iterator[FindingText]:
    """CPUs slow each other down in their own caches, or several CPUs together are slower than one alone.

    Inside the first cache an efficiency under 75 % is reported; elsewhere a throughput below that of one CPU alone. The
    upper end of the interval is compared. Only the worst of each kind is reported."""
    shares = inferences(results, "efficiency")
    inside = (1 - CLEARLY) * (
        next((level.size_bytes for level in results.index.hierarchy if level.size_bytes), None) or 0.0
    )
    private = [s for s in shares if 0 < _size(s) <= inside and (s.high or 0.0) < 1 - CLEARLY]
    shared = [s for s in shares if _size(s) > inside > 0 and (s.high or 0.0) * _instances(s) < 1]
    for share in sorted(private, key=lambda share: float(share.value or 0))[:1]:
        reach = f"reach {in_percent(float(share.value or 0))} of {_instances(share)} times the rate of one CPU"
        yield FindingText(
            f"{_instances(share)} CPUs, each in its own cache, {reach}", [_efficiency(share)],
            "the CPUs are threads of one core, or limited in clock or time: count cores (lscpu -e), check quotas",
        )  # fmt: skip
    for share in sorted(shared, key=lambda share: float(share.value or 0) * _instances(share))[:1]:
        get = f"together reach {in_percent(float(share.value or 0) * _instances(share))} of the rate of one CPU"
        yield FindingText(
            f"{_instances(share)} CPUs with {_size(share) >> 10} KiB each {get}", [_efficiency(share)],
            "run fewer at once, or find the resource they contend for: cache, memory channels, quota",
            name="memory.more_cpus_get_less",
        )  # fmt: skip


def _size(share: Inference) -> int:
    """Returns the size of an inference in bytes; 0 without one."""
    size = share.parameters.get("size", 0)
    return size if isinstance(size, int) else 0


def _instances(share: Inference) -> int:
    return int(share.parameters["instances"])


def _efficiency(share: Inference) -> Evidence:
    """Returns an efficiency as evidence."""
    where = " ".join(f"{name}={value}" for name, value in share.parameters.items() if name != "instances")
    return ratio_evidence(f"efficiency of {_instances(share)} instances, {where}", float(share.value or 0))


@rule(
    "alignment.copies_fall_off_a_cliff",
    "note",
    "receive packets 2 bytes later so that the IP header is aligned, or copy by unaligned words",
)
def copies_fall_off_a_cliff(results: Results) -> Iterator[FindingText]:
    """Copies are much slower if source and destination have different alignment.

    At some offset a routine copies the same bytes more than 2.5 times as slowly as at its best offset."""
    routines: dict[tuple[str, object], list[Row]] = {}
    for row in own_rows(results, "copy-of-offset"):
        routines.setdefault((str(row.parameters.get("routine")), row.parameters.get("bytes")), []).append(row)
    cliffs: dict[str, tuple[Row, Row]] = {}
    for (routine, _), rows in routines.items():
        worst, best = (pick(rows, key=lambda row: row.median or 0.0) for pick in (min, max))
        if least_ratio(best, worst) > max(MORE_THAN_TWICE, least_ratio(*cliffs[routine]) if routine in cliffs else 0):
            cliffs[routine] = best, worst
    for routine, (best, worst) in sorted(cliffs.items()):
        library = routine == "libc"
        subject = "this C library's memcpy" if library else f"the copy routine {routine}"
        times = (best.median or 0.0) / (worst.median or 0.0)
        words = f"{subject} is {times:.1f} times slower if source and destination have different alignment"
        yield FindingText(words, [row_evidence(worst), row_evidence(best)], severity="warning" if library else None)


@rule("alignment.access_is_slow", remedy="align the data, or gather its bytes one by one", rank="costs")
def access_is_slow(results: Results) -> Iterator[FindingText]:
    """A misaligned load or store inside one line is much slower than an aligned one.

    It takes at least twice as long; scalar and vector registers are judged separately. If it takes longer than a system
    call of the same run, it traps and is emulated."""
    entry = min((row.low or 0.0 for row in own_rows(results, "entry") if row.low), default=None)
    worst: dict[str, tuple[Row, Row]] = {}
    rows = [row for row in own_rows(results, "access-of-offset") if row.parameters.get("where") == "in_line"]
    for row in (row for row in rows if row.parameters.get("op") in ("load", "store") and row.parameters.get("offset")):
        kind = "vector" if int(row.parameters.get("width", 0)) > WIDEST_SCALAR else "scalar"
        aligned = next((one for one in rows if one.parameters == {**row.parameters, "offset": 0}), None)
        if aligned and least_ratio(row, aligned) > max(LEAST_RISE, least_ratio(*worst[kind]) if kind in worst else 0):
            worst[kind] = row, aligned
    for kind, (row, aligned) in sorted(worst.items()):
        is_emulated = entry is not None and (row.low or 0.0) > entry
        times = (row.median or 0.0) / (aligned.median or 1.0)
        verdict = "emulated" if is_emulated else "slow"
        words = f"a misaligned {kind} {row.parameters['op']} is {verdict}: {times:.1f} times as long as an aligned one"
        yield FindingText(words, [row_evidence(aligned), row_evidence(row)])


@rule(
    "memory.cores_share_no_cache",
    "note",
    "ask the host's operator for the real topology; place threads by measured distances",
)
def cores_share_no_cache(results: Results) -> Iterator[FindingText]:
    """Two CPUs exchange lines as if they shared no last-level cache, although the system says that they do.

    By the fastest method, one way of a line takes more than four times a load from that cache, in three quarters of the
    samples or in one of two modes. A hypervisor moved one of the CPUs to another chiplet or package, or its topology is
    not the machine's."""
    levels = [level for level in results.index.hierarchy if level.latency_ns]
    private = levels[:-2]
    if not private or levels[-1].level != "memory" or not levels[-2].latency_ns:
        return
    rows = [row for row in _rows_of_lines(results) if row.relation in ("same last-level cache", "same cluster")]
    row = min(rows, key=lambda row: (row.median or 0.0) / _ways(row, results), default=None)
    if row is None:
        return
    most = _ways(row, results) * BEYOND_CACHE * levels[-2].latency_ns
    modes = [mode for mode in row.states if mode.state in ("first", "second") and mode.median > most]
    low = row.quartiles[0] if row.quartiles else row.low or 0.0
    if low > most or modes:
        often = f" in {in_percent(modes[0].share)} of the samples" if modes and low <= most else ""
        cost = modes[0].median if often else row.median or 0.0
        yield FindingText(
            f"two CPUs of one last-level cache exchange a line in {cost:.0f} ns{often}, and a load from that cache "
            f"takes {levels[-2].latency_ns:.0f} ns: the pair does not share that cache, contrary to the topology",
            [
                row_evidence(row),
                Evidence(what=f"latency of {levels[-2].level}", value=levels[-2].latency_ns, unit="ns"),
            ],
        )


def _rows_of_lines(results: Results) -> list[Row]:
    """Returns the rows in which one CPU loads a cache line that another CPU modified."""
    transferred = [
        row
        for row in own_rows(results, "transfer-of-state")
        if row.parameters.get("state") == "modified" and row.parameters.get("access") == "load"
    ]
    return [*own_rows(results, "core-to-core"), *transferred]


def _ways(row: Row, results: Results) -> int:
    """Returns how many times a line goes from one CPU to another in the time of a row: 2 for a round trip."""
    metric = metric_of(row, results.probes)
    return 2 if metric and metric.means == "core-to-core" else 1
