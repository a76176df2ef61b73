# SPDX-License-Identifier: Apache-2.0
"""Contradictions planted into a recorded journal, all checksums right: each is named by its rule, and what breaks it
has no numbers. An honest journal has none."""

from __future__ import annotations

import copy
import functools
import json
import lzma
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tollmeter.experiment import taken
from tollmeter.library.derive import open_run
from tollmeter.model import Outcome, Results
from tollmeter.protocol import seal
from tollmeter.report.run_verdict import verdict_sentence
from tollmeter.store.journal import NAME, streams
from tollmeter.store.request import read_request, write_request

RECORDED = Path(__file__).resolve().parents[1] / "recordings/repeated"
Stream = list[dict[str, Any]]
Plant = Callable[[list[Stream]], object]


@functools.cache
def _recorded(name: str) -> bytes:
    """The records of each stream as JSON, without numbers and checksums. Parsed for each plant, which changes them."""
    with tempfile.TemporaryDirectory() as folder, lzma.open(RECORDED / name / "journal.jsonl.xz") as packed:
        (Path(folder) / NAME).write_bytes(packed.read())
        told = [[json.loads(line.text) for line in stream.lines] for stream in streams(Path(folder))]
    return msgspec.json.encode([[{key: one[key] for key in one if key not in ("n", "c")} for one in stream]
                                for stream in told])  # fmt: skip


def write(folder: Path, plant: Plant = lambda _: None, name: str = "01") -> Path:
    """Writes a recorded run with what is planted into it, sealed anew."""
    shutil.copy(RECORDED / name / "run.toml", folder)
    told = msgspec.json.decode(_recorded(name))
    plant(told)
    whole = (msgspec.json.encode(one[:-1]) for one in told if one[-1]["k"] == "end")
    (folder / NAME).write_bytes(b"".join(map(_sealed, whole)))
    return folder


@functools.cache
def _sealed(stream: bytes) -> bytes:
    """Seals a stream once for all plants that leave it as it was."""
    return seal(msgspec.json.decode(stream))


def opened(folder: Path, plant: Plant = lambda _: None, name: str = "01") -> Results:
    return open_run(write(folder, plant, name))


@pytest.mark.parametrize("name", [*sorted(path.name for path in RECORDED.iterdir()), "../counted"])
def test_an_honest_journal_contradicts_nothing(tmp_path: Path, name: str) -> None:
    assert opened(tmp_path, name=name).index.run.contradictions == ()


@pytest.mark.parametrize(("has_chosen", "rules"), [(True, 0), (False, 1)])
def test_work_differs_with_what_a_visit_chose(tmp_path: Path, has_chosen: bool, rules: int) -> None:
    """The fastest kernel of a copy may be one without write-allocation in one visit, and another in the next."""

    def plant(told: list[Stream]) -> None:
        own = visits(told)[5][0]
        name = next(iter(own["parameters"]))
        choices = next(parameter["choices"] for record in of("probe", told[0]) if record["probe"] == own["probe"]
                       for parameter in record["parameters"] if parameter["name"] == name)  # fmt: skip
        for visit in visits(told) if has_chosen else ():
            if visit[0]["parameters"] == own["parameters"]:
                visit[0]["chosen"] = {name: choices[visit[0] is own]}
        own["work"] |= {"bytes": 4096.0, "bus_bytes": 8192.0}

    assert len(opened(tmp_path, plant).index.run.contradictions) == rules


@pytest.mark.parametrize(("waited_ns", "sample", "rules"), [(10**6, 6, 0), (0, 6, 1), (10**6, 7, 1), (10**6, 2, 1)])
def test_a_visit_that_waited_reads_its_core_anew(tmp_path: Path, waited_ns: int, sample: int, rules: int) -> None:
    """Before an even sample, once four were contended."""

    def plant(told: list[Stream]) -> None:
        stream = visits(told)[5]
        [*of("witness", stream)][sample]["width_before_hz"] += 1000
        stream.insert(-1, {"k": "aside", "waited_ns": waited_ns})

    assert len(opened(tmp_path, plant).index.run.contradictions) == rules


def test_an_older_runtime_reads_its_core_twice_between_two_samples(tmp_path: Path) -> None:
    def plant(told: list[Stream]) -> None:
        for witness in (record for stream in visits(told) for record in of("witness", stream)):
            del witness["width_between_hz"]
            witness["width_before_hz"] += 1000

    assert opened(tmp_path, plant).index.run.contradictions == ()


@pytest.mark.parametrize(("every", "word"), [(0, "quiet"), (20, "busy")])
def test_a_run_is_not_called_quiet_in_which_a_finding_names_a_disturbance(
    tmp_path: Path, every: int, word: str
) -> None:
    """Planted: one tick for the hypervisor in each 20th visit, so that far fewer than a tenth of the samples go."""

    def plant(told: list[Stream]) -> None:
        for record in (record for stream in told for record in of("run", stream)):
            record["surroundings"] |= {"seccomp_filters": 0, "traced": False, "unreadable": []}
        for stream in visits(told)[::every] if every else ():
            [*of("witness", stream)][3]["steal_ticks"] += 1

    index = opened(tmp_path, plant).index
    assert index.run.verdict == word
    assert [finding.name for finding in index.findings] == ["machine.time_is_stolen"] * bool(every)


@pytest.mark.parametrize(("factor", "status"), [(1.0, "ok"), (0.5, "unstable")])
def test_a_row_in_half_of_its_time_has_no_number(tmp_path: Path, factor: float, status: str) -> None:
    def plant(told: list[Stream]) -> None:
        for record in of("probe", told[0]):
            record["pauses"] = False
        for place, stream in enumerate(visits(told)):
            if stream[0]["probe"] == "kernel.enter_syscall":
                scaled(factor, place)(told)

    rows = opened(tmp_path, plant).index.rows
    assert {row.status for row in rows if row.probe == "kernel.enter_syscall"} == {status}


# ---- plants ----------------------------------------------------------------------------------------------------------


def machines(told: list[Stream]) -> list[dict[str, Any]]:
    return [stream[0] for stream in told if stream[0]["k"] == "machine"]


def visits(told: list[Stream]) -> list[Stream]:
    return [stream for stream in told if stream[0]["k"] == "visit"]


def of(kind: str, stream: Stream) -> Iterator[dict[str, Any]]:
    return (record for record in stream if record["k"] == kind)


def in_machine(**fields: Any) -> Plant:
    return lambda told: [machine.update(fields) for machine in machines(told)]


def in_visit(kind: str, **fields: Any) -> Plant:
    """In the fifth visit."""
    return lambda told: [record.update(fields) for record in of(kind, visits(told)[5])]


