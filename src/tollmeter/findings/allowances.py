# SPDX-License-Identifier: Apache-2.0
"""Rules about the resources of the run: CPUs, memory, and an undisturbed share of both."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.experiment.limits import HARDLY, MIB, OF_LAST_CACHE
from tollmeter.findings import FindingText, count_evidence, rule
from tollmeter.model import ASSUMED_LAST_CACHE_BYTES, USUAL_PAGE_BYTES, Evidence, Results
from tollmeter.model.topology import listed
from tollmeter.numbers.units import in_percent, short

MOST_SWAPPED = MIB // USUAL_PAGE_BYTES
"""Swapped pages from which memory is short: an idle system writes out a few pages of sleeping processes."""


@rule("machine.cpus_are_withheld", rank="prevents", proof="read")
def cpus_are_withheld(results: Results) -> Iterator[FindingText]:
    """The run may use only some of the machine's CPUs.

    With one CPU alone, nothing between two CPUs can be measured, and the host tool shares the measured CPU."""
    machine = results.index.machine
    allowed = machine.allowed_cpus
    if not 0 < len(allowed) < machine.cpus:
        return
    all_cpus = f"0-{machine.cpus - 1}"
    remedy = f"`taskset -pc {all_cpus} $$` in the shell that starts the run; for a control group, `cpuset.cpus`"
    which = f"CPU {allowed[0]}" if len(allowed) == 1 else f"CPUs {listed(allowed)}"
    words = f"the run may use {which} of the machine's {machine.cpus}"
    if len(allowed) == 1:
        words += ": nothing between two CPUs can be measured, and the host tool shares the measured CPU"
    evidence = Evidence(what="allowed CPUs", value=listed(allowed))
    yield FindingText(words, [evidence], remedy, None if len(allowed) == 1 else "note")


@rule("machine.memory_is_limited", rank="prevents", proof="read")
def memory_is_limited(results: Results) -> Iterator[FindingText]:
    """A control group limits the memory of the run.

    It is a problem if a quarter of the limit is less than a walk beyond the last cache needs."""
    surroundings, machine = results.index.run.surroundings, results.index.machine
    if (
        surroundings is None
        or surroundings.memory_limit is None
        or surroundings.memory_limit >= machine.memory_bytes > 0
    ):
        return
    last = max(machine.data_sizes().values(), default=ASSUMED_LAST_CACHE_BYTES)
    is_little = surroundings.memory_limit < OF_LAST_CACHE * last
    limit, whole = short(surroundings.memory_limit, "B"), short(machine.memory_bytes, "B")
    words = f"a control group limits memory to {limit} of {whole}"
    if is_little:
        words += f": a walk beyond the last cache of {short(last, 'B')} does not fit"
    evidence = [
        Evidence(what="memory that the control group may use", value=float(surroundings.memory_limit), unit="B"),
        Evidence(what="memory of the machine", value=float(machine.memory_bytes), unit="B"),
    ]
    remedy = f"start the run in a group with {short(OF_LAST_CACHE * last, 'B')} or more (memory.max)"
    yield FindingText(words, evidence, remedy, None if is_little else "note")


@rule(
    "machine.memory_is_short",
    remedy="end programs that fill the memory: `ps -eo rss,pid,comm --sort=-rss | head` lists the largest processes",
    rank="distorts",
    proof="counted",
)
def memory_is_short(results: Results) -> Iterator[FindingText]:
    """The system swapped, or tasks waited for memory, while the run measured.

    It moved 1 MiB to or from swap, or some task waited for more than 1 % of the time (PSI)."""
    surroundings = results.index.run.surroundings
    if surroundings is None:
        return
    swapped = surroundings.paging.get("pswpin", 0) + surroundings.paging.get("pswpout", 0)
    stalled = surroundings.memory_pressure or 0.0
    if swapped < MOST_SWAPPED and stalled <= HARDLY:
        return
    parts = [f"{swapped} pages went to or came from swap"] if swapped >= MOST_SWAPPED else []
    parts += [f"tasks waited for memory during {in_percent(stalled, 1)} of the run"] if stalled > HARDLY else []
    evidence = [
        count_evidence("pages to and from swap", swapped),
        Evidence(what="time in which some task waited for memory", value=stalled, unit="ratio"),
        count_evidence("major page faults", surroundings.paging.get("pgmajfault", 0)),
    ]
    yield FindingText(" and ".join(parts), evidence)
