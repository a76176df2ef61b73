# SPDX-License-Identifier: Apache-2.0
"""Where layouts are prepared ahead, and beside which visits that disturbs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

import made
from machines import KIB, LATENCY, MACHINE, MIB
from tollmeter.conduct.prestaging import SetupCpu, beside
from tollmeter.model import Cache, Point, Probe, Role, Topology, Value

FIRST = ((48 * KIB, "1"), (32 * KIB, "1"), (2 * MIB, "1"))
LAST = (32 * MIB, "0-1,4")


def set_up_cpu(
    host: int | None, *caches: tuple[int, str], cluster: str = "", probes: Mapping[str, Probe] = {}
) -> SetupCpu | None:
    """Beside CPU 1. caches: sizes and CPUs that share each, the last level last."""
    described = [Cache(level=1, kind="unified", size_bytes=size, shared_cpus=sharers) for size, sharers in caches]
    topology = Topology(clusters=(cluster,), last_caches=(caches[-1][1],) if caches else ())
    machine = msgspec.structs.replace(MACHINE, caches=tuple(described), topology=topology)
    return beside(machine, 1, host, probes)


@pytest.mark.parametrize("host", [0, 4])
def test_the_host_prepares_where_only_the_last_cache_is_shared(host: int) -> None:
    probes = {"memory.latency": LATENCY}
    assert set_up_cpu(host, *FIRST, LAST, probes=probes) == SetupCpu(host, 2 * MIB, probes)


def test_of_two_levels_the_first_is_private() -> None:
    """A cluster of CPUs without a cache of its own changes nothing."""
    for cluster in ("", "1-2"):
        assert set_up_cpu(2, (64 * KIB, "1"), (1 * MIB, "0-3"), cluster=cluster) == SetupCpu(2, 64 * KIB, {})


@pytest.mark.parametrize(
    ("host", "caches"),
    [
        pytest.param(None, (*FIRST, LAST), id="no CPU for the host"),
        pytest.param(0, (), id="no cache facts"),
        pytest.param(3, (*FIRST, LAST), id="another last cache"),
        pytest.param(1, (*FIRST, (32 * MIB, "1")), id="nobody shares the last cache"),
        pytest.param(0, ((48 * KIB, "0-1"), (2 * MIB, "0-1"), (32 * MIB, "0-3")), id="threads of one core"),
        pytest.param(0, ((48 * KIB, "1"), (2 * MIB, "0-1"), (32 * MIB, "0-3")), id="a second cache in common"),
        pytest.param(4, ((48 * KIB, "0-1"), (2 * MIB, "0-1"), LAST), id="a core that another thread may use"),
        pytest.param(0, ((48 * KIB, "1"), (0, "0-1")), id="a last cache of no size"),
    ],
)
def test_elsewhere_it_does_not(host: int | None, caches: tuple[tuple[int, str], ...]) -> None:
    assert set_up_cpu(host, *caches) is None


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
