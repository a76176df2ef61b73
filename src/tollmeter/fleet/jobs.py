# SPDX-License-Identifier: Apache-2.0
"""`toll fleet submit`: a bundle for every node, as one exclusive Slurm job each (docs/fleet.md); with `--hosts FILE` on
every host, over OpenSSH, which transfers the journal as it grows, so that a lost connection leaves a readable part.

DIR is on a file system that every node mounts at the same path:

    fleet.json                              what was submitted (Submission)
    bundle.sh  job.sh                       the payload, and the script of every job
    journals/NODE/JOB.RESTARTS/             of one attempt: `started`, `log`, journal.jsonl
    runs/NODE/                              of `toll fleet collect`"""

from __future__ import annotations

import contextlib
import math
import secrets
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import msgspec

from tollmeter import commands
from tollmeter.files import plain_name, read_regular, write_whole
from tollmeter.fleet import slurm
from tollmeter.library.bundling import FAST, BundleRequest, bundled, planned_s
from tollmeter.model import Failure, json_document
from tollmeter.notices import notify
from tollmeter.root import typed
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.targets.ssh import LOST, Connection, check_host
from tollmeter.version import VERSION

NAME, PAYLOAD, SCRIPT, JOURNALS = "fleet.json", "bundle.sh", "job.sh", "journals"
_MOST_BYTES = 64 << 20
MARGIN_S = 300
"""Seconds that the default time limit adds, for a node that unpacks slowly from a shared file system."""
_ENOUGH_REFUSED = 10
"""Number of first nodes that sbatch refuses after which submission ends: the options are then the reason."""
_FIRST_CHOICE = ("idle", "mixed", "allocated", "completing")

_JOB = """#!/bin/sh
{options}
# One node's job of `toll fleet submit`: sbatch --nodelist=NODE {script}
# A requeued job makes a new attempt. 30 s before the time limit Slurm interrupts it, and the journal keeps its visits.
attempt={folder}/{journals}/$SLURMD_NODENAME/$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
mkdir -p "$attempt" && : >"$attempt/started" || exit 5
exec sh {folder}/{payload} --out "$attempt" >"$attempt/log" 2>&1
"""


class Submission(msgspec.Struct):
    """A submission. name: name of its jobs. words: requested probes and suites. tollmeter: version. submitted: Unix
    time in seconds. nodes: names of nodes or hosts. jobs: first job number by node. refused: by node, why it has no job
    or no complete journal."""

    name: str
    words: tuple[str, ...]
    tollmeter: str
    submitted: float
    nodes: tuple[str, ...]
    jobs: dict[str, str] = {}
    refused: dict[str, str] = {}


def job_script(request: BundleRequest, folder: Path, name: str, *, partition: str | None, more: Sequence[str]) -> str:
    """Returns the script of a job. more: words for sbatch, such as a time limit. Raises Failure (2) for an option that
    contains a line end."""
    minutes = math.ceil((planned_s(request) + MARGIN_S) / 60)
    options = ["--nodes=1", "--exclusive", "--output=/dev/null", "--signal=B:INT@30"]
    options += [f"--job-name={name}", f"--time={minutes}"]
    options += [*([f"--partition={partition}"] if partition else []), *more]
    for option in options:
        if not option.isprintable():
            raise Failure(f"{option!r}: an option of sbatch has characters that cannot be printed")
    return _JOB.format(
        options="\n".join(f"#SBATCH {shlex.quote(option)}" for option in options),
        folder=shlex.quote(str(folder)), script=shlex.quote(str(folder / SCRIPT)), journals=JOURNALS, payload=PAYLOAD,
    )  # fmt: skip


def new_name() -> str:
    return f"toll-{secrets.token_hex(4)}"


def submit(
    request: BundleRequest, folder: Path, *, nodes: str | None, partition: str | None, more: Sequence[str]
) -> Submission:
    """Submits one job for each node, and returns the submission. nodes: a list such as node[1-3], a number of nodes, or
    None for all of the partition. Raises Failure: 2 if the folder is not empty, or sbatch refuses every node, 5 if
    there is no Slurm."""
    chosen = _chosen(nodes, partition)
    submission = Submission(new_name(), request.words, VERSION, time.time(), chosen)
    script = job_script(request, folder, submission.name, partition=partition, more=more)
    prepare(request, folder, submission)
    write_whole(folder / SCRIPT, script.encode())
    try:
        for node in chosen:
            try:
                submission.jobs[node] = slurm.submitted(script, [f"--nodelist={node}"])
            except Failure as failure:
                submission.refused[node] = failure.sentence
                if not submission.jobs and (node == chosen[-1] or len(submission.refused) == _ENOUGH_REFUSED):
                    raise
                notify(f"{node}: {failure.sentence}")
    finally:
        _keep(folder, submission)
    return submission


