# SPDX-License-Identifier: Apache-2.0
"""One connection of OpenSSH that many commands share (ControlMaster), with keys, jump hosts and names from the user's
own configuration. It never prompts: where ssh would ask, it fails with a sentence.

The connection belongs to a process that ends with this one, however this one ends."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Sequence

from tollmeter import commands
from tollmeter.distribution import install_line
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.targets.child import leashed
from tollmeter.targets.temporary_folder import scratch

CONFIGURATION = "TOLL_SSH_CONFIG"
"""In the environment: a file in place of ~/.ssh/config, as `ssh -F` takes it. OpenSSH asks the system's list of users,
and not HOME, where that is."""

LOST = 255
"""ssh's own exit status."""

# Options of the user's configuration that our commands cannot run with: prompts, another command, ports that
# each command would forward again, a connection that stays when its process has ended, banners among the errors.
_OURS = {
    "BatchMode": "yes",
    "RemoteCommand": "none",
    "PermitLocalCommand": "no",
    "ClearAllForwardings": "yes",
    "ControlPersist": "no",
    "LogLevel": "ERROR",
}

# A command goes through the open connection, and never makes one of its own where that is lost.
_THROUGH = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")

_LONGEST_PARENT = 60
"""Of the path of a socket, Linux takes 107 bytes; ours has 24 after this, and 17 while ssh makes it."""

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


def check_host(name: str) -> None:
    """Raises Failure for what is no host's name, or could be taken for an option."""
    if not _HOST.fullmatch(name):
        raise Failure(f"{clean(name)!r} is not a host name: expected a letter or digit first, and no blank")


class Connection:
    """options: more words for ssh, before the host's name. Raises Failure for a name that is no host's."""

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        check_host(host)
        if shutil.which("ssh") is None:
            raise Failure(f"no ssh here: {install_line(['openssh-client'])}", 5)
        self.host = host
        self._folder = scratch("toll-ssh-", _LONGEST_PARENT)
        self._socket = self._folder.path / "socket"
        own = os.environ.get(CONFIGURATION)
        ours = {**_OURS, "ControlPath": str(self._socket)}.items()
        self._options = ["-T", *(word for name, value in ours for word in ("-o", f"{name}={value}"))]
        self._options += [*(["-F", own] if own else []), *options]
        self.environment = {**os.environ, "LC_ALL": "C"}
        self._master: commands.Popen[bytes] | None = None

    @property
    def is_open(self) -> bool:
        return self._master is not None and self._master.poll() is None

    def open(self) -> None:
        """Connects where there is no connection. Raises Failure with ssh's error."""
        if self.is_open:
            return
        alive = ["-o", f"ConnectTimeout={_CONNECT_S}", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
        output = self._folder.path / "output"
        self._socket.unlink(missing_ok=True)
        with output.open("wb") as log:
            self._master = commands.start(
                "typed",
                leashed(["ssh", "-M", "-N", *alive, *self._options, self.host]),
                env=self.environment,
                stdin=commands.DEVNULL,
                stdout=commands.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 2 * _CONNECT_S
        while not self._socket.exists():
            if self._master.poll() is not None:
                raise self.lost(output.read_bytes())
            if time.monotonic() > deadline:
                self._end()
                raise Failure(f"{self.host} cannot be reached: it does not answer", 5)
            time.sleep(_TICK_S)

    def command(self, script: str) -> list[str]:
        """Runs a script of sh on the host. The login shell is unknown, so sh is named."""
        return ["ssh", *_THROUGH, *self._options, self.host, f"exec sh -c {shlex.quote(script)}"]

    def run(self, script: str, given: bytes, limit_s: float) -> commands.CompletedProcess[bytes]:
        """Raises Failure where the connection is lost or the limit passes."""
        self.open()
        try:
            done = commands.run(
                "typed", self.command(script), input=given, capture_output=True, timeout=limit_s,
                env=self.environment,
            )  # fmt: skip
        except commands.TimeoutExpired as error:
            raise Failure(f"{self.host} does not answer within {limit_s:g} s", 5) from error
        if done.returncode == LOST:
            raise self.lost(done.stderr)
        return done

    def lost(self, output: bytes) -> Failure:
        """The error that ssh printed, as a sentence. The connection is closed: its master closes its socket a moment
        before its end can be seen, and the next command would meet that socket."""
        self._end()
        text = output.decode(errors="replace")
        known = next((sentence for sign, sentence in _SENTENCES if sign in text), None)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        reason = known or (str(clean(lines[-1]))[:200] if lines else "the connection was lost")
        return Failure(f"{self.host} cannot be reached: {reason}", 5)

    def close(self) -> None:
        self._end()
        self._folder.close()

    def _end(self) -> None:
        if self._master:
            self._master.kill()
            self._master.wait()
            self._master = None
