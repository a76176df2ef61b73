# SPDX-License-Identifier: Apache-2.0
"""Derives the results of a run folder: from journal to outcomes, rows, hierarchy and findings, stored in the run's
SQLite index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tollmeter.experiment.runs_differ import Cost, EarlierRun
from tollmeter.library.options import usual_precision
from tollmeter.model import (
    BEYOND,
    INDEX_FORMAT,
    PRECISION,
    Distances,
    Failure,
    Index,
    Machine,
    Modelled,
    Outcome,
    Probe,
    Profile,
    Results,
    Row,
    RunInfo,
    Value,
    machine_key,
)
from tollmeter.protocol import Head
from tollmeter.root import typed
from tollmeter.store import index
from tollmeter.store.export import derived_tables, samples_table, with_run_columns, write_tables
from tollmeter.store.history import host_and_kernel
from tollmeter.store.journal import Contents, Visits, opening, read_journal
from tollmeter.store.parquet import ParquetTable
from tollmeter.store.request import Request, places_of, read_request, stored_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tollmeter.experiment.consistency import Checked
    from tollmeter.experiment.taken import Taken
    from tollmeter.judgement.convergence import Settlement
    from tollmeter.numbers.known import Learned

_MEASURE_AGAIN = "its journal is incomplete: copy the run again from where it was measured, or measure again"
_MARGIN = 1.5
"""Factor on the estimated time of further visits: later visits may take longer, and analysis takes its share of a
budget."""
_TEACH = ("quiet", "unknown", "busy")
"""Verdicts of runs from which the between-run variance is learned, for each state of the core. The load of a short or
stopped run is not known."""


def open_index(folder: Path) -> Index:
    """Returns the document that `toll show --format json` prints. Derives it only if the stored index belongs to
    another journal."""
    return _stored_index(folder) or _derived(folder, read_request(folder)).index


def open_run(folder: Path) -> Results:
    """Returns the whole run. Raises Failure: 2 if it is not a run, or is of a newer format, 5 if it is damaged."""
    request, kept = read_request(folder), _stored_index(folder)
    if kept is not None:
        # A journal without contradictions when the index was derived is not checked again.
        select = _selection(request) if kept.run.contradictions else lambda contents: _without_broken(contents.outcomes)
        return _results(opening(folder), _visits(folder, select), request, kept)
    return _derived(folder, request)


def _derived(folder: Path, request: Request) -> Results:
    # If the journal grows meanwhile, the fingerprint is of the shorter journal, and the index is derived again.
    inodes, contents = index.inodes(folder), read_journal(folder)
    fingerprint = index.index_fingerprint(folder, contents.digest)
    results = derive_results(contents, request, folder)
    index.save_index(folder, fingerprint, results.index, results.outcomes, inodes)
    return results


def open_two(folders: Sequence[Path]) -> tuple[Results, Results]:
    """Returns two runs to show together. Raises Failure as `open_run` does, and 2 unless there are two."""
    if len(folders) != 2:
        raise Failure(f"expected two runs, not {len(folders)}")
    first, second = open_several(folders)
    return first, second


def open_several(folders: Sequence[Path]) -> tuple[Results, ...]:
    """Returns runs to show together, each without its visits until they are needed: the visits of two runs of 1 GB take
    150 MB each. Raises Failure as `open_two` does."""
    check_different(folders)
    return tuple(
        msgspec.structs.replace(open_run(folder), outcomes=_visits(folder, _selection(read_request(folder))))
        for folder in folders
    )


def check_different(folders: Sequence[Path]) -> None:
    """Raises Failure (2) if one run is given twice."""
    folders_by_fingerprint: dict[str, Path] = {}
    for folder in folders:
        other = folders_by_fingerprint.setdefault(_fingerprint(folder), folder)
        if other is not folder:
            raise Failure(f"{other} and {folder} are the same run: name two different runs")


def _stored_index(folder: Path) -> Index | None:
    """Returns the stored index, if it matches the present content of the folder; else None. Modelled results have their
    own file."""
    stored = index.load_index(folder)
    if stored is None:
        return None
    run = msgspec.structs.replace(stored.run, folder=str(folder))
    return msgspec.structs.replace(stored, run=run, modelled=stored_records(folder, Modelled))


def derive_results(contents: Contents, request: Request, folder: Path) -> Results:
    """Returns every derived result of the recorded data: rows, the run's verdict, the machine, findings."""
    from tollmeter.experiment.evidence import stolen_share, unseen_share
    from tollmeter.inference.core_kinds import core_kinds
    from tollmeter.inference.hierarchy import hierarchy
    from tollmeter.inference.inferred import inferred
    from tollmeter.inference.rate_falls import lengths
    from tollmeter.judgement.convergence import convergence_sentence, missing_visits, settlement
    from tollmeter.judgement.opposed import opposed, seconds_wanted, uncompared
    from tollmeter.judgement.verdict import verdict
    from tollmeter.numbers.known import machine_known
    from tollmeter.numbers.meanings import main_place, native, native_outcomes
    from tollmeter.numbers.rows import in_parts, rows_of_point, rows_of_points, with_choices, with_relations
    from tollmeter.numbers.tolls import tolls

    machine, probes = _machine(contents.head, folder), _probes(contents.head)
    _check_described(contents.outcomes, probes, folder)
    outcomes, contradictions = _consistent(contents, request)
    precision = _row_precision(request)
    known = machine_known(outcomes, learned(request, machine), precision)
    # The core clock that the numbers were taken at: what the run began with may have been a boost that did not last.
    clock_hz = known.clocks_hz.get(main_place(known.clocks_hz) or "", machine.core_clock_hz)
    machine = msgspec.structs.replace(machine, core_clock_hz=clock_hz)

    bare_rows: list[Row] = []
    wanted: list[tuple[Sequence[Outcome], float]] = []
    for points, scattered in in_parts(outcomes, probes, known):
        bare_rows += [row for group in points for row in rows_of_point(group, probes[group[0].point.probe], scattered)]
        wanted += missing_visits(points, probes, scattered)
    rows = with_choices(
        with_relations(rows_of_points(bare_rows, outcomes, probes, known), outcomes, machine.topology), outcomes
    )
    against = [(pair.point, pair.against) for pair in request.pairs]
    ratios = opposed(outcomes, against, probes, known, request.precision)

    run = _recorded(contents, request, folder)
    done = settlement(outcomes, wanted, known, run.seconds)
    run = msgspec.structs.replace(
        run, unseen_share=unseen_share(outcomes, probes), stolen_share=stolen_share(native_outcomes(outcomes)),
        points=done.points, converged=done.converged,
        timed_share=done.timed_share, contended_share=done.contended_share, limited=done.limited,
        summary=convergence_sentence(done, rows, precision, request.budget_seconds),
        uncompared=uncompared(outcomes, against, probes, ratios) if request.against else (),
        contradictions=contradictions,
    )  # fmt: skip
    run = msgspec.structs.replace(run, verdict=verdict(run, rows))
    more_s = seconds_wanted(outcomes, run.uncompared, len({point for pair in against for point in pair}), run)
    run = msgspec.structs.replace(run, enough_s=_enough_s(run, done, more_s, request.budget_seconds))

    levels = hierarchy(rows, probes, machine)
    derived = Index(
        format=INDEX_FORMAT, run=run, machine=machine, rows=rows, hierarchy=levels,
        lengths=lengths(outcomes, rows, probes, machine, levels), inferred=inferred(rows, probes, levels, machine),
        tolls=tolls(native(rows, machine.architecture), probes, clock_hz), opposed=ratios,
        profiles=stored_records(folder, Profile), modelled=stored_records(folder, Modelled),
    )  # fmt: skip
    derived = msgspec.structs.replace(derived, kinds=core_kinds(derived, probes, outcomes, known.clocks_hz))
    return _judged(_results(contents.head, outcomes, request, derived))


