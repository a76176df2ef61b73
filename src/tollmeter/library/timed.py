# SPDX-License-Identifier: Apache-2.0
"""Timing of typed commands against each other: `toll time`.

One round runs every command once, in alternating order (ABBA). An execution of a command is a visit whose values are
gauges, so that the folder is an ordinary run's, and rows and ratios are derived as for any other run. The first command
is the reference. Each command runs once before it is timed: that execution must succeed, and later output is compared
with its output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from math import ceil, inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import protocol
from tollmeter.catalog import Catalog
from tollmeter.conduct import Stopping, Watch, hold_machine_lock
from tollmeter.conduct.machine_lock import no_collections
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.pairs import LAYOUT_SERVES, LEAST_BLOCKS
from tollmeter.judgement import opposed
from tollmeter.library import command_metrics, places
from tollmeter.library.derive import open_run
from tollmeter.library.known_before import tell_worst
from tollmeter.library.options import TimeOptions
from tollmeter.library.prepare import machine_of, sealed_head
from tollmeter.library.typed_commands import Command, commands_of, fill, parameter_sets, words_of
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import (
    EXIT_STATUS,
    OUTPUT_GAUGE,
    Build,
    ClockReading,
    Failure,
    Machine,
    Metric,
    Opposed,
    Outcome,
    Pair,
    Parameter,
    Point,
    Probe,
    Status,
    Suite,
    Unit,
    Visit,
)  # fmt: skip
from tollmeter.notices import notify
from tollmeter.numbers.known import Known, nothing_made
from tollmeter.numbers.meanings import PROGRAM
from tollmeter.numbers.rows import rows_of_point
from tollmeter.protocol import Outcomes
from tollmeter.report.timed import COMMAND, RATIO_SHARE, TIME
from tollmeter.store.journal import Journal, Session
from tollmeter.store.request import Request
from tollmeter.store.sweeps import warn_of_killed
from tollmeter.targets import energy
from tollmeter.targets.timer import LAST_OUTPUT, Output, Ran, Timer, Words, holders
from tollmeter.targets.ways import LOCAL
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.proven import fingerprint
from tollmeter.toolchain.workload_build import timer
from tollmeter.version import VERSION

PROBE = "command.run"
"""Name of the probe of timed commands."""
BUDGET_S, MIN_RUNS = 20.0, 10
"""Default budget in seconds, and fewest rounds of a run that ends before its budget."""
_LEAST_S = 1.0
"""Fewest seconds of measuring for each command, so that the run is longer than one disturbance."""
_LEAST_PARTS = 10
"""Fewest blocks of a run that ends before its budget: with five, one in seven differences of three half-widths would
not be resolved."""
_LOOKS = 1.25
"""Ratio of the numbers of rounds at two consecutive checks of the precision."""
_NOT_FOUND = 127
"""Exit status of a shell that finds no such command."""
_MOST_KEPT = 16 << 20
"""Bytes of output that are kept in memory; further output is discarded while a command is timed."""
_VALUES: tuple[tuple[str, Unit, str], ...] = (
    ("user", "ns", "CPU time in user mode"),
    ("system", "ns", "CPU time in the kernel"),
    ("peak", "B", "the most that was ever resident, of the largest process"),
    ("voluntary", "count", "context switches since it waited"),
    ("involuntary", "count", "context switches since another process had its turn"),
    ("minor_faults", "fault", "page faults without a disk"),
    ("major_faults", "fault", "page faults that waited for a disk"),
    ("blocks_in", "count", "blocks of 512 bytes read from a disk"),
    ("blocks_out", "count", "blocks of 512 bytes written to a disk"),
)
_INSTRUCTIONS = ("instructions",)
"""Events that are counted in each command's first run, which is not timed, if no metrics are requested."""
_METRICS = (
    Metric(name=TIME, unit="ns", better="less", summary="from its start to its end", source="gauge", means=PROGRAM),
    *(Metric(name=name, unit=unit, better="less", summary=text, source="gauge") for name, unit, text in _VALUES),
)


class Timed(NamedTuple):
    """A run of commands. session: how it ended, with the reason why it ended early. uncounted: events that were not
    counted, and why."""

    folder: Path
    session: Session
    uncounted: Mapping[str, str] = {}


Report = Callable[[int, float], None]
"""Called before each round with the number of completed rounds and the used share of the budget."""


