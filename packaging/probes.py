# SPDX-License-Identifier: Apache-2.0
"""Builds the probes of ABIs in the tree that this file is in, and leaves them in its prebuilt/ABI.tar.xz:

    python3 packaging/probes.py ABI...

An ABI without its compiler is left out and named. The tree must have no build/, since what libraries added to a probe
would be brought too."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tollmeter.model import Failure  # noqa: E402
from tollmeter.targets import Lack  # noqa: E402
from tollmeter.toolchain import prebuilt  # noqa: E402
from tollmeter.toolchain.abis import read_abi  # noqa: E402
from tollmeter.toolchain.build import build_abi, find_compiler  # noqa: E402


def build(name: str) -> None:
    """Raises Failure where the ABI does not build."""
    abi = read_abi(ROOT / "abis" / f"{name}.toml")
    compiler = find_compiler(abi)
    if isinstance(compiler, Lack):
        print(f"{name} is left out: {compiler.reason}: {compiler.mend}")
        return
    if broken := build_abi(ROOT, abi, compiler).broken:
        raise Failure("; ".join(f"{probe}: {why}" for probe, why in broken.items()))
    print(f"{prebuilt.keep(ROOT, abi, ROOT / prebuilt.FOLDER)} probes for {name}", flush=True)


if __name__ == "__main__":
    if (ROOT / "build").exists():
        sys.exit(f"{ROOT / 'build'} exists: a release is built from sources alone")
    try:
        for word in sys.argv[1:]:
            build(word)
    except Failure as failure:
        sys.exit(failure.sentence)
    finally:
        shutil.rmtree(ROOT / "build", ignore_errors=True)
