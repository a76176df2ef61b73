# SPDX-License-Identifier: Apache-2.0
"""A suite's workloads among what is built: each a probe of its own, for every ABI that is asked for and runs here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tollmeter.catalog import Catalog, Executable
from tollmeter.library.places import ROOT
from tollmeter.model import Build, Failure, Select, Suite, Workload
from tollmeter.protocol import description
from tollmeter.saying import say
from tollmeter.targets.ways import LOCAL, NATIVE
from tollmeter.toolchain.abis import find, open_here
from tollmeter.toolchain.accepting import DESCRIBE_SECONDS
from tollmeter.toolchain.build import Gap, find_compiler
from tollmeter.toolchain.proven import fingerprint
from tollmeter.toolchain.workloads import made


def selected(suite: Suite) -> Suite:
    """The suite, with a selection for each of its workloads."""
    more = (Select(probe=_name(one), abi=one.abi, target=one.target) for one in suite.workload)
    return msgspec.structs.replace(suite, select=(*suite.select, *more))


def with_workloads(loaded: Catalog, suite: Suite, asked: Sequence[str]) -> Catalog:
    """asked: ABIs in place of the workloads' own. One that does not build is told of, and its row says so."""
    executables, broken = dict(loaded.executables), dict(loaded.broken)
    for workload in suite.workload:
        for abi in _abis(loaded, asked or workload.abi):
            try:
                executables[_name(workload), abi] = _executable(loaded, workload, abi)
            except Failure as failure:
                say(failure.sentence)
                broken[_name(workload), abi] = failure.sentence
    return msgspec.structs.replace(loaded, executables=executables, broken=broken)


def _name(workload: Workload) -> str:
    return f"workload.{workload.name}"


def _abis(loaded: Catalog, wanted: Sequence[str]) -> Iterator[str]:
    yield from dict.fromkeys(
        name for one in wanted if (name := loaded.abis[0] if one == NATIVE else one) in loaded.abis
    )


def _executable(loaded: Catalog, workload: Workload, abi: str) -> Executable:
    """It runs where the other executables of its ABI run."""
    like = next(one for (_, of_abi), one in loaded.executables.items() if of_abi == abi)
    known = find(ROOT, [abi]).abis[abi]
    compiler = find_compiler(known)
    if isinstance(compiler, Gap):
        raise Failure(f"{compiler.reason}: {compiler.mend}", 5)
    path = made(ROOT, workload, known, compiler)
    probe, build = description(_described(path, like.target))
    whole = msgspec.convert({**msgspec.to_builtins(build), **fingerprint(path)}, Build)
    return msgspec.structs.replace(like, path=f"{path}", probe=probe, build=whole)


def _described(path: Path, target: str) -> bytes:
    """What it says of itself, asked once."""
    told = path.with_name(f"{path.name}.describe")
    if told.is_file() and told.stat().st_mtime_ns > path.stat().st_mtime_ns:
        return told.read_bytes()
    stream = _asked_here(path) if target == LOCAL else _asked_there(path, target)
    told.write_bytes(stream)
    return stream


def _asked_here(path: Path) -> bytes:
    try:
        done = subprocess.run([path, "--describe"], capture_output=True, check=False, timeout=DESCRIBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{path.name} cannot be asked what it is: {error}", 1) from error
    if done.returncode != 0:
        raise Failure(f"{path.name} does not describe itself: status {done.returncode}", 1)
    return done.stdout


def _asked_there(path: Path, name: str) -> bytes:
    target = open_here(ROOT, name)
    try:
        target.prepare([f"{path}"])
        return target.describe(f"{path}")
    finally:
        target.close()
