# SPDX-License-Identifier: Apache-2.0
"""Rules that compare the notes of a run, its request and the order of its visits. Each line of the tables is a sentence
that is true of every honest run, with the function that finds a violation (docs/measuring.md lists them)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import pairwise
from math import inf, log

import numpy as np

from tollmeter.experiment.described import MOST_UNDER_WAY, Asked, Places, Recorded
from tollmeter.experiment.limits import ALIKE, FEW, INEXPLICABLE, LEAST_VALUES, LEAST_VISITS
from tollmeter.experiment.taken import Counts
from tollmeter.experiment.visit_table import LONGEST_NS, has_hardware_time, is_of_this_machine
from tollmeter.model import Outcome, Probe, Select, Surroundings

SLACK_S = 0.2
"""Tolerance of a time in seconds. To this a tenth of the time is added (ALIKE), since NTP may slew the clock of the
notes by a twelfth, and does not slew the clock of the visits."""
LATE_S = 10.0
"""Longest time in seconds after the end of the budget at which a visit may begin. A run begins none, but a process of a
higher real-time priority may delay it."""
BEGINS_S = 600.0
"""Seconds of a budget that building may take. A run that was ended by its budget used at least a tenth of the rest for
measuring."""
LEAST_EVENT_CYCLES = 100
"""Fewest core cycles of an interrupt, a page fault, a context switch or another event of the kernel."""
OF_OTHERS = "/proc/stat"
"""File from which the CPU time of other processes is read."""
LEAST_WIDTH = 0.5
"""Lowest ratio of independent to dependent additions in equal time: a busy sibling hyperthread takes half of them."""
MOST_PER_CYCLE = 16
"""Upper limit of instructions per cycle: twice what any core completes."""
LEAST_CALL_CYCLES = 10
"""Fewest core cycles of a clock reading, a kernel entry and exit, or a round trip to another core."""
SLOWEST_CORE_HZ, FASTEST_CORE_HZ = 1e6, 1e10
"""Lowest and highest rate of a core: boards have some MHz, and no core has reached 10 GHz."""
MOST_EVENTS = FASTEST_CORE_HZ / LEAST_EVENT_CYCLES
"""Upper limit of events of the kernel per second on one CPU."""
MARGIN = 1.15
"""Tolerance factor for times in core cycles: the clock may change between a control loop and a sample."""
MOST_LEVELS = 4
"""Highest number of cache levels: s390x has four."""
MONOTONE = "visits stand in the order of their numbers, their rounds and the times at which they began"


def run_contradictions(recorded: Recorded) -> Iterator[str]:
    """Yields the rules that the notes or the request of a run break."""
    yield from _timed(recorded)
    yield from _spanned(recorded)
    yield from _fallen(recorded)
    yield from _out_of_bounds(recorded)
    yield from (why for is_broken, why in OF_NOTES if is_broken(recorded))
    yield from (why for is_broken, why in OF_REQUEST if is_broken(recorded, recorded.asked))


# ---- notes -----------------------------------------------------------------------------------------------------------


def _timed(recorded: Recorded) -> Iterator[str]:
    """Yields a sentence for two notes whose times disagree with the visits between them. These visits must lie between
    the times of the notes; those in progress at a note are exempt."""
    times = [visit.at_ns / 1e9 if has_hardware_time(visit) else 0.0 for visit in recorded.outcomes]
    is_one_session = not recorded.begins and not recorded.asked.reused
    for (before_s, first, _), (after_s, end, _) in pairwise([(0.0, 0, None), *recorded.notes]):
        begin = first + MOST_UNDER_WAY if first else 0
        inside = sorted(filter(None, times[begin:end]))
        if is_one_session and len(inside) >= LEAST_VALUES and after_s >= before_s:
            earlier = list(filter(None, times[: max(0, first - MOST_UNDER_WAY)]))
            later = next(filter(None, times[end + MOST_UNDER_WAY :]), inf)
            most_s = later - earlier[-1] if earlier else inf
            least_s, between_notes_s = inside[-2] - inside[1], after_s - before_s
            if not (1 - ALIKE) * least_s - SLACK_S <= between_notes_s <= (1 + ALIKE) * most_s + SLACK_S:
                yield f"the {after_s - before_s:.1f} s between two notes agree with the times of their visits"


def _spanned(recorded: Recorded) -> Iterator[str]:
    """Yields a sentence if the time from the first to the last visit of a run exceeds the time of the run. A tolerance
    allows for a host process that is delayed before it writes a note."""
    timed = [visit for visit in recorded.outcomes if has_hardware_time(visit) and visit.at_ns and len(visit.samples)]
    if len(timed) < 2 or recorded.begins or recorded.asked.reused or not recorded.seconds:
        return
    if timed[-1].samples[-1].at_ns - timed[0].at_ns > 1e9 * ((1 + ALIKE) * recorded.seconds + SLACK_S):
        yield "a run lasts at least from its first visit to its last"


def _cpus(recorded: Recorded) -> int:
    """Returns the number of CPUs of the machine, at least 1."""
    return max(1, recorded.machine.cpus, len(recorded.machine.allowed_cpus))


def _activity(recorded: Recorded) -> Iterator[tuple[float, Surroundings]]:
    """Yields the run time in seconds and the activity of the machine of each note that has one."""
    return ((seconds, activity) for seconds, _, activity in recorded.notes if activity)


def _is_throttled_for_longer(recorded: Recorded) -> bool:
    """Returns whether a quota stopped the run for longer than it lasted, on all CPUs together."""
    cpus = _cpus(recorded)
    return any(activity.throttled_s > cpus * seconds + SLACK_S for seconds, activity in _activity(recorded))


def _fallen(recorded: Recorded) -> Iterator[str]:
    """Yields a sentence for each number of the notes that falls. Numbers of a process or control group may fall in a
    resumed run, since each session has its own."""
    for name, is_of_run, read in RISING:
        values = [read(seconds, activity) for seconds, _, activity in recorded.notes if activity or is_of_run]
        known = [0.0, *(one for one in values if one is not None)]
        if (is_of_run or not recorded.begins) and any(after < before for before, after in pairwise(known)):
            yield f"{name} does not fall while a run lasts"


RISING: Sequence[tuple[str, bool, Callable[[float, Surroundings | None], float | None]]] = (
    ("the time of a run", True, lambda seconds, _: seconds),
    ("the time for which a run was throttled", False, lambda _, seen: seen.throttled_s if seen else None),
    ("the number of filters of system calls", False, lambda _, seen: seen.seccomp_filters if seen else None),
)
"""Numbers of the notes that never fall: name, whether a resumed run continues the number, and the function that reads
it."""


def _out_of_bounds(recorded: Recorded) -> Iterator[str]:
    """Yields a sentence for each number outside its bounds."""
    for name, least, most, numbers_of in BOUNDS:
        if any(not least <= number <= most for number in numbers_of(recorded)):
            yield f"{name} is {least:g} or more{f', {most:g} at most' if most < inf else ''}"


def _rates(recorded: Recorded) -> Iterator[float]:
    """Yields the measured rate of the core, and the highest rate of each kind of core that the system reports, in
    Hz."""
    if recorded.machine.core_clock_hz is not None:
        yield recorded.machine.core_clock_hz
    kinds = recorded.machine.topology.kinds if recorded.machine.topology else ()
    yield from (1e3 * kind.max_khz for kind in kinds if kind.max_khz)


BOUNDS: Sequence[tuple[str, float, float, Callable[[Recorded], Iterable[float]]]] = (
    ("the number of interrupts a second on a CPU", 0, MOST_EVENTS,
     lambda recorded: (max(seen.interrupts.values(), default=0) / _cpus(recorded) for _, seen in _activity(recorded))),
    ("the number of events of memory management a second on a CPU", 0, MOST_EVENTS,
     lambda recorded: (max(0, *seen.paging.values()) / _cpus(recorded) / (max(0.0, seconds) + SLACK_S)
                       for seconds, seen in _activity(recorded) if seen.paging)),
    ("the number of additions in a cycle of an uncontended core", LEAST_WIDTH, MOST_PER_CYCLE,
     lambda recorded: recorded.asked.widths),
    ("the deviation of a row between runs", 0, log(INEXPLICABLE), lambda recorded: recorded.asked.deviations),
    ("the rate of a core", SLOWEST_CORE_HZ, FASTEST_CORE_HZ, _rates),
    ("the level of a cache", 1, MOST_LEVELS, lambda recorded: (cache.level for cache in recorded.machine.caches)),
)  # fmt: skip
"""Bounds that no machine exceeds: name of a number, its lowest and its highest value, and the function that reads it
from the journal."""


def _is_limited_to_less(recorded: Recorded) -> bool:
    """Returns whether visits filled more memory than a control group allowed."""
    limits = [activity.memory_limit for _, activity in _activity(recorded) if activity.memory_limit is not None]
    filled = (max(visit.work.footprint_bytes, visit.counted.buffer_bytes if visit.counted else 0)
            for visit in recorded.outcomes if visit.status == "ok")  # fmt: skip
    return bool(limits) and min(limits) < max(filled, default=0)


def _goes_on(recorded: Recorded) -> bool:
    """Returns whether completed visits follow an interrupted visit in a run of one session. Visits in progress at the
    end are exempt."""
    outcomes = [visit for visit in recorded.outcomes if is_of_this_machine(visit)] if not recorded.begins else []
    interrupted_at = next((at for at, visit in enumerate(outcomes) if visit.status == "interrupted"), len(outcomes))
    later = sum(visit.status == "ok" for visit in outcomes[interrupted_at:])
    return not recorded.asked.reused and later > MOST_UNDER_WAY


OF_NOTES: Sequence[tuple[Callable[[Recorded], bool], str]] = (
    (_is_throttled_for_longer, "a run is throttled for no longer than it lasts"),
    (lambda recorded: any(seen.throttled_s > 0 and seen.quota is None for _, seen in _activity(recorded)),
     "a run is throttled only if it has a quota"),
    (lambda recorded: any(before[2] and not after[2] for before, after in pairwise(recorded.notes)),
     "conditions of a run that are noted once are noted to its end"),
    (lambda recorded: any(OF_OTHERS in seen.unreadable and seen.others is not None for _, seen in _activity(recorded)),
     "a file that cannot be read gives no value"),
    (_goes_on, "a visit that the end of the run interrupts is among the last"),
    (_is_limited_to_less, "a run's limit of memory is not below what its visits fill"),
)  # fmt: skip

# ---- the request -----------------------------------------------------------------------------------------------------


def _is_no_time(_: Recorded, asked: Asked) -> bool:
    """Returns whether the recorded start is not a date and time in ISO 8601."""
    try:
        return bool(asked.started) and not datetime.fromisoformat(asked.started)
    except ValueError:
        return True


def _is_over_budget(recorded: Recorded, asked: Asked) -> bool:
    """Returns whether a visit begins after the budget of a run of one session is spent. Visits of the first rounds are
    exempt, since every run makes them."""
    times = [visit.at_ns for visit in recorded.outcomes if has_hardware_time(visit) and visit.at_ns]
    later = [visit.at_ns for visit in recorded.outcomes if has_hardware_time(visit) and visit.at_ns and visit.round > 1]
    has_one_budget = not recorded.begins and not asked.reused and asked.budget_s > 0 and bool(asked.selects)
    return has_one_budget and bool(later) and later[-1] - times[0] > 1e9 * (asked.budget_s + LATE_S)


def _is_under_budget(recorded: Recorded, asked: Asked) -> bool:
    """Returns whether a run of one session that was ended by its budget lasted less than a tenth of it."""
    is_one_session = not recorded.begins and not asked.reused and recorded.seconds > 0
    return is_one_session and recorded.status == "budget" and recorded.seconds < FEW * (asked.budget_s - BEGINS_S)


def _counts_otherwise(recorded: Recorded, asked: Asked) -> bool:
    """Returns whether a visit has events although the request excluded them."""
    return asked.counters is False and any(visit.events for visit in recorded.outcomes)


def _has_no_such_cache(recorded: Recorded, asked: Asked) -> bool:
    """Returns whether the recorded size of the private caches exceeds the machine's largest cache."""
    sizes = [cache.size_bytes for cache in recorded.machine.caches if cache.size_bytes]
    return bool(sizes) and asked.private_bytes > max(sizes)