def _enough_s(run: RunInfo, done: Settlement, more_s: float, budget_s: float) -> float | None:
    """Returns the budget in seconds that would give the missing results, at this run's rates. more_s: seconds of
    measuring, for missing ratios."""
    from tollmeter.judgement.convergence import budget_beyond, budget_for_most

    if run.verdict != "interrupted" and more_s < inf:
        return budget_beyond(budget_s, budget_s + (_MARGIN * more_s - run.seconds))
    return float(budget_for_most(done, budget_s)[0]) or None if run.verdict == "busy" and not run.uncompared else None


def _machine(head: Head, folder: Path) -> Machine:
    """Returns the machine of a run. Raises Failure (5) if the journal does not state it."""
    if head.machine is None:
        raise Failure(f"{folder} does not say which machine was measured; {_MEASURE_AGAIN}", exit_code=5)
    return head.machine


def _check_described(outcomes: Iterable[Outcome], probes: Mapping[str, Probe], folder: Path) -> None:
    """Raises Failure (5) if a visit is of a probe that the journal does not describe."""
    for outcome in outcomes:
        if outcome.point.probe not in probes:
            what = f"{folder}: visit {outcome.visit} is of a probe that the run does not describe"
            raise Failure(f"{what}; {_MEASURE_AGAIN}", exit_code=5)


