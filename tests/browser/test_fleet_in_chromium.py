# SPDX-License-Identifier: Apache-2.0
"""The page of 2,000 nodes in Chromium: drawn, within the window, and a cell tells where it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Browser

from browser.browser import WATCH
from tollmeter.fleet.judged import HardwareModel, judged
from tollmeter.fleet.report import page
from tollmeter.model import Row

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [1280, 390])
def test_the_map_of_two_thousand_nodes_is_drawn_and_names_its_cells(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    chance = np.random.default_rng(1)
    like = Row(
        probe="memory.latency", revision=1, abi="x86_64", target="local", clock="hardware", parameters={},
        metric="load", unit="ns", better="less", status="ok",
    )  # fmt: skip
    rows = [msgspec.structs.replace(like, parameters={"size": at}) for at in range(700)]
    values = (3 + 0.01 * chance.normal(size=(700, 2000))).astype(np.float32)
    values[:, 1234] += 0.08
    model = HardwareModel("a model", [f"node{at}" for at in range(2000)], rows, values, np.full_like(values, 0.02))
    path = tmp_path / "fleet.html"
    path.write_text(page([judged(model)]).decode())
    shown = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.add_init_script(WATCH)
    shown.goto(path.as_uri())
    canvas = shown.locator("canvas")
    assert canvas.evaluate("one => [one.width, one.height]") == [2000, 700]
    assert shown.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    canvas.focus()
    canvas.press("ArrowDown")
    told = shown.locator(".cell").inner_text()
    assert told.startswith("node1234, memory.latency load size=1: ") and "% slower or more" in told
    shown.locator(".filter").fill("node77")
    assert canvas.evaluate("one => one.width") == 11
    assert shown.evaluate("window.refused ?? []") == [] and complaints == []
