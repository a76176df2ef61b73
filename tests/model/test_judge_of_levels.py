# SPDX-License-Identifier: Apache-2.0
"""A small share of `make models`: levels of both generators' machines, from the rows of the default suite.
MODEL_MACHINES and MODEL_SEED draw others."""

from __future__ import annotations

import os

import pytest

from model.default_suite import planned
from model.judge import GENERATORS, answers_of, rates
from model.other_machines import other_machine, other_rows, told_of

MACHINES = int(os.environ.get("MODEL_MACHINES", "6"))
SEED = int(os.environ.get("MODEL_SEED", "1000"))


@pytest.mark.parametrize("generator", GENERATORS)
def test_levels_are_as_they_are(generator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of so few machines the rates may be as low as chance makes them."""
    found = rates(answers_of(generator, seed)[1] for seed in range(SEED, SEED + MACHINES))
    with capsys.disabled():
        print(f"\n  {generator}: " + ", ".join(f"{name} {good} of {count}" for name, (good, count) in found.items()))
    for name, least in (("no false level", 0.8), ("L1 within one way", 0.8), ("intervals hold", 0.7)):
        good, count = found[name]
        assert good >= least * count, name


def test_where_huge_pages_are_refused_a_whole_sweep_is_in_page_local_order() -> None:
    refusing = next(one for one in map(other_machine, range(100)) if not one.huge_pages)
    rows = other_rows(refusing)
    sizes = {
        pages: {row.parameters["size"] for row in rows if row.parameters["pages"] == pages}
        for pages in ("small", "local")
    }
    begun = {one.size for one in planned(told_of(refusing))[0] if one.pages == "small"}
    assert sizes["small"] >= begun and sizes["local"] >= begun
    assert not any(row.parameters["pages"] == "huge" for row in rows)