def in_all(kind: str, change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda told: [change(record) for stream in visits(told) for record in of(kind, stream)]


def in_cache(**fields: Any) -> Plant:
    return lambda told: [machine["caches"][0].update(fields) for machine in machines(told)]


def scaled(factor: float, place: int = 5) -> Plant:
    def plant(told: list[Stream]) -> None:
        for record in of("sample", visits(told)[place]):
            record["body"] = [round(ns * factor) for ns in record["body"]]

    return plant


def copied(told: list[Stream]) -> None:
    """The samples of one visit are those of another of its point."""
    first, *others = visits(told)
    other = next(one for one in others if one[0]["parameters"] == first[0]["parameters"])
    for record, twin in zip(of("sample", other), of("sample", first), strict=False):
        record["body"] = twin["body"]


def three_times_twice(told: list[Stream]) -> None:
    """Two visits of one point have three successive times in common, which chance may do on a quiet core."""
    first, *others = visits(told)
    other = next(one for one in others if one[0]["parameters"] == first[0]["parameters"])
    for record, twin in [*zip(of("sample", other), of("sample", first), strict=False)][2:5]:
        record["body"] = twin["body"]


def equal(told: list[Stream]) -> None:
    for record in of("sample", visits(told)[5]):
        record["body"] = [300_007, 600_011]


def shifted(ns: int, place: int = 5) -> Plant:
    def plant(told: list[Stream]) -> None:
        stream = visits(told)[place]
        stream[0]["at_ns"] += ns
        for record in of("sample", stream):
            record["at_ns"] += ns

    return plant


def second_copy(told: list[Stream]) -> None:
    told.insert(1, copy.deepcopy(told[0]))
    told[1][0]["memory_bytes"] *= 2


def taken_out(told: list[Stream]) -> None:
    gone = visits(told)[7:20]
    told[:] = [stream for stream in told if stream not in gone]
    for place, stream in enumerate(told):
        if stream[0]["k"] == "run":
            stream[0]["visits"] = len(visits(told[:place]))


def renumbered(told: list[Stream], gone: list[Stream]) -> None:
    """Without some visits, with all counts adjusted."""
    told[:] = [stream for stream in told if stream not in gone]
    for number, stream in enumerate(visits(told)):
        stream[0]["visit"] = number
    for place, stream in enumerate(told):
        if stream[0]["k"] == "run":
            stream[0]["visits"] = len(visits(told[:place]))


def layout_left_out(told: list[Stream]) -> None:
    first = next(one[0] for one in visits(told) if one[0]["probe"] == "kernel.function_call")
    renumbered(told, [one for one in visits(told) if one[0]["seed"] == first["seed"]])


def rates_of_another(told: list[Stream]) -> None:
    for witness, twin in zip(of("witness", visits(told)[5]), of("witness", visits(told)[6]), strict=False):
        witness |= {name: twin[name] for name in twin if name.endswith("_hz")}


def short(told: list[Stream]) -> None:
    for stream in told:
        if stream[0]["k"] == "run":
            stream[0]["seconds"] = 0.1


def in_probe(**fields: Any) -> Plant:
    """In the description of the fifth visit's."""

    def plant(told: list[Stream]) -> None:
        for record in of("probe", told[0]):
            if record["probe"] == visits(told)[5][0]["probe"]:
                record.update(fields)

    return plant


def worse_when_less(told: list[Stream]) -> None:
    for record in of("probe", told[0]):
        record["metrics"] = [metric | {"better": "more"} for metric in record["metrics"]]


def built_for_another(told: list[Stream]) -> None:
    next(of("build", told[0]))["flags"] = "-O2 -march=armv8-a"


def unbuilt(told: list[Stream]) -> None:
    told[0][:] = [one for one in told[0] if one["k"] != "build" or one["probe"] != visits(told)[5][0]["probe"]]


def built_twice(told: list[Stream]) -> None:
    build = next(of("build", told[0]))
    told[0].insert(-1, build | {"sha256": "0" * 64})


def notes_go_back(told: list[Stream]) -> None:
    first, second = [stream[0] for stream in told if stream[0]["k"] == "run"][:2]
    first["seconds"], second["seconds"] = second["seconds"], first["seconds"]


def throttled(told: list[Stream]) -> None:
    for stream in told:
        if stream[0]["k"] == "run":
            stream[0]["surroundings"]["throttled_s"] = 1e6


def part_of_another_point(told: list[Stream]) -> None:
    for record, twin in zip([*of("sample", visits(told)[5])][2:8], of("sample", visits(told)[0]), strict=False):
        record["body"] = twin["body"]


def spread(told: list[Stream]) -> None:
    """Fifty times as long between all samples."""
    with_halves(told)
    begin = visits(told)[0][0]["at_ns"]
    for record in (record for stream in told for record in stream):
        if "at_ns" in record:
            record["at_ns"] = begin + 50 * (record["at_ns"] - begin)
        if record["k"] == "run":
            record["seconds"] *= 50


def in_one(kind: str, has: Callable[[Stream], object], change: Callable[[int, dict[str, Any]], object]) -> Plant:
    """In the third of the visits that are so: changes each record of a kind, which gets its number too."""

    def plant(told: list[Stream]) -> None:
        for number, record in enumerate(of(kind, [one for one in visits(told) if has(one)][2])):
            change(number, record)

    return plant


def of_probe(name: str) -> Callable[[Stream], object]:
    return lambda stream: stream[0]["probe"] == name


def controlled_like(told: list[Stream], timed: str) -> None:
    """The control of a visit has the times of another visit's, or of its own body."""
    one, other = [stream for stream in visits(told) if stream[0]["probe"] == "kernel.enter_syscall"][1:3]
    for record, twin in zip(of("sample", one), of("sample", other if timed == "control" else one), strict=False):
        record["control"], record["control_iterations"] = twin[timed], record["iterations"]


def in_samples(change: Callable[[int, dict[str, Any]], object]) -> Plant:
    return lambda told: [change(number, record) for number, record in enumerate(of("sample", visits(told)[5]))]


def delayed(told: list[Stream]) -> None:
    """Each sample for twice the time until the next one."""
    samples = [*of("sample", visits(told)[5])]
    for sample, later, witness in zip(samples, samples[1:], of("witness", visits(told)[5]), strict=False):
        witness["delay_ns"] = 2 * (later["at_ns"] - sample["at_ns"])


def virtual_before(told: list[Stream]) -> None:
    for stream in told:
        if stream[0]["k"] == "machine":
            next(of("clock", stream))["kind"] = "virtual"


def without_loop(told: list[Stream]) -> None:
    visits(told)[5][:] = [record for record in visits(told)[5] if record["k"] != "control"]


def of_another_size(told: list[Stream]) -> None:
    """All visits of one point."""
    for stream in visits(told):
        if stream[0]["parameters"].get("size") == 16384:
            stream[0]["parameters"]["size"] = 32768


def with_footprints(told: list[Stream]) -> None:
    for stream in visits(told):
        if size := stream[0]["parameters"].get("size"):
            stream[0]["work"]["footprint_bytes"] = 64 if size == 33554432 else size


def counted(**fields: Any) -> Plant:
    return lambda told: visits(told)[5].insert(-2, {"k": "count", "iterations": 4, **fields})


def choice_twice(told: list[Stream]) -> None:
    for record in of("probe", told[0]):
        for parameter in record["parameters"]:
            parameter["choices"] += parameter["choices"][:1]


def in_notes(**fields: Any) -> Plant:
    return lambda told: [stream[0]["surroundings"].update(fields) for stream in told if stream[0]["k"] == "run"]


def in_build(**fields: Any) -> Plant:
    """Of the fifth visit's probe."""
    return lambda told: [build.update(fields) for build in of("build", told[0])
                         if build["probe"] == visits(told)[5][0]["probe"]]  # fmt: skip


def in_metrics(**fields: Any) -> Plant:
    return lambda told: [metric.update(fields) for probe in of("probe", told[0]) for metric in probe["metrics"]]


def counted_but_once(told: list[Stream]) -> None:
    """In the first visit of each point but one."""
    points = {json.dumps(one[0]["parameters"]) + one[0]["probe"]: one for one in visits(told)[::-1]}
    for stream in [*points.values()][1:]:
        stream.insert(-2, {"k": "count", "iterations": 4})


def with_events(told: list[Stream], counts: Sequence[int] = (1000, 2000), event: str = "page-faults") -> None:
    """Other events of a batch than of its sample: of an iteration of the short one, and of the long one."""
    stream = visits(told)[5]
    stream.insert(3, {"k": "counters", "events": [event], "by": "account", "kernel": True})
    for record in of("sample", stream):
        record["counts"] = [[10**9 + count * record["iterations"] for count in counts]]


def with_ladder(told: list[Stream]) -> None:
    in_probe(pauses=True)(told)
    counted(ladder=[[704, 50_000, 51_000], [176, 12_000, 12_100]])(told)


def unrated(told: list[Stream]) -> None:
    in_machine(core_clock_hz=None)(told)
    told[0][:] = [record for record in told[0] if record["k"] != "control"]


def faults(told: list[Stream]) -> None:
    """A page fault in each sample of a visit, where its point's others have none."""
    for stream in [one for one in visits(told) if one[0]["probe"] == "kernel.function_call"]:
        for witness in of("witness", stream):
            witness["minor_faults"] = 3 * (stream is one_of(told, "kernel.function_call"))


def with_halves(told: list[Stream]) -> None:
    """One pair of samples in four has half of the iterations."""
    in_every_probe(pauses=False)(told)
    for stream in visits(told):
        earlier = 0
        for number, record in enumerate(of("sample", stream)):
            record["at_ns"] -= earlier
            record["iterations"] -= record["iterations"] % 2
            if number // 2 % 4 == 1:
                record["iterations"] //= 2
                halves = [ns // 2 for ns in record["body"]]
                earlier += sum(record["body"]) - sum(halves)
                record["body"] = halves


def halved(told: list[Stream]) -> None:
    """All times of batches, and not those at which samples begin."""
    with_halves(told)
    for place in range(len(visits(told))):
        scaled(0.5, place)(told)


def in_every_probe(**fields: Any) -> Plant:
    return lambda told: [record.update(fields) for record in of("probe", told[0])]


def with_companion(told: list[Stream]) -> None:
    """That is timed for longer than the samples are apart."""
    in_probe(roles=[{"name": "x", "worker": "thread", "pace": "background"}])(told)
    for record in of("sample", visits(told)[5]):
        record["lanes"] = [[8, 10**9]]


def cut_short(told: list[Stream]) -> None:
    stream = visits(told)[5]
    stream[:] = [stream[0], {"k": "fail", "status": "interrupted", "reason": "the budget ended before it did"},
                 stream[-1]]  # fmt: skip


def gauges(*values: tuple[int, dict[str, float]]) -> Plant:
    """Of visits at some places."""

    def plant(told: list[Stream]) -> None:
        for place, named in values:
            for name, value in named.items():
                visits(told)[place].insert(-2, {"k": "gauge", "metric": name, "value": value})

    return plant


def counted_for_a_visit(told: list[Stream]) -> None:
    """For as long as from its own first sample to the next visit's."""
    one, later = ([*of("sample", stream)] for stream in visits(told)[5:7])
    visits(told)[5].insert(-1, {"k": "aside", "counted_ns": later[0]["at_ns"] - one[0]["at_ns"]})


def seeds_exchanged(told: list[Stream]) -> None:
    """Of two points of one probe."""
    for stream in visits(told):
        if stream[0]["probe"] == "kernel.page_fault":
            kind = stream[0]["parameters"]["kind"]
            stream[0]["parameters"]["kind"] = "shared_file" if kind == "anonymous_write" else "anonymous_write"


def one_of(told: list[Stream], probe: str) -> Stream:
    return [one for one in visits(told) if one[0]["probe"] == probe][1]


def note(told: list[Stream], place: int, status: str, seconds: float) -> Stream:
    """After so many visits."""
    last = next(stream for stream in reversed(told) if stream[0]["k"] == "run")
    return [last[0] | {"status": status, "seconds": seconds, "visits": place}, last[-1]]


def ended(told: list[Stream], place: int, status: str, seconds: float) -> None:
    """The notes of the run are one, after so many visits."""
    own = note(told, place, status, seconds)
    told[:] = [stream for stream in told if stream[0]["k"] != "run"]
    told.insert(told.index(visits(told)[place]), own)


def killed(told: list[Stream]) -> None:
    ended(told, 6, "measuring", 0.1)


def resumed(place: int, ns: int) -> Plant:
    def plant(told: list[Stream]) -> None:
        last = note(told, len(visits(told)), "budget", 3.0)
        ended(told, place, "interrupted", 1.0)
        for later in range(place, len(visits(told))):
            shifted(ns, later)(told)
        told.append(last)

    return plant


def anew(told: list[Stream]) -> None:
    """The clock began 2 s before the visits that were made after the machine was started again."""
    resumed(30, 2 * 10**9 - visits(told)[30][0]["at_ns"])(told)


def in_steps(told: list[Stream]) -> None:
    """A clock of 24 MHz, and a core on which a batch takes as long each time."""
    for stream in visits(told)[::3]:
        read = [(record["iterations"], record["body"]) for record in of("sample", stream)]
        for record in of("sample", stream):
            record["body"] = min(body for length, body in read if length == record["iterations"])
    for record in (record for stream in told for record in of("sample", stream)):
        record["body"] = [ns * 24 // 1000 * 1000 // 24 for ns in record["body"]]


def in_long_steps(told: list[Stream]) -> None:
    for record in (record for stream in told for record in of("clock", stream)):
        record |= {"resolution_ns": 20_000, "cost_ns": 0}
    for record in (record for stream in told for record in of("sample", stream)):
        record["body"] = [ns // 20_000 * 20_000 for ns in record["body"]]


def one_in_long_steps(told: list[Stream]) -> None:
    """The clock of one probe's processes alone has long steps, as one that `toll selftest` plants."""
    probe = visits(told)[5][0]["probe"]
    in_long_steps([stream for stream in visits(told) if stream[0]["probe"] == probe])


def rarest_in_long_steps(told: list[Stream]) -> None:
    """The same of the probe that has the fewest visits."""
    (probe, _) = Counter(stream[0]["probe"] for stream in visits(told)).most_common()[-1]
    in_long_steps([stream for stream in visits(told) if stream[0]["probe"] == probe])


def rarest_without_a_width(told: list[Stream]) -> None:
    """The clock of the probe with the fewest visits is too coarse for the width of the core, in all of them."""
    (probe, _) = Counter(stream[0]["probe"] for stream in visits(told)).most_common()[-1]
    for record in (
        record for stream in visits(told) if stream[0]["probe"] == probe for record in of("witness", stream)
    ):
        record |= {"control_hz": 0, "control_before_hz": 0}


def lent(told: list[Stream]) -> None:
    """A container sees as many CPUs online as its quota pays for, whichever it runs on."""
    in_machine(allowed_cpus=[*range(64)], topology=TWO | {"cores": ["0,32", "1,33"]})(told)


def paused(told: list[Stream]) -> None:
    probe = visits(told)[5][0]["probe"]
    for record in of("probe", told[0]):
        record["pauses"] = record["probe"] == probe
    scaled(0.3)(told)


def translated(told: list[Stream]) -> None:
    in_machine(hypervisor="QEMU TCG")(told)
    for record in of("control", visits(told)[5]):
        record["adds"] *= 2


def in_large_pages(told: list[Stream]) -> None:
    """A count of work names pages where it was of a walk through them."""
    in_machine(page_bytes=1 << 16, architecture="")(told)
    for stream in {json.dumps(one[0]["parameters"]) + one[0]["probe"]: one for one in visits(told)[::-1]}.values():
        stream.insert(-2, {"k": "count", "iterations": 4})


def with_calls_now_and_then(told: list[Stream]) -> None:
    """A body takes new memory once for many iterations."""
    for stream in visits(told):
        stream.insert(-2, {"k": "count", "iterations": 128, "calls": [2, 0]})


def faults_for_several(told: list[Stream]) -> None:
    """A fault maps the pages of a whole batch: one of n iterations takes it, and one of 2n none."""
    for number, record in enumerate(of("sample", visits(told)[5])):
        if number % 3:
            record["body"] = record["body"][::-1]
    for record in of("witness", visits(told)[5]):
        record["minor_faults"] = 2


def disturbed_in_short_batches(told: list[Stream]) -> None:
    """All of one visit, of whose work was counted what takes half of its time at 16 instructions a cycle of 4.2 GHz."""
    first = next(of("sample", visits(told)[5]))
    each_ns = first["body"][0] / (2 * first["iterations"])
    counted(instructions=[0, round(4 * 16 * 4.2 * each_ns / 2)])(told)
    for record in of("sample", visits(told)[5]):
        record["body"] = [record["body"][0], record["body"][0] + 20_000]


def counted_in_no_time(told: list[Stream]) -> None:
    """One of two visits of an executable."""
    own = visits(told)[5]
    several = [own, next(one for one in visits(told) if one is not own and one[0]["probe"] == own[0]["probe"])]
    for stream, took_ns in zip(several, (0, 10**6), strict=True):
        number = next(of("sample", stream))["iterations"]
        stream.insert(-2, {"k": "count", "iterations": 4, "ladder": [[number, 300_000], [number // 4, 75_000]]})
        stream.insert(-1, {"k": "aside", "counted_ns": took_ns})


def filtered_anew(told: list[Stream]) -> None:
    """A shell without the filter resumes the run."""
    resumed(30, 0)(told)
    for number, stream in enumerate([one for one in told if one[0]["k"] == "run"]):
        stream[0]["surroundings"]["seccomp_filters"] = [2, 0][number]


def counted_by_an_older_runtime(told: list[Stream]) -> None:
    """It does not say how long counting took."""
    number = next(of("sample", visits(told)[5]))["iterations"]
    counted(ladder=[[number, 300_000], [number // 4, 75_000]])(told)


def faults_without_pause(told: list[Stream]) -> None:
    """In twice the time from each sample to the next."""
    samples, several = [*of("sample", visits(told)[5])], [*of("witness", visits(told)[5])]
    for sample, later, witness in zip(samples, samples[1:], several, strict=False):
        cycles = 2 * (later["at_ns"] - sample["at_ns"]) * witness["control_hz"] / 1e9
        witness["minor_faults"] = round(cycles / 80)


def in_steps_of(timer: str, resolution_ns: int) -> Plant:
    def plant(told: list[Stream]) -> None:
        in_machine(facts={"clocksource": timer})(told)
        for record in (record for stream in told for record in of("clock", stream)):
            record.update(resolution_ns=resolution_ns, cost_ns=1100)

    return plant


SOUND: dict[str, Plant] = {
    "a run that another process resumes": filtered_anew,
    "a count whose time is not stated": counted_by_an_older_runtime,
    "an executable of one page": lambda told: next(of("build", told[0])).update(size_bytes=4096),
    "a timer of 3.6 MHz": in_steps_of("acpi_pm", 300),
    "a reading of 15 cycles": in_visit("clock", cost_ns=3.6),
    "three times that occur twice": three_times_twice,
    "samples of half the length": with_halves,
    "calls that a body makes now and then": with_calls_now_and_then,
    "a machine with pages of 64 KiB": in_large_pages,
    "killed between two notes": killed,
    "resumed an hour later, for one visit": resumed(64, 3600 * 10**9),
    "resumed after the machine was started anew": anew,
    "a quiet core with a clock of 24 MHz": in_steps,
    "a clock with many readings in a step": in_long_steps,
    "a clock with many readings in a step, of one probe": one_in_long_steps,
    "a clock with many readings in a step, of a probe with few visits": rarest_in_long_steps,
    "the probe with the fewest visits has no width": rarest_without_a_width,
    "a container that is lent two CPUs": lent,
    "a body that is not timed throughout": paused,
    "an emulator that translates": translated,
    "a cache that is fully associative": in_cache(ways=0xFFFF),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_run_contradicts_nothing(tmp_path: Path, name: str) -> None:
    assert opened(tmp_path, SOUND[name]).index.run.contradictions == ()


def faults_in_long_batches(told: list[Stream]) -> None:
    """A batch of n iterations touches what is mapped already, and one of 2n has it mapped."""
    for record in of("sample", visits(told)[5]):
        record["body"] = [2_000, record["body"][1] // 2]


@pytest.mark.parametrize("plant", [faults_for_several, faults_in_long_batches, disturbed_in_short_batches])
def test_a_noisy_visit_keeps_its_numbers(tmp_path: Path, plant: Plant) -> None:
    assert not [visit.reason for visit in opened(tmp_path, plant).outcomes if "contradicts" in (visit.reason or "")]


# ---- what is not ----------------------------------------------------------------------------------------------------

MOST = 2**63 - 1
TWO = {"online": "0-1", "packages": ["0-1"], "cores": ["0", "1"]}
PLANTS: dict[str, tuple[Plant, str]] = {
    "the copies of the machine differ": (second_copy, "copies of the machine's record"),
    "64 CPUs beside two": (in_machine(cpus=64, topology=TWO), "64 CPUs are online"),
    "a CPU in two cores": (in_machine(topology={**TWO, "cores": ["0-1", "1"]}), "in one of the cores"),
    "a line of 7 bytes": (in_cache(line_bytes=7), "power of two"),
    "a first level larger than the second": (in_cache(size_bytes=64 << 20), "the next level"),
    "a page of 5000 bytes": (in_machine(page_bytes=5000), "of the architecture's"),
    "a core twice as fast before the run": (
        lambda told: [record.update(adds=2 * record["adds"]) for record in of("control", told[0])]
        + [machine.update(core_clock_hz=9.9e9) for machine in machines(told)], "had before the run",
    ),
    "a clock without a resolution": (in_visit("clock", resolution_ns=0), "a clock has a resolution"),
    "a reading of 3 cycles": (in_visit("clock", cost_ns=0.7), "a reading of the clock"),
    "a run of a tenth of a second": (short, "between two notes"),
    "visits taken out and the count adjusted": (taken_out, "visits have the numbers"),
    "an ABI of another CPU": (in_visit("visit", abi="aarch64"), "executes aarch64"),
    "a parameter that the probe has not": (in_visit("visit", parameters={"colour": 3}), "parameters are those"),
    "a CPU that does not exist": (in_visit("visit", cpus=[31]), "CPUs that the run may use"),
    "a worker elsewhere": (in_visit("witness", cpu_before=0, cpu_after=0), "to which it is pinned"),
    "a buffer larger than memory": (
        in_visit("visit", work={"operations": 1, "footprint_bytes": 1 << 60}), "no larger than memory",
    ),
    "a worker on no CPU of any machine": (in_visit("witness", cpu_after=MOST), "to which it is pinned"),
    "bodies as long as an integer can say": (in_visit("sample", body=[MOST, MOST]), "lie between its beginning"),
    "bodies longer than the gaps": (scaled(4), "lie between its beginning"),
    "a visit a day ahead": (shifted(86_400 * 10**9), "timed after the other"),
    "the last visit a day ahead": (shifted(86_400 * 10**9, -1), "lasts at least from its first visit"),
    "a visit that goes back": (shifted(-500_000_000, 30), "timed after the other"),
    "more time lost than went by": (in_visit("witness", delay_ns=10**10), "last one begins"),
    "samples that are all equal": (equal, "samples differ"),
    "a copied visit": (copied, "the same times"),
    "every loop beside samples faster than around visits": (
        lambda told: [
            record.update({name: round(1.4 * record[name]) for name in ("control_hz", "control_before_hz")})
            for stream in visits(told)
            for record in of("witness", stream)
        ], "a loop is as fast around visits",
    ),
    "additions that wait for each other, and others slower": (
        lambda told: [
            record.update({name: record[name] // 20 for name in ("width_hz", "width_before_hz", "width_between_hz")})
            for stream in visits(told)
            for record in of("witness", stream)
        ], "independent additions per cycle",
    ),
    "page faults of 80 cycles": (faults_without_pause, "faults and context switches"),
    "a virtual clock of Linux": (
        lambda told: [record.update(kind="virtual") for record in of("clock", visits(told)[5])], "a hardware clock",
    ),
    "a visit in a fiftieth of its time": (
        lambda told: [
            record.update(at_ns=first + (record["at_ns"] - first) // 50, body=[ns // 50 for ns in record["body"]],
                          control=[ns // 50 for ns in record.get("control", [])])
            for stream in visits(told)[5:6]
            for first in [next(of("sample", stream))["at_ns"]]
            for record in of("sample", stream)
        ], "loops of 5 us or more run between",
    ),
    "additions of another core": (in_visit("control", adds=1), "a core can have"),
    "threads of a core that are no CPUs": (in_machine(cores=[[0, 97]]), "threads of a core"),
    "two caches of a level": (
        lambda told: [
            machine["caches"].append(machine["caches"][0] | {"size_bytes": 1 << 15}) for machine in machines(told)
        ], "one cache of a kind",
    ),
    "notes that go back": (notes_go_back, "the time of a run does not fall"),
    "a run that was throttled for longer": (throttled, "is throttled"),
    "a CPU that was not asked for": (in_visit("visit", cpus=[0]), "that were requested"),
    "two workers on one CPU": (in_visit("visit", cpus=[1, 1]), "each of its CPUs once"),
    "a layout of another seed": (in_visit("visit", seed=12345), "the run's seed"),
    "another revision": (in_visit("visit", revision=77), "its probe's revision"),
    "a size below 0": (
        in_visit("visit", probe="memory.latency", parameters={"size": -1, "pages": "huge"}), "those of its",
    ),
    "no executable": (unbuilt, "executable of each visit"),
    "two executables": (built_twice, "one executable for an ABI"),
    "an executable for another CPU": (built_for_another, "are for the same CPUs"),
    "time that is better when more": (worse_when_less, "its rate counts"),
    "companions of a probe without": (
        lambda told: [in_probe(roles=[])(told), in_visit("sample", lanes=[[8, 500]])(told)], "only if its probe has"),
    "a control of a probe without": (
        lambda told: in_probe(control="control" not in next(of("sample", visits(told)[5])))(told), "one, and only then",
    ),
    "one visit by another clock": (in_visit("clock", source="cycle_counter"), "one clock times"),
    "steps of a microsecond beside single nanoseconds": (
        lambda told: [record.update(resolution_ns=1e3) for stream in told for record in of("clock", stream)],
        "multiple of its resolution",
    ),
    "counting beyond the next visit's first sample": (counted_for_a_visit, "next visit's samples"),
    "a wait of a day": (
        lambda told: visits(told)[5].insert(-1, {"k": "aside", "waited_ns": 86_400 * 10**9}), "next visit's samples",
    ),
    "part of another point's times": (part_of_another_point, "the same times"),
    "fifty times as long between all samples": (spread, "of its evidence"),
    "a layout that is left out": (layout_left_out, "left out"),
    "rates of another visit": (rates_of_another, "the same times"),
    "a hundred times as fast as ever": (
        lambda told: [record.update(iterations=100 * record["iterations"]) for record in of("sample", visits(told)[5])],
        "as fast as each other",
    ),
    "a CPU that is online and offline": (in_machine(topology={**TWO, "offline": "1"}), "online and offline"),
    "a CPU of two kinds": (
        in_machine(topology={**TWO, "kinds": [{"cpus": "0-1"}, {"cpus": "1"}]}), "in one of the kinds",
    ),
    "a memory node far from itself": (
        in_machine(topology={**TWO, "nodes": [{"node": 0, "cpus": "0-1", "distances": [20]}]}), "the shortest, is 10",
    ),
    "a huge page of 3 MB": (in_machine(topology={**TWO, "huge_page_bytes": 3_000_000}), "of several pages"),
    "a last cache that others share": (
        in_machine(topology={**TWO, "last_caches": ["0", "1"]}), "share the last cache",
    ),
    "steps of a microsecond in one visit": (in_visit("clock", resolution_ns=1e3), "cost in all visits"),
    "a virtual clock before the run": (virtual_before, "one clock times"),
    "what the system reports, but not of one visit": (in_visit("witness", delay_ns=None), "visits of an ABI"),
    "a round trip without a context switch": (
        in_one("witness", lambda stream: stream[0]["parameters"].get("channel") == "eventfd",
               lambda _, record: record.update(voluntary=0, involuntary=0)), "each of its visits",
    ),
    "twenty times the control's turns": (
        in_one("sample", of_probe("kernel.enter_syscall"),
               lambda _, record: record.update(control_iterations=record["control_iterations"] * 20)),
        "the control takes",
    ),
    "a worker that waits where it never does": (
        in_one("witness", of_probe("kernel.enter_syscall"), lambda _, record: record.update(voluntary=3)),
        "its point's other visits",
    ),
    "a memory node that is not there": (
        in_machine(topology={**TWO, "nodes": [{"node": 0, "cpus": "0-1"}], "allowed_nodes": "0,5"}), "may use exist",
    ),
    "no loop around a visit": (without_loop, "a control loop before and after"),
    "samples of other lengths": (
        in_samples(lambda number, record: record.update(iterations=record["iterations"] * (1 + number))), "or half",
    ),
    "whole microseconds of a clock that has finer ones": (
        in_samples(lambda _, record: record.update(body=[ns // 1000 * 1000 for ns in record["body"]])), "clock's step",
    ),
    "delays of twice the time": (delayed, "last one begins"),
    "a choice of two meanings": (choice_twice, "source and unit"),
    "a point of another size": (of_another_size, "the run's seed"),
    "a larger size that touches less": (with_footprints, "touches no less"),
    "a kernel that no probe has": (in_visit("visit", chosen={"kernel": "sideways"}), "a choice of its probe"),
    "a longer batch in less time": (
        counted(ladder=[[96, 50_000, 51_000], [24, 60_000, 61_000]]), "a longer batch",
    ),
    "batches of one length, and none": (counted(ladder=[[96, 50_000, 51_000], [96, 12_000], []]), "a longer batch"),
    "pinned to no CPU": (in_visit("visit", cpus=[], pinned=True), "if it is pinned"),
    "no operation": (
        lambda told: [
            stream[0]["work"].update(operations=0)
            for stream in visits(told)
            if stream[0]["parameters"] == visits(told)[5][0]["parameters"]
        ],
        "its rate counts",
    ),
    "work of another point": (in_visit("visit", work={"operations": 77}), "same in all visits"),
    "a round after a million": (in_visit("visit", round=10**6), "the order of their numbers"),
    "a visit that begins before the one before": (
        lambda told: visits(told)[9][0].update(at_ns=visits(told)[7][0]["at_ns"] - 1), "the order of their numbers",
    ),
    "a number that comes later": (
        lambda told: [one[0].update(visit=number) for one, number in zip(visits(told)[7:9], (8, 7), strict=True)],
        "the order of their numbers",
    ),
    "samples that begin evenly spaced": (
        in_samples(lambda number, record: record.update(at_ns=1674548923849 + 2_100_000 * number)), "evenly spaced",
    ),
    "preemptions without waits": (
        lambda told: [record.update(involuntary=3, delay_ns=0) for stream in told for record in of("witness", stream)],
        "preempted waits to run",
    ),
    "a worker that is not pinned": (in_visit("visit", pinned=None), "the same pinning"),
    "a priority of its own": (in_visit("visit", priority="normal"), "the same priority"),
    "batches that were to be shorter": (in_visit("visit", sample_ns=200_000), "the same requested length"),
    "workers of one visit": (in_visit("visit", workers=[1, 1]), "only if its probe has"),
    "a choice of one visit": (in_visit("visit", chosen={"kind": "shared_file"}), "the same chosen parameters"),
    "a value of one visit": (
        lambda told: visits(told)[5].insert(-2, {"k": "gauge", "metric": "depth", "value": 2.0}), "reported values",
    ),
    "a timed value that the probe reports": (
        lambda told: visits(told)[5].insert(-2, {"k": "gauge", "metric": "fault", "value": 2.0}), "is not timed too",
    ),
    "a reading of forty times": (in_visit("clock", cost_ns=900), "cost in all visits"),
    "a slower clock before the run": (
        lambda told: [record.update(cost_ns=800) for stream in told if stream[0]["k"] == "machine"
                      for record in of("clock", stream)], "before the run as in it",
    ),
    "a frequency of a tenth": (
        lambda told: [record.update(frequency_khz=400_000) for stream in told for record in of("witness", stream)],
        "that the system reports",
    ),
    "a frequency in one visit alone": (in_visit("witness", frequency_khz=4_000_000), "visits of an ABI"),
    "faults in each sample of a visit": (faults, "its point's other visits"),
    "a run that is throttled without a quota": (in_notes(throttled_s=0.1), "it has a quota"),
    "a quota of a thousandth of a per cent": (in_notes(quota=1e-5), "than its quota"),
    "a billion interrupts a second": (in_notes(interrupts={"LOC": 1e9}), "interrupts a second on a CPU"),
    "a run in 64 KiB of memory": (
        lambda told: [in_notes(memory_limit=1 << 16)(told), with_footprints(told)], "its visits fill",
    ),
    "notes without surroundings at the end": (
        lambda told: [stream for stream in told if stream[0]["k"] == "run"][-1][0].update(surroundings=None),
        "noted to its end",
    ),
    "a run in half of its time": (
        lambda told: [stream[0].update(seconds=stream[0]["seconds"] / 2) for stream in told if stream[0]["k"] == "run"],
        "first visit to its last",
    ),
    "visits two minutes after a budget of one": (
        lambda told: [shifted(120 * 10**9, place)(told) for place in range(40, len(visits(told)))], "after its budget",
    ),
    "no metric": (in_probe(metrics=[]), "of code that the probe times"),
    "a metric of a control that is none": (in_metrics(source="companions"), "of code that the probe times"),
    "a typical choice that is none": (
        lambda told: [parameter.update(typical="sideways") for probe in of("probe", told[0])
                      for parameter in probe["parameters"] if parameter["choices"]], "is one of them",
    ),
    "a machine that was not asked for": (in_visit("visit", target="ssh:board"), "that were requested"),
    "a probe that is described twice": (
        lambda told: told[0].insert(3, copy.deepcopy(next(of("probe", told[0])))), "describe a probe once",
    ),
    "work that is not counted": (counted_but_once, "in a point's first visit"),
    "fewer calls of more iterations": (counted(calls=[8, 4]), "no fewer system calls"),
    "pages beyond a chase": (counted(chase_bytes=4096, buffer_bytes=4096, chase_pages=99), "pages than they can"),
    "batches of an hour while work is counted": (
        lambda told: [counted(ladder=[[704, 10**12, 10**12 + 1], [176, 9, 8]])(told),
                      visits(told)[5].insert(-1, {"k": "aside", "counted_ns": 10**6})],
        "than the counting",
    ),
    "a ladder of other samples": (counted(ladder=[[96, 50_000, 51_000], [24, 9_000, 9_100]]), "as long as the samples"),
    "a ladder of a probe that stops the clock": (with_ladder, "whose work is counted"),
    "more faults in a batch than in its sample": (with_events, "than the sample"),
    "no rate before the run": (unrated, "measured in the visits"),
    "no rate before the run, and a visit that took no sample": (
        lambda told: [unrated(told), visits(told)[5].__setitem__(
            slice(1, -1), [{"k": "skip", "reason": "not here"}, *of("clock", visits(told)[5])])],
        "measured in the visits",
    ),
    "no seed": (in_visit("visit", seed=0), "a visit has a layout"),
    "no time of a sample": (in_visit("sample", at_ns=0), "visits of an ABI"),
    "companions that are timed though they run in turn": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "lockstep"}])(told),
                      in_visit("sample", lanes=[[8, 500]])(told)], "are timed themselves",
    ),
    "a timed worker on another CPU": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "lockstep"}])(told),
                      [one[0].update(workers=[0, 1], cpus=[0, 1]) for one in visits(told)
                       if one[0]["probe"] == visits(told)[5][0]["probe"]]], "are the visit's",
    ),
    "full samples of one time": (
        lambda told: [with_halves(told),
                      [record.update(body=[300_007, 600_011]) for record in of("sample", visits(told)[5])
                       if record["i"] // 2 % 4 != 1]],
        "samples differ",
    ),
    "a heap of less than nothing": (
        lambda told: [[record["metrics"].append(record["metrics"][0] | {"name": "heap", "unit": "B", "source": "gauge"})
                       for record in of("probe", told[0])], gauges((5, {"heap": -1.0}))(told)],
        "and maps at most",
    ),
    "fewer faults of longer batches": (lambda told: with_events(told, [-1000, -2000]), "than the sample"),
    "cycles that the kernel accounts": (lambda told: with_events(told, [0, 0], "cycles"), "than the sample"),
    "a companion that no worker is": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "background"}])(told),
                      in_visit("sample", lanes=[[8, 500]])(told),
                      in_visit("visit", workers=[visits(told)[5][0]["cpus"][0]])(told)], "are timed themselves",
    ),
    "all times halved": (halved, "its batches do"),
    "a companion that is timed for a second": (with_companion, "between its beginning and the next"),
    "a budget that ended in the middle": (cut_short, "among the last"),
    "a hundredth of a CPU": (in_notes(quota=0.01), "than its quota"),
    "more resident memory than ever": (gauges((5, {"resident": 9e6, "resident_peak": 1e6})), "than the whole"),
    "three times as much in huge pages": (gauges((5, {"huge_pages": 3.0})), "than the whole"),
    "code that grows": (
        lambda told: gauges(*((place, {"code": 1000.0 + (one is one_of(told, "kernel.function_call"))})
                              for place, one in enumerate(visits(told))))(told),
        "of code and data",
    ),
    "two points exchanged": (seeds_exchanged, "the run's seed"),
    "a timer of 3.6 MHz that makes steps of 270 ns": (
        in_steps_of("acpi_pm", 270), "of the timer that the system reads",
    ),
    "a timer of 1,000 Hz that makes steps of 900 us": (
        in_steps_of("jiffies", 900_000), "of the timer that the system reads",
    ),
    "filters of system calls that vanish": (
        lambda told: [stream[0]["surroundings"].update(seccomp_filters=2 if place == 0 else 0)
                      for place, stream in enumerate(one for one in told if one[0]["k"] == "run")],
        "filters of system calls does not fall",
    ),
    "a checksum of three letters": (in_build(sha256="xyz"), "64 digits"),
    "an executable of less than a page": (in_build(size_bytes=4095), "an executable fills a page"),
    "a vector kernel of another CPU, chosen": (in_visit("visit", chosen={"kernel": "neon"}), "executes neon"),
    "a control in some samples": (
        in_one("sample", lambda stream: "control" in next(of("sample", stream)),
               lambda number, record: number % 2 and record.pop("control")), "have a control",
    ),
    "a companion that made no turn": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "background"}])(told),
                      in_visit("sample", lanes=[[0, 500]])(told)], "least one turn",
    ),
    "exactly twice as long for twice the work": (
        in_samples(lambda _, record: record.update(body=[record["body"][0], 2 * record["body"][0]])), "in all samples",
    ),
    "a ladder of no time": (counted(ladder=[[704, 0, 0], [176, 0, 0]]), "a longer batch"),
    "counting that took no time": (counted_in_no_time, "than the counting"),
    "a refined choice": (
        lambda told: [parameter.update(refine=True) for probe in of("probe", told[0])
                      for parameter in probe["parameters"] if parameter["choices"]], "a range is of numbers",
    ),
    "counted calls of a control that is none": (
        lambda told: one_of(told, "kernel.signal_self").insert(
            -2, {"k": "count", "iterations": 4, "control_calls": [4, 8]}), "one, and only then",
    ),
    "a companion in some samples": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "background"}])(told),
                      in_samples(lambda number, record: record.update(lanes=[[8, 500]] * (1 + number % 2)))(told)],
        "have a control",
    ),
    "two workers of real-time priority on one CPU": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "lockstep"}])(told),
                      [one[0].update(workers=one[0]["cpus"] * 2, priority="real-time") for one in visits(told)]],
        "a CPU of its own",
    ),
    "a visit that begins with its first sample": (
        lambda told: visits(told)[5][0].update(at_ns=next(of("sample", visits(told)[5]))["at_ns"] - 10),
        "its control loop runs, before",
    ),
    "controls of another visit": (lambda told: controlled_like(told, "control"), "the same times"),
    "a control with the times of its body": (lambda told: controlled_like(told, "body"), "the same times"),
    "what others took, of a file that cannot be read": (
        in_notes(unreadable=["/proc/stat"], others=0.1), "cannot be read",
    ),
    "a chase in order that leads to 200 pages": (
        counted(chase_bytes=1 << 21, buffer_bytes=1 << 21, chase_stride=64, chase_in_order=1, chase_pages=200),
        "pages than they can",
    ),
    "a chase shorter than its stride": (
        counted(chase_bytes=1 << 12, buffer_bytes=1 << 12, chase_stride=1 << 13), "pages than they can",
    ),
    "calls that were counted and too many": (counted(calls=[8, 16], most_calls=99), "count has no count"),
    "a huge page of 12,345 bytes": (counted(hugetlb_bytes=12_345), "whole pages"),
    "an executable for another mode of a CPU": (
        lambda told: [one.update(flags=one["flags"] + " -m32") for one in [next(of("build", told[0]))]],
        "are for the same CPUs",
    ),
    "a range that ends before it begins": (
        lambda told: [parameter.update(start=4096, stop=64, stop_scale="absolute") for probe in of("probe", told[0])
                      for parameter in probe["parameters"] if not parameter["values"]], "begins before it ends",
    ),
    "ten times the CPU's time": (
        lambda told: gauges(*((place, {"cpu_time": 1e9}) for place, one in enumerate(visits(told))
                              if one[0]["probe"] == "kernel.function_call"))(told),
        "time than it takes",
    ),
    "two loops before a visit": (
        lambda told: [record.update(when="before") for record in of("control", visits(told)[5])],
        "a control loop before and after",
    ),
    "a companion that always takes as long": (
        lambda told: [in_probe(roles=[{"name": "x", "worker": "thread", "pace": "background"}])(told),
                      in_samples(lambda _, record: record.update(lanes=[[8, 600_011]]))(told)], "samples differ",
    ),
    "a visit that began at no time": (in_visit("visit", at_ns=0), "and after them"),
    "a middle of samples in which all cores are ten times as wide": (
        in_all("witness", lambda one: one.update(width_between_hz=10 * one["width_between_hz"])), "a loop is as fast",
    ),
    "loops around no visit": (
        lambda told: [one.remove(record) for one in visits(told) for record in [*of("control", one)]],
        "a control loop before and after",
    ),
    "one loop around each visit": (
        lambda told: [one.remove(next(of("control", one))) for one in visits(told)], "a control loop before and after",
    ),
    "layouts of no visit": (in_all("visit", lambda one: one.pop("seed")), "a visit has a layout"),
    "readings of all samples that do not join": (
        in_all("witness", lambda one: one.update(control_before_hz=1.001 * one["control_before_hz"])),
        "begins the next",
    ),
    "a clock beyond a line that is Linux's": (
        in_all("clock", lambda one: one.update(kind="external")), "a hardware clock",
    ),
    "more memory management than time": (in_notes(paging={"pgfault": 10**12}), "events of memory management"),
    "two metrics of one time": (
        lambda told: [metric.pop("source") for probe in of("probe", told[0]) for metric in probe["metrics"]],
        "source and unit",
    ),
    "less than no huge pages": (gauges((5, {"huge_pages": -1.0})), "than the whole"),
    "counted batches of no iteration": (counted(ladder=[[0, 12_000_000, 12_100_000]]), "as long as the samples"),
    "bytes below 0": (
        lambda told: [one[0]["work"].update(bytes=-64.0) for one in visits(told)], "work is not negative",
    ),
}  # fmt: skip


