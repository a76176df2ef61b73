# SPDX-License-Identifier: Apache-2.0
"""Writes a release of the last commit into a folder: `make release`, or

    .venv/bin/python packaging/release.py FOLDER ABI...

    toll-VERSION.tar.xz               sources, manual page, completions, and prebuilt probes of the ABIs
    tollmeter-VERSION-...-any.whl     a wheel of sources, which builds its probes
    tollmeter-VERSION-...-linux.whl   a wheel with prebuilt probes, for each ABI that is a CPU's own
    SHA256SUMS

The same commit and compilers give the same files: every time is the commit's."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tollmeter.toolchain.prebuilt import FOLDER  # noqa: E402
from tollmeter.version import VERSION  # noqa: E402

NAME = f"toll-{VERSION}"
PLATFORMS = {"x86_64": "manylinux2014_x86_64", "aarch64": "manylinux2014_aarch64"}
"""pip's name for the machines that an ABI is the own one of."""
XZ = "--lzma2=preset=6,dict=256MiB"
"""The dictionary holds all probes of an ABI at once: each has the C library's code again."""


def committed(folder: Path) -> Path:
    """The tree of the last commit, without git's own files."""
    archive = folder / f"{NAME}.tar"
    run("git", "-C", ROOT, "archive", f"--prefix={NAME}/", "-o", archive, "HEAD")
    run("tar", "-xf", archive, "-C", folder)
    archive.unlink()
    return folder / NAME


def wheels(tree: Path, folder: Path, environment: dict[str, str]) -> None:
    """One of sources, and one for each CPU."""
    words = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    run(*words, cwd=tree, env=environment)
    for abi, platform in PLATFORMS.items():
        if (probes := tree / FOLDER / abi).is_dir():
            run(*words, cwd=tree, env={**environment, "TOLL_PREBUILT": str(probes), "TOLL_PLATFORM": platform})


def archive(tree: Path, folder: Path, seconds: str) -> None:
    """In the order of names, and with no owner."""
    words = ["tar", "--sort=name", f"--mtime=@{seconds}", "--owner=0", "--group=0", "--numeric-owner", "-c", tree.name]
    with (folder / f"{NAME}.tar.xz").open("wb") as file, subprocess.Popen(
        words, cwd=tree.parent, stdout=subprocess.PIPE
    ) as tar:  # fmt: skip
        run("xz", "-c", XZ, stdin=tar.stdout, stdout=file)
    if tar.returncode:
        raise subprocess.CalledProcessError(tar.returncode, words)


def run(*words: str | Path, **options: object) -> None:
    """Ends the release where a command fails."""
    subprocess.run(words, check=True, **options)  # type: ignore[call-overload]


def main(folder: Path, abis: list[str]) -> None:
    """All of it. The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tree").mkdir(parents=True)
    seconds = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True
    ).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds, "PYTHONDONTWRITEBYTECODE": "1"}
    tree = committed(folder / "tree")
    run(sys.executable, tree / "packaging/probes.py", *abis, env=environment)
    run(sys.executable, tree / "packaging/manual.py", tree / "share", env=environment)
    wheels(tree, folder, environment)
    archive(tree, folder, seconds)
    shutil.rmtree(folder / "tree")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    for path in files:
        print(f"{path} {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
