# SPDX-License-Identifier: Apache-2.0
"""Collects the results of a submission's nodes, during or after its jobs; makes their runs; and judges which nodes of a
fleet differ from their peers.

A node counts once: its first complete attempt. Journals are untrusted data, as for `toll import`."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import exp, log
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.exit_codes import NOTHING_RAN
from tollmeter.files import own_folder, read_regular
from tollmeter.fleet import slurm
from tollmeter.fleet.jobs import JOURNALS, Submission, read_submission
from tollmeter.fleet.judged import HardwareModel, JudgedModel, judged_model
from tollmeter.fleet.matrix import is_dataset, read_fleet
from tollmeter.library import places
from tollmeter.library.bundling import request_of, write_run
from tollmeter.library.derive import add_to_dataset
from tollmeter.library.limits import Bound
from tollmeter.model import BEYOND, Failure
from tollmeter.notices import notify
from tollmeter.protocol import clean, lines_of
from tollmeter.report.compared_rows import full_name
from tollmeter.store.capture import Capture, Kept, captured
from tollmeter.store.journal import NAME as JOURNAL

MEASURED = "measured"
_COMPLETE = ("settled", "budget", BEYOND)
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING")
_UNWELL = ("down", "drained", "draining", "fail", "unknown")
"""States of a node that cannot run jobs, without the marks that Slurm appends."""
_ATTEMPT = re.compile(r"([0-9]{1,10})\.([0-9]{1,6})")
_SKEW_S = 30.0
"""Largest difference of clocks that is not reported: more than a slow node takes to unpack the bundle."""
_SILENT_S = 60.0
"""Seconds without growth of a running node's journal from which this is reported."""
_LEAST_FREE_BYTES = 1 << 20
_LOG_BYTES = 1 << 16
_MOST_FAILURES = 3


class CollectAttempt(NamedTuple):
    """One attempt of a node. capture: its journal, or None. trouble: why the journal cannot be read."""

    folder: Path
    capture: Capture | None
    trouble: str

    @property
    def visits(self) -> int:
        return self.capture.visits if self.capture else 0


class NodeState(NamedTuple):
    """The progress of a node. state: measured, running, waiting, partial (ended early), missing (no journal), damaged,
    refused, or unknown while Slurm does not answer. attempt: the attempt that counts, or the one with most visits.
    remarks: sentences."""

    node: str
    state: str
    attempt: CollectAttempt | None
    remarks: tuple[str, ...]
    run: Path | None = None


class _Scheduler(NamedTuple):
    """Slurm's state: jobs by node, and nodes by name. gap: why Slurm does not answer."""

    jobs: Mapping[str, slurm.Job]
    nodes: Mapping[str, slurm.Node]
    gap: str


def node_states(folder: Path) -> list[NodeState]:
    """Returns the state of each node. Raises Failure: 2 if the folder is not a submission, 5 if it cannot be read."""
    submission = read_submission(folder)
    # Slurm is queried before the journals are read: a job that it reports as ended has written its whole journal.
    scheduler = _scheduler(submission)
    by_node = {node: _attempts(folder / JOURNALS / node) for node in submission.nodes}
    counting = {node: attempt for node, attempts in by_node.items() if (attempt := _first_complete(attempts))}
    others = _other_versions(counting)
    disk = os.statvfs(folder)
    is_full = disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES
    full = ["the disk of the shared folder is full"] if is_full else []
    return [
        _measured(node, attempt, submission, by_node[node], others.get(node, []))
        if (attempt := counting.get(node))
        else _unmeasured(node, submission, by_node[node], scheduler, full)
        for node in submission.nodes
    ]


def collect_runs(folder: Path, out: Path) -> list[NodeState]:
    """Returns the state of all nodes, and places the run of each measured node below `out`, unless an earlier
    call did."""
    return [_with_run(state, out / state.node) if state.state == MEASURED else state for state in node_states(folder)]


def _with_run(state: NodeState, run: Path) -> NodeState:
    """Returns the state with its run folder, written completely or not at all: a full disk or a killed process leaves
    no incomplete run."""
    assert state.attempt is not None and state.attempt.capture is not None
    if (run / JOURNAL).exists():
        return state._replace(run=run)
    journal = state.attempt.folder / JOURNAL
    try:
        own_folder(run.parent.parent, run.parent.name)
        with Kept() as kept:
            capture = captured(journal, kept.add)
            write_run(capture, kept, request_of(journal, capture), run)
    except Failure as failure:
        is_unwritten = isinstance(failure.__cause__, OSError)
        return state._replace(
            state="not imported" if is_unwritten else "damaged", remarks=(*state.remarks, failure.sentence)
        )
    except OSError as error:
        remark = f"its run cannot be written into {run}: {error.strerror}"
        return state._replace(state="not imported", remarks=(*state.remarks, remark))
    lost = (f"{capture.session.lost} damaged streams are left out",) if capture.session.lost else ()
    return state._replace(run=run, remarks=(*state.remarks, *lost))


