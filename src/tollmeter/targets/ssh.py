# SPDX-License-Identifier: Apache-2.0
"""Another machine, over OpenSSH. It needs only sh and /proc: a probe is one static executable, copied into a folder,
run there, and removed with the folder.

A probe's output is written to a file there and transferred after the probe has ended: the network is idle during
measuring, and a companion that still runs does not block the transfer.

Many commands share one connection (ControlMaster), with keys, jump hosts and names from the user's own configuration.
It never prompts: if ssh would prompt, it fails with a sentence. The connection's process ends with this one."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tollmeter import commands
from tollmeter.extras import install_line
from tollmeter.model import Failure, Visit
from tollmeter.protocol import clean, closed, refused, words
from tollmeter.targets.child import Child, Ended, leashed
from tollmeter.targets.target import Target, patience_s, trouble_of_visit
from tollmeter.targets.temporary_folder import TemporaryFolder, folder_script, scratch

# ---- the connection --------------------------------------------------------------------------------------------------

CONFIGURATION = "TOLL_SSH_CONFIG"
"""Environment variable that names a file in place of ~/.ssh/config, as `ssh -F` takes it. OpenSSH finds the home folder
in the system's list of users, and not in HOME."""

LOST = 255
"""ssh's own exit status on an error of the connection."""

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
"""Highest length of the folder of a socket. Linux accepts paths of 107 bytes; our name has 24 after the folder, and ssh
adds 17 while it creates the socket."""

_CONNECT_S = 15
_TICK_S = 0.02

_HOST = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9_.@:%\[\]-]{0,253}")
"""A host name or address, or USER@ before one; nothing that ssh could take for an option."""

_SENTENCES = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its key is not the one that is known for it"),
    ("Host key verification failed", "its key is not known here: connect once with ssh, and check the key"),
    ("Permission denied", "it does not let this user in without a question"),
    ("Could not resolve hostname", "no machine has this name"),
    ("Connection refused", "nothing listens there"),
    ("timed out", "it does not answer"),
)


def check_host(name: str) -> None:
    """Raises Failure if the name is not a host's name, or could be parsed as an option."""
    if not _HOST.fullmatch(name):
        raise Failure(f"{clean(name)!r} is not a host name: expected a letter or digit first, and no blank")


class Connection:
    """A connection to a host. options: further arguments for ssh, before the host's name. Raises Failure for an invalid
    host name."""

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        check_host(host)
        if shutil.which("ssh") is None:
            raise Failure(f"ssh is not installed: {install_line(['openssh-client'])}", 5)
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
        """Connects unless connected. Raises Failure with ssh's error."""
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
        """Returns the command that runs a script of sh on the host. The login shell is unknown, so sh is named."""
        return ["ssh", *_THROUGH, *self._options, self.host, f"exec sh -c {shlex.quote(script)}"]

    def run(self, script: str, given: bytes, limit_s: float) -> commands.CompletedProcess[bytes]:
        """Runs a script on the host. Raises Failure if the connection is lost or the limit passes."""
        self.open()
        try:
            done = commands.run(
                "typed", self.command(script), input=given, capture_output=True, timeout=limit_s,
                env=self.environment,
            )  # fmt: skip
        except commands.TimeoutExpired as error:
            raise Failure(f"{self.host} does not answer within {limit_s:g} s: try `ssh {self.host} true`", 5) from error
        if done.returncode == LOST:
            raise self.lost(done.stderr)
        return done

    def lost(self, output: bytes) -> Failure:
        """Returns the error that ssh printed, as a sentence, and closes the connection: its master closes its socket a
        moment before its end is visible, and the next command would use that socket."""
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


# ---- the target ------------------------------------------------------------------------------------------------------

_GRACE_S, _A_DAY_S = 10.0, 86_400.0
_MOST_BLOCKS = 40_000
"""Highest size of a probe's output file in blocks of 512 bytes: more than the host would read."""

_CANNOT_RUN = 126
"""Exit status of a shell that cannot run a file."""
_ENDED = re.compile(rb"\ntoll ended (\d{1,3})\n\Z")

