# SPDX-License-Identifier: Apache-2.0
"""The self-test: plants faults into copies of real probes, measures them as any run does, and reports the detection of
each."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter import catalog, commands
from tollmeter.conduct import Stopping
from tollmeter.judgement.verdict import discarded_share
from tollmeter.library.derive import open_run
from tollmeter.library.lies import HONEST, IN_JOURNALS, IN_PROBES, Lie, Untruth, finding_named
from tollmeter.library.measure import measured, no_observers
from tollmeter.library.options import Options
from tollmeter.library.prepare import Prepared, machine_of, plan_of
from tollmeter.model import Abi, Failure, Priority, Results, Select, Suite
from tollmeter.numbers.units import in_percent
from tollmeter.protocol import seal
from tollmeter.root import ROOT
from tollmeter.store.journal import NAME, streams
from tollmeter.store.request import Request
from tollmeter.targets import Lack
from tollmeter.toolchain.abis import for_cpu, read_abis
from tollmeter.toolchain.build import build_abi, find_compiler
from tollmeter.version import VERSION

_BUDGET_S, _SHORT_BUDGET_S = 90.0, 4.0
"""Budgets of the run with the faults, which ends when its unmodified probes have converged; and of the run beside a
neighbour."""
_SOON_REACHED, _NEVER_REACHED = 0.3, 1e-6
"""Precisions: a loop reaches the first within a quarter of a second, in which no neighbour can be noticed; none reaches
the second."""
_SEED = 4711
CAUGHT, OTHERWISE, PASSED, NOT_MEASURED = "caught", "caught otherwise", "passed", "not measured"
_MOST_DISCARDED = 0.05
"""Highest share of discarded samples of a loop that no other program disturbs."""
_SPIN = """
import os, time
os.sched_setaffinity(0, [{cpu}])
end = time.monotonic() + 30
while time.monotonic() < end and os.path.exists("/proc/{parent}"):
    for _ in range(100000): pass
