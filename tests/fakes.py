# SPDX-License-Identifier: Apache-2.0
"""Builds trees of fake probes, laid out as `make probes` lays out real ones."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "faults" / "fake_probe.py"
ENTRY = {
    "revision": 1,
    "question": "What does the shortest system call cost?",
    "metrics": [
        {"name": "round_trip", "unit": "ns", "better": "less", "summary": "one entry and return", "means": "entry",
         "toll": "system call"}
    ],
}  # fmt: skip


def fake(folder: Path, probe: str, behaviour: str = "good", describe: dict[str, Any] | None = None) -> Path:
    """An executable folder/PROBE that behaves as told, with its saved description. folder is named after the ABI."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / probe
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{SCRIPT}" "$0" "$@"\n')
    path.chmod(0o755)
    told = {"describe": describe or ENTRY, "behaviour": behaviour}
    path.with_name(probe + ".json").write_text(json.dumps(told))
    described = subprocess.run([path, "--describe"], capture_output=True, check=True)
    path.with_name(probe + ".describe").write_bytes(described.stdout)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
