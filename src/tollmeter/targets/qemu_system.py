# SPDX-License-Identifier: Apache-2.0
"""Emulated machines: a Linux guest with Debian's kernel and our own process 1 (emulator/init.c), or a board with
nothing but our supervisor (probes/runtime/bare). The probes stand in the first file system, and
both speak the same few words.

Where this machine's own CPU can run a guest (targets/kvm.py), it does, and the guest's time is the hardware's. Else
its clock is virtual: `-icount shift=0,sleep=off` lets one nanosecond pass for each instruction (Board.shift: more), the
kernel's own included, and skips idle time. It repeats, but no cache and no pipeline is in it: it never stands for a
real machine's time. Faults and the resident set are a real kernel's, though, and are what they would be.

A guest is booted when it is first needed, sleeps between visits, and dies with this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.distribution import install_line
from tollmeter.model import Clock, Failure, Visit
from tollmeter.protocol import Trouble, clean, closed, refused, words
from tollmeter.targets import debian_kernel, kvm
from tollmeter.targets.asking import Asking
from tollmeter.targets.child import Ended
from tollmeter.targets.debian_kernel import KernelChoice
from tollmeter.targets.exit_reasons import not_started, patience_s, trouble_of_visit
from tollmeter.targets.temporary_folder import scratch
from tollmeter.targets.wire import Gone, Slow, Wire

BOOT_S, BOOT_BY_HARDWARE_S = 60.0, 20.0
_SLOWNESS, _GRACE_S = 5.0, 5.0
"""A deadline passes in virtual time, of which an emulator on a busy machine may make a fifth of a second a second."""

_READY = re.compile(rb"guest ready\r?\n")
_ENDED = re.compile(rb"\nguest (ended|cannot) (\d{1,5})\n")
_ONLY_CPU, _MOST_SAMPLES = 0, 3
"""Virtual time differs between samples only by where the timer's interrupt falls: a median of three leaves that out."""
_LEAST_SAMPLE_NS = 4_000_000
"""Under a kernel, the interval of its timer: a batch of 1 ms has an interrupt or has none, and by that the same visit
was seen to differ by 1.3 %. It is also long beside the step of a board's clock, 1 µs.
"""


class Board(NamedTuple):
    """An emulated machine: emulator, Debian package, QEMU's words, and where its wires are. ours: a file of
    build/emulator: process 1 under Debian's kernel, or what boots if that is None. abi: the default one; empty for this
    machine's own. cpu: the architecture whose own CPU can run it. shift: an instruction takes 2^shift ns of virtual
    time. has_console: the first serial line is the kernel's own; else the board's only line is the wire. files_at:
    where the emulator puts the first file system, if the board has no boot loader that does."""

    emulator: str
    package: str
    words: tuple[str, ...]
    kernel: KernelChoice | None
    ours: str
    command_line: str
    abi: str = ""
    cpu: str = ""
    shift: int = 0
    has_console: bool = True
    files_at: int = 0


_ARM = "arm-hard"


def _bare_arm(machine: str) -> Board:
    """The second serial line is the wire, as in a guest: the first carries the supervisor's own messages."""
    words = ("-machine", machine, "-m", "1024")
    return Board("qemu-system-arm", "qemu-system-arm", words, None, "bare.arm", "wire=0x1000a000", _ARM)


def _bare_virt(abi: str, package: str, *cpu: str) -> Board:
    words = ("-machine", "virt", *cpu, "-m", "1024")
    return Board(f"qemu-system-{abi}", package, words, None, f"bare.{abi}", "clock=counted", abi, has_console=False)