# A file whose interpreter is the probe: a kernel that cannot run the probe leaves it to the shell, which then reads
# no more than this. The probe itself must not be tried so, since a shell would take the executable for a script.
_COPY = """cat > {there} && printf '#!%s\\nexit 126\\n' {there} > {there}.try && chmod 700 {there} {there}.try
{there}.try > /dev/null 2>&1 < /dev/null; tried=$?
rm -f {there}.try; [ $tried -ne 126 ] || exit 126; [ -x {there} ]"""

# The shell's group is this visit's alone, and what is left of it is ended at last; sshd gives each command its own. The
# environment is made anew, since sshd's holds the port of the connection: its size would move the stack.
_RUN = """cd {folder} && : > group.$$ && [ ! -e closed ] || exit 1
sh -c 'ulimit -f {blocks}; echo $$ > probe; exec env -i PATH="$PATH" LC_ALL=C "$@"' sh {words} > out 2>&1 < /dev/null
status=$?; rm -f group.$$ probe; cat out; printf '\\ntoll ended %d\\n' $status
read -r a b c d group rest < /proc/$$/stat; [ "$group" != $$ ] || kill -KILL 0"""

# A visit that starts at the same moment sees that the folder is closed, or is seen here.
_END = """for group in "$folder"/group.*; do [ -e "$group" ] && kill -KILL "-${group##*.}" "$(cat "$folder"/probe)"
rm -f "$group" "$folder"/probe; done 2> /dev/null"""
# sshd's environment has this machine's own address, as the peer reaches it.
_SERVE = """printf 'address %s\\n' "$(set -- $SSH_CONNECTION; echo "$3")"
exec env -i PATH="$PATH" LC_ALL=C TOLL_SERVE=1 {there}"""

# A script of the host's own in the user's folder, with the user's environment.
_WITH_COPY = """: > {folder}/group.$$ && [ ! -e {folder}/closed ] || exit 1
copy={there}; (
{script}
); status=$?; rm -f {folder}/group.$$; exit $status"""

_CLOSE = f': > "$folder"/closed; {_END}'