# ---- attempts -------------------------------------------------------------------------------------------------------


def _attempts(folder: Path) -> list[CollectAttempt]:
    """Returns the attempts of a node, in the order in which Slurm started them."""
    try:
        names = [name for name in os.listdir(folder) if _ATTEMPT.fullmatch(name)]  # noqa: PTH208  a name is enough
    except OSError:
        return []
    attempts = []
    for name in sorted(names, key=lambda name: [int(part) for part in name.split(".")]):
        capture, trouble = None, ""
        if os.path.lexists(folder / name / JOURNAL):
            try:
                capture = captured(folder / name / JOURNAL)
            except Failure as failure:
                trouble = failure.sentence
        attempts.append(CollectAttempt(folder / name, capture, trouble))
    return attempts


def _first_complete(attempts: list[CollectAttempt]) -> CollectAttempt | None:
    complete = (
        attempt for attempt in attempts if attempt.capture is not None and attempt.capture.session.status in _COMPLETE
    )
    return next(complete, None)


def _other_versions(attempts: Mapping[str, CollectAttempt]) -> dict[str, list[str]]:
    """Returns remarks by node, for nodes whose executables or Tollmeter version differ from those of most nodes."""
    versions = {}
    for node, attempt in attempts.items():
        assert attempt.capture is not None
        builds = frozenset(msgspec.json.encode(build) for build in attempt.capture.head.builds)
        versions[node] = str(_requested(attempt.capture).get("tollmeter", "unknown"))[:40], builds
    if not versions:
        return {}
    (most, count), *_ = Counter(versions.values()).most_common()
    return {
        node: [f"it measured with another bundle (Tollmeter {version[0]}) than {count} of {len(versions)} nodes"]
        for node, version in versions.items()
        if version != most
    }


def _requested(capture: Capture) -> dict[str, object]:
    with contextlib.suppress(ValueError, RecursionError, StopIteration):
        request = clean(
            msgspec.json.decode(next(line.text for line in lines_of(capture.first) if line.kind == "request"))
        )
        return request if isinstance(request, dict) else {}
    return {}


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


def _measured(
    node: str, attempt: CollectAttempt, submission: Submission, attempts: list[CollectAttempt], remarks: list[str]
) -> NodeState:
    """Returns the state of a measured node. attempts: all of its attempts. remarks: a sentence if it measured with
    another bundle than most nodes."""
    assert attempt.capture is not None
    failures = [f"{probe}: {reason}" for probe, reason in attempt.capture.failures.items()]
    more = [f"{len(failures)} probes failed"] if len(failures) > _MOST_FAILURES else []
    retried = [f"{len(attempts)} attempts: the first whole one counts"] if len(attempts) > 1 else []
    skew = _skew(attempt.folder, _requested(attempt.capture), submission.submitted)
    return NodeState(node, MEASURED, attempt, (*failures[:_MOST_FAILURES], *more, *remarks, *skew, *retried))


def _skew(folder: Path, requested: Mapping[str, object], submitted: float) -> Iterator[str]:
    """Yields remarks on the node's clock. The journal's start by the node's clock must be after the submission, and
    just after the time of the file `started`, which is by the clock of the shared file system."""
    with contextlib.suppress(ValueError, OSError, OverflowError):
        began = datetime.fromisoformat(str(requested.get("started"))).timestamp()
        stamped = (folder / "started").stat().st_mtime
        ahead, behind = began - stamped, max(submitted, stamped) - began
        if max(ahead, behind) > _SKEW_S:
            yield f"its clock is {max(ahead, behind):.0f} s {'ahead' if ahead > behind else 'behind'}"


