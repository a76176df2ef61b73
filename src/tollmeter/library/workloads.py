# SPDX-License-Identifier: Apache-2.0
"""Makes a probe of each workload of a suite, for every requested ABI that runs on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tollmeter import commands
from tollmeter.catalog import Catalog, Executable, read_suite
from tollmeter.files import untrusted
from tollmeter.library.places import ROOT
from tollmeter.model import Build, Failure, Select, Suite, Workload
from tollmeter.notices import notify
from tollmeter.protocol import description
from tollmeter.targets.local import native_command
from tollmeter.targets.ways import LOCAL, NATIVE
from tollmeter.toolchain.abis import known_abis, open_here
from tollmeter.toolchain.accepting import DESCRIBE_SECONDS
from tollmeter.toolchain.proven import fingerprint
from tollmeter.toolchain.workload_build import made


def with_workload_selections(suite: Suite) -> Suite:
    """Returns the suite with a selection for each of its workloads."""
    more = (Select(probe=_name(workload), abi=workload.abi, target=workload.target) for workload in suite.workload)
    return msgspec.structs.replace(suite, select=(*suite.select, *more))


def check_trusted_suites(words: Sequence[str], suites: Mapping[str, Suite]) -> None:
    """Raises Failure (2) for a suite file that was typed by its path, has commands, and is not trusted."""
    for word in words:
        if word in suites or not word.endswith(".toml") or "=" in word:
            continue
        theirs = read_suite(Path(word)).workload
        ours = [workload for suite in suites.values() for workload in suite.workload]
        if any(workload not in ours for workload in theirs) and (complaint := untrusted(Path(word))):
            raise Failure(complaint)


def with_workloads(loaded: Catalog, suite: Suite, requested_abis: Sequence[str], *, may_start: bool = True) -> Catalog:
    """Returns the catalog with the suite's workloads. requested_abis: ABIs that replace the workloads' own. may_start:
    if false, no workload is built. A workload that is not built is reported, and its row states why."""
    executables, broken = dict(loaded.executables), dict(loaded.broken)
    for workload in suite.workload:
        abis = dict.fromkeys(loaded.abis[0] if abi == NATIVE else abi for abi in requested_abis or workload.abi)
        for abi in filter(loaded.abis.__contains__, abis):
            try:
                path = ROOT / "build/workloads" / abi / _name(workload)
                if may_start:
                    path = made(ROOT, workload, known_abis(ROOT, [abi])[abi])
                elif not _is_described(path):
                    raise Failure(f"{path.name} is not built for {abi}, and a dry run starts no command of a suite", 5)
                executables[_name(workload), abi] = _executable(loaded, path, abi)
            except Failure as failure:
                notify(failure.sentence)
                broken[_name(workload), abi] = failure.sentence
    return msgspec.structs.replace(loaded, executables=executables, broken=broken)


def _name(workload: Workload) -> str:
    return f"workload.{workload.name}"


def _executable(loaded: Catalog, path: Path, abi: str) -> Executable:
    """Returns the executable of a workload, with the targets of other executables of its ABI."""
    other = next(executable for (_, of_abi), executable in loaded.executables.items() if of_abi == abi)
    probe, build = description(_described(path, other.target))
    whole = msgspec.convert({**msgspec.to_builtins(build), **fingerprint(path.read_bytes())}, Build)
    return msgspec.structs.replace(other, path=f"{path}", probe=probe, build=whole)


def _described(path: Path, target: str) -> bytes:
    """Returns the description that an executable prints; it is run once and the output stored."""
    description = path.with_name(f"{path.name}.describe")
    if _is_described(path):
        return description.read_bytes()
    if target == LOCAL:
        stream = _described_here(path)
    else:
        with contextlib.closing(open_here(ROOT, target)) as opened:
            opened.prepare([f"{path}"])
            stream = opened.describe(f"{path}")
    description.write_bytes(stream)
    return stream


def _is_described(path: Path) -> bool:
    description = path.with_name(f"{path.name}.describe")
    return path.is_file() and description.is_file()


def _described_here(path: Path) -> bytes:
    try:
        done: commands.CompletedProcess[bytes] = commands.run(
            "file", [*native_command(path), "--describe"], capture_output=True, timeout=DESCRIBE_SECONDS
        )
    except (OSError, commands.TimeoutExpired) as error:
        raise Failure(f"{path.name} cannot be asked what it is: {error}", 1) from error
    if done.returncode != 0:
        raise Failure(f"{path.name} does not describe itself: status {done.returncode}", 1)
    return done.stdout
