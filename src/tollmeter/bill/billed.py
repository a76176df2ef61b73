# SPDX-License-Identifier: Apache-2.0
"""Measures a bill: clean runs of the commands, interleaved, then one counted run of each, in the best way permitted."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from statistics import median

import msgspec

from tollmeter.bill.calibration import Calibration, calibrated, combined_calibration
from tollmeter.bill.crossings import (
    LOADED,
    WAYS,
    Crossings,
    GuestRunner,
    HostRunner,
    Runner,
    Way,
    crossings,
    of_process,
    without_loader,
)
from tollmeter.bill.items import Bill, Counts, bill_of, counts, estimated, items
from tollmeter.bill.savings import Saving, savings
from tollmeter.experiment.precision import Estimate, Scatter, in_plain_numbers
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Failure, Record
from tollmeter.targets.boards import board_of
from tollmeter.targets.local import X32_LOADER, needs_loader
from tollmeter.targets.qemu_system import Guest
from tollmeter.targets.ssh import Ssh
from tollmeter.targets.timer import Words
from tollmeter.targets.ways import LOCAL
from tollmeter.toolchain.abis import for_cpu, known_abis, make_beside, open_here
from tollmeter.toolchain.workload_build import bill_runner

LEAST_RUNS, MOST_RUNS = 3, 20
_COUNTED_RUNS, _LONG_NS = 5, 2_000_000_000
"""Highest number of counted runs of a command. A command whose run takes longer than _LONG_NS is counted once."""
BUDGET_S = 10.0
_BITS_32 = 32


class Billed(Record, frozen=True):
    """A command's bill and possible savings, with their data. clean: runs without counting; counted: counted runs, the
    one that the bill shows first; trials: calibrations. saved: CPU time in ns by which the first command exceeds
    this one, from interleaved runs; None for the first, and without times."""

    bill: Bill | Counts
    savings: tuple[Saving, ...] = ()
    clean: tuple[Crossings, ...] = ()
    counted: tuple[Crossings, ...] = ()
    trials: tuple[Calibration, ...] = ()
    saved: Estimate | None = None


def billed(
    runner: Runner, several: Sequence[Words], budget_s: float = BUDGET_S, ways: Sequence[Way] = WAYS
) -> tuple[Billed, ...]:
    """Returns a bill for each command. ways: methods of counting, the best first. Raises Failure: 1 if a command fails,
    5 if no command can be started."""
    way, why, first = _first_counted(runner, several, ways)
    is_timed = [not runner.untimed(words) for words in several]
    timed_pairs = [*zip(compress(several, is_timed), compress(first, is_timed), strict=True)]
    timed = iter(_timed(runner, timed_pairs, budget_s, way=way, why=why))
    return tuple(
        next(timed) if has_time else _untimed(runner, way, why, words, crossed)
        for words, crossed, has_time in zip(several, first, is_timed, strict=True)
    )


def _untimed(runner: Runner, way: Way, why: str, words: Words, crossed: Crossings) -> Billed:
    """Returns a bill of counts, which are exact in one run. Raises Failure (1) if the command fails."""
    name, reason = " ".join(words.words), runner.untimed(words)
    if failure := crossed.failure:
        hint = " (a guest has no libraries: it has to be linked statically)" if crossed.error == errno.ENOENT else ""
        raise Failure(f"{name} failed: {crossings(runner, 'usage', words).failure or failure}{hint}", 1)
    crossed = without_loader(crossed) if reason == LOADED else crossed
    return Billed(counts(name, crossed, way=way, why=why, untimed=reason), counted=(crossed,))


def _timed(
    runner: Runner, timed_pairs: Sequence[tuple[Words, Crossings]], budget_s: float, *, way: Way, why: str
) -> list[Billed]:
    """Returns bills with times. timed_pairs: each command with a counted run of it. budget_s: seconds for all runs
    without counting. way: method of counting. why: why better methods are not permitted."""
    if not timed_pairs:
        return []
    several, first = zip(*timed_pairs, strict=True)
    is_once = way != "kernel" or any(crossed.wall_ns > _LONG_NS for crossed in first)
    counted = [[crossed] if is_once else list[Crossings]() for crossed in first]
    program_32 = _program_32(runner, first)
    trials: list[Calibration] = []

    def count(turn: int) -> None:
        """Makes a calibration and counted runs in the round of clean runs, since the core's state changes with time."""
        if turn <= _COUNTED_RUNS:
            forks = any(crossed.events.get("forks") for crossed in first)
            trials.append(calibrated(runner, way, forks=forks, program_32=program_32))
            for words, of_command in () if is_once else zip(several, counted, strict=True):
                of_command.append(crossings(runner, way, words))

    clean = _clean_runs(runner, several, budget_s, count)
    calibration = combined_calibration(trials, [one for of_command in counted for one in of_command])
    bills: list[Billed] = []
    for words, runs, crossed in zip(several, clean, counted, strict=True):
        by_round = middle_first(runs, crossed, calibration, way)
        bill = bill_of(" ".join(words.words), runs, by_round[0][0], by_round[0][1], way=way, why=why)
        saved = _saved(clean[0], runs) if bills else None
        counts_of_rounds, scaled = zip(*by_round, strict=True)
        bills.append(Billed(bill, savings(bill, counts_of_rounds[0]), tuple(runs), counts_of_rounds, scaled, saved))
    return bills


