# SPDX-License-Identifier: Apache-2.0
"""One connection of OpenSSH that many commands share (ControlMaster), with keys, jump hosts and names as the person has
them in their own configuration. Nobody is asked anything: what ssh would ask about is refused with a sentence.

The connection belongs to a process that dies with this one, whatever this one died of.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.targets.leash import leashed

LOST = 255
"""ssh's own exit status."""

_CONNECT_S = 15
_TICK_S = 0.02

_HOST = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9_.@:%\[\]-]{0,253}")
"""A name or an address, or USER@ in front of one. Nothing that ssh could take for an option."""

_SENTENCES = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its key is not the one that is known for it"),
    ("Host key verification failed", "its key is not known here: connect once with ssh, and look at it"),
    ("Permission denied", "it does not let this user in without a question"),
    ("Could not resolve hostname", "no machine has this name"),
    ("Connection refused", "nothing listens there"),
    ("timed out", "it does not answer"),
)


class Connection:
    """options: more words for ssh, before the host's name. Raises Failure for a name that is no host's."""

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        if not _HOST.fullmatch(host):
            raise Failure(f"{clean(host)!r} is no host's name: a letter or digit first, and no blank")
        if shutil.which("ssh") is None:
            raise Failure("no ssh here: apt-get install openssh-client", 5)
        self.host = host
        self._folder = Path(tempfile.mkdtemp(prefix="toll-ssh-"))
        self._socket = self._folder / "socket"
        self._options = ["-T", "-o", "BatchMode=yes", "-o", f"ControlPath={self._socket}", *options]
        self._master: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Connects where nothing is connected. Raises Failure with what ssh says against it."""
        if self._master and self._master.poll() is None:
            return
        alive = ["-o", f"ConnectTimeout={_CONNECT_S}", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
        said = self._folder / "said"
        with said.open("wb") as log:
            self._master = subprocess.Popen(
                leashed(["ssh", "-M", "-N", *alive, *self._options, self.host]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 2 * _CONNECT_S
        while not self._socket.exists():
            if self._master.poll() is not None:
                raise self.lost(said.read_bytes())
            if time.monotonic() > deadline:
                self.close()
                raise Failure(f"{self.host} cannot be reached: it does not answer", 5)
            time.sleep(_TICK_S)

    def command(self, script: str) -> list[str]:
        """Runs a script of sh over there. What the login shell is, is not known: sh is asked for by name."""
        return ["ssh", "-o", "ControlMaster=no", *self._options, self.host, f"exec sh -c {shlex.quote(script)}"]

    def run(self, script: str, given: bytes, limit_s: float) -> subprocess.CompletedProcess[bytes]:
        """Raises Failure where the connection is lost or the limit passes."""
        self.open()
        try:
            done = subprocess.run(self.command(script), input=given, capture_output=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{self.host} does not answer within {limit_s:g} s", 5) from error
        if done.returncode == LOST:
            raise self.lost(done.stderr)
        return done

    def lost(self, said: bytes) -> Failure:
        """What ssh said, as a sentence."""
        text = said.decode(errors="replace")
        known = next((sentence for sign, sentence in _SENTENCES if sign in text), None)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        reason = known or (str(clean(lines[-1]))[:200] if lines else "the connection was lost")
        return Failure(f"{self.host} cannot be reached: {reason}", 5)

    def close(self) -> None:
        if self._master:
            self._master.kill()
            self._master.wait()
            self._master = None
        shutil.rmtree(self._folder, ignore_errors=True)
