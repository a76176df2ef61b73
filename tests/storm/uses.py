# SPDX-License-Identifier: Apache-2.0
"""Which system calls each probe and a run make, as strace saw them: uses.txt, a line each.

.venv/bin/python -m storm.uses     renews it; strace is needed for that, and nothing else needs it"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build/x86_64"
KEPT = Path(__file__).with_name("uses.txt")
HOST = "toll run"
QUICK = ("--samples=4", "--sample-ns=50000", "--deadline-ms=4000")
RUN = (".venv/bin/python", "-I", "-m", "tollmeter", "run", "kernel.loop", "--budget", "1s", "--quiet", "--beside")
LARGE = "33554432"
"""In the place of so many times the last cache."""
_CALL = re.compile(r"^\d+ +([a-z_0-9]+)\(", re.MULTILINE)
_NUMBER = re.compile(r"^#define __NR_(\w+) (\d+)$", re.MULTILINE)
FIRST = "execve"
"""By which a program is begun: what denies it would never begin."""


def uses() -> Mapping[tuple[str, str], Sequence[str]]:
    """Calls by the probe and its parameters, or `toll run`."""
    found = {}
    for line in KEPT.read_text(encoding="ascii").splitlines():
        who, calls = line.split(": ", 1)
        probe, _, parameters = (who, "", "") if who == HOST else who.partition(" ")
        found[probe, parameters] = calls.split()
    return found


def numbers() -> Mapping[str, int]:
    """Of this CPU's system calls; none where the C library's headers are not here."""
    path = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    return {name: int(number) for name, number in _NUMBER.findall(path.read_text())} if path.is_file() else {}


def _parameters(described: bytes) -> str:
    probe = next(msgspec.json.decode(line) for line in described.splitlines() if line.startswith(b'{"k":"probe"'))
    typical = {one["name"]: one["typical"] for one in probe["parameters"] if one["typical"]}
    return " ".join(f"{name}={LARGE if value.endswith('LAST') else value}" for name, value in typical.items())


def _traced(words: Sequence[str]) -> str:
    with tempfile.NamedTemporaryFile() as log:
        traced = ["strace", "-f", "-qq", "-o", log.name, *words]
        subprocess.run(traced, check=False, cwd=ROOT, capture_output=True, timeout=60)
        return " ".join(sorted({*_CALL.findall(Path(log.name).read_text(errors="replace"))} - {FIRST}))


def main() -> None:
    lines = []
    for described in sorted(BUILT.glob("*.describe")):
        parameters = _parameters(described.read_bytes())
        calls = _traced([str(described.with_suffix("")), *parameters.split(), *QUICK])
        lines.append(f"{described.stem} {parameters}".strip() + f": {calls}")
    with tempfile.TemporaryDirectory() as folder:
        lines.append(f"{HOST}: {_traced([*RUN, '--out', f'{folder}/run'])}")
    KEPT.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
