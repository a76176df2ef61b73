# SPDX-License-Identifier: Apache-2.0
"""A bare system in a folder: made by mmdebstrap, and entered as a container is.

Each command has mounts and process ids of its own. The kernel takes both back when the command's first process ends,
and that one ends with the process that started it, also where SIGKILL ended that: no mount and no process stays behind.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from roots import host, watching

_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
_ALONE = [*_DIES_WITH_US, "unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
# As Docker and podman mount it: the root a mount of its own, without which buildah fails in it; a /dev of the system's
# own with devices that harm nothing; and a read-only /sys.
_ENTER = """
root=$1 user=$2 folder=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
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
exec chroot --userspec="$user" --groups= "$root" sh -c '
  home=$(getent passwd "$(id -u)" | cut -d: -f6)
  [ -z "$home" ] || export HOME="$home"
  cd "$1" && shift && exec "$@"' sh "$folder" "$@"
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OLDEST_S = 14 * 86400


class User(NamedTuple):
    """Who starts a command. One that /etc/passwd does not have gets no HOME, as in a container."""

    name: str
    uid: int
    gid: int


ROOT = User("root", 0, 0)
ORDINARY = User("ordinary", 1000, 1000)
COLLEAGUE = User("colleague", 1001, 1000)
NAMELESS = User("nameless", 12345, 12345)
_ADD_USERS = """chroot "$1" groupadd --gid 1000 ordinary
for user in ordinary:1000 colleague:1001; do
  chroot "$1" useradd --create-home --gid 1000 --uid "${user#*:}" "${user%:*}"
done"""


class System:
    """name: debian-12; codename: bookworm. packages: what it has besides those of minbase. work: the folder in which it
    is made; kept: where downloads are kept for the next time."""

    def __init__(self, name: str, codename: str, packages: Sequence[str], work: Path, kept: Path) -> None:
        self.name, self.codename, self.packages = name, codename, packages
        self.folder, self.logs, self.kept = work / name, work / "logs" / name, kept / name
        self._began = time.time()
        settings = host.environment()
        self._apt = host.apt_settings()
        self._named = host.paths([*settings.values(), self._apt])
        self._environment = {name: host.moved(value, self._named) for name, value in settings.items()}
        shutil.rmtree(self.logs, ignore_errors=True)
        for folder in (self.logs, self.kept / "packages", self.kept / "pip"):
            folder.mkdir(parents=True, exist_ok=True)

    def beside(self, name: str, packages: Sequence[str]) -> System:
        """Another one of the same Debian, for the same user of these tests."""
        return System(f"{self.name}-{name}", self.codename, packages, self.folder.parent, self.kept.parent)

    def inside(self, path: str) -> Path:
        """A path of the system's, as the host sees it."""
        return self.folder / path.lstrip("/")

    # ---- making -----------------------------------------------------------------------------------------------------

    def make(self) -> bool:
        """Whether it could be made, or unpacked as it was made not long ago."""
        sources = host.sources(self.codename)
        packed = self.kept / f"{zlib.crc32(repr([sources, self.packages, _ADD_USERS]).encode()):08x}.tar"
        is_fresh = packed.is_file() and time.time() - packed.stat().st_mtime < _OLDEST_S
        if not is_fresh and not self._packed(sources, packed):
            return False
        self.folder.mkdir()
        if self._on_host("unpacking it", ["tar", "-C", f"{self.folder}", "-xf", f"{packed}"]) != 0:
            return False
        self._take_settings()
        return True

    def _packed(self, sources: list[str], packed: Path) -> bool:
        settings, half = self.kept / "apt.conf", packed.with_suffix(".half")
        settings.write_text(self._apt)
        words = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", f"--aptopt={settings}"]
        # Nothing of it outlives the test, so that dpkg need not wait for the disk.
        words += ["--dpkgopt=force-unsafe-io", f"--customize-hook={_ADD_USERS}"]
        words += [f"--include={' '.join(self.packages)}"] if self.packages else []
        if self._on_host("making it", [*words, self.codename, f"{half}", *sources]) != 0:
            return False
        for old in self.kept.glob("*.tar"):
            old.unlink()
        half.rename(packed)
        return True

    def _on_host(self, title: str, words: Sequence[str]) -> int:
        log = self.logs / f"{title.replace(' ', '-')}.log"
        return watching.ended(f"{self.name}: {title}", [*_ALONE, *words], log, {**os.environ, "TMPDIR": str(self.kept)})

    def _take_settings(self) -> None:
        """How this host's apt reaches its mirrors. Each package that is installed is copied for the next system."""
        keep = f'DPkg::Pre-Install-Pkgs:: "xargs -r cp -t {host.PLACE}/packages";\nAPT::Get::Assume-Yes "true";\n'
        self.inside("/etc/apt/apt.conf.d/99mmdebstrap").write_text(host.moved(self._apt, self._named) + keep)
        self.lend_packages("/var/cache/apt/archives")
        for path, there in self._bound():
            place = self.inside(there)
            (place if path.is_dir() else place.parent).mkdir(parents=True, exist_ok=True)
            if path.is_file():
                place.touch()

    def _bound(self) -> Iterator[tuple[Path, str]]:
        """Files and folders of the host, and where they appear in the system."""
        for path in sorted(self._named):
            yield path, f"{host.PLACE}{path}"
        for name in ("packages", "pip"):
            yield self.kept / name, f"{host.PLACE}/{name}"

    def lend_packages(self, folder: str) -> None:
        """Puts what apt fetched for an earlier system where it looks first."""
        self.inside(folder).mkdir(parents=True, exist_ok=True)
        for package in (self.kept / "packages").glob("*.deb"):
            shutil.copy2(package, self.inside(folder))

    def forget_old_packages(self) -> None:
        """Those that were not installed this time."""
        for package in (self.kept / "packages").glob("*.deb"):
            if package.stat().st_mtime < self._began:
                package.unlink()

    # ---- using ------------------------------------------------------------------------------------------------------

    def give(self, tree: Path, owner: User) -> None:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, owner.uid, owner.gid, follow_symlinks=False)

    def give_downloads(self, owner: User) -> None:
        """pip keeps what it fetches only in a folder of the user's own."""
        self.give(self.kept / "pip", owner)

    def run(self, user: User, folder: str, command: str, log: str) -> tuple[int, str]:
        """The exit status of a shell's command line, and all that it said."""
        environment = {"PATH": _PATH, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **self._environment}
        environment["PIP_CACHE_DIR"] = f"{host.PLACE}/pip"
        bound = [word for path, there in self._bound() for word in (f"{path}", there)]
        words = [*_ALONE, "sh", "-ec", _ENTER, "sh", f"{self.folder}", f"{user.uid}:{user.gid}", folder, *bound]
        path = self.logs / f"{log}.log"
        title = f"{self.name}: {user.name}: {command}"
        status = watching.ended(title, [*words, "--", "sh", "-c", command], path, environment)
        return status, path.read_text(encoding="utf-8", errors="replace")
