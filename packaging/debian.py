# SPDX-License-Identifier: Apache-2.0
"""Writes the Debian source package of the last commit into a folder: `make debian-source`, or

    .venv/bin/python packaging/debian.py FOLDER

    tollmeter_VERSION.orig.tar.xz           the commit without debian/
    tollmeter_VERSION.orig-vendor.tar.xz    what Debian lacks, fetched by its hashes and unpacked
    tollmeter_VERSION-1.debian.tar.xz       debian/
    tollmeter_VERSION-1.dsc

It needs pip, npm and dpkg-dev, and a network. A build of what it writes needs no network. The same commit gives the
same files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from release import ROOT, VERSION, archive, committed, of_git, run

PYTHON = ("annotated-doc", "typer")
"""Packages of requirements/run.lock that Debian 12 lacks or has too old. Their wheels are their sources."""
COMPILED = "msgspec"
"""The same, with a module in C."""
PARTS = re.compile(r"(vega|d3-)[\w-]*|delaunator|fast-json-patch|internmap|json-stringify-pretty-compact|"
                   r"robust-predicates|semver|topojson-client|tslib|node_modules")  # fmt: skip
"""The libraries that a page's script is made of; the others belong to commands and types, which no page has."""
KEPT = re.compile(r"package\.json|LICENSE.*|.*(?<!\.min)\.m?js|.*(?<!\.d)\.ts")


def python_sources(vendor: Path, scratch: Path) -> None:
    """vendor/python: packages as they are installed; vendor/msgspec: the C of its module."""
    lock = (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    entries = {entry.partition("==")[0]: entry for entry in re.split(r"\n(?=\S)", lock)}
    chosen = scratch / "chosen.lock"
    chosen.write_text("\n".join(entries[name] for name in (*PYTHON, COMPILED)) + "\n", encoding="utf-8")
    run(
        sys.executable, "-m", "tollmeter.installer", "download", "-q", "--no-deps", "--require-hashes", "-r", chosen,
        "-d", scratch, "--only-binary", ":all:", "--no-binary", COMPILED, cwd=ROOT / "src",
    )  # fmt: skip
    for wheel in scratch.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(vendor / "python")
    (source,) = scratch.glob("*.tar.gz")
    with tarfile.open(source) as opened:
        opened.extractall(scratch, filter="data")
    unpacked = scratch / source.name.removesuffix(".tar.gz")
    shutil.copytree(unpacked / "src" / COMPILED, vendor / "python" / COMPILED, ignore=shutil.ignore_patterns("*.[ch]"))
    (vendor / COMPILED).mkdir()
    for path in (unpacked / "LICENSE", *(unpacked / "src" / COMPILED).glob("*.[ch]")):
        shutil.copy2(path, vendor / COMPILED)


def script_sources(vendor: Path, scratch: Path) -> None:
    """vendor/vega: the libraries of debian/vega/package-lock.json, without what was minified."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy2(ROOT / "debian/vega" / name, scratch)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", cwd=scratch)
    modules = scratch / "node_modules"
    for path in modules.rglob("*"):
        parts = path.relative_to(modules).parts
        if path.is_file() and PARTS.fullmatch(parts[0]) and KEPT.fullmatch(path.name):
            place = vendor / "vega" / Path(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)


def main(folder: Path) -> None:
    """All of it. The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seconds, os.environ["PYTHONDONTWRITEBYTECODE"] = of_git("log", "-1", "--format=%ct"), "1"
    os.environ["SOURCE_DATE_EPOCH"] = seconds
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        tree = committed(Path(scratch))
        shutil.move(tree / "debian", scratch)
        archive(tree, folder / f"tollmeter_{VERSION}.orig.tar.xz", seconds)
        vendor = tree / "vendor"
        for make in (python_sources, script_sources):
            with tempfile.TemporaryDirectory(dir=folder) as inner:
                make(vendor, Path(inner))
        archive(vendor, folder / f"tollmeter_{VERSION}.orig-vendor.tar.xz", seconds)
        shutil.move(Path(scratch) / "debian", tree)
        run("dpkg-source", "-b", tree, cwd=folder)


if __name__ == "__main__":
    subprocess.run(["dpkg-source", "--version"], check=True, capture_output=True)
    main(Path(sys.argv[1]).resolve())
