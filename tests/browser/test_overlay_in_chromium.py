# SPDX-License-Identifier: Apache-2.0
"""The page of two runs where it is read: drawn in peace, on a phone too, with one run or one series alone if wanted."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Locator

from browser.browser import Gallery
from browser.test_page_for_everybody import violations
from browser.test_page_in_chromium import check_peace
from support import example_runs
from tollmeter.report import overlay
from tollmeter.report.charts import Overlay

pytestmark = pytest.mark.browser

FADED = "(all) => all.filter(one => Number(one.getAttribute('opacity') ?? 1) < 0.5).length"


def two() -> Overlay:
    return overlay.two((example_runs.small(), example_runs.another_machine()))


def beside_hostile() -> Overlay:
    return overlay.two((example_runs.hostile(), example_runs.another_machine()))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_every_chart_of_two_runs_is_drawn_in_peace(
    gallery: Gallery, width: int, scheme: Literal["light", "dark"]
) -> None:
    with gallery.show(two, width=width, scheme=scheme) as shown:
        check_peace(shown)
        assert shown.overflow() <= 0
        outside = "(all, width) => all.filter(one => one.getBoundingClientRect().right > width).length"
        assert shown.page.locator(".plot .mark-text.role-legend-label text").evaluate_all(outside, width) == 0


def test_a_run_that_is_chosen_in_the_legend_stands_alone_and_so_does_a_series(gallery: Gallery) -> None:
    with gallery.show(two, of="#chart-latency") as shown:
        plot = shown.page.locator("#chart-latency .plot")
        lines = plot.locator(".mark-line path")
        assert lines.count() == 6 and _faded(lines) == 0
        plot.locator(".role-legend-label text", has_text="B ·").click(force=True)
        assert _faded(lines) == 3
        plot.locator(".role-legend-label text", has_text="huge pages").click(force=True)
        assert _faded(lines) == 5
        assert shown.complaints == []


def _faded(lines: Locator) -> int:
    return int(lines.evaluate_all(FADED))


def test_hostile_names_of_a_run_are_text(gallery: Gallery) -> None:
    with gallery.show(beside_hostile) as shown:
        check_peace(shown)
        assert example_runs.HOSTILE in shown.page.locator("h1").inner_text()
        assert example_runs.HOSTILE in str(shown.page.locator("#chart-latency svg").text_content())


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_rule_of_axe_is_broken(gallery: Gallery, width: int, scheme: Literal["light", "dark"]) -> None:
    with gallery.show(two, width=width, scheme=scheme, folded=True, bypass_csp=True) as shown:
        assert violations(shown.page) == []
