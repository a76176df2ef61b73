# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on one machine: a controller and nodes in network namespaces, each node with a host name of its own.

The controller's namespace has a bridge; each node's namespace has one end of a cable to it. Nothing of it reaches the
machine's own network. Every process of a node is in the node's namespace, by which the tests find and stop it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.waiting import LONG_S, in_time

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "ip", "nsenter", "unshare")
_TICK_S = 0.02
_JOBS = "%i|%j|%T|%n|%N|%r"
NETWORK = "10.213.9"
REQUEUE_S = 20  # a requeued job waits as long: messages that end its first attempt would end its second (slurm.conf(5))
CONFIGURATION = """\
ClusterName=toll
SlurmctldHost=controller({network}.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={requeue_s}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
SlurmctldTimeout=30
SlurmdTimeout=5
MessageTimeout=5
KillWait=2
CompleteWait=0
MinJobAge=600
ReturnToService=2
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
"""


class Cluster:
    """folder: of the daemons. more: lines of slurm.conf. environment: of a command that asks this Slurm."""

    def __init__(self, folder: Path, nodes: Sequence[str], more: str) -> None:
        self.folder, self.nodes, self._more = folder, tuple(nodes), more
        self._tag = secrets.token_hex(3)
        self._spaces = [self.space("controller"), *map(self.space, nodes)]
        self._munged: subprocess.Popen[bytes] | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def space(self, host: str) -> str:
        return f"toll-{self._tag}-{host}"

    def within(self, host: str, *words: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.space(host)}", *words]

    def toll(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.ask(sys.executable, "-I", "-m", "tollmeter", *words)

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command beside the controller."""
        return subprocess.run(
            self.within("controller", *words), env=self.environment, capture_output=True, text=True, check=False,
            timeout=LONG_S,
        )  # fmt: skip

    # ---- its life ----

    def start(self) -> None:
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o700)
        (self.folder / "munge/key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge/key").chmod(0o400)
        places = enumerate(self.nodes, start=11)
        lines = [f"NodeName={node} NodeAddr={NETWORK}.{place} CPUs=1 RealMemory=100" for place, node in places]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, network=NETWORK, requeue_s=REQUEUE_S, nodes="\n".join(lines))
            + self._more
        )
        self._wire()
        self._munged = subprocess.Popen(
            ["munged", "--foreground", "--force", *(f"--{word}={self.folder}/munge/{file}" for word, file in _MUNGE)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert in_time((self.folder / "munge/socket").exists), "munged does not listen"
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        assert in_time(lambda: self.states().count("idle") == len(self.nodes)), self.states()

    def _wire(self) -> None:
        for space in self._spaces:
            ip(f"netns add {space}")
            ip(f"-n {space} link set lo up")
        hub = self._spaces[0]
        ip(f"-n {hub} link add hub type bridge")
        ip(f"-n {hub} address add {NETWORK}.1/24 dev hub")
        ip(f"-n {hub} link set hub up")
        for place, space in enumerate(self._spaces[1:], start=11):
            ip(f"link add v{self._tag}{place} netns {hub} type veth peer name eth0 netns {space}")
            ip(f"-n {hub} link set v{self._tag}{place} master hub up")
            ip(f"-n {space} address add {NETWORK}.{place}/24 dev eth0")
            ip(f"-n {space} link set eth0 up")

    def start_controller(self) -> None:
        self._start("controller", "slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"))

    def _start(self, host: str, *words: str) -> None:
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *words]
        self._daemons[host] = subprocess.Popen(
            self.within(host, *named), env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def states(self) -> list[str]:
        return self.ask("sinfo", "-h", "-N", "-o", "%T").stdout.split()

    def processes(self, host: str) -> list[int]:
        """Those in the host's network namespace."""
        space = Path("/run/netns") / self.space(host)
        return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _is_within(entry, space)]

    def kill(self, host: str) -> None:
        """Every process of a host at once, as a power cut does."""
        while pids := self.processes(host):
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            time.sleep(_TICK_S)
        self._daemons.pop(host).wait()

    @contextlib.contextmanager
    def without_node(self, node: str) -> Iterator[None]:
        """It loses power, and starts again."""
        self.kill(node)
        try:
            yield
        finally:
            self.start_node(node)

    @contextlib.contextmanager
    def without_controller(self) -> Iterator[None]:
        """An administrator ends it, and starts it again: it keeps its state."""
        daemon = self._daemons.pop("controller")
        daemon.terminate()
        daemon.wait()
        try:
            yield
        finally:
            self.start_controller()

    @contextlib.contextmanager
    def without_loopback(self, host: str) -> Iterator[None]:
        """No connection of the host to itself is made until the end."""
        ip(f"-n {self.space(host)} link set lo down")
        try:
            yield
        finally:
            ip(f"-n {self.space(host)} link set lo up")

    def told(self) -> str:
        """What Slurm says of nodes and jobs, for the message of a test that fails."""
        return self.ask("sinfo", "-N", "-o", "%N|%T|%E").stdout + self.ask("squeue", "-t", "all", "-o", _JOBS).stdout

    def stop_task(self, host: str) -> None:
        """What measures there stands still; Slurm's daemon goes on."""
        for pid in self.processes(host):
            with contextlib.suppress(OSError):
                if "toll-bundle" in os.readlink(f"/proc/{pid}/exe"):  # noqa: PTH115
                    _signal(pid, signal.SIGSTOP)

    def stop(self) -> None:
        """Until nothing of it is left."""
        for host in list(self._daemons):
            self.kill(host)
        if self._munged:
            self._munged.terminate()
            self._munged.wait()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)


_MUNGE = (
    ("socket", "socket"), ("key-file", "key"), ("log-file", "log"), ("pid-file", "pid"), ("seed-file", "seed"),
)  # fmt: skip


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_within(process: Path, space: Path) -> bool:
    with contextlib.suppress(OSError):
        return (process / "ns/net").samefile(space)
    return False


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


@contextlib.contextmanager
def running(nodes: Sequence[str], more: str = "") -> Iterator[Cluster]:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a Slurm is started by root, with {', '.join(PROGRAMS)}; missing: {', '.join(missing) or 'root'}")
    with tempfile.TemporaryDirectory(prefix="toll-fleet-") as folder:
        cluster = Cluster(Path(folder), nodes, more)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
