# SPDX-License-Identifier: Apache-2.0
"""Another machine, over OpenSSH. It needs nothing but sh and /proc: a probe is one static executable, copied into a
folder of its own, run there, and removed with the folder.

What a probe prints goes into a file there and comes over when it has ended: nothing crosses the network while it
measures, and a companion that it left behind holds up nothing."""

from __future__ import annotations

import atexit
import hashlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from tollmeter import commands
from tollmeter.model import Failure, Visit
from tollmeter.protocol import clean, closed, refused, words
from tollmeter.targets.asking import Asking
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.exit_reasons import patience_s, trouble_of_visit
from tollmeter.targets.openssh import LOST, Connection
from tollmeter.targets.temporary_folder import TemporaryFolder, folder_script

_GRACE_S = 10.0
_MOST_BLOCKS = 40_000
"""Of 512 bytes, in the file that takes what a probe prints: more than the host would read."""

_CANNOT_RUN = 126
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

_CLOSE = f': > "$folder"/closed; {_END}'


class Ssh(Asking):
    """Implements targets.Target for one host. options: more words for ssh. Raises Failure for what is no host."""

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
            kind = "unsupported" if executable in self._foreign else "infrastructure"
            return refused(visit, revision, kind, failure.sentence)  # type: ignore[arg-type]
        if ended.status == LOST and not ended.limit:
            lost = self._connection.lost(ended.output).sentence
            return closed(ended.output, visit, revision, ("infrastructure", lost))
        return closed(ended.output, visit, revision, trouble_of_visit(ended, visit, usual_s))

    def interrupt(self) -> None:
        """Over the open connection: a signal to ssh would end it, and not reach the probe."""
        if self._child and self._held:
            command = self._connection.command(f'kill -2 "$(cat {self._held.path}/probe)"')
            nowhere = commands.DEVNULL
            self._asking.append(commands.start("typed", command, stdin=nowhere, stdout=nowhere, stderr=nowhere))

    def serve(self, executable: str) -> commands.Popen[bytes]:
        """Starts a probe there as the other end of a network, for as long as its standard input is open. It says two
        lines: this machine's address, and its ports. Raises Failure where it cannot be started."""
        script = _SERVE.format(there=shlex.quote(self._copy_of(executable)))
        pipe = commands.PIPE
        return commands.start(
            "typed", self._connection.command(script), env=self._connection.environment, stdin=pipe, stdout=pipe,
            stderr=pipe, start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        """Removes the folder there, and ends the connection."""
        atexit.unregister(self.close)
        self._forget()
        self._connection.close()

    def _forget(self) -> None:
        """Lets the folder go, and what is in it."""
        held, self._held = self._held, None
        self._copied.clear()
        if held:
            held.close()

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _answered(self, executable: str, option: str) -> Ended:
        ended = self._finish(executable, [option], self.asking_s)
        if ended.status == LOST and not ended.limit:
            raise self._connection.lost(ended.output)
        return ended

    def _finish(self, executable: str, arguments: Sequence[str], limit_s: float) -> Ended:
        """Raises Failure where the other machine cannot be reached, written to, or cannot run it."""
        there = self._copy_of(executable)
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
            self._quietly(f"folder={folder}; {_END}")
        return _as_it_ended_there(ended)

    def _quietly(self, script: str) -> None:
        try:
            self._connection.run(script, b"", self.asking_s)
        except (OSError, Failure):
            return

    # ---- what is over there ----------------------------------------------------------------------------------------

    def _copy_of(self, executable: str) -> str:
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
            self._copied[executable] = self._copy(executable, str(held.path))
        return self._copied[executable]

    def _there(self) -> TemporaryFolder:
        """The folder, made anew where the connection was lost: it went with that."""
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

    def _copy(self, executable: str, folder: str) -> str:
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
            raise Failure(f"{self._host} does not take the probe: {clean(done.stderr.decode(errors='replace'))}", 5)
        return there


def _as_it_ended_there(ended: Ended) -> Ended:
    """The status from the host's shell, which reports a signal as 128 plus its number; else ssh's own."""
    mark = _ENDED.search(ended.output[-64:])
    if ended.limit or mark is None:
        return ended
    status = int(mark.group(1))
    return Ended(ended.output[: -len(mark.group())], 128 - status if status > 128 else status, None)
