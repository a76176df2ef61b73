# SPDX-License-Identifier: Apache-2.0
"""Checks of an executable before it measures: it has its ABI, describes itself, and uses known units and meanings."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from tollmeter import commands
from tollmeter.model import UNITS, Abi, Failure, Probe
from tollmeter.protocol import Damaged, clean, description
from tollmeter.targets import native_loader
from tollmeter.toolchain import elf, floats

DESCRIBE_SECONDS = 20
MEANINGS_PAGE = "docs/add-a-probe.md"


def accept(root: Path, path: Path, abi: Abi) -> bool:
    """Proves one executable and keeps its description. False where this machine cannot run the ABI.

    Raises Failure where it is not what its ABI file promises, or does not describe itself as a probe must."""
    elf.prove(path, abi.elf)
    floats.prove(path, abi)
    description = path.with_name(f"{path.name}.describe")
    if description.exists() and description.stat().st_mtime_ns > path.stat().st_mtime_ns:
        return True
    description.unlink(missing_ok=True)
    stream = _describe(path)
    if stream is None:
        return False
    check_description(root, path, abi, stream)
    write(description, stream)
    return True


def check_description(root: Path, path: Path, abi: Abi, stream: bytes) -> None:
    """Raises Failure (1) where it describes another probe, or has an unknown unit or meaning."""
    try:
        probe, build = description(stream)
    except Damaged as error:
        raise Failure(f"{abi.name}/{path.name} does not describe itself: {error}", 1) from error
    if (probe.probe, build.abi) != (path.name, abi.name):
        raise Failure(f"{abi.name}/{path.name} calls itself {probe.probe} for {build.abi}", 1)
    _check_metrics(probe, meanings(root))


def _check_metrics(probe: Probe, known: frozenset[str]) -> None:
    for metric in probe.metrics:
        if metric.unit not in UNITS:
            raise Failure(f"{probe.probe}: {metric.name} has the unit {metric.unit!r}; there are {' '.join(UNITS)}", 1)
        if metric.means is not None and known and metric.means not in known:
            raise Failure(
                f"{probe.probe}: {metric.name} has the meaning {metric.means!r}, which {MEANINGS_PAGE} does not "
                "name: add it there with the analysis that reads it, or leave it out",
                1,
            )


def meanings(root: Path) -> frozenset[str]:
    """The meanings that a metric may have, from the first column of the document's table: `a` `b-…` `c-…` are a, b- and
    c- with a's ending. Empty where there is no document, as in a wheel, whose probes are all ours."""
    page = root / MEANINGS_PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    names: set[str] = set()
    for row in re.findall(r"^\| ((?:`[^`]+`[, ]*)+) \|", text, re.MULTILINE):
        words = re.findall(r"`([^`]+)`", row)
        ending = words[0].partition("-")[2]
        names |= {word.replace("…", ending) for word in words}
    return frozenset(names)


def _describe(path: Path) -> bytes | None:
    """The description that an executable prints, or None where the kernel does not know its format."""
    name = f"{path.parent.name}/{path.name}"
    try:
        done: commands.CompletedProcess[bytes] = commands.run(
            "checkout", [*native_loader.command(path), "--describe"], capture_output=True, timeout=DESCRIBE_SECONDS
        )
    except commands.TimeoutExpired as error:
        raise Failure(f"{name} --describe does not end", 1) from error
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            return None
        raise Failure(f"{name} cannot be started: {error.strerror}", 5) from error
    if done.returncode != 0:
        message = clean(done.stderr.decode(errors="replace").strip())
        raise Failure(f"{name} {message or f'--describe ends with status {done.returncode}'}", 1)
    return done.stdout


def write(path: Path, content: bytes) -> None:
    """Whole or not at all: a reader never meets half a file. Safe in several threads."""
    half = path.with_name(f"{path.name}.half")
    half.write_bytes(content)
    half.replace(path)