class Ssh(Target):
    """A target for one host. options: further arguments for ssh. Raises Failure for an invalid host name."""

    asking_s = 30.0

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        self._connection = Connection(host, options)
        self.name, self.where = f"ssh:{host}", f" on {host}"
        self._host = host
        self._held: TemporaryFolder | None = None
        self._copied: dict[str, str] = {}
        self._foreign: set[str] = set()
        self._lost: Failure | None = None
        self._child: Child | None = None
        self._asking: list[commands.Popen[bytes]] = []
        atexit.register(self.close)

    # ---- what a target offers ------------------------------------------------------------------------------------

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        usual_s = visit.deadline_ms / 1000 + _GRACE_S
        try:
            ended = self._finish(executable, words(visit), patience_s(visit, usual_s))
        except Failure as failure:
            foreign = executable in self._foreign
            return refused(visit, revision, "unsupported" if foreign else "infrastructure", failure.sentence)
        if ended.status == LOST and not ended.limit:
            lost = self._connection.lost(ended.output).sentence
            return closed(ended.output, visit, revision, ("infrastructure", lost))
        return closed(ended.output, visit, revision, trouble_of_visit(ended, visit, usual_s))

    def interrupt(self) -> None:
        """Interrupts the probe over the open connection: a signal to ssh would end ssh, and not reach the probe."""
        if self._child and self._held:
            command = self._connection.command(f'kill -2 "$(cat {self._held.path}/probe)"')
            nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), commands.DEVNULL)
            self._asking.append(commands.start("typed", command, **nowhere))

    def serve(self, executable: str) -> commands.Popen[bytes]:
        """Starts a probe on the host as the other end of a network. The probe prints two lines, the host's address and
        its ports, and runs until its standard input is closed. Raises Failure if it cannot be started."""
        script = _SERVE.format(there=shlex.quote(self.copy_of(executable)))
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), commands.PIPE)
        command = self._connection.command(script)
        return commands.start("typed", command, env=self._connection.environment, start_new_session=True, **pipes)

    def with_copy(self, executable: str, script: str) -> commands.CompletedProcess[bytes]:
        """Runs a script on the host, for at most a day; "$copy" is the executable's copy. Raises Failure if the host
        cannot be reached, or cannot run it."""
        there = self.copy_of(executable)
        text = _WITH_COPY.format(folder=shlex.quote(f"{Path(there).parent}"), there=shlex.quote(there), script=script)
        return self._connection.run(text, b"", _A_DAY_S)

    def architecture(self) -> str:
        """Returns the host's architecture by `uname -m`. Raises Failure if it cannot be reached."""
        answer = self._connection.run("uname -m", b"", self.asking_s).stdout.decode(errors="replace")
        return str(clean(answer.strip()))

    def close(self) -> None:
        """Removes the folder on the host, and ends the connection."""
        atexit.unregister(self.close)
        self._forget()
        self._connection.close()

    def _forget(self) -> None:
        """Removes the folder on the host."""
        self._copied.clear()
        if self._held:
            self._held.close()
        self._held = None

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _answered(self, executable: str, option: str) -> Ended:
        ended = self._finish(executable, [option], self.asking_s)
        if ended.status == LOST and not ended.limit:
            raise self._connection.lost(ended.output)
        return ended

    def _finish(self, executable: str, arguments: Sequence[str], limit_s: float) -> Ended:
        """Runs an executable on the host and returns how it ended. Raises Failure if the host cannot be reached or
        written to, or cannot run the executable."""
        there = self.copy_of(executable)
        folder = Path(there).parent
        script = _RUN.format(folder=folder, blocks=_MOST_BLOCKS, words=shlex.join([there, *arguments]))
        try:
            self._child = Child(self._connection.command(script), self._connection.environment, origin="typed")
            ended = self._child.finish(limit_s)
        except OSError as error:
            raise Failure(f"ssh cannot be started: {error.strerror}", 5) from error
        finally:
            self._child = None
            while self._asking:
                self._asking.pop().wait()
        if ended.limit:
            with contextlib.suppress(OSError, Failure):
                self._connection.run(f"folder={folder}; {_END}", b"", self.asking_s)
            return ended
        mark = _ENDED.search(ended.output[-64:])
        if mark is None:
            return ended
        status = int(mark.group(1))  # from the host's shell, which reports a signal as 128 plus its number
        return Ended(ended.output[: -len(mark.group())], 128 - status if status > 128 else status, None)

    # ---- what is over there ----------------------------------------------------------------------------------------

    def copy_of(self, executable: str) -> str:
        """Returns the path of the executable's copy on the host. Raises Failure if the host cannot be reached, or
        cannot run it."""
        if self._lost:
            raise self._lost
        if executable in self._foreign:
            raise Failure(f"the kernel of {self._host} cannot run it", 5)
        try:
            held = self._there()
        except Failure as failure:
            self._lost = failure
            raise
        if executable not in self._copied:
            self._copied[executable] = self._copy(executable, held.path)
        return self._copied[executable]

    def _there(self) -> TemporaryFolder:
        """Returns the folder on the host, created anew if a lost connection removed it."""
        if self._held and self._held.held and self._connection.is_open:
            return self._held
        self._forget()
        self._connection.open()
        template = '"${TMPDIR:-/tmp}/toll.XXXXXXXXXX"'
        try:
            command = self._connection.command(folder_script(template, _CLOSE))
            held = TemporaryFolder(command, self._connection.environment, self.asking_s, origin="typed")
        except Failure as failure:
            raise Failure(f"{self._host} has no folder for the probes: {failure.sentence}", 5) from failure
        if not re.fullmatch(r"/[A-Za-z0-9_./-]+/toll\.[A-Za-z0-9]+", str(held.path)):
            held.close()
            raise Failure(f"{self._host} has a folder of no plain name for the probes: {clean(str(held.path))!r}", 5)
        self._held = held
        return held

    def _copy(self, executable: str, folder: Path) -> str:
        try:
            content = Path(executable).read_bytes()
        except OSError as error:
            raise Failure(f"{executable}: {error.strerror}", 5) from error
        # The hash in its name keeps probes of one name for several ABIs apart.
        there = f"{folder}/{hashlib.sha256(content).hexdigest()[:16]}.{Path(executable).name}"
        done = self._connection.run(_COPY.format(there=shlex.quote(there)), content, self.asking_s)
        if done.returncode == _CANNOT_RUN:
            self._foreign.add(executable)
            raise Failure(f"the kernel of {self._host} cannot run it", 5)
        if done.returncode != 0:
            raise Failure(f"{self._host} does not accept the probe: {clean(done.stderr.decode(errors='replace'))}", 5)
        return there
