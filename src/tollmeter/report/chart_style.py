# SPDX-License-Identifier: Apache-2.0
"""The style of every chart and of the page: two palettes, one accent colour, the type, and the Vega-Lite configuration.

The six series colours were chosen by search: every pair stays 20 or more CIE76 units apart for normal sight and under
simulated protanopia, deuteranopia and tritanopia (Machado et al. 2009, doi:10.1109/TVCG.2009.113), and each has a
contrast of at least 3 to its ground. Shapes and dashes repeat the distinction of the colours."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

SERIES = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6")
HEAT = ("heat-1", "heat-2", "heat-3", "heat-4", "heat-5", "heat-6", "heat-7")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3])

PALETTE = {
    "ground": ("#ffffff", "#14171b"),
    "raised": ("#f6f7f9", "#1b1f25"),
    "ink": ("#1a1f24", "#e7eaed"),
    "muted": ("#566069", "#a6b0b9"),
    "faint": ("#8a939b", "#7c8690"),
    "line": ("#dfe3e7", "#323941"),
    "grid": ("#edeff2", "#252b32"),
    "accent": ("#1a62c4", "#7db0f7"),
    "warn": ("#a33a12", "#ff9b73"),
    "series-1": ("#1a62c4", "#5896ee"),
    "series-2": ("#b23c17", "#f0764f"),
    "series-3": ("#0c9f8a", "#7cf0d0"),
    "series-4": ("#5e1f7a", "#e0b6ff"),
    "series-5": ("#bd8500", "#ffc340"),
    "series-6": ("#414a54", "#828a93"),
    "heat-1": ("#e8f0fb", "#1c2836"),
    "heat-2": ("#c9dcf5", "#21395a"),
    "heat-3": ("#a1c2ec", "#28507f"),
    "heat-4": ("#729fde", "#336ba8"),
    "heat-5": ("#3871bb", "#4f8dcd"),
    "heat-6": ("#2259a4", "#82b4e8"),
    "heat-7": ("#103a76", "#c5defa"),
    "heat-text-low": ("#1a1f24", "#e7eaed"),
    "heat-text-high": ("#ffffff", "#14171b"),
}
"""Colours by name, in light and in dark mode."""
LIGHT, DARK = ({name: pair[place] for name, pair in PALETTE.items()} for place in (0, 1))

THINGS = {
    "small": 0, "small pages": 0, "huge": 1, "huge pages": 1, "local": 2, "small pages, a few at a time": 2,
    "read": 0, "write": 1, "copy": 2, "update": 3,
    "x86_64": 0, "ia32": 1, "x32": 2, "aarch64": 0, "arm-soft": 3, "arm-hard": 4, "arm-fpa": 5,
    "hardware": 0, "emulated": 1, "trapped": 2, "forward": 0, "backward": 1, "random": 2,
    "uncontended core": 0, "contended core": 1, "unknown": 5, "here": 0, "published": 1,
    "portable": 0, "libc": 1, "avx512": 2, "avx2": 3, "sse2": 4, "neon": 2, "A": 0, "B": 1,
}  # fmt: skip
"""Colour numbers by the first words of a name: the same in every chart and on every page."""


def places(names: Sequence[str]) -> list[int]:
    """Returns the colour number of each series: the number that THINGS gives its name, or the next free one if another
    series has that. With more than six series, colours repeat."""
    numbers: dict[str, int] = {}
    for name in sorted(names, key=lambda name_: (_thing(name_) is None, name_)):
        thing, (turn, count) = _thing(name), divmod(len(numbers), len(SERIES))
        first = zlib.crc32(name.encode()) if thing is None else thing
        used = {place % len(SERIES) for place in list(numbers.values())[len(numbers) - count :]}
        nearest = ((first + step) % len(SERIES) for step in range(len(SERIES)))
        numbers[name] = turn * len(SERIES) + next(place for place in nearest if place not in used)
    return [numbers[name] for name in names]


def _thing(name: str) -> int | None:
    """Returns the colour number of a name: by the whole name, or by the part before its first comma or blank."""
    starts = (name, name.partition(",")[0], name.partition(" ")[0])
    return next((THINGS[start] for start in starts if start in THINGS), None)


PAGE_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
PICTURE_FONT = "Helvetica Neue, Arial, Liberation Sans, sans-serif"

Colour = Callable[[str], str]


def by_variable(name: str) -> str:
    """Returns a colour as a variable of the page's style sheet, so that light, dark and print share one drawing."""
    return f"var(--{name})"


