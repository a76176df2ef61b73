# SPDX-License-Identifier: Apache-2.0
"""Writes a release of the last commit into a folder: `make release`, or

    .venv/bin/python packaging/release.py FOLDER ABI...

    toll-VERSION.tar.xz               sources, manual page, completions, and prebuilt probes of the ABIs
    tollmeter-VERSION.tar.gz          sources for PyPI
    tollmeter-VERSION-...-any.whl     a wheel of sources, which builds its probes
    tollmeter-VERSION-...-linux.whl   a wheel with prebuilt probes, for each ABI that is a CPU's own
    recipes/                          packaging/recipes with the version and the hash of the sources
    SHA256SUMS

All but tollmeter-VERSION.tar.gz bring the script that draws a page's charts. The same commit and compilers give the
same files: every time is the commit's. A tag of the commit must be v and the version of src/tollmeter/version.py."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tollmeter.report.page import chart_script_text  # noqa: E402
from tollmeter.toolchain.prebuilt import ENDING, FOLDER  # noqa: E402
from tollmeter.version import VERSION  # noqa: E402

NAME = f"toll-{VERSION}"
PLATFORMS = {"x86_64": "manylinux2014_x86_64", "aarch64": "manylinux2014_aarch64"}
"""pip's name for the machines that an ABI is the own one of."""


def committed(folder: Path) -> Path:
    """The tree of the last commit, without git's own files."""
    archive = folder / f"{NAME}.tar"
    run("git", "-C", ROOT, "archive", f"--prefix={NAME}/", "-o", archive, "HEAD")
    run("tar", "-xf", archive, "-C", folder)
    archive.unlink()
    return folder / NAME


def wheels(tree: Path, folder: Path, environment: dict[str, str]) -> None:
    """One of sources, and one for each CPU; and the sources."""
    words = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*words, "-t", "sdist", "-t", "wheel", cwd=tree, env=environment)
    for abi, platform in PLATFORMS.items():
        if (probes := tree / FOLDER / f"{abi}{ENDING}").is_file():
            brought = {"TOLL_PREBUILT": str(probes), "TOLL_PLATFORM": platform}
            run(*words, "-t", "wheel", cwd=tree, env={**environment, **brought})


def archive(tree: Path, path: Path, seconds: str) -> None:
    """In the order of names, and with no owner."""
    words = [
        "tar",
        "--sort=name",
        "--mode=u=rwX,go=rX",
        f"--mtime=@{seconds}",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-c",
        tree.name,
    ]
    with path.open("wb") as file, subprocess.Popen(
        words, cwd=tree.parent, stdout=subprocess.PIPE
    ) as tar:  # fmt: skip
        run("xz", "-c", stdin=tar.stdout, stdout=file)
    if tar.returncode:
        raise subprocess.CalledProcessError(tar.returncode, words)


def of_git(*words: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def check_tags(tags: list[str]) -> None:
    """Ends the release where the commit is tagged as another version."""
    if tags and tags != [f"v{VERSION}"]:
        sys.exit(f"the last commit is tagged {' '.join(tags)}, and src/tollmeter/version.py has {VERSION}")


def recipes(source: Path, folder: Path) -> None:
    """For those who build packages of the sources: each names their version and hash, and versions of the lock file."""
    folder.mkdir()
    lock = (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    marks = {f"@{name}@": version for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE)}
    marks |= {"@VERSION@": VERSION, "@SHA256@": hashlib.sha256(source.read_bytes()).hexdigest()}
    for path in sorted((ROOT / "packaging/recipes").iterdir()):
        text = path.read_text(encoding="utf-8")
        for mark, meant in marks.items():
            text = text.replace(mark, meant)
        (folder / path.name).write_text(text, encoding="utf-8")


def run(*words: str | Path, **options: object) -> None:
    """Ends the release where a command fails."""
    subprocess.run(words, check=True, **options)  # type: ignore[call-overload]


def main(folder: Path, abis: list[str]) -> None:
    """All of it. The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tree").mkdir(parents=True)
    seconds = of_git("log", "-1", "--format=%ct")
    check_tags(of_git("tag", "--points-at", "HEAD", "v*").split())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds, "PYTHONDONTWRITEBYTECODE": "1"}
    tree = committed(folder / "tree")
    run(sys.executable, tree / "packaging/probes.py", *abis, env=environment)
    (tree / FOLDER).mkdir(exist_ok=True)
    (tree / FOLDER / "vega.js").write_text(chart_script_text(), encoding="utf-8")
    run(sys.executable, tree / "packaging/manual.py", tree / "share", env=environment)
    wheels(tree, folder, environment)
    archive(tree, folder / f"{NAME}.tar.xz", seconds)
    shutil.rmtree(folder / "tree")
    recipes(folder / f"tollmeter-{VERSION}.tar.gz", folder / "recipes")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    for path in files:
        print(f"{path} {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