def _results(reported: Head, outcomes: Sequence[Outcome], request: Request, derived: Index) -> Results:
    return Results(
        index=derived, probes=_probes(reported), builds=reported.builds, outcomes=outcomes, request=_asked(request),
        suite=request.suite, distances=stored_records(Path(derived.run.folder), Distances),
    )  # fmt: skip


def _probes(reported: Head) -> dict[str, Probe]:
    return {probe.probe: probe for probe in reported.probes}


def _judged(bare: Results) -> Results:
    """Returns the results with findings, with the claims of a study, and with the reason if the question is
    unanswered."""
    from tollmeter.findings import all_findings, carried
    from tollmeter.judgement.verdict import is_intercepted, is_short, unanswered, without_interception
    from tollmeter.report.shown import with_interval
    from tollmeter.studies.study import study

    study_answers, run = study(bare), bare.index.run
    compared = len({(pair.point, pair.against) for pair in bare.index.opposed})
    answer = unanswered(run, bare.index.rows, study_answers, compared, with_interval(bare))
    answer = "" if run.status == BEYOND else answer  # a broken limit is an answer
    run = msgspec.structs.replace(run, unanswered=answer)
    findings = all_findings(bare)
    known = _of_known_rows(bare)
    intercepted = run.surroundings is not None and is_intercepted(run.surroundings, bare.index.rows)
    worth = "too short" if is_short(bare.index.rows) else without_interception(run, bare.index.rows)
    kept = carried(worth, findings, findings if known is bare else all_findings(known), intercepted=intercepted)
    run = msgspec.structs.replace(run, withheld_problems=kept.problems)
    index = msgspec.structs.replace(
        bare.index, run=run, study=study_answers, findings=kept.findings, withheld=kept.withheld
    )  # fmt: skip
    return msgspec.structs.replace(bare, index=index)


def _of_known_rows(results: Results) -> Results:
    """Returns the results without rows that have too few visits; the results themselves if all rows have enough."""
    from tollmeter.inference.hierarchy import hierarchy
    from tollmeter.inference.inferred import inferred
    from tollmeter.judgement.verdict import has_interval

    index, probes = results.index, results.probes
    rows = tuple(row for row in index.rows if has_interval(row))
    if len(rows) == len(index.rows):
        return results
    levels = hierarchy(rows, probes, index.machine)
    properties = inferred(rows, probes, levels, index.machine)
    index = msgspec.structs.replace(index, rows=rows, hierarchy=levels, inferred=properties)
    return msgspec.structs.replace(results, index=index)


def _row_precision(request: Request) -> float:
    """Returns the requested precision of a row: in an interleaved comparison, the requested precision applies to the
    ratio."""
    return PRECISION if request.against else request.precision


def learned(request: Request, machine: Machine | None = None) -> Learned:
    """Returns what was known from earlier runs when this run began. machine: the measured machine, for the sizes of its
    caches."""
    from tollmeter.numbers.known import Learned, SharedCache

    widths = {(target, abi): width for target, abis in request.widths.items() for abi, width in abis.items()}
    sizes = machine.data_sizes() if machine and machine.hypervisor else {}
    private, last = [*sizes.values()][-2:] if len(sizes) > 1 else (0, 0)
    shared = SharedCache(f"L{max(sizes)}", private, last) if last > private else None
    return Learned(request.runs_sd, widths, request.private_bytes, shared)


def remembered(results: Results) -> EarlierRun:
    """Returns the data from which later runs of this machine learn: each row in each core state, and the core's width.
    A run whose verdict excludes its rows still gives the width, which no disturbance raises."""
    from tollmeter.numbers.known import core_widths

    widths: dict[str, dict[str, float]] = {}
    for (target, abi), width in core_widths(results.outcomes).items():
        widths.setdefault(target, {})[abi] = width
    machine = results.index.machine
    rows = _rows_remembered(results) if results.index.run.verdict in _TEACH else {}
    run = f"{results.index.run.started} {results.index.run.id}"
    return EarlierRun(run=run, machine=machine_key(machine), place=host_and_kernel(machine), rows=rows, widths=widths)


