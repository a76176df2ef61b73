# SPDX-License-Identifier: Apache-2.0
"""This machine's kernel under an emulated CPU: instructions of the program alone, counted exactly.

Time under an emulator is unrelated to the CPU that it emulates, and the resident set, faults and switches are the
emulator's own. So this target's clock is a count of every instruction that the program and its libraries execute,
without the kernel's. A repeated visit gives exactly equal counts."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tollmeter.extras import install_line
from tollmeter.model import Failure
from tollmeter.targets import Lack
from tollmeter.targets.child import Ended, leashed
from tollmeter.targets.local import Local
from tollmeter.targets.temporary_folder import scratch

PACKAGE = "qemu-user"
"""Debian's package of the dynamic emulators: a static one loads no plugin."""

_SAMPLES, _SAMPLE_INSTRUCTIONS = 2, 20_000
"""Samples of a visit and instructions of a sample: a count has no noise that more or longer samples could reduce; the
second sample shows this."""

_NO_ELF_OF_MINE = 255
_COUNTER_BYTES = 65536
"""The largest page of an emulated CPU."""


def emulator_of(place: str) -> str | None:
    """Returns the path of the installed emulator of ARCH or ARCH:CPU, as QEMU names them; None without one."""
    named = re.fullmatch(r"([a-z0-9_]{1,32})(:[A-Za-z0-9_.+-]{1,64})?", place)
    return shutil.which(f"qemu-{named[1]}") if named else None


def emulator_lack(place: str) -> Lack | None:
    """Returns why no emulator counts the instructions of ARCH or ARCH:CPU here, and the packages that would provide
    one."""
    architecture = place.partition(":")[0]
    from elftools.common.exceptions import ELFError  # most starts do without this library
    from elftools.elf.elffile import ELFFile

    emulator = emulator_of(place)
    if emulator is None:
        return Lack(f"qemu-{architecture} is not installed", (PACKAGE,))
    # Plugins need a program that is linked dynamically. A script may start one.
    with contextlib.suppress(OSError, ELFError), Path(emulator).open("rb") as file:
        if not any(segment["p_type"] == "PT_INTERP" for segment in ELFFile(file).iter_segments()):
            return Lack(f"qemu-{architecture} is static here and loads no plugin, which would count its instructions")
    return None


def emulator_here(place: str) -> list[str]:
    """Returns the emulator and its CPU, by default QEMU's own choice. Raises Failure if none is installed that loads
    plugins."""
    if missing := emulator_lack(place):
        mend = f", or is not an emulator of {PACKAGE}: {install_line(missing.packages)}" if missing.packages else ""
        raise Failure(f"{missing.reason}{mend}", 5)
    cpu = place.partition(":")[2]
    return [str(emulator_of(place)), *(("-cpu", cpu) if cpu else ())]


class QemuUser(Local):
    """A target for one architecture, or one of its CPUs. plugin: build/emulator/count.so.

    Raises Failure if there is no emulator for it, or no plugin."""

    keeps_residents = False

    def __init__(self, place: str, plugin: Path) -> None:
        super().__init__()
        self.name = f"qemu-user:{place}"
        self._emulator = emulator_here(place)
        if not plugin.is_file():
            raise Failure(f"{plugin} is not built: make emulator", 5)
        self._plugin = plugin
        self._held = scratch("toll-counter-")
        self._counter = self._held.path / "counter"
        self._counter.write_bytes(bytes(_COUNTER_BYTES))

    def close(self) -> None:
        self._held.close()

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        """Runs a command under the emulator and returns how it ended. Raises OSError (ENOEXEC) if the emulator, which
        itself starts, reports that it cannot load the executable."""
        ended = super()._finish(command, limit_s)
        if ended.status == _NO_ELF_OF_MINE and b"Invalid ELF image" in ended.output:
            raise OSError(errno.ENOEXEC, "another architecture's")
        return ended

    def _command(self, executable: str, arguments: Sequence[str]) -> list[str]:
        if not os.access(executable, os.X_OK):
            raise OSError(errno.ENOENT if not Path(executable).exists() else errno.EACCES, executable)
        shortened = {"--samples": _SAMPLES, "--sample-ns": _SAMPLE_INSTRUCTIONS}
        options = [(word, word.partition("=")[0]) for word in arguments]
        words = [f"{name}={shortened[name]}" if name in shortened else word for word, name in options]
        counter, clock = f"{self._plugin},counter={self._counter}", f"TOLL_CLOCK=instructions:{self._counter}"
        return leashed([*self._emulator, "-plugin", counter, "-E", clock, executable, *words])
