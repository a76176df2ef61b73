# SPDX-License-Identifier: Apache-2.0
"""A bare system in a folder: made by mmdebstrap, and entered as a container is.

Each command has mounts and process ids of its own. The kernel takes both back when the command's first process ends, and
that ends with the process that started it, also where SIGKILL ended that one: no mount and no process is left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from roots import host, watching

_ALONE = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
# As Docker and podman mount it: a /dev of the system's own, with devices that harm nothing, and a /sys that is only read.
_ENTER = """
root=$1 user=$2 folder=$3; shift 3
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for one in 0/stdin 1/stdout 2/stderr; do ln -s "fd/${one%/*}" "$root/dev/${one#*/}"; done
while [ "$1" != -- ]; do
  mount --rbind "$1" "$root$2"
  shift 2
done
shift
exec chroot --userspec="$user" --groups= "$root" sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OLDEST_S = 14 * 86400


class User(NamedTuple):
    """Who starts a command: user and group by number. No home: neither HOME nor an entry in /etc/passwd."""

    name: str
    ids: str
    home: str | None


ROOT = User("root", "0:0", "/root")
ORDINARY = User("ordinary", "1000:1000", "/home/ordinary")
COLLEAGUE = User("colleague", "1001:1000", "/home/colleague")
NAMELESS = User("nameless", "12345:12345", None)


class System:
    """name: debian-12; codename: bookworm. packages: what the stock image has besides those of minbase. work: the folder
    in which it is made; kept: where downloads are kept for the next time.
    """

    def __init__(self, name: str, codename: str, packages: tuple[str, ...], work: Path, kept: Path) -> None:
        self.name, self.codename, self.packages = name, codename, packages
        self.folder, self.logs, self.kept = work / name, work / "logs" / name, kept / name
        self.began = time.time()
        settings = host.environment()
        self._apt = host.apt_settings()
        self._from_host = host.paths([*settings.values(), self._apt])
        self._environment = {name: host.moved(value, self._from_host) for name, value in settings.items()}
        for folder in (self.logs, self.kept / "packages", self.kept / "pip"):
            folder.mkdir(parents=True, exist_ok=True)

    def make(self) -> bool:
        """Whether it could be made, and unpacked."""
        sources = host.sources(self.codename)
        packed = self.kept / f"{zlib.crc32(repr([sources, self.packages]).encode()):08x}.tar"
        if not packed.is_file() or time.time() - packed.stat().st_mtime > _OLDEST_S:
            if not self._packed(sources, packed):
                return False
        self.folder.mkdir()
        if self._on_host("unpacking it", ["tar", "-C", self.folder, "-xf", packed]):
            return False
        self._take_settings()
        return True

    def _packed(self, sources: list[str], packed: Path) -> bool:
        (self.kept / "apt.conf").write_text(self._apt)
        half = packed.with_suffix(".half")
        users = " && ".join(
            f'chroot "$1" useradd --create-home --uid {one.ids.partition(":")[0]} {groups} {one.name}'
            for one, groups in ((ORDINARY, "--user-group"), (COLLEAGUE, "--gid 1000"))
        )
        words = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", f"--customize-hook={users}",
                 f"--include={' '.join(self.packages)}", f"--aptopt={self.kept / 'apt.conf'}",
                 "--dpkgopt=force-unsafe-io", self.codename, half, *sources]  # fmt: skip
        if self._on_host("making it", words):
            return False
        for old in self.kept.glob("*.tar"):
            old.unlink()
        half.rename(packed)
        return True

    def _on_host(self, title: str, words: list[str | Path]) -> int:
        log = self.logs / f"{title.replace(' ', '-')}.log"
        return watching.ended(f"{self.name}: {title}", [*_ALONE, *words], log, {**os.environ, "TMPDIR": str(self.kept)})

    def _take_settings(self) -> None:
        """apt's own way to mirrors, and every package that it installs copied to where the next system finds it."""
        place = f"{host.PLACE}/packages"
        keep = f'DPkg::Pre-Install-Pkgs:: "xargs -r cp -t {place}";\nAPT::Get::Assume-Yes "true";\n'
        settings = self.folder / "etc/apt/apt.conf.d"
        (settings / "99mmdebstrap").write_text(host.moved(self._apt, self._from_host) + keep)
        self.lend_packages(self.folder / "var/cache/apt/archives")
        for path in self._from_host:
            there = self.folder / f"{host.PLACE}{path}".lstrip("/")
            (there if path.is_dir() else there.parent).mkdir(parents=True, exist_ok=True)
            path.is_dir() or there.touch()
        for name in ("packages", "pip"):
            (self.folder / f"{host.PLACE}/{name}".lstrip("/")).mkdir(parents=True)

    def lend_packages(self, folder: Path) -> None:
        """Puts what apt fetched for an earlier system where it looks first."""
        folder.mkdir(parents=True, exist_ok=True)
        for package in (self.kept / "packages").glob("*.deb"):
            shutil.copy2(package, folder)

    def forget_old_packages(self) -> None:
        """Those that this time were not installed."""
        for package in (self.kept / "packages").glob("*.deb"):
            if package.stat().st_mtime < self.began:
                package.unlink()

    def run(self, user: User, folder: str, command: str, log: str) -> tuple[int, str]:
        """The exit status of a shell's command line, and all that it said."""
        environment = {"PATH": _PATH, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **self._environment}
        environment["PIP_CACHE_DIR"] = f"{host.PLACE}/pip"
        if user.home:
            environment["HOME"] = user.home
        bound = [word for path in self._from_host for word in (str(path), f"{host.PLACE}{path}")]
        bound += [word for name in ("packages", "pip") for word in (str(self.kept / name), f"{host.PLACE}/{name}")]
        words = [*_ALONE, "sh", "-ec", _ENTER, "sh", self.folder, user.ids, folder, *bound, "--", "sh", "-c", command]
        path = self.logs / f"{log}.log"
        status = watching.ended(f"{self.name}: {user.name}: {command}", words, path, environment)
        return status, path.read_text(encoding="utf-8", errors="replace")