def ratios(texts: Sequence[str], options: TimeOptions = TimeOptions()) -> tuple[Opposed, ...]:
    """Measures commands, interleaved. Returns the ratio of each later command to the first; a pair without a ratio is
    left out. Raises Failure as `timed` does, with 1 if a command fails, and with 6 if a metric cannot be counted
    here."""
    commands = commands_of(texts, (), parameter_sets((), None, ()), options.shell)
    with Stopping() as stopping:
        done = timed(commands, options, stopping, lambda _rounds, _share: None)
    if stopping.asked:
        raise KeyboardInterrupt
    if done.session.reason:
        raise Failure(done.session.reason, 1)
    opposed = open_run(done.folder).index.opposed
    lacking = {*options.metrics} - {pair.metric for pair in opposed}
    if refused := {name: why for name, why in done.uncounted.items() if name in lacking}:
        raise Failure(". ".join(command_metrics.uncounted_sentences(refused)), 6)
    return opposed


def timed(commands: Sequence[Command], options: TimeOptions, stopping: Stopping, report: Report) -> Timed:
    """Measures the commands and stores the run. report: called before each round with the number of rounds and the used
    share of the budget. Raises Failure: 2 for contradictory options, 1 if --setup, --prepare or --cleanup fails, 5 on
    build or write errors."""
    _check(options, len(commands))
    warn_of_killed()
    base = base_of_commands(options.metrics)
    request = _request(commands, options, base.abi)
    with ExitStack() as open_:
        company = open_.enter_context(hold_machine_lock(notify, lambda: stopping.asked, beside=options.beside))
        hooked, started = _with_hooks(commands, options)
        head = sealed_head(base.machine, base.clock, [base.probe(commands)], [base.build])
        journal = open_.enter_context(places.new_journal(options.out, request, head))
        watch = Watch(os.sched_getaffinity(0), company=company)
        tell_worst(watch, base.machine, calls=True)
        with (
            Timer(
                base.path,
                started,
                options.input,
                _file_of(options.output),
                options.timeout_s,
                packages=energy.packages() if command_metrics.ENERGY in base.counted else {},
            ) as process,
            no_collections(),
        ):
            stopping.reach(process.interrupt)
            open_.callback(stopping.reach)
            done = _Timing(hooked, options, process, journal, base, stopping=stopping).to_the_end(report)
        # The CPU time of the commands is included in this process's only once the timer has ended.
        journal.note(msgspec.structs.replace(done.session, surroundings=watch.seen()))
        return done


def _check(options: TimeOptions, commands: int) -> None:
    for name in ("prepare", "conclude"):
        if (count := len(getattr(options, name))) not in (0, 1, commands):
            raise Failure(f"{count} times --{name} for {commands} commands: expected one, or one for each")
    if options.verify and options.output:
        raise Failure("--verify and --output exclude each other: both take the output")
    if any(count is not None and count < 1 for count in (options.runs, options.min_runs, options.max_runs)):
        raise Failure("--runs, --min-runs and --max-runs must be at least 1")
    if Path(_file_of(options.output) or "file").is_dir():
        raise Failure(f"--output {options.output} is a folder")
    if options.warmup < 0:
        raise Failure("--warmup must be at least 0")
    if options.max_runs and (options.runs or options.max_runs < (options.min_runs or 1)):
        raise Failure("--max-runs must be at least --min-runs, and --runs goes with neither")


def _file_of(output: str) -> str:
    return "" if output in ("null", "pipe", "inherit") else output


# ---- the machine and the executable ---------------------------------------------------------------------------------


class Base(NamedTuple):
    """The machine and probe records of timed commands. path: the executable that starts commands. metrics: requested in
    addition to time. uncounted: events that cannot be counted, and why."""

    path: Path
    abi: str
    build: Build
    machine: Machine
    clock: ClockReading
    metrics: tuple[str, ...] = ()
    uncounted: Mapping[str, str] = {}

    @property
    def counted(self) -> tuple[str, ...]:
        """Returns the metrics that can be counted here; the instructions of one execution if none are requested."""
        return tuple(name for name in self.metrics or _INSTRUCTIONS if name not in self.uncounted)

    def probe(self, commands: Sequence[Command]) -> Probe:
        """Returns a probe whose one parameter is the command."""
        names = tuple(command.name for command in commands)
        # Every execution has a value of a requested metric, which has a ratio as time has.
        means = PROGRAM if self.metrics else None
        counted = (msgspec.structs.replace(command_metrics.COMMAND_METRICS[name], means=means) for name in self.counted)
        return Probe(
            probe=PROBE, question="How long does a command take?", revision=1,
            metrics=(*_METRICS, *counted),
            parameters=(Parameter(name=COMMAND, kind="choice", summary="what is run", choices=names),),
            switches=True, faults=True,
        )  # fmt: skip