def is_withheld(visit: Outcome) -> bool:
    return (visit.reason or "").startswith(("the journal contradicts itself: ", "disturbed: this did not hold: "))


@pytest.mark.parametrize("name", PLANTS)
def test_a_contradiction_is_named_and_has_no_number(tmp_path: Path, name: str) -> None:
    plant, expected = PLANTS[name]
    results = opened(tmp_path, plant)
    run = results.index.run
    assert any(expected in sentence for sentence in run.contradictions), run.contradictions
    assert run.verdict == "unknown" and "contradicts itself" in verdict_sentence(results)
    assert "run.journal_contradicts_itself" in [*results.index.withheld, *(one.name for one in results.index.findings)]
    withheld = [visit for visit in results.outcomes if is_withheld(visit)]
    assert withheld and not any(visit.samples for visit in withheld)
    assert open_run(tmp_path).index.run.contradictions == run.contradictions, "from the index"


def test_twice_the_work_in_half_the_time_is_withheld(tmp_path: Path) -> None:
    """Of one visit: a neighbour may have done it, and it contradicts no run."""
    exchanged = in_one("sample", of_probe("kernel.function_call"),
                       lambda at, record: record.update(body=record["body"][:: -1 if at % 3 else 1]))  # fmt: skip
    results = opened(tmp_path, exchanged)
    assert len([visit for visit in results.outcomes if "takes longer" in (visit.reason or "")]) == 1


