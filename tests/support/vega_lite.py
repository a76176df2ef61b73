# SPDX-License-Identifier: Apache-2.0
"""Vega-Lite's published schema, by which whole specifications are validated.

Run as a program, it stores the schema in .venv, as `./toll --set-up-tests` does: one file of Altair's wheel, of which
nothing is installed. Vega-Lite's own package has the same file, and needs npm."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / ".venv/vega-lite-6.4.1.json"
SHA256 = "4f11cd379b7cac0ddee17eefea84c028bd41619ace28778acf843c009e43abd2"
WHEEL, MEMBER = "altair==6.3.0", "altair/vegalite/v6/schema/vega-lite-schema.json"
DOWNLOAD = ("-m", "tollmeter.installer", "download", "-q", "--no-deps", "--only-binary", ":all:")


@cache
def _validator() -> Any:
    from jsonschema import Draft7Validator

    assert SCHEMA.is_file(), f"{SCHEMA} is not fetched: ./toll --set-up-tests"
    return Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def check(spec: dict[str, Any]) -> None:
    """Fails with the deepest position that the schema refuses. Two rows of a data set suffice, since the schema allows
    any."""
    few = {name: rows[:2] for name, rows in spec["datasets"].items()}
    refused = [*_causes(_validator().iter_errors({**spec, "datasets": few}))]
    deepest = max(refused, key=lambda error: len(error.absolute_path), default=None)
    assert deepest is None, f"{deepest.json_path}: {deepest.message}"


def _causes(errors: Iterable[Any]) -> Iterator[Any]:
    """Yields errors with their causes: an error of `anyOf` has one for each alternative."""
    for error in errors:
        yield error
        yield from _causes(error.context)


def keep() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-I", *DOWNLOAD, "-d", scratch, WHEEL], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            content = opened.read(MEMBER)
    if hashlib.sha256(content).hexdigest() != SHA256:
        sys.exit(f"{MEMBER} of {WHEEL} is not the file that is pinned")
    SCHEMA.write_bytes(content)


if __name__ == "__main__":
    keep()