def executable(catalog: Catalog) -> Path:
    """Returns the executable that starts commands, for the machine's first ABI. Raises Failure (5) if it is not built
    and no compiler is here."""
    return timer(places.ROOT, known_abis(places.ROOT)[catalog.abis[0]])


def base_of_commands(metrics: tuple[str, ...] = ()) -> Base:
    """Returns the records for timed commands, from one built probe: any probe describes the machine and how its ABI is
    built."""
    catalog = places.made_ready([], [], ProbeRequest([]))
    path, abi = executable(catalog), catalog.abis[0]
    probe_build = next(executable_.build for (_, of_abi), executable_ in catalog.executables.items() if of_abi == abi)
    build = msgspec.convert(
        {**msgspec.to_builtins(probe_build), "probe": PROBE, **fingerprint(path.read_bytes())}, Build
    )
    machine, clock = machine_of(catalog, ())
    # The executable without commands is the shortest command there is.
    uncounted: dict[str, str] = {}
    with Timer(path, [Words(f"{path}", ("timer",))]) as process:
        for events in command_metrics.turns_of(metrics or _INSTRUCTIONS):
            counts = zip(events, process.run(0, events=events).counts, strict=True)
            uncounted |= {name: why for name, count in counts if (why := command_metrics.why_uncounted(name, count))}
    if command_metrics.ENERGY in metrics and not energy.packages():
        uncounted[command_metrics.ENERGY] = command_metrics.NO_ENERGY
    return Base(path, abi, build, machine, clock, metrics, uncounted)


def _point(command: Command, abi: str) -> Point:
    return Point(probe=PROBE, abi=abi, target=LOCAL, parameters=((COMMAND, command.name),))


def _request(commands: Sequence[Command], options: TimeOptions, abi: str) -> Request:
    several = len(commands) > 1
    question = "Which command takes less time?" if several else "How long does a command take?"
    first, *others = [_point(command, abi) for command in commands]
    return Request(
        id=(options.out.resolve() if options.out else places.new_folder("time")).name,
        suite=Suite(name="time", question=question), started=datetime.now(UTC).isoformat(timespec="seconds"), seed=1,
        budget_seconds=options.budget_s or BUDGET_S, tollmeter=VERSION,
        words=options.words or tuple(command.text for command in commands),
        precision=options.precision * (RATIO_SHARE if several else 1),
        against=(commands[0].name,) if several else (),
        pairs=tuple(Pair(point=point, against=first) for point in others),
    )  # fmt: skip


# ---- the runs -------------------------------------------------------------------------------------------------------


def _with_hooks(commands: Sequence[Command], options: TimeOptions) -> tuple[list[Command], list[Words]]:
    """Returns the commands with the indices of their hooks, and the words of all commands that are started."""
    started = [command.words for command in commands]
    prepare, conclude = (
        several * len(commands) if len(several) == 1 else several for several in (options.prepare, options.conclude)
    )
    hooked = []
    for place, command in enumerate(commands):
        texts = {
            "setup": options.setup, "prepare": prepare[place] if prepare else "",
            "conclude": conclude[place] if conclude else "", "cleanup": options.cleanup, "verify": options.verify,
        }  # fmt: skip
        hooks = {}
        for name, text in texts.items():
            if text:
                words, _ = words_of(fill(text, command.parameters), options.shell)
                if words not in started:
                    started.append(words)
                hooks[name] = started.index(words)
        hooked.append(command._replace(place=place, hooks=hooks))
    return hooked, started


class _Failed(Exception):
    """An error that ends the run early, with a sentence."""


