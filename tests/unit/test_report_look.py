# SPDX-License-Identifier: Apache-2.0
"""The palette: readable on its ground, and told apart by people who see fewer colours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from tollmeter.report.chart_style import DARK, HEAT, LIGHT, SERIES

Colour = NDArray[np.float64]

# Machado, Oliveira and Fernandes 2009, table of matrices at severity 1.0, for linear RGB, by rows.
MATRICES = {
    "normal": [1, 0, 0, 0, 1, 0, 0, 0, 1],
    "protanopia": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    "deuteranopia": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881],
    "tritanopia": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900],
}
SIGHT = {name: np.array(rows, dtype=float).reshape(3, 3) for name, rows in MATRICES.items()}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
PALETTES = [LIGHT, DARK]


def linear(colour: str) -> Colour:
    encoded = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.asarray(np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4))


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Colour) -> Colour:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_both_palettes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("sight", SIGHT)
def test_series_have_distinct_colours(palette: dict[str, str], sight: str) -> None:
    seen = {name: lab(SIGHT[sight] @ linear(palette[name])) for name in SERIES}
    for one, other in itertools.combinations(SERIES, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= 20, (one, other)


@pytest.mark.parametrize("palette", PALETTES)
def test_marks_and_words_stand_out_from_the_ground(palette: dict[str, str]) -> None:
    ground = palette["ground"]
    assert all(contrast(palette[name], ground) >= 3 for name in SERIES)
    assert all(contrast(palette[name], ground) >= 4.5 for name in ("ink", "muted", "accent", "warn"))
    assert contrast(palette["muted"], palette["raised"]) >= 4.5


@pytest.mark.parametrize("palette", PALETTES)
def test_heat_goes_one_way_and_its_numbers_are_readable(palette: dict[str, str]) -> None:
    seen = [luminance(palette[name]) for name in HEAT]
    assert seen in (sorted(seen), sorted(seen, reverse=True))
    assert all(contrast(palette[name], palette["heat-text-low"]) >= 4.5 for name in HEAT[:4])
    assert all(contrast(palette[name], palette["heat-text-high"]) >= 4.5 for name in HEAT[4:])