def _rows_remembered(results: Results) -> dict[str, Cost]:
    from tollmeter.numbers.known import row_name
    from tollmeter.numbers.readings import NS_PER_SECOND, RATES, is_time

    costs = {}
    for row in results.index.rows:
        if row.clock != "hardware" or row.status != "ok" or row.visits <= 2:
            continue
        clock_hz = results.index.machine.core_clock_hz if is_time(row.unit) else None
        for value in row.states or (row,):
            if value.median and value.median > 0 and value.error is not None:
                cost = NS_PER_SECOND / value.median if row.unit in RATES else value.median
                costs[row_name(row, value.state)] = Cost(cost, value.error, clock_hz or 0.0, not is_time(row.unit))
    return costs


TABLES = ("rows", "samples", "tolls", "findings", "machines")


def derived_table(name: str, index: Index) -> ParquetTable:
    """Returns one of TABLES other than the samples, with columns for run and machine."""
    return with_run_columns(derived_tables(index)[name], index)


def raw_samples(results: Results) -> ParquetTable:
    """Returns every sample of a run with its witness, and the reason if it is discarded."""
    from tollmeter.experiment.evidence import reasons_of

    def judge(taken: Taken, visits: Sequence[Outcome]) -> NDArray[Any]:
        return reasons_of(taken, visits, results.probes)

    return with_run_columns(samples_table(results.outcomes, results.builds, judge), results.index)


def visits_of(folder: Path, is_kept: Callable[[str, Mapping[str, Value]], bool]) -> Visits:
    """Returns the visits of a run to some points, read on demand. is_kept: selects by a point's probe and
    parameters."""
    select = _selection(read_request(folder))
    every = _visits(folder, select)
    return Visits(lambda: tuple(each for each in every if is_kept(each.point.probe, each.point.values())))


def _visits(folder: Path, select: Callable[[Contents], tuple[Outcome, ...]]) -> Visits:
    """Returns the visits, from the index if it keeps them, else from the journal. select: selects the relevant visits
    of all journal records."""

    def read_visits() -> tuple[Outcome, ...]:
        kept = index.load_visits(folder)
        return select(read_journal(folder)) if kept is None else kept

    return Visits(read_visits)


def _selection(request: Request) -> Callable[[Contents], tuple[Outcome, ...]]:
    return lambda contents: _consistent(contents, request).outcomes


def _consistent(contents: Contents, request: Request) -> Checked:
    """Returns the relevant visits; visits that contradict the rest of the journal have no numbers."""
    from tollmeter.experiment.consistency import Checked, checked
    from tollmeter.experiment.described import Asked, Recorded

    head = contents.head
    if head.machine is None:
        return Checked(contents.outcomes, ())
    seconds = contents.session.seconds if contents.noted == len(contents.outcomes) else 0.0
    request_described = Asked(
        request.seed, request.cpus, request.abis, request.targets, request.priority, bool(request.reused),
        bool(request.against), _selected(request), request.suite.select, request.suite.name, request.words,
        request.started, 0.0 if request.all_points else request.budget_seconds, request.planned_s, request.counters,
        request.private_bytes, [width for abis in request.widths.values() for width in abis.values()],
        [*request.runs_sd.values()],
    )  # fmt: skip
    recorded = Recorded(
        head.machine, head.clock, _probes(head), head.builds, contents.outcomes, seconds,
        contents.differs or len({probe.probe for probe in head.probes}) < len(head.probes), request_described,
        len(contents.damage) + contents.session.lost, contents.begins, contents.notes,
        status=contents.session.status,
    )  # fmt: skip
    found = checked(recorded)
    return found._replace(outcomes=_without_broken(found.outcomes))


def _selected(request: Request) -> tuple[str, ...]:
    """Returns names and globs of the probes that the suite may visit; empty for commands, workloads and pairs, whose
    points are not selected by probe."""
    suite = request.suite
    if request.is_of_commands or suite.workload or request.pairs:
        return ()
    return (*(select.probe for select in suite.select), *(program.probe for program in suite.program))


