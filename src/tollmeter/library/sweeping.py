# SPDX-License-Identifier: Apache-2.0
"""Sweeps: a run at each value of a setting that the user's command changes. The first value is always restored: at the
end, after a signal, and after SIGKILL at the next start of `toll sweep`."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.exit_codes import INCOMPLETE, INFRASTRUCTURE
from tollmeter.files import plain_name
from tollmeter.library.derive import open_run
from tollmeter.library.typed_commands import fill, words_of
from tollmeter.model import Failure, Results
from tollmeter.notices import notify
from tollmeter.protocol import clean
from tollmeter.root import typed
from tollmeter.store.sweeps import (
    SweepState,
    SweepStep,
    Unrestored,
    boot,
    forget_unrestored,
    is_running,
    keep_unrestored,
    load_sweep,
    record_path,
    save_sweep,
    start_of,
    sweep_lock_file,
    try_lock,
    unrestored,
)

RESTORES = 3
"""Attempts to restore: a Ctrl-C also ends the restoring command, which belongs to the terminal's foreground too."""
_MOST_TRIES = 2
"""Boots in which a value is measured: one that crashes the machine would do so at each boot."""
_ORPHAN_S, _LOOKS_EVERY_S = 60.0, 0.2
"""Longest wait, in seconds, for a command that outlived a killed sweep: the command may have started a daemon, which
never ends. And the seconds between two checks for it."""
_SHOWN = 200
"""Characters of a command's output in a message."""

Measure = Callable[[str, str], str]
"""Measures at a value, into a folder below the sweep's. Arguments: the value, and the folder's name. Returns why there
is no run; empty if there is one."""


class Knob(NamedTuple):
    """The commands of a swept setting. set, verify: commands, with `{}` or `{VARIABLE}` for the value. lock: a
    descriptor that the commands inherit, -1 for none."""

    variable: str
    set: str
    verify: str = ""
    cwd: str | None = None
    lock: int = -1

    def turn(self, value: str) -> str:
        """Sets a value. Returns why it cannot be set, empty on success."""
        done, output = self._started(self.filled(self.set, value))
        return f"--set ended with {done}{_last(output)}" if done else ""

    def check(self, value: str) -> str:
        """Checks by --verify that the setting has this value. Returns why it has not, empty on success. A verify
        command that contains the value answers by its exit status; any other prints the value."""
        if not self.verify:
            return ""
        command = self.filled(self.verify, value)
        done, output = self._started(command, keeps_output=True)
        if done:
            return f"--verify ended with {done}{_last(output)}"
        printed = output.strip()
        if command == self.verify and printed != value:
            return f"--verify printed {clean(printed[:_SHOWN]) or 'nothing'}, and not {value}"
        return ""

    def filled(self, command: str, value: str) -> str:
        return fill(command, ((self.variable, value), ("", value)))

    def _started(self, command: str, *, keeps_output: bool = False) -> tuple[str, str]:
        """Starts a command. Returns how it ended, empty for exit status 0, and its output: standard output if that is
        kept, else standard error. The output goes to a file, since a daemon that the command starts would keep a pipe
        open."""
        words, _ = words_of(command, None)
        with tempfile.TemporaryFile() as file:
            done = commands.run(
                "typed", words.words, executable=words.path, cwd=self.cwd, stdin=commands.DEVNULL,
                stdout=file if keeps_output else commands.DEVNULL, stderr=None if keeps_output else file,
                pass_fds=() if self.lock < 0 else (self.lock,),
            )  # fmt: skip
            file.seek(0)
            output = file.read().decode(errors="replace")
        code = done.returncode
        return ("" if not code else f"signal {-code}" if code < 0 else f"exit status {code}"), output


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return f": {clean(lines[-1][:_SHOWN])}" if lines else ""


def check_knob(knob: Knob, values: Sequence[str]) -> None:
    """Checks the commands before the setting is changed. Raises Failure (2)."""
    if len(values) < 2:
        raise Failure(f"{knob.variable} has one value, and a sweep compares several: -L {knob.variable} 1,2,4")
    if len(set(values)) < len(values):
        raise Failure(f"a value of {knob.variable} is given twice: name each value once")
    if not all(value.strip() for value in values):
        raise Failure(f"a value of {knob.variable} is empty: is a variable not set?")
    if knob.filled(knob.set, "\0") == knob.set:
        raise Failure(f"--set {knob.set!r} does not name the value: write {{}} or {{{knob.variable}}} in its place")
    for command in filter(None, (knob.set, knob.verify)):
        for value in values:
            words_of(knob.filled(command, value), None)


