# SPDX-License-Identifier: Apache-2.0
"""Nodes, jobs and submission by Slurm's own commands. No accounting database is needed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import NamedTuple

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.protocol import clean

_LIMIT_S = 60.0
_NODE_FIELDS, _JOB_FIELDS = "%N|%T|%P|%E", "%i|%T|%n|%N|%r"


class Node(NamedTuple):
    """A node of Slurm. state: as sinfo prints it, including `down*`. reason: given by an administrator or Slurm; empty
    for none."""

    name: str
    state: str
    reason: str


class Job(NamedTuple):
    """A job of Slurm. node: node on which it runs, or for which it waits."""

    number: int
    state: str
    node: str
    reason: str


def nodes(partition: str | None, names: str | None = None) -> list[Node]:
    """Returns the nodes of a partition, or of Slurm's default; names: a list such as node[1-3]. Raises Failure (5) if
    Slurm does not answer."""
    chosen = [*(["-p", partition] if partition else []), *(["-n", names] if names else [])]
    rows = _rows(_asked(["sinfo", "-h", "-N", "-o", _NODE_FIELDS, *chosen]), 4)
    default = [row for row in rows if row[2].endswith("*")] if not partition and not names else []
    by_name = {
        name: Node(name, state, "" if reason == "none" else reason) for name, state, _, reason in default or rows
    }
    return list(by_name.values())


def partitions() -> list[str]:
    return _asked(["sinfo", "-h", "-o", "%R"]).split()


def host_names(names: str) -> list[str]:
    """Returns a list such as node[1-3],other as single names. Raises Failure (2) with Slurm's message."""
    return list(dict.fromkeys(_asked(["scontrol", "show", "hostnames", names], exit_code=2).split()))


def jobs(name: str) -> list[Job]:
    """Returns jobs with this name, the newest last, including ended jobs that the controller remembers."""
    rows = _rows(_asked(["squeue", "-h", "-a", "-t", "all", "-n", name, "-o", _JOB_FIELDS]), 5)
    by_id = [
        Job(int(number), state, on or asked, reason) for number, state, asked, on, reason in rows if number.isdigit()
    ]
    return sorted(by_id)


def submitted(script: str, words: Sequence[str] = ()) -> str:
    """Submits a job and returns its number. words: options of sbatch. Raises Failure (2) with sbatch's message."""
    return _asked(["sbatch", "--parsable", *words], script.encode(), exit_code=2).strip().partition(";")[0]


def _asked(words: Sequence[str], given: bytes = b"", *, exit_code: int = 5) -> str:
    """Runs a Slurm command and returns its output. given: its standard input. exit_code: exit code of the Failure if
    the command fails."""
    if shutil.which(words[0]) is None:
        raise Failure(f"there is no Slurm here: {words[0]} is not installed", 5)
    try:
        done = commands.run("typed", words, input=given, capture_output=True, timeout=_LIMIT_S)
    except commands.TimeoutExpired as error:
        raise Failure(f"{words[0]} does not answer within {_LIMIT_S:g} s: try `scontrol ping`", 5) from error
    if done.returncode == 0:
        return str(clean(done.stdout.decode(errors="replace"), "\n"))
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    sentence = "; ".join(line.split("error: ", 1)[-1].strip() for line in lines) or "it failed without a message"
    raise Failure(f"{words[0]}: {clean(sentence)[:300]}", exit_code)


def _rows(text: str, fields: int) -> list[list[str]]:
    rows = [line.split("|", fields - 1) for line in text.splitlines()]
    return [[cell.strip() for cell in row] for row in rows if len(row) == fields]
