# SPDX-License-Identifier: Apache-2.0
"""Simulated times that are kept in tests/recordings/model.json.xz: tests of the inferences ask for the same each time.

They are inputs, as recorded runs are. A call that is not in the recording is simulated. Of those that are in it, one
call in CHECKED is simulated as well and has to agree: else the model has changed, and `make model-recording` records
it."""

from __future__ import annotations

import atexit
import hashlib
import json
import lzma
import os
from collections.abc import Callable
from functools import cache
from math import isclose
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

RECORDING = Path(__file__).parents[1] / "recordings" / "model.json.xz"
CHECKED = 128
WITHIN = 0.01
"""Another compiler rounds otherwise, and the lines that other cores bring come a moment sooner or later."""
DIGITS = 12
"""Of a call's name: of 20,000 calls two have the same one with a chance of one in a million."""

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer", float, int, tuple[float, float])


@cache
def _kept() -> dict[str, float | list[float]]:
    if os.environ.get("MODEL_RECORD") == "yes":
        return {}
    with lzma.open(RECORDING, "rt") as file:
        return cast("dict[str, float | list[float]]", json.load(file))


def _keep() -> None:
    with lzma.open(RECORDING, "wt") as file:
        json.dump(dict(sorted(_kept().items())), file, separators=(",", ":"))


if os.environ.get("MODEL_RECORD") == "yes":
    atexit.register(_keep)


def recorded(simulate: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """Returns a function that answers as `simulate` does, from the recording where the call is in it."""

    def answer(*words: Asked.args, **named: Asked.kwargs) -> Answer:
        call = f"{simulate.__module__}.{simulate.__name__} {words} {sorted(named.items())}"
        name = hashlib.sha256(call.encode()).hexdigest()[:DIGITS]
        if name not in _kept():
            found = simulate(*words, **named)
            _kept()[name] = list(found) if isinstance(found, tuple) else found
            return found
        kept = _kept()[name]
        made = cast("Answer", tuple(kept) if isinstance(kept, list) else kept)
        assert int(name, 16) % CHECKED or _agree(made, simulate(*words, **named)), (
            f"the recording has {made} of {call}, and the model another answer: make model-recording"
        )
        return made

    return answer


def _agree(kept: Answer, simulated: Answer) -> bool:
    pairs = zip(kept, simulated, strict=True) if isinstance(kept, tuple) else [(kept, simulated)]  # type: ignore[arg-type]
    return all(isclose(one, other, rel_tol=WITHIN) for one, other in pairs)