def order_of(values: Sequence[str], seed: int) -> tuple[str, ...]:
    """Returns the other values shuffled, with the first value before, between and after them."""
    first, *others = values
    random.Random(seed).shuffle(others)
    return (first, *(value for other in others for value in (other, first)))


def new_sweep(knob: Knob, values: Sequence[str], words: Sequence[str], seed: int, folder: Path) -> SweepState:
    return SweepState(
        variable=knob.variable, set=knob.set, verify=knob.verify, values=tuple(values), order=order_of(values, seed),
        words=tuple(words), seed=seed, started=datetime.now(UTC).isoformat(timespec="seconds"), folder=str(folder),
    )  # fmt: skip


# ---- in one start of the machine ------------------------------------------------------------------------------------


def conducted(sweep: SweepState, path: Path, measure: Measure, stopped: Callable[[], bool]) -> SweepState:
    """Measures at every value, stores each step, and restores the first value in any case. path: file of the sweep.
    stopped: returns whether the sweep should end. Raises Failure if another sweep runs, or if the first value cannot be
    set or recorded for restoring."""
    with sweep_lock_file() as lock:
        restore_killed(lock)
        knob = Knob(sweep.variable, sweep.set, sweep.verify, lock=lock)
        _set_first(knob, sweep.first)
        keep_unrestored(Unrestored(
            variable=sweep.variable, value=sweep.first, set=sweep.set, verify=sweep.verify, cwd=str(Path.cwd()),
            folder=sweep.folder, process=os.getpid(), began=start_of(os.getpid()),
        ))  # fmt: skip
        try:
            for value in sweep.order:
                if stopped():
                    break
                step = _step(knob, value, _name(sweep), measure)
                if stopped() and step.reason:
                    break
                sweep = msgspec.structs.replace(sweep, steps=(*sweep.steps, step))
                save_sweep(path, sweep)
        finally:
            failed = _restored(knob, sweep.first)
        return msgspec.structs.replace(sweep, unrestored=failed)


def _set_first(knob: Knob, first: str) -> None:
    """Sets the first value. Raises Failure (1): a value that cannot be set cannot be restored, so no other value is
    tried."""
    if before := knob.check(first):
        notify(f"{knob.variable} is not {first} now, and will be after the sweep: {before}")
    if failed := knob.turn(first) or knob.check(first):
        raise Failure(f"{knob.variable} cannot be set to {first}, the value that would be restored: {failed}", 1)


def _step(knob: Knob, value: str, name: str, measure: Measure) -> SweepStep:
    failed = knob.turn(value)
    return SweepStep(value=value, reason=failed) if failed else _measured(knob, value, name, measure)


def _measured(knob: Knob, value: str, name: str, measure: Measure) -> SweepStep:
    """Measures one step, and verifies the value before and after, since a daemon may reset the setting. Returns the
    step."""
    reason = knob.check(value) or measure(value, name)
    after = "" if reason else knob.check(value)
    reason = reason or (f"after the run {after}" if after else "")
    return SweepStep(value=value, run="" if reason else name, reason=reason)


def _name(sweep: SweepState) -> str:
    """Returns the name of the next step's folder; a crash may have left a folder of that name."""
    name = f"{len(sweep.steps) + 1:02}-{plain_name(sweep.order[len(sweep.steps)])}"
    several = (name if number == 1 else f"{name}-{number}" for number in range(1, 1000))
    return next(free for free in several if not os.path.lexists(Path(sweep.folder) / free))


def _restored(knob: Knob, first: str) -> str:
    """Restores the first value. Returns why it failed, empty on success or if the user has restored it; the next start
    then has nothing to restore."""
    if knob.verify and not knob.check(first):
        forget_unrestored()
        return ""
    failed = ""
    for _ in range(RESTORES):
        failed = knob.turn(first) or knob.check(first)
        if not failed:
            forget_unrestored()
            break
    return failed


def restore_killed(lock: int) -> str:
    """Restores the setting that a killed sweep left. Returns a sentence on what was restored, empty if nothing. Raises
    Failure: 5 if another sweep runs, or if it cannot be restored."""
    wait_until = time.monotonic() + _ORPHAN_S
    while True:
        record = unrestored()
        if record is not None and is_running(record) and record.process != os.getpid():
            raise Failure(f"another sweep turns {record.variable} (process {record.process}): wait for its end", 5)
        # Of two sweeps that start at once, the one with the lock stores its record first.
        if try_lock(lock) or time.monotonic() > wait_until:
            break
        time.sleep(_LOOKS_EVERY_S)
    record = unrestored()
    if record is None:
        return ""
    failed = _restored(Knob(record.variable, record.set, record.verify, record.cwd, lock), record.value)
    if failed:
        raise Failure(
            f"a killed sweep left {record.variable}, and it cannot be set to {record.value}: {failed}; mend that, or "
            f"set it by hand and remove {record_path()}", INFRASTRUCTURE,
        )  # fmt: skip
    sentence = f"{record.variable} is {record.value} again: the sweep in {record.folder} was killed"
    notify(sentence)
    return sentence


