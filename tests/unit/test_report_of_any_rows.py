# SPDX-License-Identifier: Apache-2.0
"""Whatever of a run is there, it has a report: who stops a run early is to read what was measured until then."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import example_runs
from support.rendered import printed
from tollmeter.model import Results
from tollmeter.report.charts import charts
from tollmeter.report.markdown import render


@cache
def whole(name: str) -> Results:
    if name == "emulated":
        return example_runs.emulated()
    return example_runs.healthy(("x86_64", "x86_64-musl", "ia32", "ia32-x87"), visits=0)


@pytest.mark.parametrize("name", ["native", "emulated"])
@settings(max_examples=12, derandomize=True)
@given(seed=st.integers(0, 2**32), kept=st.sampled_from((0.01, 0.05, 0.2, 0.6)))
def test_any_part_of_a_run_is_drawn_and_printed(name: str, seed: int, kept: float) -> None:
    chance = random.Random(seed)
    part = example_runs.with_rows(whole(name), [row for row in whole(name).index.rows if chance.random() < kept])
    charts(part)
    render(part)
    printed(part)
