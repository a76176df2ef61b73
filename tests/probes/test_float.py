# SPDX-License-Identifier: Apache-2.0
"""Floating point three ways: right each way, dearer the further from an FPU, and never unproven."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.visiting import asked_of, cost, visit, visits
from tollmeter.model import Outcome, Value

KERNELS = ("float.dot", "float.distance", "float.fir", "float.fft", "float.elements")
CALL = "float.call"
WAYS = ("hardware", "emulated", "trapped")
BREAKS = (
    ("float/dot.cc", "s0 = s0 + a[0] * b[0];", "s0 = s0 + a[1] * b[0];"),
    ("float/distance.cc", "s0 = s0 + squared(a[0] - b[0]);", "s0 = s0 + squared(a[0] + b[0]);"),
    ("float/fir.cc", "s0 = s0 + h[k] * x[k];", "s0 = s0 - h[k] * x[k];"),
    ("float/fft.cc", "b[0] = a[0] - re, b[1] = a[1] - im;", "b[0] = a[0] - re, b[1] = a[1] + im;"),
    ("float/call.cc", "return a + b;", "return a - b;"),
    ("float/elements.cc", "result[i] = a[i] * b[i];", "result[i] = a[i] * b[0];"),
)


def done(abi: str, probe: str, **where: str | int) -> Outcome:
    found = visit(abi, probe, samples=3, **where)
    if found.status == "unsupported":
        pytest.skip(str(found.reason))
    return found


@pytest.mark.parametrize("name", [name for name, _, _ in BREAKS])
@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("n", [16, 4096])
def test_a_broken_kernel_has_no_number(broken: Path, own_abi_name: str, name: str, precision: str, n: int) -> None:
    probe = name.removesuffix(".cc").replace("/", ".")
    where = {} if probe == CALL else {"n": n}
    found = visit(own_abi_name, probe, root=broken, samples=1, precision=precision, **where)
    assert found.status == "wrong_answer", (found.status, found.reason)


@pytest.mark.parametrize("probe", KERNELS)
def test_every_way_and_precision_is_right_at_short_and_long_lengths(abi: str, probe: str) -> None:
    points: list[dict[str, Value]] = [
        {"n": n, "precision": precision, "way": way}
        for way in WAYS
        for precision in ("float", "double")
        for n in ((16, 64) if way == "trapped" else (16, 1024, 65536))
    ]
    for found in visits(abi, probe, asked_of(abi, points)):
        assert found.status == "ok" or (found.status == "unsupported" and found.reason), (found.point, found.reason)


@pytest.mark.machine
@pytest.mark.parametrize("probe", KERNELS)
def test_a_library_costs_more_than_an_fpu_and_a_trap_more_than_a_library(abi: str, probe: str) -> None:
    hardware, emulated, trapped = (cost(done(abi, probe, n=16, precision="double", way=way)) for way in WAYS)
    assert emulated > 2 * hardware
    assert trapped > 3 * emulated


def test_flops_are_counted_as_everyone_counts_them(abi: str) -> None:
    assert done(abi, "float.dot", n=1024).work.flops == pytest.approx(2 * 1024, rel=0.01)
    assert done(abi, "float.distance", n=1024).work.flops == pytest.approx(3 * 1024, rel=0.01)
    assert done(abi, "float.fft", n=1024).work.flops == 5 * 1024 * 10


@pytest.mark.parametrize("n", [0, 1, 17, 1000])
def test_a_length_that_no_transform_has_is_refused_in_words(abi: str, n: int) -> None:
    found = visit(abi, "float.fft", samples=1, n=n)
    assert found.status == "unsupported"
    assert found.reason


@pytest.mark.parametrize(
    ("probe", "doubles", "more"),
    [("float.dot", 2, 0), ("float.distance", 2, 0), ("float.fir", 2, 512), ("float.fft", 5, 0)],
)
def test_a_footprint_is_all_that_an_iteration_touches(abi: str, probe: str, doubles: int, more: int) -> None:
    """An FFT's table of places has 4 bytes for each; a filter has 32 taps, and as many inputs beyond its outputs."""
    for n, width, precision in ((64, 4, "float"), (1024, 8, "double")):
        places = 4 * n if probe == "float.fft" else 0
        expected = doubles * n * width + more * width // 8 + places
        assert done(abi, probe, n=n, precision=precision).work.footprint_bytes == expected
