# SPDX-License-Identifier: Apache-2.0
"""`python -m tollmeter.cli.set_up`: builds the probes and tells of it on standard error. ./toll and make start this.

Leaves build/gaps, one line for each ABI that cannot be built here, and build/stamp, which ./toll compares with the
sources: its first line is the CPU that the probes were built for.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

from tollmeter.build import Gap, Made, build_all
from tollmeter.model import Failure

ROOT = Path(__file__).resolve().parents[3]
NOTHING_RAN = 6


def main() -> int:
    """Returns the exit status."""
    started = time.monotonic()
    begun = time.time()
    try:
        made, gaps = build_all(ROOT, platform.machine())
        if not made:
            raise Failure(f"no ABI can be built here: {'; '.join(map(_sentence, gaps))}", NOTHING_RAN)
        _leave(gaps, begun)
    except Failure as failure:
        _say(failure.sentence)
        return failure.exit_code
    except OSError as error:
        _say(f"{error.filename} cannot be written: {error.strerror}")
        return 5
    _tell(made, gaps, time.monotonic() - started)
    return 0


def _leave(gaps: list[Gap], begun: float) -> None:
    (ROOT / "build/gaps").write_text("".join(f"{_sentence(gap)}\n" for gap in gaps), encoding="utf-8")
    stamp = ROOT / "build/stamp"
    stamp.write_text(f"{platform.machine()}\n", encoding="utf-8")
    # A source saved while the build ran is younger than the stamp, and so built the next time.
    os.utime(stamp, (begun, begun))


def _tell(made: list[Made], gaps: list[Gap], seconds: float) -> None:
    for gap in gaps:
        _say(f"left out {_sentence(gap)}")
    abis = ", ".join(one.abi if one.runs else f"{one.abi} (not run by this kernel)" for one in made)
    _say(f"built {made[0].probes} probes for {abis}: {seconds:.0f} s")


def _sentence(gap: Gap) -> str:
    return f"{gap.abi} ({gap.reason}); on Debian it needs {' '.join(gap.packages)}"


def _say(sentence: str) -> None:
    print(f"toll: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
