# SPDX-License-Identifier: Apache-2.0
"""Former names of probes, parameters and choices are read in recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tollmeter
from support.recordings import copied
from tollmeter.model import Failure, Point, RowOf, Select
from tollmeter.model.former_names import present_row_names


@pytest.mark.parametrize(
    ("former", "present"),
    [
        (("memory.memory_set", {"bytes": 8}), ("memory.libc_mem", {"bytes": 8})),
        (
            ("kernel.own_vectors", {"test": "object_other_map", "address": "memory"}),
            ("kernel.custom_vectors", {"test": "object_other_address_space", "address": "memory"}),
        ),
        (("memory.associativity", {"lines": 4, "apart": 64}), ("memory.associativity", {"lines": 4, "stride": 64})),
        (("kernel.call_object", {"map": "same"}), ("kernel.call_object", {"address_space": "same"})),
        (("memory.stream", {"stores": "past_caches"}), ("memory.stream", {"stores": "non_temporal"})),
        (("kernel.supervise_call", {"by": "notice"}), ("kernel.supervise_call", {"by": "user_notification"})),
        (("a.probe_of_a_user", {"map": "same", "apart": 64}), ("a.probe_of_a_user", {"map": "same", "apart": 64})),
    ],
)
def test_a_point_and_a_selection_with_former_names_hold_the_present_ones(
    former: tuple[str, dict[str, int | str]], present: tuple[str, dict[str, int | str]]
) -> None:
    (probe, values), (name, expected) = former, present
    point = Point(probe=probe, abi="x86_64", target="local", parameters=tuple(values.items()))
    assert (point.probe, point.parameters) == (name, tuple(expected.items()))
    for selected in (Select(probe=probe, parameters=dict(values)), RowOf(probe=probe, parameters=values)):
        assert (selected.probe, selected.parameters) == (name, expected)


def test_a_parameter_of_a_glob_may_have_its_former_name() -> None:
    assert Select(probe="kernel.*", parameters={"map": ("same", "other")}).parameters == {
        "address_space": ("same", "other")
    }
    assert Select(probe="kernel.*", parameters={"apart": 64}).parameters == {"apart": 64}


def test_between_run_deviations_of_earlier_runs_are_found_by_the_present_names() -> None:
    former = {
        "kernel.call_object 3 x86_64 local round_trip whole channel=pipe map=other": 0.01,
        "memory.latency 2 x86_64 local load shared size=64": 0.04,
        "memory.memory_set call": 0.02,
        "kernel.mapping 1 x86_64 local map None act=map": 0.03,
    }
    assert present_row_names(former) == {
        "kernel.call_object 3 x86_64 local round_trip uncontended address_space=other channel=pipe": 0.01,
        "memory.latency 2 x86_64 local load contended size=64": 0.04,
        "memory.libc_mem call": 0.02,
        "kernel.mapping 1 x86_64 local map None act=map": 0.03,
    }


def test_a_recorded_run_has_the_present_names_and_its_rows_are_found_by_them(tmp_path: Path) -> None:
    run = tollmeter.derive(copied("repeated/01", tmp_path))
    rows = [row for row in run.rows if row.probe == "kernel.call_object"]
    assert rows and all(row.parameters["address_space"] == "other" for row in rows)
    (probe,) = (probe for probe in run.results.probes.values() if probe.probe == "kernel.call_object")
    assert [parameter.name for parameter in probe.parameters] == ["channel", "placement", "address_space"]
    assert run.row("kernel.call_object", "round_trip", channel="futex", address_space="other") in rows
    with pytest.raises(Failure, match=r"there is no parameter 'map' of kernel\.call_object"):
        run.row("kernel.call_object", map="same")
