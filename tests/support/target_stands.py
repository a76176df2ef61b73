# SPDX-License-Identifier: Apache-2.0
"""Every kind of target with executables that misbehave on it, for one suite of tests of all targets.

If a target cannot run a script, tests/faults/rogue.c replaces it, compiled for the target. A target that this machine
lacks (no emulator, no compiler, no sshd) is skipped, with the missing requirement."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.fake_probes import fake
from support.waiting import LONG_S, in_time
from tollmeter.targets import qemu_system
from tollmeter.targets.boards import BOARDS
from tollmeter.targets.local import Local
from tollmeter.targets.qemu_system import Guest
from tollmeter.targets.qemu_user import QemuUser
from tollmeter.targets.ssh import Ssh
from tollmeter.targets.target import Target

ROOT = Path(__file__).parents[2]
ROGUE = ROOT / "tests/faults/rogue.c"
PROBE = "kernel.enter"
BEHAVIOURS = (
    "good", "garbage", "flood", "cut", "silent", "bad_exit", "crash", "closed_output", "deadline", "endless", "wrong",
    "skip", "other_visit", "hang", "orphan", "interruptible", "foreign",
)  # fmt: skip
# A boot takes seconds, and on a loaded machine more than the minute that a run grants it.
qemu_system.BOOT_S = LONG_S
NO_EXECUTABLE = b"\x7fELF" + bytes(60)


class Stand:
    """A target to test. make: returns the executable of a behaviour. alive: words of its process's command line, the
    first of them in the name of the executable.

    is_a_machine: whether this process serves several visits."""

    def __init__(self, target: Target, make: Callable[[str], Path], alive: tuple[str, ...]) -> None:
        self.target = target
        self.is_a_machine = target.name.startswith(("guest:", "bare:"))
        self.make = make
        self._alive = alive

    def is_asked(self) -> bool:
        """Returns whether a machine was asked for a visit; true for other targets, whose visit is a process of its
        own."""
        return not isinstance(self.target, Guest) or self.target._asked

    def processes(self) -> list[int]:
        """Returns the processes that run a visit now, without those that wait for one."""
        found = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_one(entry)}
        return sorted(found - self._waiting())

    def _waiting(self) -> set[int]:
        waiting = self.target.pool._waiting.values() if isinstance(self.target, Local) else ()
        return {worker.child._process.pid for worker in waiting}

    def left_behind(self) -> list[int]:
        """Returns the processes that still run a moment later: a killed process exists until its new parent has reaped
        it."""
        in_time(lambda: not self.processes())
        return self.processes()

    def _is_one(self, entry: Path) -> bool:
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return False
        return self._alive[0] in line.split("\0")[0] and all(word in line for word in self._alive)


# ---- executables --------------------------------------------------------------------------------------------------


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")


@functools.cache
def _rogue(compiler: str, folder: Path) -> bytes:
    out = folder / f"rogue.{compiler}"
    subprocess.run([compiler, "-O1", "-static", str(ROGUE), "-o", str(out)], check=True)
    return out.read_bytes()


def rogue(folder: Path, compiler: str, behaviour: str) -> Path:
    """Writes folder/BEHAVIOUR/x86_64/kernel.enter, the name by which it describes itself on any target, and returns its
    path."""
    path = folder / behaviour / "x86_64" / PROBE
    if not path.exists():
        path.parent.mkdir(parents=True)
        rogue = _rogue(compiler, folder) + f"\nbehaviour={behaviour}".encode()
        path.write_bytes(NO_EXECUTABLE if behaviour == "foreign" else rogue)
        path.chmod(0o755)
    return path


def emulator_file(name: str) -> Path:
    """Returns a file of build/emulator, made if it is missing, by one worker at a time."""
    made = ROOT / "build/emulator" / name
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-s", f"build/emulator/{name}"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"build/emulator/{name} cannot be made here")
    return made


# ---- places -------------------------------------------------------------------------------------------------------


def _fake(folder: Path, behaviour: str) -> Path:
    """Returns a script; for `foreign`, a file that is no executable."""
    path = fake(folder, PROBE, behaviour)
    if behaviour == "foreign":
        path.write_bytes(NO_EXECUTABLE)
    return path


@contextmanager
def local(folder: Path) -> Iterator[Stand]:
    with contextlib.closing(Local()) as target:
        yield Stand(
            target,
            lambda behaviour: _fake(folder / behaviour / "x86_64", behaviour),
            ("python", str(folder), "--stay"),
        )


@contextmanager
def documented(folder: Path) -> Iterator[Stand]:
    """Yields the target of docs/add-a-target.md."""
    page = (ROOT / "docs/add-a-target.md").read_text(encoding="utf-8")
    told: dict[str, Any] = {}
    exec(compile(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], "docs/add-a-target.md", "exec"), told)
    with contextlib.closing(told["Plain"]()) as target:
        yield Stand(
            target,
            lambda behaviour: _fake(folder / behaviour / "x86_64", behaviour),
            ("python", str(folder), "--visit="),
        )


@contextmanager
def qemu_user(folder: Path) -> Iterator[Stand]:
    need("qemu-arm", "arm-linux-gnueabi-gcc-12")
    target = QemuUser("arm", emulator_file("count.so"))
    yield Stand(
        target,
        lambda behaviour: rogue(folder, "arm-linux-gnueabi-gcc-12", behaviour),
        ("qemu-arm", str(folder), "--visit="),
    )


@contextmanager
def guest(folder: Path, name: str = "guest:x32", compiler: str = "gcc") -> Iterator[Stand]:
    """Yields a guest that boots once for all behaviours, unless one of them ends it."""
    need(BOARDS[name].emulator, compiler)
    target = Guest(name, emulator_file(BOARDS[name].ours).parent)
    target.prepare([str(rogue(folder, compiler, behaviour)) for behaviour in BEHAVIOURS])
    try:
        yield Stand(target, lambda behaviour: rogue(folder, compiler, behaviour), ("qemu-system", target.scratch.name))
    finally:
        target.close()


def ended(target: Guest, program: str, *words: str) -> tuple[int, bytes]:
    """Returns the status with which a program ends in a guest or on a board, and what it printed."""
    end = target._finish(program, words, LONG_S)
    return end.status, end.output


def bare(folder: Path) -> AbstractContextManager[Stand]:
    return guest(folder, "bare:vexpress-a9", "arm-linux-gnueabi-gcc-12")


@contextmanager
def ssh(folder: Path) -> Iterator[Stand]:
    """Yields a target over ssh, with a folder of its own that distinguishes its processes from those of other
    workers."""
    need("ssh", "ssh-keygen", "gcc")
    there = folder / "there"
    there.mkdir()
    with sshd(folder) as options:
        target = Ssh("127.0.0.1", [*options, "-o", f"SetEnv=TMPDIR={there}"])
        try:
            yield Stand(target, lambda behaviour: rogue(folder, "gcc", behaviour), (str(there), PROBE, "--visit="))
        finally:
            target.close()


@contextmanager
def sshd(folder: Path, port: int = 0, address: str = "127.0.0.1", within: Sequence[str] = ()) -> Iterator[list[str]]:
    """Starts a server on the loopback with its own keys, log and list of users, and yields the arguments for ssh.

    within: words of a command that starts the server elsewhere, where this process cannot test whether it listens.
    Concurrent workers choose their ports one after the other, each when the previous server has its port."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if server is None:
        pytest.skip("no sshd here: apt-get install openssh-server")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    _make_run_folder()
    with (ROOT / "build/ssh.lock").open("w") as choosing:
        fcntl.flock(choosing, fcntl.LOCK_EX)
        port = port or free_port()
        (folder / "known").write_text(f"[{address}]:{port} {(folder / 'host.pub').read_text()}")
        configuration = _configured(folder, address, port)
        command = [*within, server, "-D", "-e", "-f", str(configuration)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                if not within:
                    _await_port(port)
                fcntl.flock(choosing, fcntl.LOCK_UN)
                yield [
                    "-F", "none", "-p", str(port), "-i", f"{folder}/user", "-o", f"UserKnownHostsFile={folder}/known",
                    "-o", "GlobalKnownHostsFile=none", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
                ]  # fmt: skip
            finally:
                process.terminate()


def _configured(folder: Path, address: str, port: int) -> Path:
    configuration = folder / "sshd_config"
    configuration.write_text(
        f"Port {port}\nListenAddress {address}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nAcceptEnv TMPDIR\n"
    )
    return configuration


def servers(folder: Path) -> list[int]:
    """Returns the server of a folder, and the processes that it started for each connection."""
    told = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                told[int(entry.name)] = (int(parent), (entry / "cmdline").read_bytes().decode(errors="replace"))
    found = [pid for pid, (_, line) in told.items() if "sshd" in line and str(folder) in line]
    for pid in found:
        found += [other for other, (parent, line) in told.items() if parent == pid and "sshd" in line.split("\0")[0]]
    return found


def _make_run_folder() -> None:
    """Makes the empty folder that sshd requires when it runs as root, which its service would make."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _await_port(port: int) -> None:
    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    assert in_time(listens), "sshd does not listen"