def _names_others(_: Recorded, asked: Asked) -> bool:
    """Returns whether a word of the command that is not NAME=VALUE names another suite or probe than those of the
    run."""
    names = {asked.suite, *asked.suite.split("+")}
    probes = [select.probe for select in asked.selects]
    bare = [word for word in asked.words if "=" not in word and "/" not in word and not word.endswith(".toml")]
    return bool(probes) and any(
        word not in names and not any(fnmatchcase(probe, word) or fnmatchcase(word, probe) for probe in probes)
        for word in bare
    )


def _names_other_values(_: Recorded, asked: Asked) -> bool:
    """Returns whether a NAME=VALUE of the command has no value that the suite selects."""
    known: dict[str, set[str]] = {}
    for select in asked.selects:
        for name, value in select.parameters.items():
            known.setdefault(name, set()).update(map(str, value if isinstance(value, tuple) else (value,)))
    given = (word.partition("=") for word in asked.words if "=" in word)
    return any(name in known and not {*values.split(",")} & known[name] for name, _, values in given)


OF_REQUEST: Sequence[tuple[Callable[[Recorded, Asked], bool], str]] = (
    (_is_no_time, "the start of a run is a date and a time"),
    (_is_over_budget, "a run begins no visit after its budget is spent"),
    (_is_under_budget, "a run that its budget ended lasted for a tenth of it or longer"),
    (_counts_otherwise, "events are counted only if they were requested"),
    (_has_no_such_cache, "the recorded size of the private caches is no larger than the machine's largest cache"),
    (_names_others, "the words of a run name its suite or its probes"),
    (_names_other_values, "the words of a run give parameters values of its suite"),
    (lambda _, asked: 0 < asked.planned_s <= asked.budget_s, "a sufficient budget is larger than the run's own"),
)  # fmt: skip