class _Timing:
    """The runs of one `toll time`: the setups, a first run of each command, rounds of timed runs, the cleanups."""

    def __init__(
        self,
        commands: Sequence[Command],
        options: TimeOptions,
        process: Timer,
        journal: Journal,
        base: Base,
        *,
        stopping: Stopping,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates the timing. now: monotonic seconds."""
        self._commands, self._options, self._process = commands, options, process
        self._journal, self._base, self._stopping = journal, base, stopping
        self._budget_s = options.budget_s or BUDGET_S
        self._now, self._began = now, now()
        self._probe = base.probe(commands)
        self._known = Known(precision=options.precision, made=nothing_made())
        self._reader, self._outcomes = Outcomes(), list[Outcome]()
        self._turns = command_metrics.turns_of(base.counted)
        self._first_counts: dict[int, dict[str, float]] = {}
        """Event counts of the first execution of each command, by the command's index, until they are stored."""
        self._uncounted = dict(base.uncounted)
        self._held: set[int] = set()
        self._next_look = 0
        self._rounds_of_block = 1

    def to_the_end(self, report: Report) -> Timed:
        """Runs the setup commands, all rounds until the precision or the budget is reached, and the cleanup commands.
        Records in the journal why it ended."""
        status, reason = "settled", None
        try:
            for command in self._commands:
                self._start_hook(command, "setup")
            sink = self._prove_commands()
            status = self._time_rounds(sink, report)
        except _Failed as failed:
            status, reason = "budget", str(failed)
        if self._is_stopped():
            status, reason = "interrupted", None
        session = Session(status, self._elapsed(), reason)
        self._journal.note(session)
        for command in self._commands:
            self._start_hook(command, "cleanup")
        return Timed(self._journal.folder, session, self._uncounted)

    def _is_stopped(self) -> bool:
        """Returns whether a signal has arrived, which is possible at any moment."""
        return self._stopping.asked

    def _elapsed(self) -> float:
        return self._now() - self._began

    def _start_hook(self, command: Command, name: str) -> None:
        """Starts a hook of a command. After a signal only cleanup hooks are started, and only their failure counts.
        Raises Failure (1) if a hook fails."""
        is_cleanup = name == "cleanup"
        if name in command.hooks and (is_cleanup or not self._is_stopped()):
            ran = self._process.run(command.hooks[name])
            if ran.failure and (is_cleanup or not self._is_stopped()):
                raise Failure(f"--{name} for {command.name}: {ran.failure}", 1)

    def _run_one(self, command: Command, sink: Output, events: Sequence[str] = ()) -> Ran | None:
        """Runs a command once; returns None if a signal came before its end."""
        self._start_hook(command, "prepare")
        if self._is_stopped():
            return None
        ran = self._process.run(command.place, "n", sink, events=events)
        self._name_holders(command, ran)
        self._start_hook(command, "conclude")
        return None if self._is_stopped() and ran.failure else ran

    def _name_holders(self, command: Command, ran: Ran) -> None:
        """Reports once for each command which processes keep its output open."""
        if ran.held_pipe and command.place not in self._held:
            self._held.add(command.place)
            names = ", ".join(holders(ran.held_pipe)) or "a process that has ended since"
            notify(f"{command.name} has ended, and {names} still holds its output: what that writes is not read")

    def _prove_commands(self) -> Output:
        """Runs each command once, then makes the warm-up runs. Returns the destination of output in timed runs."""
        options = self._options
        typed: dict[str, Output] = {"": "p", "null": "n", "pipe": "p", "inherit": "i"}
        sink: Output = "m" if options.verify else typed.get(options.output, "f")
        began, most_bytes = self._now(), 0
        for command in self._commands:
            ran = self._run_one(command, sink, () if self._base.metrics else self._turns[0])
            if ran is None:
                return sink
            if not self._base.metrics:
                self._first_counts[command.place] = command_metrics.values_of((), self._turns[0], ran)
            if command.shell and ran.exit_code == _NOT_FOUND:
                raise Failure(f"{command.name}: {ran.failure}")
            most_bytes = max(most_bytes, ran.output_bytes)
            self._keep(command, ran)
        if len(self._commands) > 1:
            rounds = self._budget_s / max(1e-9, self._now() - began)
            rounds = min(rounds, options.runs or options.max_runs or inf)
            self._rounds_of_block = max(1, min(LAYOUT_SERVES, int(rounds / _LEAST_PARTS)))
        if not options.verify and not options.output:
            # A process that a command left behind would go on writing to the memory of the next run.
            sink = "p" if self._held else "m" if most_bytes <= _MOST_KEPT else "n"
        if most_bytes > _MOST_KEPT and sink == "n":
            size = f"{most_bytes >> 20} MiB"
            notify(f"the output of a command has {size}: it is discarded while timed, and not compared")
        for command in [*self._commands] * options.warmup:
            self._run_one(command, sink)
        return sink

    def _time_rounds(self, sink: Output, report: Report) -> str:
        """Times rounds until the run ends. Returns the status of the run."""
        began, rounds = self._elapsed(), 0
        while not self._is_stopped():
            report(rounds, self._elapsed() / self._budget_s)
            if rounds and (ended := self._ended(rounds, (self._elapsed() - began) / rounds)):
                return ended
            events = self._turns[rounds % len(self._turns)] if self._base.metrics else ()
            for command in self._commands if rounds % 2 == 0 else reversed(self._commands):
                ran = self._run_one(command, sink, events)
                if ran is None:
                    break
                self._keep(command, ran, rounds, events)
            rounds += 1
        return "interrupted"

    def _ended(self, rounds: int, round_s: float) -> str:
        """Returns the status of the run if it ends after these rounds; empty if it goes on. round_s: mean seconds of a
        round."""
        options = self._options
        if options.runs or rounds == options.max_runs:
            return "settled" if rounds >= (options.runs or 0) else ""
        # A budget that was typed is kept, if one round fits.
        fewest = 1 if options.budget_s else LEAST_BLOCKS if len(self._commands) > 1 else LEAST_VISITS
        if rounds >= (options.min_runs or fewest) and self._elapsed() + round_s > self._budget_s:
            return "budget"
        least = max(options.min_runs or MIN_RUNS, _LEAST_PARTS * self._rounds_of_block)
        is_early = rounds < least or self._elapsed() < _LEAST_S * len(self._commands)
        if is_early or rounds < self._next_look:
            return ""
        self._next_look = ceil(_LOOKS * rounds)
        return "settled" if self._is_precise(rounds) else ""

    def _is_precise(self, rounds: int) -> bool:
        first, *others = [_point(command, self._base.abi) for command in self._commands]
        if not others:
            return rows_of_point(self._outcomes, self._probe, self._known)[0].converged
        precision, probes = self._options.precision * RATIO_SHARE, {PROBE: self._probe}
        return all(
            opposed.visits_wanted_of_two(self._outcomes, (other, first), probes, self._known, precision) <= rounds
            for other in others
        )

    def _keep(self, command: Command, ran: Ran, rounds: int | None = None, events: Sequence[str] = ()) -> None:
        """Stores one execution. rounds: rounds completed before; None for the first execution, of which only a failure
        is stored. events: names of the counted events. Raises _Failed if the execution failed."""
        status, reason = self._status_after(command, ran)
        if rounds is None and status == "ok":
            return
        visit = Visit(
            id=len(self._outcomes), point=_point(command, self._base.abi), round=rounds or 0, cpus=(), samples=1,
            sample_ns=0, seed=0 if rounds is None else rounds // self._rounds_of_block + 1, deadline_ms=0,
        )  # fmt: skip
        failed: Mapping[str, object] = {"k": "fail", "status": status, "reason": reason}
        records = self._gauges(command, ran, events) if status == "ok" else [failed]
        stream = protocol.reported(visit, self._probe.revision, records, at_ns=ran.at_ns)
        self._journal.append(stream)
        self._outcomes.append(self._reader.of_text(stream))
        if status != "ok":
            before = "before it was timed" if rounds is None else f"in run {rounds + 1}"
            raise _Failed(f"{command.name} failed {before}: {reason}")

    def _status_after(self, command: Command, ran: Ran) -> tuple[Status, str]:
        """Runs the verify command, if there is one, and returns the status of an execution and its reason."""
        allowed = self._options.allowed
        if ran.error or (ran.status and allowed is not None and ran.exit_code not in allowed):
            return "failed", ran.failure
        if "verify" in command.hooks:
            checked = self._process.run(command.hooks["verify"], source=LAST_OUTPUT)
            if checked.failure:
                return "wrong_answer", f"--verify: {checked.failure}"
        return "ok", ""

    def _gauges(self, command: Command, ran: Ran, events: Sequence[str]) -> list[Mapping[str, object]]:
        values: dict[str, float] = {TIME: ran.wall_ns, "user": ran.user_ns, "system": ran.system_ns}
        values["peak"] = ran.peak_bytes
        values |= {name: getattr(ran, name) for name, *_ in _VALUES if name not in values}
        values |= self._first_counts.pop(command.place, {})
        if self._base.metrics:
            values |= command_metrics.values_of(self._base.counted, events, ran)
            for name, count in zip(events, ran.counts, strict=True):
                if why := command_metrics.why_uncounted(name, count):
                    self._uncounted[name] = f"in some runs, {why}"
            if command_metrics.ENERGY in self._base.counted and (why := command_metrics.why_no_energy(ran)):
                self._uncounted[command_metrics.ENERGY] = f"in some runs, {why}"
        values |= {EXIT_STATUS: ran.exit_code} if ran.status else {}
        values |= {OUTPUT_GAUGE: ran.output_hash} if ran.output_hash else {}
        clock = {"k": "clock", **msgspec.to_builtins(self._base.clock)}
        return [clock, *({"k": "gauge", "metric": name, "value": value} for name, value in values.items())]