WITHHELD: dict[str, tuple[Plant, str]] = {
    "one loop of twice the rate": (
        lambda told: next(of("control", visits(told)[5])).update(ns=next(of("control", visits(told)[5]))["ns"] // 2),
        "as in all others",
    ),
    "twice the iterations": (
        in_one("sample", of_probe("kernel.function_call"),
               lambda _, record: record.update(iterations=2 * record["iterations"])), "before and after it",
    ),
    "a fiftieth of each time": (
        in_samples(lambda _, record: record.update(body=[ns // 50 for ns in record["body"]])), "as was requested",
    ),
    "many times the samples": (in_visit("visit", samples=3), "twice the samples"),
    "loops of half the time around a visit": (
        lambda told: [record.update(ns=record["ns"] * 10 // 21) for record in of("control", visits(told)[5])],
        "beside its samples",
    ),
    "a wider core": (
        lambda told: [record.update({name: 2 * record[name] for name in record if name.startswith("width")})
                      for record in of("witness", visits(told)[5])], "than the others",
    ),
    "loops of a fifth in the middle of samples": (
        lambda told: [record.update(width_between_hz=record["width_between_hz"] // 5)
                      for record in of("witness", visits(told)[5])], "a loop is as fast",
    ),
    "a wait without a switch": (
        in_one("witness", of_probe("kernel.function_call"),
               lambda number, record: record.update(voluntary=0, involuntary=0, delay_ns=9_000 * (number == 3))),
        "was switched out",
    ),
    "a count of twenty times the samples' time": (
        counted(ladder=[[704, 12_000_000, 12_100_000], [176, 3_000_000, 3_000_001]]), "its work is counted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHHELD)
def test_a_visit_that_a_neighbour_may_have_disturbed_is_withheld(tmp_path: Path, name: str) -> None:
    plant, expected = WITHHELD[name]
    withheld = [visit for visit in opened(tmp_path, plant).outcomes if is_withheld(visit)]
    assert len(withheld) == 1 and expected in (withheld[0].reason or "")
    assert (withheld[0].reason or "").startswith("disturbed: "), "an honest run has such visits"


def test_a_point_whose_count_takes_a_hundred_times_as_long_has_no_number(tmp_path: Path) -> None:
    """No state of a machine explains it: the probe does other work in samples than while its work is counted."""
    results = opened(tmp_path, counted(ladder=[[704, 60_000_000, 60_100_000], [176, 15_000_000, 15_000_001]]))
    (point,) = {visit.point for visit in results.outcomes if is_withheld(visit)}
    rows = [row for row in results.index.rows if (row.probe, row.parameters) == (point.probe, point.values())]
    assert rows and all("in batches beside them" in (row.reason or "") for row in rows), [row.reason for row in rows]


@pytest.mark.parametrize(("disturbed", "contradictions"), [(0.04, 0), (0.12, 1)])
def test_a_run_of_which_a_tenth_is_disturbed_contradicts_itself(
    tmp_path: Path, disturbed: float, contradictions: int
) -> None:
    """Planted in points of several visits, in one of each."""

    def plant(told: list[Stream]) -> None:
        made = [json.dumps([one[0][name] for name in ("probe", "abi", "parameters")]) for one in visits(told)]
        points = [made.index(point) for point, several in Counter(made).items() if several > 3]
        for place in points[: round(disturbed * len(made))]:
            scaled(0.02, place)(told)

    run = opened(tmp_path, plant).index.run
    assert sum("as was requested" in sentence for sentence in run.contradictions) == contradictions


@pytest.mark.parametrize(("broken", "status"), [(1, "ok"), (2, "unstable")])
def test_a_point_of_which_a_third_contradicts_has_no_number(tmp_path: Path, broken: int, status: str) -> None:
    def plant(told: list[Stream]) -> None:
        own = next(one for one in visits(told) if one[0]["probe"] == "kernel.enter_syscall")
        point = [place for place, one in enumerate(visits(told)) if one[0]["parameters"] == own[0]["parameters"]]
        for place in point[:broken]:
            scaled(0.02, place)(told)

    results = opened(tmp_path, plant)
    disturbed = [visit for visit in results.outcomes if "as was requested" in (visit.reason or "")]
    assert len(disturbed) == (1 if status == "ok" else 4)
    assert {row.status for row in results.index.rows if row.probe == "kernel.enter_syscall"} == {status}


def test_a_bundle_may_find_the_length_of_the_first_of_two_visits_anew(tmp_path: Path) -> None:
    """It asks for both at once, with the iterations of a visit before them."""

    def two_of_a_layout(told: list[Stream]) -> None:
        alike = [one for one in visits(told) if one[0]["probe"] == "kernel.function_call"]
        *_, before, first, second = (one for one in alike if one[0]["abi"] == alike[0][0]["abi"])
        assert before[0]["seed"] != first[0]["seed"] == second[0]["seed"]
        for record in of("sample", first):
            record.update(iterations=2 * record["iterations"])

    seen = opened(tmp_path, two_of_a_layout)
    assert not [visit for visit in seen.outcomes if "before and after it" in (visit.reason or "")]


REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "no time": ({"started": "yesterday"}, "date and a time"),
    "larger data than a cache": ({"private_bytes": 1 << 40}, "private caches"),
    "words of another probe": ({"words": ("float.dot",)}, "its suite or its probes"),
    "a core of 99 additions a cycle": ({"widths": {"local": {"x86_64": 99.0}}}, "additions in a cycle"),
    "rows that differ endlessly": ({"runs_sd": {"kernel.clock_read": 50.0}}, "the deviation of a row"),
    "a plan in a shorter time": ({"planned_s": 0.001}, "than the run's own"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_of_its_run(tmp_path: Path, name: str) -> None:
    fields, expected = REQUESTS[name]
    write(tmp_path)
    write_request(tmp_path, msgspec.structs.replace(read_request(tmp_path), **fields))
    assert any(expected in sentence for sentence in open_run(tmp_path).index.run.contradictions)


@pytest.mark.parametrize(("budget_s", "rules"), [(86400.0, 1), (600.0, 0)])
def test_a_budget_is_used_where_it_ends_a_run(tmp_path: Path, budget_s: float, rules: int) -> None:
    write(tmp_path, lambda told: [one for one in told if one[0]["k"] == "run"][-1][0].update(status="budget"))
    write_request(tmp_path, msgspec.structs.replace(read_request(tmp_path), budget_seconds=budget_s))
    assert sum("of it or longer" in sentence for sentence in open_run(tmp_path).index.run.contradictions) == rules


def test_events_are_counted_where_they_were_asked_for(tmp_path: Path) -> None:
    def plant(told: list[Stream]) -> None:
        for stream in visits(told):
            stream.insert(3, {"k": "counters", "events": [], "by": "account", "kernel": True})

    assert opened(tmp_path, plant).index.run.contradictions == ()
    write_request(tmp_path, msgspec.structs.replace(read_request(tmp_path), counters=False))
    assert any("only if they were requested" in sentence for sentence in open_run(tmp_path).index.run.contradictions)


def test_a_visit_is_of_a_value_that_was_asked_for(tmp_path: Path) -> None:
    write(tmp_path)
    request = read_request(tmp_path)
    selects = tuple(
        msgspec.structs.replace(one, parameters=one.parameters | ({"kind": ("cow",)} if "fault" in one.probe else {}))
        for one in request.suite.select
    )
    write_request(
        tmp_path, msgspec.structs.replace(request, suite=msgspec.structs.replace(request.suite, select=selects))
    )
    contradictions = open_run(tmp_path).index.run.contradictions
    assert any("values that its suite" in sentence for sentence in contradictions)
    assert any("values of its suite" in sentence for sentence in contradictions)


@pytest.mark.parametrize(("footprint", "words", "rules"), [(0, (), 0), (4096, (), 1), (4096, ("footprint=4096",), 0)])
def test_a_value_that_was_not_asked_for_is_its_probes(
    tmp_path: Path, footprint: int, words: tuple[str, ...], rules: int
) -> None:
    def plant(told: list[Stream]) -> None:
        for stream in visits(told):
            if "footprint" in stream[0]["parameters"]:
                stream[0]["parameters"]["footprint"] = footprint

    write(tmp_path, plant)
    write_request(tmp_path, msgspec.structs.replace(read_request(tmp_path), words=words))
    contradictions = open_run(tmp_path).index.run.contradictions
    assert sum("values that its suite" in sentence for sentence in contradictions) == rules


def test_a_visit_is_of_a_probe_that_was_asked_for(tmp_path: Path) -> None:
    write(tmp_path)
    request = read_request(tmp_path)
    selects = tuple(msgspec.structs.replace(one, probe="float.dot") for one in request.suite.select)
    write_request(
        tmp_path, msgspec.structs.replace(request, suite=msgspec.structs.replace(request.suite, select=selects))
    )
    assert any("its suite selects" in sentence for sentence in open_run(tmp_path).index.run.contradictions)


@pytest.mark.parametrize(("reused", "rules"), [("12 visits are of an earlier run", 0), ("", 1)])
def test_visits_that_are_used_again_may_have_had_longer_batches(tmp_path: Path, reused: str, rules: int) -> None:
    write(tmp_path, in_visit("visit", sample_ns=200_000))
    write_request(tmp_path, msgspec.structs.replace(read_request(tmp_path), reused=reused))
    contradictions = open_run(tmp_path).index.run.contradictions
    assert sum("requested length" in sentence for sentence in contradictions) == rules


@pytest.mark.parametrize("name", ["a copied visit", "part of another point's times", "rates of another visit"])
def test_rules_find_what_visits_share_that_are_not_looked_at_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    withheld = []
    for at_once in (4096, 5):
        monkeypatch.setattr(taken, "_AT_ONCE", at_once)
        (folder := tmp_path / str(at_once)).mkdir()
        outcomes = opened(folder, PLANTS[name][0]).outcomes
        withheld.append([visit.visit for visit in outcomes if PLANTS[name][1] in (visit.reason or "")])
    assert withheld[0] == withheld[1] != []


@pytest.mark.parametrize("plant", [counted(entered=[0, 4096, 8192]), in_visit("witness", width_between_hz=-2e10)])
def test_a_number_that_no_record_can_have_is_damage(tmp_path: Path, plant: Plant) -> None:
    assert "damaged" in opened(tmp_path, plant).index.run.damage