def _unmeasured(
    node: str, submission: Submission, attempts: list[CollectAttempt], scheduler: _Scheduler, full: list[str]
) -> NodeState:
    """Returns the state of a node without a complete journal. full: a sentence if the shared disk is full, else
    empty."""
    best = max(attempts, key=lambda attempt: attempt.visits, default=None)
    job, machine = scheduler.jobs.get(node), scheduler.nodes.get(node)
    if job and job.state in _RUNNING:
        return NodeState(node, "running", best, tuple(_silence(best)))
    if job and job.state in _WAITING:
        waits = [f"job {job.number} waits: {job.reason}"]
        waits += [_condition(machine)] if machine and machine.state != "idle" else []
        waits += [f"an attempt before left {best.visits} visits"] if best else []
        return NodeState(node, "waiting", best, tuple(waits))
    if scheduler.gap:
        return NodeState(node, "unknown", best, (scheduler.gap,))
    why = [*_why_ended(node, submission, job)]
    if machine and (machine.reason or machine.state.rstrip("*~#!%$@^-") in _UNWELL):
        why.append(_condition(machine))
    if best is None:
        return NodeState(node, "refused" if node in submission.refused else "missing", None, (*why, *full))
    why += [*_last_words(best.folder), *full]
    if best.capture:
        return NodeState(node, "partial", best, (*filter(None, [best.capture.session.reason]), *why))
    return NodeState(node, "damaged" if best.trouble else "missing", best, (*filter(None, [best.trouble]), *why))


def _why_ended(node: str, submission: Submission, job: slurm.Job | None) -> Iterator[str]:
    if node in submission.refused:
        yield submission.refused[node]
    elif job:
        yield f"job {job.number}: {job.state}{f' ({job.reason})' if job.reason not in ('', 'None') else ''}"
    elif node in submission.jobs:
        number = submission.jobs[node]
        yield f"Slurm no longer knows its job: `sacct -j {number}`, if the site keeps accounts"


def _last_words(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        text = read_regular(folder / "log", _LOG_BYTES).decode(errors="replace")
        messages = [line for line in text.splitlines() if line.startswith("bundle: ")]
        yield from [str(clean(line))[:200] for line in messages[-1:]]


def _condition(node: slurm.Node) -> str:
    return f"the node is {node.state}{f' ({node.reason})' if node.reason else ''}"


def _silence(attempt: CollectAttempt | None) -> Iterator[str]:
    if attempt is None:
        return
    with contextlib.suppress(OSError):
        silent_s = time.time() - (attempt.folder / JOURNAL).stat().st_mtime
        if silent_s > _SILENT_S:
            yield f"its journal has not grown for {silent_s:.0f} s"


# ---- machines beside their peers ------------------------------------------------------------------------------------


def judged_machines(names: Sequence[str], bounds: Sequence[Bound] = ()) -> list[JudgedModel]:
    """Returns one answer for each hardware model, the largest first. names: one dataset, or runs; unreadable ones are
    left out. bounds: absolute limits of rows. Raises Failure: 2 if a name is neither, 5 if nothing is readable, 6 if
    no row can be judged."""
    if len(names) == 1 and is_dataset(Path(names[0])):
        return _judged(read_fleet(Path(names[0])), bounds)
    failures: list[tuple[str, Failure]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            try:
                add_to_dataset(places.find_run(name), Path(scratch), ("rows", "machines"))
            except Failure as failure:
                failures.append((name, failure))
        is_empty = len(failures) == len(names)
        for name, why in failures[is_empty:]:
            notify(f"{name} is left out: {why.sentence}")
        if is_empty:
            raise failures[0][1]
        return _judged(read_fleet(Path(scratch)), bounds)


def _judged(models: Sequence[HardwareModel], bounds: Sequence[Bound]) -> list[JudgedModel]:
    if not models[0].rows:
        raise Failure("no machine has a row with an interval: measure with a longer --budget", NOTHING_RAN)
    answers = []
    for model in models:
        broken = tuple(_broken(model, bounds))
        answers.append(replace(judged_model(model), broken=broken))
    if all(answer.spread.nodes.max() < 2 for answer in answers):
        alike = "no two machines of one CPU, kernel and caches have a row in common"
        raise Failure(f"{alike}: run one suite on several of them", NOTHING_RAN)
    return answers


def _broken(model: HardwareModel, bounds: Sequence[Bound]) -> Iterator[tuple[str, str]]:
    """Yields each node with a row whose whole interval is beyond a limit, and the row in words."""
    for bound in (bound.on(model.machine) for bound in bounds):
        for place, row in enumerate(model.rows):
            level = bound.level(full_name(row), row.unit)
            if level is None:
                continue
            for node, value, half in zip(model.nodes, model.values[place], model.halves[place], strict=True):
                if value - half > log(level) if bound.is_most else value + half < log(level):
                    yield node, bound.sentence(full_name(row), exp(float(value)), row.unit)
