# SPDX-License-Identifier: Apache-2.0
"""This machine as a target. An executable is started directly; or by the x32 loader, if the kernel does not support
that ABI.

x32 is 64-bit mode with 32-bit pointers, which every x86-64 CPU runs; only its system calls and exec need the kernel.
The loader (emulator/x32_loader) replaces them by native calls. It needs Syscall User Dispatch, Linux 5.11."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Abi, Value, Visit
from tollmeter.protocol import closed, refused, words
from tollmeter.root import ROOT
from tollmeter.targets import control_groups
from tollmeter.targets.child import Child, Ended, ends_stream
from tollmeter.targets.cpu_features import cpu_lack
from tollmeter.targets.target import Target, later, not_started, patience_s, trouble_of_visit

_GRACE_S = 2.0
"""Seconds that the host adds to a probe's deadline. A probe keeps its own deadline and reports why it ended; the host's
deadline is for a probe that cannot."""


# ---- how an executable is started ------------------------------------------------------------------------------------

X32_LOADER = "x32-loader"
_LOADER = ROOT / "build/emulator" / X32_LOADER
_X32_GETPID = 0x40000000 + 39
_PR_SET_SYSCALL_USER_DISPATCH, _OFF = 59, 0
_ELF_32, _ELF_32_BITS, _X86_64 = 1, 32, 62


def native_command(executable: str | Path) -> list[str]:
    """Returns the command line that starts an executable on this machine."""
    return [str(_LOADER), str(executable)] if needs_loader(str(executable)) else [str(executable)]


def is_loader_for(abi: Abi) -> bool:
    """Returns whether the loader starts executables of an ABI here."""
    return _is_x32(abi) and serves_x32()


def is_run_here(abi: Abi) -> bool:
    """Returns whether this CPU runs an ABI, and the kernel or the loader starts its executables."""
    is_started = not _is_x32(abi) or has_x32() or serves_x32()
    return platform.machine() in abi.runs_on and is_started and cpu_lack(abi) is None


def _is_x32(abi: Abi) -> bool:
    return abi.elf.get("class") == _ELF_32_BITS and abi.elf.get("machine") == "EM_X86_64"


@lru_cache(maxsize=1024)
def needs_loader(executable: str) -> bool:
    """Returns whether the loader starts an ABI's executables and the kernel does not."""
    try:
        with Path(executable).open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    is_x32 = head[:4] == b"\x7fELF" and head[4] == _ELF_32 and struct.unpack_from("<H", head, 18) == (_X86_64,)
    return is_x32 and serves_x32()


@lru_cache(maxsize=1)
def has_x32() -> bool:
    """Returns whether this kernel runs x32 without a loader."""
    is_x86 = platform.machine() == "x86_64"
    return is_x86 and ctypes.CDLL(None).syscall(ctypes.c_long(_X32_GETPID)) == os.getpid()


@lru_cache(maxsize=1)
def serves_x32() -> bool:
    """Returns whether this kernel has no x32 ABI, and has the features that the loader needs."""
    if platform.machine() != "x86_64" or has_x32():
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_SYSCALL_USER_DISPATCH, _OFF, 0, 0, 0) == 0)


# ---- processes that have set up a layout and wait for its next visit -------------------------------------------------

_MOST_HELD, _MOST_WORKERS = 1 / 4, 512
"""Highest share of the machine's memory, and highest number of processes, in the pool: a waiting process takes no CPU
time, but other programs cannot use its memory."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128
"""File descriptors of one waiting process, and those that the host keeps for itself."""

LayoutKey = tuple[str, tuple[tuple[str, Value], ...], tuple[int, ...]]
"""Executable, parameters and CPUs: visits with the same key and seed use the same layout."""


class _Worker(NamedTuple):
    """A waiting process, with the seed of its layout and its memory in bytes."""

    child: Child
    seed: int
    bytes: int


class WorkerPool:
    """Waiting processes by layout, the longest waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[LayoutKey, _Worker] = {}

    def __contains__(self, key: LayoutKey) -> bool:
        return key in self._waiting

    def get(self, key: LayoutKey, seed: int) -> Child | None:
        """Returns the process of this layout and removes it from the pool; None if there is none. A process with
        another seed ends, since its layout is obsolete."""
        worker = self._waiting.pop(key, None)
        if worker and worker.seed != seed:
            worker.child.end()
            return None
        return worker.child if worker else None

    def put(self, key: LayoutKey, seed: int, child: Child) -> None:
        """Keeps a process for the next visit of its layout. The longest waiting processes end if all together use too
        much memory."""
        resident_bytes = child.resident_bytes()
        allowed_bytes = _MOST_HELD * _memory_bytes() - resident_bytes
        held = sum(other.bytes for other in self._waiting.values())
        while self._waiting and (held > allowed_bytes or len(self._waiting) >= _most_workers()):
            oldest = self._waiting.pop(next(iter(self._waiting)))
            oldest.child.end()
            held -= oldest.bytes
        if allowed_bytes < 0:
            child.end()
        else:
            self._waiting[key] = _Worker(child, seed, resident_bytes)

    def close(self) -> None:
        for worker in self._waiting.values():
            worker.child.end()
        self._waiting.clear()


