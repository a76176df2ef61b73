# SPDX-License-Identifier: Apache-2.0
"""Builds trees of fake probes, laid out as `make probes` lays out real ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from support.waiting import in_time
from tollmeter.library import places
from tollmeter.toolchain import proven
from tollmeter.toolchain.abis import read_abi

SCRIPT = Path(__file__).parents[1] / "faults" / "fake_probe.py"
ENTRY = {
    "revision": 1,
    "question": "What does the shortest system call cost?",
    "metrics": [
        {"name": "round_trip", "unit": "ns", "better": "less", "summary": "one entry and return", "means": "entry",
         "toll": "system call"}
    ],
}  # fmt: skip


def fake(folder: Path, probe: str, behaviour: str = "good", describe: dict[str, Any] | None = None) -> Path:
    """Writes the executable folder/PROBE that behaves as requested, with its stored description, and returns its path.
    folder is named after the ABI."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / probe
    # It fills a page, as every executable does.
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{SCRIPT}" "$0" "$@"\n{"#" * 4096}\n')
    path.chmod(0o755)
    told = {"describe": describe or ENTRY, "behaviour": behaviour}
    path.with_name(probe + ".json").write_text(json.dumps(told))
    path.with_name(probe + ".describe").write_bytes(_described(path, json.dumps(told["describe"])))
    return path


_descriptions: dict[tuple[str, str, str], bytes] = {}


def _described(path: Path, told: str) -> bytes:
    """Returns the description that the executable prints. It runs once for all equal descriptions."""
    key = path.parent.name, path.name, told
    if key not in _descriptions:
        done = subprocess.run([path, "--describe"], capture_output=True, check=True)
        _descriptions[key] = done.stdout
    return _descriptions[key]


SUITE = """
question = "What does an entry cost?"
[[select]]
probe = "kernel.*"
"""


ABI = """
summary = "fakes"
compiler = ["no-such-compiler"]
runs_on = ["{machine}"]
"""


def tree(root: Path, **behaviours: str) -> Path:
    """Makes a checkout of fakes: build/ABI/kernel.NAME for each name, on the ABI of this machine, and a default suite.
    Its manifest says that they were built from its sources, which are empty."""
    shutil.rmtree(root / "probes/kernel", ignore_errors=True)  # a tree that stood there had other probes
    name = platform.machine()
    folder = root / "build" / name
    paths = [fake(folder, f"kernel.{probe}", behaviour) for probe, behaviour in behaviours.items()]
    for sources in ("suites", "abis", "probes/kernel"):
        (root / sources).mkdir(parents=True, exist_ok=True)
    for source in ("Makefile", "probes/libraries.toml", *(f"probes/kernel/{probe}.c" for probe in behaviours)):
        (root / source).touch()
    (root / "suites/default.toml").write_text(SUITE)
    (root / f"abis/{name}.toml").write_text(ABI.format(machine=name))
    of = proven.digests(root, read_abi(root / f"abis/{name}.toml"), [path.name for path in paths])
    made = {path.name: {"made_from": of.whole[path.name], **proven.fingerprint(path.read_bytes())} for path in paths}
    (folder / "manifest.json").write_text(json.dumps(made))
    return root


@contextlib.contextmanager
def worked_in(root: Path) -> Iterator[Path]:
    """Makes verbs of this process work in the checkout of fakes, and yields it."""
    named = {"ROOT": root, "RUNS": root / "runs", "SUITES": root / "suites"}
    with contextlib.chdir(root), mock.patch.multiple(places, **named):
        yield root


def change(root: Path, probe: str, behaviour: str) -> None:
    """Changes the behaviour of a probe of the tree; its executable stays unchanged."""
    path = root / "build" / platform.machine() / f"{probe}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "behaviour": behaviour}))


_TOLL = """
import sys
import time
from tollmeter import starting
starting.hold_signals()
from pathlib import Path
Path(sys.argv[1], "holds-signals").touch()
from tollmeter.library import places
places.ROOT = Path(sys.argv.pop(1))
places.RUNS, places.SUITES = places.ROOT / "runs", places.ROOT / "suites"
from tollmeter.__main__ import main
sys.exit(main())
"""


def toll(root: Path, *words: str, **popen: Any) -> subprocess.Popen[str]:
    """Starts `toll WORDS` in the checkout of fakes, and returns the process."""
    command = [sys.executable, "-c", _TOLL, str(root), *words]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2] / "src"), "COLUMNS": "100"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, "cwd": root, "env": environment, **popen})


def awaited(root: Path, name: str, process: subprocess.Popen[str]) -> None:
    """Waits until a file of the tree exists, which shows that the process handles signals."""
    in_time(lambda: any(root.rglob(name)) or process.poll() is not None)
    assert any(root.rglob(name)), f"{name} did not come"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
