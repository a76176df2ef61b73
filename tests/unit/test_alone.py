# SPDX-License-Identifier: Apache-2.0
"""What failed among other tests is tried by itself: a fault fails again, a few that pass are forgiven, many are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.failed_again import MOST, again


def suite(folder: Path, text: str, failed: int) -> Path:
    """A cache that names so many failures of a file of tests."""
    one = folder / "test_one.py"
    one.write_text(text)
    kept = folder / "cache/v/cache"
    kept.mkdir(parents=True)
    (kept / "lastfailed").write_text(json.dumps({f"{one}::test_{number}": True for number in range(failed)}))
    return folder / "cache"


def body_that(holds: str) -> str:
    return "".join(f"def test_{number}() -> None:\n    assert {holds}\n\n" for number in range(MOST + 1))


@pytest.mark.parametrize(
    ("holds", "failed", "code"),
    [("True", 1, 0), ("True", MOST, 0), ("False", 1, 1), ("True", MOST + 1, 1), ("True", 0, 1)],
)
def test_only_a_few_failures_that_pass_by_themselves_are_forgiven(
    holds: str, failed: int, code: int, tmp_path: Path
) -> None:
    assert again(suite(tmp_path, body_that(holds), failed)) == code


def test_a_failure_that_no_test_explains_stays_one(tmp_path: Path) -> None:
    assert again(tmp_path) == 1