def prepare(request: BundleRequest, folder: Path, submission: Submission) -> None:
    """Creates the folder with the payload. Raises Failure: 2 if the folder is not empty, 5 if it cannot be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Failure(f"{folder} is not empty: each submission has a folder of its own")
    payload, _ = bundled(request._replace(preset=FAST), Path(PAYLOAD))
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PAYLOAD, payload)
    _keep(folder, submission)


def _keep(folder: Path, submission: Submission) -> None:
    write_whole(folder / NAME, json_document(submission))


def read_submission(folder: Path) -> Submission:
    """Returns the submission in a folder. Raises Failure: 2 if there is none, 5 if it cannot be read."""
    try:
        submission = msgspec.json.decode(read_regular(folder / NAME, _MOST_BYTES), type=Submission)
    except OSError as error:
        raise Failure(f"{folder} is not a folder of `{typed('fleet', 'submit')}`: {NAME}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{folder / NAME} cannot be read: {str(error)[:200]}", 5) from error
    if unsafe := [node for node in submission.nodes if plain_name(node) != node]:
        raise Failure(f"{folder / NAME}: {unsafe[0][:60]!r} is not a node name", 5)
    return submission


def _chosen(nodes: str | None, partition: str | None) -> tuple[str, ...]:
    """Returns the nodes to measure. Raises Failure (2) if there are none, or fewer than requested."""
    if nodes and not nodes.isdigit():
        return tuple(slurm.host_names(nodes))
    listed = slurm.nodes(partition)
    if not listed:
        known = ", ".join(slurm.partitions()) or "none"
        raise Failure(f"Slurm has no nodes in partition {partition or '(default)'}; its partitions: {known}")
    if not nodes:
        return tuple(node.name for node in listed)
    number = int(nodes)
    usable = [node for state in _FIRST_CHOICE for node in listed if node.state == state]
    if not 0 < number <= len(usable):
        raise Failure(f"--nodes {number}: {len(usable)} of {len(listed)} nodes are up")
    return tuple(node.name for node in usable[:number])


# ---- over ssh -------------------------------------------------------------------------------------------------------

_TICK_S = 0.2
_ATTEMPT = "1.0"

# Standard input is the payload, so the bundle's own is empty. The bundle prints its journal, and no answer.
_THERE = """folder=$(mktemp -d) || exit 5
trap 'rm -rf "$folder"' EXIT; trap 'exit 130' HUP INT TERM
cat >"$folder/bundle.sh" || exit 5
sh "$folder/bundle.sh" --out - </dev/null"""


def hosts_of(file: Path) -> tuple[str, ...]:
    """Returns the hosts of a file, one in each line, as ssh takes them; `#` begins a comment. Raises Failure (2)."""
    try:
        lines = [line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}") from error
    hosts = tuple(dict.fromkeys(filter(None, lines)))
    for host in hosts:
        check_host(host)
    if not hosts:
        raise Failure(f"{file} names no host: write one host in each line")
    if len(set(map(plain_name, hosts))) < len(hosts):
        raise Failure(f"{file}: two hosts would have one folder: {', '.join(sorted(map(plain_name, hosts)))}")
    return hosts


def measure_hosts(request: BundleRequest, folder: Path, hosts: Sequence[str], at_once: int) -> Submission:
    """Measures all hosts, and returns the submission when every host has ended. at_once: number of hosts that measure
    at the same time. Raises Failure: 2 if the folder is not empty, 5 if nothing can be built."""
    submission = Submission(new_name(), request.words, VERSION, time.time(), tuple(map(plain_name, hosts)))
    prepare(request, folder, submission)
    limit_s, stop = planned_s(request) + MARGIN_S, Event()
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(_measure, host, folder, limit_s, stop): host for host in hosts}
        try:
            waiting = set(running)
            while waiting:
                ended, waiting = wait(waiting, timeout=_TICK_S, return_when=FIRST_EXCEPTION)
                for future in ended:
                    if reason := future.result():
                        submission.refused[plain_name(running[future])] = reason
                        notify(f"{running[future]}: {reason}")
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            _keep(folder, submission)
    return submission


def _measure(host: str, folder: Path, limit_s: float, stop: Event) -> str:
    """Measures a host. Returns why it has no complete journal, or an empty text."""
    attempt = folder / JOURNALS / plain_name(host) / _ATTEMPT
    attempt.mkdir(parents=True)
    try:
        with contextlib.closing(Connection(host)) as connection:
            connection.open()
            return _streamed(connection, folder / PAYLOAD, attempt, limit_s, stop)
    except Failure as failure:
        return failure.sentence
    except OSError as error:
        return f"its journal cannot be written here: {error.strerror}"


def _streamed(connection: Connection, payload: Path, attempt: Path, limit_s: float, stop: Event) -> str:
    (attempt / "started").touch()
    with payload.open("rb") as given, (attempt / JOURNAL).open("xb") as journal, (attempt / "log").open("xb") as log:
        deadline = time.monotonic() + limit_s
        with commands.start(
            "typed", connection.command(_THERE), stdin=given, stdout=journal, stderr=log, env=connection.environment,
            start_new_session=True,
        ) as process:  # fmt: skip
            while process.poll() is None and time.monotonic() < deadline and not stop.wait(_TICK_S):
                pass
            is_late = process.poll() is None
            process.kill()
    if is_late:
        return "it was interrupted" if stop.is_set() else f"it did not end within {limit_s:.0f} s"
    if process.returncode == LOST:
        return connection.lost((attempt / "log").read_bytes()).sentence
    return f"its bundle ended with exit code {process.returncode}" if process.returncode else ""
