# SPDX-License-Identifier: Apache-2.0
"""A small share of `make models`: levels of the second generator's machines, from the rows of the default suite; those
of the first are in test_recovery.py, which has its machines already. MODEL_MACHINES and MODEL_SEED draw others."""

from __future__ import annotations

import os

from model.default_suite import planned
from model.judge import wrong_of_a_few
from model.other_machines import other_machine, other_rows, told_of

MACHINES = int(os.environ.get("MODEL_MACHINES", "6"))
SEED = int(os.environ.get("MODEL_SEED", "1000"))


def test_levels_of_the_second_generator_are_as_they_are() -> None:
    assert wrong_of_a_few("second", range(SEED, SEED + MACHINES)) == []


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