# ---- visits ----------------------------------------------------------------------------------------------------------


def _ordered(recorded: Recorded) -> Places:
    """Yields visits whose number, round or start time is out of order within their session. Runs with reused or lost
    visits are exempt; so are refused visits, which have round 0 and no CPU."""
    if recorded.asked.reused or recorded.lost:
        return
    table = recorded.table
    has_cpus = table.of_kinds((bool(visit.cpus) for visit in table.firsts), np.bool_)
    sampled = np.flatnonzero(has_cpus & (table.samples > 0))
    numbers = table.column(lambda visit: visit.visit, np.int64)[sampled]
    rounds = table.column(lambda visit: min(visit.round, LONGEST_NS), np.int64)[sampled]
    began = np.where(table.is_timed & (table.at_ns > 0), table.at_ns, -1)[sampled]
    bounds = [0, *np.searchsorted(sampled, recorded.begins).tolist(), len(sampled)]
    misplaced = {sampled[begin + at] for begin, end in pairwise(bounds) for column in (numbers, rounds, began)
           for at in _falling(column[begin:end])}  # fmt: skip
    is_above = (rounds[:-2] == rounds[2:]) & (rounds[2:] < rounds[1:-1])
    yield from ((int(place), MONOTONE) for place in sorted({*misplaced, *sampled[1:-1][is_above]}))