# ---- over restarts --------------------------------------------------------------------------------------------------


def over_restarts(new: SweepState, path: Path, measure: Measure, stopped: Callable[[], bool]) -> SweepState:
    """Continues the sweep of the file, or begins one, until a value needs a reboot. Raises Failure: 2 if the file is of
    another sweep; 7 if the machine has to reboot, by --set or by the user."""
    sweep = load_sweep(path)
    if sweep is None:
        sweep = new
        save_sweep(path, sweep)
    request = (new.variable, new.set, new.verify, new.values, new.words)
    if (sweep.variable, sweep.set, sweep.verify, sweep.values, sweep.words) != request:
        raise Failure(f"{path} is of another sweep: `{typed('sweep', *sweep.words)}`; name another file")
    knob = Knob(sweep.variable, sweep.set, sweep.verify)
    while not sweep.is_done and not stopped():
        value = sweep.order[len(sweep.steps)]
        sweep, crashed = _prepare_step(sweep, path, knob, value)
        step = SweepStep(value=value, reason=crashed) if crashed else _measured(knob, value, _name(sweep), measure)
        if stopped() and step.reason:
            break
        sweep = msgspec.structs.replace(sweep, steps=(*sweep.steps, step), set_in=None, tried=())
        save_sweep(path, sweep)
    return msgspec.structs.replace(sweep, unrestored=knob.check(sweep.first)) if sweep.is_done else sweep


def _prepare_step(sweep: SweepState, path: Path, knob: Knob, value: str) -> tuple[SweepState, str]:
    """Prepares the next step in this boot, and sets its value if the setting has another. Returns the updated sweep,
    and why the step is not measured, empty if it is. Raises Failure (7) if the value takes effect at the next boot."""
    if sweep.set_in is None and knob.check(value):
        sweep = msgspec.structs.replace(sweep, set_in=boot())
        save_sweep(path, sweep)
        failed = knob.turn(value)
        if failed:  # the next start asks again
            save_sweep(path, msgspec.structs.replace(sweep, set_in=None))
            raise Failure(f"{knob.variable} cannot be set to {value}: {failed}", INFRASTRUCTURE)
    if sweep.set_in == boot() and knob.check(value):
        raise Failure(
            f"{len(sweep.steps)} of {len(sweep.order)} steps are done; the next has {knob.variable} {value} after a "
            f"restart: `{typed('sweep', *sweep.words)}` goes on then", INCOMPLETE,
        )  # fmt: skip
    if len(tried := tuple(dict.fromkeys([*sweep.tried, boot()]))) > _MOST_TRIES:
        return sweep, f"the machine restarted {_MOST_TRIES} times while it was measured"
    sweep = msgspec.structs.replace(sweep, set_in=boot() if sweep.set_in is None else sweep.set_in, tried=tried)
    save_sweep(path, sweep)
    return sweep, ""


def abandoned(path: Path) -> str:
    """Sets the first value again, and removes the file. Returns a sentence on both. Raises Failure: 2 if the file does
    not exist, 5 if the value cannot be set."""
    sweep = load_sweep(path)
    if sweep is None:
        raise Failure(f"--reboots {path}: there is no such file")
    knob = Knob(sweep.variable, sweep.set, sweep.verify)
    is_first_set = not knob.check(sweep.first)
    if not is_first_set and (failed := knob.turn(sweep.first)):
        raise Failure(f"{sweep.variable} cannot be set to {sweep.first}: {failed}", INFRASTRUCTURE)
    path.unlink()
    return f"{sweep.variable} {'is' if is_first_set else 'after a restart is'} {sweep.first} again"


# ---- what came of it ------------------------------------------------------------------------------------------------


def runs_of(sweep: SweepState) -> list[tuple[SweepStep, Results | None]]:
    """Returns each step with its run, in the order of measuring; None for an unreadable run."""
    found: list[tuple[SweepStep, Results | None]] = []
    for step in sweep.steps:
        try:
            found.append((step, open_run(Path(sweep.folder) / step.run) if step.run else None))
        except Failure as failure:
            found.append((msgspec.structs.replace(step, reason=failure.sentence), None))
    return found
