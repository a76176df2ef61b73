# SPDX-License-Identifier: Apache-2.0
"""Emulated machines: a Linux guest with Debian's kernel and our own process 1 (emulator/init.c), or a board with only
our supervisor (probes/runtime/bare). The probes are in the first file system, and both use one command protocol.

If this machine's own CPU can run a guest (targets/boards.py), the guest's time is the hardware's. Otherwise its clock
is virtual: `-icount shift=0,sleep=off` advances it by one nanosecond for each instruction (Board.shift: more),
including the kernel's, and skips idle time. This time is repeatable but models no cache and no pipeline, so it never
represents a real machine's time. Faults and the resident set are those of a real kernel.

A guest is booted when it is first needed, sleeps between visits, and dies with this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec

from tollmeter import commands
from tollmeter.extras import install_line
from tollmeter.model import Failure, Visit
from tollmeter.protocol import clean, closed, refused, words
from tollmeter.targets import debian_kernel
from tollmeter.targets.boards import board_of, clock_here
from tollmeter.targets.child import Ended, leashed
from tollmeter.targets.target import Target, not_started, patience_s, trouble_of_visit
from tollmeter.targets.temporary_folder import scratch

BOOT_S, BOOT_BY_HARDWARE_S = 60.0, 20.0
_SLOWNESS, _GRACE_S = 5.0, 5.0
"""Ratio of real to virtual time that an emulator on a busy machine may reach, and further seconds: a deadline counts in
virtual time."""

_READY = re.compile(rb"guest ready\r?\n")
_ENDED = re.compile(rb"\nguest (ended|cannot) (\d{1,5})\n")
_ONLY_CPU = 0
_SAMPLES_OF_KERNEL, _SAMPLES_OF_BOARD = 3, 2
"""Samples of a visit under a kernel: virtual times differ by the position of the timer interrupt, which the median of
three excludes. Samples on a board without a kernel: they are equal, and the second one shows this."""
_LEAST_SAMPLE_NS = 4_000_000
"""Shortest batch under a kernel, as long as the interval of its timer: a batch of 1 ms contains an interrupt or none,
which changed one visit by 1.3 %. It is also long compared with the step of a board's clock, 1 µs."""


_ALWAYS = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
_BY_HARDWARE = ("-accel", "kvm")
_COUNTED = "TOLL_CLOCK=virtual"
"""Word on the kernel's command line: Linux passes words that it does not know to process 1 as its environment."""
_ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "QEMU_AUDIO_DRV": "none"}


_MOST_BYTES = 2 * 1024 * 1024
"""Highest output of a request in bytes: an emulated serial line transfers half a megabyte a second."""
_CHUNK = 1 << 16
_LONGEST_MARK = 256


class Gone(Exception):
    """An error: the process ended during a request, or printed more than the limit. Contains the reason and the output
    so far."""


class Slow(Gone):
    """An error: no mark arrived within the limit."""