def _falling(column: Counts) -> Iterator[int]:
    """Yields the indices of values below an earlier value, and of a value that exceeds all later ones. Negative values
    are unknown."""
    latest, values = 0, column.tolist()
    for at, value in enumerate(values if (np.diff(column[column >= 0]) < 0).any() else ()):
        after = min((one for one in values[at + 1 : at + 1 + LEAST_VISITS] if one >= 0), default=value)
        if 0 <= value < latest or latest <= after < value:
            yield at
        else:
            latest = max(latest, value)


def _selected(recorded: Recorded) -> Places:
    """Yields visits with a value of a choice or number that was not selected. Sizes are not compared, since a suite may
    state them relative to the machine."""
    selects, probes = recorded.asked.selects, recorded.probes
    given = {word.partition("=")[0] for word in recorded.asked.words}
    if recorded.asked.interleaved:  # with values that the words of the comparison name
        return
    why = "a visit has parameter values that its suite selects"
    yield from recorded.table.broken(
        lambda visit: why if visit.status == "ok" and not (
            _is_selected(visit, selects) and _is_of_sweep(visit, selects, probes.get(visit.point.probe), given)
        ) else ""
    )  # fmt: skip


def _is_of_sweep(visit: Outcome, selects: Sequence[Select], probe: Probe | None, given: set[str]) -> bool:
    """Returns whether each value of a visit is in the sweep of the probe's description. Parameters that the suite or
    the command names are not judged."""
    selects_of_probe = [select for select in selects if fnmatchcase(visit.point.probe, select.probe)]
    named = given.union(
        *(select.parameters for select in selects_of_probe), *(select.refused for select in selects_of_probe)
    )
    listed = {
        one.name: one.values for one in (probe.parameters if probe and selects_of_probe else ()) if not one.refine
    }
    return all(
        name in named or not listed.get(name) or value in listed[name] for name, value in visit.point.values().items()
    )


def _is_selected(visit: Outcome, selects: Sequence[Select]) -> bool:
    """Returns whether a selection admits the values of a visit, or no selection names its probe."""
    selects_of_probe = [select for select in selects if fnmatchcase(visit.point.probe, select.probe)]
    return not selects_of_probe or any(_admits(select, visit) for select in selects_of_probe)


def _admits(select: Select, visit: Outcome) -> bool:
    """Returns whether a selection admits the values of a visit: choices and plain numbers, not sizes."""
    values = visit.point.values()
    for name, given in select.parameters.items():
        meant = {str(one) for one in (given if isinstance(given, tuple) else (given,))}
        meant |= {str(value) for other, value in select.refused.items() if other == name}
        is_plain = isinstance(values.get(name), str) or all(one.isdecimal() for one in meant)
        if is_plain and name in values and str(values[name]) not in meant:
            return False
    return True


OF_VISITS_ASKED: Sequence[Callable[[Recorded], Places]] = (_ordered, _selected)
