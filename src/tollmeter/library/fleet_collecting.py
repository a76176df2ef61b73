# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a submission have measured, while jobs run or after, and the runs made of it.

A node counts once: its first whole attempt. What is read is data, as for `toll import`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.files import read_regular
from tollmeter.library.fleet_jobs import JOURNALS, Submission, read_submission
from tollmeter.library.importing import request_of, write_run
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.store.capture import Capture, captured
from tollmeter.store.journal import NAME as JOURNAL
from tollmeter.targets import slurm

MEASURED = "measured"
_WHOLE = ("settled", "budget")
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING")
_ATTEMPT = re.compile(r"([0-9]{1,10})\.([0-9]{1,6})")
_SKEW_S = 30.0
"""More than a slow node takes to unpack the bundle."""
_SILENT_S = 60.0
_LEAST_FREE_BYTES = 1 << 20
_LOG_BYTES = 1 << 16
_MOST_FAILURES = 3


class Attempt(NamedTuple):
    """found: its journal, or None. trouble: why a journal cannot be read."""

    folder: Path
    found: Capture | None
    trouble: str

    @property
    def is_whole(self) -> bool:
        return self.found is not None and self.found.session.status in _WHOLE

    @property
    def visits(self) -> int:
        return len(self.found.visits) if self.found else 0


class NodeState(NamedTuple):
    """state: measured, running, waiting, partial (ended early), missing (no journal), damaged, refused, or unknown
    while Slurm is silent. attempt: the one that counts, or has most visits. remarks: sentences."""

    node: str
    state: str
    attempt: Attempt | None
    remarks: tuple[str, ...]
    run: Path | None = None


class _Scheduler(NamedTuple):
    """What Slurm knows: jobs by node, and nodes by name. gap: why it does not answer."""

    jobs: Mapping[str, slurm.Job]
    nodes: Mapping[str, slurm.Node]
    gap: str


def states(folder: Path) -> list[NodeState]:
    """One for each node. Raises Failure: 2 where the folder is no submission, 5 where it cannot be read."""
    submission = read_submission(folder)
    # Slurm first: a journal that is whole a moment later is seen, and a job that has ended has written all of its own.
    scheduler = _scheduler(submission)
    by_node = {node: _attempts(folder / JOURNALS / node) for node in submission.nodes}
    whole = {node: one for node, attempts in by_node.items() if (one := _counting(attempts))}
    others, full = _other_versions(whole), _is_full(folder)
    remarks = {node: others.get(node, []) if node in whole else full for node in submission.nodes}
    return [_state(node, submission, by_node[node], scheduler, remarks[node]) for node in submission.nodes]


def collect(folder: Path, out: Path) -> list[NodeState]:
    """The same, each measured node with its run below out: made now, or by an earlier call."""
    return [_with_run(state, out / state.node) if state.state == MEASURED else state for state in states(folder)]


def _with_run(state: NodeState, run: Path) -> NodeState:
    assert state.attempt is not None and state.attempt.found is not None
    if (run / JOURNAL).exists():
        return state._replace(run=run)
    path, found = state.attempt.folder / JOURNAL, state.attempt.found
    try:
        _imported(path, found, run)
    except Failure as failure:
        return state._replace(state="damaged", remarks=(*state.remarks, failure.sentence))
    except OSError as error:
        remark = f"its run cannot be written into {run}: {error.strerror}"
        return state._replace(state="not imported", remarks=(*state.remarks, remark))
    lost = (f"{found.lost} damaged streams are left out",) if found.lost else ()
    return state._replace(run=run, remarks=(*state.remarks, *lost))


def _imported(path: Path, capture: Capture, run: Path) -> None:
    """In place whole or not at all: a full disk or a killed process leaves no part of a run."""
    request = request_of(path, capture)
    if run.parent.is_symlink():
        raise Failure(f"{run.parent} is a link to another place", 5)
    run.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=".importing-", dir=run.parent))
    try:
        write_run(capture, request, half / run.name)
        (half / run.name).rename(run)
    finally:
        shutil.rmtree(half, ignore_errors=True)


# ---- attempts -------------------------------------------------------------------------------------------------------


def _attempts(folder: Path) -> list[Attempt]:
    """Of a node, in the order in which Slurm started them."""
    try:
        names = [name for name in os.listdir(folder) if _ATTEMPT.fullmatch(name)]  # noqa: PTH208  a name is enough
    except OSError:
        return []
    return [_attempt(folder / name) for name in sorted(names, key=lambda name: [int(part) for part in name.split(".")])]


def _attempt(folder: Path) -> Attempt:
    if not os.path.lexists(folder / JOURNAL):
        return Attempt(folder, None, "")
    try:
        return Attempt(folder, captured(folder / JOURNAL), "")
    except Failure as failure:
        return Attempt(folder, None, failure.sentence)


def _counting(attempts: list[Attempt]) -> Attempt | None:
    return next((attempt for attempt in attempts if attempt.is_whole), None)


def _other_versions(attempts: Mapping[str, Attempt]) -> dict[str, list[str]]:
    """Of the nodes whose executables or Tollmeter are not those of most nodes."""
    versions = {node: _version(attempt.found) for node, attempt in attempts.items() if attempt.found}
    counted = Counter(versions.values()).most_common()
    return {
        node: [
            f"it measured with another bundle (Tollmeter {version[0]}) than {counted[0][1]} of {len(versions)} nodes"
        ]
        for node, version in versions.items()
        if version != counted[0][0]
    }


