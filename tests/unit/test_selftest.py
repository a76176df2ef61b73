# SPDX-License-Identifier: Apache-2.0
"""What the self-test takes for caught."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

import books
from tollmeter.conduct import Stopping
from tollmeter.library import selftest


@pytest.mark.parametrize(("held_back", "caught"), [(("machine.other_programs_work",), True), ((), False)])
def test_a_neighbour_is_caught_though_the_run_is_too_short_to_tell_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held_back: tuple[str, ...], caught: bool
) -> None:
    """On a machine that is busy already the run has few visits, and holds its findings back."""
    book = books.small()
    book = msgspec.structs.replace(book, index=msgspec.structs.replace(book.index, held_back=held_back))
    monkeypatch.setattr(selftest, "_neighbour", contextlib.nullcontext)
    monkeypatch.setattr(selftest, "_measured", lambda *_: book)
    found = selftest._beside_a_neighbour(tmp_path, tmp_path, Stopping())
    assert (found.by is not None) is caught
