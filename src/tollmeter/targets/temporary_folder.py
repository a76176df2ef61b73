# SPDX-License-Identifier: Apache-2.0
"""A folder that is removed when this process ends for any reason, on this machine or on another.

A shell creates the folder, prints its path, and reads its standard input, which uses no CPU time and ends with this
process: the kernel closes the pipes of a killed process, and sshd those of a lost connection. Then the shell removes
the folder."""

from __future__ import annotations

import os
import select
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tollmeter import commands
from tollmeter.model import Failure
from tollmeter.protocol import clean

_MAKING_S, _REMOVING_S = 10.0, 5.0
_LONGEST_PATH = 4096
_USUAL = "/tmp"

# A process that ends at the same time may still create a file while the folder is emptied: it is emptied again.
_REMOVE = """for attempt in 1 2 3 4 5; do rm -rf "$folder" && break; sleep 1; done"""


def folder_script(template: str, before_removal: str = "") -> str:
    """Returns the script of a temporary folder. template: for mktemp, as sh expands it. before_removal: further
    commands, which may use $folder."""
    return f"""trap '' HUP INT TERM PIPE; folder=$(mktemp -d {template}) || exit 1; printf '%s\\n' "$folder"
read -r nothing; {before_removal}
{_REMOVE}"""


class TemporaryFolder:
    """A temporary folder. path: its path. Raises Failure with the command's output if it cannot be created."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        limit_s: float = _MAKING_S,
        *,
        origin: commands.Origin = "checkout",
    ) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), commands.PIPE)
        self._shell = commands.start(origin, command, bufsize=0, env=dict(environment), start_new_session=True, **pipes)
        self.path = Path(self._first_line(limit_s))

    @property
    def held(self) -> bool:
        return self._shell.poll() is None

    def __del__(self) -> None:
        """Closes a folder that is no longer referenced."""
        if "_shell" in vars(self):
            self.close()

    def close(self) -> None:
        """Waits, up to a limit, until the folder is removed."""
        self._shell.stdin.close()  # type: ignore[union-attr]
        try:
            self._shell.wait(_REMOVING_S)
        except commands.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()
        for pipe in (self._shell.stdout, self._shell.stderr):
            pipe.close()  # type: ignore[union-attr]

    def _first_line(self, limit_s: float) -> str:
        assert self._shell.stdout and self._shell.stderr
        line, deadline = b"", time.monotonic() + limit_s
        while not line.endswith(b"\n") and len(line) < _LONGEST_PATH:
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._shell.stdout.fileno(), _LONGEST_PATH) if ready else b""
            if not chunk:
                break
            line += chunk
        if line.startswith(b"/") and line.endswith(b"\n"):
            return os.fsdecode(line[:-1])
        self._shell.kill()
        self._shell.wait()
        os.set_blocking(self._shell.stderr.fileno(), False)
        complaint = line + (self._shell.stderr.read() or b"")
        self.close()
        raise Failure(clean(complaint.decode(errors="replace").strip())[:200] or "it does not answer", 5)


def scratch(prefix: str, most_bytes: int = _LONGEST_PATH) -> TemporaryFolder:
    """Returns a new temporary folder on this machine, in $TMPDIR; in /tmp if TMPDIR is not set, or its path is longer
    than most_bytes. prefix: beginning of the folder's name. Raises Failure if the folder cannot be created."""
    parent = os.environ.get("TMPDIR") or _USUAL
    template = shlex.quote(f"{parent if len(os.fsencode(parent)) <= most_bytes else _USUAL}/{prefix}XXXXXXXXXX")
    try:
        return TemporaryFolder(["sh", "-c", folder_script(template)], os.environ)
    except Failure as failure:
        raise Failure(f"no temporary folder can be made for the run: {failure.sentence}", 5) from failure
