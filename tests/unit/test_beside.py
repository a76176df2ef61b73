# SPDX-License-Identifier: Apache-2.0
"""Where layouts are prepared ahead, and beside which visits that disturbs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import made
from machines import KIB, LATENCY, MIB
from tollmeter.conduct import prestaging
from tollmeter.conduct.prestaging import SetupCpu, beside
from tollmeter.model import Point, Probe, Role, Value

FIRST = (("48K", "1"), ("32K", "1"), ("2048K", "1"))
LAST = ("32M", "0-1,4")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prestaging, "SYSTEM", tmp_path)
    return tmp_path


def tell(system: Path, *caches: tuple[str, str]) -> None:
    """What /sys says of the caches of CPU 1: sizes, and who shares them."""
    for number, (size, sharers) in enumerate(caches):
        folder = system / f"cpu1/cache/index{number}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(size + "\n")
        (folder / "shared_cpu_list").write_text(sharers + "\n")


@pytest.mark.parametrize("host", [0, 4])
def test_the_host_prepares_where_only_the_last_cache_is_shared(system: Path, host: int) -> None:
    tell(system, *FIRST, LAST)
    found = beside(1, host, {"memory.latency": LATENCY})
    assert found == SetupCpu(host, 2 * MIB, {"memory.latency": LATENCY})


def test_of_two_levels_the_first_is_private(system: Path) -> None:
    tell(system, ("64K", "1"), ("1M", "0-3"))
    assert beside(1, 2, {}) == SetupCpu(2, 64 * KIB, {})


@pytest.mark.parametrize(
    ("host", "caches"),
    [
        pytest.param(None, (*FIRST, LAST), id="no CPU for the host"),
        pytest.param(0, (), id="no cache facts"),
        pytest.param(3, (*FIRST, LAST), id="another last cache"),
        pytest.param(1, (*FIRST, ("32M", "1")), id="nobody shares the last cache"),
        pytest.param(0, (("48K", "0-1"), ("2M", "0-1"), ("32M", "0-3")), id="threads of one core"),
        pytest.param(0, (("48K", "1"), ("2M", "0-1"), ("32M", "0-3")), id="cores with a second cache in common"),
        pytest.param(4, (("48K", "0-1"), ("2M", "0-1"), LAST), id="a measured core that another thread may use"),
        pytest.param(0, (("48K", "1"), ("0K", "0-1")), id="a last cache of no size"),
    ],
)
def test_elsewhere_it_does_not(system: Path, host: int | None, caches: tuple[tuple[str, str], ...]) -> None:
    tell(system, *caches)
    assert beside(1, host, {}) is None


@pytest.mark.parametrize("size", ["", "32", "32X", "lots", "\xff"])
def test_a_size_that_nobody_can_read_is_no_cache(system: Path, size: str) -> None:
    tell(system, *FIRST, (size, "0-1"))
    assert beside(1, 0, {}) is None


LOCKSTEP = Role(name="partner", worker="thread", pace="lockstep")
BACKGROUND = Role(name="writer", worker="process", pace="background")
PRIVATE = 2 * MIB


def place(**more: Any) -> tuple[SetupCpu, Point]:
    """A place beside a probe of such a kind, and a point of it that says no size."""
    told: Mapping[str, Probe] = {"any.probe": made.probe(**more)}
    return SetupCpu(0, PRIVATE, told), Point(probe="any.probe", abi="x86_64", target="local")


@pytest.mark.parametrize(
    ("more", "may_begin", "is_calm"),
    [
        ({}, True, True),
        ({"roles": (LOCKSTEP,)}, False, False),
        ({"roles": (BACKGROUND,)}, True, False),
        ({"roles": (BACKGROUND, LOCKSTEP)}, False, False),
        ({"switches": True}, False, False),
        ({"spreads": True}, False, False),
        ({"faults": True}, True, False),
    ],
)
def test_who_may_be_prepared_elsewhere_and_beside_whom(more: dict[str, Any], may_begin: bool, is_calm: bool) -> None:
    where, point = place(**more)
    assert where.may_begin(point) == may_begin
    assert where.is_calm(point, own_bytes=4096) == is_calm


def sized(*sizes: int, **others: Value) -> tuple[SetupCpu, Point]:
    """Of a probe with parameters that are sizes, and such that are not."""
    names = [f"size{number}" for number in range(len(sizes))]
    like = LATENCY.parameters[0]
    parameters = [msgspec.structs.replace(like, name=name) for name in names]
    parameters += [msgspec.structs.replace(like, name=name, kind="count") for name in others]
    where, point = place(parameters=parameters)
    return where, msgspec.structs.replace(point, parameters=(*zip(names, sizes, strict=True), *others.items()))


def test_a_visit_is_calm_whose_data_fit_into_half_of_the_private_caches() -> None:
    for sizes, is_calm in (
        ((PRIVATE // 2,), True),
        ((PRIVATE // 2 + 1,), False),
        ((PRIVATE // 4, PRIVATE // 4), True),
        ((PRIVATE // 4, PRIVATE // 2), False),
    ):
        where, point = sized(*sizes, bytes_that_are_no_size=PRIVATE)
        assert where.is_calm(point, own_bytes=0) == is_calm, sizes
        assert where.is_calm(point, own_bytes=64 * PRIVATE) == is_calm, "what the point says comes first"


def test_where_a_point_says_no_size_what_its_process_holds_counts() -> None:
    where, point = sized(count=9 * PRIVATE)
    assert where.is_calm(point, own_bytes=PRIVATE // 2)
    assert not where.is_calm(point, own_bytes=PRIVATE // 2 + 1)
