# SPDX-License-Identifier: Apache-2.0
"""The other end of a network: a probe that is started on another machine, over ssh, and serves while a run lasts."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.targets.ssh import Ssh

_STARTING_S, _ENDING_S = 20.0, 5.0
_MOST_BYTES = 4096


@contextmanager
def serving(host: str, executables: Sequence[str]) -> Iterator[str]:
    """The address of the first executable that serves on the host, as a probe reads it; empty where none was requested,
    or none serves. Raises Failure where the host cannot be reached, or does not serve."""
    if not host or not executables:
        yield ""
        return
    machine = Ssh(host)
    try:
        with machine.serve(executables[0]) as process:
            try:
                yield _place(host, process)
            finally:
                _end(process)
    finally:
        machine.close()


def _place(host: str, process: commands.Popen[bytes]) -> str:
    """ADDRESS,PORT,..."""
    answer = _first_lines(process)
    match = re.fullmatch(r"address ([0-9a-fA-F.:%\w]*)\nports((?:,\d{1,5})+)\n", answer)
    if match is None:
        raise Failure(f"--peer {host}: it does not serve: {clean(answer.strip())[:200] or 'it says nothing'}", 5)
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", match[1]):
        raise Failure(f"--peer {host}: ssh reaches it at {match[1] or 'no address'}, and an IPv4 address is needed", 5)
    return f"{match[1]}{match[2]}"


def _first_lines(process: commands.Popen[bytes]) -> str:
    """Two lines, or what came in their place until it ended."""
    assert process.stdout
    answer, deadline = b"", time.monotonic() + _STARTING_S
    while answer.count(b"\n") < 2 and len(answer) < _MOST_BYTES:
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        chunk = os.read(process.stdout.fileno(), _MOST_BYTES)
        if not chunk:
            break
        answer += chunk
    return answer.decode(errors="replace")


def _end(process: commands.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(_ENDING_S)
    except commands.TimeoutExpired:
        process.kill()
