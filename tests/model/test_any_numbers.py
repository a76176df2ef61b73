# SPDX-License-Identifier: Apache-2.0
"""Whatever the numbers are, inference tells or says that it can't: a neighbour's noise must never cost the report."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from model.test_findings import SOUND, results
from support.example_runs import with_index
from tollmeter.findings import all_findings
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import Results, Row
from tollmeter.report.machine_tables import inferred_table


def disturbed(row: Row, random: np.random.Generator, share: float) -> Row:
    """The same row, off by any factor and with an interval of any width; of a difference it may reach below nothing."""
    if row.median is None:
        return row
    median = row.median * float(np.exp(random.normal(0, share)))
    below = float(random.uniform(-0.5, 1.0)) if row.low is not None and row.low <= 0 else float(random.uniform(0.01, 1))
    return msgspec.structs.replace(
        row, median=median, low=median * below, high=median * float(np.exp(abs(random.normal(0, share))))
    )


def measured(seed: int, share: float, kept: float) -> Results:
    random, whole = np.random.default_rng(seed), results(SOUND)
    rows = tuple(disturbed(row, random, share) for row in whole.index.rows if random.random() < kept)
    levels = hierarchy(rows, whole.probes, whole.index.machine)
    return with_index(whole, rows=rows, hierarchy=levels)


@settings(max_examples=12, derandomize=True)
@given(st.integers(0, 2**32), st.sampled_from((0.05, 0.3, 1.0, 3.0)), st.sampled_from((0.02, 0.3, 0.9, 1.0)))
def test_no_numbers_break_the_inferences(seed: int, share: float, kept: float) -> None:
    noisy = measured(seed, share, kept)
    for finding in all_findings(noisy):
        assert "nan" not in finding.claim and "inf " not in finding.claim and " -" not in finding.claim, finding.claim
    inferred_table(noisy)