def by_value(name: str) -> str:
    """Returns the colour of the light palette, for picture files."""
    return LIGHT[name]


def config(colour: Colour, font: str) -> dict[str, Any]:
    """Returns the Vega-Lite configuration that all charts share. colour: returns a colour by its name. font: CSS font
    family."""
    ink, muted, line = colour("ink"), colour("muted"), colour("line")
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None, "continuousWidth": 640, "continuousHeight": 320},
        "axis": {
            "domainColor": line, "tickColor": line, "gridColor": colour("grid"), "labelColor": muted,
            "titleColor": muted, "titleFontWeight": "normal", "titleFontSize": 12, "labelFontSize": 11,
            "labelPadding": 5, "tickSize": 4, "titlePadding": 10, "labelOverlap": True, "labelSeparation": 6,
        },
        "legend": {
            "orient": "top", "direction": "horizontal", "labelColor": ink, "titleColor": muted,
            "titleFontWeight": "normal", "titleFontSize": 12, "titleOrient": "left", "labelFontSize": 12,
            "symbolStrokeWidth": 2, "symbolSize": 60, "columnPadding": 16, "symbolOpacity": 1,
            "symbolBaseFillColor": muted, "symbolBaseStrokeColor": muted, "offset": 34, "rowPadding": 5,
            "labelLimit": 320,
        },
        "header": {"labelAnchor": "start", "labelColor": ink, "labelFontSize": 12, "labelFontWeight": 600,
                   "title": None},
        "title": {
            "color": ink, "subtitleColor": muted, "fontSize": 16, "subtitleFontSize": 12, "anchor": "start",
            "offset": 18, "subtitlePadding": 6,
        },
        "range": {"category": [colour(name) for name in SERIES], "symbol": list(SHAPES)},
        "style": _styles(colour),
    }  # fmt: skip


def stacked(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration with legends below each other, which Vega accepts and Vega-Lite's schema lacks."""
    layout = {"top": {"anchor": "start", "direction": "vertical"}}
    return {**config, "legend": {**config["legend"], "layout": layout}}


def _styles(colour: Colour) -> dict[str, Any]:
    """Returns the styles of marks by their role; a specification names the style, never a colour."""
    accent = colour("accent")
    return {
        "interval": {"opacity": 0.18, "strokeOpacity": 0},
        "whisker": {"strokeWidth": 1.2, "strokeOpacity": 0.7},
        "curve": {"strokeWidth": 2, "strokeJoin": "round", "strokeCap": "butt"},
        "dot": {"size": 22, "filled": True, "opacity": 1},
        "visit": {"color": accent, "size": 14, "opacity": 0.55},
        "target": {"size": 260, "opacity": 0, "filled": True},
        "reported": {"color": colour("faint"), "strokeDash": [4, 4], "strokeWidth": 1},
        "reported-label": {"color": colour("muted"), "fontSize": 11, "align": "left", "baseline": "top"},
        "knee": {"color": accent, "fillOpacity": 0.13},
        "knee-line": {"color": accent, "strokeWidth": 1.2},
        "knee-label": {"color": accent, "fontSize": 11, "align": "left", "baseline": "bottom", "fontWeight": 600},
        "rung": {"color": accent, "filled": True, "size": 60, "opacity": 1},
        "rung-aside": {"color": colour("faint"), "filled": True, "size": 60, "opacity": 1},
        "between": {"color": colour("grid"), "strokeWidth": 1},
        "rung-line": {"color": colour("muted"), "strokeWidth": 2, "strokeOpacity": 0.6},
        "aside": {"color": colour("warn"), "size": 30, "strokeWidth": 1.4, "filled": False},
        "beside": {"color": colour("faint"), "fillOpacity": 0.5},
        "ideal": {"color": colour("faint"), "strokeDash": [2, 3], "strokeWidth": 1.2},
        "label": {"color": colour("ink"), "fontSize": 12, "align": "left", "baseline": "middle", "limit": 420},
        "value": {"color": colour("muted"), "fontSize": 12, "align": "right", "baseline": "middle"},
        "cell": {"stroke": colour("ground"), "strokeWidth": 1},
        "cell-low": {"color": colour("heat-text-low"), "fontSize": 11},
        "cell-high": {"color": colour("heat-text-high"), "fontSize": 11},
    }


def variables(palette: dict[str, str]) -> str:
    """Returns the palette as declarations of CSS custom properties."""
    return "".join(f"--{name}:{value};" for name, value in palette.items())