def _most_workers() -> int:
    """Returns the number of workers whose pipes this process may hold; 1 if the system does not report the limit."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    return max(1, min(_MOST_WORKERS, (files - _FILES_OF_THE_HOST) // _FILES_EACH))


@cache
def _memory_bytes() -> float:
    """Returns the memory in bytes of the machine, or of a control group with a lower limit."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), control_groups.memory_bytes())


# ---- visits ----------------------------------------------------------------------------------------------------------


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


class Local(Target):
    """A target for this machine. One resident process serves all visits of a layout. pool: the waiting processes."""

    name: str = "local"
    keeps_residents = True

    def __init__(self) -> None:
        self._child: Child | None = None
        self._is_asked_to_stop = False
        self.pool = WorkerPool()
        self._forking: dict[str, Child] = {}

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            ended, requested = self._visited(executable, visit)
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        finally:
            # Reset after the visit and not before: an interrupt since the previous visit applies to this one.
            self._is_asked_to_stop = False
        return closed(ended.output, visit, revision, trouble_of_visit(ended, requested, _usual_s(requested)))

    def _visited(self, executable: str, visit: Visit) -> tuple[Ended, Visit]:
        """Makes a visit in the resident process of its layout if there is one, else in a new process; a counting target
        has a process for each visit. Returns how the visit ended, and the visit as requested, whose remaining budget
        excludes the set-up time."""
        began = time.monotonic()
        if visit.forks and self.keeps_residents:
            return self._forked(executable, visit), visit
        if not self.keeps_residents:
            return self._finish(self._command(executable, words(visit)), patience_s(visit, _usual_s(visit))), visit
        key = (executable, visit.point.parameters, visit.cpus)
        child = self.pool.get(key, visit.seed)
        if child is None and visit.sets_up_first:
            # A process sets up the layout on the visit's CPU. What the system accounts to a visit then does not depend
            # on whether it is the layout's first: a visit with its own set-up had up to 10 % more page faults.
            child = self._started(executable)
            self._answer(child, [*words(visit), f"--ahead={visit.cpus[0]}"], patience_s(visit, _usual_s(visit)))
        visit = later(visit, began)
        limit_s = patience_s(visit, _usual_s(visit))
        ended = self._answer(child, words(visit), limit_s) if child and child.is_alive else None
        if child is None or ended is None:
            child = self._started(executable)
            ended = self._answer(child, words(visit), limit_s)
        if child.is_alive:
            self.pool.put(key, visit.seed, child)
        return ended or child.finish(limit_s), visit

    def _forked(self, executable: str, visit: Visit) -> Ended:
        """Makes a visit in a child of the process that makes all forked visits of this executable. Returns how it
        ended."""
        limit_s, ended = patience_s(visit, _usual_s(visit)), None
        while ended is None:
            child = self._forking.get(executable)
            if child is None or not child.is_alive:
                command = self._command(executable, ("--visits",))
                child = self._forking[executable] = Child(command, listens=True, answers_with=ends_stream)
            ended = self._answer(child, words(visit), limit_s)
        return ended

    def _answer(self, child: Child, request: Sequence[str], limit_s: float) -> Ended | None:
        with self._interruptible(child):
            return child.answer(" ".join(request), limit_s)

    @contextmanager
    def _interruptible(self, child: Child) -> Iterator[None]:
        """Makes a visit interruptible. A probe that is interrupted during its set-up takes no sample. If the signal
        ends it before its handler is installed, another process replaces it and is interrupted as well."""
        self._child = child
        if self._is_asked_to_stop:
            child.signal(signal.SIGINT)
        try:
            yield
        finally:
            self._child = None

    def _started(self, executable: str) -> Child:
        """Starts an executable. Raises OSError if it cannot be started."""
        return Child(self._command(executable, ("--stay",)), listens=True)

    def close(self) -> None:
        """Ends resident processes."""
        self.pool.close()
        for child in self._forking.values():
            child.end()

    def interrupt(self) -> None:
        self._is_asked_to_stop = True
        if self._child:
            self._child.signal(signal.SIGINT)

    def _answered(self, executable: str, option: str) -> Ended:
        return self._finish(self._command(executable, (option,)), self.asking_s)

    def _command(self, executable: str, arguments: Sequence[str]) -> list[str]:
        return [*native_command(executable), *arguments]

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        child = Child(command)
        with self._interruptible(child):
            return child.finish(limit_s)
