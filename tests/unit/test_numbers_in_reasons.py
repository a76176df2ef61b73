# SPDX-License-Identifier: Apache-2.0
"""Numbers in the sentence that stands in place of a row's number."""

from __future__ import annotations

import pytest

from tollmeter.numbers.row_of import three


@pytest.mark.parametrize(("value", "said"), [(1640.3, "1,640"), (-0.0000799, "-0.0000799"), (4.44, "4.44"), (0.0, "0")])
def test_a_number_in_a_reason_has_no_power_of_ten(value: float, said: str) -> None:
    assert three(value) == said