BOARDS = {
    "guest:x32": Board(
        emulator="qemu-system-x86_64",
        package="qemu-system-x86",
        words=("-machine", "pc", "-cpu", "max", "-m", "1024"),
        kernel=KernelChoice("amd64", "linux-image-amd64", None, "-amd64-di"),
        ours="init.x86_64",
        command_line="console=ttyS0 wire=/dev/ttyS1 syscall.x32=y",
        cpu="x86_64",
    ),
    "guest:vexpress-a9": Board(
        emulator="qemu-system-arm",
        package="qemu-system-arm",
        words=("-machine", "vexpress-a9", "-m", "1024"),
        kernel=KernelChoice("armhf", "linux-image-armmp", "vexpress-v2p-ca9.dtb"),
        ours="init.arm",
        command_line="console=ttyAMA0 wire=/dev/ttyAMA1",
        abi=_ARM,
    ),
    # A 24Kc has no FPU: the kernel emulates the FPU's instructions (arch/mips/math-emu). The kernel finds the rate of
    # its timer by waiting for two seconds of the real-time clock, which therefore has to run on virtual time, and would
    # take 2^31 instructions at 1 ns each. In this emulator the CPU's `wait` was seen to miss the wire's interrupt.
    "guest:malta": Board(
        emulator="qemu-system-mipsel",
        package="qemu-system-mips",
        words=("-machine", "malta", "-cpu", "24Kc", "-m", "256", "-rtc", "clock=vm"),
        kernel=KernelChoice("mipsel", "linux-image-4kc-malta", None),
        ours="init.mipsel",
        command_line="console=ttyS0 wire=/dev/ttyS1 nowait",
        abi="mipsel",
        shift=5,
    ),
    # Its second UART belongs to the secure world, so that the wire is a card; QEMU names the second line serial1.
    "guest:virt": Board(
        emulator="qemu-system-aarch64",
        package="qemu-system-arm",
        words=("-machine", "virt", "-cpu", "cortex-a72", "-m", "1024", "-device", "pci-serial,chardev=serial1"),
        kernel=KernelChoice("arm64", "linux-image-arm64", None, "-arm64-di"),
        ours="init.aarch64",
        command_line="console=ttyAMA0 wire=/dev/ttyS0",
        abi="aarch64",
    ),
    "bare:vexpress-a9": _bare_arm("vexpress-a9"),
    "bare:realview-pbx-a9": _bare_arm("realview-pbx-a9"),
    "bare:virt-aarch64": _bare_virt("aarch64", "qemu-system-arm", "-cpu", "cortex-a72"),
    "bare:virt-riscv64": _bare_virt("riscv64", "qemu-system-misc"),
    "bare:leon3": Board(
        emulator="qemu-system-sparc",
        package="qemu-system-sparc",
        words=("-machine", "leon3_generic", "-m", "256"),
        kernel=None,
        ours="bare.sparc",
        command_line="",
        abi="sparc-v8",
        has_console=False,
        files_at=0x40400000,
    ),
}
"""By the target's name. The Debian kernel for clouds boots faster, but knows no x32."""

_ALWAYS = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
_BY_HARDWARE = ("-accel", "kvm")
_COUNTED = "TOLL_CLOCK=virtual"
"""On the kernel's command line: Linux makes what it does not know itself the environment of process 1."""
_ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "QEMU_AUDIO_DRV": "none"}


def board_of(name: str) -> Board:
    """Raises Failure with the boards that there are."""
    if name not in BOARDS:
        raise Failure(f"no guest or board is called {clean(name)!r}; known: {', '.join(BOARDS)}")
    return BOARDS[name]


def clock_here(name: str) -> Clock:
    """Of a board, on this machine."""
    board = BOARDS.get(name)
    return "hardware" if board and board.cpu and not kvm.lack(board.cpu) else "virtual"


