# SPDX-License-Identifier: Apache-2.0
"""What failed among other tests, once more by itself: a neighbour may have been loud, but a fault stays a fault.

Ends with 0 only where each of at most eight failures passes now. See docs/decisions/0013."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MOST = 8


def failures(cache: Path) -> list[str]:
    """The tests that failed in the runs that kept what they found there."""
    kept = cache / "v/cache/lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def again(cache: Path) -> int:
    """0: they pass by themselves; 1: there are none that could explain a failure, too many, or one fails again."""
    failed = failures(cache)
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"once more, alone, what failed among others: {' '.join(failed)}", flush=True)
    patient = {**os.environ, "TOLL_TEST_PATIENCE_S": "10"}
    tried = subprocess.run([sys.executable, "-m", "pytest", "-q", *failed], env=patient, check=False)
    return int(tried.returncode != 0)


if __name__ == "__main__":
    sys.exit(again(Path(sys.argv[1])))
