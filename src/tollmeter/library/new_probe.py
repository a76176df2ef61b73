# SPDX-License-Identifier: Apache-2.0
"""A new probe: a file of its own that compiles and measures without further edits."""

from __future__ import annotations

import re
from pathlib import Path

from tollmeter import root
from tollmeter.model import Failure
from tollmeter.protocol import clean
from tollmeter.toolchain.build import probe_names

SKELETON = "probes/skeleton.c"
_NAME = re.compile(r"([a-z]+)\.([a-z][a-z0-9_]*)")
_RUNTIME = "runtime"


def new_probe(tree: Path, name: str) -> Path:
    """Writes probes/FAMILY/NAME.c. Raises Failure: 2 for an invalid or existing name, 5 without a checkout."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] == _RUNTIME:
        raise Failure(f"{clean(name)!r} is not a probe name: expected FAMILY.NAME, as in kernel.getrandom")
    if name in probe_names(tree / "probes"):
        raise Failure(f"there is a probe {name} already")
    if not root.IS_CHECKOUT:
        raise Failure("a new probe needs a checkout (git clone), and this Tollmeter was installed", 5)
    path = tree / "probes" / match[1] / f"{match[2]}.c"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as made:
            made.write((tree / SKELETON).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}; a new probe needs a checkout of your own", 5) from error
    return path