def _version(capture: Capture) -> tuple[str, frozenset[str]]:
    builds = frozenset(msgspec.json.encode(build).decode() for build in capture.head.builds)
    return str(_requested(capture).get("tollmeter", "unknown"))[:40], builds


def _requested(capture: Capture) -> dict[str, object]:
    with contextlib.suppress(ValueError, RecursionError, StopIteration):
        request = clean(msgspec.json.decode(next(line.text for line in capture.first if line.kind == "request")))
        return request if isinstance(request, dict) else {}
    return {}


def _skew(attempt: Attempt, submitted: float) -> Iterator[str]:
    """The journal's start by the node's clock lies after the submission, and just after the file `started`, whose time
    is by the clock of the shared file system."""
    with contextlib.suppress(ValueError, OSError, OverflowError):
        assert attempt.found is not None
        began = datetime.fromisoformat(str(_requested(attempt.found).get("started"))).timestamp()
        stamped = (attempt.folder / "started").stat().st_mtime
        ahead, behind = began - stamped, max(submitted, stamped) - began
        if max(ahead, behind) > _SKEW_S:
            yield f"its clock is {max(ahead, behind):.0f} s {'ahead' if ahead > behind else 'behind'}"


def _failed(attempt: Attempt) -> list[str]:
    assert attempt.found is not None
    several = [f"{probe}: {reason}" for probe, reason in attempt.found.failures.items()]
    return [*several[:_MOST_FAILURES], *([f"{len(several)} probes failed"] if len(several) > _MOST_FAILURES else [])]


def _last_words(attempt: Attempt) -> Iterator[str]:
    with contextlib.suppress(OSError):
        text = read_regular(attempt.folder / "log", _LOG_BYTES).decode(errors="replace")
        messages = [line for line in text.splitlines() if line.startswith("bundle: ")]
        yield from [str(clean(line))[:200] for line in messages[-1:]]


def _is_full(folder: Path) -> list[str]:
    disk = os.statvfs(folder)
    return ["the disk of the shared folder is full"] if disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES else []


# ---- a node's state -------------------------------------------------------------------------------------------------


def _scheduler(submission: Submission) -> _Scheduler:
    if not submission.jobs:
        return _Scheduler({}, {}, "")
    try:
        jobs = {job.node: job for job in slurm.jobs(submission.name)}
        nodes = {node.name: node for node in slurm.nodes(None, ",".join(submission.nodes))}
        return _Scheduler(jobs, nodes, "")
    except Failure as failure:
        return _Scheduler({}, {}, failure.sentence)


def _state(
    node: str, submission: Submission, attempts: list[Attempt], scheduler: _Scheduler, remarks: list[str]
) -> NodeState:
    """remarks: what concerns a measured node (another bundle), or one that is not (a full disk)."""
    if whole := _counting(attempts):
        more = [f"{len(attempts)} attempts: the first whole one counts"] if len(attempts) > 1 else []
        return NodeState(node, MEASURED, whole, (*_failed(whole), *remarks, *_skew(whole, submission.submitted), *more))
    best = max(attempts, key=lambda one: one.visits, default=None)
    job = scheduler.jobs.get(node)
    if job and job.state in _RUNNING:
        return NodeState(node, "running", best, tuple(_silence(best)))
    if job and job.state in _WAITING:
        before = (f"an attempt before left {best.visits} visits",) if best else ()
        return NodeState(node, "waiting", best, (*_waits_for(job, scheduler.nodes.get(node)), *before))
    if scheduler.gap:
        return NodeState(node, "unknown", best, (scheduler.gap,))
    return _ended(node, submission, best, scheduler, remarks)


def _ended(
    node: str, submission: Submission, best: Attempt | None, scheduler: _Scheduler, remarks: list[str]
) -> NodeState:
    """Without a whole journal."""
    job, known = scheduler.jobs.get(node), scheduler.nodes.get(node)
    why = [*_why_ended(node, submission, job), *_unwell(known)]
    if best is None:
        state = "refused" if node in submission.refused else "missing"
        return NodeState(node, state, None, (*why, *remarks))
    why += [*_last_words(best), *remarks]
    if best.found:
        return NodeState(node, "partial", best, (*filter(None, [best.found.session.reason]), *why))
    return NodeState(node, "damaged" if best.trouble else "missing", best, (*filter(None, [best.trouble]), *why))


def _why_ended(node: str, submission: Submission, job: slurm.Job | None) -> Iterator[str]:
    if node in submission.refused:
        yield submission.refused[node]
    elif job:
        yield f"job {job.number}: {job.state}{f' ({job.reason})' if job.reason not in ('', 'None') else ''}"
    elif node in submission.jobs:
        number = submission.jobs[node]
        yield f"Slurm no longer knows its job: `sacct -j {number}`, if the site keeps accounts"


def _waits_for(job: slurm.Job, node: slurm.Node | None) -> Iterator[str]:
    yield f"job {job.number} waits: {job.reason}"
    if node and node.state != "idle":
        yield _condition(node)


def _unwell(node: slurm.Node | None) -> Iterator[str]:
    if node and (node.reason or node.state.rstrip("*~#!%$@^-") in ("down", "drained", "draining", "fail", "unknown")):
        yield _condition(node)


def _condition(node: slurm.Node) -> str:
    return f"the node is {node.state}{f' ({node.reason})' if node.reason else ''}"


def _silence(attempt: Attempt | None) -> Iterator[str]:
    if attempt is None:
        return
    with contextlib.suppress(OSError):
        silent_s = time.time() - (attempt.folder / JOURNAL).stat().st_mtime
        if silent_s > _SILENT_S:
            yield f"its journal has not grown for {silent_s:.0f} s"
