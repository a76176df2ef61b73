# SPDX-License-Identifier: Apache-2.0
"""`make test-roots`: stock systems made anew, and in each the commands of README.md as each kind of user."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from roots import host, steps, watching
from roots.system import System
from tollmeter.root import user_folder

# What fetched a checkout is there; in Debian 12 nothing is, since root needs nothing.
SYSTEMS: dict[str, tuple[str, tuple[str, ...], Callable[[steps.Visit], None]]] = {
    "debian-12": ("bookworm", (), steps.debian_12),
    "debian-13": ("trixie", ("git",), steps.debian_13),
    "debian-12-run": ("bookworm", (), steps.debian_12_run),
    "debian-12-user": ("bookworm", (), steps.ordinary_user),
    "debian-13-user": ("trixie", (), steps.ordinary_user),
    "debian-12-release": ("bookworm", ("python3", "python3-venv", "xz-utils"), steps.debian_12_release),
    "debian-12-package": ("bookworm", (), steps.debian_12_package),
}
USUAL = ("debian-12", "debian-13")
TOOLS = ("mmdebstrap", "unshare", "setpriv", "git", "apt-get", "tar")
INTERRUPTED = 130


def lacking() -> str | None:
    """Why no system can be made here."""
    if os.geteuid() != 0:
        return "bare systems are made and entered by root alone: start it as root"
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"bare systems are made with {' '.join(missing)}, which is not here: apt-get install mmdebstrap git"
    denied = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    if denied.returncode != 0:
        return (
            f"bare systems need mounts of their own, and this kernel or container denies them: {denied.stderr.strip()}"
        )
    if not host.sources("bookworm"):
        subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
    return (
        None if host.sources("bookworm") else "bare systems come from this host's Debian mirrors, and its apt has none"
    )


def visited(name: str, work: Path, kept: Path) -> steps.Visit:
    codename, packages, walk = SYSTEMS[name]
    visit = steps.Visit(System(name, codename, packages, work, kept))
    try:
        visit.check("making it", None if visit.system.make() else f"see {visit.system.logs}", needed=True)
        walk(visit)
    except steps.Unusable:
        return visit
    if not visit.complaints:
        visit.system.forget_old_packages()
    return visit


def tour(names: list[str], work: Path, kept: Path) -> int:
    began = time.monotonic()
    with ThreadPoolExecutor(len(names)) as pool:
        try:
            visits = list(pool.map(partial(visited, work=work, kept=kept), names))
        except BaseException:
            watching.stop()
            raise
    complaints = [one for visit in visits for one in visit.complaints]
    for one in complaints:
        print(one)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{' and '.join(names)}: {time.monotonic() - began:.0f} s, of the CPUs {used.ru_utime + used.ru_stime:.0f} s; "
        f"what was said is in {work / 'logs'}"
    )
    print(f"roots: {sum(visit.passed for visit in visits)} passed, {len(complaints)} failed")
    return int(bool(complaints))


def clear(work: Path) -> None:
    """Systems of this time, or of an earlier one that was killed."""
    for name in SYSTEMS:
        for folder in work.glob(f"{name}*"):
            shutil.rmtree(folder, ignore_errors=True)


def main(words: list[str]) -> int:
    """words: names of systems; the whole tour of Debian 12 and 13 where there are none."""
    if why := lacking():
        print(why)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    work, kept = steps.CHECKOUT / "build/roots", user_folder("XDG_CACHE_HOME", ".cache") / "roots"
    kept.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clear(work)
        try:
            return tour(words or list(USUAL), work, kept)
        except KeyboardInterrupt:
            print("interrupted")
            return INTERRUPTED
        finally:
            clear(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