class Guest(Asking):
    """Implements targets.Target for one of BOARDS. emulator: build/emulator. scratch: its files while it lives.

    Raises Failure where the board is not known or its emulator is not here."""

    def __init__(self, name: str, emulator: Path) -> None:
        self.name = name
        self._board = board_of(name)
        path = shutil.which(self._board.emulator)
        if path is None:
            raise Failure(f"no {self._board.emulator} here: {install_line([self._board.package])}", 5)
        self._emulator = path
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
        """Packs what will be run, so that one boot is enough, and boots: no visit is to pay for that."""
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
            # A guest that had too little time of the budget to boot is as a visit that passed its deadline.
            return refused(visit, revision, "timeout" if failure.exit_code == 1 else "infrastructure", failure.sentence)
        return closed(ended.output, visit, revision, trouble_of_visit(ended, visit, self._usual_s(visit)))

    def _fitted(self, executable: str, visit: Visit) -> Visit:
        """For the guest's only CPU, which is one of this machine's where that runs it."""
        wire = self._ready_for(executable, patience_s(visit, BOOT_S))
        here = msgspec.structs.replace(visit, cpus=(_ONLY_CPU,))
        if self._by_hardware:
            kvm.pin_threads(wire.process, visit.cpus[0] if visit.cpus else _ONLY_CPU)
            return here
        least_ns = _LEAST_SAMPLE_NS << self._board.shift if self._board.kernel else 0
        samples, sample_ns = min(visit.samples, _MOST_SAMPLES), max(visit.sample_ns, least_ns)
        return msgspec.structs.replace(here, samples=samples, sample_ns=sample_ns)

    def _usual_s(self, visit: Visit) -> float:
        """Within which a visit ends here."""
        slowness = 1.0 if self._by_hardware else _SLOWNESS
        return visit.deadline_ms / 1000 * slowness + _GRACE_S

    def interrupt(self) -> None:
        if self._wire and self._asked:
            self._wire.send("interrupt")

    def close(self) -> None:
        """Ends the guest and forgets its files."""
        self._stop()
        self._held.close()
        atexit.unregister(self.close)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _answered(self, executable: str, option: str) -> Ended:
        return self._finish(executable, [option], self.asking_s * _SLOWNESS)

    def _finish(self, executable: str, arguments: Sequence[str], limit_s: float) -> Ended:
        """Raises OSError where the executable cannot be read or started, Failure where there is no guest."""
        wire = self._ready_for(executable)
        wire.send(" ".join([self._packed[executable], *arguments]))
        self._asked = True
        try:
            return self._ended(wire, limit_s)
        except Gone as gone:
            self._stop()
            return Ended(gone.args[1], 0, _limit(gone))
        finally:
            self._asked = False
            wire.sleep()

    def _ready_for(self, executable: str, limit_s: float = inf) -> Wire:
        """A guest that is awake and has the executable."""
        if executable not in self._packed:
            Path(executable).stat()
            self.prepare([executable, *_siblings(Path(executable))], limit_s)
        return self._awake(limit_s)

    @staticmethod
    def _ended(wire: Wire, limit_s: float) -> Ended:
        output, mark = wire.until(_ENDED, limit_s)
        if mark.group(1) == b"cannot":
            wire.until(_ENDED, limit_s)
            raise OSError(int(mark.group(2)), "the guest's kernel refused it")
        return Ended(output, os.waitstatus_to_exitcode(int(mark.group(2))), None)

    # ---- the machine -----------------------------------------------------------------------------------------------

    def _awake(self, limit_s: float = inf) -> Wire:
        """The guest, booted where there is none. One that would not boot is not tried again for each visit."""
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
        """Boots on the CPU itself where it can; where that fails, under an emulator from then on. A guest that came up
        is never replaced by the other kind: the two have different clocks."""
        if not self._by_hardware:
            return self._booted(self._by_count(), BOOT_S, limit_s)
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
        """Raises Failure: 5 where it does not boot, 1 where the budget left less than the usual time for it."""
        kernel = self._kernel()
        began = time.monotonic()
        first_files = self.scratch / "initramfs"
        first_files.write_bytes(self._first_files())
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
        """The options for the kernel and its command line."""
        if self._board.kernel is None:
            return ["-kernel", str(self._ours), "-append", self._board.command_line]
        kernel = debian_kernel.fetched(self._board.kernel)
        arguments = [self._board.command_line, *([] if self._by_hardware else [_COUNTED]), "panic=-1 quiet"]
        words = ["-kernel", str(kernel.image), "-append", " ".join(arguments)]
        return [*words, "-dtb", str(kernel.device_tree)] if kernel.device_tree else words

    def _first_files(self) -> bytes:
        programs = {inside: Path(outside).read_bytes() for outside, inside in self._packed.items()}
        if self._board.kernel is None:
            return archive(programs)
        return archive({"/init": self._ours.read_bytes(), **programs}, ("/dev", "/proc", "/sys", "/tmp"))

    def _last_words(self) -> str:
        """The last line of the console, or of the emulator itself."""
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


def _limit(gone: Gone) -> Trouble:
    return ("timeout" if isinstance(gone, Slow) else "failed"), str(gone.args[0])


def _siblings(executable: Path) -> list[str]:
    """All executables of its folder, which later visits of this guest may request."""
    return [str(path) for path in sorted(executable.parent.iterdir()) if path.is_file() and os.access(path, os.X_OK)]


# ---- the first file system of a Linux guest -------------------------------------------------------------------------

_MAGIC = b"070701"
_FOLDER, _PROGRAM = 0o040755, 0o100755
_LAST = "TRAILER!!!"


def archive(programs: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    """Executables by their absolute path, with every folder on the way to one, and others that are to be there."""
    needed = {parent for path in programs for parent in _parents(path)} | {folder.strip("/") for folder in folders}
    parts = [_entry(number, folder, _FOLDER, b"") for number, folder in enumerate(sorted(needed), 1)]
    for number, (path, content) in enumerate(sorted(programs.items()), len(parts) + 1):
        parts.append(_entry(number, path.strip("/"), _PROGRAM, content))
    return b"".join([*parts, _entry(0, _LAST, 0, b"")])


def _parents(path: str) -> list[str]:
    steps = path.strip("/").split("/")[:-1]
    return ["/".join(steps[: count + 1]) for count in range(len(steps))]


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    spelled = name.encode() + b"\0"
    links, root = 1, 0
    numbers = (inode, mode, root, root, links, 0, len(content), 0, 0, 0, 0, len(spelled), 0)
    header = _MAGIC + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + spelled) + _padded(content)


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 4)