def _without_broken(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """Returns the outcomes without interrupted visits to points that were visited again."""
    visited = {outcome.point for outcome in outcomes if outcome.status != "interrupted"}
    return tuple(visit for visit in outcomes if visit.status != "interrupted" or visit.point not in visited)


def _recorded(contents: Contents, request: Request, folder: Path) -> RunInfo:
    """Returns the recorded facts of the run, from journal and request; the other fields are derived."""
    session, damage = contents.session, ""
    if lost := contents.damage:
        parts = f"{len(lost)} parts of the journal are" if len(lost) > 1 else "Part of the journal is"
        damage = f"{parts} damaged, and its samples are left out ({lost[0]})."
    return RunInfo(
        id=request.id, suite=request.suite.name, started=request.started,
        seconds=session.seconds or _seconds_so_far(contents.outcomes), seed=request.seed, status=session.status,
        tollmeter=request.tollmeter, folder=str(folder), precision=_row_precision(request),
        surroundings=session.surroundings, narrowed=request.narrowed, reused=request.reused, damage=damage,
        uncounted=_uncounted(contents.outcomes),
    )  # fmt: skip


def _uncounted(outcomes: Sequence[Outcome]) -> str:
    """Returns why the run has no hardware counters, in a sentence; empty if it has them, or asked for none."""
    refused = {outcome.events.refused for outcome in outcomes if outcome.events and outcome.events.refused}
    counted = any(outcome.events and outcome.events.by != "account" for outcome in outcomes)
    return f"No hardware counters (perf_event_open: {min(refused)})." if refused and not counted else ""


def _seconds_so_far(outcomes: Sequence[Outcome]) -> float:
    """Returns the duration in seconds of a run that has not recorded one: from its first visit to its last, by one
    clock."""
    starts_ns = [
        outcome.at_ns for outcome in outcomes if outcome.at_ns and outcome.point.target == outcomes[0].point.target
    ]
    return max(0.0, (starts_ns[-1] - starts_ns[0]) / 1e9) if starts_ns else 0.0


def _asked(request: Request) -> dict[str, Any]:
    """Returns fields of the request by name. command: command line that repeats the run; anew: the same without seed
    and budget; planned_s: seconds that suffice for all requested points; places: paths that --resume requires again."""
    return {
        "question": request.suite.question,
        "command": timed_command(request),
        "anew": timed_command(request) if request.is_of_commands else typed("run", *request.words, *_options(request)),
        "budget_seconds": request.budget_seconds,
        "planned_s": request.planned_s,
        "places": places_of(request),
        "abis": list(request.abis),
        "cpus": list(request.cpus),
        "least_cycles": request.least_cycles,
    }


def timed_command(request: Request) -> str:
    if request.is_of_commands:
        return typed(request.suite.name, *request.words)
    words = (*request.words, "--seed", str(request.seed), "--budget", f"{request.budget_seconds:g}s")
    return typed("run", *words, *_options(request))


def _options(request: Request) -> list[str]:
    """Returns the typed options of the request: precision, comparison, ABIs, targets and CPUs."""
    usual = usual_precision(request.against)
    words = ["--precision", f"{100 * request.precision:g}%"] if request.precision != usual else []
    words += [word for other in request.against for word in ("--against", other)]
    words += [] if request.counters else ["--counters", "off"]
    words += ["--priority", request.priority] if request.format > 1 and request.priority == "normal" else []
    words += ["--abi", ",".join(request.abis)] if request.abis else []
    words += places_of(request)
    words += ["--cpus", ",".join(map(str, request.cpus))] if request.cpus else []
    words += ["--all-points"] if request.all_points else []
    return words


def _fingerprint(folder: Path) -> str:
    try:
        return index.index_fingerprint(folder)
    except OSError:
        # Raises Failure with the reason, in words.
        read_request(folder)
        read_journal(folder)
        raise


# ---- datasets -------------------------------------------------------------------------------------------------------


def add_to_dataset(folder: Path, dataset: Path, names: Sequence[str] = TABLES) -> None:
    """Writes tables of a run into the dataset, and replaces earlier files of the run. Raises Failure."""
    results = open_run(folder)
    tables = (
        (name, raw_samples(results) if name == "samples" else derived_table(name, results.index)) for name in names
    )
    write_tables(dataset, results.index, tables)
