# SPDX-License-Identifier: Apache-2.0
"""Every system call that the runtime and the host use denied in turn: a sentence, or the right number.

The kernel's own filter denies them (seccomp(2)), as a sandbox does: the call is not there, or not permitted.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import platform
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from storm.ended import Ended, Tally, ended, ill
from tollmeter.model import Failure
from tollmeter.protocol import outcome

ROOT = Path(__file__).parents[2]
ERRORS = (errno.EPERM, errno.ENOSYS)
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_NO_FILTER = 99
_LOAD, _EQUAL, _RETURN, _ALLOW, _ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000

# By their numbers on x86_64 (asm/unistd_64.h). What no program can start without is left out: execve, mmap, exit.
CALLS = {
    "read": 0, "open": 2, "close": 3, "fstat": 5, "poll": 7, "mprotect": 10, "munmap": 11, "brk": 12,
    "rt_sigaction": 13, "rt_sigprocmask": 14, "ioctl": 16, "pread64": 17, "pipe": 22, "sched_yield": 24, "madvise": 28,
    "dup": 32, "dup2": 33, "nanosleep": 35, "setitimer": 38, "getpid": 39, "socketpair": 53, "clone": 56, "fork": 57,
    "vfork": 58, "wait4": 61, "kill": 62, "uname": 63, "fcntl": 72, "flock": 73, "fsync": 74, "ftruncate": 77,
    "getcwd": 79, "rename": 82, "mkdir": 83, "unlink": 87, "symlink": 88, "readlink": 89, "chmod": 90, "umask": 95,
    "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "getppid": 110, "setsid": 112,
    "sigaltstack": 131, "getpriority": 140, "sched_setparam": 142, "sched_setscheduler": 144,
    "sched_getscheduler": 145, "prctl": 157, "gettid": 186, "futex": 202, "sched_setaffinity": 203,
    "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "tgkill": 234, "waitid": 247, "openat": 257, "mkdirat": 258,
    "newfstatat": 262, "unlinkat": 263, "set_robust_list": 273, "utimensat": 280, "pipe2": 293, "prlimit64": 302,
    "getcpu": 309, "renameat2": 316, "getrandom": 318, "memfd_create": 319, "copy_file_range": 326, "statx": 332,
    "rseq": 334, "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439,
}  # fmt: skip
UNENDING = {"exit_group"}
"""A program that may not end does not: that it is ended by a deadline is the right end."""
PROBES = ("kernel.loop", "memory.ping_pong")
"""One that is alone, and one with a companion."""
HOST_CODES = {0, 1, 2, 5, 6}


def denying(call: str, error: int) -> Callable[[], None]:
    """For a child, before it becomes the program."""
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (_LOAD, 0, 0, 0),
            (_EQUAL, 0, 1, CALLS[call]),
            (_RETURN, 0, 0, _ERRNO | error),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program)

    def deny() -> None:
        head = ctypes.create_string_buffer(struct.pack("H6xQ", len(program) // 8, ctypes.addressof(steps)))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if libc.prctl(_SECCOMP, _FILTER, ctypes.byref(head)) != 0:
            os._exit(_NO_FILTER)

    return deny


def storm(seed: int, count: int) -> Tally:
    tally = Tally("denied system calls")
    if platform.machine() != "x86_64":
        return tally
    chosen = random.Random(seed).sample(sorted(CALLS), min(count, len(CALLS)))
    for call in chosen:
        for error, probe in itertools.product(ERRORS, PROBES):
            tally.one(f"{call} ({errno.errorcode[error]}), {probe}", _probe(call, error, probe))
        tally.one(f"{call}, toll run", _host(call))
    return tally


def _probe(call: str, error: int, probe: str) -> str | None:
    """A visit as a person could type it: a whole stream with a number or a reason, or an end that the host takes for a
    failure, which it tells."""
    words = [str(ROOT / "build/x86_64" / probe), "--samples=4", "--sample-ns=100000", "--deadline-ms=3000"]
    told = ended(words, 20, preexec_fn=denying(call, error))
    if told.code == _NO_FILTER:
        return "the kernel does not take the filter"
    if call in UNENDING:
        return None
    if told.code is None:
        return "it hung"
    try:
        found = outcome(told.out)
    except Failure as failure:
        return f"code 0 and no whole stream: {failure.sentence}" if told.code == 0 else None
    return None if found.samples or found.gauges or found.reason else "neither a number nor a sentence"


def _host(call: str) -> str | None:
    words = [str(ROOT / ".venv/bin/python"), "-I", "-m", "tollmeter", "run", "kernel.loop", "--budget", "1s", "--quiet"]
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name:
        told = ended([*words, "--out", f"{name}/run"], 60, preexec_fn=denying(call, errno.EPERM))
    if call in UNENDING:
        return None
    return ill(_without_pythons_own(told), HOST_CODES)


def _without_pythons_own(told: Ended) -> Ended:
    """An interpreter that cannot even start says so itself, before there is anything of ours."""
    before_us = (b"Fatal Python error: ", b"error while loading shared libraries", b"cannot allocate TLS")
    if told.code and any(mark in told.said for mark in before_us) and b"tollmeter" not in told.said:
        return Ended(5, told.out, b"python cannot be started")
    return told