def _program_32(runner: Runner, counted: Sequence[Crossings]) -> str:
    """Returns the path of the counting process for the 32-bit ABI of the same kernel, on the machine that runs the
    commands. Empty if no 32-bit call was counted, or if the process cannot be built here."""
    if not any(call.is_32 for crossed in counted for call in crossed.calls):
        return ""
    abis = for_cpu(known_abis(places.ROOT).values(), runner.machine)
    for abi in (abi for abi in abis if abi.elf.get("class") == _BITS_32):
        with contextlib.suppress(Failure):
            return runner.place(bill_runner(places.ROOT, abi))
    return ""


def middle_first(
    runs: Sequence[Crossings], counted: Sequence[Crossings], calibration: Calibration, way: Way
) -> list[tuple[Crossings, Calibration]]:
    """Returns counted runs with their calibrations; the run whose sum of items is the median comes first.

    Each is scaled by its own CPU time to the core state of the clean runs: a contended core slows the command and the
    counting alike. Its own CPU time is the time between switches if that is longer: time that the host takes is in it
    and in the windows, and not in the accounted CPU time."""
    middle_ns = median(run.cpu_ns for run in runs)
    rounds: list[tuple[Crossings, Calibration]] = []
    for crossed in counted:
        expected_ns, own_ns = middle_ns + calibration.counting_ns(crossed), max(1, crossed.cpu_ns, crossed.on_cpu_ns)
        scale = expected_ns / own_ns if way == "kernel" else 1.0
        rounds.append((crossed, msgspec.structs.replace(calibration, scale=scale)))
    rounds.sort(key=lambda each: sum(item.ns or 0.0 for item in items(each[0], runs, each[1], way)))
    return [rounds.pop(len(rounds) // 2), *rounds]


def billed_process(process: int, seconds: float) -> Billed:
    """Returns the bill of a running process over a time in seconds. Raises Failure: 2 if the process does not exist, 5
    if the kernel does not permit BPF, the only method for a running process."""
    try:  # before it is counted, since it may end then
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise Failure(f"there is no process {process}: `ps -e` lists the running ones") from error
    runner = here()
    crossed = of_process(runner, process, seconds)
    if crossed.reason:
        raise Failure(f"a running process is counted by BPF alone: {crossed.reason}", 5)
    trial = calibrated(runner, "kernel", program_32=_program_32(runner, [crossed]))
    calibration = combined_calibration([trial], [crossed])
    # The process never ran uncounted, so the estimated cost of counting is subtracted.
    counting_ns = round(min(crossed.user_ns, calibration.counting_ns(crossed)))
    crossed = msgspec.structs.replace(crossed, user_ns=crossed.user_ns - counting_ns)
    bill = bill_of(f"{name} (process {process})", [crossed], crossed, calibration, way="kernel")
    bill = msgspec.structs.replace(bill, runs=0)
    return Billed(bill, savings(bill, crossed), (crossed,), (crossed,), (calibration,))


@contextlib.contextmanager
def runner_of(target: str, several: Sequence[Words]) -> Iterator[Runner]:
    """Yields the runner of commands. target: local, ssh:HOST, or guest:BOARD. Raises Failure: 2 for another target, 5
    if no process can be started."""
    kind, _, host = target.partition(":")
    if target == LOCAL:
        if any(needs_loader(words.path) for words in several):
            make_beside(places.ROOT, X32_LOADER)
        yield here()
    elif kind == "ssh":
        with contextlib.closing(Ssh(host)) as there:
            yield HostRunner(there, _runner_for(there.architecture(), there.name))
    elif kind == "guest":
        with contextlib.closing(open_here(places.ROOT, target)) as guest:
            assert isinstance(guest, Guest)
            board = board_of(target)
            machine = board.cpu or known_abis(places.ROOT)[board.abi].runs_on[0]
            path = _runner_for(machine, target)
            guest.prepare([f"{path}", *(words.path for words in several)])
            yield GuestRunner(guest, path, machine)
    else:
        raise Failure(
            f"a bill is of commands on this machine, ssh:HOST or guest:BOARD, and {target} starts probes alone"
        )


def here() -> Runner:
    catalog = places.made_ready([], [], ProbeRequest([]))
    return Runner(bill_runner(places.ROOT, known_abis(places.ROOT)[catalog.abis[0]]))


def _runner_for(machine: str, where: str) -> Path:
    """Returns the path of the counting process for the first ABI of a CPU that can be built here. where: name of the
    target, for the message. Raises Failure (5) if no ABI can be built."""
    why = ""
    for abi in for_cpu(known_abis(places.ROOT).values(), machine):
        try:
            return bill_runner(places.ROOT, abi)
        except Failure as failure:
            why = why or f": {failure.sentence}"
    raise Failure(f"the process that counts is built for no ABI of {machine or where}{why}", 5)


def _clean_runs(
    runner: Runner, several: Sequence[Words], budget_s: float, beside: Callable[[int], None]
) -> list[list[Crossings]]:
    """Returns runs of each command without counting, in alternating order (ABBA). The first run of each warms caches,
    and is left out. beside: called after each later round with its number; its time does not count against the
    budget. Raises Failure (1) if a command fails."""
    runs: list[list[Crossings]] = [[] for _ in several]
    began = time.monotonic()
    for turn in range(MOST_RUNS + 1):
        for place in range(len(several)) if turn % 2 == 0 else reversed(range(len(several))):
            ran = crossings(runner, "usage", several[place])
            if why := ran.reason or ran.failure:
                raise Failure(f"{' '.join(several[place].words)} failed: {why}", 1)
            if turn:
                runs[place].append(ran)
        elapsed = time.monotonic() - began
        if turn:
            beside(turn)
            began = time.monotonic() - elapsed
        if turn >= LEAST_RUNS and elapsed * (turn + 2) / (turn + 1) > budget_s:
            break
    return runs


def _first_counted(runner: Runner, several: Sequence[Words], ways: Sequence[Way]) -> tuple[Way, str, list[Crossings]]:
    """Returns the first method of counting that the system permits, the reasons against better methods, and a counted
    run of each command."""
    reasons: list[str] = []
    for way in ways:
        counted = [crossings(runner, way, words) for words in several]
        reason = next((crossed.reason for crossed in counted if crossed.reason), "")
        if not reason:
            return way, "; ".join(reasons), counted
        reasons.append(reason)
    raise Failure(f"the command cannot be counted: {'; '.join(reasons)}", 5)


def _saved(first: Sequence[Crossings], other: Sequence[Crossings]) -> Estimate:
    """Returns the CPU time in ns that `other` saves per run, from pairs of runs of one round."""
    differences = [float(one.cpu_ns - two.cpu_ns) for one, two in zip(first, other, strict=True)]
    around = estimated([run.cpu_ns for run in first]).value
    return in_plain_numbers(differences, range(len(differences)), around, Scatter(runs_sd=0.0))
