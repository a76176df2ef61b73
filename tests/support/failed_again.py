# SPDX-License-Identifier: Apache-2.0
"""Runs failed tests again, alone: another workload may have caused the failure, but a fault fails again.

Exit status 0 only if each of at most eight failures passes now. See docs/decisions/0013."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MOST = 8


def failures(cache: Path) -> list[str]:
    """Returns the tests that failed in the last runs with this cache."""
    kept = cache / "v/cache/lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def again(cache: Path) -> int:
    """Runs the failed tests alone. Returns 0 if they pass; 1 if one fails again, or if there are none or too many."""
    failed = failures(cache)
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"once more, alone, what failed among others: {' '.join(failed)}", flush=True)
    patient = {**os.environ, "TOLL_TEST_PATIENCE_S": "10"}
    tried = subprocess.run([sys.executable, "-m", "pytest", "-q", *failed], env=patient, check=False)
    return int(tried.returncode != 0)


if __name__ == "__main__":
    sys.exit(again(Path(sys.argv[1])))