"""


class CaughtPlant(NamedTuple):
    """The result of one planted fault. name, planted: name and description of the fault. outcome: `caught` for its own
    reason, `caught otherwise`, `passed` or `not measured`. by: the sentence."""

    name: str
    planted: str
    outcome: str
    by: str


def selftest(stopping: Stopping) -> Iterator[CaughtPlant]:
    """Yields each result when it is known. Raises Failure: 5 if nothing can be built, 1 if an unmodified probe is
    rejected."""
    with tempfile.TemporaryDirectory(prefix="toll-selftest.") as scratch:
        tree = Path(scratch) / "tree"
        _plant(tree, IN_PROBES)
        results = _measured(tree, Path(scratch) / "lies", _selects(IN_PROBES), _BUDGET_S, stopping)
        _check_honest(results)
        for lie in IN_PROBES:
            yield detection(lie, results)
        busy = Path(scratch) / "busy"
        yield _beside_a_neighbour(tree, busy, stopping)
        for untruth in IN_JOURNALS:
            yield _contradicted(untruth, busy)
        yield _cut(busy)


def detection(lie: Lie, results: Results) -> CaughtPlant:
    """Returns the result of a fault. results: results of a run that measured it."""
    by = lie.seen(results)
    if by is None:
        return CaughtPlant(lie.name, lie.planted, PASSED, "nothing")
    outcome = CAUGHT if lie.is_expected(by) else OTHERWISE
    return CaughtPlant(lie.name, lie.planted, outcome if lie.is_measured(results) else NOT_MEASURED, by)


# ---- planting -------------------------------------------------------------------------------------------------------


def _plant(tree: Path, lies: Sequence[Lie]) -> None:
    """Creates a checkout with only the planted faults and the probes measured with them, built for this machine's own
    ABI."""
    abi, compiler = _own_abi()
    (tree / "probes").mkdir(parents=True)
    for name in ("Makefile", "probes/probes.mk"):
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(ROOT / "probes/runtime", tree / "probes/runtime")
    for of in {*(lie.of for lie in lies), *HONEST}:
        family = tree / "probes" / of.partition("/")[0]
        if not family.exists():  # A copy of a read-only header cannot be written a second time.
            family.mkdir()
            for header in (ROOT / "probes" / family.name).glob("*.h"):
                shutil.copy2(header, family)
        if of in HONEST:
            shutil.copy2(ROOT / "probes" / of, family)
    for lie in lies:
        text = (ROOT / "probes" / lie.of).read_text(encoding="utf-8")
        for words, instead in lie.changes:
            if words not in text:
                raise Failure(f"the lie of the {lie.name} cannot be planted: probes/{lie.of} has changed", 5)
            text = text.replace(words, instead)
        (tree / "probes" / f"{lie.probe.replace('.', '/')}.c").write_text(text, encoding="utf-8")
    # The runtime is the same for all probes, and is compiled already.
    with contextlib.suppress(OSError):
        shutil.copytree(ROOT / "build" / abi.name / "obj/runtime", tree / "build" / abi.name / "obj/runtime")
        for name in ("obj/command", "libtoll.a"):
            shutil.copy2(ROOT / "build" / abi.name / name, tree / "build" / abi.name / name)
    build_abi(tree, abi, compiler)


def _own_abi() -> tuple[Abi, str]:
    reasons = []
    for abi in for_cpu(read_abis(ROOT / "abis").values(), platform.machine()):
        compiler = find_compiler(abi)
        if not isinstance(compiler, Lack):
            return abi, compiler
        reasons.append(f"{abi.name}: {compiler.reason}. {compiler.mend}")
    raise Failure(f"no probe can be compiled here: {'; '.join(reasons)}", 5)


# ---- measuring ------------------------------------------------------------------------------------------------------


def _selects(lies: Sequence[Lie]) -> list[Select]:
    honest = {_probe_of(of): parameters for of, parameters in HONEST.items()}
    parameters = honest | {lie.probe: lie.parameters for lie in lies}
    return [Select(probe=probe, parameters=dict(own), others="typical") for probe, own in parameters.items()]


def _probe_of(path: str) -> str:
    return path.removesuffix(".c").replace("/", ".")


def _measured(
    tree: Path, folder: Path, selects: list[Select], seconds: float, stopping: Stopping, *,
    priority: Priority = "real-time", precision: float = _SOON_REACHED,
) -> Results:  # fmt: skip
    """Measures a selection as any run does, and returns its results."""
    built = catalog.load_catalog(tree / "build", platform.machine())
    machine, clock = machine_of(built, ())
    request = Request(
        id=folder.name, suite=Suite(name="selftest", question="What passes for a number?", select=tuple(selects)),
        started=datetime.now(UTC).isoformat(timespec="seconds"), seed=_SEED, budget_seconds=seconds,
        tollmeter=VERSION, priority=priority, precision=precision,
    )  # fmt: skip
    ready = Prepared(request, built, machine, clock, plan_of(request, built, machine))
    options = Options((), None, None, None, None, folder, "table", quiet=True, began=time.monotonic(), beside=True)
    measured(ready, options, no_observers, stopping, in_passing=True)
    if stopping.asked:
        raise KeyboardInterrupt
    return open_run(folder)


def _check_honest(results: Results) -> None:
    for of in HONEST:
        probe = _probe_of(of)
        refused = next((row for row in results.index.rows if row.probe == probe and row.status != "ok"), None)
        if refused:
            raise Failure(f"{probe} was caught, and does not lie: {refused.reason}", 1)


def _beside_a_neighbour(tree: Path, folder: Path, stopping: Stopping) -> CaughtPlant:
    """Returns the result of a busy program on every CPU, which alternates with the measured loop. Samples in which it
    ran must be discarded; without scheduler delays as evidence, a finding must name it."""
    with contextlib.ExitStack() as stack:
        for cpu in os.sched_getaffinity(0):
            stack.enter_context(_neighbour(cpu))
        loop = Select(probe="kernel.loop", others="typical")
        results = _measured(
            tree, folder, [loop], _SHORT_BUDGET_S, stopping, priority="normal", precision=_NEVER_REACHED
        )
    name, planted = "busy neighbour", "a loop on each CPU while it is measured"
    share = discarded_share(results.index.rows)
    by = f"{in_percent(share)} of the samples were discarded" if share > _MOST_DISCARDED else None
    by = by or finding_named(results, "machine.other_programs_work")
    return CaughtPlant(name, planted, CAUGHT if by else PASSED, by or "nothing")


@contextlib.contextmanager
def _neighbour(cpu: int) -> Iterator[None]:
    """Starts a busy process outside this process's family, as another user's would be. It ends with this process, or by
    itself soon after."""
    script = _SPIN.format(parent=os.getpid(), cpu=cpu)
    words = ["sh", "-c", '"$@" > /dev/null 2>&1 & echo $!', "sh", sys.executable, "-I", "-c", script]
    started = commands.run("checkout", words, capture_output=True, check=True, text=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.kill(int(started.stdout), signal.SIGKILL)


def _contradicted(untruth: Untruth, folder: Path) -> CaughtPlant:
    """Returns the result of a journal fault, from a copy of the journal in which one visit is changed, with right
    checksums."""
    path = folder / NAME
    content = path.read_bytes()
    try:
        visit = next(stream for stream in streams(folder) if stream.is_visit and b'{"k":"sample"' in stream.text)
        records = [msgspec.json.decode(line.text) for line in visit.lines[:-1]]
        for record in records:
            untruth.change(record)
        sealed = seal([{key: value for key, value in record.items() if key not in "nc"} for record in records])
        path.write_bytes(content.replace(visit.text, sealed, 1))
        contradictions = open_run(folder).index.run.contradictions
        by = next(
            (sentence for sentence in contradictions if untruth.expects in sentence), next(iter(contradictions), None)
        )
    finally:
        path.write_bytes(content)
    outcome = PASSED if by is None else CAUGHT if untruth.expects in by else OTHERWISE
    return CaughtPlant(untruth.name, untruth.planted, outcome, by or "nothing")


def _cut(folder: Path) -> CaughtPlant:
    """Returns the result of a removed visit: opens the run after its second visit was taken out of the journal."""
    path = folder / NAME
    content = path.read_bytes()
    visits = [stream.text for stream in streams(folder) if stream.is_visit]
    path.write_bytes(content.replace(visits[len(visits) > 1], b"", 1))
    name, planted = "cut journal", "a visit that was taken out of the journal"
    try:
        open_run(folder)
    except Failure as failure:
        by = failure.sentence.rpartition(": ")[2]
        return CaughtPlant(name, planted, CAUGHT if "precede it" in by else OTHERWISE, by)
    return CaughtPlant(name, planted, PASSED, "nothing")