class Wire:
    """A process that answers requests on one serial line: it reads a line and writes bytes until a mark. The bytes come
    from a guest and are untrusted, except for the mark.

    Raises OSError if the process cannot be started. It ends when this process ends for any reason."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        with output.open("wb") as log:
            self._process = commands.start(
                "checkout",
                leashed(command),
                stdin=commands.PIPE,
                stdout=commands.PIPE,
                stderr=log,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,
            )
        assert self._process.stdin and self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._kept = bytearray()

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """Writes a line. Safe inside a signal handler: a pipe writes a line of this length atomically."""
        with contextlib.suppress(OSError):
            self._in.write(line.encode() + b"\n")

    def until(self, mark: re.Pattern[bytes], limit_s: float) -> tuple[bytes, re.Match[bytes]]:
        """Returns the bytes up to the mark and the mark. Raises Gone or Slow, with the bytes read as second
        argument."""
        deadline = time.monotonic() + limit_s
        searched = 0
        while True:
            match = mark.search(self._kept, searched)
            if match:
                before = bytes(self._kept[: match.start()])
                match = mark.fullmatch(bytes(match.group()))
                assert match
                del self._kept[: len(before) + len(match.group())]
                return before, match
            searched = max(0, len(self._kept) - _LONGEST_MARK)
            if len(self._kept) > _MOST_BYTES:
                raise Gone(f"it printed more than {_MOST_BYTES >> 20} MiB", self._take_all())
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Slow(f"no end within {limit_s:.3g} s", self._take_all())
            chunk = os.read(self._out.fileno(), _CHUNK)
            if not chunk:
                status = self._process.wait()
                how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                raise Gone(f"the emulator ended ({how})", self._take_all())
            self._kept += chunk

    def _take_all(self) -> bytes:
        kept = bytes(self._kept)
        self._kept.clear()
        return kept

    def sleep(self) -> None:
        """Stops the emulator until `wake`, so that it uses no CPU time."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._in.close()
        self._out.close()

    def _signal(self, number: int) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class Guest(Target):
    """A target for one of BOARDS. emulator: folder build/emulator. scratch: folder for temporary files.

    Raises Failure if the board is not known or its emulator is not installed."""

    def __init__(self, name: str, emulator: Path) -> None:
        self.name = name
        self._board = board_of(name)
        self._emulator = shutil.which(self._board.emulator) or ""
        if not self._emulator:
            raise Failure(f"{self._board.emulator} is not installed: {install_line([self._board.package])}", 5)
        self._ours = emulator / self._board.ours
        if not self._ours.is_file():
            raise Failure(f"{self._ours} is not built: make emulator", 5)
        self._held = scratch("toll-guest-")
        self.scratch = self._held.path
        self._packed: dict[str, str] = {}
        self._wire: Wire | None = None
        self._lost: Failure | None = None
        self._asked = False
        self._by_hardware = clock_here(name) == "hardware"
        self._came_up = False
        atexit.register(self.close)

    # ---- what a target offers ------------------------------------------------------------------------------------

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Packs the executables, so that one boot suffices, and boots, so that no visit includes the boot time."""
        new = [executable for executable in dict.fromkeys(executables) if executable not in self._packed]
        for executable in new:
            # Names of one length, since the contents of the stack shift the alignment of what a probe measures.
            self._packed[executable] = f"/probe/{len(self._packed):05}"
        if new:
            self._stop()
            with contextlib.suppress(Failure):
                self._awake(limit_s).sleep()

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            asked = words(self._fitted(executable, visit))
            ended = self._finish(executable, asked, patience_s(visit, self._usual_s(visit)))
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        except Failure as failure:
            # A guest that had too little time of the budget to boot counts as a visit that passed its deadline.
            return refused(visit, revision, "timeout" if failure.exit_code == 1 else "infrastructure", failure.sentence)
        return closed(ended.output, visit, revision, trouble_of_visit(ended, visit, self._usual_s(visit)))

    def started(self, executable: str, arguments: Sequence[str], limit_s: float) -> Ended:
        """Runs an executable in the guest and returns how it ended. arguments: words without a blank. Raises OSError if
        the executable cannot be read or started, Failure if there is no guest."""
        for word in arguments:
            if not word or re.search(r"\s", word):
                raise Failure(f"the words of a command in a guest have no blank and are not empty: {clean(word)!r}")
        return self._finish(executable, arguments, limit_s)

    def place_of(self, executable: str) -> str:
        """Packs an executable into the guest and returns its path there. A new executable makes the guest reboot.
        Raises OSError if the executable cannot be read."""
        Path(executable).stat()
        self.prepare([executable])
        return self._packed[executable]

    def _fitted(self, executable: str, visit: Visit) -> Visit:
        """Returns the visit for the only CPU of the guest, with fewer samples if it is emulated. Under KVM, pins the
        emulator to the CPU of the visit."""
        wire = self._ready_for(executable, patience_s(visit, BOOT_S))
        here = msgspec.structs.replace(visit, cpus=(_ONLY_CPU,))
        if self._by_hardware:
            # A guest's CPU is a thread of its emulator, which the system would move between CPUs.
            for thread in Path(f"/proc/{wire.process}/task").iterdir():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread.name), {visit.cpus[0] if visit.cpus else _ONLY_CPU})
            return here
        if not self._board.kernel:
            return msgspec.structs.replace(here, samples=min(visit.samples, _SAMPLES_OF_BOARD))
        sample_ns = max(visit.sample_ns, _LEAST_SAMPLE_NS << self._board.shift)
        return msgspec.structs.replace(here, samples=min(visit.samples, _SAMPLES_OF_KERNEL), sample_ns=sample_ns)

    def _usual_s(self, visit: Visit) -> float:
        """Returns the seconds within which a visit usually ends on this target."""
        slowness = 1.0 if self._by_hardware else _SLOWNESS
        return visit.deadline_ms / 1000 * slowness + _GRACE_S

    def interrupt(self) -> None:
        if self._wire and self._asked:
            self._wire.send("interrupt")

    def close(self) -> None:
        """Ends the guest, and removes its temporary files."""
        self._stop()
        self._held.close()
        atexit.unregister(self.close)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _answered(self, executable: str, option: str) -> Ended:
        return self._finish(executable, [option], self.asking_s * _SLOWNESS)

    def _finish(self, executable: str, arguments: Sequence[str], limit_s: float) -> Ended:
        """Runs an executable in the guest and returns how it ended. Raises OSError if the executable cannot be read or
        started, Failure if there is no guest."""
        wire = self._ready_for(executable)
        wire.send(" ".join([self._packed[executable], *arguments]))
        self._asked = True
        try:
            output, mark = wire.until(_ENDED, limit_s)
            if mark.group(1) == b"cannot":
                wire.until(_ENDED, limit_s)
                raise OSError(int(mark.group(2)), "the guest's kernel refused it")
            return Ended(output, os.waitstatus_to_exitcode(int(mark.group(2))), None)
        except Gone as gone:
            self._stop()
            return Ended(gone.args[1], 0, ("timeout" if isinstance(gone, Slow) else "failed", str(gone.args[0])))
        finally:
            self._asked = False
            wire.sleep()

    def _ready_for(self, executable: str, limit_s: float = inf) -> Wire:
        """Returns the connection to a running guest that has the executable."""
        if executable not in self._packed:
            Path(executable).stat()
            # With all executables of its folder, which later visits of this guest may request.
            siblings = [path for path in sorted(Path(executable).parent.iterdir()) if path.is_file()]
            self.prepare([executable, *(str(path) for path in siblings if os.access(path, os.X_OK))], limit_s)
        return self._awake(limit_s)

    # ---- the machine -----------------------------------------------------------------------------------------------

    def _awake(self, limit_s: float = inf) -> Wire:
        """Returns the connection to the guest, booted if it is not running. A guest that failed to boot is not booted
        again for each visit."""
        if self._lost:
            raise self._lost
        if self._wire and self._wire.alive:
            self._wire.wake()
            return self._wire
        try:
            self._wire = self._boot(limit_s)
        except Failure as failure:
            self._lost = failure
            raise
        return self._wire

    def _boot(self, limit_s: float) -> Wire:
        """Boots by KVM if possible; if that fails, by emulation from then on. A guest that booted is never replaced by
        the other kind, since the two have different clocks."""
        if self._by_hardware:
            try:
                return self._booted(_BY_HARDWARE, BOOT_BY_HARDWARE_S, limit_s)
            except Failure:
                if self._came_up:
                    raise
                self._by_hardware = False
        return self._booted(self._by_count(), BOOT_S, limit_s)

    def _by_count(self) -> tuple[str, str]:
        return ("-icount", f"shift={self._board.shift},sleep=off")

    def _booted(self, clock: Sequence[str], usual_s: float, limit_s: float) -> Wire:
        """Returns the connection to the booted guest. Raises Failure: 5 if it does not boot, 1 if less than its usual
        boot time is left of the budget."""
        kernel = self._kernel()
        began = time.monotonic()
        first_files = self.scratch / "initramfs"
        programs = {inside: Path(outside).read_bytes() for outside, inside in self._packed.items()}
        if self._board.kernel is None:
            first_files.write_bytes(archive(programs))
        else:
            programs["/init"] = self._ours.read_bytes()
            first_files.write_bytes(archive(programs, ("/dev", "/proc", "/sys", "/tmp")))
        console = ["-serial", f"file:{self.scratch / 'console'}"] if self._board.has_console else []
        wires = [*console, "-serial", "stdio"]
        machine = [self._emulator, *_ALWAYS, *clock, *self._board.words]
        loader = ["-device", f"loader,file={first_files},addr={self._board.files_at},force-raw=on"]
        given = [*kernel, *(loader if self._board.files_at else ["-initrd", str(first_files)])]
        try:
            wire = Wire([*machine, *given, *wires], self.scratch / "emulator", _ENVIRONMENT)
        except OSError as error:
            raise Failure(f"{self._emulator} cannot be started: {error.strerror}", 5) from error
        try:
            wire.until(_READY, min(usual_s, max(0.0, limit_s - (time.monotonic() - began))))
        except Gone as gone:
            wire.end()
            is_short = isinstance(gone, Slow) and limit_s < usual_s
            raise Failure(
                f"the guest {self.name} did not boot: {gone.args[0]}{self._last_words()}", 1 if is_short else 5
            ) from gone
        self._came_up = True
        return wire

    def _kernel(self) -> list[str]:
        """Returns the options for the kernel and its command line."""
        if self._board.kernel is None:
            return ["-kernel", str(self._ours), "-append", self._board.command_line]
        image, tree = debian_kernel.fetched_kernel(self._board.kernel), self._board.kernel.device_tree
        arguments = [self._board.command_line, *([] if self._by_hardware else [_COUNTED]), "panic=-1 quiet"]
        words = ["-kernel", str(image), "-append", " ".join(arguments)]
        return [*words, "-dtb", str(image.with_name(tree))] if tree else words

    def _last_words(self) -> str:
        """Returns the last line of the console, or of the emulator itself."""
        for name in ("console", "emulator"):
            path = self.scratch / name
            text = path.read_bytes()[-4096:].decode(errors="replace").strip() if path.is_file() else ""
            if text:
                return f"; the last it said: {text.splitlines()[-1][:200]}"
        return ""

    def _stop(self) -> None:
        wire, self._wire = self._wire, None
        if wire:
            wire.end()


# ---- the first file system of a Linux guest -------------------------------------------------------------------------

_FOLDER, _PROGRAM = 0o040755, 0o100755


def archive(programs: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    """Returns a cpio archive (newc) of executables by their absolute path, with all parent folders, and further
    folders."""
    parents = {f"{parent}".strip("/") for path in programs for parent in Path(path).parents}
    needed = (parents | {folder.strip("/") for folder in folders}) - {""}
    entries = [(folder, _FOLDER, b"") for folder in sorted(needed)]
    entries += [(path.strip("/"), _PROGRAM, content) for path, content in sorted(programs.items())]
    packed = [_entry(number, *entry) for number, entry in enumerate(entries, 1)]
    return b"".join([*packed, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    spelled = name.encode() + b"\0"
    links, root = 1, 0
    numbers = (inode, mode, root, root, links, 0, len(content), 0, 0, 0, 0, len(spelled), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers) + spelled
    return b"".join(part + bytes(-len(part) % 4) for part in (header, content))
