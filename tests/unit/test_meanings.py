# SPDX-License-Identifier: Apache-2.0
"""What a probe says of itself is believed as far as it can be meant."""

from __future__ import annotations

import msgspec
import pytest

from support.builders import metric, probe, row
from tollmeter.inference.answers import number
from tollmeter.model import Metric
from tollmeter.model.described import NEEDS
from tollmeter.numbers.meanings import meaning, with_meaning


@pytest.mark.parametrize("means", NEEDS)
def test_a_meaning_without_what_it_is_of_is_none(means: str) -> None:
    probes = {"any.probe": probe(metric(means=means))}
    whole = msgspec.structs.replace(
        row(1.0), probe="any.probe", metric="cost", parameters=dict.fromkeys(NEEDS[means], 8)
    )
    assert meaning(whole, probes) == means
    for name in NEEDS[means]:
        lacking = {other: value for other, value in whole.parameters.items() if other != name}
        for parameters in (lacking, {**lacking, name: "eight"}):
            ill = msgspec.structs.replace(whole, parameters=parameters)
            assert meaning(ill, probes) is None
            assert with_meaning([ill], probes, means) == []


def test_a_misspelt_parameter_is_an_error_and_not_zero() -> None:
    measured = row(1.0, parameters={"size": 8, "pages": "huge"})
    assert number(measured, "size") == 8
    for name in ("sizes", "pages"):
        with pytest.raises(KeyError, match=name):
            number(measured, name)


def test_a_unit_of_no_closed_set_is_refused() -> None:
    told = {"name": "m", "unit": "constructor", "better": "less", "summary": "s"}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told, Metric)
    assert msgspec.convert({**told, "unit": "ns"}, Metric).unit == "ns"
